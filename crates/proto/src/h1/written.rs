//! Response heads that the caller writes, byte for byte: the connection decides the framing first
//! and passes it to the writer (RFC 9112 §6 and §9). For servers with heads of an order, a
//! spelling or a version of their own.
//!
//! The written head is parsed and checked in debug builds only.

use crate::body_len::BodyLen;
use crate::errors::UsageError;
use crate::event::StreamId;

use super::encode::LengthField;
use super::send::STATUS_MAX;
use super::{BodyLeft, H1Server, Handover, Reuse, Send};

/// What follows a response on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterResponse {
    /// The next exchange, if the client and the rest of its request allow one.
    NextExchange,
    /// The connection closes.
    Close,
    /// The connection closes, and a body of unknown length has no chunks: it ends with the
    /// connection, as those of servers of HTTP/1.0 do.
    CloseUnchunked,
}

/// What a response head has to declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseFraming {
    /// The field that declares the length of the body. No other one may be in the head.
    pub length: LengthField,
    /// The connection closes after the response. Then `Connection` contains `close`; a head of
    /// HTTP/1.0, or one for a client of it, may omit it. False in a tunnel.
    pub closes: bool,
    /// The request was one of HTTP/1.0: a connection that does not close needs `Connection:
    /// keep-alive`.
    pub http10: bool,
    /// The response grants a CONNECT: `Connection` and a length are absent.
    pub tunnel: bool,
}

impl H1Server {
    /// As `send_head` for a final response, with a head of the caller: `write` appends it, from the
    /// status line to the empty line, and declares what it is given. The body follows as after
    /// `send_head`.
    ///
    /// # Errors
    /// As for `send_head`, and [`UsageError::BadHead`] if `status` is not one of a final response
    /// (200 to 999). Nothing was queued, and `write` was not called.
    ///
    /// # Panics
    /// In debug builds, if `write` has not appended one head of this status and framing.
    pub fn send_head_with(
        &mut self,
        stream: StreamId,
        status: u16,
        len: BodyLen,
        after: AfterResponse,
        write: impl FnOnce(&mut Vec<u8>, ResponseFraming),
    ) -> Result<(), UsageError> {
        self.expect_head(stream)?;
        if !(200..=STATUS_MAX).contains(&status) {
            return Err(UsageError::BadHead);
        }
        let tunnel = status < 300 && self.exchange.handover == Handover::Connect;
        let (length, left) = match self.response_body(status, len) {
            _ if tunnel => (LengthField::Absent, BodyLeft::UntilClose),
            (LengthField::Chunked, left) if after == AfterResponse::CloseUnchunked => {
                let chunked = left == BodyLeft::Chunked;
                (LengthField::Absent, if chunked { BodyLeft::UntilClose } else { left })
            }
            decided => decided,
        };
        let closes = left == BodyLeft::UntilClose || after != AfterResponse::NextExchange;
        if closes || !self.rest_is_small() {
            self.reuse = Reuse::No;
        }
        let framing = ResponseFraming {
            length,
            closes: !tunnel && self.reuse != Reuse::Yes,
            http10: self.exchange.http10,
            tunnel,
        };
        self.outbox.compose(|out| {
            let before = out.len();
            write(out, framing);
            if cfg!(debug_assertions) {
                check(&out[before..], status, framing);
            }
        });
        self.send = if tunnel { Send::Tunnel } else { Send::Body(left) };
        self.advance();
        self.note_room();
        Ok(())
    }
}

