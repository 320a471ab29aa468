//! PROXY headers in front of HTTP and TLS on real sockets, in every kind of loop.

use std::time::Duration;

use fulmar_proto::{Layer, Request};
use fulmar_semantics::proxy_protocol::{
    Addresses, Extras, ProxyProtocol, ProxyProtocolHeader, TrustedSources, encode_v1, encode_v2,
};
use fulmar_server::{HandlerApp, Layers, Limits, Responder, ServerEngine, Stop};
use fulmar_sys as sys;
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::curl::Curl;
use fulmar_tests::http::HttpClient;
use fulmar_tests::https::server_tls;
use fulmar_tests::loops::{LISTENER, Loop, OwnLoop, turn_while};
use fulmar_tests::process::run;
use fulmar_tests::recording_app::{ConnectionEnd, RecordingApp, RecordingEngine, server};
use fulmar_tests::tests_in_every_loop;
use fulmar_tls::ServerTls;

/// Headers are required, and accepted from `trusted`; TLS follows if `tls` is set.
fn layers(trusted: &str, tls: Option<ServerTls>) -> Layers {
    let trusted: TrustedSources = trusted.parse().unwrap();
    Layers::new(move |peer| {
        let next = tls.as_ref().map(|tls| Box::new(tls.session().unwrap()) as Box<dyn Layer>);
        trusted.allows(peer.ip()).then(|| Box::new(ProxyProtocol::new(next)) as _)
    })
}

fn behind_a_proxy() -> RecordingEngine {
    server(Limits::default(), Some(layers("127.0.0.0/8", None)))
}

fn header() -> ProxyProtocolHeader {
    let (source, destination) = ("192.0.2.1:4711", "198.51.100.2:443");
    let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
    ProxyProtocolHeader {
        addresses: Some(Addresses::V4 { source, destination }),
        ..ProxyProtocolHeader::default()
    }
}

fn line() -> Vec<u8> {
    let mut out = Vec::new();
    encode_v1(&header(), &mut out).unwrap();
    out
}

fn block(header: &ProxyProtocolHeader) -> Vec<u8> {
    let mut out = Vec::new();
    encode_v2(header, &mut out).unwrap();
    out
}

/// With bytes that could be parsed as a request.
fn rich() -> ProxyProtocolHeader {
    let smuggled = "GET /smuggled HTTP/1.1 Host: h";
    let others = vec![(0xea, SMUGGLED.to_vec())];
    let extras = Extras { authority: Some(smuggled.into()), others, ..Extras::default() };
    ProxyProtocolHeader { extras, ..header() }
}

fn a_leading_header_is_parsed_and_reported<L: Loop<Engine = RecordingEngine>>() {
    let (mut driver, address) = L::start(behind_a_proxy());
    let unknown = ProxyProtocolHeader::default();
    let cases = [
        (line(), header()),
        (b"PROXY UNKNOWN\r\n".to_vec(), unknown.clone()),
        (block(&header()), header()),
        (block(&rich()), rich()),
        (block(&unknown), unknown),
    ];
    for (bytes, expected) in cases {
        for splits in [false, true] {
            turn_while(&mut driver, || {
                let mut client = HttpClient::connect(address);
                if splits {
                    let (first, second) = bytes.split_at(bytes.len() / 2);
                    client.send(first);
                    client.send([second, GET].concat());
                } else {
                    client.send([&bytes, GET, GET].concat());
                    assert_eq!(client.read_reply().unwrap().body, b"ok\n");
                }
                assert_eq!(client.read_reply().unwrap().body, b"ok\n");
                assert_eq!(client.get("/later").body, b"ok\n");
            });
            driver.turn_until(|driver| driver.engine().connections() == 0);
            let heard = driver.engine().application_mut();
            assert_eq!(heard.proxied, std::slice::from_ref(&expected));
            let mut complete = vec!["GET / 0", "GET / 0", "GET /later 0"];
            complete.drain(..usize::from(splits));
            assert_eq!(heard.complete, complete, "no byte of the header is a request's");
            assert_eq!(heard.gone, [ConnectionEnd::Closed]);
            assert_eq!((heard.accepted, heard.established), (1, 1));
            *heard = RecordingApp::default();
        }
    }
}

