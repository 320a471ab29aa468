//! State that the tracing thread writes and other threads read.

use std::collections::HashMap;
use std::io;

use crate::call_totals::CallTotals;
use crate::end::CounterEnd;
use crate::feed::EventFeed;
use crate::kinds;

/// State that the tracing thread writes and other threads read.
#[derive(Default)]
pub(crate) struct TraceState {
    pub(crate) calls: HashMap<u32, CallTotals>,
    pub(crate) lost: u64,
    /// How many of the lost calls used another numbering of calls.
    pub(crate) foreign: u64,
    pub(crate) threads: u64,
    pub(crate) processes: u64,
    /// Why tracing ended; `None` while it runs.
    pub(crate) end: Option<Result<CounterEnd, io::ErrorKind>>,
    /// Receives each event, if phases or a timeline were requested.
    pub(crate) feed: Option<EventFeed>,
}

impl TraceState {
    /// Counts a call with another numbering.
    pub(crate) fn enter_foreign(&mut self) {
        self.lost += 1;
        self.foreign += 1;
    }

    /// Counts a call that returned.
    pub(crate) fn enter(&mut self, number: u32, arguments: &[u64; 6], result: i64) {
        let entry = self.calls.entry(number).or_default();
        entry.enter(number, result);
        if let Some(kind) = kinds::kind(number, arguments) {
            entry.enter_kind(kind);
        }
    }
}
