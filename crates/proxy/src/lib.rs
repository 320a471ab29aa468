//! The proxy: the connections of a server and those of a client, connected to each other.
//!
//! [`Proxy`] is the engine of one thread. [`Live`] is the state that threads share: the
//! configuration, the state of servers, and counters. Each thread writes its own counters; any
//! thread may read them. The engine does no I/O and writes no file: log lines go to a [`Journal`],
//! and pages that are not proxied come from [`Services`].
#![forbid(unsafe_code)]

pub mod balance;

mod balancing;
mod checks;
mod clock;
mod control;
mod counters;
mod live;
mod wakers;

mod asks;
mod engine;
mod facts;
mod following;
mod gate;
mod lead;
mod passing;
mod queues;
mod relay;
mod secured;
mod shared;
mod unborn;

mod upstream;

mod http;
mod tcp;

mod journal;
mod limit;
mod malformed;
mod orders;
mod restore;
mod services;
mod shortage;

pub use balancing::hasher;
pub use checks::{
    CheckPlace, CheckState, CheckStatus, Checks, Finding, LastCheck, Mailbox, Observation,
};
pub use clock::Clock;
pub use following::Inherited;
pub use fulmar_engine::Stop;

pub use counters::{Counter, Counters, Rate, Timing, sum};
pub use engine::{MakeLayer, Proxy};
pub use http::{Attempt, Explanation, Failure, GivenUp, Tried};
pub use journal::{Journal, Severity};
pub use limit::Limit;
pub use live::{Live, LiveBackend, LiveFrontend, LiveServer};
pub use malformed::{LastMalformed, Malformed};
pub use orders::{Answer, Hearer, Order, Orders, PORTION, SessionView};
pub use restore::Restored;
pub use services::{Page, Services};
pub use shared::BindId;
pub use upstream::probes;
pub use wakers::{Wake, Wakers};
