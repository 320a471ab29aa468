//! Health checks: an engine that checks the servers of all backends.
//!
//! It runs on its own thread, so that checks do not delay requests. Results become the state of
//! servers ([`crate::balance::Member`]), which workers read through atomics and the group's epoch,
//! and log lines. Workers and operators report to it through a [`Mailbox`].
//!
//! ```text
//! due ──▶ connect (address, PROXY header, TLS) ──▶ job: talk (http · dialogue) ──▶ finding
//!                                                                                     │
//! workers ◀── wakers ◀── group (health, weight) ◀── monitor (rise, fall) ◀────────────┘
//! ```

mod engine;
mod target;

mod job;
mod road;

mod step;
mod talk;

mod dialogue;
mod http;
mod protocol;
mod reply;
mod subject;

mod mailbox;
mod notice;
mod place;
mod status;

pub use engine::Checks;
pub use mailbox::{Mailbox, Observation};
pub(crate) use mailbox::{News, Told};
pub use place::CheckPlace;
pub use status::{CheckState, CheckStatus, Finding, LastCheck};
