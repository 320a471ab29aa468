//! Tunnels being opened through a proxy, as [`fulmar_proto::Layer`]s.
//!
//! Needs the feature `url`.
//!
//! A layer of this module speaks to the proxy, and is replaced by what it was given as the next
//! layer, or by nothing, once the tunnel stands. It seals nothing: the connection above waits. It
//! takes no byte that belongs to what follows, and what it keeps in memory is one small message,
//! or one head.

mod http_connect;
mod socks5;

pub use http_connect::{HttpConnect, HttpConnectError};
pub use socks5::{Socks5, Socks5Error, Socks5Misuse};
