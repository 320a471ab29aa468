//! Calls one by one, as tracing sees them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::Instant;

use fulmar_sys as sys;

use crate::event::{self, Event};

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
        let process = *self.processes.entry(thread).or_insert_with(|| process_of(thread));
        let memory = event::look(call).map(|look| {
            let memory = File::open(format!("/proc/{thread}/mem")).ok();
            look.at(arguments, result, |at, size| read(memory.as_ref(), at, size))
        });
        let (arguments, memory) = (*arguments, memory.unwrap_or_default());
        Event { start, end, process, thread, call, result, arguments, memory }
    }
}

/// `Tgid` of `/proc/THREAD/status`; of one that is gone, its own number.
fn process_of(thread: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    process.and_then(|number| number.trim().parse().ok()).unwrap_or(thread)
}

/// As many bytes as there are, up to `size`.
fn read(memory: Option<&File>, at: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    let read = memory.and_then(|memory| memory.read_at(&mut bytes, at).ok());
    bytes.truncate(read.unwrap_or(0));
    bytes
}
