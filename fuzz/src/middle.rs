//! An HTTP/1 client and server, and a hostile middle that changes, drops and inserts bytes.
//!
//! Each end gives events or one error. Without a change all bodies arrive as they were sent.

use bytes::{Bytes, BytesMut};
use fulmar_proto::h1::H1Client;
use fulmar_proto::h1::H1Server;
use fulmar_proto::{
    BodyLen, Connection, Event, HeaderBuf, Headers, Input, Request, Response, Scratch, Segment,
    StreamId,
};

/// The first byte selects the requests, the second the size of pieces. Each four of the others are
/// a change: where, in which direction, what.
pub fn middle(data: &[u8]) {
    let (plan, changes) = data.split_at(data.len().min(PLAN_LEN));
    let [kind, size] = [0, 1].map(|at| plan.get(at).copied().unwrap_or_default());
    let mut client = FuzzClient::new(kind);
    let mut server =
        FuzzServer { connection: H1Server::default(), got: Vec::new(), responses_len: 0 };
    let mut wires = [HostileWire::new(changes, 0), HostileWire::new(changes, 1)];
    for _ in 0..ROUNDS_MAX {
        let requests = wires[0].carry(take(&mut client.connection));
        server.receive(&requests, usize::from(size) + 1, &mut wires[0].input);
        let responses = wires[1].carry(take(&mut server.connection));
        client.receive(&responses, usize::from(size) + 1, &mut wires[1].input);
        if requests.is_empty() && responses.is_empty() {
            break;
        }
    }
    if wires.iter().all(|wire| wire.changes.is_empty()) {
        assert_eq!(server.got, BODY.repeat(client.bodies), "every request has arrived");
        assert_eq!(client.got, BODY.repeat(server.responses_len), "every response has arrived");
        assert!(
            !wires.iter().any(|wire| wire.input.failed) && server.responses_len == client.requests
        );
    }
}

/// One direction: what is changed in it, and what its receiver has not consumed.
struct HostileWire {
    changes: Vec<(usize, u8, u8)>,
    passed: usize,
    input: Received,
}

#[derive(Default)]
struct Received {
    block: BytesMut,
    scratch: Scratch,
    failed: bool,
    events: usize,
}

impl HostileWire {
    fn new(changes: &[u8], direction: u8) -> Self {
        let mine = changes.chunks_exact(4).filter(|it| it[2] & 1 == direction);
        let changes =
            mine.map(|it| (usize::from(it[0]) << 3 | usize::from(it[1]), it[2] >> 1, it[3]));
        Self { changes: changes.collect(), passed: 0, input: Received::default() }
    }

    fn carry(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for byte in bytes {
            let found = self.changes.iter().find(|change| change.0 == self.passed);
            self.passed += 1;
            match found {
                None => out.push(byte),
                Some((_, how, with)) => match how % 4 {
                    0 => out.push(*with),
                    1 => {}
                    2 => out.extend([byte, *with]),
                    _ => out.extend([byte; 3]),
                },
            }
        }
        out
    }
}

impl Received {
    /// Feeds pieces of this size, and has each event handled.
    fn feed<C: Connection>(
        &mut self,
        connection: &mut C,
        bytes: &[u8],
        size: usize,
        mut handle: impl FnMut(&mut C, Event<'_, C::Role>),
    ) {
        for piece in bytes.chunks(size) {
            self.block.extend_from_slice(piece);
            loop {
                let mut input = Input::all(&mut self.block, false);
                match connection.poll_event(&mut input, &mut self.scratch) {
                    Ok(Some(event)) => {
                        assert!(!self.failed, "no event follows an error");
                        self.events += 1;
                        assert!(self.events < EVENTS_MAX, "events come out of bytes");
                        handle(connection, event);
                    }
                    Ok(None) => break,
                    Err(_) => {
                        assert!(!self.failed, "only one error");
                        self.failed = true;
                    }
                }
            }
        }
    }
}

struct FuzzClient {
    connection: H1Client,
    requests: usize,
    bodies: usize,
    got: Vec<u8>,
}

impl FuzzClient {
    /// Up to four requests, one after the other, with and without bodies of both framings.
    fn new(kind: u8) -> Self {
        let mut this =
            Self { connection: H1Client::with_depth(4), requests: 0, bodies: 0, got: Vec::new() };
        let mut headers = HeaderBuf::new();
        headers.push("Host", b"a").expect("a field");
        for nth in 0..=kind & 3 {
            let Some(stream) = this.connection.open() else { break };
            let (method, len) = match kind >> (2 + nth) & 3 {
                0 => (&b"GET"[..], BodyLen::Empty),
                1 => (&b"PUT"[..], BodyLen::Exact(BODY.len() as u64)),
                2 => (&b"POST"[..], BodyLen::Unknown),
                _ => (&b"DELETE"[..], BodyLen::Empty),
            };
            let request = Request::new(method, b"/", headers.as_headers());
            this.connection.send_head(stream, request, len).expect("a sound head");
            this.requests += 1;
            if !matches!(len, BodyLen::Empty) {
                this.bodies += 1;
                let body = Segment::from(Bytes::from_static(BODY));
                this.connection.send_data(stream, body).expect("room");
            }
            this.connection.send_end(stream, Headers::EMPTY).expect("complete");
        }
        this
    }

    fn receive(&mut self, bytes: &[u8], size: usize, input: &mut Received) {
        let got = &mut self.got;
        input.feed(&mut self.connection, bytes, size, |connection, event| {
            if let Event::Data { stream, bytes } = event {
                got.extend_from_slice(&bytes);
                connection.release(stream, bytes.len());
            }
        });
    }
}

struct FuzzServer {
    connection: H1Server,
    got: Vec<u8>,
    responses_len: usize,
}

impl FuzzServer {
    /// Responds to each request, by turns with a length and in chunks.
    fn receive(&mut self, bytes: &[u8], size: usize, input: &mut Received) {
        let (got, responses_len) = (&mut self.got, &mut self.responses_len);
        input.feed(&mut self.connection, bytes, size, |connection, event| match event {
            Event::Data { stream, bytes } => {
                got.extend_from_slice(&bytes);
                connection.release(stream, bytes.len());
            }
            Event::End { stream, .. } => {
                *responses_len +=
                    usize::from(respond(connection, stream, *responses_len % 2 == 0).is_some());
            }
            _ => {}
        });
    }
}

/// `None`: the request allows no body in its response, or no response.
fn respond(connection: &mut H1Server, stream: StreamId, exact: bool) -> Option<()> {
    let len = if exact { BodyLen::Exact(BODY.len() as u64) } else { BodyLen::Unknown };
    connection.send_head(stream, Response::new(200, Headers::EMPTY), len).ok()?;
    connection.send_data(stream, Segment::from(Bytes::from_static(BODY))).ok()?;
    connection.send_end(stream, Headers::EMPTY).ok()
}

/// The pending output of a connection.
fn take<C: Connection>(connection: &mut C) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(transmit) = connection.poll_transmit() {
        let start = bytes.len();
        bytes.extend_from_slice(transmit.inline);
        for segment in transmit.segments {
            let Segment::Bytes(run) = segment else { panic!("everything is in memory") };
            bytes.extend_from_slice(run);
        }
        let size = bytes.len() - start;
        connection.handle_sent(size as u64);
        if size == 0 {
            break;
        }
    }
    bytes
}

const PLAN_LEN: usize = 2;
const BODY: &[u8] = b"a body";
const ROUNDS_MAX: usize = 20;
const EVENTS_MAX: usize = 10_000;
