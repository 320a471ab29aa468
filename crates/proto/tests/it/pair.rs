//! Client and server back to back in memory: the messages that one sends, the other receives.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use fulmar_proto::h1::EncodedRequest;
use fulmar_proto::h1::H1Client;
use fulmar_proto::h1::H1Server;
use fulmar_proto::{
    BodyLen, Client, Connection, Event, HeaderBuf, Headers, Input, Phase, Request, Response,
    Scratch, Segment, Server, StreamId,
};
use proptest::prelude::*;

/// A message without its start line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PlannedMessage {
    body: Vec<u8>,
    /// Sent without a declared length.
    unknown: bool,
    trailer: Option<String>,
}

#[derive(Clone, Debug)]
struct PlannedExchange {
    method: &'static str,
    status: u16,
    ask: PlannedMessage,
    answer: PlannedMessage,
}

impl PlannedMessage {
    fn of(body: &[u8]) -> Self {
        Self { body: body.to_vec(), ..Self::default() }
    }

    fn len(&self) -> BodyLen {
        match self.body.len() as u64 {
            _ if self.unknown => BodyLen::Unknown,
            0 => BodyLen::Empty,
            n => BodyLen::Exact(n),
        }
    }

    fn send<C: Connection>(&self, connection: &mut C, stream: StreamId, piece: usize) {
        for piece in self.body.chunks(piece) {
            let piece = Bytes::copy_from_slice(piece);
            connection.send_data(stream, piece.into()).expect("within the length");
        }
        let mut trailers = HeaderBuf::new();
        if let Some(value) = &self.trailer {
            trailers.push("X-Trailer", value.as_bytes()).expect("a field");
        }
        connection.send_end(stream, trailers.as_headers()).expect("complete");
    }

    /// As it arrives: a trailer needs chunks.
    fn received(&self, silent: bool) -> Self {
        if silent {
            return Self::default();
        }
        let trailer = self.trailer.clone().filter(|_| self.unknown);
        Self { body: self.body.clone(), unknown: false, trailer }
    }
}

/// Both ends and the two directions between them, cut into pieces of changing sizes.
struct ConnectionPair {
    client: H1Client,
    server: H1Server,
    scratch: Scratch,
    up: VecDeque<u8>,
    down: VecDeque<u8>,
    up_block: BytesMut,
    down_block: BytesMut,
    pieces: Vec<usize>,
    turn: usize,
}

impl ConnectionPair {
    fn new(depth: u32, pieces: &[usize]) -> Self {
        Self {
            client: H1Client::with_depth(depth),
            server: H1Server::default(),
            scratch: Scratch::default(),
            up: VecDeque::new(),
            down: VecDeque::new(),
            up_block: BytesMut::new(),
            down_block: BytesMut::new(),
            pieces: pieces.to_vec(),
            turn: 0,
        }
    }

    fn piece(&mut self) -> usize {
        self.turn += 1;
        self.pieces[self.turn % self.pieces.len()]
    }

