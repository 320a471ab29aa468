//! What HAProxy makes of a configuration, and we: put to both.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agreement;
mod balancing;
mod hellos;
mod rules;
mod samples;
