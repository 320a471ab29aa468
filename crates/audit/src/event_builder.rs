//! Builds events from traced calls.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use fulmar_sys as sys;

use crate::event::{self, CallEvent};
use crate::watch::process_of;

/// Builds events, and caches what it reads from `/proc`.
#[derive(Debug)]
pub(crate) struct EventBuilder {
    began: Instant,
    /// The process of each thread.
    processes: HashMap<u32, u32>,
}

impl Default for EventBuilder {
    fn default() -> Self {
        Self { began: sys::now(), processes: HashMap::new() }
    }
}

impl EventBuilder {
    /// The current time in nanoseconds, on the clock of all events.
    pub(crate) fn now(&self) -> u64 {
        let since = sys::now().saturating_duration_since(self.began).as_nanos();
        u64::try_from(since).unwrap_or(u64::MAX)
    }

    /// The event of a call that returned. Its thread is stopped.
    pub(crate) fn event(
        &mut self,
        thread: u32,
        call: u32,
        arguments: &[u64; 6],
        start: Option<u64>,
        result: i64,
    ) -> CallEvent {
        let end = self.now();
        let process = || process_of(thread).unwrap_or(thread); // if it has ended: its own number
        let process = *self.processes.entry(thread).or_insert_with(process);
        let memory = event::look(call).map(|look| {
            let memory = File::open(format!("/proc/{thread}/mem")).ok();
            look.at(arguments, result, |at, size| read(memory.as_ref(), at, size))
        });
        let (arguments, memory) = (*arguments, memory.unwrap_or_default());
        CallEvent { start, end, process, thread, call, result, arguments, memory }
    }
}

/// Reads up to `size` bytes.
fn read(memory: Option<&File>, at: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    let read = memory.and_then(|memory| memory.read_at(&mut bytes, at).ok());
    bytes.truncate(read.unwrap_or(0));
    bytes
}
