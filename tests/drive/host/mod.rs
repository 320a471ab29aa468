//! Hosts: listeners, threads and handover to the next process.

mod handover;
mod hosts;
mod inherited_sockets;
mod panics;
