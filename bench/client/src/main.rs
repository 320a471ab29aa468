//! Thousands of transfers on one thread: what each costs, and how much memory it asks for.
//!
//! It is `fulmar bench-worker transfers` with an allocator that counts, and takes and reports what
//! `bench/README.md` says of every client. Instructions are counted from outside.
#![forbid(unsafe_code)]

use std::alloc::System;
use std::process::ExitCode;

use fulmar_experiments::worker;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args().skip(1).collect();
    match worker::transfers(&words, allocations) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("fulmar-bench-client: {error}");
            ExitCode::FAILURE
        }
    }
}

fn allocations() -> usize {
    ALLOCATOR.stats().allocations + ALLOCATOR.stats().reallocations
}
