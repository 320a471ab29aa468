//! Calls, and operations of io_uring, one after the other, as `strace -f -r -T` shows them.

use crate::arguments;
use crate::event::Event;
use crate::names;

/// What was called, in the order in which it began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Requests that were made meanwhile, on one connection. `None` if nobody made any for it.
    pub requests: Option<u64>,
    /// The calls that returned.
    pub calls: Vec<TimedCall>,
    /// Calls that came later, for which there was no room.
    pub left_out: u64,
    /// Events that were lost: calls that are missing, nobody knows where.
    pub lost: u64,
}

/// A call with its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedCall {
    /// Nanoseconds since the first return. Below zero for a call that somebody was in by then;
    /// `None` if it began before anybody looked.
    pub at_ns: Option<i64>,
    /// Nanoseconds from its beginning to its return. `None` as above.
    pub took_ns: Option<i64>,
    /// Who called.
    pub process: u32,
    /// Which of its threads.
    pub thread: u32,
    /// The kernel's name of the call; of an operation of io_uring `io_uring:` and its name.
    pub name: String,
    /// What it was given, as strace writes it: `7, "GET / HTTP/1.1\r\n"..., 1024, 0`.
    pub arguments: String,
    /// What it returned; an error less than zero ([`TimedCall::error`]).
    pub result: i64,
}

impl Timeline {
    /// Time begins with the first return: who was waiting then had begun before.
    pub(crate) fn of(events: &[Event], left_out: u64, lost: u64) -> Self {
        let zero = events.iter().map(|event| event.end).min().unwrap_or(0);
        let mut sorted: Vec<_> = events.iter().collect();
        sorted.sort_by_key(|event| event.start.unwrap_or(0)); // stable: then as they returned
        let calls = sorted.into_iter().map(|event| TimedCall::of(event, zero)).collect();
        Self { requests: None, calls, left_out, lost }
    }

    /// The first so many calls only; the others are left out.
    pub fn truncate(&mut self, calls: usize) {
        self.left_out += self.calls.len().saturating_sub(calls) as u64;
        self.calls.truncate(calls);
    }
}

impl TimedCall {
    /// Why it failed: `errno(3)`. `None` if it did not.
    pub fn error(&self) -> Option<i32> {
        names::error(self.result)
    }

    fn of(event: &Event, zero: u64) -> Self {
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

    fn event(call: Sysno, start: Option<u64>, end: u64, result: i64) -> Event {
        let (arguments, memory) = ([7, 0, 0, 0, 0, 0], Vec::new());
        Event { start, end, process: 1, thread: 2, call: call as u32, result, arguments, memory }
    }

    #[test]
    fn calls_stand_in_the_order_in_which_they_began() {
        let events = [
            event(Sysno::epoll_wait, None, 9_000, 1),
            event(Sysno::close, Some(11_500), 12_000, -9),
            event(Sysno::futex, Some(2_000), 12_500, 0),
            Event { call: 1_024 + 27, ..event(Sysno::read, Some(12_000), 13_000, 5) },
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
