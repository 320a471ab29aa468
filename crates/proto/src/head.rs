//! Start lines, and header fields as they arrived.

use std::ops::Range;

/// The head of a request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Case-sensitive (RFC 9110 §9.1).
    pub method: &'a [u8],
    /// As in the start line, without decoding.
    pub target: &'a [u8],
    /// The peer's version; a sent message has that of its connection.
    pub version: Version,
    /// The fields.
    pub headers: Headers<'a>,
    /// Fields that a forwarding application adds.
    pub added: Added<'a>,
    /// The body waits for a 100 (RFC 9110 §10.1.1). In a received request: the peer may send
    /// nothing before a response. In a sent one: how long to wait is the caller's policy.
    pub expects_continue: bool,
    /// Of an extended CONNECT, the protocol of the tunnel (RFC 8441); HTTP/2 only.
    pub protocol: Option<&'a [u8]>,
}

/// The head of a response.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// 100 to 999.
    pub status: u16,
    /// The peer's version; a sent message has that of its connection.
    pub version: Version,
    /// The fields.
    pub headers: Headers<'a>,
    /// Fields that a forwarding application adds.
    pub added: Added<'a>,
}

/// A field added on the way; the received ones stay where they are.
pub type Added<'a> = &'a [(&'a str, &'a [u8])];

/// The version of a message. 1.2 to 1.9 are treated as 1.1 (RFC 9110 §2.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// HTTP/0.9: a response that is a body without a head ([`crate::h1::Leniency::HTTP_09`]).
    Http09,
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    #[default]
    Http11,
    /// HTTP/2.
    Http2,
}

impl<'a> Request<'a> {
    /// A request to send.
    pub fn new(method: &'a [u8], target: &'a [u8], headers: Headers<'a>) -> Self {
        Self {
            method,
            target,
            version: Version::Http11,
            headers,
            added: &[],
            expects_continue: false,
            protocol: None,
        }
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
    origin: FieldOrigin,
}

/// Where fields come from, and so which of them may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldOrigin {
    /// From a peer in HTTP/1, as received: hop-by-hop fields end here.
    Received,
    /// The same, repaired: the repaired section has this length, and the received one follows it.
    Repaired(u32),
    /// The same in HTTP/2: names and values side by side.
    Decoded,
    /// From the caller, with fields for the next hop, such as `Upgrade` and `TE`.
    Built,
    /// From the caller; the block has only `name: value CRLF` lines without hop-by-hop fields, so
    /// it is sent unchanged.
    Wire,
}

impl<'a> Headers<'a> {
    /// No fields.
    pub const EMPTY: Headers<'static> =
        Headers { block: &[], index: &[], origin: FieldOrigin::Wire };

    pub(crate) fn with_origin(block: &'a [u8], index: &'a [Header], origin: FieldOrigin) -> Self {
        Headers { block, index, origin }
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

    /// The others: fields that concern one connection.
    pub fn hop_by_hop(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        self.index.iter().filter(|header| header.hop).map(move |header| self.field(header))
    }

    /// The size of the block, with the bytes before the fields: of a received head, all of it.
    pub fn size(self) -> usize {
        match self.origin {
            FieldOrigin::Repaired(len) => len as usize,
            _ => self.block.len(),
        }
    }

    /// The received bytes of the section, also those of lines that are no fields: of a head from
    /// its start line to its empty line, of trailers from their first line to their empty line.
    /// `None` in HTTP/2, and of fields that were not received.
    pub fn received(self) -> Option<&'a [u8]> {
        match self.origin {
            FieldOrigin::Received => Some(self.block),
            FieldOrigin::Repaired(len) => Some(&self.block[len as usize..]),
            FieldOrigin::Decoded | FieldOrigin::Built | FieldOrigin::Wire => None,
        }
    }

