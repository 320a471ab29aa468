//! Frames as bytes, and a connection that receives them and records its events and frames.

use bytes::BytesMut;
use fulmar_proto::h2::{ErrorCode, H2, Http2Limits, PREFACE};
use fulmar_proto::{
    BodyLen, Client, Connection, Event, HeaderBuf, Headers, Input, PeerError, Request, Response,
    Scratch, Segment, Server, Side, StreamId,
};

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;
pub(super) const PRIORITY_UPDATE: u8 = 16;

pub(super) const END_STREAM: u8 = 1;
pub(super) const ACK: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
pub(super) const PADDED: u8 = 8;
pub(super) const WITH_PRIORITY: u8 = 32;
/// HEADERS of a message without a body.
pub(super) const WHOLE: u8 = END_HEADERS | END_STREAM;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WireFrame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

impl WireFrame {
    /// The number in the payload of RST_STREAM and WINDOW_UPDATE, and the code of GOAWAY.
    pub(super) fn number(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().expect("four bytes"))
    }
}

/// A frame as bytes.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: impl AsRef<[u8]>) -> Vec<u8> {
    let payload = payload.as_ref();
    let mut out = u32::try_from(payload.len()).expect("short").to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

pub(super) fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (id, value) in values {
        payload.extend(id.to_be_bytes());
        payload.extend(value.to_be_bytes());
    }
    frame(SETTINGS, 0, 0, payload)
}

pub(super) fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, increment.to_be_bytes())
}

pub(super) fn reset(stream: u32, code: ErrorCode) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, code.code().to_be_bytes())
}

pub(super) fn data(flags: u8, stream: u32, body: impl AsRef<[u8]>) -> Vec<u8> {
    frame(DATA, flags, stream, body)
}

/// Fields as a header block: literals without an index.
pub(super) fn block(fields: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0);
        string(&mut out, name.as_bytes());
        string(&mut out, value);
    }
    out
}

/// A string without Huffman coding (RFC 7541 §5.2).
fn string(out: &mut Vec<u8>, text: &[u8]) {
    let len = text.len();
    match len {
        0..127 => out.push(len.to_le_bytes()[0]),
        _ => {
            out.push(127);
            let mut rest = len - 127;
            while rest >= 128 {
                out.push(rest.to_le_bytes()[0] | 128);
                rest /= 128;
            }
            out.push(rest.to_le_bytes()[0]);
        }
    }
    out.extend_from_slice(text);
}

/// The fields of a valid GET request, and more.
pub(super) fn get(more: &[(&str, &[u8])]) -> Vec<u8> {
    request("GET", "/", more)
}

/// The block of a valid request, and more fields.
pub(super) fn request(method: &str, path: &str, more: &[(&str, &[u8])]) -> Vec<u8> {
    let mut fields: Vec<(&str, &[u8])> = vec![
        (":method", method.as_bytes()),
        (":scheme", b"http"),
        (":path", path.as_bytes()),
        (":authority", b"a"),
    ];
    fields.extend_from_slice(more);
    block(&fields)
}

/// HEADERS with a valid GET request.
pub(super) fn get_frame(flags: u8, stream: u32) -> Vec<u8> {
    frame(HEADERS, flags, stream, get(&[]))
}

/// HEADERS with a valid POST request, whose body follows.
pub(super) fn post_frame(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, request("POST", "/", &[]))
}

/// The first bytes of a client.
pub(super) fn preface() -> Vec<u8> {
    [&PREFACE[..], &settings(&[])].concat()
}

/// A side whose received heads have a text.
pub(super) trait RecordedSide: Side {
    /// The head on one line.
    fn text(head: Self::Recv<'_>) -> String;
}

impl RecordedSide for Server {
    fn text(head: Request<'_>) -> String {
        let Request { method, target, headers, .. } = head;
        let words = format!("{} {}", method.escape_ascii(), target.escape_ascii());
        let protocol = head.protocol.map(|it| format!(" ({})", it.escape_ascii()));
        format!("{words}{} [{}]", protocol.unwrap_or_default(), list(headers))
    }
}

impl RecordedSide for Client {
    fn text(head: Response<'_>) -> String {
        format!("{} [{}]", head.status, list(head.headers))
    }
}

/// A connection whose peer is a list of bytes.
pub(super) struct RawPeer<S: RecordedSide> {
    pub(super) connection: H2<S>,
    scratch: Scratch,
    arrived: BytesMut,
    sent: Vec<u8>,
    /// Events as text.
    pub(super) events: Vec<String>,
    /// The frames that the connection has sent.
    pub(super) frames: Vec<WireFrame>,
    pub(super) error: Option<PeerError>,
}

impl RawPeer<Server> {
    /// A server that has received the preface of its client. Its own first frames are dropped.
    pub(super) fn server() -> Self {
        Self::server_with(Http2Limits::default())
    }

