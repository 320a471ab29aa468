//! The client: over every loop, against servers and networks that fail anywhere, and as programs
//! use it.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod coalescing;
mod codings;
mod connect;
mod deadlines;
mod errors;
mod http2;
mod latency;
mod pause;
mod queue;
mod redirects;
mod remove;
mod responses;
mod simulated;
mod stale;
mod unwatched;
mod uses;
