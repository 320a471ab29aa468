//! Engines in loops: our own, and those of applications. Sockets, names, files and simulated networks.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod accepts;
mod adopted;
mod endpoints;
mod files;
mod foreign;
mod names;
mod refused;
mod rings;
mod simulated;
mod socket_action;
mod splice;
mod traps;
