//! The proxy in the loop of the test: both modes, faults, and released resources when descriptors
//! run out.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod exhausted;
mod faults;
mod http;
mod pipes_left;
mod tcp;
