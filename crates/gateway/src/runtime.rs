//! The runtime API: commands sent to a `stats socket` (HAProxy's management guide, §9.3).
//!
//! ```text
//! bytes ─▶ Lines ─▶ command ─▶ table ─▶ Reply: text · pieces · reply of another thread
//!                                                └─▶ sent as the reader takes it
//! ```
//!
//! It runs on a thread of its own, which serves no clients. Replies are produced in pieces: a large
//! reply needs no more memory than a small one, however slow the reader is.

mod command_reader;
mod console;
mod engine;
mod listeners;

mod call;
mod certificate_store;
mod commands;
mod context;

#[cfg(any(test, feature = "testing"))]
pub mod testing;

mod certificates;
mod errors;
mod frontends;
mod lists;
mod servers;
mod sessions;
mod settings;
mod show;

pub(crate) use certificate_store::CertificateStore;
pub use context::RuntimeContext;
pub use engine::Runtime;
pub(crate) use listeners::{Consoles, listens};
pub(crate) use servers::check_status;
