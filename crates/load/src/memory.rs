//! The engine of one thread, for benchmarks and tests that feed it in memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_engine::Engine;

use crate::engine::Load;
use crate::error::LoadError;
use crate::options::{LoadProtocol, Options, RunUntil};
use crate::progress::RunShared;
use crate::run_plan::RunPlan;

/// An engine with these connections to one address, and `depth` requests at a time on each.
///
/// # Errors
/// The options are invalid.
pub fn engine(connections: u32, depth: u8, now: Instant) -> Result<impl Engine, LoadError> {
    let options = Options {
        urls: vec!["http://127.0.0.1:1/a".to_owned()],
        connections,
        protocol: LoadProtocol::Http1 { pipelined: depth.into() },
        until: RunUntil::Elapsed(Duration::from_secs(100_000)),
        ..Options::default()
    };
    let plan = Arc::new(RunPlan::new(&options)?);
    let shared = Arc::new(RunShared::new(plan.threads));
    Ok(Load::new(plan, shared, 0, now))
}
