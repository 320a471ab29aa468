//! Counts the system calls of any program: in the kernel where it may, by tracing where it may not.
//!
//! A [`Counter`] watches processes and fills [`Counts`]; everything that is printed, kept or
//! compared is made of these ([`report`]). What a call is worth to the program is not known here.
#![forbid(unsafe_code)]

mod counter;

mod arguments;
mod clock;
mod cost;
mod counts;
mod deeds;
mod error;
mod event;
mod feed;
mod kernel;
mod kinds;
mod names;
mod operation;
mod phases;
mod records;
mod teller;
mod timeline;
mod tracer;
mod tracing;
mod watch;

pub mod report;

pub use clock::Clock;
pub use cost::Cost;
pub use counter::{Counter, End, Method, Scope, Stopper};
pub use counts::{Backend, ByPhase, Counts, Phase, Tally};
pub use error::{AuditError, Refusal};
pub use timeline::{TimedCall, Timeline};
