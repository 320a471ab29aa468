//! The load generator: an engine that asks, and the report of what came back.
//!
//! The modules stand in reading order.
#![forbid(unsafe_code)]

mod error;
mod options;
mod sources;

mod plan;
mod schedule;

mod flight;
mod histogram;
mod opener;
mod outage;
mod progress;
mod tally;

mod engine;

#[doc(hidden)]
pub mod memory;

mod limit;
mod report;
mod run;
mod text;

pub use error::LoadError;
pub use fulmar_tls as tls;
pub use histogram::Latency;
pub use limit::Limit;
pub use options::{Options, OptionsError, Until};
pub use progress::Progress;
pub use report::{Calls, ConnectionCounts, Rate, Report, Steady, Tls, Turns};
pub use run::{Running, Stopper, start};
pub use sources::{Sources, SourcesError};
pub use tally::ErrorKind;
