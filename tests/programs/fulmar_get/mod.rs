//! `fulmar get` as a process.

mod calls;
mod cli;
mod done;
mod faults;
mod http2;
mod progress;
mod streams;
mod tls;
