//! The bulk downloader: a list of URLs becomes a directory of files.
//!
//! The list is read as it is worked off: memory does not grow with its length. A file has its name
//! when it is whole, and never before.
//!
//! The modules stand in reading order.
#![forbid(unsafe_code)]

mod checksum;
mod list;
mod name;

mod disk;
mod feed;
mod journal;
mod partial;
mod store;

mod error;
mod fault;
mod options;

mod backoff;
mod job;
mod plan;

mod fetch;

mod book;
mod progress;
mod record;
mod report;

mod run;

#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use checksum::{Checksum, ChecksumError};
pub use error::FetchError;
pub use fault::{Doing, Fault};
pub use feed::{Sink, Source};
pub use list::{LINE_LEN_MAX, LineError};
pub use name::NameError;
pub use options::{Options, Output, Proxy, Trust};
pub use progress::Progress;
pub use report::{Report, Tally};
pub use run::{Running, Stopper, start};
