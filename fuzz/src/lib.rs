//! What the targets do with bytes, by the crate that is held against them. The same functions run
//! on mutated cases in every test run: a `smoke.rs` below `tests` of each crate, or its unit tests.

pub mod fetch;
pub mod gateway;
pub mod h2;
pub mod haproxy;
pub mod middle;
pub mod proto;
pub mod rules;
pub mod semantics;
pub mod streams;
pub mod tls;

#[path = "../../crates/haproxy/tests/it/world/mod.rs"]
mod world;
