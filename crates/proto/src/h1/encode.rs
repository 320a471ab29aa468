//! Encoding of heads (RFC 9112 §2 to §6): start line, the caller's fields, and the connection's
//! own.
//!
//! Framing and `Connection` are written here: `Content-Length`, `Transfer-Encoding` and
//! `Connection` of the caller are left out, and a `close` among them is obeyed. Everything is
//! checked before the first byte is written.

use bytes::Bytes;

use crate::body_len::BodyLen;
use crate::errors::{PeerError, UsageError};
use crate::head::{Added, Headers, Request, is_caller_hop, is_hop};
use crate::outgoing::{self, HopFields};

use super::verbatim::VerbatimHead;

/// The connection's own fields in a head.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnFields {
    pub(super) length: LengthField,
    pub(super) close: bool,
    pub(super) keep_alive: bool,
    pub(super) expects_continue: bool,
    pub(super) hop: HopFields,
}

/// How a head declares the length of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthField {
    /// Not at all: no body, or one that the end of the connection ends.
    Absent,
    /// `Content-Length`, in bytes.
    Exact(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
}

/// How a request declares the length of its body. If the method expects a body, a missing one is
/// declared too, so that the server does not wait for it (RFC 9110 §8.6).
pub(super) fn request_length(method: &[u8], len: BodyLen) -> LengthField {
    match len {
        BodyLen::Exact(_) if method == b"CONNECT" => LengthField::Absent,
        BodyLen::Exact(n) => LengthField::Exact(n),
        BodyLen::Unknown => LengthField::Chunked,
        BodyLen::Empty if matches!(method, b"POST" | b"PUT" | b"PATCH") => LengthField::Exact(0),
        BodyLen::Empty => LengthField::Absent,
    }
}

/// Writes a request head, checked before.
pub(super) fn request(out: &mut Vec<u8>, request: &Request<'_>, own: OwnFields) {
    out.extend_from_slice(request.method);
    out.push(b' ');
    out.extend_from_slice(request.target);
    out.extend_from_slice(b" HTTP/1.1\r\n");
    fields(out, request.headers, request.added, own);
}

/// Writes a response head, checked before.
pub(super) fn response(
    out: &mut Vec<u8>,
    status: u16,
    headers: Headers<'_>,
    added: Added<'_>,
    own: OwnFields,
) {
    status_line(out, status);
    fields(out, headers, added, own);
}

