//! What the targets do with bytes, by the crate that is held against them. The same functions run
//! on mutated cases in every test run: `tests/smoke.rs` of each crate.

pub mod haproxy;
pub mod proto;
pub mod semantics;
