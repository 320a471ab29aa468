//! Heads that rules look at and change: owned copies, without what concerns one hop only.

use fulmar_proto::{HeaderBuf, Version};

/// The head of a request on its way through.
#[derive(Clone, Debug, Default)]
pub struct RequestHead {
    /// The method.
    pub method: Vec<u8>,
    /// The target: a path with its query, an absolute URI, an authority or `*` (RFC 9112 §3.2).
    pub target: Vec<u8>,
    /// What the client speaks.
    pub version: Version,
    /// The end-to-end fields.
    pub fields: HeaderBuf,
}

/// The head of a response on its way through.
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    /// 100 to 999.
    pub status: u16,
    /// What the server speaks.
    pub version: Version,
    /// The end-to-end fields.
    pub fields: HeaderBuf,
}
