//! Policy of the proxy in mode tcp: rules, places, attempts, ends, and log lines.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use fulmar_haproxy::model::{BackendTarget, ServerAddress, ServerProxy, UseBackend};
use fulmar_haproxy::rules::CompileContext;
use fulmar_haproxy::rules::condition::Acls;
use fulmar_haproxy::rules::format::Standard;
use fulmar_haproxy::rules::lists::NoFiles;
use fulmar_haproxy::rules::tcp::{TcpRule, TcpSet};
use fulmar_haproxy::rules::words::{Word, WordCursor};
use fulmar_haproxy::rules::{Condition, FormatString};
use fulmar_haproxy::{BackendConfig, BackendId, FrontendConfig};
use fulmar_proxy::{Live, MakeLayer, Proxy, Stat, sum};
use fulmar_semantics::proxy_protocol::ProxyProtocol;
use fulmar_sys as sys;
use fulmar_tests::loops::{Loop, OwnLoop, client, turn_while};
use fulmar_tests::origins::free_address;
use fulmar_tests::tcp_proxy::{backend, config, frontend, proxy};
use fulmar_tests::test_proxy::{LogLines, server};
use fulmar_tests::threads::serve_each;

/// A proxy that is driven in this thread.
struct DrivenProxy {
    driver: OwnLoop<Proxy>,
    address: SocketAddr,
    live: Arc<Live>,
    lines: LogLines,
}

impl DrivenProxy {
    fn new(frontend: FrontendConfig, backends: impl IntoIterator<Item = BackendConfig>) -> Self {
        Self::with_layer(frontend, backends, None)
    }

    fn with_layer(
        mut frontend: FrontendConfig,
        backends: impl IntoIterator<Item = BackendConfig>,
        layer: Option<MakeLayer>,
    ) -> Self {
        frontend.log_format = Arc::new(FormatString::from(Standard::Tcp));
        let (proxy, live, lines) = proxy(config(frontend, backends), layer);
        let (driver, address) = OwnLoop::start(proxy);
        Self { driver, address, live, lines }
    }

    fn turn_while<T: Send>(&mut self, peer: impl FnOnce(SocketAddr) -> T + Send) -> T {
        let address = self.address;
        turn_while(&mut self.driver, || peer(address))
    }

    /// The line of the only session, without what differs from run to run: client and date.
    fn line(&mut self) -> Vec<String> {
        self.driver.turn_until(|_| !self.lines.borrow().is_empty());
        let lines = self.lines.borrow();
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines[0].1.split(' ').skip(2).map(str::to_owned).collect()
    }

    fn of_front(&self, counter: Stat) -> u64 {
        sum(self.live.frontends[0].counters.iter(), counter)
    }

    fn of_back(&self, counter: Stat) -> u64 {
        sum(self.live.backends[0].counters.iter(), counter)
    }

    fn of_server(&self, at: usize, counter: Stat) -> u64 {
        sum(self.live.backends[0].servers[at].counters.iter(), counter)
    }
}

/// Responds with its name to any bytes.
fn named(name: &'static str) -> SocketAddr {
    serve_each(move |mut stream| {
        let _ = stream.read(&mut [0; 512]);
        let _ = stream.write_all(name.as_bytes());
    })
}

/// Sends bytes and reads the response; empty, if the connection ends without one.
fn send_request(address: SocketAddr, question: &[u8]) -> Vec<u8> {
    let mut stream = client(address);
    let mut answer = Vec::new();
    let _ = stream.write_all(question);
    match stream.read_to_end(&mut answer) {
        Ok(_) => answer,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => answer,
        Err(error) => panic!("{error}"),
    }
}

fn words(text: &str) -> Vec<Word> {
    text.split(' ').map(|text| Word { text: text.to_owned(), column: 1 }).collect()
}

fn rules(set: TcpSet, texts: &[&str]) -> Vec<TcpRule> {
    let acls = Acls::default();
    let context = CompileContext { acls: &acls, files: &NoFiles };
    let rule = |text: &&str| {
        let words = words(text);
        TcpRule::parse(&mut WordCursor::new(&words, 1), set, &context).expect("a good rule")
    };
    texts.iter().map(rule).collect()
}

fn condition(text: &str) -> Condition {
    let acls = Acls::default();
    let context = CompileContext { acls: &acls, files: &NoFiles };
    let words = words(text);
    Condition::parse(&mut WordCursor::new(&words, 1), &context).expect("a good condition")
}

