//! The runtime interface: commands that scripts send to a `stats socket`, and their answers
//! (HAProxy's management guide, §9.3).
//!
//! ```text
//! bytes ─▶ Lines ─▶ command ─▶ table ─▶ Reply: text · a stream of pieces · news of other threads
//!                                                └─▶ sent as the reader takes it
//! ```
//!
//! Everything runs on one thread of its own, which serves no clients. Answers are made piece by
//! piece: a large one costs no more memory than a small one, however slowly it is read.

mod console;
mod engine;
mod lines;
mod listen;

mod call;
mod commands;
mod shown;
mod world;

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

pub use engine::Runtime;
pub(crate) use listen::{Consoles, listens};
pub(crate) use servers::check_status;
pub(crate) use shown::Certificates;
pub use world::World;
