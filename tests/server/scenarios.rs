//! Four kinds of response and their cost on Linux, on real sockets: compared with the plans of
//! `docs/platforms.md`, by the ledger, by the kernel's count of packets, and by strace.

use std::convert::Infallible;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fulmar_drive::Portions;
use fulmar_proto::{
    Abilities, BodyLen, Connection, Event, FileRange, Headers, Response, Server, ServerConnection,
    StreamId,
};
use fulmar_server::{ExchangeContext, Limits, ServerApp, ServerEngine, Stop};
use fulmar_sys::{self as sys, Call, Ledger};
use fulmar_tests::http::HttpClient;
use fulmar_tests::loops::{LISTENER, Loop, OwnLoop, client, turn_while};
use fulmar_tests::process::{peer, run, text};
use fulmar_tests::tree::noise;

/// Responses of each kind, by name.
struct Scenarios {
    memory: Bytes,
    file: Arc<OwnedFd>,
    noise: Arc<OwnedFd>,
}

/// The rest of a body: the groups of its later pieces.
#[derive(Debug, Default)]
enum PendingPieces {
    #[default]
    None,
    Late(StreamId, usize),
}

impl Scenarios {
    fn new() -> Self {
        let file = |content: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(content).unwrap();
            Arc::new(file.into())
        };
        let memory = Bytes::from(vec![b'm'; MODEST]);
        Self { memory, file: file(&[b'f'; LARGE]), noise: file(&noise(NOISE)) }
    }

    fn answer(&self, reply: &mut ServerConnection, stream: StreamId, target: &[u8]) {
        let (segment, len) = match target {
            b"/tiny" => (b"b"[..].into(), 1),
            b"/noise" => {
                let (offset, len) = (7, NOISE as u64 - 9);
                (FileRange { file: self.noise.clone(), offset, len }.into(), len)
            }
            b"/modest" => (self.memory.clone().into(), MODEST as u64),
            target => {
                let len = if target == b"/little" { LITTLE } else { LARGE } as u64;
                (FileRange { file: self.file.clone(), offset: 0, len }.into(), len)
            }
        };
        let head = Response::new(200, Headers::EMPTY);
        reply.send_head(stream, head, BodyLen::Exact(len)).unwrap();
        reply.send_data(stream, segment).unwrap();
        reply.send_end(stream, Headers::EMPTY).unwrap();
    }
}

/// Pieces of one byte, as many as are available.
fn pieces(reply: &mut ServerConnection, stream: StreamId, ready: usize) {
    for _ in 0..ready {
        reply.send_data(stream, b"b"[..].into()).unwrap();
    }
}

impl ServerApp for Scenarios {
    type Data = PendingPieces;
    type Message = Infallible;

    fn handle(
        &mut self,
        context: &mut ExchangeContext,
        reply: &mut ServerConnection,
        task: &mut PendingPieces,
        event: Event<'_, Server>,
    ) {
        let Event::Head { stream, head, .. } = event else { return };
        match head.target {
            b"/ready" | b"/late" => {
                let answer = Response::new(200, Headers::EMPTY);
                if head.target == b"/late" {
                    *task = PendingPieces::Late(stream, 0);
                    context.set_timer(Some(context.now));
                    return;
                }
                reply.send_head(stream, answer, BodyLen::Unknown).unwrap();
                pieces(reply, stream, PIECES);
                reply.send_end(stream, Headers::EMPTY).unwrap();
            }
            target => self.answer(reply, stream, target),
        }
    }

    /// The next group is ready: the head goes with the first, the end with the last.
    fn handle_timer(
        &mut self,
        context: &mut ExchangeContext,
        reply: &mut ServerConnection,
        task: &mut PendingPieces,
    ) {
        let PendingPieces::Late(stream, group) = *task else { return };
        if group == 0 {
            let answer = Response::new(200, Headers::EMPTY);
            reply.send_head(stream, answer, BodyLen::Unknown).unwrap();
        }
        pieces(reply, stream, GROUPS[group]);
        if group + 1 < GROUPS.len() {
            *task = PendingPieces::Late(stream, group + 1);
            context.set_timer(Some(context.now + Duration::from_millis(1)));
        } else {
            *task = PendingPieces::None;
            reply.send_end(stream, Headers::EMPTY).unwrap();
        }
    }
}

type Own = OwnLoop<ServerEngine<Scenarios>>;

fn engine() -> ServerEngine<Scenarios> {
    let limits = Limits::default();
    let mut engine = ServerEngine::new(sys::now(), Scenarios::new(), limits, Stop::new());
    engine.add_listener(LISTENER, None);
    engine
}

fn server() -> (Own, SocketAddr) {
    OwnLoop::start(engine())
}

/// A server with counted calls.
fn counted() -> (Own, SocketAddr) {
    OwnLoop::by_calls(engine())
}