    /// As [`RawPeer::server`], with other limits.
    pub(super) fn server_with(limits: Http2Limits) -> Self {
        let mut peer = Self::new(H2::with_limits(limits));
        peer.feed(preface());
        peer.frames.clear();
        peer
    }

    /// Sends a response without a body.
    pub(super) fn respond(&mut self, stream: u32, body: &'static [u8]) {
        respond(&mut self.connection, StreamId(stream), body);
        self.flush();
    }
}

impl RawPeer<Client> {
    /// A client that has received SETTINGS and has sent `count` GET requests.
    pub(super) fn client(count: u32) -> Self {
        let mut peer = Self::new(H2::default());
        peer.feed(settings(&[]));
        for _ in 0..count {
            peer.request("GET", BodyLen::Empty);
        }
        peer.frames.clear();
        peer
    }

    /// Sends a request; without a body it is complete.
    pub(super) fn request(&mut self, method: &str, len: BodyLen) -> StreamId {
        let stream = self.connection.open().expect("a stream may be opened");
        let headers = host();
        let target = if method == "CONNECT" { &b"a:80"[..] } else { b"/" };
        let request = Request::new(method.as_bytes(), target, headers.as_headers());
        self.connection.send_head(stream, request, len).expect("valid");
        if len == BodyLen::Empty && method != "CONNECT" {
            self.connection.send_end(stream, Headers::EMPTY).expect("valid");
        }
        self.flush();
        stream
    }
}

impl<S: RecordedSide> RawPeer<S> {
    pub(super) fn new(connection: H2<S>) -> Self {
        Self {
            connection,
            scratch: Scratch::default(),
            arrived: BytesMut::new(),
            sent: Vec::new(),
            events: Vec::new(),
            frames: Vec::new(),
            error: None,
        }
    }

    /// Receives bytes, and releases the bodies in them.
    pub(super) fn feed(&mut self, bytes: impl AsRef<[u8]>) {
        self.feed_with(bytes, |connection, event| {
            if let Event::Data { stream, bytes } = event {
                connection.release(*stream, bytes.len());
            }
        });
    }

    /// Receives bytes in pieces of this size.
    pub(super) fn feed_pieces(&mut self, bytes: impl AsRef<[u8]>, size: usize) {
        for piece in bytes.as_ref().chunks(size) {
            self.feed(piece);
        }
    }

