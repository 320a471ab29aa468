//! A request head that is sent byte for byte, in the order and the case of its caller.

use bytes::Bytes;

use crate::errors::UsageError;
use crate::fields::HeaderBuf;
#[cfg(doc)]
use crate::h1::H1Client;
use crate::head::{is_token, trim_ows};

use super::METHOD_SIZE_MAX;

/// A request head that its caller has written: the request line, the fields and the blank line.
///
/// The connection adds nothing to it, and removes nothing from it. So the caller declares what a
/// connection otherwise decides: its fields have to describe the length that is passed to
/// [`H1Client::send_verbatim`], and the facts below have to agree with them.
///
/// ```
/// use fulmar_proto::h1::{H1Client, VerbatimHead};
/// use fulmar_proto::{BodyLen, Connection, Headers};
///
/// let head = VerbatimHead::new("GET /a HTTP/1.1\r\nhost:b\r\nX-Case: kept \r\n\r\n").unwrap();
/// let mut connection = H1Client::default();
/// let stream = connection.open().unwrap();
/// connection.send_verbatim(stream, &head, BodyLen::Empty).unwrap();
/// connection.send_end(stream, Headers::EMPTY).unwrap();
/// assert_eq!(connection.poll_transmit().unwrap().inline, head.as_bytes());
/// assert!(VerbatimHead::new("GET / HTTP/1.1\r\n\r\nmore").is_err());
/// ```
#[derive(Clone, Debug)]
pub struct VerbatimHead {
    bytes: Bytes,
    method_len: usize,
    target_end: usize,
    line_end: usize,
    /// The head has `Expect: 100-continue`. False by default.
    pub expects_continue: bool,
    /// The connection closes after the response, whether the head has `Connection: close` or not.
    /// False by default.
    pub closes: bool,
    /// The head requests another protocol: a 101 response makes a tunnel of the connection. False
    /// by default.
    pub upgrades: bool,
    /// The response has no body, whatever its fields declare. By default it is so for HEAD. HTTP/2
    /// goes by the method.
    pub is_bodiless: bool,
    /// A body of unknown length is sent as it is, without chunks: the head declares its end in
    /// another way, or not at all. False by default. HTTP/2 frames it in any case.
    pub is_unframed: bool,
    /// The transfer is paused when its connection is upgraded: what the server sends next is of
    /// another protocol. False by default.
    pub pauses_upgraded: bool,
    /// The request was sent with HTTP/1.1 and has upgraded its connection to HTTP/2 (RFC 7540
    /// §3.2): it is stream 1, and only its response is outstanding. False by default.
    pub is_sent: bool,
}

impl VerbatimHead {
    /// A head with these bytes, without a further check of its fields.
    ///
    /// # Errors
    /// [`UsageError::BadHead`] if the bytes do not begin with `method SP target SP`, or if they do
    /// not end with their first empty line.
    pub fn new(bytes: impl Into<Bytes>) -> Result<Self, UsageError> {
        let bytes = bytes.into();
        let line_end = memchr::memchr(b'\n', &bytes).ok_or(UsageError::BadHead)? + 1;
        let line = &bytes[..line_end];
        let method_len = memchr::memchr(b' ', line).ok_or(UsageError::BadHead)?;
        let rest = &line[method_len + 1..];
        let target_len = memchr::memrchr(b' ', rest).filter(|len| *len > 0);
        let target_end = method_len + 1 + target_len.ok_or(UsageError::BadHead)?;
        let method = &line[..method_len];
        let is_end = |at: usize| bytes[..at].ends_with(b"\n") || bytes[..at].ends_with(b"\n\r");
        let first_blank = memchr::memchr_iter(b'\n', &bytes).find(|at| is_end(*at));
        if !is_token(method)
            || method.len() > METHOD_SIZE_MAX
            || first_blank.is_none_or(|at| at + 1 != bytes.len())
        {
            return Err(UsageError::BadHead);
        }
        let is_bodiless = method == b"HEAD";
        Ok(Self {
            bytes,
            method_len,
            target_end,
            line_end,
            expects_continue: false,
            closes: false,
            upgrades: false,
            is_bodiless,
            is_unframed: false,
            pauses_upgraded: false,
            is_sent: false,
        })
    }

    /// The bytes, as they are sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The method.
    pub fn method(&self) -> &[u8] {
        &self.bytes[..self.method_len]
    }

