//! Opening tunnels through proxies, as [`fulmar_proto::Layer`]s.
//!
//! Needs the feature `url`.
//!
//! A layer of this module talks to the proxy. When the tunnel is open, the next layer, or nothing,
//! replaces it. Until then it seals nothing, so the connection above waits. It consumes no byte of
//! the tunnel, and buffers at most one message or one head.

mod http_connect;
mod socks4;
mod socks5;

pub use http_connect::{HttpConnect, HttpConnectError};
pub use socks4::{Socks4, Socks4Error};
pub use socks5::{Socks5, Socks5Error, Socks5Misuse};