    /// Receives bytes, with an application.
    pub(super) fn feed_with(
        &mut self,
        bytes: impl AsRef<[u8]>,
        app: impl FnMut(&mut H2<S>, &Event<'_, S>),
    ) {
        self.arrived.extend_from_slice(bytes.as_ref());
        self.poll(false, app);
        self.flush();
    }

    /// The peer ends its side of the connection.
    pub(super) fn end(&mut self) {
        self.poll(true, |_, _| ());
        self.flush();
    }

    fn poll(&mut self, eof: bool, mut app: impl FnMut(&mut H2<S>, &Event<'_, S>)) {
        let mut input = Input::all(&mut self.arrived, eof);
        loop {
            match self.connection.poll_event(&mut input, &mut self.scratch) {
                Ok(None) => break,
                Ok(Some(event)) => {
                    assert_eq!(self.error, None, "an event after an error: {event:?}");
                    self.events.push(text(&event));
                    app(&mut self.connection, &event);
                }
                Err(error) => assert_eq!(self.error.replace(error), None, "a second error"),
            }
        }
    }

    /// Sends everything, and returns the number of bytes.
    pub(super) fn flush(&mut self) -> u64 {
        let mut total = 0;
        while let Some(transmit) = self.connection.poll_transmit() {
            self.sent.extend_from_slice(transmit.inline);
            for segment in transmit.segments {
                match segment {
                    Segment::Bytes(bytes) => self.sent.extend_from_slice(bytes),
                    Segment::File(range) => {
                        let len = usize::try_from(range.len).expect("short");
                        self.sent.extend(std::iter::repeat_n(b'f', len));
                    }
                    Segment::Pipe(_) => panic!("no pipe was queued"),
                }
            }
            let len = transmit.len();
            total += len;
            self.connection.handle_sent(len);
        }
        self.parse_sent();
        total
    }

    fn parse_sent(&mut self) {
        if self.sent.starts_with(PREFACE) {
            self.sent.drain(..PREFACE.len());
        }
        let mut rest = &self.sent[..];
        while let [a, b, c, kind, flags, d, e, f, g, tail @ ..] = rest {
            let len = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            let (payload, tail) = tail.split_at(len);
            self.frames.push(WireFrame {
                kind: *kind,
                flags: *flags,
                stream: u32::from_be_bytes([*d, *e, *f, *g]),
                payload: payload.to_vec(),
            });
            rest = tail;
        }
        assert!(rest.is_empty(), "only whole frames are sent");
        self.sent.clear();
    }

    /// The events, without the cuts of the bodies.
    pub(super) fn merged(&self) -> Vec<String> {
        let mut merged: Vec<String> = Vec::new();
        for event in &self.events {
            match (merged.last_mut(), event.split_once(" data ")) {
                (Some(last), Some((stream, bytes)))
                    if last.starts_with(&format!("{stream} data ")) =>
                {
                    last.push_str(bytes);
                }
                _ => merged.push(event.clone()),
            }
        }
        merged
    }

    /// The errors among the sent frames: `GOAWAY code` or `RST_STREAM id code`, in order.
    pub(super) fn errors_sent(&self) -> String {
        let mut errors = Vec::new();
        for frame in &self.frames {
            match frame.kind {
                RST_STREAM => errors.push(format!("RST_STREAM {} {}", frame.stream, code(frame))),
                GOAWAY => errors.push(format!("GOAWAY {}", code(frame))),
                _ => {}
            }
        }
        errors.join(", ")
    }

    /// As [`RawPeer::errors_sent`], and a reported error is the last of them.
    pub(super) fn errors(&self) -> String {
        let errors = self.errors_sent();
        if let Some(error) = self.error {
            let expected = errors.rsplit("GOAWAY ").next().unwrap_or_default();
            assert_eq!(error.to_string(), format!("HTTP/2 connection error {expected}"));
        }
        errors
    }

    /// The number of sent frames of this kind.
    pub(super) fn count(&self, kind: u8) -> usize {
        self.frames.iter().filter(|frame| frame.kind == kind).count()
    }

    /// The sum of the increments that the connection has sent to this stream's window.
    pub(super) fn increments(&self, stream: u32) -> u64 {
        let of = |frame: &&WireFrame| frame.kind == WINDOW_UPDATE && frame.stream == stream;
        self.frames.iter().filter(of).map(|frame| u64::from(frame.number())).sum()
    }

    /// The body bytes that the connection has sent on a stream.
    pub(super) fn body_size(&self, stream: u32) -> usize {
        let of = |frame: &&WireFrame| frame.kind == DATA && frame.stream == stream;
        self.frames.iter().filter(of).map(|frame| frame.payload.len()).sum()
    }
}

/// The code of RST_STREAM or GOAWAY by its name.
fn code(frame: &WireFrame) -> String {
    let number = frame.number();
    let found = CODES.iter().find(|code| code.code() == number);
    found.map_or_else(|| number.to_string(), ToString::to_string)
}

/// An event as text: its stream, its kind, and what is in it.
pub(super) fn text<S: RecordedSide>(event: &Event<'_, S>) -> String {
    let stream = event.stream().0;
    match event {
        Event::Head { head, len, .. } => format!("{stream} head {} {len:?}", S::text(*head)),
        Event::Informational { head, .. } => format!("{stream} informational {}", head.status),
        Event::Data { bytes, .. } => format!("{stream} data {}", bytes.escape_ascii()),
        Event::End { trailers, .. } => format!("{stream} end {}", list(*trailers)),
        Event::Writable { .. } => format!("{stream} writable"),
        Event::Reset { code, .. } => format!("{stream} reset {}", code.code()),
        Event::Upgraded { .. } => format!("{stream} upgraded"),
    }
}

/// Fields as text.
pub(super) fn list(headers: Headers<'_>) -> String {
    let field = |(name, value): (&[u8], &[u8])| {
        format!("{}: {}", name.escape_ascii(), value.escape_ascii())
    };
    headers.iter().map(field).collect::<Vec<_>>().join(", ")
}

/// `Host: a`.
pub(super) fn host() -> HeaderBuf {
    let mut headers = HeaderBuf::new();
    headers.push("Host", b"a").expect("valid");
    headers
}

/// Queues a whole response.
pub(super) fn respond(server: &mut H2<Server>, stream: StreamId, body: &'static [u8]) {
    let head = Response::new(200, Headers::EMPTY);
    server.send_head(stream, head, BodyLen::Exact(body.len() as u64)).expect("valid");
    server.send_data(stream, Segment::from(body)).expect("valid");
    server.send_end(stream, Headers::EMPTY).expect("valid");
}

const CODES: [ErrorCode; 14] = [
    ErrorCode::NoError,
    ErrorCode::ProtocolError,
    ErrorCode::InternalError,
    ErrorCode::FlowControlError,
    ErrorCode::SettingsTimeout,
    ErrorCode::StreamClosed,
    ErrorCode::FrameSizeError,
    ErrorCode::RefusedStream,
    ErrorCode::Cancel,
    ErrorCode::CompressionError,
    ErrorCode::ConnectError,
    ErrorCode::EnhanceYourCalm,
    ErrorCode::InadequateSecurity,
    ErrorCode::Http11Required,
];
