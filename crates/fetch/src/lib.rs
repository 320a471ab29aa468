//! The bulk downloader: a list of URLs becomes a directory of files.
//!
//! The list is read while it is processed, so memory does not grow with its length. A file gets its
//! name when it is complete, never before.
#![forbid(unsafe_code)]

mod checksum;
mod list;
mod name;

mod disk;
mod journal;
mod list_reader;
mod output_dir;
mod partial;

mod error;
mod fault;
mod options;

mod backoff;
mod job;
mod request_plan;

mod fetch;

mod progress;
mod report;
mod run_log;
mod url_record;

mod run;

#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use checksum::{ChecksumError, FileChecksum};
pub use error::FetchError;
pub use fault::{FetchFault, FileOperation};
pub use fulmar_client::Protocol;
pub use fulmar_tls::Identity;
pub use list::{LINE_LEN_MAX, ListLineError};
pub use list_reader::{ListSource, RecordSink};
pub use name::NameError;
pub use options::{Options, OutputTarget, ProxyChoice, Trust};
pub use progress::FetchProgress;
pub use report::{Report, Tally};
pub use run::{FetchStopper, RunningFetch, start};
