//! What an interval cost.

use std::io;
use std::time::Instant;

use fulmar_sys::{self as sys, Ledger};
use serde_json::{Map, Value, json};

use crate::{ALLOCATOR, Driver};

/// Everything that is counted, at one moment.
pub(crate) struct Snapshot {
    time: Instant,
    cpu: sys::CpuTimes,
    rss: u64,
    ledger: Ledger,
    allocations: usize,
    turns: u64,
    done: u64,
    bytes: u64,
    errors: u64,
}

impl Snapshot {
    /// At the beginning of an interval.
    pub(crate) fn before(reactor: &Driver) -> io::Result<Self> {
        let mut this = Self::take(reactor)?;
        // Without what taking it took.
        this.ledger = Ledger::here();
        this.allocations = allocations();
        Ok(this)
    }

    /// At its end.
    pub(crate) fn after(reactor: &Driver) -> io::Result<Self> {
        let allocations = allocations();
        Ok(Self { allocations, ..Self::take(reactor)? })
    }

    fn take(reactor: &Driver) -> io::Result<Self> {
        let transfers = reactor.engine.application();
        Ok(Self {
            ledger: Ledger::here(),
            time: sys::now(),
            cpu: sys::process_cpu()?,
            rss: sys::resident_bytes()?,
            allocations: 0,
            turns: reactor.stats().turns,
            done: transfers.done(),
            bytes: transfers.bytes(),
            errors: transfers.errors(),
        })
    }

    /// The report of the interval that ends here.
    pub(crate) fn since(&self, before: &Self) -> Value {
        let spent = |call| {
            let (after, before) = (self.ledger.count(call), before.ledger.count(call));
            (after.calls - before.calls, after.eagain - before.eagain)
        };
        let (mut syscalls, mut eagain) = (Map::new(), 0);
        for (call, _) in self.ledger.iter() {
            let (calls, nothing) = spent(call);
            eagain += nothing;
            if calls > 0 {
                syscalls.insert(call.name().to_owned(), calls.into());
            }
        }
        json!({
            "requests": self.done - before.done,
            "bytes": self.bytes - before.bytes,
            "errors": self.errors,
            "seconds": (self.time - before.time).as_secs_f64(),
            "cpu_user_us": (self.cpu.user - before.cpu.user).as_micros(),
            "cpu_system_us": (self.cpu.system - before.cpu.system).as_micros(),
            "rss_before_bytes": before.rss,
            "rss_bytes": self.rss,
            "rss_max_bytes": self.rss,
            "syscalls": syscalls,
            "eagain": eagain,
            "allocations": self.allocations - before.allocations,
            "clock_reads": self.ledger.clock_reads() - before.ledger.clock_reads(),
            "turns": self.turns - before.turns,
        })
    }
}

fn allocations() -> usize {
    ALLOCATOR.stats().allocations + ALLOCATOR.stats().reallocations
}
