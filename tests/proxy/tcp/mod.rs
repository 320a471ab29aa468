//! The proxy in mode tcp, in the loop of the test, and what both modes share: places, checks,
//! statistics.

mod alike;
mod budgets;
mod checks;
mod memory;
mod places;
mod policy;
mod relays;
mod simulated;
mod statistics;
mod tls;
mod urgent;
