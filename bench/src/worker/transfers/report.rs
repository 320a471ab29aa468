//! The cost of an interval.

use std::io;
use std::time::Instant;

use fulmar_sys::{self as sys, Ledger};
use serde_json::{Value, json};

use super::TransferDriver;
use crate::worker::calls_since;

/// Returns the allocations so far.
pub(crate) type Allocations = fn() -> usize;

/// All counters at one time.
pub(super) struct CounterState {
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

impl CounterState {
    /// At the beginning of an interval.
    pub(super) fn before(reactor: &TransferDriver, allocations: Allocations) -> io::Result<Self> {
        let mut this = Self::take(reactor)?;
        // Without the cost of reading the counters.
        this.ledger = Ledger::here();
        this.allocations = allocations();
        Ok(this)
    }

    /// At its end.
    pub(super) fn after(reactor: &TransferDriver, allocations: Allocations) -> io::Result<Self> {
        let allocations = allocations();
        Ok(Self { allocations, ..Self::take(reactor)? })
    }

    fn take(reactor: &TransferDriver) -> io::Result<Self> {
        let transfers = reactor.client().application();
        Ok(Self {
            ledger: Ledger::here(),
            time: sys::now(),
            cpu: sys::process_cpu()?,
            rss: sys::resident_bytes()?,
            allocations: 0,
            turns: reactor.turns(),
            done: transfers.done(),
            bytes: transfers.bytes(),
            errors: transfers.errors(),
        })
    }

    /// The report of the interval that ends here.
    pub(super) fn since(&self, before: &Self) -> Value {
        let (syscalls, eagain) = calls_since(&before.ledger, &self.ledger);
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
