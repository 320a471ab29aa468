//! `fulmar-bench`: fulmar beside its peers, measured in turn on the same cores.
//!
//! Each side that is measured is a process of its own, on a core of its own. fulmar's sides are the
//! binary `fulmar` and the workers of this program ([`worker`]); peers are installed programs, or
//! small C programs in `bench/peers` that the machine's `cc` compiles for the run. All processes
//! end with the run. The results fill a [`BenchReport`](report::BenchReport).
//!
//! The modules are in reading order.
#![forbid(unsafe_code)]

mod arguments;
mod budgets;
mod error;
mod http;
mod lab;
mod loads;
mod machine;
mod report;
mod scenarios;
mod servers;
mod worker;

use std::alloc::System;
use std::process::ExitCode;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use error::BenchError;

/// Counts the allocations of the worker `transfers`.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    arguments::run()
}
