//! A sequence of calls and io_uring operations, as `strace -f -r -T` shows it.

use crate::arguments;
use crate::event::CallEvent;
use crate::names;

/// Calls and operations in the order in which they began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Requests made meanwhile, on one connection. `None` without a load.
    pub requests: Option<u64>,
    /// The calls that returned.
    pub calls: Vec<TimedCall>,
    /// Number of later calls that did not fit.
    pub left_out: u64,
    /// Events that were lost: some calls are missing at unknown places.
    pub lost: u64,
}

/// A call with its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedCall {
    /// Nanoseconds since the first return; negative for a call that had begun before. `None` if the
    /// call began before counting did.
    pub at_ns: Option<i64>,
    /// Nanoseconds from the beginning of the call to its return. `None` as above.
    pub took_ns: Option<i64>,
    /// The calling process.
    pub process: u32,
    /// The calling thread.
    pub thread: u32,
    /// The kernel's name of the call; for an io_uring operation `io_uring:` and its name.
    pub name: String,
    /// The arguments as strace formats them: `7, "GET / HTTP/1.1\r\n"..., 1024, 0`.
    pub arguments: String,
    /// The result; negative for an error ([`TimedCall::error`]).
    pub result: i64,
}

impl Timeline {
    /// Time starts with the first return, so calls that were blocked then have negative times.
    pub(crate) fn of(events: &[CallEvent], left_out: u64, lost: u64) -> Self {
        let zero = events.iter().map(|event| event.end).min().unwrap_or(0);
        let mut sorted: Vec<_> = events.iter().collect();
        sorted.sort_by_key(|event| event.start.unwrap_or(0)); // stable: ties in order of return
        let calls = sorted.into_iter().map(|event| TimedCall::of(event, zero)).collect();
        Self { requests: None, calls, left_out, lost }
    }

    /// Keeps the first `calls` calls and counts the others as left out.
    pub fn truncate(&mut self, calls: usize) {
        self.left_out += self.calls.len().saturating_sub(calls) as u64;
        self.calls.truncate(calls);
    }
}

impl TimedCall {
    /// The error as `errno(3)`. `None` on success.
    pub fn error(&self) -> Option<i32> {
        names::error(self.result)
    }

    fn of(event: &CallEvent, zero: u64) -> Self {
        Self {
            at_ns: event.start.map(|start| since(zero, start)),
            took_ns: event.start.map(|start| since(start, event.end)),
            process: event.process,
            thread: event.thread,
            name: match event.operation() {
                Some(operation) => format!("io_uring:{}", names::operation(operation.opcode)),
                None => names::call(event.call),
            },
            arguments: arguments::text(event),
            result: if names::is_signal_return(event.call) { 0 } else { event.result },
        }
    }
}

fn since(from: u64, to: u64) -> i64 {
    to.wrapping_sub(from).cast_signed()
}

#[cfg(test)]
mod tests {
    use syscalls::Sysno;

    use super::*;

    fn event(call: Sysno, start: Option<u64>, end: u64, result: i64) -> CallEvent {
        let (arguments, memory) = ([7, 0, 0, 0, 0, 0], Vec::new());
        CallEvent {
            start,
            end,
            process: 1,
            thread: 2,
            call: call as u32,
            result,
            arguments,
            memory,
        }
    }

    #[test]
    fn calls_are_ordered_by_their_start() {
        let events = [
            event(Sysno::epoll_wait, None, 9_000, 1),
            event(Sysno::close, Some(11_500), 12_000, -9),
            event(Sysno::futex, Some(2_000), 12_500, 0),
            CallEvent { call: 1_024 + 27, ..event(Sysno::read, Some(12_000), 13_000, 5) },
        ];
        let mut timeline = Timeline::of(&events, 1, 2);
        let row = |call: &TimedCall| (call.name.clone(), call.at_ns, call.took_ns, call.result);
        let rows: Vec<_> = timeline.calls.iter().map(row).collect();
        assert_eq!(
            rows,
            [
                ("epoll_wait".into(), None, None, 1),
                ("futex".into(), Some(-7_000), Some(10_500), 0),
                ("close".into(), Some(2_500), Some(500), -9),
                ("io_uring:recv".into(), Some(3_000), Some(1_000), 5),
            ]
        );
        timeline.truncate(5);
        assert_eq!((timeline.calls.len(), timeline.left_out, timeline.lost), (4, 1, 2));
        timeline.truncate(1);
        assert_eq!((timeline.calls.len(), timeline.left_out), (1, 4));
    }
}