fn an_invalid_header_closes_the_connection<L: Loop<Engine = RecordingEngine>>() {
    let (mut driver, address) = L::start(behind_a_proxy());
    let mut broken = block(&header());
    *broken.last_mut().unwrap() ^= 1;
    let mut overlong = block(&rich());
    let size_at = 14;
    overlong[size_at..16].copy_from_slice(&[0xff, 0xff]);
    let mut beyond = block(&header());
    let extra_at = 16 + 12 + 1;
    beyond[extra_at..extra_at + 2].copy_from_slice(&[0, 99]);
    for bytes in [
        GET.to_vec(),
        SMUGGLED.repeat(3),
        [b"PROXY TCP4 192.0.2.1 198.51.100.2 4711\r\n", GET].concat(),
        [b"PROXY UNKNOWN\n", GET].concat(),
        [b"PROXY UNKNOWN ", &[b'x'; 5_000][..]].concat(),
        [b" ", &line()[..], GET].concat(),
        [b"\r\n", &line()[..], GET].concat(),
        [&broken, GET].concat(),
        [&overlong, GET].concat(),
        [&beyond, GET].concat(),
        b"\x16\x03\x01\x02\x00\x01".to_vec(),
        b"\0".to_vec(),
    ] {
        let answer = turn_while(&mut driver, || {
            let mut client = HttpClient::connect(address);
            client.send(&bytes);
            // Closed with unread bytes, it may be a reset; it is an end in any case.
            client.read_to_end().unwrap_or_default()
        });
        assert_eq!(answer, b"", "{bytes:?}");
        driver.turn_until(|driver| driver.engine().connections() == 0);
        let heard = driver.engine().application_mut();
        assert!(heard.heads.is_empty() && heard.proxied.is_empty(), "{heard:?}");
        assert_eq!(
            (heard.gone.pop(), heard.established),
            (Some(ConnectionEnd::Layer), 0),
            "{bytes:?}"
        );
    }
}

fn a_truncated_header_is_refused<L: Loop<Engine = RecordingEngine>>() {
    let (mut driver, address) = L::start(behind_a_proxy());
    for bytes in [line(), block(&header())] {
        for end in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            let answer = turn_while(&mut driver, || {
                let mut client = HttpClient::connect(address);
                client.send(&bytes[..end]);
                client.finish();
                client.read_to_end().unwrap()
            });
            assert_eq!(answer, b"");
            driver.turn_until(|driver| driver.engine().connections() == 0);
            assert_eq!(
                driver.engine().application_mut().gone.pop(),
                Some(ConnectionEnd::Layer),
                "{end}"
            );
        }
    }
}

fn an_untrusted_peer_is_closed<L: Loop<Engine = RecordingEngine>>() {
    let (mut driver, address) =
        L::start(server(Limits::default(), Some(layers("10.0.0.0/8, ::1", None))));
    let answer = turn_while(&mut driver, || {
        let mut client = HttpClient::connect(address);
        let _ = std::io::Write::write_all(&mut client.socket(), &[&line(), GET].concat());
        client.read_to_end().unwrap_or_default()
    });
    assert_eq!(answer, b"");
    let heard = driver.engine().application_mut();
    assert_eq!((heard.accepted, heard.heads.len(), heard.proxied.len()), (0, 0, 0));
}

fn a_silent_peer_times_out<L: Loop<Engine = RecordingEngine>>() {
    let limits = Limits { handshake_timeout: Duration::from_millis(50), ..Limits::default() };
    let (mut driver, address) = L::start(server(limits, Some(layers("127.0.0.1", None))));
    for bytes in [&b""[..], b"PROXY TCP4 192.0.2.1", b"\r\n\r\n\0\r\nQUIT\n\x21\x11"] {
        let answer = turn_while(&mut driver, || {
            let mut client = HttpClient::connect(address);
            client.send(bytes);
            client.read_to_end().unwrap()
        });
        assert_eq!(answer, b"");
        driver.turn_until(|driver| driver.engine().connections() == 0);
        assert_eq!(driver.engine().application_mut().gone.pop(), Some(ConnectionEnd::TimedOut));
    }
}

