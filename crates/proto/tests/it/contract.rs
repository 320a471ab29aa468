//! What the trait promises besides events: misuse, back-pressure, phases, ends.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use fulmar_proto::h1::H1Client;
use fulmar_proto::h1::H1Server;
use fulmar_proto::h1::{EncodedRequest, LINGER_SIZE_MAX, QUEUE_MAX, ROOM_SHARE, UNREAD_MAX};
use fulmar_proto::{
    BodyLen, Connection, Event, FileRange, HeaderBuf, Headers, Input, PeerError, Phase, Request,
    Reset, Response, Scratch, Segment, SpliceTarget, StreamId, UsageError,
};

mod drain;

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const FIRST: StreamId = StreamId(0);
const HIGH: u64 = QUEUE_MAX as u64;
const LOW: u64 = (QUEUE_MAX / ROOM_SHARE) as u64;

/// What arrives, and whether it is all.
struct Arriving {
    block: BytesMut,
    eof: bool,
}

impl Arriving {
    fn lend(&mut self) -> Input<'_> {
        Input::all(&mut self.block, self.eof)
    }
}

fn input(bytes: impl AsRef<[u8]>) -> Arriving {
    Arriving { block: BytesMut::from(bytes.as_ref()), eof: false }
}

fn eof() -> Arriving {
    Arriving { block: BytesMut::new(), eof: true }
}

/// Polls until nothing comes; how many events there were.
fn poll<C: Connection>(connection: &mut C, arriving: &mut Arriving) -> usize {
    let mut scratch = Scratch::default();
    let mut input = arriving.lend();
    let mut events = 0;
    while connection.poll_event(&mut input, &mut scratch).expect("a sound peer").is_some() {
        events += 1;
    }
    events
}

fn server(request: impl AsRef<[u8]>) -> H1Server {
    let mut server = H1Server::default();
    poll(&mut server, &mut input(request));
    server
}

fn answer(server: &mut H1Server, stream: StreamId, body: &'static [u8]) {
    let head = Response::new(200, Headers::EMPTY);
    server.send_head(stream, head, BodyLen::Exact(body.len() as u64)).expect("sound");
    server.send_data(stream, Segment::from(body)).expect("sound");
    server.send_end(stream, Headers::EMPTY).expect("sound");
}

fn host() -> HeaderBuf {
    let mut headers = HeaderBuf::new();
    headers.push("Host", b"a").expect("sound");
    headers
}

fn client(depth: u32, requests: usize) -> H1Client {
    let mut client = H1Client::with_depth(depth);
    let headers = host();
    for _ in 0..requests {
        let stream = client.open().expect("sound");
        let request = Request::new(b"GET", b"/", headers.as_headers());
        client.send_head(stream, request, BodyLen::Empty).expect("sound");
        client.send_end(stream, Headers::EMPTY).expect("sound");
    }
    sent(&mut client);
    client
}

/// Everything that is queued, as sent.
fn sent<C: Connection>(connection: &mut C) -> String {
    let mut out = Vec::new();
    if let Some(transmit) = connection.poll_transmit() {
        out.extend_from_slice(transmit.inline);
        for segment in transmit.segments {
            let Segment::Bytes(bytes) = segment else { unreachable!("no file was queued") };
            out.extend_from_slice(bytes);
        }
    }
    connection.handle_sent(out.len() as u64);
    String::from_utf8_lossy(&out).into_owned()
}

