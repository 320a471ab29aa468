//! Hosts: listeners, threads, and who comes next.

mod given;
mod hosts;
mod next;
mod panics;
