//! The sequence of system calls of one response, from strace.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{SIDES, TARGETS, WARM_UP, can, exchange, start};
use crate::BenchError;
use crate::lab::Lab;
use crate::report::{Listing, MachineFact, Sheet};
use crate::servers::BenchServer;

/// Adds a listing for each kind of response.
pub(super) fn add(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    lab.installed("strace")?;
    let listing = |(name, ..): &(&str, &str, usize)| Listing {
        title: format!("The sequence of one response: {name}"),
        rows: Vec::new(),
    };
    let mut listings: Vec<_> = TARGETS.iter().map(listing).collect();
    let mut errors = Vec::new();
    for side in SIDES {
        match of_side(lab, side, &mut listings) {
            Ok(()) => {}
            Err(BenchError::Stopped) => return Err(BenchError::Stopped),
            Err(error) => errors.push(error),
        }
    }
    listings.retain(|listing| !listing.rows.is_empty());
    sheet.report.listings.extend(listings);
    BenchError::all(errors)
}

fn of_side(lab: &Lab, side: &str, listings: &mut [Listing]) -> Result<(), BenchError> {
    let server = start(lab, side)?;
    for ((name, target, len), listing) in TARGETS.into_iter().zip(listings) {
        if can(side, target) {
            lab.progress(&format!("responses: the sequence of {name}, {side}"));
            let value = sequence(lab, &server, target, len)?;
            listing.rows.push(MachineFact { name: side.to_owned(), value });
        }
    }
    server.stop()
}

/// The calls of one response on an open connection, in their order.
fn sequence(
    lab: &Lab,
    server: &BenchServer,
    target: &str,
    len: usize,
) -> Result<String, BenchError> {
    let mut client = server.connect()?;
    (0..WARM_UP).try_for_each(|_| exchange(&mut client, target, len))?;
    let out = lab.path().join("strace");
    let _ = fs::remove_file(&out); // there is none the first time
    let mut command: Command = lab.installed("strace")?;
    command.args(["-f", "-p", &server.pid.to_string(), "-o"]).arg(&out);
    let mut tracer = lab.client(command)?;
    tracer.complained("attached")?;
    (0..TRACED).try_for_each(|_| exchange(&mut client, target, len))?;
    let read = |path: &Path| second(&fs::read_to_string(path).ok()?);
    let found = tracer.until(SEEN_TIMEOUT, |_| read(&out))?;
    tracer.stop()?;
    Ok(found.join("  "))
}

/// The calls from the arrival of the second request to that of the third, with their results.
fn second(text: &str) -> Option<Vec<String>> {
    let calls: Vec<_> = text.lines().filter_map(call).collect();
    let mut arrivals =
        calls.iter().enumerate().filter(|(_, call)| call.is_request).map(|(at, _)| at);
    let (from, to) = (arrivals.nth(1)?, arrivals.next()?);
    Some(calls[from..to].iter().map(|call| call.shown.clone()).collect())
}

/// A system call that has returned.
#[derive(Debug, PartialEq)]
struct TracedCall {
    shown: String,
    is_request: bool,
}

/// A line of strace: `PID NAME(ARGUMENTS) = RESULT`, or the second half of one that was interrupted
/// by another thread's: `PID <... NAME resumed>ARGUMENTS) = RESULT`.
fn call(line: &str) -> Option<TracedCall> {
    let line = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let (name, rest) = match line.strip_prefix("<... ") {
        Some(rest) => rest.split_once(" resumed>")?,
        None => line.split_once('(')?,
    };
    let value = rest.rsplit_once(" = ")?.1;
    let mut words = value.split(' ');
    let (number, error) = (words.next()?, words.next());
    let flags = ["MSG_MORE", "TCP_NODELAY", "TCP_CORK"].iter().filter(|flag| rest.contains(**flag));
    let flags: String = flags.map(|flag| format!(" {flag}")).collect();
    let result = error.filter(|word| number == "-1" && word.starts_with('E')).unwrap_or(number);
    Some(TracedCall {
        shown: format!("{name}{flags}={result}"),
        is_request: rest.contains("\"GET /"),
    })
}

/// Traced responses. The wait that was active at the start belongs to the first.
const TRACED: u32 = 3;
/// Until the traced calls are in the file.
const SEEN_TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_response_is_cut_out() {
        let text = "12 <... epoll_wait resumed>[{events=EPOLLIN}], 64, -1) = 1\n\
            12 recvfrom(9, \"GET /tiny HTTP\"..., 99, 0, NULL, NULL) = 40\n\
            12 sendto(9, \"HTTP\"..., 200, MSG_NOSIGNAL, NULL, 0) = 200\n\
            12 epoll_wait(5,  <unfinished ...>\n\
            13 futex(0x1, FUTEX_WAIT) = -1 EAGAIN (Resource temporarily unavailable)\n\
            12 <... epoll_wait resumed>[{events=EPOLLIN}], 64, -1) = 1\n\
            12 recvfrom(9, \"GET /tiny HTTP\"..., 99, 0, NULL, NULL) = 40\n\
            12 sendto(9, \"HTTP\"..., 100, MSG_NOSIGNAL|MSG_MORE, NULL, 0) = 100\n\
            12 recvfrom(9, 0x1, 99, 0, NULL, NULL) = -1 EAGAIN (Resource temporarily unavailable)\n\
            12 epoll_wait(5, [], 64, -1) = 1\n\
            12 recvfrom(9, \"GET /tiny HTTP\"..., 99, 0, NULL, NULL) = 40\n";
        let found = second(text).expect("three requests are in it");
        let expected = ["recvfrom=40", "sendto MSG_MORE=100", "recvfrom=EAGAIN", "epoll_wait=1"];
        assert_eq!(found, expected);
        assert_eq!(second("12 recvfrom(9, \"GET /\", 9, 0) = 4\n"), None);
    }
}
