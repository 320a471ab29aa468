//! The proxy without a kernel: errors that no test can have the kernel make, at each place, and a
//! clock that jumps.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use fulmar_engine::{Accepted, Action, DriverEvent, Engine, SocketEvent, SocketId};
use fulmar_proto::Input;
use fulmar_proxy::{Live, Proxy, Stat, sum};
use fulmar_sys as sys;
use fulmar_tests::loops::LISTENER;
use fulmar_tests::test_proxy::{LogLines, configured};
use fulmar_tests::tls_end::flatten;

/// A proxy with a virtual clock.
struct VirtualProxy {
    proxy: Proxy,
    live: Arc<Live>,
    lines: LogLines,
    now: Instant,
    /// Connections that it wants, and those that it has closed.
    wanted: Vec<SocketId>,
    closed: Vec<SocketId>,
}

impl VirtualProxy {
    fn new(timeouts: &str) -> Self {
        let (proxy, live, lines, _) = configured(&format!(
            "global\n  log stdout format raw local0\n\
             defaults\n  mode http\n  log global\n  log-format \"%ST %ts\"\n  retries 0\n\
             {timeouts}\n\
             frontend fe\n  bind 127.0.0.1:0\n  default_backend be\n\
             backend be\n  http-reuse always\n  server s 127.0.0.1:9\n"
        ));
        let (wanted, closed) = Default::default();
        Self { proxy, live, lines, now: sys::now(), wanted, closed }
    }

    /// A client has come.
    fn accept(&mut self) -> SocketId {
        let peer = SocketAddr::from(([127, 0, 0, 1], 1234));
        let socket = self
            .proxy
            .accept(self.now, Accepted { listener: LISTENER, peer, local: None })
            .expect("there is room");
        self.act();
        socket
    }

