//! The load generator: an engine that sends requests, its threads, and the report of a run.
#![forbid(unsafe_code)]

mod error;
mod options;
mod sources;

mod run_plan;
mod schedule;

mod flights;
mod histogram;
mod opener;
mod outage;
mod stream_flights;

mod outstanding;
mod progress;
mod tally;

mod engine;

#[doc(hidden)]
pub mod memory;

mod thread;

mod limited_by;
mod report;
mod report_text;
mod run;

pub use error::LoadError;
pub use fulmar_tls as tls;
pub use histogram::Latency;
pub use limited_by::LimitedBy;
pub use options::{LoadProtocol, Options, OptionsError, RunUntil};
pub use progress::LoadProgress;
pub use report::{
    CallCount, ConnectionCounts, RateReport, RunReport, Steady, StreamsReport, TlsReport, Turns,
};
pub use run::{LoadRun, LoadStopper, start};
pub use sources::{Sources, SourcesError};
pub use tally::ErrorKind;
