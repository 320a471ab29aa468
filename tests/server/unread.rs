//! Clients that pipeline requests and do not read: the memory that they cost a server and a proxy;
//! nothing is lost when they resume reading.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use allocation_counter::measure;
use fulmar_proxy::{MakeLayer, Proxy};
use fulmar_server::{Limits, ServerEngine};
use fulmar_sys as sys;
use fulmar_tests::app::{self, App};
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::https::{self, http1_tls, server_tls};
use fulmar_tests::loops::{Loop, OwnLoop, RingLoop, settle};
use fulmar_tests::process::PATIENCE;
use fulmar_tests::test_proxy::configured_on;
use fulmar_tests::tls_end::TlsEnd;
use fulmar_tls::{ClientTls, ServerTls};
use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};

/// A client, with TLS if there is a session.
struct PipeliningPeer {
    stream: TcpStream,
    tls: Option<TlsEnd>,
    /// The unsent bytes.
    unsent: Vec<u8>,
    received: Vec<u8>,
}

impl PipeliningPeer {
    /// Connects past the listener, with the smallest buffers of the kernel: unread bytes have to
    /// wait in the server.
    fn new(driver: &mut impl Loop, tls: Option<&ClientTls>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let at = listener.local_addr().expect("an address");
        let fd = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a descriptor");
        sockopt::set_socket_recv_buffer_size(&fd, 2_048).expect("a socket");
        connect(&fd, &at).expect("it listens");
        let (accepted, from) = listener.accept().expect("it has connected");
        sockopt::set_socket_send_buffer_size(&accepted, 4_096).expect("a socket");
        accepted.set_nonblocking(true).expect("a socket");
        driver.adopt(OwnedFd::from(accepted), from);
        let stream = TcpStream::from(fd);
        stream.set_nonblocking(true).expect("a socket");
        let session = |tls: &ClientTls| TlsEnd::new(tls.session("localhost").expect("a name"));
        let mut this = Self {
            stream,
            tls: tls.map(session),
            unsent: Vec::new(),
            received: Vec::with_capacity(RESPONSE_SIZE_MAX),
        };
        let start = sys::now();
        while this.tls.as_ref().is_some_and(|tls| !tls.established) {
            assert!(sys::now() - start < PATIENCE, "no handshake");
            this.send();
            this.receive(RESPONSE_SIZE_MAX);
            driver.turn(Duration::ZERO);
        }
        this
    }

