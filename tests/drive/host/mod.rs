//! Hosts: listeners, threads and handover to the next process.

mod given;
mod hosts;
mod next;
mod panics;
