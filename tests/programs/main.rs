//! The programs as processes: `fulmar` and its tools, beside their peers where there are any.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod audit;
mod bench;
mod capi;
mod docs;
mod drivers;
mod fulmar_get;
mod fulmar_load;
mod fulmar_proxy;
mod fulmar_serve;
mod haproxy_comparison;
mod load_costs;
