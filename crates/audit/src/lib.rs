//! Counts the system calls of any program: with eBPF where the kernel permits it, otherwise with
//! `ptrace(2)`.
//!
//! A [`Counter`] watches processes and fills [`CallCounts`]. [`report`] prints, stores and compares
//! them. This crate counts; it does not judge what a call is worth to the program.
#![forbid(unsafe_code)]

mod counter;

mod arguments;
mod call_times;
mod call_totals;
mod clock;
mod connection_actions;
mod cost;
mod counts;
mod data_location;
mod end;
mod error;
mod event;
mod event_builder;
mod feed;
mod kernel;
mod kinds;
mod names;
mod operation;
mod phases;
mod records;
mod timeline;
mod trace_state;
mod tracer;
mod tracing;
mod watch;

pub mod report;

pub use call_times::{CallTime, CallTimes};
pub use clock::ClockShim;
pub use cost::Cost;
pub use counter::{BackendChoice, Counter, CounterOptions};
pub use counts::{ByPhase, CallCounts, CallTally, ConnectionPhase, CountingBackend};
pub use end::{CounterEnd, CounterStopper};
pub use error::{AuditError, KernelRefusal};
pub use timeline::{TimedCall, Timeline};
