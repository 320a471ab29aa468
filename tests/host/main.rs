//! Hosts: listeners, threads, and who comes next.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod given;
mod hosts;
mod next;
mod panics;
