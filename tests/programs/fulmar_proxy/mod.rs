//! `fulmar proxy` as a process, next to HAProxy where possible.

mod binds;
mod browser;
mod cli;
mod counters;
mod explained;
mod interrupted;
mod killed;
mod logs;
mod process;
mod reload;
mod runtime;
mod smuggling;
mod sockets;
mod stats_page;
mod tls_binds;