    /// A client with a request, and the connection to the server that it leads to.
    fn send_request(&mut self) -> (SocketId, SocketId) {
        let client = self.accept();
        self.send(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        (client, self.wanted.pop().expect("it leads to the server"))
    }

    /// The same on an established connection, over which the request has left.
    fn send_request_on(&mut self) -> (SocketId, SocketId) {
        let (client, server) = self.send_request();
        self.proxy.handle(self.now, SocketEvent::Connected.of(server));
        self.act();
        assert!(self.receive(server).starts_with("GET / HTTP/1.1\r\n"));
        (client, server)
    }

    /// These bytes arrive.
    fn send(&mut self, socket: SocketId, bytes: &str) {
        let mut bytes = BytesMut::from(bytes);
        self.proxy.handle(self.now, SocketEvent::Input(Input::all(&mut bytes, false)).of(socket));
        self.act();
    }

    /// What leaves.
    fn receive(&mut self, socket: SocketId) -> String {
        let bytes = self.proxy.poll_transmit(socket).map_or_else(Vec::new, flatten);
        self.proxy.handle(self.now, SocketEvent::Sent(bytes.len() as u64).of(socket));
        self.act();
        String::from_utf8(bytes).expect("text")
    }

    fn fail(&mut self, socket: SocketId, errno: i32) {
        self.proxy
            .handle(self.now, SocketEvent::Failed(io::Error::from_raw_os_error(errno)).of(socket));
        self.act();
    }

    fn act(&mut self) {
        while let Some(action) = self.proxy.poll_action() {
            match action {
                Action::Connect { socket, .. } => {
                    self.wanted.push(socket);
                }
                Action::Close { socket, .. } => self.closed.push(socket),
                _ => {}
            }
        }
    }

    /// Time passes without the proxy, which then processes all expired deadlines.
    fn pass(&mut self, time: Duration) {
        self.now += time;
        let mut looks = 0;
        while self.proxy.poll_timeout().is_some_and(|due| due <= self.now) {
            self.proxy.handle(self.now, DriverEvent::Timeout);
            self.act();
            looks += 1;
            assert!(looks < 10, "a storm");
        }
    }

    fn log(&self) -> Vec<String> {
        self.lines.borrow().iter().map(|(_, line)| line.clone()).collect()
    }

    /// Another client is served, from beginning to end, on a new connection or an idle one.
    fn serve_another(&mut self) {
        let client = self.accept();
        self.send(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        let server = self.wanted.pop().expect("no connection is kept");
        self.proxy.handle(self.now, SocketEvent::Connected.of(server));
        self.act();
        self.receive(server);
        self.send(server, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        assert!(self.receive(client).ends_with("\r\n\r\nok"));
    }
}

const TIMEOUTS: &str =
    "  timeout connect 5s\n  timeout client 60s\n  timeout server 30s\n  timeout http-request 10s";

/// No memory for a socket, a packet or a connection is no fault of the server's: its client gets
/// 503, the log names the cause, and every other client is served.
#[test]
fn no_memory_for_a_connection_is_logged_as_such() {
    for errno in [ENOBUFS, ENOMEM, EMFILE, ENFILE] {
        let mut world = VirtualProxy::new(TIMEOUTS);
        let (other, kept) = world.send_request_on();
        let (client, server) = world.send_request();
        world.fail(server, errno);
        assert!(world.receive(client).starts_with("HTTP/1.1 503 "), "{errno}");
        assert_eq!(world.log()[0], "503 RC", "{errno}");
        assert!(world.closed.contains(&server));
        world.send(kept, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        assert!(world.receive(other).ends_with("\r\n\r\nok"), "{errno}");
        let errors = &world.live.backends[0].servers[0].counters;
        assert_eq!(sum(errors, Stat::ResponseErrors), 0, "{errno}");
    }
}

/// The same of a send or a receive, on either side: that exchange ends, and no other.
#[test]
fn no_memory_in_the_middle_ends_one_exchange() {
    for errno in [ENOBUFS, ENOMEM] {
        for begun in [false, true] {
            for of_client in [false, true] {
                let what = format!("{errno}, begun: {begun}, the client's: {of_client}");
                let mut world = VirtualProxy::new(TIMEOUTS);
                let (other, kept) = world.send_request_on();
                let (client, server) = world.send_request_on();
                if begun {
                    world.send(server, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
                    assert!(world.receive(client).ends_with("half"), "{what}");
                }
                world.fail(if of_client { client } else { server }, errno);
                if !of_client && !begun {
                    assert!(world.receive(client).starts_with("HTTP/1.1 502 "), "{what}");
                }
                assert!(world.closed.contains(&server), "{what}");
                assert!(!of_client || world.closed.contains(&client), "{what}");
                assert!(!world.closed.contains(&other) && !world.closed.contains(&kept), "{what}");
                world.send(
                    kept,
                    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
                );
                assert!(world.receive(other).ends_with("\r\n\r\nok"), "{what}");
                world.serve_another();
            }
        }
    }
}

/// A machine that was asleep, and clocks of 32 bits that wrap (49.7 days in milliseconds): overdue
/// clients time out once, and new ones have their full time.
#[test]
fn a_clock_jump_ends_only_overdue_clients() {
    let wrap = Duration::from_millis(u64::from(u32::MAX));
    for jump in [Duration::from_secs(61), wrap - Duration::from_millis(1), wrap, wrap * 2] {
        let mut world = VirtualProxy::new(TIMEOUTS);
        let (asked, server) = world.send_request_on();
        let slow = world.accept();
        world.send(slow, "GET / HTT");
        world.pass(jump);
        assert!(world.receive(asked).starts_with("HTTP/1.1 504 "), "{jump:?}");
        assert!(world.receive(slow).starts_with("HTTP/1.1 408 "), "{jump:?}");
        assert!(world.closed.contains(&server), "{jump:?}");
        let log = world.log();
        assert!(
            log.contains(&"504 sH".to_owned()) && log.contains(&"408 cR".to_owned()),
            "{log:?}"
        );
        world.serve_another();
        let (late, server) = world.send_request_on();
        world.pass(Duration::from_secs(29));
        world.send(server, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        assert!(world.receive(late).ends_with("\r\n\r\nok"), "it was in time after {jump:?}");
    }
}

/// A timeout of zero is no limit, as with HAProxy, and the longest that can be written is never
/// reached: neither is due at once, and neither overflows.
#[test]
fn zero_and_the_longest_timeouts_never_expire() {
    for time in ["0", "2147483647", "24d"] {
        let names = ["connect", "client", "server", "http-request", "http-keep-alive", "queue"];
        let timeouts = names.map(|name| format!("  timeout {name} {time}")).join("\n");
        let mut world = VirtualProxy::new(&timeouts);
        let (client, server) = world.send_request_on();
        let idle = world.accept();
        world.pass(Duration::from_secs(20 * 24 * 3600));
        assert!(world.closed.is_empty(), "timeouts of {time}");
        world.send(server, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        assert!(world.receive(client).ends_with("\r\n\r\nok"), "timeouts of {time}");
        assert!(!world.closed.contains(&idle), "timeouts of {time}");
    }
}

// errno(3).
const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ENOBUFS: i32 = 105;
