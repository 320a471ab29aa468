//! A timeline as text: one line for each call, in strace's format.

use std::fmt::Write as _;

use super::errno;
use super::table::{counted, field};
use crate::timeline::{TimedCall, Timeline};

/// The whole timeline. It ends with a line feed.
pub(crate) fn text(timeline: &Timeline) -> String {
    let Timeline { requests, calls, left_out, lost } = timeline;
    let about = match requests {
        Some(n) => {
            format!("{} more, on one connection; times in microseconds", counted(*n, "request"))
        }
        None => "times in microseconds".to_owned(),
    };
    let mut text = field("timeline", &about);
    line(&mut text, ["at", "took", "thread"], "call");
    for call in calls {
        let thread = call.thread.to_string();
        let call_text = format!("{}({}) = {}", call.name, call.arguments, result(call));
        line(&mut text, [&micros(call.at_ns), &micros(call.took_ns), &thread], &call_text);
    }
    if *left_out > 0 {
        text += &field("left out", &format!("{} that followed", counted(*left_out, "call")));
    }
    if *lost > 0 {
        let lost = counted(*lost, "event");
        text += &field("lost", &format!("{lost}: calls are missing at unknown places"));
    }
    text
}

fn line(text: &mut String, [at, took, thread]: [&str; 3], call: &str) {
    writeln!(text, "  {at:>10}  {took:>9}  {thread:>8}  {call}")
        .expect("a string takes everything");
}

/// Nanoseconds as microseconds. Empty for a call that began before counting did.
fn micros(nanos: Option<i64>) -> String {
    let Some(nanos) = nanos else { return "-".to_owned() };
    let sign = if nanos < 0 { "-" } else { "" };
    let tenths = nanos.unsigned_abs() / 100;
    format!("{sign}{}.{}", tenths / 10, tenths % 10)
}

fn result(call: &TimedCall) -> String {
    match (call.error(), call.result) {
        (Some(errno), _) => format!("-1 {}", errno::name(errno)),
        (None, number @ 0..=NUMBER_MAX) => number.to_string(),
        (None, address) => format!("{address:#x}"),
    }
}

/// No call moves more bytes. Greater values are addresses.
const NUMBER_MAX: i64 = 0x7fff_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, at_ns: Option<i64>, arguments: &str, result: i64) -> TimedCall {
        let (name, arguments) = (name.to_owned(), arguments.to_owned());
        let took_ns = at_ns.map(|_| 12_340);
        TimedCall { at_ns, took_ns, process: 4_700, thread: 4_711, name, arguments, result }
    }

    #[test]
    fn a_timeline_looks_as_by_strace() {
        let calls = vec![
            call("epoll_wait", None, "8, 0x1, 512, -1", 1),
            call("futex", Some(-1_234_567), "...", 0),
            call("recvfrom", Some(7_100), "7, 0x2, 1024, 0", -i64::from(libc::EAGAIN)),
            call("mmap", Some(107_150), "NULL, 4096", 0x7f01_0000_2000),
        ];
        let timeline = Timeline { requests: Some(1), calls, left_out: 2, lost: 1 };
        assert_eq!(
            text(&timeline),
            "\
\x20 timeline        1 request more, on one connection; times in microseconds
          at       took    thread  call
           -          -      4711  epoll_wait(8, 0x1, 512, -1) = 1
     -1234.5       12.3      4711  futex(...) = 0
         7.1       12.3      4711  recvfrom(7, 0x2, 1024, 0) = -1 EAGAIN
       107.1       12.3      4711  mmap(NULL, 4096) = 0x7f0100002000
  left out        2 calls that followed
  lost            1 event: calls are missing at unknown places
"
        );
    }
}
