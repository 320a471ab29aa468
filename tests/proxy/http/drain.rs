//! A response of the proxy is not lost to a reset: bytes behind the last request of a client are
//! drained before the close (RFC 9112 §9.6). Real sockets; the client reads late.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use fulmar_proxy::Proxy;
use fulmar_sys::{Call, Ledger};
use fulmar_tests::loops::{Loop, OwnLoop, client};
use fulmar_tests::test_proxy::configured;

/// The proxy, its address, and the server behind it.
struct DrainBench {
    proxy: OwnLoop<Proxy>,
    address: SocketAddr,
    listener: TcpListener,
}

impl DrainBench {
    fn new(frontend: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let at = listener.local_addr().expect("an address");
        let (proxy, ..) = configured(&format!(
            "defaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  \
             timeout server 60s\nfrontend fe\n  bind 127.0.0.1:0\n{frontend}\n  \
             default_backend be\nbackend be\n  http-reuse never\n  server s1 {at}\n"
        ));
        let (proxy, address) = OwnLoop::start(proxy);
        Self { proxy, address, listener }
    }

    /// A client that has sent this, and the server's end of its request, which has arrived there.
    fn send_request(&mut self, request: &str) -> (TcpStream, TcpStream) {
        let mut asker = client(self.address);
        asker.write_all(request.as_bytes()).expect("room");
        let Self { proxy, listener, .. } = self;
        let mut origin = None;
        proxy.turn_until(|_| {
            origin = listener.accept().ok().map(|(origin, _)| origin);
            origin.is_some()
        });
        let mut origin = origin.expect("accepted");
        origin.set_nonblocking(true).expect("a socket");
        proxy.turn_until(|_| origin.read(&mut [0; 4096]).is_ok());
        (asker, origin)
    }

    /// The server responds, and the proxy does all that it will do before the client reads.
    fn respond(&mut self, mut origin: TcpStream) {
        let before = Ledger::here();
        origin.write_all(ANSWER).expect("room");
        self.proxy.turn_until(|_| sends(&before) > 0);
        (0..20).for_each(|_| self.proxy.turn(Duration::ZERO));
    }

    fn until_no_client(&mut self) {
        self.proxy.turn_until(|proxy| proxy.engine().clients() == 0);
    }
}

fn sends(since: &Ledger) -> u64 {
    fulmar_tests::loops::done(&(Ledger::here() - *since), Call::send)
}

/// All that a client receives, up to the proxy's end.
fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let end = stream.read_to_end(&mut bytes);
    end.unwrap_or_else(|error| panic!("{error} after {:?}", String::from_utf8_lossy(&bytes)));
    String::from_utf8(bytes).expect("text")
}

const CLOSE: &str = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
const POST: &str =
    "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc";
const HTTP10: &str = "GET / HTTP/1.0\r\n\r\n";
const KEPT: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn bytes_during_a_slow_response_do_not_reset_it() {
    for (frontend, request, behind) in [
        ("", CLOSE, "\r\n"),
        ("", POST, "\r\n"),
        ("", HTTP10, "\r\n"),
        ("", CLOSE, KEPT),
        ("  option httpclose", KEPT, KEPT),
    ] {
        let mut bench = DrainBench::new(frontend);
        let (mut asker, origin) = bench.send_request(request);
        let before = bench.proxy.stats().events;
        asker.write_all(behind.as_bytes()).expect("room");
        bench.proxy.turn_until(|proxy| proxy.stats().events > before);
        bench.respond(origin);
        let text = rest(&mut asker);
        assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("ok"), "{text}");
        drop(asker);
        bench.until_no_client();
    }
}

/// Before the connection is watched, no event reports what the client sends. The response is sent
/// before the close resets the connection.
#[test]
fn a_response_leaves_before_an_unwatched_client_is_closed() {
    for _ in 0..20 {
        let mut bench = DrainBench::new("");
        let (mut asker, origin) = bench.send_request(CLOSE);
        asker.write_all(b"\r\n").expect("room");
        bench.respond(origin);
        let mut bytes = [0; 512];
        let n = asker.read(&mut bytes).expect("the response is there");
        let text = String::from_utf8_lossy(&bytes[..n]);
        assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("ok"), "{text}");
        let next = asker.read(&mut bytes).map_err(|error| error.kind());
        assert!(matches!(next, Ok(0) | Err(ErrorKind::ConnectionReset)), "{next:?}");
    }
}

/// The proxy's own responses: rules, and requests that it does not understand.
#[test]
fn responses_of_the_proxy_itself_are_not_reset() {
    let rules = "  http-request deny if { path /deny }\n  \
         http-request return status 404 if { path /return }\n  \
         http-request redirect location /x if { path /redirect }";
    for (request, status) in [
        ("GET /deny HTTP/1.0\r\n\r\n", 403),
        ("GET /return HTTP/1.0\r\n\r\n", 404),
        ("GET /redirect HTTP/1.0\r\n\r\n", 302),
        ("POST /deny HTTP/1.1\r\nHost: h\r\nContent-Length: 400000\r\n\r\n", 403),
        ("nonsense\r\n\r\n", 400),
    ] {
        let mut bench = DrainBench::new(rules);
        let mut asker = client(bench.address);
        let before = Ledger::here();
        asker.write_all([request, "more"].concat().as_bytes()).expect("room");
        bench.proxy.turn_until(|_| sends(&before) > 0);
        asker.write_all(&[b'x'; 10_000]).expect("the connection is open");
        (0..20).for_each(|_| bench.proxy.turn(Duration::ZERO));
        let text = rest(&mut asker);
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
        drop(asker);
        bench.until_no_client();
    }
}
