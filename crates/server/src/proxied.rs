//! The client's address as a PROXY header reports it.

use std::any::Any;
use std::net::SocketAddr;

/// The source address in what a layer reports, if that is a PROXY header with an address.
#[cfg(feature = "proxy-protocol")]
pub(crate) fn source(info: &dyn Any) -> Option<SocketAddr> {
    use fulmar_semantics::proxy_protocol::ProxyProtocolHeader;

    info.downcast_ref::<ProxyProtocolHeader>().and_then(ProxyProtocolHeader::source)
}

/// Without the feature `proxy-protocol` no layer reports a header.
#[cfg(not(feature = "proxy-protocol"))]
pub(crate) fn source(_: &dyn Any) -> Option<SocketAddr> {
    None
}
