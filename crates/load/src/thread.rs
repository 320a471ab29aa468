//! One thread of a run: its reactor, until the run ends, and its result.

use std::thread::{self, JoinHandle};

use fulmar_drive::{AnySelector, DriverInfo, Reactor, Stats};
use fulmar_sys::{self as sys, CpuTimes, Ledger};

use crate::engine::{ConnectFailure, Finish, Load};
use crate::error::LoadError;
use crate::tally::RunTally;

/// The result of one thread.
#[derive(Debug)]
pub(crate) struct ThreadResult {
    pub(crate) tally: RunTally,
    pub(crate) finish: Finish,
    pub(crate) failure: Option<ConnectFailure>,
    pub(crate) given_up: u32,
    /// How long the oldest request without a response had waited at the end, in nanoseconds.
    pub(crate) waited: u64,
    pub(crate) total: Ledger,
    /// Since every connection was established: calls and responses.
    pub(crate) steady: Option<(Ledger, u64)>,
    pub(crate) cpu: CpuTimes,
    /// Memory of the process before connections are closed; `None` if it cannot be read.
    pub(crate) resident: Option<u64>,
    pub(crate) stats: Stats,
    pub(crate) driver: DriverInfo,
}

pub(crate) fn spawn(
    reactor: Reactor<Load, AnySelector>,
    number: u32,
) -> std::io::Result<JoinHandle<Result<ThreadResult, LoadError>>> {
    let builder = thread::Builder::new().name(format!("load-{number}")).stack_size(STACK_SIZE);
    builder.spawn(move || drive(reactor))
}

/// The main function of a thread.
fn drive(mut reactor: Reactor<Load, AnySelector>) -> Result<ThreadResult, LoadError> {
    let (ledger, cpu) = (Ledger::here(), sys::thread_cpu().map_err(LoadError::Loop)?);
    let mut warm = None;
    reactor.try_turn().map_err(LoadError::Loop)?; // the first connects
    let finish = loop {
        if let Some(finish) = reactor.engine.finish() {
            break finish;
        }
        reactor.turn().map_err(LoadError::Loop)?;
        if warm.is_none() && reactor.engine.is_warm() {
            warm = Some((Ledger::here(), reactor.engine.answered()));
        }
    };
    let here = Ledger::here();
    let answered = reactor.engine.answered();
    let after = sys::thread_cpu().map_err(LoadError::Loop)?;
    let waited = reactor.engine.waited(finish.at());
    let (tally, failure, given_up) = reactor.engine.take_parts();
    Ok(ThreadResult {
        tally,
        finish,
        failure,
        given_up,
        waited,
        total: here - ledger,
        steady: warm.map(|(ledger, before)| (here - ledger, answered - before)),
        cpu: CpuTimes {
            user: after.user.saturating_sub(cpu.user),
            system: after.system.saturating_sub(cpu.system),
        },
        resident: sys::resident_bytes().ok(),
        stats: reactor.stats(),
        driver: reactor.driver_info(),
    })
}

const STACK_SIZE: usize = 256 * 1024;
