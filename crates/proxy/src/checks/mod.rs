//! Health checks: an engine of its own, which looks after the servers of all backends.
//!
//! It runs on a thread of its own, so that what checks cost is nobody's request's. What it finds
//! becomes the state of servers ([`crate::balance::Member`]), which workers see by atomics and the
//! group's epoch, and lines of the log. What workers and operators tell it comes by a [`Mailbox`].
//!
//! ```text
//! due ──▶ road (address, PROXY header, TLS) ──▶ job: talk (http · dialogue) ──▶ finding
//!                                                                                  │
//! workers ◀── wakers ◀── group (health, weight) ◀── monitor (rise, fall) ◀─────────┘
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
