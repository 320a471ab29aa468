//! Tunnels: messages to the proxy and their order; bytes after the handshake are not consumed.

use bytes::BytesMut;
use fulmar_proto::h1::{HEAD_SIZE_MAX, INTERIM_LEN_MAX};
use fulmar_proto::{
    BodyLen, Connection, Event, HeaderBuf, Headers, Input, Layer, LayerError, Opened, PeerError,
    Response, Scratch, Segment, ServerConnection, UsageError,
};
use fulmar_semantics::proxy::Login;
use fulmar_semantics::tunnel::{HttpConnect, HttpConnectError, Socks5, Socks5Error, Socks5Misuse};
use proptest::prelude::*;
use url::Host;

const TARGET: Host<&str> = Host::Domain("example.com");

/// All queued bytes, marked as sent.
fn sent(layer: &mut dyn Layer) -> Vec<u8> {
    let Some(transmit) = layer.poll_transmit() else { return Vec::new() };
    let mut out = transmit.inline.to_vec();
    for segment in transmit.segments {
        let Segment::Bytes(bytes) = segment else { panic!("a tunnel sends no files") };
        out.extend_from_slice(bytes);
    }
    layer.handle_sent(out.len() as u64);
    out
}

/// The result of a dialogue with a proxy.
#[derive(Debug)]
struct TunnelOutcome {
    /// Each of the layer's messages.
    sent_messages: Vec<Vec<u8>>,
    /// The rest of the input after the tunnel was opened.
    result: Result<Stands, LayerError>,
}

#[derive(Debug)]
enum Stands {
    No,
    Yes { left: Vec<u8>, next: Option<Box<dyn Layer>> },
}

/// The proxy sends these messages, each after a message of the layer, in pieces of at most `cut`
/// bytes. After the last one it closes the connection if `eof`.
fn talk(mut layer: Box<dyn Layer>, messages: &[&[u8]], cut: usize, eof: bool) -> TunnelOutcome {
    let mut sent_messages = vec![sent(&mut *layer)];
    let (mut block, mut above) = (BytesMut::new(), BytesMut::new());
    let pieces = messages.iter().flat_map(|message| message.chunks(cut)).map(|p| (p, false));
    let end = eof.then_some((&b""[..], true));
    let mut stands = Stands::No;
    for (piece, eof) in pieces.chain(end) {
        block.extend_from_slice(piece);
        while matches!(stands, Stands::No) {
            let opened = layer.open(&mut Input::all(&mut block, eof), &mut above);
            sent_messages.extend(Some(sent(&mut *layer)).filter(|bytes| !bytes.is_empty()));
            match opened {
                Err(error) => return TunnelOutcome { sent_messages, result: Err(error) },
                Ok(Opened::Blocked) => break,
                Ok(Opened::Some) => {}
                Ok(Opened::Replaced(next)) => stands = Stands::Yes { left: vec![], next },
                Ok(other) => panic!("unexpected {other:?}"),
            }
        }
    }
    assert!(above.is_empty(), "a tunnel delivers nothing to the connection");
    if let Stands::Yes { left, .. } = &mut stands {
        left.extend_from_slice(&block);
    }
    TunnelOutcome { sent_messages, result: Ok(stands) }
}

/// Asserts that the tunnel opens with every split.
fn stands(layer: impl Fn() -> Box<dyn Layer>, messages: &[&[u8]], sent_messages: &[&[u8]]) {
    for cut in 1..=messages.iter().map(|message| message.len()).max().unwrap_or(1) {
        for behind in [&b""[..], b"\x05\x00HTTP/1.1 200 OK\r\n\r\n"] {
            let mut all = messages.to_vec();
            let last = [all.pop().expect("a message"), behind].concat();
            all.push(&last);
            let outcome = talk(layer(), &all, cut, false);
            assert_eq!(outcome.sent_messages, sent_messages, "cut {cut}");
            match outcome.result {
                Ok(Stands::Yes { left, next: None }) => assert_eq!(left, behind, "cut {cut}"),
                other => panic!("{messages:?} cut {cut}: {other:?}"),
            }
        }
    }
}