    /// Sends as much as the kernel takes.
    fn send(&mut self) {
        if let Some(tls) = &mut self.tls {
            self.unsent.extend(tls.take());
        }
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(n) => drop(self.unsent.drain(..n)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Receives at most `max` bytes; false if there were none.
    fn receive(&mut self, max: usize) -> bool {
        let mut bytes = [0; RESPONSE_SIZE_MAX];
        match self.stream.read(&mut bytes[..max]) {
            Ok(0) => panic!("the connection is kept"),
            Ok(n) => match &mut self.tls {
                Some(tls) => {
                    tls.wire.extend_from_slice(&bytes[..n]);
                    tls.open().expect("nothing is wrong");
                    self.received.extend_from_slice(&tls.above);
                    tls.above.clear();
                }
                None => self.received.extend_from_slice(&bytes[..n]),
            },
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) => panic!("{error}"),
        }
        true
    }

    /// Pipelines a request `len` times.
    fn send_request(&mut self, request: &[u8], len: usize) {
        let requests = request.repeat(len);
        match &mut self.tls {
            // Records of the maximum size: the decrypted rest of one waits too.
            Some(tls) => requests.chunks(16 * 1024).for_each(|piece| tls.send(piece)),
            None => self.unsent.extend_from_slice(&requests),
        }
        self.send();
    }

    /// Reads `len` responses, a byte at a time at first.
    fn read_all(&mut self, driver: &mut impl Loop, len: usize) {
        let mut responses = 0;
        let (mut bytes, start) = (0_usize, sys::now());
        while responses < len {
            assert!(sys::now() - start < PATIENCE, "{responses} responses of {len}");
            self.send();
            let max = if bytes < 5_000 { 1 } else { RESPONSE_SIZE_MAX };
            match self.receive(max) {
                true => bytes += max,
                false => driver.turn(Duration::from_millis(20)),
            }
            // Each has one dot: that of its version.
            responses += self.received.iter().filter(|&&byte| byte == b'.').count();
            self.received.clear();
        }
        assert_eq!(responses, len);
        assert!(self.unsent.is_empty());
    }
}

fn tls() -> (ClientTls, ServerTls) {
    let certs = Certs::new();
    (http1_tls(&certs), server_tls(&certs, CertOwner::Server))
}

fn server(tls: Option<ServerTls>) -> ServerEngine<App> {
    app::server_on(Limits::default(), tls.map(https::layers))
}

/// It answers by itself.
fn proxy(tls: Option<ServerTls>) -> Proxy {
    let text = format!(
        "defaults\n  mode http\n  timeout client 60s\n  timeout connect 5s\n  timeout server 5s\n\
         frontend fe\n  bind 127.0.0.1:0\n\
         \x20 http-request return status 200 content-type text/plain string \"{}\"\n",
        "x".repeat(900)
    );
    let layer =
        tls.map(|tls| -> MakeLayer { Box::new(move |_| Some(Box::new(tls.session().ok()?))) });
    let (proxy, ..) = configured_on(&text, layer);
    proxy
}

/// Clients that pipeline and do not read; then they leave.
fn assert_small<L: Loop>(engine: L::Engine, tls: Option<&ClientTls>, most: u64) {
    assert_small_of::<L>(engine, tls, most, GET);
}

fn assert_small_of<L: Loop>(engine: L::Engine, tls: Option<&ClientTls>, most: u64, request: &[u8]) {
    let (mut driver, _) = L::start(engine);
    let mut peers: Vec<_> = (0..CLIENTS).map(|_| PipeliningPeer::new(&mut driver, tls)).collect();
    for peer in &mut peers {
        peer.send_request(request, 2_400);
    }
    let mut held = 0;
    let all = measure(|| {
        let spent = measure(|| settle(&mut driver));
        held = spent.bytes_current;
        let (least, most) = (CLIENTS as u64 * 16 * 1024, CLIENTS as u64 * most + BLOCKS);
        let held = held.cast_unsigned();
        assert!((least..=most).contains(&held), "{spent:?}: not {least} to {most}");
        // Within a turn, buffers have room that they have grown by.
        assert!(spent.bytes_max <= most + CLIENTS as u64 * 5 * 1024, "{spent:?}: over {most}");
        peers.iter().for_each(|peer| peer.stream.shutdown(std::net::Shutdown::Both).expect("open"));
        drop(std::mem::take(&mut peers));
        settle(&mut driver);
    });
    // The peers' memory was allocated before: all of this belongs to the measured code, or less.
    assert!(all.bytes_current < held / 10, "{} of {held} bytes are left", all.bytes_current);
}

#[test]
fn a_client_that_pipelines_and_does_not_read_costs_a_server_little() {
    assert_small::<OwnLoop<_>>(server(None), None, EACH);
}

#[test]
fn it_costs_three_records_over_tls() {
    let (client, server_tls) = tls();
    assert_small::<OwnLoop<_>>(server(Some(server_tls)), Some(&client), EACH + RECORDS);
}

#[test]
fn it_costs_a_proxy_as_little() {
    assert_small::<OwnLoop<_>>(proxy(None), None, EACH);
}

#[test]
fn it_costs_a_proxy_as_little_over_tls() {
    let (client, server_tls) = tls();
    assert_small::<OwnLoop<_>>(proxy(Some(server_tls)), Some(&client), EACH + RECORDS);
}

/// Sockets on a list of a ring receive little at a time, mostly up to the middle of a head. Behind
/// that, a server received 44 KB: room for the largest head. Responses are short, so that the first
/// bytes received do not yet fill the queue.
#[test]
fn it_costs_as_little_over_a_ring() {
    assert_small_of::<RingLoop<_>>(server(None), None, EACH, SHORT);
    assert_small::<RingLoop<_>>(server(None), None, EACH);
    assert_small::<RingLoop<_>>(proxy(None), None, EACH);
}

/// Nothing more arrives when the queue drains: what was received before has to be parsed then.
fn assert_resumes<L: Loop>(engine: L::Engine, tls: Option<&ClientTls>) {
    let (mut driver, _) = L::start(engine);
    let mut peer = PipeliningPeer::new(&mut driver, tls);
    for len in [400, 1, 17] {
        peer.send_request(GET, len);
        settle(&mut driver);
        peer.read_all(&mut driver, len);
    }
}

#[test]
fn a_client_that_reads_on_has_every_response() {
    assert_resumes::<OwnLoop<_>>(server(None), None);
    assert_resumes::<OwnLoop<_>>(proxy(None), None);
}

#[test]
fn a_client_that_reads_on_has_every_response_over_tls() {
    let (client, server_tls) = tls();
    assert_resumes::<OwnLoop<_>>(server(Some(server_tls.clone())), Some(&client));
    assert_resumes::<OwnLoop<_>>(proxy(Some(server_tls)), Some(&client));
}

#[test]
fn a_client_that_reads_on_has_every_response_over_a_ring() {
    let (client, server_tls) = tls();
    assert_resumes::<RingLoop<_>>(server(None), None);
    assert_resumes::<RingLoop<_>>(proxy(None), None);
    assert_resumes::<RingLoop<_>>(server(Some(server_tls)), Some(&client));
}

const GET: &[u8] = b"GET /bytes/900 HTTP/1.1\r\nHost: h\r\n\r\n";
const SHORT: &[u8] = b"GET /bytes/12 HTTP/1.1\r\nHost: h\r\n\r\n";
const RESPONSE_SIZE_MAX: usize = 16 * 1024;
/// Two descriptors each, of the 1,024 that a process has at least, and other tests run beside.
const CLIENTS: usize = 150;
/// 32 KB of responses, or 16 KB and exchanges of the proxy; 12 KB of requests; and a little.
const EACH: u64 = 48 * 1024;
/// One that is received, one that is decrypted and not parsed, and what these have grown by.
const RECORDS: u64 = 48 * 1024;
/// What a thread has beside its connections: a block that arrives and those for TLS, with shares.
const BLOCKS: u64 = (256 + 64 + 256 + 4 * 256) * 1024;
