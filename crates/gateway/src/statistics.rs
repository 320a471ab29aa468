//! Statistics of a running proxy: as rows and lines, as JSON, as a page, as metrics.
//!
//! [`rows`] reads the counters and the state of servers. The other modules format its rows.

pub mod columns;
pub mod kind;
pub mod value;

pub mod process;
pub mod rows;

pub mod info;
pub mod json;
pub mod lines;
pub mod metrics;

pub mod page;
pub mod query;

pub mod change;
mod services;

pub use process::Process;
pub use services::Reports;