/// The error, which must be the same with every split.
fn fails<E: std::error::Error + Clone + PartialEq + 'static>(
    layer: impl Fn() -> Box<dyn Layer>,
    messages: &[&[u8]],
    eof: bool,
) -> E {
    let of = |cut: usize| {
        let error = talk(layer(), messages, cut, eof).result.expect_err("not a tunnel");
        error.downcast_ref::<E>().unwrap_or_else(|| panic!("{error:?} is of another kind")).clone()
    };
    let size = messages.iter().map(|message| message.len()).max().unwrap_or(0).max(1);
    let whole = of(size);
    (1..size.min(200)).for_each(|cut| assert_eq!(of(cut), whole, "cut {cut}"));
    whole
}

fn login() -> Login {
    Login { user: b"me".to_vec(), password: b"secret".to_vec() }
}

fn socks() -> Box<dyn Layer> {
    Box::new(Socks5::new(&TARGET, 443, None, None).expect("sound"))
}

fn socks_with_login() -> Box<dyn Layer> {
    Box::new(Socks5::new(&TARGET, 443, Some(&login()), None).expect("sound"))
}

const CHOICE: &[u8] = b"\x05\x00";
const REPLY: &[u8] = b"\x05\x00\x00\x01\x0a\x00\x00\x01\x1f\x90";
const REQUEST: &[u8] = b"\x05\x01\x00\x03\x0bexample.com\x01\xbb";

#[test]
fn socks5_opens_a_tunnel_and_is_replaced() {
    stands(socks, &[CHOICE, REPLY], &[b"\x05\x01\x00", REQUEST]);
    // A proxy that may require a login, but does not.
    stands(socks_with_login, &[CHOICE, REPLY], &[b"\x05\x02\x00\x02", REQUEST]);
    stands(
        socks_with_login,
        &[b"\x05\x02", b"\x01\x00", REPLY],
        &[b"\x05\x02\x00\x02", b"\x01\x02me\x06secret", REQUEST],
    );
    let v6_reply = b"\x05\x00\x00\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x01";
    let name_reply = [b"\x05\x00\x00\x03\xff", &[b'x'; 255][..], b"\x00\x01"].concat();
    for reply in [&v6_reply[..], &name_reply, b"\x05\x00\x00\x03\x00\x00\x00"] {
        stands(socks, &[CHOICE, reply], &[b"\x05\x01\x00", REQUEST]);
    }
}

#[test]
fn socks5_encodes_every_kind_of_host() {
    for (host, want) in [
        (Host::Ipv4([10, 0, 0, 1].into()), &b"\x05\x01\x00\x01\x0a\x00\x00\x01\x00\x50"[..]),
        (
            Host::Ipv6("2001:db8::1".parse().expect("an address")),
            b"\x05\x01\x00\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x50",
        ),
        (Host::Domain("a"), b"\x05\x01\x00\x03\x01a\x00\x50"),
    ] {
        let layer =
            || -> Box<dyn Layer> { Box::new(Socks5::new(&host, 80, None, None).expect("sound")) };
        stands(layer, &[CHOICE, REPLY], &[b"\x05\x01\x00", want]);
    }
}

#[test]
fn socks5_rejects_values_that_do_not_fit() {
    let long = "x".repeat(256);
    let new = |host, login: Option<&Login>| Socks5::new(&Host::Domain(host), 1, login, None);
    assert!(new(&long[1..], None).is_ok());
    assert_eq!(new(&long, None).err(), Some(Socks5Misuse::BadName));
    assert_eq!(new("", None).err(), Some(Socks5Misuse::BadName));
    for login in [
        Login { user: vec![b'x'; 256], password: vec![] },
        Login { user: vec![], password: vec![b'x'; 256] },
    ] {
        assert_eq!(new("a", Some(&login)).err(), Some(Socks5Misuse::LoginTooLong));
    }
    let shown = format!("{:?}", new("a", Some(&login())));
    assert!(!shown.contains("secret") && !shown.contains("115"), "{shown}");
}