#[test]
fn a_session_is_counted_and_logged() {
    let mut hand = DrivenProxy::new(frontend(), [backend([server("one", named("hello"))])]);
    assert_eq!(hand.turn_while(|address| send_request(address, b"hi there")), b"hello");
    let line = hand.line();
    assert_eq!(line[..2], ["front", "back/one"]);
    let times: Vec<i64> = line[2].split('/').map(|it| it.parse().expect("a time")).collect();
    assert!(times.iter().all(|time| (0..60_000).contains(time)), "{line:?}");
    assert_eq!(line[3..], ["5", "--", "1/1/0/0/0", "0/0"]);
    for counter in [Stat::BytesIn, Stat::BytesOut, Stat::SessionsTotal] {
        let expected = match counter {
            Stat::BytesIn => 8,
            Stat::BytesOut => 5,
            _ => 1,
        };
        let found = [hand.of_front(counter), hand.of_back(counter), hand.of_server(0, counter)];
        assert_eq!(found, [expected; 3], "{counter:?}");
    }
    for counter in [Stat::Sessions, Stat::Queued, Stat::ClientAborts] {
        assert_eq!([hand.of_front(counter), hand.of_back(counter)], [0; 2], "{counter:?}");
    }
    assert_eq!((hand.of_back(Stat::Balanced), hand.of_server(0, Stat::Balanced)), (1, 1));
}

#[test]
fn a_rejected_client_is_closed_at_once() {
    let mut front = frontend();
    front.connection_rules = rules(TcpSet::Connection, &["reject if { src 127.0.0.0/8 }"]);
    let mut hand = DrivenProxy::new(front, [backend([server("one", named("hello"))])]);
    assert_eq!(hand.turn_while(|address| send_request(address, b"hi")), b"");
    assert_eq!(hand.of_front(Stat::DeniedConnections), 1);
    assert_eq!((hand.of_front(Stat::SessionsTotal), hand.of_back(Stat::SessionsTotal)), (0, 0));
    assert!(hand.lines.borrow().is_empty());
}

#[test]
fn content_rules_wait_for_their_input() {
    let mut front = frontend();
    front.inspect_delay = Some(Duration::from_secs(20));
    front.content_rules =
        rules(TcpSet::Content, &["accept if { req.payload(0,4) -m str GOOD }", "reject"]);
    let mut hand = DrivenProxy::new(front.clone(), [backend([server("one", named("hello"))])]);
    let answer = hand.turn_while(|address| {
        let mut stream = client(address);
        for piece in [b"GO", b"OD"] {
            stream.write_all(piece).expect("it is open");
            thread::yield_now();
        }
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        answer
    });
    assert_eq!(answer, b"hello");
    let mut hand = DrivenProxy::new(front, [backend([server("one", named("hello"))])]);
    assert_eq!(hand.turn_while(|address| send_request(address, b"EVIL")), b"");
    let line = hand.line();
    assert_eq!((&line[0][..], &line[1][..], &line[4][..]), ("front", "front/<NOSRV>", "PR"));
    assert_eq!(hand.of_front(Stat::DeniedRequests), 1);
}

#[test]
fn content_rules_decide_when_the_time_is_up() {
    let mut front = frontend();
    front.inspect_delay = Some(Duration::from_millis(50));
    front.content_rules = rules(TcpSet::Content, &["reject if { req.payload(0,4) -m str EVIL }"]);
    let origin = serve_each(|mut stream| stream.write_all(b"hello").expect("somebody listens"));
    let mut hand = DrivenProxy::new(front, [backend([server("one", origin)])]);
    assert_eq!(
        hand.turn_while(|address| send_request(address, b"")),
        b"hello",
        "and its client said nothing"
    );
}

/// A ClientHello, as rustls writes it.
fn client_hello(name: &str) -> Vec<u8> {
    use fulmar_proto::Layer;
    let options = fulmar_tls::ClientOptions {
        verify: fulmar_tls::Verify::Nothing,
        ..fulmar_tls::ClientOptions::default()
    };
    let tls = fulmar_tls::ClientTls::new(options).expect("no files");
    let mut session = tls.session(name).expect("a name");
    session.poll_transmit().expect("it speaks first").inline.to_vec()
}