#[test]
fn what_the_caller_gets_wrong_queues_nothing() {
    let ok = Response::new(200, Headers::EMPTY);
    let mut idle = H1Server::default();
    assert_eq!(idle.send_head(FIRST, ok, BodyLen::Empty), Err(UsageError::NoSuchStream));
    assert_eq!(idle.open(), None);

    let mut server = server(GET);
    let data = || Segment::from(&b"abc"[..]);
    assert_eq!(server.send_data(FIRST, data()), Err(UsageError::NoSuchStream));
    assert_eq!(server.send_end(FIRST, Headers::EMPTY), Err(UsageError::NoSuchStream));
    assert_eq!(server.send_head(StreamId(1), ok, BodyLen::Empty), Err(UsageError::NoSuchStream));
    for status in [0, 99, 1000] {
        let head = Response::new(status, Headers::EMPTY);
        assert_eq!(server.send_head(FIRST, head, BodyLen::Empty), Err(UsageError::BadHead));
    }
    let upgrade = Response::new(101, Headers::EMPTY);
    assert_eq!(server.send_head(FIRST, upgrade, BodyLen::Empty), Err(UsageError::BadHead));
    for added in [[("X", &b"a\r\nB: c"[..])], [("X\r\n", b"a")], [("", b"a")], [("X", b"a\0")]] {
        let head = Response { added: &added, ..ok };
        assert_eq!(server.send_head(FIRST, head, BodyLen::Empty), Err(UsageError::BadHead));
    }
    assert!(server.poll_transmit().is_none());

    server.send_head(FIRST, ok, BodyLen::Exact(4)).unwrap();
    assert_eq!(server.send_head(FIRST, ok, BodyLen::Exact(4)), Err(UsageError::HeadAlreadySent));
    server.send_data(FIRST, data()).unwrap();
    assert_eq!(server.send_data(FIRST, data()), Err(UsageError::BodyLongerThanDeclared));
    assert_eq!(server.send_end(FIRST, Headers::EMPTY), Err(UsageError::BodyShorterThanDeclared));
    server.send_data(FIRST, Segment::from(&b"d"[..])).unwrap();
    server.send_end(FIRST, Headers::EMPTY).unwrap();
    assert!(sent(&mut server).ends_with("Content-Length: 4\r\n\r\nabcd"));
}

#[test]
fn a_request_that_would_split_is_refused() {
    let mut client = H1Client::default();
    let stream = client.open().unwrap();
    for (method, target) in [
        (&b"GET\r\n"[..], &b"/"[..]),
        (b"", b"/"),
        (b"G T", b"/"),
        (b"GET", b""),
        (b"GET", b"/ HTTP/1.1\r\nX: y"),
        (b"GET", b"/a b"),
        (b"GET", b"/#f"),
        (b"GET", b"/\0"),
    ] {
        let request = Request::new(method, target, Headers::EMPTY);
        assert_eq!(client.send_head(stream, request, BodyLen::Empty), Err(UsageError::BadHead));
        assert_eq!(EncodedRequest::new(&request, b"").err(), Some(UsageError::BadHead));
    }
    assert!(client.poll_transmit().is_none());
    let mut trailers = HeaderBuf::new();
    trailers.push("Authorization", b"x").unwrap();
    let request = Request::new(b"PUT", b"/", Headers::EMPTY);
    client.send_head(stream, request, BodyLen::Unknown).unwrap();
    assert_eq!(client.send_end(stream, trailers.as_headers()), Err(UsageError::BadHead));
}

/// RFC 9110 §9.3.6: what follows the head belongs to the tunnel.
#[test]
fn a_connect_with_a_body_is_refused() {
    let mut client = H1Client::default();
    let stream = client.open().unwrap();
    let headers = host();
    let connect = Request::new(b"CONNECT", b"a:80", headers.as_headers());
    for len in [BodyLen::Exact(4), BodyLen::Unknown] {
        let refused = client.send_head(stream, connect, len);
        assert_eq!(refused, Err(UsageError::BodyLongerThanDeclared));
    }
    assert_eq!(
        EncodedRequest::new(&connect, b"abcd").err(),
        Some(UsageError::BodyLongerThanDeclared)
    );
    assert!(client.poll_transmit().is_none());
    assert_eq!(client.send_head(stream, connect, BodyLen::Exact(0)), Ok(()));
    assert_eq!(sent(&mut client), "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n");
}

/// The first bytes of a tunnel may come before it is answered, also from a client that keeps no
/// connection.
#[test]
fn early_bytes_of_a_tunnel_wait_for_it() {
    for fields in ["", "Content-Length: 4\r\n", "Connection: close\r\n"] {
        let mut server = H1Server::default();
        let mut arriving = input(format!("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n{fields}\r\nabcd"));
        assert_eq!(poll(&mut server, &mut arriving), 2, "head and end");
        assert_eq!(poll(&mut server, &mut arriving), 0);
        assert_eq!(&arriving.block[..], b"abcd", "{fields:?}");
        assert!(!server.io_state().wants_read);
        server.send_head(FIRST, Response::new(200, Headers::EMPTY), BodyLen::Empty).unwrap();
        assert_eq!(poll(&mut server, &mut arriving), 2, "{fields:?}: the tunnel and its data");
    }
}