    /// The value of the first field with this name; names are compared without case.
    pub fn get(self, name: &str) -> Option<&'a [u8]> {
        self.get_all(name).next()
    }

    /// The values of all fields with this name, in order.
    pub fn get_all(self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name.as_bytes())).map(|(_, v)| v)
    }

    /// True if there is a field with this name. Only names of the same length are compared.
    pub fn has(self, name: &str) -> bool {
        let same = |header: &Header| {
            (header.name.end - header.name.start) as usize == name.len()
                && slice(self.block, &header.name).eq_ignore_ascii_case(name.as_bytes())
        };
        self.index.iter().any(same)
    }

    /// The number of fields.
    pub fn len(self) -> usize {
        self.index.len()
    }

    /// True if there are no fields.
    pub fn is_empty(self) -> bool {
        self.index.is_empty()
    }

    /// The end-to-end fields as bytes for the wire, if they are stored that way.
    pub(crate) fn as_wire(self) -> Option<&'a [u8]> {
        (self.origin == FieldOrigin::Wire).then_some(self.block)
    }

    /// The fields for a sent head: the end-to-end ones, and those of the caller for the next hop.
    /// Framing and `Connection` are not among them: the connection writes those.
    pub(crate) fn to_send(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let asks = self.origin == FieldOrigin::Built;
        self.index
            .iter()
            .filter(move |header| {
                !header.hop || (asks && is_caller_hop(slice(self.block, &header.name)))
            })
            .map(move |header| self.field(header))
    }

    /// The hop-by-hop fields of the caller; those of a peer do not apply to the next hop.
    pub(crate) fn own_hops(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let own = self.origin == FieldOrigin::Built;
        let index = if own { self.index } else { &[] };
        index.iter().filter(|header| header.hop).map(move |header| self.field(header))
    }

    pub(crate) fn field(self, header: &Header) -> (&'a [u8], &'a [u8]) {
        (slice(self.block, &header.name), slice(self.block, &header.value))
    }
}

/// Memory for decoding one head at a time: one per thread, an idle connection holds none.
#[derive(Clone, Debug)]
pub struct Scratch {
    /// The current head. A copy: a few hundred bytes cost less to copy than to share, and so no
    /// head keeps the block it arrived in from being used again.
    pub(crate) head: Vec<u8>,
    /// Its fields, as offsets into `head`.
    pub(crate) index: Vec<Header>,
    /// What is in `head`.
    pub(crate) origin: FieldOrigin,
}

impl Default for Scratch {
    fn default() -> Self {
        Self { head: Vec::new(), index: Vec::new(), origin: FieldOrigin::Received }
    }
}

impl Scratch {
    /// The current fields.
    pub(crate) fn headers(&self) -> Headers<'_> {
        Headers::with_origin(&self.head, &self.index, self.origin)
    }

    /// The section in `head` is a repaired one: appends the received one.
    pub(crate) fn append_received(&mut self, section: &[u8]) {
        let len = u32::try_from(self.head.len()).expect("sections are limited to less than 4 GiB");
        self.origin = FieldOrigin::Repaired(len);
        self.head.extend_from_slice(section);
    }
}

/// Fields that concern one connection only (RFC 9110 §7.6.1), and what each connection writes
/// for itself: framing, and the expectation ([`Request::expects_continue`]).
pub(crate) fn is_hop(name: &[u8]) -> bool {
    let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
    match name.len() {
        2 => is(b"te"),
        6 => is(b"expect"),
        7 => is(b"upgrade") || is(b"trailer"),
        10 => is(b"connection") || is(b"keep-alive"),
        14 => is(b"content-length"),
        16 => is(b"proxy-connection"),
        17 => is(b"transfer-encoding"),
        _ => false,
    }
}

/// Hop-by-hop fields that a caller may send: requests to the next hop.
pub(crate) fn is_caller_hop(name: &[u8]) -> bool {
    let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
    match name.len() {
        2 => is(b"te"),
        7 => is(b"upgrade") || is(b"trailer"),
        _ => false,
    }
}

/// Fields that determine the route, the sender and the meaning of a message. `Connection` cannot
/// have them removed on the way (RFC 9110 §7.6.1 forbids naming them).
pub(crate) fn is_protected(name: &[u8]) -> bool {
    let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
    match name.len() {
        3 => is(b"via"),
        4 => is(b"host"),
        6 => is(b"cookie"),
        9 => is(b"forwarded") || is(b"x-real-ip"),
        10 => is(b"set-cookie"),
        12 => is(b"content-type"),
        13 => is(b"authorization") || is(b"cache-control") || is(b"content-range"),
        15 => is(b"x-forwarded-for"),
        16 => is(b"content-encoding") || is(b"x-forwarded-host"),
        17 => is(b"x-forwarded-proto"),
        _ => false,
    }
}

/// Fields that frame, route, describe or authenticate a message. They are evaluated before the
/// body, and a trailer that contains them may be an attack (RFC 9110 §6.5.1).
pub(crate) fn is_forbidden_trailer(name: &[u8]) -> bool {
    FORBIDDEN_TRAILERS.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// True of a `token` (RFC 9110 §5.6.2): a method, or the name of a field.
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|b| is_tchar(*b))
}

/// `tchar` (RFC 9110 §5.6.2).
pub(crate) fn is_tchar(byte: u8) -> bool {
    TCHAR[byte as usize]
}

/// `field-value` (RFC 9110 §5.5): no control characters but HTAB, no blanks around it.
pub(crate) fn is_field_value(bytes: &[u8]) -> bool {
    let is_blank = |b: Option<&u8>| matches!(b, Some(b' ' | b'\t'));
    text_len(bytes) == bytes.len() && !is_blank(bytes.first()) && !is_blank(bytes.last())
}