#[test]
fn socks5_distinguishes_all_refusals() {
    use Socks5Error as E;
    let refusals = [
        E::GeneralFailure,
        E::NotAllowed,
        E::NetworkUnreachable,
        E::HostUnreachable,
        E::ConnectionRefused,
        E::TtlExpired,
        E::CommandNotSupported,
        E::AddressTypeNotSupported,
        E::UnknownReply(9),
    ];
    for (code, want) in (1..).zip(refusals) {
        let mut reply = REPLY.to_vec();
        reply[1] = code;
        assert_eq!(fails::<E>(socks, &[CHOICE, &reply], false), want);
        assert_eq!(
            fails::<E>(socks, &[CHOICE, &reply[..2]], true),
            want,
            "truncated after the code"
        );
    }
    for (messages, want) in [
        (&[&b"\x04\x00"[..]][..], E::BadVersion(4)),
        (&[b"HTTP/1.1 400 Bad Request\r\n\r\n"], E::BadVersion(b'H')),
        (&[b"\x05\xff"], E::NoMethod),
        (&[b"\x05\x02"], E::MethodNotOffered(2)),
        (&[b"\x05\x01"], E::MethodNotOffered(1)),
        (&[CHOICE, b"\x04\x00\x00\x01"], E::BadVersion(4)),
        (&[CHOICE, b"\x05\x00\x01\x01"], E::BadReserved),
        (&[CHOICE, b"\x05\x00\x00\x02"], E::BadAddressType(2)),
        (&[CHOICE, b"\x05\x00\x00\x00"], E::BadAddressType(0)),
    ] {
        assert_eq!(fails::<E>(socks, messages, false), want, "{messages:?}");
    }
    for (messages, want) in [
        (&[&b"\x05\x02"[..], b"\x05\x00"][..], E::BadVersion(5)),
        (&[b"\x05\x02", b"\x01\x01"], E::LoginRefused(1)),
        (&[b"\x05\x02", b"\x01\xff"], E::LoginRefused(255)),
        (&[b"\x05\x03"], E::MethodNotOffered(3)),
    ] {
        assert_eq!(fails::<E>(socks_with_login, messages, false), want, "{messages:?}");
    }
    for len in 0..CHOICE.len() {
        assert_eq!(fails::<E>(socks, &[&CHOICE[..len]], true), E::UnexpectedEof);
    }
    for len in 0..REPLY.len() {
        assert_eq!(fails::<E>(socks, &[CHOICE, &REPLY[..len]], true), E::UnexpectedEof);
    }
    // Two replies instead of one.
    let both = [CHOICE, REPLY].concat();
    let mut layer = socks();
    let mut block = BytesMut::from(&both[..]);
    let mut open = |layer: &mut Box<dyn Layer>| {
        layer.open(&mut Input::all(&mut block, false), &mut BytesMut::new())
    };
    let error = open(&mut layer).expect_err("before the greeting was sent");
    assert_eq!(error.downcast_ref(), Some(&E::Unsolicited));
    sent(&mut *layer);
    assert!(matches!(open(&mut layer), Ok(Opened::Some)));
    let error = open(&mut layer).expect_err("before the request was sent");
    assert_eq!(error.downcast_ref(), Some(&E::Unsolicited));
}

fn headers(lines: &[(&str, &str)]) -> HeaderBuf {
    let mut headers = HeaderBuf::new();
    for (name, value) in lines {
        headers.push(name, value.as_bytes()).expect("a field");
    }
    headers
}

fn connect() -> Box<dyn Layer> {
    Box::new(HttpConnect::new(&TARGET, 443, Headers::EMPTY, None).expect("sound"))
}

