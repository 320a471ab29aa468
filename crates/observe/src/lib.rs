//! Observers of a server: an access log, and metrics for Prometheus.
//!
//! Both are [`Observer`](fulmar_server::Observer)s. Each thread has its own observers, which share
//! their output:
//!
//! ```
//! use fulmar_observe::{AccessLog, Format, Metrics, Output};
//! # use fulmar_server::{HandlerApp, HandlerResult, Responder};
//! # fn hello(_: &mut Responder<'_>, _: &fulmar_proto::Request<'_>) -> HandlerResult { Ok(()) }
//! # fn each_thread(file: std::fs::File, now: std::time::Instant) {
//! let (output, metrics) = (Output::new(file.into()), Metrics::new());
//! // In each thread:
//! let log = AccessLog::new(output.clone(), Format::Combined);
//! let app = HandlerApp::new(hello, now, fulmar_sys::wall_clock)
//!     .with_observer(log.on_trouble(|trouble| eprintln!("{trouble}")))
//!     .with_observer(metrics.observer());
//! // Anywhere: `metrics.to_string()`.
//! // On a listener of its own: `HandlerApp::new(metrics.page(), ..)`.
//! # }
//! ```
//!
//! Observers make no system calls and no allocations for a request: one write contains many lines,
//! and metrics are counters in memory until they are requested.
#![forbid(unsafe_code)]

mod access_log;
mod log_format;
mod output;

mod counts;
mod exposition;
mod metrics;
mod page;

pub use access_log::{AccessLog, FLUSH_AFTER};
pub use log_format::{FIELD_SIZE_MAX, Format};
pub use metrics::{Metrics, Recorder};
pub use output::{Output, Trouble};
pub use page::Page;
