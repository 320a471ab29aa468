//! From a header block to a head: pseudo-header fields and what makes a message malformed
//! (RFC 9113 §8).
//!
//! The rules are stricter than those of HTTP/1.1, since what is accepted here may be forwarded as
//! HTTP/1.1: no field can contain a line end, declare another framing, or name another host.

use std::ops::Range;

use crate::body_len::{BodyLen, decimal};
use crate::error_code::ErrorCode;
use crate::errors::PeerError;
use crate::h1::{FIELDS_LEN_MAX, HEAD_SIZE_MAX, METHOD_SIZE_MAX, TARGET_SIZE_MAX};
use crate::head::{
    FieldOrigin, Header, Request, Response, Scratch, Version, is_field_value, is_forbidden_trailer,
    is_hop, is_plain_value, is_tchar, is_token, slice,
};
use crate::target;

use super::hpack::HpackDecoder;

/// A decoded header block, whose bytes are in a [`Scratch`].
#[derive(Clone, Debug, Default)]
pub(super) struct FieldSection {
    pub(super) method: Option<Range<u32>>,
    path: Option<Range<u32>>,
    scheme: Option<Range<u32>>,
    authority: Option<Range<u32>>,
    pub(super) protocol: Option<Range<u32>>,
    pub(super) status: Option<u16>,
    pub(super) content_length: Option<u64>,
    pub(super) expects_continue: bool,
    pub(super) priority: Option<Range<u32>>,
    host: Option<Range<u32>>,
    cookies: u32,
    fault: Option<RequestRefusal>,
    /// Bytes of all fields, those of a malformed message included.
    decoded: usize,
}

/// Why a request is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestRefusal {
    /// The message is malformed (RFC 9113 §8.1.1): the stream is reset.
    Malformed,
    /// The message is valid, and receives a response with this status.
    Status(u16),
}

impl RequestRefusal {
    /// As the cause is reported.
    pub(super) fn error(self) -> PeerError {
        match self {
            Self::Status(431) => PeerError::HeadTooLarge,
            Self::Status(414) => PeerError::TargetTooLong,
            Self::Status(417) => PeerError::UnknownExpectation,
            Self::Status(501) => PeerError::MethodTooLong,
            Self::Status(_) => PeerError::BadHost,
            Self::Malformed => PeerError::BadField,
        }
    }
}

impl FieldSection {
    /// Decodes a block into `scratch`. A malformed message, or one over a limit, is decoded to its
    /// end, since the dynamic table depends on it.
    pub(super) fn decode(
        decoder: &mut HpackDecoder,
        block: &[u8],
        scratch: &mut Scratch,
    ) -> Result<Self, ErrorCode> {
        let Scratch { head, index, origin } = scratch;
        *origin = FieldOrigin::Decoded;
        head.clear();
        index.clear();
        let mut section = Self::default();
        let decoded = decoder.decode(block, head, |head, name, value| {
            let start = name.start;
            section.decoded += head.len() - start as usize;
            if section.fault.is_none() {
                section.fault = section.add(head, index, name, value).err();
            }
            if section.fault.is_some() {
                head.truncate(start as usize);
            }
        });
        decoded.map_err(|_| ErrorCode::CompressionError)?;
        if section.cookies > 1 && section.fault.is_none() {
            join_cookies(head, index);
        }
        Ok(section)
    }

    /// Adds a field whose name and value are at the end of `head`.
    fn add(
        &mut self,
        head: &[u8],
        index: &mut Vec<Header>,
        name: Range<u32>,
        value: Range<u32>,
    ) -> Result<(), RequestRefusal> {
        if head.len() > HEAD_SIZE_MAX || index.len() >= FIELDS_LEN_MAX {
            return Err(RequestRefusal::Status(431));
        }
        let (name_bytes, value_bytes) = (slice(head, &name), slice(head, &value));
        if !is_plain_value(value_bytes) && !is_field_value(value_bytes) {
            return Err(RequestRefusal::Malformed);
        }
        if let [b':', pseudo @ ..] = name_bytes {
            // Pseudo-header fields come before all others (RFC 9113 §8.3).
            return match index.is_empty() {
                true => self.add_pseudo(pseudo, value_bytes, value),
                false => Err(RequestRefusal::Malformed),
            };
        }
        let is_name = |b: &u8| is_tchar(*b) && !b.is_ascii_uppercase();
        if name_bytes.is_empty() || !name_bytes.iter().all(is_name) {
            return Err(RequestRefusal::Malformed);
        }
        self.note(name_bytes, value_bytes, &value)?;
        let hop = is_hop(name_bytes);
        index.push(Header { name, value, hop });
        Ok(())
    }

