//! The sequence of calls of one response, as strace shows it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::asker::Asker;
use super::servers::{Server, Side};
use super::{SCENARIOS, Scenario, WARM_UP};
use crate::Error;
use crate::lab::{Lab, find};
use crate::report::{Fact, Listing, Outcome};

/// Adds a listing for each scenario, or says what is missing.
pub(super) fn add(lab: &Lab, sides: &[Side], outcome: &mut Outcome) -> Result<(), Error> {
    let Some(strace) = find("strace") else {
        outcome.missing.push("the sequence of calls: install strace".to_owned());
        return Ok(());
    };
    let listings = SCENARIOS.iter().map(|scenario| Listing {
        title: format!("The sequence of one response: {}", scenario.name),
        note: String::new(),
        rows: Vec::new(),
    });
    let mut listings: Vec<_> = listings.collect();
    let mut errors = Vec::new();
    for side in sides {
        match of_side(lab, &strace, side, &mut listings) {
            Ok(()) => {}
            Err(Error::Stopped) => return Err(Error::Stopped),
            Err(error) => errors.push(error),
        }
    }
    listings.retain(|listing| !listing.rows.is_empty());
    outcome.listings.extend(listings);
    Error::all(errors)
}

/// What one server does, in each listing.
fn of_side(lab: &Lab, strace: &Path, side: &Side, listings: &mut [Listing]) -> Result<(), Error> {
    let Some(server) = Server::start(lab, side)? else { return Ok(()) };
    for (scenario, listing) in SCENARIOS.iter().zip(listings) {
        if side.can(scenario) {
            lab.say(&format!("responses: the sequence of {}, {}", scenario.name, side.name()));
            let value = sequence(lab, strace, &server, scenario)?;
            listing.rows.push(Fact { name: side.name().to_owned(), value });
        }
    }
    server.child.stop().map(drop)
}

/// The calls of one response on a connection that stands, in their order.
fn sequence(
    lab: &Lab,
    strace: &Path,
    server: &Server,
    scenario: &Scenario,
) -> Result<String, Error> {
    let mut asker = Asker::connect(lab, server.port)?;
    (0..WARM_UP).try_for_each(|_| asker.ask(scenario))?;
    let out = lab.path().join("strace");
    let _ = fs::remove_file(&out); // there is none the first time
    let mut command = Command::new(strace);
    command.args(["-f", "-p", &server.pid.to_string(), "-o"]).arg(&out);
    let mut tracer = lab.client(command)?;
    tracer.complained("attached")?;
    (0..TRACED).try_for_each(|_| asker.ask(scenario))?;
    let found = tracer.until(SEEN_TIMEOUT, |_| second(&fs::read_to_string(&out).ok()?))?;
    tracer.stop()?;
    Ok(found.join("  "))
}

/// From the arrival of the second request to that of the third: the calls, with their results.
fn second(text: &str) -> Option<Vec<String>> {
    let calls: Vec<_> = text.lines().filter_map(call).collect();
    let mut arrivals =
        calls.iter().enumerate().filter(|(_, call)| call.is_request).map(|(at, _)| at);
    let (from, to) = (arrivals.nth(1)?, arrivals.next()?);
    Some(calls[from..to].iter().map(|call| call.shown.clone()).collect())
}

/// A call that has returned.
#[derive(Debug, PartialEq)]
struct Call {
    shown: String,
    is_request: bool,
}

/// A line of strace: `PID NAME(ARGUMENTS) = RESULT`, or the second half of one that was interrupted
/// by another thread's: `PID <... NAME resumed>ARGUMENTS) = RESULT`.
fn call(line: &str) -> Option<Call> {
    let line = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let (name, rest) = match line.strip_prefix("<... ") {
        Some(rest) => rest.split_once(" resumed>")?,
        None => line.split_once('(')?,
    };
    let result = rest.rsplit_once(" = ")?.1;
    let mut words = result.split(' ');
    let (number, error) = (words.next()?, words.next());
    let flags = ["MSG_MORE", "TCP_NODELAY", "TCP_CORK"].iter().filter(|flag| rest.contains(**flag));
    let flags: String = flags.map(|flag| format!(" {flag}")).collect();
    let told = error.filter(|word| number == "-1" && word.starts_with('E')).unwrap_or(number);
    Some(Call { shown: format!("{name}{flags}={told}"), is_request: rest.contains("\"GET /") })
}

/// As many responses are traced: the wait that was going on belongs to the first.
const TRACED: u32 = 3;
/// Until what has been traced stands in the file.
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
