//! Engines in loops: our own, and those of applications. Sockets, names, files, simulated networks,
//! and hosts.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod accepts;
mod adopted;
mod endpoints;
mod exhaustion;
mod failed_accepts;
mod files;
mod host;
mod names;
mod names_calls;
mod names_exhausted;
mod resolver_sockets;
mod ring_children;
mod rings;
mod simulated;
mod socket_action;
mod splice;
mod traps;