    fn add_pseudo(
        &mut self,
        name: &[u8],
        text: &[u8],
        value: Range<u32>,
    ) -> Result<(), RequestRefusal> {
        let place = match name {
            b"method" => &mut self.method,
            b"path" => &mut self.path,
            b"scheme" => &mut self.scheme,
            b"authority" => &mut self.authority,
            b"protocol" => &mut self.protocol,
            b"status" if self.status.is_none() => {
                self.status = Some(status(text).ok_or(RequestRefusal::Malformed)?);
                return Ok(());
            }
            _ => return Err(RequestRefusal::Malformed),
        };
        match place.replace(value) {
            None => Ok(()),
            Some(_) => Err(RequestRefusal::Malformed),
        }
    }

    /// Evaluates a field on which framing or routing depends.
    fn note(
        &mut self,
        name: &[u8],
        value: &[u8],
        place: &Range<u32>,
    ) -> Result<(), RequestRefusal> {
        match name {
            // They would concern the connection (RFC 9113 §8.2.2).
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding"
            | b"upgrade" => return Err(RequestRefusal::Malformed),
            b"te" if !value.eq_ignore_ascii_case(b"trailers") => {
                return Err(RequestRefusal::Malformed);
            }
            b"content-length" => {
                let length = decimal(value).ok_or(RequestRefusal::Malformed)?;
                if self.content_length.replace(length).is_some_and(|before| before != length) {
                    return Err(RequestRefusal::Malformed);
                }
            }
            b"host" if self.host.replace(place.clone()).is_some() => {
                return Err(RequestRefusal::Malformed);
            }
            b"expect" if !value.eq_ignore_ascii_case(b"100-continue") => {
                return Err(RequestRefusal::Status(417));
            }
            b"expect" => self.expects_continue = true,
            b"cookie" => self.cookies += 1,
            b"priority" => self.priority = Some(place.clone()),
            _ => {}
        }
        Ok(())
    }

    fn has_pseudo(&self) -> bool {
        self.status.is_some() || self.has_request_pseudo()
    }

    fn has_request_pseudo(&self) -> bool {
        let fields = [&self.method, &self.path, &self.scheme, &self.authority, &self.protocol];
        fields.iter().any(|field| field.is_some())
    }

    /// True if the message is over a limit of its size.
    pub(super) fn is_too_large(&self) -> bool {
        self.decoded > HEAD_SIZE_MAX || self.fault == Some(RequestRefusal::Status(431))
    }

    /// Checks trailers (RFC 9113 §8.1).
    pub(super) fn check_trailers(&self, scratch: &Scratch) -> Result<(), RequestRefusal> {
        let is_forbidden = |(name, _): (&[u8], &[u8])| is_forbidden_trailer(name);
        match self.fault {
            Some(fault) => Err(fault),
            None if self.has_pseudo() || scratch.headers().iter().any(is_forbidden) => {
                Err(RequestRefusal::Malformed)
            }
            None => Ok(()),
        }
    }

