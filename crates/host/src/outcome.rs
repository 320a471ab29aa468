//! What a thread did.

use std::iter::Sum;
use std::ops::Add;

use fulmar_drive::{DriverInfo, Stats};
use fulmar_sys::{CpuTimes, Ledger};

/// What one thread did.
#[derive(Clone, Debug)]
pub struct Outcome<R> {
    /// What [`crate::Host::at_end`] made of its application.
    pub report: R,
    /// What it cost.
    pub usage: Usage,
    /// What its loop ran on, at its end.
    pub driver: DriverInfo,
}

/// What one thread, or several together, cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// System calls.
    pub ledger: Ledger,
    /// What drove the loop.
    pub stats: Stats,
    /// Processor time.
    pub cpu: CpuTimes,
    /// The number of accepts that failed because descriptors or memory ran out.
    pub accept_failures: u64,
    /// The number of connections that were cut at the end of the drain timeout.
    pub cut_connections: u64,
}

impl Add for Usage {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            ledger: self.ledger + other.ledger,
            stats: Stats {
                turns: self.stats.turns + other.stats.turns,
                empty: self.stats.empty + other.stats.empty,
                events: self.stats.events + other.stats.events,
                timeouts: self.stats.timeouts + other.stats.timeouts,
                accepted: self.stats.accepted + other.stats.accepted,
                refused: self.stats.refused + other.stats.refused,
            },
            cpu: CpuTimes {
                user: self.cpu.user + other.cpu.user,
                system: self.cpu.system + other.cpu.system,
            },
            accept_failures: self.accept_failures + other.accept_failures,
            cut_connections: self.cut_connections + other.cut_connections,
        }
    }
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(usages: I) -> Self {
        usages.fold(Self::default(), Add::add)
    }
}