#[test]
fn connect_opens_a_tunnel_and_is_replaced() {
    const ASKED: &[u8] = b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n";
    for answer in [
        "HTTP/1.1 200 Connection established\r\n\r\n",
        "HTTP/1.0 200 OK\r\nProxy-Agent: x\r\n\r\n",
        "HTTP/1.1 299 Odd\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    ] {
        stands(connect, &[answer.as_bytes()], &[ASKED]);
    }
    let extra = headers(&[("Proxy-Authorization", "Basic eA=="), ("User-Agent", "fulmar")]);
    let host = Host::Ipv6(std::net::Ipv6Addr::LOCALHOST);
    let layer = || -> Box<dyn Layer> {
        Box::new(HttpConnect::new(&host, 80, extra.as_headers(), None).expect("sound"))
    };
    let sent_messages = String::from_utf8(sent(&mut *layer())).expect("text");
    assert!(sent_messages.starts_with("CONNECT [::1]:80 HTTP/1.1\r\n"), "{sent_messages}");
    for line in ["Host: [::1]:80", "Proxy-Authorization: Basic eA==", "User-Agent: fulmar"] {
        assert_eq!(sent_messages.matches(&format!("\r\n{line}\r\n")).count(), 1, "{sent_messages}");
    }
    stands(layer, &[b"HTTP/1.1 200 OK\r\n\r\n"], &[sent_messages.as_bytes()]);
}

#[test]
fn connect_rejects_invalid_heads() {
    let new = |host, headers: &HeaderBuf| {
        HttpConnect::new(&Host::Domain(host), 1, headers.as_headers(), None).err()
    };
    assert_eq!(new("a", &headers(&[])), None);
    assert_eq!(new("a\r\nX: y", &headers(&[])), Some(UsageError::BadHead));
    assert_eq!(new("a b", &headers(&[])), Some(UsageError::BadHead));
    assert_eq!(new("a", &headers(&[("Host", "b")])), Some(UsageError::BadHead));
}

#[test]
fn connect_reports_refusals() {
    use HttpConnectError as E;
    let of = |answer: &str, eof| fails::<E>(connect, &[answer.as_bytes()], eof);
    let refused = |status, challenges: &[&str]| {
        let challenges = challenges.iter().map(|value| value.as_bytes().into()).collect();
        E::Refused { status, challenges }
    };
    let login = "HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=\"x\"\r\n\
                 proxy-authenticate: Digest nonce=\"y\", qop=auth\r\nContent-Length: 3\r\n\r\nno!";
    let asked = ["Basic realm=\"x\"", "Digest nonce=\"y\", qop=auth"];
    assert_eq!(of(login, false), refused(407, &asked));
    for status in [302, 403, 404, 500, 502, 999] {
        let answer = format!("HTTP/1.1 {status} No\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(of(&answer, false), refused(status, &[]));
    }
    for (answer, want) in [
        ("SSH-2.0-OpenSSH_9.2\r\n", PeerError::BadStartLine),
        ("HTTP/1.1 200 OK\nX: y\n\n", PeerError::BadStartLine),
        ("HTTP/1.1 200 OK\r\nX y\r\n\r\n", PeerError::BadField),
        ("HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", PeerError::UnexpectedUpgrade),
    ] {
        assert_eq!(of(answer, false), E::Peer(want), "{answer:?}");
    }
    for answer in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 100 Continue\r\n\r\n"] {
        assert_eq!(of(answer, true), E::Peer(PeerError::UnexpectedEof), "{answer:?}");
    }
    let long = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(HEAD_SIZE_MAX));
    assert_eq!(of(&long, false), E::Peer(PeerError::HeadTooLarge));
    let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(INTERIM_LEN_MAX as usize + 1);
    assert_eq!(of(&interim, false), E::Peer(PeerError::TooManyInterim));
}

