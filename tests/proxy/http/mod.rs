//! The proxy in mode http, in the loop of the test.

mod bad;
mod bad_answers;
mod budgets;
mod cookies;
mod corrected;
mod drain;
mod ends;
mod exchanges;
mod failures;
mod fields;
mod gate;
mod log;
mod manners;
mod marked;
mod mended;
mod pipes;
mod quiet;
mod repairs;
mod rules;
mod servers_tls;
mod simulated;
mod traps;
mod world;
