//! HTTP/2: frames of a hostile peer into either role, and both roles back to back.
//!
//! Frames give events or one error, nothing else: no panic, no event behind an error. Back to back
//! there is no error at all, and every message that is not reset arrives as it was sent.
//! `crates/proto/tests/it/h2/random.rs` runs the same functions in every test run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use bytes::{Bytes, BytesMut};
use fulmar_proto::h2::{H2, PREFACE};
use fulmar_proto::{
    BodyLen, Client, Connection, Event, HeaderBuf, Headers, Input, Request, Reset, Response,
    Scratch, Segment, Server, Side, StreamId,
};

/// Frames into a server, whose application the first byte chooses.
pub fn server_frames(data: &[u8]) {
    let (kind, data) = data.split_first().unwrap_or((&0, &[]));
    let bytes = [&PREFACE[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0], &frames(data)].concat();
    let whole = kind & 64 != 0;
    feed(H2::<Server>::default(), &bytes, piece_size(*kind), |server, event| {
        let stream = event.stream();
        match event {
            Event::Head { .. } if kind & 16 != 0 => server.set_held(stream, true),
            Event::Data { bytes, .. } => server.release(stream, bytes.len()),
            _ => {}
        }
        let due = match whole {
            true => matches!(event, Event::End { .. }),
            false => matches!(event, Event::Head { .. }),
        };
        if due && kind & 32 == 0 {
            let head = Response::new(200, Headers::EMPTY);
            let _ = server.send_head(stream, head, BodyLen::Unknown);
            let _ = server.send_data(stream, Segment::from(&BODY[..]));
            let _ = server.send_end(stream, Headers::EMPTY);
        }
    });
}

/// Frames into a client with requests of several kinds.
pub fn client_frames(data: &[u8]) {
    let (kind, data) = data.split_first().unwrap_or((&0, &[]));
    let mut client = H2::<Client>::default();
    let headers = host();
    for method in ["GET", "HEAD", "CONNECT", "POST"] {
        let Some(stream) = client.open() else { break };
        let target = if method == "CONNECT" { &b"a:80"[..] } else { b"/" };
        let request = Request::new(method.as_bytes(), target, headers.as_headers());
        let len = if method == "POST" { BodyLen::Unknown } else { BodyLen::Empty };
        client.send_head(stream, request, len).expect("a valid head");
        if matches!(method, "GET" | "HEAD") {
            client.send_end(stream, Headers::EMPTY).expect("complete");
        }
    }
    let bytes = [&[0, 0, 0, 4, 0, 0, 0, 0, 0], &frames(data)[..]].concat();
    feed(client, &bytes, piece_size(*kind), |client, event| match event {
        Event::Data { stream, bytes } => client.release(*stream, bytes.len()),
        Event::Head { stream, .. } if kind & 16 != 0 => client.set_held(*stream, true),
        _ => {}
    });
}

fn piece_size(kind: u8) -> usize {
    [1, 2, 3, 8, 9, 10, 17, 100, 1_000, 100_000][usize::from(kind & 15) % 10]
}

/// Each frame is five bytes of the data: type, flags, stream, the kind of payload, its length; and
/// for some kinds as many bytes. Raw bytes follow type 255.
fn frames(mut data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let [kind, flags, stream, payload, len, rest @ ..] = data {
        if *kind == u8::MAX {
            out.extend_from_slice(rest);
            break;
        }
        data = rest;
        let payload = match payload % 8 {
            0 => vec![0; usize::from(*len)],
            1 => vec![*len; 4],
            2 => vec![*len; 8],
            3 => BLOCKS[usize::from(*len) % BLOCKS.len()].to_vec(),
            4 => BODY[..usize::from(*len)].to_vec(),
            5 => vec![0; usize::from(*len) * 64],
            _ => {
                let (payload, rest) = data.split_at(data.len().min((*len).into()));
                data = rest;
                payload.to_vec()
            }
        };
        let size = u32::try_from(payload.len()).expect("short").to_be_bytes();
        out.extend_from_slice(&[size[1], size[2], size[3], kind % 18, *flags, 0, 0, 0, *stream]);
        out.extend_from_slice(&payload);
    }
    out
}

