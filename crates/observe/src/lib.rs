//! What watches a server: the access log.
#![forbid(unsafe_code)]

pub mod log;

pub use log::AccessLog;
