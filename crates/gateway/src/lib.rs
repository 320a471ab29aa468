//! A proxy as a program: threads, reloads, logs, statistics, the runtime socket.
//!
//! [`Gateway::open`] does everything that needs privileges, paths and descriptors as they are when
//! a process begins: it binds or takes listeners over from the process before, reads certificates
//! and opens logs. Then the process may change its root and its user ([`drop_privileges`]), and
//! [`Gateway::start`] starts the threads.
#![forbid(unsafe_code)]

mod error;
mod gateway;

mod check;
mod limits;

mod crews;
mod doors;
mod logs;
pub mod runtime;
pub mod statistics;

mod master;
mod privileges;
mod restore;
mod secrets;
mod service;
mod signals;
mod states;

pub use check::check;
pub use error::Error;
pub use gateway::{Gateway, Options, hand_over_name};
pub use logs::{LineWriter, Logs};
pub use master::{Link, Master, Told};
pub use privileges::drop_privileges;
pub use service::{
    Background, Notify, Waiting, background, leave_terminal, predecessors, signal_all,
    write_pidfile,
};
pub use states::farewell;
