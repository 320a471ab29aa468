//! The proxy in mode tcp, in the loop of the test, and what both modes share: places, checks,
//! statistics.

mod budgets;
mod checks;
mod haproxy_comparison;
mod memory;
mod policy;
mod relays;
mod simulated;
mod slots;
mod statistics;
mod tls;
mod urgent;
