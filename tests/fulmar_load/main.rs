//! `fulmar load` as a process.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cli;
mod faults;
mod peers;
