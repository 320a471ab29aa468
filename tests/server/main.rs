//! Servers over real sockets: handlers as programs write them, limits, manners, bad input, the end,
//! and what a response costs.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_requests;
mod budgets;
mod drain;
mod ends;
mod engine_hand;
mod examples;
mod full_disk;
mod handlers;
mod http2;
mod http2_attacks;
mod http2_crowd;
mod http2_deadlines;
mod http2_tunnels;
mod limits;
mod logins;
mod many_clients;
mod memory;
mod observe;
mod panics;
mod paths;
mod plans;
mod proxy_protocol;
mod request_bodies;
mod scenarios;
mod sent_bytes;
mod site_exhausted;
mod splitting;
mod traps;
mod unread;
mod uploads;
mod web;
