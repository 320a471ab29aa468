//! `fulmar serve` as a process.

mod calls;
mod cli;
mod descriptors;
mod faults;
mod files;
mod flags;
mod http2_peers;
mod peers;
mod raw;
mod signals;
