//! What messages mean beyond their framing (RFC 9110): for clients and servers alike.
//!
//! Pure functions and small state machines: nothing here opens a socket or reads a clock.
#![forbid(unsafe_code)]

pub mod auth;
pub mod clock;
pub mod coding;
pub mod conditional;
pub mod content_range;
pub mod cookies;
pub mod date;
pub mod form;
pub mod netrc;
pub mod proxy;
pub mod proxy_protocol;
pub mod range;
pub mod redirect;
pub mod retry_after;
pub mod tunnel;
pub mod userinfo;

mod token;