#[test]
fn sni_selects_a_backend_and_tls_passes_through() {
    let mut front = frontend();
    front.inspect_delay = Some(Duration::from_secs(20));
    front.content_rules = rules(TcpSet::Content, &["accept if { req.ssl_hello_type 1 }"]);
    let condition = condition("if { req.ssl_sni -i b.example }");
    front.use_backends = vec![UseBackend {
        target: BackendTarget::Backend(BackendId(1)),
        condition: Some(condition),
    }];
    let (heard, hellos) = channel();
    let listen = |name: &'static str, heard: Sender<Vec<u8>>| {
        let heard = std::sync::Mutex::new(heard);
        serve_each(move |mut stream| {
            let mut bytes = vec![0; 4096];
            let n = stream.read(&mut bytes).expect("a hello");
            bytes.truncate(n);
            heard.lock().expect("nobody panicked").send(bytes).expect("a test");
            stream.write_all(name.as_bytes()).expect("somebody listens");
        })
    };
    let (a, b) = (listen("a", heard.clone()), listen("b", heard));
    let mut hand = DrivenProxy::new(front, [backend([server("a", a)]), backend([server("b", b)])]);
    for (name, expected) in [("a.example", b"a"), ("b.example", b"b")] {
        let hello = client_hello(name);
        assert_eq!(hand.turn_while(|address| send_request(address, &hello)), expected, "{name}");
        assert!(hellos.recv().expect("a hello") == hello, "not one byte was touched");
    }
}

#[test]
fn redispatch_takes_the_next_server_in_turn() {
    let servers = [server("gone", free_address()), server("two", named("hello"))];
    let mut back = backend(servers);
    back.options.redispatch = -1;
    let mut hand = DrivenProxy::new(frontend(), [back]);
    assert_eq!(hand.turn_while(|address| send_request(address, b"hi")), b"hello");
    let line = hand.line();
    assert_eq!((&line[1][..], &line[4][..], &line[5][..]), ("back/two", "--", "1/1/0/0/+1"));
    assert_eq!((hand.of_server(0, Stat::Redispatches), hand.of_back(Stat::Retries)), (1, 0));
}

#[test]
fn the_same_server_is_tried_again_after_a_pause_and_then_given_up() {
    let mut back = backend([server("gone", free_address())]);
    back.retries = 1;
    back.timeouts.connect = Some(Duration::from_millis(100)); // and so is the pause
    let mut hand = DrivenProxy::new(frontend(), [back]);
    assert_eq!(hand.turn_while(|address| send_request(address, b"hi")), b"");
    let line = hand.line();
    assert_eq!((&line[1][..], &line[4][..], &line[5][..]), ("back/gone", "SC", "1/1/0/0/1"));
    assert!(line[2].contains("/-1/"), "{line:?}");
    assert_eq!((hand.of_back(Stat::Retries), hand.of_back(Stat::ConnectErrors)), (1, 1));
    assert_eq!(hand.of_server(0, Stat::ConnectErrors), 1);
}

#[test]
fn without_a_server_clients_are_closed() {
    let mut down = server("down", free_address());
    down.disabled = true;
    let mut hand = DrivenProxy::new(frontend(), [backend([down])]);
    assert_eq!(hand.turn_while(|address| send_request(address, b"hi")), b"");
    let line = hand.line();
    assert_eq!((&line[1][..], &line[4][..]), ("back/<NOSRV>", "SC"));
    assert_eq!(hand.of_back(Stat::ConnectErrors), 1);
}

#[test]
fn a_client_waits_while_all_slots_are_taken() {
    let mut one = server("one", named("hello"));
    one.connections_max = 1;
    let mut hand = DrivenProxy::new(frontend(), [backend([one])]);
    let answers = hand.turn_while(|address| {
        let first = client(address);
        let all: Vec<_> =
            (0..5).map(|_| thread::spawn(move || send_request(address, b"hi"))).collect();
        let mut first = first;
        first.write_all(b"hi").expect("it is open");
        let mut answer = Vec::new();
        first.read_to_end(&mut answer).expect("an answer");
        drop(first);
        all.into_iter().map(|it| it.join().expect("an answer")).collect::<Vec<_>>()
    });
    assert_eq!(answers, vec![b"hello".to_vec(); 5]);
    hand.driver.turn_until(|driver| driver.watched().len() <= 1);
    assert_eq!((hand.of_back(Stat::Queued), hand.of_server(0, Stat::Sessions)), (0, 0));
}

#[test]
fn a_queued_client_times_out() {
    let mut one = server("one", serve_each(|mut stream| drop(stream.read(&mut [0; 8]))));
    one.connections_max = 1;
    let mut back = backend([one]);
    back.timeouts.queue = Some(Duration::from_millis(50));
    let mut hand = DrivenProxy::new(frontend(), [back]);
    let address = hand.address;
    let first = client(address);
    hand.driver.turn_until(|_| sum(hand.live.backends[0].counters.iter(), Stat::Sessions) == 1);
    assert_eq!(hand.turn_while(|address| send_request(address, b"hi")), b"");
    let line = hand.line();
    assert_eq!((&line[1][..], &line[4][..]), ("back/<NOSRV>", "sQ"));
    assert_eq!(line[5..], ["2/2/1/0/0", "0/1"]);
    drop(first);
}

