//! The bytes of a response's head, the framing of its body, and whether the connection persists.
//!
//! The order is: status line, `Date`, `Connection`, the fields of the program, then
//! `Transfer-Encoding` or `Content-Length`. All details are those of libmicrohttpd 0.9.75, which
//! recorded the test data, except for these errors of it:
//!
//! - After the head for `HEAD`, or of 304, it sends the last chunk of a chunked body.
//! - After the head for `CONNECT` it sends a body without a length.
//! - It sends the head of 102 again and again.

use std::fmt;

use crate::reason::{OTHER_STATUS, reason_phrase};
use crate::reply_fields::{FieldPlace, ReplyFields, ReplyFlags};

/// What a head depends on.
#[derive(Clone, Copy, Debug)]
pub struct ReplyContext<'a> {
    /// The request.
    pub request: RequestTraits,
    /// The fields of the response.
    pub fields: &'a ReplyFields,
    /// The flags of the response.
    pub flags: ReplyFlags,
    /// Length of the body in bytes; `None` if it is unknown (`MHD_SIZE_UNKNOWN`).
    pub body_len: Option<u64>,
    /// The current date; `None` with `MHD_USE_SUPPRESS_DATE_NO_CLOCK`.
    pub date: Option<[u8; 29]>,
    /// True with `MHD_ALLOW_UPGRADE`.
    pub upgrade_allowed: bool,
}

/// The properties of a request that its response depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTraits {
    /// False for HTTP/1.0.
    pub is_http_1_1: bool,
    /// The method.
    pub method: MethodKind,
    /// The request's `Connection`.
    pub wish: PersistenceWish,
    /// False if the response was queued before the last call of the access handler: then the
    /// connection closes.
    pub is_complete: bool,
}

/// Methods that change the framing of a response (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodKind {
    /// `HEAD`.
    Head,
    /// `CONNECT`.
    Connect,
    /// Any other method.
    Other,
}

/// The tokens of a request's `Connection`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersistenceWish {
    /// Neither.
    Unspecified,
    /// `keep-alive` without `close`.
    KeepAlive,
    /// `close`.
    Close,
}

/// The decisions about a response.
#[derive(Clone, Copy, Debug)]
pub struct ReplyPlan<'a> {
    context: ReplyContext<'a>,
    status: u16,
    is_icy: bool,
    persists: bool,
    framing: ReplyFraming,
}

/// The framing of the body (RFC 9112 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyFraming {
    /// The status or the method excludes a body and its length.
    Absent,
    /// `Content-Length`.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// The body ends with the connection.
    UntilClose,
}

/// Why `MHD_queue_response` refuses a response (`MHD_NO`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyRefusal {
    /// The status is not between 100 and 999.
    StatusOutOfRange,
    /// HTTP/1.0 has no responses below 200.
    InterimForHttp10,
    /// `MHD_ALLOW_UPGRADE` is missing.
    UpgradeNotAllowed,
    /// An upgrade has status 101.
    UpgradeStatus,
}

impl<'a> ReplyPlan<'a> {
    /// Decides; `status` may contain [`ICY_FLAG`].
    ///
    /// # Errors
    /// [`ReplyRefusal`].
    pub fn new(status: u32, context: ReplyContext<'a>) -> Result<Self, ReplyRefusal> {
        let is_icy = status & ICY_FLAG != 0;
        let status = u16::try_from(status & !ICY_FLAG).unwrap_or(u16::MAX);
        if !(100..1000).contains(&status) {
            return Err(ReplyRefusal::StatusOutOfRange);
        }
        if context.fields.is_upgrade() {
            if !context.upgrade_allowed {
                return Err(ReplyRefusal::UpgradeNotAllowed);
            }
            if status != 101 {
                return Err(ReplyRefusal::UpgradeStatus);
            }
        }
        if status < 200 && !context.request.is_http_1_1 {
            return Err(ReplyRefusal::InterimForHttp10);
        }
        let framing = framing(status, &context);
        let persists = persists(framing, &context);
        Ok(Self { context, status, is_icy, persists, framing })
    }

    /// True if the connection remains open after the response.
    #[must_use]
    pub fn persists(&self) -> bool {
        self.persists
    }

    /// How the body is framed.
    #[must_use]
    pub fn framing(&self) -> ReplyFraming {
        self.framing
    }

    /// False if only the head is sent.
    #[must_use]
    pub fn sends_body(&self) -> bool {
        let excluded = self.context.request.method == MethodKind::Head || self.status == 304;
        self.framing != ReplyFraming::Absent && !excluded
    }