#[test]
fn framing_is_ours_and_a_close_is_obeyed() {
    let mut headers = host();
    headers.push("Content-Length", b"7").unwrap();
    headers.push("Transfer-Encoding", b"gzip").unwrap();
    headers.push("Connection", b"close, X").unwrap();
    headers.push("TE", b"trailers").unwrap();
    let mut client = H1Client::default();
    let stream = client.open().unwrap();
    let request = Request::new(b"POST", b"/", headers.as_headers());
    client.send_head(stream, request, BodyLen::Empty).unwrap();
    assert_eq!(
        sent(&mut client),
        "POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nContent-Length: 0\r\n\
         Connection: close, TE\r\n\r\n"
    );
    client.send_end(stream, Headers::EMPTY).unwrap();
    poll(&mut client, &mut input("HTTP/1.1 204 No Content\r\n\r\n"));
    assert!(client.io_state().closed);
}

/// A server of HTTP/2 without TLS sends SETTINGS first, and GOAWAY to a request of HTTP/1; one of
/// TLS an alert.
#[test]
fn other_protocols_of_the_server_are_named_in_any_split() {
    let rows: [(&[u8], PeerError); 8] = [
        (&[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100], PeerError::OnlyHttp2),
        (&[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], PeerError::OnlyHttp2),
        (&[0, 0, 6, 4, 0, 0, 0, 0, 1], PeerError::BadStartLine), // SETTINGS have no stream
        (&[21, 3, 3, 0, 2, 2, 70], PeerError::OnlyTls),
        (&[22, 3, 1, 0, 1], PeerError::OnlyTls),
        (&[21, 3, 5, 0], PeerError::BadStartLine), // TLS ends with 3, 4
        (&[21, 2, 3, 0], PeerError::BadStartLine),
        (b"220 welcome\r\n\r\n", PeerError::BadStartLine),
    ];
    for (bytes, expected) in rows {
        for size in 1..=bytes.len() {
            assert_eq!(first_error(b"", bytes, size), expected, "{size} bytes at a time");
        }
    }
}

/// Such bytes inside a message are not what its server sends first.
#[test]
fn frames_of_http2_behind_a_head_are_not_named() {
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let bytes = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100];
    assert_eq!(first_error(head, &bytes, bytes.len()), PeerError::BadChunk);
}

/// The error of a client that receives `before`, and then some bytes at a time.
fn first_error(before: &[u8], bytes: &[u8], size: usize) -> PeerError {
    let mut client = client(1, 1);
    let (mut block, mut scratch) = (BytesMut::from(before), Scratch::default());
    for piece in std::iter::once(&[][..]).chain(bytes.chunks(size)) {
        block.extend_from_slice(piece);
        loop {
            match client.poll_event(&mut Input::all(&mut block, false), &mut scratch) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => return error,
            }
        }
    }
    panic!("{bytes:?} are not HTTP/1")
}

