//! Message heads that rules read and change: owned copies without hop-by-hop fields.

use fulmar_proto::{HeaderBuf, Version};

/// The head of a request.
#[derive(Clone, Debug, Default)]
pub struct RequestHead {
    /// The method.
    pub method: Vec<u8>,
    /// The target: a path with its query, an absolute URI, an authority or `*` (RFC 9112 §3.2).
    pub target: Vec<u8>,
    /// The client's version.
    pub version: Version,
    /// The end-to-end fields.
    pub fields: HeaderBuf,
}

/// The head of a response.
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    /// 100 to 999.
    pub status: u16,
    /// The server's version.
    pub version: Version,
    /// The end-to-end fields.
    pub fields: HeaderBuf,
}
