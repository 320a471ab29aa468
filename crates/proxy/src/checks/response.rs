//! The response to one request of a check.
//!
//! The client's HTTP connection parses it. That connection is given a request, but its output is
//! discarded: a check may send HTTP/1.0, which it would not write.

use bytes::BytesMut;
use fulmar_proto::h1::H1Client;
use fulmar_proto::{BodyLen, Connection, Event, Headers, Input, Request, Scratch};

/// The response to one request.
#[derive(Debug, Default)]
pub(super) struct CheckResponse {
    connection: H1Client,
    scratch: Scratch,
    unread: BytesMut,
    line: Vec<u8>, // the status line, for its reason phrase
    status: Option<u16>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
    complete: bool,
}

impl CheckResponse {
    /// The response to a request with this method.
    pub(super) fn to(method: &[u8]) -> Self {
        let mut reply = Self::default();
        if let Some(stream) = reply.connection.open() {
            let head = Request::new(method, b"/", Headers::EMPTY);
            let sent = reply.connection.send_head(stream, head, BodyLen::Empty);
            // An invalid method gets no response that can be parsed.
            reply.complete = sent.is_err();
            let transmit = reply.connection.poll_transmit();
            let size = transmit.map_or(0, |transmit| transmit.inline.len() as u64);
            reply.connection.handle_sent(size);
        }
        reply
    }

    /// Handles received bytes; `end`: there are no more.
    pub(super) fn handle_input(&mut self, bytes: &[u8], end: bool) {
        if self.complete {
            return;
        }
        if !self.line.contains(&b'\n') && self.line.len() < LINE_MAX {
            self.line.extend_from_slice(&bytes[..bytes.len().min(LINE_MAX)]);
        }
        self.unread.extend_from_slice(bytes);
        while !self.complete {
            let mut input = Input::all(&mut self.unread, end);
            match self.connection.poll_event(&mut input, &mut self.scratch) {
                Ok(Some(Event::Head { head, .. })) => {
                    self.status = Some(head.status);
                    let fields = head.headers.iter();
                    self.fields = fields.map(|(name, value)| (name.into(), value.into())).collect();
                }
                Ok(Some(Event::Data { stream, bytes })) => {
                    let room = BODY_MAX - self.body.len();
                    self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
                    self.connection.release(stream, bytes.len());
                    self.complete = self.body.len() == BODY_MAX;
                }
                Ok(Some(Event::End { .. } | Event::Upgraded { .. } | Event::Reset { .. }))
                | Err(_) => self.complete = true,
                Ok(Some(_)) => {}
                Ok(None) => {
                    self.complete = end;
                    return;
                }
            }
        }
    }

    /// The status, once the head is complete.
    pub(super) fn status(&self) -> Option<u16> {
        self.status
    }

    /// The reason phrase.
    pub(super) fn reason(&self) -> &str {
        let line = self.line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut words = line.splitn(3, |byte| *byte == b' ');
        let status = words.nth(1).and_then(|word| str::from_utf8(word).ok());
        let ours = status.and_then(|word| word.parse().ok()) == self.status;
        let reason = words.next().filter(|_| ours).and_then(|word| str::from_utf8(word).ok());
        reason.unwrap_or_default().trim()
    }

    /// True if it has a field with this name, and this value if one is given.
    pub(super) fn has_field(&self, name: &str, value: Option<&str>) -> bool {
        let named = self.fields.iter().filter(|it| it.0.eq_ignore_ascii_case(name.as_bytes()));
        let mut values = named.map(|it| it.1.as_slice());
        values.any(|it| value.is_none_or(|value| it == value.as_bytes()))
    }

    /// The body, as far as it is examined.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// True if no more bytes are needed.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }
}

/// HAProxy examines as much of a body as fits into its buffer.
const BODY_MAX: usize = 16 * 1024;
/// A longer status line loses its reason phrase.
const LINE_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWERS: &[(&str, Option<u16>, &str, &str)] = &[
        ("HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 5\r\n\r\nhello", Some(200), "OK", "hello"),
        ("HTTP/1.0 200 OK\r\nA: b\r\n\r\nto the end", Some(200), "OK", "to the end"),
        (
            "HTTP/1.1 503 Service Unavailable\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n\
             3\r\nfoo\r\n3\r\nbar\r\n0\r\n\r\n",
            Some(503),
            "Service Unavailable",
            "foobar",
        ),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\na: b\r\n\r\n", Some(404), "", ""),
        ("HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 9\r\n\r\ncut", Some(200), "OK", "cut"),
        ("HTTP/1.1 20", None, "", ""),
        ("SSH-2.0-OpenSSH_9.2\r\n", None, "", ""),
        ("", None, "", ""),
    ];

    #[test]
    fn any_split_of_a_response_gives_the_same_result() {
        for (answer, status, reason, body) in ANSWERS {
            for split in 0..=answer.len() {
                let mut reply = CheckResponse::to(b"GET");
                reply.handle_input(&answer.as_bytes()[..split], false);
                reply.handle_input(&answer.as_bytes()[split..], false);
                reply.handle_input(b"", true);
                check(&reply, *status, reason, body);
            }
            let mut reply = CheckResponse::to(b"GET");
            answer.bytes().for_each(|byte| reply.handle_input(&[byte], false));
            reply.handle_input(b"", true);
            check(&reply, *status, reason, body);
        }
    }

    fn check(reply: &CheckResponse, status: Option<u16>, reason: &str, body: &str) {
        assert_eq!((reply.status(), reply.body()), (status, body.as_bytes()));
        assert!(reply.is_complete());
        if status.is_some() {
            assert_eq!(reply.reason(), reason);
            assert!(reply.has_field("a", Some("b")) && !reply.has_field("a", Some("c")));
        }
    }

    #[test]
    fn long_bodies_are_truncated() {
        let mut reply = CheckResponse::to(b"GET");
        reply.handle_input(b"HTTP/1.0 200 OK\r\n\r\n", false);
        for _ in 0..100 {
            reply.handle_input(&[b'x'; 1000], false);
        }
        assert!(reply.is_complete());
        assert_eq!(reply.body().len(), BODY_MAX);
        assert!(reply.unread.len() < 1000);
    }

    #[test]
    fn response_to_head_has_no_body() {
        let mut reply = CheckResponse::to(b"HEAD");
        reply.handle_input(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false);
        assert!(reply.is_complete());
    }
}