fn status_line(out: &mut Vec<u8>, status: u16) {
    if status == 200 {
        return out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    }
    out.extend_from_slice(b"HTTP/1.1 ");
    decimal(out, status.into());
    out.push(b' ');
    out.extend_from_slice(reason(status).as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn fields(out: &mut Vec<u8>, headers: Headers<'_>, added: Added<'_>, own: OwnFields) {
    match headers.as_wire() {
        Some(wire) => out.extend_from_slice(wire),
        None => headers.to_send().for_each(|(name, value)| field(out, name, value)),
    }
    for (name, value) in added {
        if !is_hop(name.as_bytes()) || is_caller_hop(name.as_bytes()) {
            field(out, name.as_bytes(), value);
        }
    }
    match own.length {
        LengthField::Absent => {}
        LengthField::Exact(n) => {
            out.extend_from_slice(b"Content-Length: ");
            decimal(out, n);
            out.extend_from_slice(b"\r\n");
        }
        LengthField::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
    if own.expects_continue {
        out.extend_from_slice(b"Expect: 100-continue\r\n");
    }
    connection(out, own);
    out.extend_from_slice(b"\r\n");
}

fn connection(out: &mut Vec<u8>, own: OwnFields) {
    let options = [
        (own.close, &b"close"[..]),
        (own.keep_alive, b"keep-alive"),
        (own.hop.upgrade, b"Upgrade"),
        (own.hop.te, b"TE"),
    ];
    let mut lead = &b"Connection: "[..];
    for (_, option) in options.iter().filter(|(wanted, _)| *wanted) {
        out.extend_from_slice(lead);
        out.extend_from_slice(option);
        lead = b", ";
    }
    if lead == b", " {
        out.extend_from_slice(b"\r\n");
    }
}

fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// The size line of a chunk.
pub(super) fn chunk_size(out: &mut Vec<u8>, size: u64) {
    let mut digits = [0; 16];
    let mut at = digits.len();
    let mut rest = size;
    loop {
        at -= 1;
        digits[at] = b"0123456789abcdef"[usize::from(rest.to_le_bytes()[0] & 15)];
        rest >>= 4;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n");
}

/// The last chunk and the trailers, checked before.
pub(super) fn last_chunk(out: &mut Vec<u8>, trailers: Headers<'_>) {
    out.extend_from_slice(b"0\r\n");
    match trailers.as_wire() {
        Some(wire) => out.extend_from_slice(wire),
        None => trailers.end_to_end().for_each(|(name, value)| field(out, name, value)),
    }
    out.extend_from_slice(b"\r\n");
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    status: u16,
    text: &'static str,
}

impl From<PeerError> for Refusal {
    fn from(error: PeerError) -> Self {
        Self { status: error.status(), text: error_text(error) }
    }
}

/// The complete response to such a request; the connection ends with it.
pub(super) fn refusal(out: &mut Vec<u8>, refusal: Refusal, with_body: bool) {
    let text = refusal.text;
    status_line(out, refusal.status);
    out.extend_from_slice(b"Content-Type: text/plain\r\nContent-Length: ");
    decimal(out, text.len() as u64 + 1);
    out.extend_from_slice(b"\r\nConnection: close\r\n\r\n");
    if with_body {
        out.extend_from_slice(text.as_bytes());
        out.push(b'\n');
    }
}

/// Decimal digits, without the machinery of `fmt`.
fn decimal(out: &mut Vec<u8>, n: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = n;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10).to_le_bytes()[0];
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// A request compiled once, to be sent any number of times: nothing is formatted, checked or
/// allocated when it is sent.
///
/// ```
/// use fulmar_proto::h1::{H1Client, EncodedRequest};
/// use fulmar_proto::{Connection, HeaderBuf, Request};
///
/// let mut headers = HeaderBuf::new();
/// headers.push("Host", b"example.com").unwrap();
/// let request = Request::new(b"GET", b"/", headers.as_headers());
/// let encoded = EncodedRequest::new(&request, b"").unwrap();
///
/// let mut connection = H1Client::default();
/// let stream = connection.open().unwrap();
/// connection.send_encoded(stream, &encoded).unwrap();
/// let transmit = connection.poll_transmit().unwrap();
/// assert_eq!(transmit.inline, b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n");
/// ```
#[derive(Clone, Debug)]
pub struct EncodedRequest {
    /// Head and body.
    pub(super) wire: Bytes,
    /// Where the head ends.
    pub(super) head_size: usize,
    pub(super) is_head: bool,
    pub(super) is_connect: bool,
    pub(super) requests_upgrade: bool,
    pub(super) requests_close: bool,
    /// The head is the caller's, and nothing is added to it.
    pub(super) is_verbatim: bool,
    expects_continue: bool,
}

impl EncodedRequest {
    /// Compiles a request and the whole of its body.
    ///
    /// # Errors
    /// [`UsageError::BadHead`] if the method, the target or an added field would break the message,
    /// [`UsageError::BodyLongerThanDeclared`] if the method is CONNECT and there is a body.
    pub fn new(head: &Request<'_>, body: &[u8]) -> Result<Self, UsageError> {
        let len = match body.len() as u64 {
            0 => BodyLen::Empty,
            n => BodyLen::Exact(n),
        };
        outgoing::check_request(head, len)?;
        let hop = outgoing::survey(head.headers, head.added)?;
        let expects_continue = (head.expects_continue || hop.expects_continue) && !body.is_empty();
        let length = request_length(head.method, len);
        let own = OwnFields { length, close: hop.close, keep_alive: false, expects_continue, hop };
        let mut wire = Vec::new();
        request(&mut wire, head, own);
        let head_size = wire.len();
        wire.extend_from_slice(body);
        Ok(Self {
            wire: wire.into(),
            head_size,
            is_head: head.method == b"HEAD",
            is_connect: head.method == b"CONNECT",
            requests_upgrade: hop.upgrade,
            requests_close: hop.close,
            is_verbatim: false,
            expects_continue,
        })
    }

    /// Compiles a head of the caller, and the whole of its body.
    pub fn verbatim(head: &VerbatimHead, body: &[u8]) -> Self {
        let wire = match body {
            [] => head.bytes().clone(),
            body => [head.as_bytes(), body].concat().into(),
        };
        Self {
            wire,
            head_size: head.as_bytes().len(),
            is_head: head.is_bodiless,
            is_connect: head.is_connect(),
            requests_upgrade: head.upgrades,
            requests_close: head.closes,
            is_verbatim: true,
            expects_continue: head.expects_continue && !body.is_empty(),
        }
    }

    /// The size of head and body.
    pub fn len(&self) -> usize {
        self.wire.len()
    }

    /// False: a request has a head at least.
    pub fn is_empty(&self) -> bool {
        self.wire.is_empty()
    }

    /// True if the response has no body (RFC 9110 §9.3.2).
    pub fn is_head(&self) -> bool {
        self.is_head
    }

    /// True if it requests a tunnel (RFC 9110 §9.3.6).
    pub fn is_connect(&self) -> bool {
        self.is_connect
    }

    /// True if it requests another protocol (RFC 9110 §7.8).
    pub fn requests_upgrade(&self) -> bool {
        self.requests_upgrade
    }

    /// True if it announces that its body waits for a 100 (RFC 9110 §10.1.1); sent as one piece
    /// it does not.
    pub fn expects_continue(&self) -> bool {
        self.expects_continue
    }
}

/// The line that an error reply carries.
/// The rest of the request did not come in time.
pub(super) const LATE: Refusal =
    Refusal { status: 408, text: "The request did not arrive in time." };

fn error_text(error: PeerError) -> &'static str {
    match error {
        PeerError::HeadTooLarge => "The request head is too large.",
        PeerError::TooManyFields => "The request has too many header fields.",
        PeerError::TargetTooLong => "The request target is too long.",
        PeerError::MethodTooLong => "The request method is too long.",
        PeerError::BadStartLine => "The request line is malformed.",
        PeerError::BadTarget => "The request target is malformed.",
        PeerError::BadVersion => "The HTTP version is not supported.",
        PeerError::BadField => "A header field is malformed.",
        PeerError::BadHost => "The Host field is missing or malformed.",
        PeerError::BadLength => "The Content-Length is malformed or ambiguous.",
        PeerError::BadTransferEncoding => "The Transfer-Encoding is malformed or misplaced.",
        PeerError::UnknownTransferCoding => "The transfer coding is not implemented.",
        PeerError::UnknownExpectation => "The expectation is not supported.",
        PeerError::BadChunk => "The chunked framing is malformed.",
        PeerError::BadTrailer => "A trailer field is malformed.",
        _ => "The request is malformed.",
    }
}

/// Reason phrases are for people; one that is not known is left empty (RFC 9112 §4).
fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        _ => error_reason(status),
    }
}

fn error_reason(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        511 => "Network Authentication Required",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_without_fmt() {
        for n in [0, 7, 10, 255, 4096, u64::MAX] {
            let mut out = Vec::new();
            decimal(&mut out, n);
            out.push(b' ');
            chunk_size(&mut out, n);
            assert_eq!(String::from_utf8(out).unwrap(), format!("{n} {n:x}\r\n"));
        }
    }
}