    /// Checks the head of a request, and adds `Host` from `:authority`, as applications expect it.
    pub(super) fn check_request(&self, scratch: &mut Scratch) -> Result<(), RequestRefusal> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let part = |range: &Option<Range<u32>>| range.as_ref().map(|it| slice(&scratch.head, it));
        let method =
            part(&self.method).filter(|it| is_token(it)).ok_or(RequestRefusal::Malformed)?;
        if self.status.is_some() {
            return Err(RequestRefusal::Malformed);
        }
        if method.len() > METHOD_SIZE_MAX {
            return Err(RequestRefusal::Status(501));
        }
        let (path, authority) = (part(&self.path), part(&self.authority));
        match method == b"CONNECT" && self.protocol.is_none() {
            true => check_connect(authority, path, self.scheme.is_some())?,
            false => check_target(method, path, part(&self.scheme))?,
        }
        if self.protocol.is_some() && method != b"CONNECT" {
            return Err(RequestRefusal::Malformed);
        }
        let host = part(&self.host);
        let is_host = |value: Option<&[u8]>| value.is_none_or(target::is_host);
        let is_one = match (authority, host) {
            (Some(authority), Some(host)) => authority.eq_ignore_ascii_case(host),
            _ => true,
        };
        if !is_host(authority) || !is_host(host) || !is_one {
            return Err(RequestRefusal::Malformed);
        }
        match (self.authority.clone(), &self.host) {
            (None, None) => return Err(RequestRefusal::Status(400)),
            (Some(authority), None) => add_host(scratch, authority),
            (_, Some(_)) => {}
        }
        Ok(())
    }

    /// Checks the head of a response.
    pub(super) fn check_response(&self) -> Result<u16, RequestRefusal> {
        match self.status {
            Some(status) if self.fault.is_none() && !self.has_request_pseudo() => Ok(status),
            _ => Err(RequestRefusal::Malformed),
        }
    }

    /// The length of the body of a message, by its head; `ends`: the head has END_STREAM.
    pub(super) fn body_len(&self, ends: bool) -> BodyLen {
        match self.content_length {
            _ if ends => BodyLen::Empty,
            Some(n) => BodyLen::Exact(n),
            None => BodyLen::Unknown,
        }
    }

    /// The head of a checked request.
    pub(super) fn request<'a>(&self, scratch: &'a Scratch, waits: bool) -> Request<'a> {
        let part = |range: &Option<Range<u32>>| range.as_ref().map(|it| slice(&scratch.head, it));
        let target = part(&self.path).or_else(|| part(&self.authority)).unwrap_or_default();
        Request {
            version: Version::Http2,
            protocol: part(&self.protocol),
            expects_continue: waits,
            ..Request::new(part(&self.method).unwrap_or_default(), target, scratch.headers())
        }
    }

    /// The head of a checked response.
    pub(super) fn response<'a>(&self, scratch: &'a Scratch) -> Response<'a> {
        let status = self.status.unwrap_or_default();
        Response { version: Version::Http2, ..Response::new(status, scratch.headers()) }
    }
}

/// CONNECT has an authority with a port and nothing else (RFC 9113 §8.5).
fn check_connect(
    authority: Option<&[u8]>,
    path: Option<&[u8]>,
    has_scheme: bool,
) -> Result<(), RequestRefusal> {
    let is_valid = authority.is_some_and(|it| target::check(b"CONNECT", it).is_ok());
    if is_valid && path.is_none() && !has_scheme { Ok(()) } else { Err(RequestRefusal::Malformed) }
}

/// `:path` is a path with its query, or `*` (RFC 9113 §8.3.1).
fn check_target(
    method: &[u8],
    path: Option<&[u8]>,
    scheme: Option<&[u8]>,
) -> Result<(), RequestRefusal> {
    let path = path.ok_or(RequestRefusal::Malformed)?;
    if path.len() > TARGET_SIZE_MAX {
        return Err(RequestRefusal::Status(414));
    }
    let is_form = match path {
        [b'/', ..] => target::is_target(path),
        b"*" => method == b"OPTIONS",
        _ => false,
    };
    let is_scheme = |it: &[u8]| {
        it.first().is_some_and(u8::is_ascii_alphabetic)
            && it.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
    };
    if is_form && scheme.is_some_and(is_scheme) { Ok(()) } else { Err(RequestRefusal::Malformed) }
}

/// Adds `Host` in front of the other fields.
fn add_host(scratch: &mut Scratch, authority: Range<u32>) {
    let start = end_of(&scratch.head);
    scratch.head.extend_from_slice(b"host");
    let name = start..end_of(&scratch.head);
    scratch.index.insert(0, Header { name, value: authority, hop: false });
}

/// Joins several `Cookie` fields into one, in the place of the first (RFC 9113 §8.2.3).
fn join_cookies(head: &mut Vec<u8>, index: &mut Vec<Header>) {
    let start = end_of(head);
    let is_cookie = |head: &[u8], header: &Header| slice(head, &header.name) == b"cookie";
    for header in &*index {
        if is_cookie(head, header) {
            if end_of(head) > start {
                head.extend_from_slice(b"; ");
            }
            head.extend_from_within(header.value.start as usize..header.value.end as usize);
        }
    }
    let mut joined = Some(start..end_of(head));
    index.retain_mut(|header| match is_cookie(head, header) {
        false => true,
        true => match joined.take() {
            Some(value) => {
                header.value = value;
                true
            }
            None => false,
        },
    });
}

fn end_of(head: &[u8]) -> u32 {
    u32::try_from(head.len()).expect("a head is limited")
}

/// Three digits.
fn status(text: &[u8]) -> Option<u16> {
    let digits = <[u8; 3]>::try_from(text).ok()?;
    let [a, b, c] = digits.map(|digit| u16::from(digit.wrapping_sub(b'0')));
    (digits.iter().all(u8::is_ascii_digit) && a > 0).then_some(a * 100 + b * 10 + c)
}