/// Asserts that a head declares its framing.
fn check(head: &[u8], status: u16, framing: ResponseFraming) {
    let text = String::from_utf8_lossy(head);
    let lines = text.strip_suffix("\r\n\r\n").expect("the head ends with an empty line");
    let mut lines = lines.split("\r\n");
    let first = lines.next().expect("a split has a first part");
    let of_10 = first.starts_with("HTTP/1.0 ");
    let start = format!("HTTP/1.{} {status} ", if of_10 { '0' } else { '1' });
    assert!(first.starts_with(&start), "the status line {first:?} does not begin with {start:?}");
    let (mut lengths, mut close, mut keep_alive) = (Vec::new(), false, false);
    for line in lines {
        let (name, value) = line.split_once(':').expect("every line of the head is a field");
        match name.to_ascii_lowercase().as_str() {
            "content-length" => lengths.push(format!("length {}", value.trim())),
            "transfer-encoding" => lengths.push(format!("coding {}", value.trim())),
            "connection" => {
                let has = |option: &str| {
                    value.split(',').any(|known| known.trim().eq_ignore_ascii_case(option))
                };
                close |= has("close");
                keep_alive |= has("keep-alive");
            }
            _ => {}
        }
    }
    let declared = match framing.length {
        LengthField::Absent => Vec::new(),
        LengthField::Exact(n) => vec![format!("length {n}")],
        LengthField::Chunked => vec!["coding chunked".to_owned()],
    };
    assert_eq!(lengths, declared, "the head declares another length");
    if !framing.tunnel {
        let persists = !close && (keep_alive || !(of_10 || framing.http10));
        assert_eq!(persists, !framing.closes, "the head declares another end of the connection");
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::connection::Connection;
    use crate::head::{Headers, Response, Scratch};
    use crate::input::Input;
    use crate::transmit::Segment;

    /// A connection that has received `request`.
    fn server(request: &str) -> (H1Server, StreamId) {
        let mut connection = H1Server::default();
        let mut block = BytesMut::from(request.as_bytes());
        let (mut input, mut scratch) = (Input::all(&mut block, false), Scratch::default());
        let mut stream = None;
        while let Some(event) = connection.poll_event(&mut input, &mut scratch).unwrap() {
            stream = Some(event.stream());
        }
        (connection, stream.expect("a request"))
    }

    /// The queued bytes, and whether they are the last of the connection.
    fn sent(connection: &mut H1Server) -> (String, bool) {
        let transmit = connection.poll_transmit().expect("bytes are queued");
        assert!(transmit.segments.is_empty(), "small bodies are joined");
        let (bytes, is_last) = (transmit.inline.to_vec(), transmit.is_last);
        connection.handle_sent(bytes.len() as u64);
        (String::from_utf8(bytes).unwrap(), is_last)
    }

    fn write(out: &mut Vec<u8>, status: u16, framing: ResponseFraming) {
        let line = match status {
            200 => "OK",
            204 => "No Content",
            304 => "Not Modified",
            _ => "Not Found",
        };
        out.extend_from_slice(format!("HTTP/1.1 {status} {line}\r\n").as_bytes());
        match framing.length {
            LengthField::Absent => {}
            LengthField::Exact(n) => {
                out.extend_from_slice(format!("Content-Length: {n}\r\n").as_bytes());
            }
            LengthField::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        }
        if framing.closes {
            out.extend_from_slice(b"Connection: close\r\n");
        } else if framing.http10 && !framing.tunnel {
            out.extend_from_slice(b"Connection: keep-alive\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }

    /// The same decisions as `send_head`, for every kind of request and response.
    #[test]
    fn written_heads_have_the_framing_of_composed_ones() {
        for request in [
            "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
            "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n",
            "GET / HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            "HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9000000\r\n\r\n",
            "CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n",
        ] {
            for status in [200, 204, 304, 404] {
                for len in [BodyLen::Empty, BodyLen::Exact(3), BodyLen::Unknown] {
                    let (mut composed, stream) = server(request);
                    composed.send_head(stream, Response::new(status, Headers::EMPTY), len).unwrap();
                    let (mut written, stream) = server(request);
                    let after = AfterResponse::NextExchange;
                    let by = |out: &mut Vec<u8>, framing| write(out, status, framing);
                    written.send_head_with(stream, status, len, after, by).unwrap();
                    for connection in [&mut composed, &mut written] {
                        if len != BodyLen::Empty {
                            connection.send_data(stream, Segment::from(&b"abc"[..])).unwrap();
                        }
                        connection.send_end(stream, Headers::EMPTY).unwrap();
                    }
                    let expected = sent(&mut composed);
                    assert_eq!(sent(&mut written), expected, "{request:?} {status} {len:?}");
                    assert_eq!(written.io_state(), composed.io_state(), "{request:?} {status}");
                }
            }
        }
    }

    #[test]
    fn an_unchunked_body_ends_with_the_connection() {
        let (mut connection, stream) = server("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        let after = AfterResponse::CloseUnchunked;
        let head = b"HTTP/1.0 200 Fine\r\nX-a:1\r\n\r\n";
        let by = |out: &mut Vec<u8>, framing: ResponseFraming| {
            assert_eq!((framing.length, framing.closes), (LengthField::Absent, true));
            out.extend_from_slice(head);
        };
        connection.send_head_with(stream, 200, BodyLen::Unknown, after, by).unwrap();
        connection.send_data(stream, Segment::from(&b"abc"[..])).unwrap();
        connection.send_end(stream, Headers::EMPTY).unwrap();
        assert_eq!(sent(&mut connection).0, "HTTP/1.0 200 Fine\r\nX-a:1\r\n\r\nabc");
        let mut block = BytesMut::from(&b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"[..]);
        let (mut input, mut scratch) = (Input::all(&mut block, false), Scratch::default());
        let event = connection.poll_event(&mut input, &mut scratch);
        assert!(matches!(event, Ok(None)), "no further request is taken: {event:?}");
    }

    #[test]
    fn an_error_queues_nothing_and_writes_nothing() {
        let (mut connection, stream) = server("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        for status in [0, 100, 101, 199, 1000] {
            let by = |_: &mut Vec<u8>, _| panic!("not called");
            let after = AfterResponse::Close;
            let result = connection.send_head_with(stream, status, BodyLen::Empty, after, by);
            assert_eq!(result, Err(UsageError::BadHead));
        }
        let by = |_: &mut Vec<u8>, _| panic!("not called");
        let other = StreamId(stream.0 + 1);
        let result =
            connection.send_head_with(other, 200, BodyLen::Empty, AfterResponse::Close, by);
        assert_eq!(result, Err(UsageError::NoSuchStream));
        assert!(connection.poll_transmit().is_none());
    }

    #[test]
    fn a_head_with_another_framing_is_found_in_debug_builds() {
        let framing =
            |length, closes, http10| ResponseFraming { length, closes, http10, tunnel: false };
        let exact = framing(LengthField::Exact(3), false, false);
        let good = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
        check(good.as_bytes(), 200, exact);
        for (head, framing) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n", exact),
            ("HTTP/1.1 404 OK\r\nContent-Length: 3\r\n\r\n", exact),
            ("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", exact),
            ("HTTP/1.1 200 OK\r\n\r\n", exact),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", exact),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n", exact),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\n", exact),
            ("HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n", exact),
            (good, framing(LengthField::Exact(3), true, false)),
            (good, framing(LengthField::Exact(3), false, true)),
            (good, framing(LengthField::Chunked, false, false)),
            (good, framing(LengthField::Absent, false, false)),
        ] {
            let found = std::panic::catch_unwind(|| check(head.as_bytes(), 200, framing));
            assert!(found.is_err(), "{head:?} {framing:?}");
        }
    }
}