fn request(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n").into_bytes()
}

/// A response ends with its last byte, which is unique.
fn last_bytes(target: &str) -> &'static [u8] {
    match target {
        "/ready" | "/late" => b"\r\n0\r\n\r\n",
        "/tiny" => b"\r\n\r\nb",
        "/modest" => b"m",
        _ => b"f",
    }
}

/// The length of the response with head and framing, from one request before anything is counted.
fn answer_len(server: &mut Own, stream: &mut TcpStream, target: &str) -> usize {
    stream.write_all(&request(target)).unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut answer = Vec::new();
    let body = match target {
        "/modest" => MODEST,
        "/little" => LITTLE,
        "/file" => LARGE,
        _ => 0,
    };
    server.turn_until(|_| {
        let mut bytes = [0; 4096];
        while let Ok(n @ 1..) = (&*stream).read(&mut bytes) {
            answer.extend_from_slice(&bytes[..n]);
        }
        answer.len() > body && answer.ends_with(last_bytes(target))
    });
    // The rest of the body, if its head was shorter than a read.
    server.turn(Duration::from_millis(1));
    while let Ok(n) = stream.read(&mut [0; 4096]) {
        assert!(n > 0, "the connection is kept");
        answer.resize(answer.len() + n, 0);
    }
    stream.set_nonblocking(false).unwrap();
    answer.len()
}

/// Packets with data that the server's connections have sent, by the kernel's count.
fn packets(server: &Own) -> u32 {
    let count = |fd| {
        let fd = sys::duplicate(fd).unwrap();
        sys::tcp_info(fd.as_fd()).unwrap().data_packets_out
    };
    server.watched().into_iter().map(count).sum()
}

/// Sends `times` requests and reads each response: the calls and the packets.
fn spent(target: &str, times: u64, abilities: Abilities) -> (Ledger, u32) {
    let (mut server, address) = counted();
    server.0.set_abilities(abilities);
    let mut stream = client(address);
    let request = request(target);
    let mut answer = vec![0; answer_len(&mut server, &mut stream, target)];
    let packets_before = packets(&server);
    let before = Ledger::here();
    for _ in 0..times {
        stream.write_all(&request).unwrap();
        server.0.turn().unwrap();
        stream.read_exact(&mut answer).expect("the answer has left in that turn");
    }
    let spent = Ledger::here() - before;
    (spent, packets(&server) - packets_before)
}

fn calls(ledger: &Ledger, expected: &[Call], times: u64, what: &str) {
    for call in expected {
        assert_eq!(ledger.count(*call).calls, times, "{} for {what}", call.name());
    }
    assert_eq!(ledger.total(), expected.len() as u64 * times, "nothing else for {what}");
    assert_eq!(ledger.eagain(), 0, "{what}");
}

#[test]
fn an_answer_costs_its_plan_a_receive_and_a_wait() {
    use Call::{epoll_wait, pread64, recv, send, sendfile, sendmsg};
    // Two packets are the fewest for 64 KB and a head on loopback; the window may add one. If the
    // test is suspended, the kernel may repeat one.
    for (target, plan, packets_max) in [
        ("/ready", &[send][..], 120),
        ("/tiny", &[send], 120),
        ("/modest", &[sendmsg], 280),
        ("/little", &[send, sendfile], 120), // no head has one of its own
        ("/file", &[send, sendfile], 350),
    ] {
        let (spent, packets) = spent(target, 100, Abilities::LINUX);
        calls(&spent, &[&[recv, epoll_wait], plan].concat(), 100, target);
        assert!((100..=packets_max).contains(&packets), "{target}: {packets} packets");
    }
    // The plan of systems without sendfile, as far as this kernel can do it.
    for target in ["/little", "/file"] {
        let (spent, _) = spent(target, 100, Abilities::NETBSD);
        calls(&spent, &[recv, epoll_wait, pread64, sendmsg], 100, target);
    }
}

#[test]
fn concurrent_requests_share_waits() {
    for (target, calls_each) in [("/ready", 2), ("/tiny", 2), ("/modest", 2), ("/file", 3)] {
        let (mut server, address) = counted();
        let mut streams: Vec<_> = (0..CLIENTS).map(|_| client(address)).collect();
        let mut answer = Vec::new();
        for stream in &mut streams {
            answer.resize(answer_len(&mut server, stream, target), 0);
        }
        let before = Ledger::here();
        streams.iter_mut().for_each(|stream| stream.write_all(&request(target)).unwrap());
        server.0.turn().unwrap();
        let spent = Ledger::here() - before;
        streams.iter_mut().for_each(|stream| stream.read_exact(&mut answer).unwrap());
        assert_eq!(spent.total(), calls_each * CLIENTS + 1, "{target}: one wait for all");
        assert_eq!((spent.eagain(), spent.count(Call::setsockopt).calls), (0, 0));
    }
}

