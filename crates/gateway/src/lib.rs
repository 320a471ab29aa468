//! A proxy as a program: threads, reloads, logs, statistics, the runtime socket.
//!
//! [`Gateway::open`] does all work that needs the privileges, paths and descriptors of a new
//! process: it binds listeners or takes them over from the previous process, reads certificates and
//! opens logs. The process may then change its root and its user ([`drop_privileges`]).
//! [`Gateway::start`] starts the threads.
#![forbid(unsafe_code)]

mod error;
mod gateway;

mod check;
mod limits;

mod bind;
mod logs;
pub mod runtime;
pub mod statistics;
mod threads;

mod master;
mod passwords;
mod privileges;
mod restore;
mod service;
mod signals;
mod state_reports;

pub use check::check;
pub use error::Error;
pub use gateway::{Gateway, Options, hand_over_name};
pub use logs::{LineWriter, Logs};
pub use master::{Master, MasterLink, MessageLevel};
pub use privileges::drop_privileges;
pub use service::{
    Background, ForegroundParent, Notify, background, leave_terminal, predecessors, signal_all,
    write_pidfile,
};
pub use state_reports::report_totals;