tests_in_every_loop!(
    at_any_pace: [
        a_leading_header_is_parsed_and_reported,
        an_invalid_header_closes_the_connection,
        a_truncated_header_is_refused,
        an_untrusted_peer_is_closed,
        a_silent_peer_times_out,
        curl_sends_it_below_http_and_tls,
    ],
);

/// curl writes a header of version 1 with the addresses of its own socket, and then TLS.
fn curl_sends_it_below_http_and_tls<L: Loop<Engine = RecordingEngine>>() {
    let certs = Certs::new();
    for tls in [None, Some(server_tls(&certs, CertOwner::Server))] {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let engine = server(Limits::default(), Some(layers("127.0.0.1", tls)));
        let (mut driver, address) = L::start(engine);
        let url = format!("{scheme}://127.0.0.1:{}/x", address.port());
        let ca = certs.ca().display().to_string();
        let fetched = turn_while(&mut driver, || {
            Curl::new(&url).with(&["--http1.1", "--haproxy-protocol", "--cacert", &ca]).run()
        });
        assert_eq!((fetched.reply.status, &fetched.reply.body[..]), (200, &b"ok\n"[..]));
        driver.turn_until(|driver| driver.engine().connections() == 0);
        let heard = driver.engine().application_mut();
        assert_eq!(heard.complete, ["GET /x 0"]);
        assert_eq!((heard.established, heard.proxied.len()), (1, 1));
        let source = heard.proxied[0].source().unwrap();
        assert!(source.ip() == address.ip() && source != address, "{source}");
        assert_eq!(heard.proxied[0].destination(), Some(address));
        assert_eq!(heard.gone, [ConnectionEnd::Closed]);
    }
}

/// Handlers and their observers see the client, not the proxy.
#[test]
fn handlers_see_the_client() {
    let handler = |responder: &mut Responder<'_>, _: &Request<'_>| {
        responder.text(200, responder.peer().to_string())
    };
    let app = HandlerApp::new(handler, sys::now(), sys::wall_clock);
    let mut engine = ServerEngine::new(sys::now(), app, Limits::default(), Stop::new());
    engine.add_listener(LISTENER, Some(layers("127.0.0.1", None)));
    let (mut driver, address) = OwnLoop::start(engine);
    let (first, own, second) = turn_while(&mut driver, || {
        let send_request = |lead: &[u8]| {
            let mut client = HttpClient::connect(address);
            client.send([lead, GET].concat());
            let reply = client.read_reply().unwrap();
            (String::from_utf8(reply.body).unwrap(), client.socket().local_addr().unwrap())
        };
        let (first, _) = send_request(&line());
        let (local, own) = send_request(b"PROXY UNKNOWN\r\n");
        let (second, _) = send_request(&block(&rich()));
        (first, (local, own), second)
    });
    assert_eq!((&first[..], &second[..]), ("192.0.2.1:4711", "192.0.2.1:4711"));
    assert_eq!(own.0, own.1.to_string(), "who is not told is the peer itself");
}

/// A header behind TLS's first bytes, or none at all, is not TLS.
#[test]
fn tls_without_its_header_is_refused() {
    let certs = Certs::new();
    let tls = server_tls(&certs, CertOwner::Server);
    let engine = server(Limits::default(), Some(layers("127.0.0.1", Some(tls))));
    let (mut driver, address) = OwnLoop::<RecordingEngine>::start(engine);
    let url = format!("https://127.0.0.1:{}/x", address.port());
    let ca = certs.ca().display().to_string();
    turn_while(&mut driver, || {
        let failed = fulmar_tests::curl::plain().args(["--cacert", &ca, &url]).output().unwrap();
        assert!(!failed.status.success());
        run(fulmar_tests::curl::plain().args(["--haproxy-protocol", "--cacert", &ca, &url]));
    });
    driver.turn_until(|driver| driver.engine().connections() == 0);
    assert_eq!(driver.engine().application().gone, [ConnectionEnd::Layer, ConnectionEnd::Closed]);
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const SMUGGLED: &[u8] = b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n";
