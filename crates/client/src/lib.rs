//! The client side: what is asked, and of whom.
//!
//! So far this is only the [`Target`] of a request; transfers and the reuse of connections are
//! to come.
#![forbid(unsafe_code)]

mod target;

pub use target::{ResolveError, Target, TargetError};
