//! Counts the system calls of any program: in the kernel where it may, by tracing where it may not.
//!
//! A counter watches processes and fills [`Counts`]; everything that is printed, kept or compared
//! is made of these. What a call is worth to the program is not known here.
#![forbid(unsafe_code)]

mod counts;

pub mod report;

pub use counts::{Backend, Counts, Phase, Tally};
