//! The engine of one thread, for benchmarks and tests that feed it in memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_engine::Engine;

use crate::engine::Load;
use crate::error::LoadError;
use crate::options::{Options, Until};
use crate::plan::Plan;
use crate::progress::Shared;

/// An engine with these connections to one address, and `depth` requests at a time on each.
///
/// # Errors
/// The options are invalid.
pub fn engine(connections: u32, depth: u8, now: Instant) -> Result<impl Engine, LoadError> {
    let options = Options {
        urls: vec!["http://127.0.0.1:1/a".to_owned()],
        connections,
        depth: depth.into(),
        until: Until::Elapsed(Duration::from_secs(100_000)),
        ..Options::default()
    };
    let plan = Arc::new(Plan::new(&options)?);
    let shared = Arc::new(Shared::new(plan.threads));
    Ok(Load::new(plan, shared, 0, now))
}
