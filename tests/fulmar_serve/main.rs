//! `fulmar serve` as a process.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod calls;
mod cli;
mod descriptors;
mod faults;
mod files;
mod flags;
mod peers;
mod raw;
mod signals;
