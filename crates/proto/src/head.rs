//! Start lines and header fields: borrowed as they arrived, or built to be sent.

use std::ops::Range;

use bytes::Bytes;

use crate::connection::Misuse;

/// The head of a request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Case-sensitive (RFC 9110 §9.1).
    pub method: &'a [u8],
    /// As it stands in the start line: nothing is decoded.
    pub target: &'a [u8],
    /// What the peer speaks; we always send HTTP/1.1.
    pub version: Version,
    /// The fields.
    pub headers: Headers<'a>,
    /// Fields put on by whoever forwards.
    pub added: Added<'a>,
}

/// The head of a response.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// 100 to 999.
    pub status: u16,
    /// What the peer speaks; we always send HTTP/1.1.
    pub version: Version,
    /// The fields.
    pub headers: Headers<'a>,
    /// Fields put on by whoever forwards.
    pub added: Added<'a>,
}

/// A field added on the way; the received ones stay where they are.
pub type Added<'a> = &'a [(&'a str, &'a [u8])];

/// The minor version of HTTP/1. 1.2 to 1.9 are treated as 1.1 (RFC 9110 §2.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    #[default]
    Http11,
}

impl<'a> Request<'a> {
    /// A request to send.
    pub fn new(method: &'a [u8], target: &'a [u8], headers: Headers<'a>) -> Self {
        Self { method, target, version: Version::Http11, headers, added: &[] }
    }
}

impl<'a> Response<'a> {
    /// A response to send.
    pub fn new(status: u16, headers: Headers<'a>) -> Self {
        Self { status, version: Version::Http11, headers, added: &[] }
    }
}

/// One header field as offsets into the block it was decoded from.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) name: Range<u32>,
    pub(crate) value: Range<u32>,
    /// Meant for this connection only: never relayed.
    pub(crate) hop: bool,
}

/// Header fields in wire order, borrowed from the bytes they arrived in or were built in.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'a> {
    block: &'a [u8],
    index: &'a [Header],
    /// `block` is nothing but `name: value CRLF` lines without hop-by-hop fields.
    wire: bool,
}

impl<'a> Headers<'a> {
    /// No fields.
    pub const EMPTY: Headers<'static> = Headers { block: &[], index: &[], wire: true };

    pub(crate) fn new(block: &'a [u8], index: &'a [Header]) -> Self {
        Headers { block, index, wire: false }
    }

    /// All fields.
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        self.index.iter().map(move |header| self.field(header))
    }

    /// The fields that may be passed on: framing and what concerns one connection belong to
    /// each connection (RFC 9110 §7.6.1).
    pub fn end_to_end(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        self.index.iter().filter(|header| !header.hop).map(move |header| self.field(header))
    }

    /// The value of the first field with this name; names are compared without case.
    pub fn get(self, name: &str) -> Option<&'a [u8]> {
        self.get_all(name).next()
    }

    /// The values of all fields with this name, in order.
    pub fn get_all(self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name.as_bytes())).map(|(_, v)| v)
    }

    /// How many fields there are.
    pub fn len(self) -> usize {
        self.index.len()
    }

    /// True if there are none.
    pub fn is_empty(self) -> bool {
        self.index.is_empty()
    }

    /// The end-to-end fields as they go on the wire, where they stand so already.
    pub(crate) fn as_wire(self) -> Option<&'a [u8]> {
        self.wire.then_some(self.block)
    }

    fn field(self, header: &Header) -> (&'a [u8], &'a [u8]) {
        (slice(self.block, &header.name), slice(self.block, &header.value))
    }
}

/// Header fields that we send: checked when they are added, kept as they go on the wire.
///
/// ```
/// use fulmar_proto::HeaderBuf;
/// let mut headers = HeaderBuf::new();
/// headers.push("Content-Type", b"text/plain").unwrap();
/// assert!(headers.push("X-Split", b"a\r\nSet-Cookie: b").is_err());
/// assert_eq!(headers.as_headers().get("content-type"), Some(&b"text/plain"[..]));
/// ```
#[derive(Clone, Debug, Default)]
pub struct HeaderBuf {
    block: Vec<u8>,
    index: Vec<Header>,
    hops: bool,
}

impl HeaderBuf {
    /// No fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a field.
    ///
    /// # Errors
    /// [`Misuse::BadHead`] if the name is not a token, or the value has CR, LF, NUL or another
    /// control character, or blanks around it (RFC 9110 §5.5): nothing is added.
    pub fn push(&mut self, name: &str, value: &[u8]) -> Result<(), Misuse> {
        if !is_token(name.as_bytes()) || !is_field_value(value) {
            return Err(Misuse::BadHead);
        }
        let start = self.offset()?;
        self.block.extend_from_slice(name.as_bytes());
        let name_end = self.offset()?;
        self.block.extend_from_slice(b": ");
        let value_start = self.offset()?;
        self.block.extend_from_slice(value);
        let value_end = self.offset()?;
        self.block.extend_from_slice(b"\r\n");
        let hop = is_hop(name.as_bytes());
        self.hops |= hop;
        self.index.push(Header { name: start..name_end, value: value_start..value_end, hop });
        Ok(())
    }

    /// Removes every field, and keeps the memory.
    pub fn clear(&mut self) {
        self.block.clear();
        self.index.clear();
        self.hops = false;
    }

    /// The fields, to be sent or read.
    pub fn as_headers(&self) -> Headers<'_> {
        Headers { block: &self.block, index: &self.index, wire: !self.hops }
    }

    fn offset(&self) -> Result<u32, Misuse> {
        u32::try_from(self.block.len()).map_err(|_| Misuse::BadHead)
    }
}

/// Memory for decoding one head at a time: one per thread, an idle connection holds none.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The head in hand: a piece of the input, not a copy.
    pub(crate) head: Bytes,
    pub(crate) index: Vec<Header>,
}

/// Fields that concern one connection only (RFC 9110 §7.6.1), and framing, which each
/// connection writes for itself.
pub(crate) fn is_hop(name: &[u8]) -> bool {
    let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
    match name.len() {
        2 => is(b"te"),
        7 => is(b"upgrade") || is(b"trailer"),
        10 => is(b"connection") || is(b"keep-alive"),
        14 => is(b"content-length"),
        16 => is(b"proxy-connection"),
        17 => is(b"transfer-encoding"),
        _ => false,
    }
}

/// `token` (RFC 9110 §5.6.2).
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    let is_tchar = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    !bytes.is_empty() && bytes.iter().all(is_tchar)
}

/// `field-value` (RFC 9110 §5.5): no control characters but HTAB, no blanks around it.
pub(crate) fn is_field_value(bytes: &[u8]) -> bool {
    let is_allowed = |b: &u8| matches!(b, b'\t' | b' '..=b'~' | 0x80..);
    bytes.iter().all(is_allowed) && bytes.trim_ascii().len() == bytes.len()
}

pub(crate) fn slice<'a>(block: &'a [u8], range: &Range<u32>) -> &'a [u8] {
    &block[range.start as usize..range.end as usize]
}
