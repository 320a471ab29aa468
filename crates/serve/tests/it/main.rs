//! The file server, against real directories.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod root;
mod site;