/// The bytes that have arrived by now, without waiting: nothing is held back.
fn arrived(stream: &mut TcpStream) -> String {
    stream.set_nonblocking(true).unwrap();
    let mut bytes = [0; 64 * 1024];
    let mut text = String::new();
    while let Ok(n @ 1..) = stream.read(&mut bytes) {
        text.push_str(std::str::from_utf8(&bytes[..n]).unwrap());
    }
    text
}

#[test]
fn the_last_packet_leaves_with_the_turn() {
    for abilities in [Abilities::LINUX, Abilities::NETBSD] {
        let (mut server, address) = server();
        server.0.set_abilities(abilities);
        let mut stream = client(address);
        answer_len(&mut server, &mut stream, "/tiny");
        for target in ["/ready", "/tiny", "/little"] {
            stream.write_all(&request(target)).unwrap();
            server.0.turn().unwrap();
            let text = arrived(&mut stream);
            assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
            assert!(text.as_bytes().ends_with(last_bytes(target)), "{target}: {}", text.len());
            assert!(target != "/little" || text.len() > LITTLE, "all of it: {}", text.len());
        }
    }
}

/// The calls for a client with one request, and the packets that it has received.
fn life(abilities: Abilities) -> (String, u32) {
    let (mut server, address) = server();
    server.0.set_abilities(abilities);
    let mut stream = client(address);
    stream.write_all(b"GET /tiny HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut answer = Vec::new();
    server.turn_until(|_| (&stream).read_to_end(&mut answer).is_ok());
    let packets = sys::tcp_info(stream.as_fd()).unwrap().packets_in;
    (String::from_utf8(answer).unwrap(), packets)
}

#[test]
fn a_last_answer_takes_the_fin_along() {
    // A retransmission, or a separate acknowledgement, is one more: not in every run.
    let fewest = |abilities, end| {
        let packets = (0..5).map(|_| {
            let (answer, packets) = life(abilities);
            assert!(answer.ends_with(end), "{answer}");
            packets
        });
        packets.min().expect("there are five")
    };
    let together = fewest(Abilities::LINUX, "Connection: close\r\n\r\nb");
    let apart = fewest(Abilities { more: false, ..Abilities::LINUX }, "\r\n\r\nb");
    assert_eq!(together + 1, apart);
}

/// As Linux sends it and as systems without sendfile do, also when sockets accept little at a time.
#[test]
fn files_arrive_as_they_are() {
    for abilities in [Abilities::LINUX, Abilities::NETBSD] {
        for portions in [
            Portions::default(),
            Portions { send: 999, again: 200, seed: 5, ..Portions::default() },
        ] {
            let (mut server, address) = server();
            server.0.set_abilities(abilities);
            server.set_portions(portions);
            let body = turn_while(&mut server, || HttpClient::connect(address).get("/noise").body);
            assert!(body == noise(NOISE)[7..NOISE - 2], "{abilities:?} {portions:?}");
        }
    }
}

#[test]
fn pieces_that_come_later_leave_as_they_come() {
    let (mut server, address) = counted();
    let mut stream = client(address);
    answer_len(&mut server, &mut stream, "/tiny");
    let (before, packets_before) = (Ledger::here(), packets(&server));
    let counted = Ledger::here() - before; // by counting packets
    stream.write_all(&request("/late")).unwrap();
    let mut groups = Vec::new();
    while groups.len() < GROUPS.len() {
        server.0.turn().unwrap();
        let text = arrived(&mut stream);
        if !text.is_empty() {
            groups.push(text);
        }
    }
    let spent = Ledger::here() - before - counted;
    let [first, second, last] = &groups[..] else { panic!("{groups:?}") };
    let piece = "1\r\nb\r\n";
    assert!(first.starts_with("HTTP/1.1 200 OK\r\n"), "{first}");
    assert!(first.ends_with(&format!("\r\n\r\n{}", piece.repeat(GROUPS[0]))), "{first}");
    assert_eq!(second, &piece.repeat(GROUPS[1]));
    assert_eq!(last, &format!("{}0\r\n\r\n", piece.repeat(GROUPS[2])));
    assert_eq!(spent.count(Call::send).calls, GROUPS.len() as u64, "one for each group");
    assert_eq!(spent.count(Call::recv).calls, 1);
    assert_eq!(packets(&server) - packets_before, 3, "and a packet");
    let waits = spent.count(Call::epoll_wait).calls + spent.count(Call::epoll_pwait2).calls;
    assert_eq!((spent.total(), spent.eagain()), (1 + 3 + waits, 0), "nothing but waits besides");
}

#[test]
fn the_kernel_sees_these_plans() {
    if std::env::var_os(TRACED).is_some() {
        return serve_each();
    }
    let probe = peer("strace").args(["-o", "/dev/null", "true"]).output().unwrap();
    if !probe.status.success() {
        let said = text(&probe.stderr).to_lowercase();
        assert!(said.contains("ptrace") && said.contains("not permitted"), "{said}");
        return serve_each(); // the client's view at least
    }
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("strace");
    let mut strace = peer("strace");
    strace.args(["-f", "-o"]).arg(&output).arg(std::env::current_exe().unwrap());
    run(strace.args(["--exact", "scenarios::the_kernel_sees_these_plans"]).env(TRACED, "1"));
    let trace = fs::read_to_string(output).unwrap();
    let lines = of_the_server(&trace);
    for (target, plan) in EACH {
        let asked = format!("\"GET {target} ");
        let mut from = (0..lines.len()).filter(|at| lines[*at].contains(&asked));
        let from = from.nth(1).expect("it was asked for twice") + 1;
        let len = lines[from..].iter().position(|line| line.contains("recvfrom"));
        let answer = &lines[from..from + len.expect("something was asked afterwards")];
        let mut calls: Vec<_> = answer.iter().filter_map(|line| named(line)).collect();
        // A client under strace reads slowly: the file may take another call.
        calls.dedup_by(|next, call| *next == "sendfile" && *call == "sendfile");
        assert_eq!(calls, *plan, "{target}\n{}", answer.join("\n"));
    }
    let listens = lines.iter().position(|line| line.starts_with("listen(")).expect("a listener");
    let options = lines[listens..].iter().filter(|line| line.starts_with("setsockopt("));
    assert_eq!(options.count(), 0, "no option after the listener's\n{}", lines.join("\n"));
}

/// Responds twice to each kind of request, in this thread, to a client in another: at first, the
/// kernel has no room for large responses. One more request ends the last of them.
fn serve_each() {
    let (mut server, address) = counted();
    std::thread::scope(|scope| {
        let asker = scope.spawn(move || {
            let mut stream = HttpClient::connect(address);
            for (target, _) in EACH.iter().chain(EACH).chain(&EACH[..1]) {
                let len = match *target {
                    "/tiny" => 1,
                    "/modest" => MODEST,
                    "/little" => LITTLE,
                    "/file" => LARGE,
                    _ => PIECES,
                };
                assert_eq!(stream.get(target).body.len(), len, "{target}");
            }
        });
        while !asker.is_finished() {
            server.0.turn_within(Duration::from_millis(20)).unwrap();
        }
        asker.join().unwrap();
    });
}

/// The calls of the serving thread. The end of a call that another thread interrupted is left out,
/// unless it received bytes.
fn of_the_server(trace: &str) -> Vec<&str> {
    let asked =
        trace.lines().find(|line| line.contains("\"GET /tiny ") && line.contains("recvfrom"));
    let asked = asked.expect("somebody was asked");
    let thread = &asked[..=asked.find(' ').unwrap()];
    let lines = trace.lines().filter_map(|line| Some(line.strip_prefix(thread)?.trim_start()));
    let is_call = |line: &&str| !line.starts_with(['<', '-', '+']) || line.contains("\"GET /");
    lines.filter(is_call).collect()
}

/// A call that sends or sets something, by its name in the plans.
fn named(line: &str) -> Option<&'static str> {
    let more = line.contains("MSG_MORE");
    match line.split('(').next()? {
        "sendto" if more => Some("send(MSG_MORE)"),
        "sendto" => Some("send"),
        "sendmsg" if !more => Some("sendmsg"),
        "sendfile" => Some("sendfile"),
        "epoll_wait" | "epoll_pwait2" | "epoll_ctl" => None,
        // The allocator's, and locks that it shares with the other thread.
        "brk" | "mmap" | "munmap" | "mprotect" | "madvise" | "futex" => None,
        _ => Some("something else"),
    }
}

/// Each request, and Linux's plan for it in `docs/platforms.md`.
const EACH: &[(&str, &[&str])] = &[
    ("/ready", &["send"]),
    ("/late", &["send", "send", "send"]),
    ("/tiny", &["send"]),
    ("/modest", &["sendmsg"]),
    ("/little", &["send(MSG_MORE)", "sendfile"]),
    ("/file", &["send(MSG_MORE)", "sendfile"]),
];
const TRACED: &str = "FULMAR_TEST_TRACED";
const CLIENTS: u64 = 32;
const PIECES: usize = 10;
const GROUPS: [usize; 3] = [3, 3, 4];
const MODEST: usize = 64 * 1024;
/// Of a file that fits into one packet with its head, on loopback.
const LITTLE: usize = 10 * 1024;
const LARGE: usize = 104 * 1024;
/// Read in three pieces.
const NOISE: usize = 300_000;
