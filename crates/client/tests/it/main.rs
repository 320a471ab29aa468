//! The client by its public interface, driven without sockets.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime};

mod addresses;
mod connections;
mod driven;
mod key;
mod names;
mod raw;

#[expect(clippy::disallowed_methods, reason = "a test needs some moment to start from")]
static NOW: LazyLock<Instant> = LazyLock::new(Instant::now);
const WALL: SystemTime = SystemTime::UNIX_EPOCH;