    /// Passes a piece to the server; false if there was nothing new and no event.
    fn serve(&mut self, mut app: impl FnMut(&mut H1Server, Event<'_, Server>)) -> bool {
        let n = self.piece();
        let moved = send(&mut self.client, &mut self.up, n);
        let heard = hear(&mut self.up, &mut self.up_block, n);
        let mut input = Input::all(&mut self.up_block, false);
        let mut any = false;
        while let Some(event) =
            self.server.poll_event(&mut input, &mut self.scratch).expect("a sound client")
        {
            any = true;
            app(&mut self.server, event);
        }
        moved || heard || any
    }

    /// Likewise the client.
    fn ask(&mut self, mut app: impl FnMut(&mut H1Client, Event<'_, Client>)) -> bool {
        let n = self.piece();
        let moved = send(&mut self.server, &mut self.down, n);
        let heard = hear(&mut self.down, &mut self.down_block, n);
        let mut input = Input::all(&mut self.down_block, false);
        let mut any = false;
        while let Some(event) =
            self.client.poll_event(&mut input, &mut self.scratch).expect("a sound server")
        {
            any = true;
            app(&mut self.client, event);
        }
        moved || heard || any
    }
}

/// At most `n` bytes leave the connection.
fn send<C: Connection>(connection: &mut C, pipe: &mut VecDeque<u8>, n: usize) -> bool {
    let before = pipe.len();
    if let Some(transmit) = connection.poll_transmit() {
        let segments = transmit.segments.iter().flat_map(|segment| match segment {
            Segment::Bytes(bytes) => &bytes[..],
            Segment::File(_) | Segment::Pipe(_) => panic!("all of it is in memory"),
        });
        pipe.extend(transmit.inline.iter().chain(segments).take(n));
    }
    connection.handle_sent((pipe.len() - before) as u64);
    pipe.len() > before
}

/// At most `n` bytes arrive.
fn hear(pipe: &mut VecDeque<u8>, block: &mut BytesMut, n: usize) -> bool {
    let n = n.min(pipe.len());
    block.extend(pipe.drain(..n));
    n > 0
}

/// The messages that one side has received.
#[derive(Default)]
struct Heard {
    heads: Vec<String>,
    messages: Vec<PlannedMessage>,
    open: PlannedMessage,
}

impl Heard {
    fn data(&mut self, bytes: &[u8]) {
        self.open.body.extend_from_slice(bytes);
    }

    fn end(&mut self, trailers: Headers<'_>) {
        let trailer = trailers.get("x-trailer");
        self.open.trailer = trailer.map(|value| String::from_utf8_lossy(value).into_owned());
        self.messages.push(std::mem::take(&mut self.open));
    }
}

fn start(client: &mut H1Client, exchange: &PlannedExchange, n: usize, piece: usize) {
    let stream = client.open().expect("a vacancy");
    let mut headers = HeaderBuf::new();
    headers.push("Host", b"a").expect("a field");
    let target = format!("/{n}");
    let request = Request::new(exchange.method.as_bytes(), target.as_bytes(), headers.as_headers());
    client.send_head(stream, request, exchange.ask.len()).expect("a request");
    exchange.ask.send(client, stream, piece);
}

fn run(exchanges: &[PlannedExchange], depth: u32, pieces: &[usize], piece: usize) {
    let mut pair = ConnectionPair::new(depth, pieces);
    let (mut asked, mut answered, mut started) = (Heard::default(), Heard::default(), 0);
    let mut quiet = 0;
    while answered.messages.len() < exchanges.len() {
        while started < exchanges.len() && pair.client.vacancy() > 0 {
            start(&mut pair.client, &exchanges[started], started, piece);
            started += 1;
        }
        let served = pair.serve(|server, event| match event {
            Event::Head { head, .. } => {
                let words = [head.method, b" ", head.target].concat();
                asked.heads.push(String::from_utf8(words).expect("ASCII"));
            }
            Event::Data { stream, bytes } => {
                asked.data(&bytes);
                server.release(stream, bytes.len());
            }
            Event::End { stream, trailers } => {
                asked.end(trailers);
                let exchange = &exchanges[asked.messages.len() - 1];
                let head = Response::new(exchange.status, Headers::EMPTY);
                server.send_head(stream, head, exchange.answer.len()).expect("an answer");
                exchange.answer.send(server, stream, piece);
            }
            Event::Writable { .. } => {}
            other => panic!("{other:?}"),
        });
        let heard = pair.ask(|client, event| match event {
            Event::Head { head, .. } => answered.heads.push(head.status.to_string()),
            Event::Data { stream, bytes } => {
                answered.data(&bytes);
                client.release(stream, bytes.len());
            }
            Event::End { trailers, .. } => answered.end(trailers),
            Event::Writable { .. } => {}
            other => panic!("{other:?}"),
        });
        quiet = if served || heard { 0 } else { quiet + 1 };
        assert!(quiet < 3, "the two wait for each other: {:?}", (&pair.client, &pair.server));
    }
    assert_eq!(
        (pair.client.io_state().phase, pair.server.io_state().phase),
        (Phase::Idle, Phase::Idle)
    );
    for (n, exchange) in exchanges.iter().enumerate() {
        assert_eq!(asked.heads[n], format!("{} /{n}", exchange.method));
        assert_eq!(asked.messages[n], exchange.ask.received(false));
        assert_eq!(answered.heads[n], exchange.status.to_string());
        let silent = exchange.method == "HEAD" || matches!(exchange.status, 204 | 304);
        assert_eq!(answered.messages[n], exchange.answer.received(silent), "{exchange:?}");
    }
}

fn message() -> impl Strategy<Value = PlannedMessage> {
    let body = prop_oneof![
        Just(0usize).boxed(),
        (1usize..200).boxed(),
        (1usize..20_000).boxed(),
        (200_000usize..400_000).boxed()
    ];
    (body, any::<bool>(), any::<u8>(), proptest::option::of("[a-z]{1,20}")).prop_map(
        |(size, unknown, first, trailer)| {
            let body = (0..size).map(|n| first.wrapping_add(n.to_le_bytes()[0])).collect();
            PlannedMessage { body, unknown, trailer }
        },
    )
}

fn exchange() -> impl Strategy<Value = PlannedExchange> {
    let method = prop_oneof![Just("GET"), Just("POST"), Just("HEAD"), Just("PUT")];
    let status = prop_oneof![5 => Just(200u16), 1 => Just(204), 1 => Just(304), 1 => Just(404)];
    (method, status, message(), message())
        .prop_map(|(method, status, ask, answer)| PlannedExchange { method, status, ask, answer })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn sent_messages_are_received(
        exchanges in proptest::collection::vec(exchange(), 1..6),
        depth in 1u32..5,
        pieces in proptest::collection::vec(prop_oneof![1usize..40, 1000usize..300_000], 1..8),
        piece in 1000usize..100_000,
    ) {
        let mut pieces = pieces;
        pieces.push(50_000);
        run(&exchanges, depth, &pieces, piece);
    }
}

#[test]
fn small_messages_byte_by_byte() {
    let chunked = PlannedMessage {
        unknown: true,
        trailer: Some("t".to_owned()),
        ..PlannedMessage::of(b"chunks")
    };
    let kinds = [PlannedMessage::default(), PlannedMessage::of(b"exact"), chunked];
    let mut exchanges = Vec::new();
    for ask in &kinds {
        for answer in &kinds {
            for (method, status) in [("GET", 200), ("HEAD", 200), ("POST", 204), ("PUT", 304)] {
                let (ask, answer) = (ask.clone(), answer.clone());
                exchanges.push(PlannedExchange { method, status, ask, answer });
            }
        }
    }
    run(&exchanges, 1, &[1], 3);
    run(&exchanges, 64, &[1], 1);
    run(&exchanges, 64, &[usize::MAX], 100);
}

/// One input, one transmit: what a pipeline is for.
#[test]
fn sixteen_pipelined_requests_are_answered_in_one_transmit() {
    let mut headers = HeaderBuf::new();
    headers.push("Host", b"a").unwrap();
    let request = Request::new(b"GET", b"/", headers.as_headers());
    let request = EncodedRequest::new(&request, b"").unwrap();
    let mut pair = ConnectionPair::new(16, &[usize::MAX]);
    for _ in 0..16 {
        let stream = pair.client.open().unwrap();
        pair.client.send_encoded(stream, &request).unwrap();
    }
    assert_eq!((pair.client.vacancy(), pair.client.outstanding()), (0, 16));
    pair.serve(|server, event| {
        if let Event::End { stream, .. } = event {
            let head = Response::new(200, Headers::EMPTY);
            server.send_head(stream, head, BodyLen::Exact(2)).unwrap();
            server.send_data(stream, Segment::from(&b"ok"[..])).unwrap();
            server.send_end(stream, Headers::EMPTY).unwrap();
        }
    });
    let sent = pair.server.poll_transmit().unwrap().as_inline().unwrap();
    assert_eq!(sent.len(), 16 * b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".len());
    let mut ends = Vec::new();
    pair.ask(|client, event| match event {
        Event::Data { stream, bytes } => client.release(stream, bytes.len()),
        Event::End { stream, .. } => ends.push(stream.0),
        _ => {}
    });
    assert_eq!(ends, (0..16).collect::<Vec<_>>());
    assert_eq!((pair.client.vacancy(), pair.client.io_state().phase), (16, Phase::Idle));
}

#[test]
fn a_body_waits_for_its_100() {
    let mut pair = ConnectionPair::new(1, &[usize::MAX]);
    let mut headers = HeaderBuf::new();
    headers.push("Host", b"a").unwrap();
    let request =
        Request { expects_continue: true, ..Request::new(b"POST", b"/", headers.as_headers()) };
    let stream = pair.client.open().unwrap();
    pair.client.send_head(stream, request, BodyLen::Exact(4)).unwrap();
    let mut body = Vec::new();
    for _ in 0..2 {
        pair.serve(|server, event| match event {
            Event::Head { stream, head, .. } => {
                assert!(head.expects_continue);
                assert_eq!(server.io_state().phase, Phase::Application);
                let head = Response::new(100, Headers::EMPTY);
                server.send_head(stream, head, BodyLen::Empty).unwrap();
            }
            Event::Data { bytes, .. } => body.extend_from_slice(&bytes),
            Event::End { stream, .. } => {
                let head = Response::new(201, Headers::EMPTY);
                server.send_head(stream, head, BodyLen::Empty).unwrap();
                server.send_end(stream, Headers::EMPTY).unwrap();
            }
            other => panic!("{other:?}"),
        });
        pair.ask(|client, event| {
            if let Event::Informational { stream, head } = event {
                assert_eq!(head.status, 100);
                client.send_data(stream, Segment::from(&b"body"[..])).unwrap();
                client.send_end(stream, Headers::EMPTY).unwrap();
            }
        });
    }
    assert_eq!(body, b"body");
    assert_eq!(
        (pair.client.io_state().phase, pair.server.io_state().phase),
        (Phase::Idle, Phase::Idle)
    );
}

#[test]
fn after_an_upgrade_both_directions_end_apart() {
    let mut pair = ConnectionPair::new(1, &[usize::MAX]);
    let mut headers = HeaderBuf::new();
    headers.push("Host", b"a").unwrap();
    headers.push("Upgrade", b"echo").unwrap();
    let stream = pair.client.open().unwrap();
    let request = Request::new(b"GET", b"/", headers.as_headers());
    pair.client.send_head(stream, request, BodyLen::Empty).unwrap();
    pair.client.send_end(stream, Headers::EMPTY).unwrap();
    assert_eq!(pair.client.vacancy(), 0, "nothing may follow a request that asks");
    let mut upgrade = HeaderBuf::new();
    upgrade.push("Upgrade", b"echo").unwrap();
    let echo = |server: &mut H1Server, event: Event<'_, Server>| match event {
        Event::End { stream, .. } => {
            let head = Response::new(101, upgrade.as_headers());
            server.send_head(stream, head, BodyLen::Empty).unwrap();
        }
        Event::Data { stream, bytes } => server.send_data(stream, bytes.into()).unwrap(),
        _ => {}
    };
    pair.serve(echo);
    let mut upgraded = false;
    pair.ask(|_, event| upgraded |= matches!(event, Event::Upgraded { .. }));
    assert!(upgraded);
    pair.client.send_data(stream, Segment::from(&b"raw\r\n"[..])).unwrap();
    pair.client.send_end(stream, Headers::EMPTY).unwrap();
    assert!(pair.client.io_state().finished && !pair.client.io_state().closed);
    pair.serve(echo);
    let mut back = Vec::new();
    pair.ask(|_, event| {
        if let Event::Data { bytes, .. } = event {
            back.extend_from_slice(&bytes);
        }
    });
    assert_eq!(back, b"raw\r\n");
    assert_eq!(
        (pair.client.io_state().phase, pair.server.io_state().phase),
        (Phase::Tunnel, Phase::Tunnel)
    );

    let mut nothing = BytesMut::new();
    let mut eof = Input::all(&mut nothing, true);
    let event = pair.server.poll_event(&mut eof, &mut pair.scratch).unwrap();
    assert!(matches!(event, Some(Event::End { .. })));
    assert!(!pair.server.io_state().closed);
    pair.server.send_end(stream, Headers::EMPTY).unwrap();
    assert!(pair.server.io_state().closed);
    let event = pair.client.poll_event(&mut eof, &mut pair.scratch).unwrap();
    assert!(matches!(event, Some(Event::End { .. })));
    assert!(pair.client.io_state().closed);
}