fn feed<S: Side>(
    mut connection: H2<S>,
    bytes: &[u8],
    size: usize,
    mut app: impl FnMut(&mut H2<S>, &Event<'_, S>),
) {
    let (mut block, mut scratch) = (BytesMut::new(), Scratch::default());
    let (mut failed, mut events) = (false, 0);
    let mut pieces = bytes.chunks(size).peekable();
    while let Some(piece) = pieces.next() {
        block.extend_from_slice(piece);
        let eof = pieces.peek().is_none();
        let mut input = Input::all(&mut block, eof);
        loop {
            match connection.poll_event(&mut input, &mut scratch) {
                Ok(Some(event)) => {
                    assert!(!failed, "no event follows an error");
                    events += 1;
                    assert!(events < 3 * bytes.len() + 100, "events come out of bytes");
                    app(&mut connection, &event);
                }
                Ok(None) if send(&mut connection, u64::MAX).is_empty() => break,
                Ok(None) => {}
                Err(_) => {
                    assert!(!failed, "one error ends it");
                    failed = true;
                }
            }
        }
        let io = connection.io_state();
        assert!(!failed || io.finished, "an error finishes our side");
        assert!(!failed || connection.open_streams() == 0, "an error ends every stream");
        let _ = (connection.sweep(u64::from(size == 3), 1, false), connection.vacancy());
        assert!(block.len() <= 16_384 + 9, "{} bytes are left unread", block.len());
    }
}

/// Takes at most `max` bytes that the connection has to send.
fn send<S: Side>(connection: &mut H2<S>, max: u64) -> Vec<u8> {
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    let mut bytes = Vec::new();
    if let Some(transmit) = connection.poll_transmit() {
        let pieces = transmit.segments.iter().map(|segment| match segment {
            Segment::Bytes(piece) => &piece[..],
            other => panic!("{other:?} was not queued"),
        });
        for piece in std::iter::once(transmit.inline).chain(pieces) {
            let room = max - bytes.len();
            bytes.extend_from_slice(&piece[..piece.len().min(room)]);
        }
    }
    connection.handle_sent(bytes.len() as u64);
    bytes
}

/// Each two bytes are a step: one of the calls of an application on one of the streams, or some
/// bytes that pass. Then everything is completed.
pub fn back_to_back(data: &[u8]) {
    let (kind, data) = data.split_first().unwrap_or((&0, &[]));
    let mut pair = StreamPair { is_lazy: kind & 1 != 0, ..StreamPair::default() };
    for step in data.as_chunks::<2>().0.iter().take(STEPS_MAX) {
        pair.step(step[0] % 16, step[1]);
    }
    pair.complete();
}

/// One end of the connection and what has arrived there.
struct StreamEnd<S: Side> {
    connection: H2<S>,
    arrived: BytesMut,
    held: BTreeSet<StreamId>,
    unreleased: Vec<(StreamId, usize)>,
}

impl<S: Side> Default for StreamEnd<S> {
    fn default() -> Self {
        Self {
            connection: H2::default(),
            arrived: BytesMut::new(),
            held: BTreeSet::new(),
            unreleased: Vec::new(),
        }
    }
}

impl<S: Side> StreamEnd<S> {
    fn release(&mut self) {
        for (stream, bytes) in self.unreleased.drain(..) {
            self.connection.release(stream, bytes);
        }
    }

    fn set_held(&mut self, stream: StreamId, on: bool) {
        match on {
            true => self.held.insert(stream),
            false => self.held.remove(&stream),
        };
        self.connection.set_held(stream, on);
    }
}

/// One message: what was sent of it and what has arrived.
#[derive(Default)]
struct SentMessage {
    has_head: bool,
    has_arrived: bool,
    sent: usize,
    is_ended: bool,
    received: usize,
    has_end: bool,
}

#[derive(Default)]
struct StreamExchange {
    messages: [SentMessage; 2],
    /// HEAD: the head of the response is its end.
    is_head: bool,
    is_reset: bool,
}

#[derive(Default)]
struct StreamPair {
    client: StreamEnd<Client>,
    server: StreamEnd<Server>,
    exchanges: BTreeMap<StreamId, StreamExchange>,
    /// What both ends have reset: a server bears `Http2Limits::peer_resets_max` of its client.
    resets: usize,
    sweeps: u64,
    is_lazy: bool,
    scratch: Scratch,
}

impl StreamPair {
    fn step(&mut self, step: u8, value: u8) {
        let len = usize::from(value) * 97;
        if step == 0 {
            return self.open(value);
        }
        match step {
            11 => self.pass_up(u64::from(value) * 50),
            12 => self.pass_down(u64::from(value) * 50),
            14 if value > 250 => self.server.connection.close_after(),
            14 => {
                self.server.release();
                self.client.release();
            }
            15 if value > 240 => self.sweep(),
            _ => {}
        }
        let count = self.exchanges.len().max(1);
        let Some(stream) = self.exchanges.keys().nth(usize::from(value) % count).copied() else {
            return;
        };
        match step {
            1 | 2 => self.send(0, stream, len),
            3 => self.end(0, stream, false),
            4 | 9 if self.resets < RESETS_MAX && value & 8 != 0 => self.reset(step == 4, stream),
            5 => self.client.set_held(stream, value & 1 != 0),
            6 => self.respond(stream),
            7 => self.send(1, stream, len),
            8 => self.end(1, stream, value & 1 != 0),
            10 if self.exchange(stream).messages[0].has_arrived => {
                self.server.set_held(stream, value & 1 != 0);
            }
            13 => {
                let head = Response::new(103, Headers::EMPTY);
                let _ = self.server.connection.send_head(stream, head, BodyLen::Empty);
            }
            _ => {}
        }
    }

    /// Lets a span of time pass. Each stream that the client gives up is one of its resets.
    fn sweep(&mut self) {
        let open = self.client.connection.open_streams();
        if self.resets + open > RESETS_MAX {
            return;
        }
        self.sweeps += 1;
        self.server.connection.sweep(self.sweeps, 1, false);
        self.client.connection.sweep(self.sweeps, 1, false);
        self.resets += open - self.client.connection.open_streams();
    }

    fn open(&mut self, value: u8) {
        let Some(stream) = self.client.connection.open() else { return };
        let headers = host();
        let method = [&b"GET"[..], b"POST", b"POST", b"HEAD"][usize::from(value & 3)];
        let len = if method == b"POST" { BodyLen::Unknown } else { BodyLen::Empty };
        let request = Request::new(method, b"/", headers.as_headers());
        self.client.connection.send_head(stream, request, len).expect("a valid head");
        let exchange = self.exchanges.entry(stream).or_default();
        exchange.messages[0].has_head = true;
        exchange.is_head = method == b"HEAD";
        if len == BodyLen::Empty {
            self.end(0, stream, false);
        }
    }

    fn respond(&mut self, stream: StreamId) {
        let head = Response::new(200, Headers::EMPTY);
        if self.server.connection.send_head(stream, head, BodyLen::Unknown).is_ok() {
            let exchange = self.exchange(stream);
            exchange.messages[1].has_head = true;
            exchange.messages[1].is_ended |= exchange.is_head;
        }
    }

    /// Sends a piece of the message that goes up (0) or down (1), as far as there is room.
    fn send(&mut self, direction: usize, stream: StreamId, len: usize) {
        let room = match direction {
            0 => self.client.connection.room(stream),
            _ => self.server.connection.room(stream),
        };
        let len = len.min(usize::try_from(room).unwrap_or(usize::MAX));
        let message =
            &mut self.exchanges.get_mut(&stream).expect("it was opened").messages[direction];
        let piece = Segment::Bytes(Bytes::from_static(body_part(stream, message.sent, len)));
        let sent = match direction {
            0 => self.client.connection.send_data(stream, piece),
            _ => self.server.connection.send_data(stream, piece),
        };
        if sent.is_ok() {
            message.sent += len;
        }
    }

    fn end(&mut self, direction: usize, stream: StreamId, with_trailers: bool) {
        let mut trailers = HeaderBuf::new();
        if with_trailers {
            trailers.push("x-sum", b"1").expect("a field");
        }
        let ended = match direction {
            0 => self.client.connection.send_end(stream, trailers.as_headers()),
            _ => self.server.connection.send_end(stream, trailers.as_headers()),
        };
        self.exchange(stream).messages[direction].is_ended |= ended.is_ok();
    }

    fn reset(&mut self, by_client: bool, stream: StreamId) {
        self.resets += 1;
        self.exchange(stream).is_reset = true;
        match by_client {
            true => self.client.connection.reset(stream, Reset::Cancelled),
            false => self.server.connection.reset(stream, Reset::Internal),
        }
    }

    fn exchange(&mut self, stream: StreamId) -> &mut StreamExchange {
        self.exchanges.entry(stream).or_default()
    }

    fn pass_up(&mut self, max: u64) {
        let bytes = send(&mut self.client.connection, max);
        let Self { server, exchanges, is_lazy, scratch, .. } = self;
        receive(server, 0, (&bytes, *is_lazy), exchanges, scratch);
    }

    fn pass_down(&mut self, max: u64) {
        let bytes = send(&mut self.server.connection, max);
        let Self { client, exchanges, is_lazy, scratch, .. } = self;
        receive(client, 1, (&bytes, *is_lazy), exchanges, scratch);
    }

    /// Ends every message; then each that was not reset has arrived.
    fn complete(&mut self) {
        self.is_lazy = false;
        let streams: Vec<StreamId> = self.exchanges.keys().copied().collect();
        for stream in &streams {
            self.client.set_held(*stream, false);
            self.server.set_held(*stream, false);
            self.end(0, *stream, false);
        }
        for _ in 0..ROUNDS_MAX {
            self.client.release();
            self.server.release();
            self.pass_up(u64::MAX);
            for stream in &streams {
                self.respond(*stream);
                self.end(1, *stream, false);
            }
            self.pass_down(u64::MAX);
            if self.client.connection.open_streams() + self.server.connection.open_streams() == 0 {
                break;
            }
        }
        for (stream, exchange) in &self.exchanges {
            assert!(exchange.is_reset || exchange.messages[1].has_end, "{stream:?} hangs");
        }
        assert_eq!(self.client.connection.open_streams(), 0);
        assert_eq!(self.server.connection.open_streams(), 0);
    }
}

/// Receives bytes at one end, and checks the messages of this direction.
fn receive<S: Side>(
    end: &mut StreamEnd<S>,
    direction: usize,
    (bytes, is_lazy): (&[u8], bool),
    exchanges: &mut BTreeMap<StreamId, StreamExchange>,
    scratch: &mut Scratch,
) {
    end.arrived.extend_from_slice(bytes);
    let mut input = Input::all(&mut end.arrived, false);
    loop {
        let event = end.connection.poll_event(&mut input, scratch);
        let Some(event) = event.expect("both ends follow the protocol") else { break };
        let stream = event.stream();
        let exchange = exchanges.entry(stream).or_default();
        let is_bodiless = exchange.is_head && direction == 1;
        let message = &mut exchange.messages[direction];
        let is_held = end.held.contains(&stream);
        match event {
            Event::Head { .. } => {
                assert!(message.has_head && !message.has_arrived);
                message.has_arrived = true;
            }
            Event::Data { bytes, .. } => {
                assert!(!message.has_end && !is_held, "{stream:?}");
                let expected = body_part(stream, message.received, bytes.len());
                assert!(bytes == expected, "{stream:?}: other bytes at {}", message.received);
                message.received += bytes.len();
                match is_lazy {
                    true => end.unreleased.push((stream, bytes.len())),
                    false => end.connection.release(stream, bytes.len()),
                }
            }
            Event::End { .. } => {
                assert!(!message.has_end, "{stream:?} ends twice");
                assert!(message.is_ended, "{stream:?} ends too early");
                assert!(!is_held, "{stream:?} is held");
                message.has_end = true;
                let sent = if is_bodiless { 0 } else { message.sent };
                assert_eq!(message.received, sent, "{stream:?}");
            }
            Event::Reset { .. } => exchange.is_reset = true,
            Event::Informational { .. } | Event::Writable { .. } => {}
            Event::Upgraded { .. } => panic!("no tunnel was requested"),
        }
    }
}

/// The bytes of a body at a place, so that no two streams or places are confused.
fn body_part(stream: StreamId, at: usize, len: usize) -> &'static [u8] {
    static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
        (0..2 * BODY_PERIOD)
            .map(|n| n % BODY_PERIOD)
            .map(|n| (n / 251 + n).to_le_bytes()[0])
            .collect()
    });
    let start = (at + stream.0 as usize * 31) % BODY_PERIOD;
    &BYTES[start..start + len]
}

fn host() -> HeaderBuf {
    let mut headers = HeaderBuf::new();
    headers.push("Host", b"a").expect("a field");
    headers
}

const BODY: [u8; 255] = [b'b'; 255];
const STEPS_MAX: usize = 400;
/// A prime above the largest piece, which has 255 times 97 bytes.
const BODY_PERIOD: usize = 32_749;
const RESETS_MAX: usize = 100;
const ROUNDS_MAX: usize = 400;
/// Requests, a response, an interim one, trailers, a request with a length, CONNECT.
const BLOCKS: [&[u8]; 7] = [
    b"\x82\x86\x84\x41\x01a",
    b"\x83\x86\x84\x41\x01a",
    b"\x88",
    b"\x08\x03103",
    b"\x00\x01x\x01y",
    b"\x83\x86\x84\x41\x01a\x0f\x0d\x013",
    b"\x02\x07CONNECT\x01\x04a:80",
];