#[test]
fn a_client_has_said_everything_when_it_asks_for_no_more() {
    let heard_out = |request: &str| server(request).expects_no_more_requests();
    assert!(heard_out("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
    assert!(heard_out("GET / HTTP/1.0\r\n\r\n"));
    assert!(!heard_out("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    let mut ours = server(GET);
    ours.close_after();
    answer(&mut ours, FIRST, b"");
    assert!(
        ours.io_state().finished && !ours.expects_no_more_requests(),
        "another request may be on its way"
    );
}

#[test]
fn a_relay_leaves_out_what_concerns_one_hop() {
    let mut server = H1Server::default();
    let mut scratch = Scratch::default();
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: X-Hop, Host, Content-Length, cookie\r\n\
                   X-Hop: 1\r\nCookie: c=d\r\nUpgrade: h2c\r\nContent-Length: 3\r\nX-End: 2\r\n\r\n\
                   abc";
    let mut input = input(request);
    let Ok(Some(Event::Head { head, len, .. })) =
        server.poll_event(&mut input.lend(), &mut scratch)
    else {
        panic!("a head is complete")
    };
    assert_eq!(len, BodyLen::Exact(3), "Connection cannot take the framing away");
    let mut client = H1Client::default();
    let stream = client.open().unwrap();
    let added = [("Via", &b"1.1 b"[..])];
    client.send_head(stream, Request { added: &added, ..head }, len).unwrap();
    assert_eq!(
        sent(&mut client),
        "GET / HTTP/1.1\r\nHost: a\r\nCookie: c=d\r\nX-End: 2\r\nVia: 1.1 b\r\n\
         Content-Length: 3\r\n\r\n"
    );
}

#[test]
fn room_ends_and_comes_back_with_an_event() {
    let mut server = server(GET);
    server.send_head(FIRST, Response::new(200, Headers::EMPTY), BodyLen::Unknown).unwrap();
    while server.room(FIRST) > 0 {
        server.send_data(FIRST, Bytes::from(vec![b'x'; 50_000]).into()).unwrap();
    }
    let queued = server.poll_transmit().map_or(0, |transmit| {
        transmit.inline.len() as u64 + transmit.segments.iter().map(Segment::len).sum::<u64>()
    });
    assert!((HIGH..HIGH + 60_000).contains(&queued));
    server.handle_sent(queued - LOW - 1);
    assert_eq!((server.room(FIRST), poll(&mut server, &mut input(""))), (0, 0));
    server.handle_sent(1);
    let mut scratch = Scratch::default();
    let event = server.poll_event(&mut input("").lend(), &mut scratch).unwrap();
    assert!(matches!(event, Some(Event::Writable { stream: FIRST })));
    assert_eq!(server.room(FIRST), HIGH - LOW);
    assert_eq!(poll(&mut server, &mut input("")), 0);
}

#[test]
fn a_server_reads_no_further_requests_while_its_answers_pile_up() {
    static BODY: [u8; 100_000] = [b'x'; 100_000];
    let mut server = H1Server::default();
    server.set_response_buffer_max(u32::MAX);
    let mut pipeline = input(GET.repeat(10));
    let mut scratch = Scratch::default();
    let mut answered = 0;
    while let Some(event) = server.poll_event(&mut pipeline.lend(), &mut scratch).unwrap() {
        if let Event::End { stream, .. } = event {
            answer(&mut server, stream, &BODY);
            answered += 1;
        }
    }
    assert_eq!(answered, 3);
    assert_eq!(pipeline.block.len(), 7 * GET.len());
    assert!(!server.io_state().wants_read);
    assert_eq!(server.io_state().phase, Phase::Send);
    sent(&mut server);
    assert!(server.io_state().wants_read);
    assert!(server.poll_event(&mut pipeline.lend(), &mut scratch).unwrap().is_some());
}

/// Answers all that it parses of `pipeline` with `body`; how many requests that were.
fn answer_all(server: &mut H1Server, pipeline: &mut Arriving, body: &Segment) -> usize {
    let mut scratch = Scratch::default();
    let mut answered = 0;
    while let Some(event) = server.poll_event(&mut pipeline.lend(), &mut scratch).expect("sound") {
        if let Event::End { stream, .. } = event {
            let head = Response::new(200, Headers::EMPTY);
            server.send_head(stream, head, BodyLen::Exact(body.len())).expect("the stream is open");
            server.send_data(stream, body.clone()).expect("the stream is open");
            server.send_end(stream, Headers::EMPTY).expect("the stream is open");
            answered += 1;
        }
    }
    answered
}

/// To the byte: one more is parsed while a byte is missing, and then none before three quarters
/// have left.
#[test]
fn no_further_request_is_parsed_while_the_response_buffer_is_full() {
    let mut server = H1Server::default();
    let (mut pipeline, body) = (input(GET.repeat(1_000)), Segment::from(&b"hello"[..]));
    answer_all(&mut server, &mut input(GET), &body);
    let each = u32::try_from(sent(&mut server).len()).unwrap();
    for (max, whole) in [(10 * each, 10), (10 * each + 1, 11), (10 * each - 1, 10), (1, 1)] {
        server.set_response_buffer_max(max);
        assert_eq!(answer_all(&mut server, &mut pipeline, &body), whole, "{max}");
        assert_eq!((server.io_state().wants_read, server.io_state().phase), (false, Phase::Send));
        let left = u64::from(max / ROOM_SHARE);
        server.handle_sent(server.unsent(FIRST) - left - 1);
        assert!(!server.io_state().wants_read, "a byte more than a quarter of {max}");
        assert_eq!(answer_all(&mut server, &mut pipeline, &body), 0);
        server.handle_sent(1);
        assert!(server.io_state().wants_read);
        sent(&mut server);
    }
}

/// It is the default, and that of every server.
#[test]
fn thirty_two_kilobytes_of_responses_are_enough() {
    let mut server = H1Server::default();
    answer_all(&mut server, &mut input(GET.repeat(10_000)), &Segment::from(&b"hello"[..]));
    assert!(
        (32 * 1024..32 * 1024 + 100).contains(&server.unsent(FIRST)),
        "{}",
        server.unsent(FIRST)
    );
}

#[test]
fn one_response_may_be_longer_than_the_response_buffer() {
    let mut server = server(GET);
    server.send_head(FIRST, Response::new(200, Headers::EMPTY), BodyLen::Exact(1 << 20)).unwrap();
    assert!(server.room(FIRST) > 200 * 1024, "{}", server.room(FIRST));
    server.send_data(FIRST, Bytes::from(vec![b'x'; 1 << 20]).into()).unwrap();
    server.send_end(FIRST, Headers::EMPTY).unwrap();
    assert!(server.unsent(FIRST) > 1 << 20);
    // A client that does not pipeline is read from all the while: nothing it sent is kept back.
    assert!(server.io_state().wants_read);
    assert_eq!(poll(&mut server, &mut input(GET)), 0);
    assert!(!server.io_state().wants_read, "now there is something");
    sent(&mut server);
    assert!(server.io_state().wants_read);
}

/// They are not in memory. A few of them are enough all the same.
#[test]
fn bytes_of_files_do_not_fill_the_response_buffer() {
    let file = Arc::new(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
    let range = |len| Segment::from(FileRange { file: Arc::clone(&file), offset: 0, len });
    for (len, answered) in [(40_000, 7), (u64::from(QUEUE_MAX), 1)] {
        let mut server = H1Server::default();
        let mut pipeline = input(GET.repeat(100));
        assert_eq!(answer_all(&mut server, &mut pipeline, &range(len)), answered);
        server.handle_sent(server.unsent(FIRST));
        assert_eq!(answer_all(&mut server, &mut pipeline, &range(len)), answered);
    }
}

#[test]
fn bytes_in_the_layer_count_as_queued() {
    let mut server = H1Server::default();
    let (mut pipeline, body) = (input(GET.repeat(10_000)), Segment::from(&b"hello"[..]));
    answer_all(&mut server, &mut pipeline, &body);
    let queued = server.unsent(FIRST);
    server.handle_layer_queue(queued);
    server.handle_sent(queued);
    assert_eq!((server.unsent(FIRST), server.io_state().wants_read), (0, false));
    server.handle_layer_queue(8 * 1024 + 1);
    assert!(!server.io_state().wants_read);
    server.handle_layer_queue(8 * 1024);
    assert!(server.io_state().wants_read);
    answer_all(&mut server, &mut pipeline, &body);
    assert!(
        (24 * 1024..24 * 1024 + 100).contains(&server.unsent(FIRST)),
        "{}",
        server.unsent(FIRST)
    );
}

/// The end of a client that pipelined waits behind its requests.
#[test]
fn the_end_of_input_waits_until_the_response_buffer_has_room() {
    let mut server = server(GET);
    answer(&mut server, FIRST, &[b'x'; 40_000]);
    let mut end = eof();
    assert_eq!(poll(&mut server, &mut end), 0);
    assert!(!server.io_state().wants_read && !server.io_state().finished);
    sent(&mut server);
    assert!(server.io_state().wants_read);
    assert_eq!(poll(&mut server, &mut end), 0);
    assert!(server.io_state().closed);
}

/// A server limits the bytes behind the message in hand: they may wait long.
#[test]
fn few_bytes_may_wait_behind_the_message_in_hand() {
    const FEW: usize = UNREAD_MAX;
    assert_eq!(H1Server::default().unread_max(), FEW);
    assert_eq!(server(GET).unread_max(), FEW);
    let begun = |text: &str| {
        let mut server = H1Server::default();
        poll(&mut server, &mut input(text));
        server.unread_max()
    };
    assert_eq!(begun("GET / HT"), "GET / HT".len() + FEW);
    assert_eq!(begun("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1234"), 5 + FEW);
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert!((FEW..6 * FEW).contains(&begun(chunked)));
    assert_eq!(H1Client::default().unread_max(), usize::MAX);
}

/// A held connection with a queued response had no timeout: its phase is `Send`.
#[test]
fn a_held_client_has_a_timeout_for_its_response() {
    let mut server = server("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n");
    answer(&mut server, FIRST, b"early");
    assert_eq!((server.io_state().phase, server.io_state().wants_read), (Phase::Body, true));
    server.set_held(FIRST, true);
    assert_eq!((server.io_state().phase, server.io_state().wants_read), (Phase::Send, false));
    sent(&mut server);
    assert_eq!(
        (server.io_state().phase, server.io_state().wants_read),
        (Phase::Application, false)
    );
}

/// Whatever the limit, it holds in both directions.
#[test]
fn the_owner_says_how_much_may_be_queued() {
    for max in [1_u32, 1_000, 1_000_000] {
        let mut server = server("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n");
        server.set_queue_max(max);
        server.send_head(FIRST, Response::new(200, Headers::EMPTY), BodyLen::Unknown).unwrap();
        while server.room(FIRST) > 0 {
            server.send_data(FIRST, b"x"[..].into()).unwrap();
        }
        let queued = sent(&mut server).len();
        assert!((max as usize..max as usize + 200).contains(&queued), "{queued} of {max}");
        assert_eq!(poll(&mut server, &mut input("")), 1, "room again");
        let mut arrived = 0;
        while server.io_state().wants_read {
            arrived += 1;
            assert_eq!(poll(&mut server, &mut input("x")), 1);
        }
        assert_eq!(arrived, max);
    }
}

#[test]
fn unreleased_bytes_stop_the_reading() {
    const MAX: usize = QUEUE_MAX as usize;
    let size = MAX + 10;
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n");
    let mut server = server(head);
    assert_eq!((server.io_state().wants_read, server.io_state().phase), (true, Phase::Body));
    assert_eq!(poll(&mut server, &mut input(vec![b'x'; MAX])), 1);
    assert_eq!(
        (server.io_state().wants_read, server.io_state().phase),
        (false, Phase::Application)
    );
    server.release(FIRST, 1);
    assert!(server.io_state().wants_read);
    assert_eq!(poll(&mut server, &mut input(vec![b'x'; 10])), 2);
    assert!(!server.io_state().wants_read, "the next request waits for the answer");
    answer(&mut server, FIRST, b"ok");
    assert!(server.io_state().wants_read);
    server.release(FIRST, 5);
}

#[test]
fn close_after_is_said_in_the_next_head() {
    let mut idle = H1Server::default();
    idle.close_after();
    assert!(idle.io_state().closed);
    let mut busy = server(GET);
    busy.close_after();
    assert!(!busy.io_state().finished);
    answer(&mut busy, FIRST, b"ok");
    assert!(busy.io_state().finished && !busy.io_state().closed);
    assert!(sent(&mut busy).contains("Connection: close\r\n"));
    assert!(busy.io_state().closed);

    let mut client = client(2, 1);
    client.close_after();
    assert_eq!((client.vacancy(), client.io_state().closed), (0, false));
    poll(&mut client, &mut input("HTTP/1.1 204 No Content\r\n\r\n"));
    assert!(client.io_state().closed);
}

#[test]
fn a_request_sent_after_close_after_says_so() {
    let headers = host();
    let request = Request::new(b"POST", b"/", headers.as_headers());
    let encoded = EncodedRequest::new(&request, b"body").unwrap();
    let mut client = H1Client::default();
    let stream = client.open().unwrap();
    client.close_after();
    client.send_encoded(stream, &encoded).unwrap();
    assert_eq!(
        sent(&mut client),
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody"
    );
    assert_eq!(client.send_encoded(stream, &encoded), Err(UsageError::NoSuchStream));
}

/// A short connection costs no FIN of its own and no lingering, whenever it is answered.
#[test]
fn an_answer_at_the_head_of_the_last_request_closes() {
    let mut server = H1Server::default();
    let mut scratch = Scratch::default();
    let mut last = input("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(server.poll_event(&mut last.lend(), &mut scratch).unwrap().is_some());
    answer(&mut server, FIRST, b"ok");
    assert_eq!(poll(&mut server, &mut last), 0);
    sent(&mut server);
    assert!(server.io_state().closed);
}

#[test]
fn a_reset_closes_at_once() {
    let mut client = client(1, 1);
    client.reset(FIRST, Reset::Cancelled);
    assert!(client.io_state().closed && client.outstanding() == 1);
    let mut server = server(GET);
    server.send_head(FIRST, Response::new(200, Headers::EMPTY), BodyLen::Unknown).unwrap();
    server.reset(FIRST, Reset::Cancelled);
    assert!(server.io_state().closed && server.poll_transmit().is_none());
    assert!(!server.io_state().finished, "what was said is not everything");
}

#[test]
fn phases_follow_the_exchange() {
    let mut server = H1Server::default();
    assert_eq!(server.io_state().phase, Phase::Idle);
    let (head, rest) = GET.split_at(10);
    poll(&mut server, &mut input(head));
    assert_eq!(server.io_state().phase, Phase::Head);
    poll(&mut server, &mut input([head, rest].concat()));
    assert_eq!(server.io_state().phase, Phase::Application);
    answer(&mut server, FIRST, b"ok");
    assert_eq!(server.io_state().phase, Phase::Send);
    sent(&mut server);
    assert_eq!(server.io_state().phase, Phase::Idle);

    let mut asker = H1Client::default();
    let stream = asker.open().unwrap();
    assert_eq!(asker.io_state().phase, Phase::Application);
    let headers = host();
    let request = Request::new(b"GET", b"/", headers.as_headers());
    asker.send_head(stream, request, BodyLen::Empty).unwrap();
    asker.send_end(stream, Headers::EMPTY).unwrap();
    assert_eq!(asker.io_state().phase, Phase::Send);
    sent(&mut asker);
    assert_eq!(asker.io_state().phase, Phase::Response);
    poll(&mut asker, &mut input("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no"));
    assert_eq!(asker.io_state().phase, Phase::Body);
    poll(&mut asker, &mut input("k"));
    assert_eq!(asker.io_state().phase, Phase::Idle);
}

/// Neither side may wait without end for a 100 that does not come.
#[test]
fn a_peer_that_has_to_send_a_100_has_to_send_a_response() {
    let mut asker = H1Client::default();
    let stream = asker.open().unwrap();
    let headers = host();
    let request = Request::new(b"PUT", b"/", headers.as_headers());
    let request = Request { expects_continue: true, ..request };
    asker.send_head(stream, request, BodyLen::Exact(2)).unwrap();
    sent(&mut asker);
    assert_eq!(asker.io_state().phase, Phase::Response);
    poll(&mut asker, &mut input("HTTP/1.1 100 Continue\r\n\r\n"));
    assert_eq!(asker.io_state().phase, Phase::Application, "it is our turn");
    asker.send_data(stream, Segment::from(&b"ok"[..])).unwrap();
    asker.send_end(stream, Headers::EMPTY).unwrap();
    sent(&mut asker);
    assert_eq!(asker.io_state().phase, Phase::Response);
}

#[test]
fn after_an_error_the_reply_leaves_and_the_rest_is_swallowed() {
    let mut server = H1Server::default();
    let mut scratch = Scratch::default();
    let mut bad = input("GET / HTTP/1.1\r\n\r\nmore");
    assert!(server.poll_event(&mut bad.lend(), &mut scratch).is_err());
    assert!(
        bad.block.starts_with(b"GET / ") && server.io_state().finished,
        "who asks may look at it"
    );
    assert_eq!(poll(&mut server, &mut bad), 0);
    assert!(bad.block.is_empty());
    assert_eq!(server.io_state().phase, Phase::Send);
    let reply = sent(&mut server);
    assert!(reply.starts_with("HTTP/1.1 400 Bad Request\r\n"));
    assert!(reply.ends_with("\r\n\r\nThe Host field is missing or malformed.\n"));
    assert_eq!((server.io_state().phase, server.io_state().wants_read), (Phase::Linger, true));
    let half = vec![b'x'; LINGER_SIZE_MAX as usize / 2 + 1];
    assert_eq!(poll(&mut server, &mut input(&half)), 0);
    assert!(!server.io_state().closed);
    let mut patient = server;
    assert_eq!(poll(&mut patient, &mut input(&half)), 0);
    assert!(patient.io_state().closed, "patience has a limit");

    let mut server = H1Server::default();
    assert!(server.poll_event(&mut input("\x16").lend(), &mut scratch).is_err());
    sent(&mut server);
    poll(&mut server, &mut eof());
    assert!(server.io_state().closed);
}

#[test]
fn a_slow_answer_to_a_half_closed_peer_is_sent() {
    for rest in ["", "more"] {
        let mut server = H1Server::default();
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n{rest}");
        let mut input = Arriving { eof: true, ..input(request) };
        poll(&mut server, &mut input);
        assert_eq!(
            (server.io_state().phase, server.io_state().finished),
            (Phase::Application, false)
        );
        answer(&mut server, FIRST, b"ok");
        assert!(server.io_state().finished && !server.io_state().closed);
        assert!(sent(&mut server).ends_with("ok"));
        assert!(server.io_state().closed);
    }
}

#[test]
fn an_error_after_half_an_answer_adds_nothing_to_it() {
    let mut server = server("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    server.send_head(FIRST, Response::new(200, Headers::EMPTY), BodyLen::Unknown).unwrap();
    let mut scratch = Scratch::default();
    assert!(server.poll_event(&mut input("x").lend(), &mut scratch).is_err());
    assert_eq!(sent(&mut server), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert!(server.io_state().finished && !server.io_state().closed);
    assert_eq!(server.send_end(FIRST, Headers::EMPTY), Err(UsageError::NoSuchStream));
}

#[test]
fn a_large_body_with_a_length_is_shared_not_copied() {
    let mut client = client(1, 1);
    let mut scratch = Scratch::default();
    let mut body =
        input(format!("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{}", "x".repeat(5000)));
    assert!(client.poll_event(&mut body.lend(), &mut scratch).unwrap().is_some());
    let at = body.block.as_ptr();
    let Some(Event::Data { bytes, .. }) =
        client.poll_event(&mut body.lend(), &mut scratch).unwrap()
    else {
        panic!("the body has arrived")
    };
    assert_eq!((bytes.as_ptr(), bytes.len()), (at, 5000));
}

/// A response with a body that bypasses the connection, all but `first` bytes.
#[test]
fn an_exact_body_may_pass_by() {
    for first in [0, 1, 4, 5] {
        let mut client = H1Client::with_depth(2);
        for _ in 0..2 {
            let stream = client.open().expect("a vacancy");
            let host = host();
            let get = Request::new(b"GET", b"/", host.as_headers());
            client.send_head(stream, get, BodyLen::Empty).expect("sound");
            client.send_end(stream, Headers::EMPTY).expect("sound");
        }
        let sent = client.poll_transmit().expect("two requests").inline.len() as u64;
        client.handle_sent(sent);
        assert_eq!(client.splice_len(SpliceTarget::File), 0, "no body is in hand");
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        let begun = poll(&mut client, &mut input(head.to_owned() + &"12345"[..first]));
        let events = 1 + usize::from(first > 0) + usize::from(first == 5);
        assert_eq!(begun, events, "its head, perhaps data, perhaps its end");
        assert_eq!(
            client.splice_len(SpliceTarget::File),
            if first == 5 { 0 } else { 5 - first as u64 }
        );
        if first < 5 {
            client.handle_spliced(5 - first as u64 - 1, SpliceTarget::File);
            assert_eq!(
                (client.splice_len(SpliceTarget::File), poll(&mut client, &mut input(""))),
                (1, 0)
            );
            client.handle_spliced(1, SpliceTarget::File);
            assert_eq!(poll(&mut client, &mut input("")), 1, "its end");
        }
        assert_eq!((client.splice_len(SpliceTarget::File), client.outstanding()), (0, 1));
        assert_eq!(poll(&mut client, &mut input(head.to_owned() + "67890")), 3, "the next one");
    }
}

#[test]
fn only_an_exact_body_that_matters_may_pass_by() {
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab";
    assert_eq!(server(chunked).splice_len(SpliceTarget::File), 0, "framing lies between its bytes");
    let exact = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab";
    let mut server = server(exact);
    assert_eq!(server.splice_len(SpliceTarget::File), 3);
    answer(&mut server, FIRST, b"");
    assert_eq!(server.splice_len(SpliceTarget::File), 0, "nobody wants the rest: it is swallowed");
    server.handle_spliced(0, SpliceTarget::File);
}

#[test]
#[should_panic(expected = "only bytes of the current body")]
fn more_than_the_body_cannot_pass_by() {
    server("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
        .handle_spliced(6, SpliceTarget::File);
}