/// True of most values for which [`is_field_value`] is: SP to `~`, without blanks around it. It
/// takes the last words of a value as a whole, as most values of HTTP/2 are short.
#[inline]
pub(crate) fn is_plain_value(bytes: &[u8]) -> bool {
    let ([first, ..], [.., last]) = (bytes, bytes) else { return true };
    if *first == b' ' || *last == b' ' {
        return false;
    }
    let is_plain = |word: [u8; 8]| unusual(u64::from_le_bytes(word)) == 0;
    match (bytes.last_chunk::<8>(), bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(tail), ..) => {
            is_plain(*tail) && bytes.as_chunks::<8>().0.iter().all(|word| is_plain(*word))
        }
        (None, Some([a, b, c, d]), Some([e, f, g, h])) => {
            is_plain([*a, *b, *c, *d, *e, *f, *g, *h])
        }
        (None, ..) => {
            is_plain([*first, bytes[bytes.len() / 2], *last, b' ', b' ', b' ', b' ', b' '])
        }
    }
}

/// A byte of a field value, reason phrase or quoted string: HTAB, SP, VCHAR or obs-text.
pub(crate) fn is_text(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~' | 0x80..)
}

/// The number of leading bytes of text ([`is_text`]). Eight at a time: these are most of a head.
#[inline(always)]
pub(crate) fn text_len(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (at, word) in (0..).step_by(8).zip(words) {
        let marks = unusual(u64::from_le_bytes(*word));
        if marks != 0 {
            let first = marks.trailing_zeros() as usize / 8;
            if !is_text(word[first]) {
                return at + first;
            }
            if let Some(n) = word[first..].iter().position(|b| !is_text(*b)) {
                return at + first + n;
            }
        }
    }
    let len = rest.iter().position(|b| !is_text(*b)).unwrap_or(rest.len());
    bytes.len() - rest.len() + len
}

/// Marks, in the highest bit of each, bytes that are not from SP to `~`: the lowest mark is
/// right. Those above it may not be, as a byte that is marked can borrow or carry.
fn unusual(word: u64) -> u64 {
    (word.wrapping_sub(BYTES * 0x20) | word.wrapping_add(BYTES) | word) & (BYTES * 0x80)
}

/// Without the optional whitespace around it, which is SP and HTAB and nothing else
/// (RFC 9110 §5.6.3).
pub(crate) fn trim_ows(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

pub(crate) fn slice<'a>(block: &'a [u8], range: &Range<u32>) -> &'a [u8] {
    &block[range.start as usize..range.end as usize]
}

const FORBIDDEN_TRAILERS: [&[u8]; 22] = [
    b"Authorization",
    b"Cache-Control",
    b"Connection",
    b"Content-Encoding",
    b"Content-Length",
    b"Content-Range",
    b"Content-Type",
    b"Cookie",
    b"Expect",
    b"Host",
    b"Keep-Alive",
    b"Location",
    b"Max-Forwards",
    b"Proxy-Authorization",
    b"Proxy-Connection",
    b"Range",
    b"Set-Cookie",
    b"TE",
    b"Trailer",
    b"Transfer-Encoding",
    b"Upgrade",
    b"WWW-Authenticate",
];

/// One in each byte of a word.
const BYTES: u64 = 0x0101_0101_0101_0101;

const TCHAR: [bool; 256] = {
    let mut table = [false; 256];
    let marks = b"!#$%&'*+-.^_`|~";
    let mut i = 0;
    while i < marks.len() {
        table[marks[i] as usize] = true;
        i += 1;
    }
    let mut byte = 0u8;
    while byte < 128 {
        table[byte as usize] |= byte.is_ascii_alphanumeric();
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_values_are_a_part_of_the_valid_ones() {
        for len in 0..20 {
            assert!(is_plain_value(&[b'v'; 20][..len]));
            for at in 0..len {
                for byte in 0..=u8::MAX {
                    let mut value = [b'v'; 20];
                    value[at] = byte;
                    let value = &value[..len];
                    let is_plain = matches!(byte, b' '..=b'~') && is_field_value(value);
                    assert_eq!(is_plain_value(value), is_plain, "{value:?}");
                }
            }
        }
    }

    #[test]
    fn every_byte_of_a_value_is_text_at_any_place_of_a_word() {
        for byte in 0..=u8::MAX {
            for at in 0..20 {
                let mut value = [b'v'; 20];
                value[at] = byte;
                let len = if is_text(byte) { value.len() } else { at };
                assert_eq!(text_len(&value), len, "{byte:#04x} at {at}");
            }
        }
    }
}