    /// Appends the head, including the empty line.
    pub fn write(&self, out: &mut Vec<u8>) {
        let protocol: &[u8] = match (self.is_icy, self.is_http_1_0_server()) {
            (true, _) => b"ICY",
            (false, true) => b"HTTP/1.0",
            (false, false) => b"HTTP/1.1",
        };
        out.extend_from_slice(protocol);
        let reason = reason_phrase(self.status.into()).unwrap_or(OTHER_STATUS);
        out.extend_from_slice(format!(" {} {reason}\r\n", self.status).as_bytes());
        let fields = self.context.fields;
        if let Some(date) = self.context.date.filter(|_| fields.header(b"date").is_none()) {
            line(out, b"Date", &date);
        }
        self.write_connection(out);
        for field in fields.of(FieldPlace::Header) {
            let name = field.name.to_bytes();
            let is_coding = name.eq_ignore_ascii_case(b"transfer-encoding");
            let is_dropped = is_coding && self.framing != ReplyFraming::Chunked;
            if !is_dropped && !name.eq_ignore_ascii_case(b"connection") {
                line(out, name, field.value.to_bytes());
            }
        }
        match self.framing {
            ReplyFraming::Chunked if fields.header(b"transfer-encoding").is_none() => {
                line(out, b"Transfer-Encoding", b"chunked");
            }
            ReplyFraming::Length(len) => line(out, b"Content-Length", len.to_string().as_bytes()),
            _ => {}
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Appends the end of a chunked body: the last chunk, and the footers of the response.
    pub fn write_chunks_end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"0\r\n");
        for field in self.context.fields.of(FieldPlace::Footer) {
            line(out, field.name.to_bytes(), field.value.to_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }

    fn write_connection(&self, out: &mut Vec<u8>) {
        let fields = self.context.fields;
        let own: &[u8] = fields.header(b"connection").map_or(&[], |field| field.value.to_bytes());
        let is_named = self.is_http_1_0_server()
            || !self.context.request.is_http_1_1
            || self.context.flags.has(ReplyFlags::SEND_KEEP_ALIVE);
        let first: &[u8] = match self.persists {
            _ if fields.is_upgrade() => b"",
            true if is_named => b"Keep-Alive",
            false if !fields.closes() => b"close",
            _ => b"",
        };
        let separator: &[u8] = if first.is_empty() || own.is_empty() { b"" } else { b", " };
        let value = [first, separator, own].concat();
        if !value.is_empty() {
            line(out, b"Connection", &value);
        }
    }

    fn is_http_1_0_server(&self) -> bool {
        self.context.flags.has(ReplyFlags::HTTP_1_0_SERVER)
    }
}

impl fmt::Display for ReplyRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StatusOutOfRange => "response status must be between 100 and 999",
            Self::InterimForHttp10 => "HTTP/1.0 has no response status below 200",
            Self::UpgradeNotAllowed => "an upgrade needs MHD_ALLOW_UPGRADE",
            Self::UpgradeStatus => "the status of an upgrade must be 101",
        })
    }
}

impl std::error::Error for ReplyRefusal {}

fn framing(status: u16, context: &ReplyContext<'_>) -> ReplyFraming {
    let ReplyContext { request, fields, flags, .. } = context;
    let is_tunnel = request.method == MethodKind::Connect && (200..300).contains(&status);
    if status < 200 || status == 204 || is_tunnel {
        return ReplyFraming::Absent;
    }
    let may_chunk = request.is_http_1_1
        && !flags.has(ReplyFlags::HTTP_1_0_STRICT)
        && !flags.has(ReplyFlags::HTTP_1_0_SERVER);
    match context.body_len {
        _ if may_chunk && fields.header(b"transfer-encoding").is_some() => ReplyFraming::Chunked,
        Some(len) => ReplyFraming::Length(len),
        None if may_chunk => ReplyFraming::Chunked,
        None => ReplyFraming::UntilClose,
    }
}

fn persists(framing: ReplyFraming, context: &ReplyContext<'_>) -> bool {
    let ReplyContext { request, fields, flags, .. } = context;
    if framing == ReplyFraming::UntilClose
        || flags.has(ReplyFlags::HTTP_1_0_STRICT)
        || fields.closes()
        || !request.is_complete
    {
        return false;
    }
    match request.wish {
        PersistenceWish::Close => false,
        PersistenceWish::KeepAlive => true,
        PersistenceWish::Unspecified => {
            request.is_http_1_1 && !flags.has(ReplyFlags::HTTP_1_0_SERVER)
        }
    }
}

fn line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// `MHD_ICY_FLAG`: the status line begins with `ICY` (SHOUTcast).
pub const ICY_FLAG: u32 = 1 << 31;

#[cfg(test)]
mod tests;
