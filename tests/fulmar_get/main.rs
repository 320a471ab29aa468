//! `fulmar get` as a process.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod calls;
mod cli;
mod done;
mod faults;
mod progress;
mod streams;
mod tls;
