//! The time of system calls, and between them: by name, from the events of a feed.

use std::collections::{BTreeMap, HashMap};

use crate::event::CallEvent;
use crate::names;

/// Times of calls by name. Each is a sum of nanoseconds over all threads.
pub type CallTimes = BTreeMap<String, CallTime>;

/// The time of the calls of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTime {
    /// From the beginning of a call to its return. For waits that is mostly the time until
    /// something was ready.
    pub inside_ns: u64,
    /// From the return of the thread's previous call to the beginning of this one: the program's
    /// own work, and the time in which another one had the processor.
    pub before_ns: u64,
}

impl CallTime {
    pub(crate) fn add(&mut self, other: Self) {
        self.inside_ns += other.inside_ns;
        self.before_ns += other.before_ns;
    }

    fn is_zero(self) -> bool {
        self == Self::default()
    }
}

/// The times that grew, with their growth.
pub(crate) fn times_since(now: &CallTimes, earlier: &CallTimes) -> CallTimes {
    let grown = |(name, now): (&String, &CallTime)| {
        let before = earlier.get(name).copied().unwrap_or_default();
        let time = CallTime {
            inside_ns: now.inside_ns - before.inside_ns,
            before_ns: now.before_ns - before.before_ns,
        };
        (name.clone(), time)
    };
    now.iter().map(grown).filter(|(_, time)| !time.is_zero()).collect()
}

/// Sums the times of calls.
#[derive(Debug, Default)]
pub(crate) struct TimeTotals {
    calls: HashMap<u32, CallTime>,
    /// The last return of each thread.
    returns: HashMap<u32, u64>,
    /// Calls with a time.
    count: u64,
}

impl TimeTotals {
    /// Adds a call that returned. Operations of io_uring have no time of a thread.
    pub(crate) fn enter(&mut self, event: &CallEvent) {
        if event.operation().is_some() {
            return;
        }
        self.count += 1;
        if self.returns.len() == THREADS_MAX {
            self.returns.clear(); // most of these have ended
        }
        let before = self.returns.insert(event.thread, event.end);
        let Some(start) = event.start else { return }; // it began before counting did
        self.calls.entry(event.call).or_default().add(CallTime {
            inside_ns: event.end.saturating_sub(start),
            before_ns: before.map_or(0, |before| start.saturating_sub(before)),
        });
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn by_name(&self) -> CallTimes {
        self.calls.iter().map(|(call, time)| (names::call(*call), *time)).collect()
    }
}

/// As many as are counted at a time.
const THREADS_MAX: usize = 32_768;

#[cfg(test)]
mod tests {
    use super::*;

    fn event(thread: u32, call: u32, start: Option<u64>, end: u64) -> CallEvent {
        let (arguments, memory) = ([0; 6], Vec::new());
        CallEvent { start, end, process: 1, thread, call, result: 0, arguments, memory }
    }

    #[test]
    fn gaps_are_between_calls_of_one_thread() {
        let mut totals = TimeTotals::default();
        totals.enter(&event(1, 0, None, 100)); // its duration is unknown
        totals.enter(&event(2, 1, Some(90), 120)); // the first of its thread
        totals.enter(&event(1, 1, Some(130), 150));
        totals.enter(&event(1, 1, Some(155), 156));
        totals.enter(&event(1, 1_024 + 27, Some(156), 400)); // an operation
        let earlier = totals.by_name();
        assert_eq!(earlier["write"], CallTime { inside_ns: 51, before_ns: 35 });
        assert_eq!((earlier.len(), totals.count()), (1, 4));
        totals.enter(&event(1, 0, Some(160), 170));
        let interval = times_since(&totals.by_name(), &earlier);
        let read = CallTime { inside_ns: 10, before_ns: 4 };
        assert_eq!(interval, CallTimes::from([("read".to_owned(), read)]));
    }
}
