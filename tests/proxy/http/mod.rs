//! The proxy in mode http, in the loop of the test.

mod bad_input;
mod bad_responses;
mod budgets;
mod connection_limits;
mod cookies;
mod deferred_registration;
mod drain;
mod ends;
mod exchange_regressions;
mod exchanges;
mod failures;
mod fields;
mod haproxy_regressions;
mod log;
mod marked_servers;
mod pipes;
mod protocol;
mod regressions;
mod rules;
mod servers_tls;
mod simulated;
mod traps;
mod virtual_time;
