//! The proxy: the connections of a server and those of a client, connected to each other.
//!
//! [`Proxy`] is the engine of one thread. [`Live`] is the state that threads share: the
//! configuration, the state of servers, and counters. Each thread writes its own counters; any
//! thread may read them. The engine does no I/O and writes no file: log lines go to a [`ProxyLog`],
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

mod admission;
mod early_close;
mod engine;
mod facts;
mod needs;
mod pipe_use;
mod queues;
mod relay;
mod select_backend;
mod shared;
mod tls_info;
mod tracking;

mod upstream;

mod http;
mod tcp;

mod accept_failure;
mod limit;
mod malformed;
mod orders;
mod proxy_log;
mod restore;
mod services;

pub use balancing::hasher;
pub use checks::{
    CheckAddress, CheckReports, CheckState, CheckStatus, Checks, Finding, LastCheck, Observation,
};
pub use clock::ThreadClock;
pub use fulmar_engine::Stop;
pub use tracking::TrackedState;

pub use counters::{Counters, RateKind, Stat, Timing, sum};
pub use engine::{MakeLayer, Proxy};
pub use http::{AttemptFailure, Explanation, FailedAttempt, GivenUp, NamedAttempt};
pub use limit::AdjustableLimit;
pub use live::{Live, LiveBackend, LiveFrontend, LiveServer};
pub use malformed::{LastMalformed, Malformed};
pub use orders::{Order, OrderReply, Orders, PORTION, ReplyTo, SessionView};
pub use proxy_log::{LogSeverity, ProxyLog};
pub use restore::Restored;
pub use services::{GeneratedPage, Services};
pub use shared::BindId;
pub use upstream::probes;
pub use wakers::{Wake, Wakers};
