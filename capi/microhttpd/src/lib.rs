//! The behaviour of libmicrohttpd 0.9.75 on fulmar's server: everything that needs no C pointer.
//!
//! The crate is being built: it has the pure parts, which open no socket and read no clock. The
//! source is libmicrohttpd's header and manual; where these are silent, the behaviour of the
//! library itself, which recorded the expected values of the tests.

#![forbid(unsafe_code)]

pub mod percent;
pub mod reason;

pub mod cookie;
pub mod target;

pub mod request_values;

pub mod reply_fields;
pub mod reply_head;

pub mod post;

pub mod basic;
pub mod digest;

pub mod access;

pub mod daemon_flags;
pub mod daemon_option;
pub mod feature;

pub mod memory_limit;
pub mod request_failure;

pub mod reply_content;
