//! Health checks: an engine that checks the servers of all backends.
//!
//! It runs on its own thread, so that checks do not delay requests. Results become the state of
//! servers ([`crate::balance::Member`]), which workers read through atomics and the group's epoch,
//! and log lines. Workers and operators report to it through a [`CheckReports`].
//!
//! ```text
//! due ──▶ connect (address, PROXY, TLS) ──▶ conversation (http · tcp · protocol) ──▶ finding
//!                                                                                      │
//! workers ◀── wakers ◀── group (health, weight) ◀── monitor (rise, fall) ◀─────────────┘
//! ```

mod engine;
mod target;

mod check_connect;
mod job;

mod conversation;
mod step;

mod check_context;
mod http_check;
mod protocol_check;
mod response;
mod tcp_check;

mod address;
mod reports;
mod server_log;
mod status;

pub use address::CheckAddress;
pub use engine::Checks;
pub use reports::{CheckReports, Observation};
pub(crate) use reports::{ServerEvent, ServerReport};
pub use status::{CheckState, CheckStatus, Finding, LastCheck};
