//! The client under attack: by applications that do anything at any time, by servers that say
//! anything, by networks that fail anywhere. Over every loop.

mod answers;
mod codings;
mod connect;
mod errors;
mod latency;
mod pause;
mod queue;
mod redirects;
mod remove;
mod simulated;
mod stale;
mod times;
