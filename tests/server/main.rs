//! Servers over real sockets: handlers as programs write them, limits, manners, bad input and the end.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_requests;
mod calls;
mod drain;
mod ends;
mod examples;
mod limits;
mod logins;
mod manners;
mod memory;
mod observe;
mod panics;
mod paths;
mod proxy_protocol;
mod splitting;
mod traps;
mod unread;
mod uploads;
mod web;