#[test]
fn silence_ends_a_session() {
    let silent =
        || server("one", serve_each(|mut stream| drop(stream.read_to_end(&mut Vec::new()))));
    let mut front = frontend();
    front.timeouts.client = Some(Duration::from_millis(50));
    let mut hand = DrivenProxy::new(front, [backend([silent()])]);
    assert_eq!(hand.turn_while(|address| send_request(address, b"hi")), b"");
    assert_eq!(hand.line()[4], "cD");
    assert_eq!(hand.of_back(Stat::ClientAborts), 1);
    let mut back = backend([silent()]);
    back.timeouts.server = Some(Duration::from_millis(50));
    let mut hand = DrivenProxy::new(frontend(), [back]);
    assert_eq!(hand.turn_while(|address| send_request(address, b"hi")), b"");
    assert_eq!(hand.line()[4], "sD");
    assert_eq!(hand.of_back(Stat::ServerAborts), 1);
}

#[test]
fn a_tunnel_may_be_silent_for_longer() {
    let before = Duration::from_secs(1); // longer than a busy machine is late
    let slow = serve_each(move |mut stream| {
        stream.write_all(b"a").expect("somebody listens");
        let mut heard = [0; 1];
        stream.read_exact(&mut heard).expect("a byte");
        // Longer than a client may be silent before there is a tunnel.
        let _ = stream.set_read_timeout(Some(2 * before));
        assert!(stream.read(&mut heard).is_err(), "it is still open");
        stream.write_all(b"b").expect("somebody listens");
    });
    let mut front = frontend();
    front.timeouts.client = Some(before);
    let mut back = backend([server("one", slow)]);
    back.timeouts.server = Some(before);
    back.timeouts.tunnel = Some(Duration::from_secs(20));
    let mut hand = DrivenProxy::new(front, [back]);
    assert_eq!(hand.turn_while(|address| send_request(address, b"x")), b"ab");
    assert_eq!(hand.line()[4], "--");
}

#[test]
fn half_a_connection_ends_sooner() {
    // The server has shut down its sending side, and the client sends nothing more.
    let ends = serve_each(|stream| {
        stream.shutdown(Shutdown::Write).expect("it is open");
        let _ = (&stream).read_to_end(&mut Vec::new());
    });
    let mut front = frontend();
    front.timeouts.client_fin = Some(Duration::from_millis(50));
    let mut hand = DrivenProxy::new(front, [backend([server("one", ends)])]);
    let kept = hand.turn_while(|address| {
        let mut stream = client(address);
        assert_eq!(stream.read(&mut [0; 8]).expect("an end"), 0);
        stream
    });
    assert_eq!(hand.line()[4], "cD");
    drop(kept);
}

#[test]
fn a_reset_is_passed_on_as_an_end() {
    let resets = serve_each(|stream| {
        let mut byte = [0; 1];
        (&stream).read_exact(&mut byte).expect("a byte, and one is left unread");
        (&stream).write_all(b"part").expect("somebody listens");
    });
    let mut hand = DrivenProxy::new(frontend(), [backend([server("one", resets)])]);
    let answer = hand.turn_while(|address| send_request(address, b"xy"));
    assert!(answer.is_empty() || answer == b"part", "{answer:?}");
    assert_eq!(hand.line()[4], "SD");
    assert_eq!(hand.of_server(0, Stat::ServerAborts), 1);
}

#[test]
fn a_server_gets_the_client_address() {
    for (how, version) in
        [(ServerProxy::V1, 1), (ServerProxy::V2 { tls: false, common_name: false }, 2)]
    {
        let (told, headers) = channel();
        let told = std::sync::Mutex::new(told);
        let reads = serve_each(move |mut stream| {
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard).expect("a header and a word");
            told.lock().expect("nobody panicked").send(heard).expect("a test");
        });
        let mut one = server("one", reads);
        one.send_proxy = how;
        let mut hand = DrivenProxy::new(frontend(), [backend([one])]);
        let (from, to) = hand.turn_while(|address| {
            let mut stream = client(address);
            stream.write_all(b"hello").expect("it is open");
            stream.shutdown(Shutdown::Write).expect("it is open");
            assert_eq!(stream.read(&mut [0; 8]).expect("an end"), 0);
            (stream.local_addr().expect("it has one"), address)
        });
        let heard = headers.recv().expect("what the server heard");
        let (header, size) =
            fulmar_semantics::proxy_protocol::decode(&heard).expect("a header").expect("all of it");
        assert_eq!(&heard[size..], b"hello", "version {version}");
        assert_eq!(heard[0], if version == 1 { b'P' } else { b'\r' });
        assert_eq!((header.source(), header.destination()), (Some(from), Some(to)));
    }
}