#[test]
fn a_response_before_the_request_is_an_error() {
    let mut layer = connect();
    let mut block = BytesMut::from(&b"HTTP/1.1 200 OK\r\n\r\n"[..]);
    let error = loop {
        match layer.open(&mut Input::all(&mut block, false), &mut BytesMut::new()) {
            Ok(Opened::Some) => {}
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
    };
    let want = HttpConnectError::Peer(PeerError::Unsolicited);
    assert_eq!(error.downcast_ref(), Some(&want));
}

#[test]
fn a_tunnel_leads_to_the_next_one() {
    let layer = Box::new(Socks5::new(&TARGET, 443, None, Some(connect())).expect("sound"));
    let outcome = talk(layer, &[CHOICE, REPLY], 1, false);
    let Ok(Stands::Yes { next: Some(mut next), .. }) = outcome.result else {
        panic!("{outcome:?}")
    };
    assert!(sent(&mut *next).starts_with(b"CONNECT "));
    let outcome = talk(next, &[b"HTTP/1.1 200 OK\r\n\r\n"], 100, false);
    assert!(matches!(outcome.result, Ok(Stands::Yes { next: None, .. })));
}

#[test]
fn nothing_is_sealed_before_the_tunnel_is_open() {
    for mut layer in [socks(), connect()] {
        let transmit = fulmar_proto::Transmit::new(b"GET", &[]);
        let sealed = layer.seal(transmit).expect("it waits");
        assert!(matches!(sealed, fulmar_proto::Sealed::Bytes(0)));
        layer.finish();
        assert!(layer.poll_transmit().is_some(), "queued bytes stay");
    }
}

#[test]
fn the_server_opens_a_tunnel() {
    let mut layer = connect();
    let mut server = ServerConnection::default();
    let mut scratch = Scratch::default();
    let mut up = BytesMut::from(&sent(&mut *layer)[..]);
    let mut input = Input::all(&mut up, false);
    let event = server.poll_event(&mut input, &mut scratch).expect("sound").expect("a request");
    let Event::Head { stream, head, len } = event else { panic!("{event:?}") };
    assert_eq!((head.method, head.target), (&b"CONNECT"[..], &b"example.com:443"[..]));
    assert_eq!((len, head.headers.get("host")), (BodyLen::Empty, Some(&b"example.com:443"[..])));
    let end = server.poll_event(&mut input, &mut scratch).expect("sound");
    assert!(matches!(end, Some(Event::End { .. })), "{end:?}");
    server.send_head(stream, Response::new(200, Headers::EMPTY), BodyLen::Empty).expect("sound");
    let upgraded = server.poll_event(&mut input, &mut scratch).expect("sound");
    assert!(matches!(upgraded, Some(Event::Upgraded { .. })), "{upgraded:?}");
    let answer = server.poll_transmit().expect("an answer").inline.to_vec();
    // `talk` sends nothing: the request was already sent.
    let outcome = talk(layer, &[&[&answer[..], b"tunnel"].concat()], 1, false);
    let Ok(Stands::Yes { left, .. }) = outcome.result else { panic!("{outcome:?}") };
    assert_eq!(left, b"tunnel");
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        prefix in prop_oneof![
            Just(&b""[..]),
            Just(&b"\x05\x00"[..]),
            Just(&b"\x05\x00\x05\x00\x00"[..]),
            Just(&b"\x05\x02\x01\x00\x05\x00\x00\x03"[..]),
            Just(&b"HTTP/1.1 200 OK\r\n"[..]),
        ],
        cut in 1..40_usize,
        eof: bool,
    ) {
        let bytes = [prefix, &bytes].concat();
        for layer in [socks, socks_with_login, connect] {
            let show = |cut: usize| {
                let outcome = talk(layer(), &[&bytes], cut, eof);
                format!("{:?}", (outcome.result, outcome.sent_messages))
            };
            prop_assert_eq!(show(cut), show(bytes.len().max(1)));
        }
    }
}
