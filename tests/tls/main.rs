//! TLS: sessions and links without sockets, servers on sockets, costs, and peers.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod application;
mod budgets;
mod faults;
mod links;
mod memory;
mod peers;
mod server;
mod sessions;
mod trusted;