    /// The request target.
    pub fn target(&self) -> &[u8] {
        &self.bytes[self.method_len + 1..self.target_end]
    }

    pub(super) fn is_connect(&self) -> bool {
        self.method() == b"CONNECT"
    }

    /// Its fields for a protocol with other heads. In HTTP/2 the names are sent in lower case,
    /// `Host` as `:authority`, and fields that concern one connection are left out (RFC 9113 §8.2).
    /// So is `Expect`: like libcurl, a client of HTTP/2 does not wait for 100 (Continue).
    ///
    /// # Errors
    /// [`UsageError::BadHead`] if a line is not a field.
    pub fn to_fields(&self) -> Result<HeaderBuf, UsageError> {
        let mut fields = HeaderBuf::new();
        for line in self.bytes[self.line_end..].split(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                break;
            }
            let colon = memchr::memchr(b':', line).ok_or(UsageError::BadHead)?;
            let name = std::str::from_utf8(&line[..colon]).map_err(|_| UsageError::BadHead)?;
            if !name.eq_ignore_ascii_case("expect") {
                fields.push(name, trim_ows(&line[colon + 1..]))?;
            }
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body_len::BodyLen;
    use crate::connection::Connection;
    use crate::h1::{EncodedRequest, H1Client};
    use crate::head::{Headers, Scratch};
    use crate::input::Input;
    use crate::{Event, Segment};

    fn sent(connection: &mut H1Client) -> Vec<u8> {
        let Some(transmit) = connection.poll_transmit() else { return Vec::new() };
        let mut bytes = transmit.inline.to_vec();
        for segment in transmit.segments {
            let Segment::Bytes(run) = segment else { panic!("no files here") };
            bytes.extend_from_slice(run);
        }
        connection.handle_sent(bytes.len() as u64);
        bytes
    }

    /// The events of a response, as words.
    fn events(connection: &mut H1Client, response: &[u8]) -> String {
        let mut block = bytes::BytesMut::from(response);
        let (mut input, mut scratch) = (Input::all(&mut block, false), Scratch::default());
        let mut words = Vec::new();
        while let Some(event) = connection.poll_event(&mut input, &mut scratch).unwrap() {
            words.push(match event {
                Event::Head { .. } => "head",
                Event::Informational { .. } => "info",
                Event::Data { .. } => "data",
                Event::End { .. } => "end",
                Event::Upgraded { .. } => "upgraded",
                Event::Writable { .. } | Event::Reset { .. } => "other",
            });
        }
        words.join(" ")
    }

    const ODD: &str = "get  /a b HTTP/1.0\nhost:x\r\nX-A:  1 \r\nno colon\r\n folded\r\n\r\n";

    #[test]
    fn a_verbatim_head_is_sent_byte_for_byte() {
        let head = VerbatimHead::new(ODD).unwrap();
        assert_eq!((head.method(), head.target()), (&b"get"[..], &b" /a b"[..]));
        let mut connection = H1Client::default();
        let stream = connection.open().unwrap();
        connection.send_verbatim(stream, &head, BodyLen::Exact(2)).unwrap();
        connection.send_data(stream, Segment::from(&b"ok"[..])).unwrap();
        connection.send_end(stream, Headers::EMPTY).unwrap();
        assert_eq!(sent(&mut connection), [ODD.as_bytes(), b"ok"].concat());
        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
        assert_eq!(events(&mut connection, response), "head data end");
        assert_eq!(connection.vacancy(), 1);
    }

    #[test]
    fn a_chunked_body_follows_a_verbatim_head() {
        let head =
            VerbatimHead::new("PUT / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n").unwrap();
        let mut connection = H1Client::default();
        let stream = connection.open().unwrap();
        connection.send_verbatim(stream, &head, BodyLen::Unknown).unwrap();
        connection.send_data(stream, Segment::from(&b"ok"[..])).unwrap();
        connection.send_end(stream, Headers::EMPTY).unwrap();
        let body = &b"2\r\nok\r\n0\r\n\r\n"[..];
        assert_eq!(sent(&mut connection), [head.as_bytes(), body].concat());
    }

    #[test]
    fn unframed_body_is_sent_as_it_is() {
        let head = VerbatimHead::new("PUT / HTTP/1.1\r\nContent-Length: 2\r\n\r\n").unwrap();
        let head = VerbatimHead { is_unframed: true, ..head };
        let mut connection = H1Client::default();
        let stream = connection.open().unwrap();
        connection.send_verbatim(stream, &head, BodyLen::Unknown).unwrap();
        connection.send_data(stream, Segment::from(&b"ok"[..])).unwrap();
        connection.send_end(stream, Headers::EMPTY).unwrap();
        assert_eq!(sent(&mut connection), [head.as_bytes(), b"ok"].concat());
        let response = b"HTTP/1.1 204 No Content\r\n\r\n";
        assert_eq!(events(&mut connection, response), "head end");
        assert_eq!(connection.vacancy(), 1, "the connection is kept");
    }

    #[test]
    fn declared_facts_decide_about_the_response_and_the_connection() {
        let text = "GET / HTTP/1.1\r\n\r\n";
        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        let plain = VerbatimHead::new(text).unwrap();
        let bodiless = VerbatimHead { is_bodiless: true, ..plain.clone() };
        let encoded = EncodedRequest::verbatim(&bodiless, b"");
        let mut connection = H1Client::default();
        let stream = connection.open().unwrap();
        connection.send_encoded(stream, &encoded).unwrap();
        assert_eq!(sent(&mut connection), text.as_bytes());
        assert_eq!(events(&mut connection, response), "head end");
        assert_eq!(connection.vacancy(), 1);

        let closing = VerbatimHead { closes: true, ..bodiless };
        let stream = connection.open().unwrap();
        connection.send_encoded(stream, &EncodedRequest::verbatim(&closing, b"")).unwrap();
        assert_eq!(sent(&mut connection), text.as_bytes(), "no Connection field is added");
        assert_eq!(events(&mut connection, response), "head end");
        assert!(connection.io_state().closed, "it closes after the response");

        let upgrading = VerbatimHead { upgrades: true, ..plain };
        let mut connection = H1Client::default();
        let stream = connection.open().unwrap();
        connection.send_encoded(stream, &EncodedRequest::verbatim(&upgrading, b"")).unwrap();
        let response = b"HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nraw";
        sent(&mut connection);
        assert_eq!(events(&mut connection, response), "head upgraded data");
    }

    #[test]
    fn a_tunnel_without_a_request_carries_bytes_both_ways() {
        let mut connection = H1Client::default();
        let stream = connection.open().unwrap();
        connection.begin_tunnel(stream).unwrap();
        assert_eq!((connection.vacancy(), sent(&mut connection)), (0, Vec::new()));
        assert_eq!(events(&mut connection, b"HTTP/1.1 200 OK\r\n\r\n"), "data");
        connection.send_data(stream, Bytes::from_static(b"raw").into()).unwrap();
        assert_eq!(sent(&mut connection), b"raw");
    }

    #[test]
    fn a_verbatim_head_is_not_changed_when_the_connection_is_to_close() {
        let text = "GET / HTTP/1.1\r\n\r\n";
        let head = VerbatimHead::new(text).unwrap();
        let mut connection = H1Client::default();
        let stream = connection.open().unwrap();
        connection.close_after();
        connection.send_encoded(stream, &EncodedRequest::verbatim(&head, b"body")).unwrap();
        assert_eq!(sent(&mut connection), [text.as_bytes(), b"body"].concat());
    }

    #[test]
    fn a_head_without_its_end_or_with_more_is_refused() {
        for bad in [
            "",
            "GET / HTTP/1.1",
            "GET / HTTP/1.1\r\nA: b\r\n",
            "GET / HTTP/1.1\r\n\r\nA: b\r\n\r\n",
            "GET / HTTP/1.1\n\nA: b\r\n\r\n",
            "\r\n\r\n",
            "GET\r\nA: b c\r\n\r\n",
            " / HTTP/1.1\r\n\r\n",
            "GET  HTTP/1.1\r\n\r\n",
        ] {
            assert!(VerbatimHead::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn fields_are_taken_from_the_lines() {
        let head = "GET / HTTP/1.1\r\nHost: a\r\nexpect: 100-continue\r\nX-B:  c \r\n\r\n";
        let head = VerbatimHead::new(head).unwrap();
        let fields = head.to_fields().unwrap();
        let fields: Vec<_> = fields.iter().collect();
        assert_eq!(fields, [(&b"Host"[..], &b"a"[..]), (b"X-B", b"c")]);
        assert_eq!(VerbatimHead::new(ODD).unwrap().to_fields().unwrap_err(), UsageError::BadHead);
    }
}
