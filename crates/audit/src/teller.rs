//! Calls one by one, as tracing sees them.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use fulmar_sys as sys;

use crate::event::{self, Event};
use crate::watch::process_of;

/// Makes events of calls, and knows what is asked of `/proc` for them.
#[derive(Debug)]
pub(crate) struct Teller {
    began: Instant,
    /// The process of each thread.
    processes: HashMap<u32, u32>,
}

impl Default for Teller {
    fn default() -> Self {
        Self { began: sys::now(), processes: HashMap::new() }
    }
}

impl Teller {
    /// Nanoseconds of the clock of all events.
    pub(crate) fn now(&self) -> u64 {
        let since = sys::now().saturating_duration_since(self.began).as_nanos();
        u64::try_from(since).unwrap_or(u64::MAX)
    }

    /// A call returned, in a thread that stands still.
    pub(crate) fn event(
        &mut self,
        thread: u32,
        call: u32,
        arguments: &[u64; 6],
        start: Option<u64>,
        result: i64,
    ) -> Event {
        let end = self.now();
        let process = || process_of(thread).unwrap_or(thread); // of one that is gone, its own number
        let process = *self.processes.entry(thread).or_insert_with(process);
        let memory = event::look(call).map(|look| {
            let memory = File::open(format!("/proc/{thread}/mem")).ok();
            look.at(arguments, result, |at, size| read(memory.as_ref(), at, size))
        });
        let (arguments, memory) = (*arguments, memory.unwrap_or_default());
        Event { start, end, process, thread, call, result, arguments, memory }
    }
}

/// As many bytes as there are, up to `size`.
fn read(memory: Option<&File>, at: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    let read = memory.and_then(|memory| memory.read_at(&mut bytes, at).ok());
    bytes.truncate(read.unwrap_or(0));
    bytes
}
