//! A proxy as a program: threads, reloads, logs, statistics, the runtime socket.
#![forbid(unsafe_code)]

pub mod statistics;