#[test]
fn a_proxy_header_sets_the_client_address() {
    let mut front = frontend();
    front.session_rules = rules(TcpSet::Session, &["reject unless { src 192.0.2.1 }"]);
    let layer: MakeLayer = Box::new(|_| Some(Box::new(ProxyProtocol::new(None)) as _));
    let back = [backend([server("one", named("hello"))])];
    let mut hand = DrivenProxy::with_layer(front, back, Some(layer));
    let good = b"PROXY TCP4 192.0.2.1 192.0.2.9 4711 443\r\nhi";
    let bad = b"PROXY TCP4 192.0.2.2 192.0.2.9 4711 443\r\nhi";
    assert_eq!(hand.turn_while(|address| send_request(address, good)), b"hello");
    assert_eq!(hand.turn_while(|address| send_request(address, bad)), b"");
    hand.driver.turn_until(|_| !hand.lines.borrow().is_empty());
    assert!(hand.lines.borrow()[0].1.starts_with("192.0.2.1:4711 ["), "{:?}", hand.lines);
    assert_eq!(hand.of_front(Stat::DeniedSessions), 1);
}

#[test]
fn a_server_may_be_a_unix_socket() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("server");
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut heard = [0; 2];
        stream.read_exact(&mut heard).expect("a word");
        stream.write_all(b"hello").expect("somebody listens");
    });
    let mut one = server("one", free_address());
    one.address = ServerAddress::Unix(path);
    let mut hand = DrivenProxy::new(frontend(), [backend([one])]);
    assert_eq!(hand.turn_while(|address| send_request(address, b"hi")), b"hello");
}

#[test]
fn sessions_of_a_server_that_is_down_can_be_shut_down() {
    let waits = || {
        serve_each(|mut stream| {
            stream.write_all(b"hello").expect("somebody listens");
            let _ = stream.read_to_end(&mut Vec::new());
        })
    };
    let servers = [server("one", waits()), server("two", waits())];
    let mut hand = DrivenProxy::new(frontend(), [backend(servers)]);
    let mut clients: Vec<_> = (0..2).map(|_| client(hand.address)).collect();
    for stream in &mut clients {
        hand.turn_while(|_| stream.read_exact(&mut [0; 5]).expect("a greeting"));
    }
    let group = &hand.live.backends[0].group;
    group.set_health(0, fulmar_proxy::balance::Health::Down, sys::now());
    hand.live.kill_sessions(BackendId(0), 0);
    hand.driver.waker().wake();
    let line = hand.line();
    assert_eq!((&line[1][..], &line[4][..]), ("back/one", "DD"));
    assert_eq!((hand.of_server(0, Stat::Sessions), hand.of_server(1, Stat::Sessions)), (0, 1));
}

#[test]
fn concurrent_clients_are_limited() {
    let mut front = frontend();
    front.connections_max = Some(2);
    let waits = serve_each(|mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let mut hand = DrivenProxy::new(front, [backend([server("one", waits)])]);
    let mut clients: Vec<_> = (0..4).map(|_| client(hand.address)).collect();
    hand.driver.turn_until(|_| sum(hand.live.frontends[0].counters.iter(), Stat::Sessions) == 2);
    for _ in 0..5 {
        hand.driver.turn(Duration::ZERO);
    }
    assert_eq!(hand.of_front(Stat::SessionsTotal), 2, "the others wait in the kernel's queue");
    clients.remove(0);
    let all = |live: &Live| sum(live.frontends[0].counters.iter(), Stat::SessionsTotal);
    hand.driver.turn_until(|_| all(&hand.live) == 3);
    clients.clear();
    hand.driver.turn_until(|_| all(&hand.live) == 4);
    hand.driver.turn_until(|driver| driver.watched().len() <= 1);
}

#[test]
fn clients_per_second_are_limited() {
    let mut front = frontend();
    front.sessions_per_second_max = Some(3);
    let mut hand = DrivenProxy::new(front, [backend([server("one", named("hello"))])]);
    let start = sys::now();
    hand.turn_while(|address| {
        for _ in 0..5 {
            assert_eq!(send_request(address, b"hi"), b"hello");
        }
    });
    assert!(start.elapsed() > Duration::from_millis(300), "two of them had to wait");
}
