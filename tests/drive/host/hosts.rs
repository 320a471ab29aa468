//! Hosts: several listeners, shared work, graceful stop, and failures.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fulmar_drive::ListenOptions;
use fulmar_engine::ListenerId;
use fulmar_host::{Address, Error, Host, Listen, OnPanic, Running, Usage, Worker};
use fulmar_proto::{BodyLen, Connection, Event, Headers, Response, Server, ServerConnection};
use fulmar_server::{ExchangeContext, Limits, Mailbox, ServerApp};
use fulmar_sys::{Call, Operation};
use fulmar_tests::app::{App, app};
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::http::{HttpClient, replies};
use fulmar_tests::https::{layers, server_tls};
use fulmar_tests::load::bound;
use fulmar_tests::loops::{done, requested_options};
use fulmar_tests::process::{PATIENCE, eventually, peer, run};

fn any() -> Listen {
    Listen::tcp(SocketAddr::from(([127, 0, 0, 1], 0)))
}

/// The test endpoints; at the end, the number of their requests.
fn endpoints() -> Host<App, u64> {
    Host::new(|_| Ok(app())).loop_options(requested_options()).at_end(|app| app.requests())
}

fn tcp<R>(running: &Running<R>, at: usize) -> SocketAddr {
    running.addresses()[at].tcp().expect("a TCP address")
}

/// `sendfile(2)` and `splice(2)` have no flag against `SIGPIPE`, and a program with a `main` that
/// is not Rust's may not ignore it. No program ignores `SIGXFSZ` by itself, which would kill all of
/// it for a long upload, or a log.
#[test]
fn writes_do_not_kill_threads_of_a_host() {
    let blocked = || -> io::Result<u64> {
        let status = fs::read_to_string("/proc/thread-self/status")?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        Ok(mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).expect("a mask"))
    };
    let told: Arc<Mutex<Vec<u64>>> = Arc::default();
    let tell = Arc::clone(&told);
    let host = Host::new(move |_| {
        tell.lock().unwrap().push(blocked()?);
        Ok(app())
    });
    let running = host.threads(2).listen(any()).start().unwrap();
    running.stop();
    running.join().unwrap();
    let both = 1 << (13 - 1) | 1 << (25 - 1); // SIGPIPE, SIGXFSZ
    let told = told.lock().unwrap();
    assert!(told.len() == 2 && told.iter().all(|mask| mask & both == both), "{told:x?}");
}

/// The response at a Unix socket, up to the close.
fn send_request(mut stream: UnixStream, target: &str) -> Vec<u8> {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    replies(&bytes).unwrap().pop().expect("an answer").body
}

/// Responds with the number of its listener; `/meet` waits until every thread has such a request,
/// and `/panic` has a bug.
struct Which {
    worker: usize,
    listens: [usize; 3],
    meeting: Arc<Meeting>,
}

#[derive(Default)]
struct Meeting {
    there: Mutex<BTreeSet<usize>>,
    came: Condvar,
}

impl Meeting {
    /// Until two threads are there.
    fn attend(&self, worker: usize) {
        let mut there = self.there.lock().unwrap();
        there.insert(worker);
        self.came.notify_all();
        let (_there, timeout) =
            self.came.wait_timeout_while(there, PATIENCE, |there| there.len() < 2).unwrap();
        assert!(!timeout.timed_out(), "the other thread is asked for nothing");
    }
}

impl Which {
    fn new(worker: &Worker, listens: usize, meeting: &Arc<Meeting>) -> Self {
        let number = |id| if (id as usize) < listens { worker.listen(ListenerId(id)) } else { 0 };
        let listens = [number(0), number(1), number(2)];
        Self { worker: worker.number, listens, meeting: Arc::clone(meeting) }
    }
}

impl ServerApp for Which {
    type Data = usize;
    type Message = Infallible;

    fn accept(&mut self, _: Instant, listener: ListenerId, _: SocketAddr) -> usize {
        self.listens[listener.0 as usize]
    }

    fn handle(
        &mut self,
        _: &mut ExchangeContext,
        reply: &mut ServerConnection,
        listen: &mut usize,
        event: Event<'_, Server>,
    ) {
        match event {
            Event::Head { head, .. } if head.target == b"/meet" => {
                self.meeting.attend(self.worker);
            }
            Event::Head { head, .. } if head.target == b"/panic" => panic!("a bug"),
            Event::End { stream, .. } => {
                let body = listen.to_string().into_bytes();
                let len = BodyLen::Exact(body.len() as u64);
                reply.send_head(stream, Response::new(200, Headers::EMPTY), len).unwrap();
                reply.send_data(stream, Bytes::from(body).into()).unwrap();
                reply.send_end(stream, Headers::EMPTY).unwrap();
            }
            _ => {}
        }
    }
}

fn meeting(listen: Listen) -> Running<()> {
    meet(listen).start().unwrap()
}

fn meet(listen: Listen) -> Host<Which> {
    let meeting = Arc::<Meeting>::default();
    let host = Host::new(move |worker| Ok(Which::new(worker, 1, &meeting)));
    host.loop_options(requested_options()).listen(listen).threads(2)
}

#[test]
fn several_listeners_lead_to_one_application() {
    let (dir, certs) = (tempfile::tempdir().unwrap(), Certs::new());
    let path = dir.path().join("socket");
    let tls = layers(server_tls(&certs, CertOwner::Server));
    let nobody = Arc::<Meeting>::default();
    let running = Host::new(move |worker| Ok(Which::new(worker, 3, &nobody)))
        .loop_options(requested_options())
        .listen(any())
        .listen(Listen::unix(&path).permissions(0o620))
        .listen(any().layers(tls))
        .threads(2)
        .start()
        .unwrap();
    assert_eq!(running.addresses()[1], Address::Unix(path.clone()));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o620);
    for _ in 0..8 {
        assert_eq!(HttpClient::connect(tcp(&running, 0)).get("/").body, b"0");
        assert_eq!(send_request(UnixStream::connect(&path).unwrap(), "/"), b"1");
    }
    let url = format!("https://localhost:{}/", tcp(&running, 2).port());
    let mut curl = peer("curl");
    curl.args(["-sS", "--ipv4", "--cacert"]).arg(certs.ca()).arg(&url);
    assert_eq!(run(&mut curl).stdout, b"2");
    running.stop();
    assert!(!path.exists(), "its file goes when it stops");
    let outcomes = running.join().unwrap();
    assert_eq!(outcomes.len(), 2);
    let usage: Usage = outcomes.iter().map(|outcome| outcome.usage).sum();
    assert_eq!(usage.stats.accepted, 17);
    assert_eq!(usage.ledger.count(Call::epoll_create1).calls, 2);
}

#[test]
fn threads_have_listeners_of_their_own() {
    let running = meeting(any());
    // A client of the waiting thread waits with it.
    let clients: Vec<_> = (0..40)
        .map(|_| {
            let mut client = HttpClient::connect(tcp(&running, 0));
            client.send_get("/meet");
            client
        })
        .collect();
    for mut client in clients {
        assert_eq!(client.read_reply().unwrap().body, b"0");
    }
    running.stop();
    for outcome in running.join().unwrap() {
        assert!(outcome.usage.stats.accepted > 0);
        assert_eq!(vain(&outcome.usage), 0);
    }
}

/// Accepts without a pending connection, by calls and in a ring.
fn vain(usage: &Usage) -> u64 {
    let (calls, in_ring) = (Call::accept4, Operation::accept);
    usage.ledger.count(calls).eagain + usage.ledger.operation(in_ring).eagain
}

#[test]
fn threads_share_an_inherited_socket() {
    // Calls on it would block, as on any socket of another program.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let running = meeting(Listen::inherited(OwnedFd::from(listener)));
    assert_eq!(running.addresses(), [Address::Tcp(address)]);
    let mut pair = [HttpClient::connect(address), HttpClient::connect(address)];
    pair.iter_mut().for_each(|client| client.send_get("/meet"));
    for client in &mut pair {
        assert_eq!(client.read_reply().unwrap().body, b"0");
    }
    for _ in 0..50 {
        assert_eq!(HttpClient::connect(address).get("/").body, b"0");
    }
    running.stop();
    let outcomes = running.join().unwrap();
    assert!(outcomes.iter().all(|outcome| outcome.usage.stats.accepted > 0));
    let usage: Usage = outcomes.iter().map(|outcome| outcome.usage).sum();
    let vain = vain(&usage);
    // At worst each thread that was not the first has tried once in vain.
    assert_eq!(done(&usage.ledger, Call::accept4) - vain, 52);
    assert!(vain <= 52, "{vain}");
}

/// A shared listener stays in an epoll although it was closed in this process.
#[test]
fn a_stopped_host_is_not_woken_for_a_shared_socket() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let share = || Listen::inherited(listener.try_clone().unwrap().into());
    let first = endpoints().listen(share()).start().unwrap();
    let mut slow = HttpClient::connect(address);
    slow.send_get("/stream/10000");
    assert_eq!(slow.read_head().unwrap().status, 200);
    first.stop();
    // The client stops reading: the stream waits for it, and the first host for the stream.
    let second = endpoints().listen(share()).start().unwrap();
    for _ in 0..200 {
        assert_eq!(HttpClient::connect(address).get("/bytes/1").body.len(), 1);
    }
    second.stop();
    let served = second.join().unwrap()[0].report;
    drop(slow);
    let outcome = first.join().unwrap().remove(0);
    // It accepts some itself until it has received the stop.
    let late = 200 - served;
    assert_eq!(outcome.usage.stats.accepted, 1 + late);
    assert!(late < 50, "{late} connections after it was to end");
    assert!(outcome.usage.ledger.count(Call::accept4).calls <= 2 + 2 * late);
    let turns = outcome.usage.stats.turns;
    assert!(turns < 60 + 3 * late, "{turns} turns for one connection, and {late} late ones");
}

#[test]
fn responses_in_progress_are_finished() {
    let running = endpoints().listen(any()).start().unwrap();
    let address = tcp(&running, 0);
    let mut client = HttpClient::connect(address);
    client.send_get("/delay/300");
    let mut idle = HttpClient::connect(address);
    idle.get("/bytes/1"); // by now the delay has begun
    running.stop();
    let answers = replies(&client.read_to_end().unwrap()).unwrap();
    assert_eq!((answers.len(), &answers[0].body[..]), (1, &b"delayed\n"[..]));
    assert_eq!(answers[0].field("connection"), Some("close"));
    assert_eq!(idle.read_to_end().unwrap(), b"");
    running.join().unwrap();
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn the_first_request_after_a_stop_has_a_deadline() {
    // On a very busy machine the deadline may pass before the request is sent.
    assert!((0..20).any(|_| first_request_within()));
}

fn first_request_within() -> bool {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let running = endpoints().listen(Listen::unix(&path)).start().unwrap();
    let (mut newcomer, silent) =
        (UnixStream::connect(&path).unwrap(), UnixStream::connect(&path).unwrap());
    let mut old = UnixStream::connect(&path).unwrap();
    old.set_read_timeout(Some(PATIENCE)).unwrap();
    old.write_all(b"GET /bytes/1 HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(old.read(&mut [0; 512]).unwrap().min(1), 1); // the earlier client was accepted too
    let start = fulmar_sys::now();
    running.stop();
    let mut rest = Vec::new();
    old.read_to_end(&mut rest).unwrap(); // the end has begun
    let said = newcomer.write_all(b"GET /bytes/3 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let in_time = said.is_ok() && start.elapsed() < Duration::from_millis(500);
    if in_time {
        newcomer.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = Vec::new();
        newcomer.read_to_end(&mut answer).unwrap();
        assert_eq!(replies(&answer).unwrap()[0].body.len(), 3);
    }
    let requests = running.join().unwrap()[0].report;
    assert!(!in_time || requests == 2, "{requests}");
    let took = start.elapsed();
    let drain = Limits::default().drain_timeout;
    assert!(took >= Duration::from_millis(500) && took < drain, "{took:?}");
    drop(silent);
    in_time
}

#[test]
fn the_end_has_a_deadline() {
    let limits = Limits { drain_timeout: Duration::from_millis(200), ..Limits::default() };
    let running = endpoints().listen(any()).limits(limits).start().unwrap();
    let mut client = HttpClient::connect(tcp(&running, 0));
    client.send_get("/idle");
    let mut other = HttpClient::connect(tcp(&running, 0));
    other.get("/bytes/1"); // by now /idle has been read
    running.stop();
    let start = fulmar_sys::now();
    assert_eq!(running.join().unwrap()[0].report, 2);
    assert!(start.elapsed() < Limits::default().drain_timeout);
    assert!(!client.read_to_end().is_ok_and(|bytes| !bytes.is_empty()));
}

#[test]
fn a_stop_before_the_start_is_not_forgotten() {
    let host = endpoints().listen(any()).threads(2);
    host.stopper().stop();
    assert_eq!(host.start().unwrap().join().unwrap().len(), 2);
}

#[test]
fn dropping_a_host_stops_it() {
    let running = endpoints().listen(any()).start().unwrap();
    let address = tcp(&running, 0);
    HttpClient::connect(address).get("/bytes/1");
    drop(running);
    eventually("it listens no more", || TcpStream::connect(address).is_err());
}

/// A host that cannot start, on a port and a path that must be free afterwards.
fn fails_to_start(make: impl Fn(usize) -> io::Result<App> + Send + Sync + 'static) -> Error {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let (_holder, address) = bound();
    let host = Host::new(move |worker| make(worker.number));
    let host = host.listen(Listen::tcp(address)).listen(Listen::unix(&path)).threads(3);
    let error = host.start().unwrap_err();
    assert!(!path.exists());
    assert!(TcpListener::bind(address).is_ok());
    error
}

#[test]
fn a_thread_that_cannot_start_leaves_nothing_behind() {
    let error = fails_to_start(|number| match number {
        1 => Err(io::Error::other("no luck")),
        _ => Ok(app()),
    });
    assert_eq!(error.to_string(), "thread 1: no luck");
    let error = fails_to_start(|number| match number {
        2 => panic!("no luck at all"),
        _ => Ok(app()),
    });
    assert!(matches!(error, Error::Panic { number: 2, .. }), "{error:?}");
    assert_eq!(error.to_string(), "thread 2 panicked: no luck at all");
}

#[test]
fn a_listener_that_cannot_be_had_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap();
    let stopper;
    let error = {
        let host = endpoints().listen(Listen::unix(&path)).listen(Listen::tcp(address));
        stopper = host.stopper();
        host.start().unwrap_err()
    };
    let said = error.to_string();
    assert!(said.contains(&address.to_string()) && said.contains("in use"), "{said}");
    assert!(!path.exists());
    stopper.stop(); // it stops nothing
    assert!(matches!(endpoints().start(), Err(Error::NoListener)));
    // A socket that does not listen, and a descriptor that is no socket.
    let (pair, _) = UnixStream::pair().unwrap();
    let file = fs::File::open("/dev/null").unwrap();
    for (fd, why) in [(OwnedFd::from(pair), "is not listening"), (file.into(), "non-socket")] {
        let said = endpoints().listen(Listen::inherited(fd)).start().unwrap_err().to_string();
        assert!(said.contains("inherited") && said.contains(why), "{said}");
    }
}

#[test]
fn port_of_several_threads_is_not_shared_with_another_host() {
    let running = endpoints().listen(any()).threads(2).start().unwrap();
    let address = tcp(&running, 0);
    for threads in [1, 2] {
        let second = endpoints().listen(Listen::tcp(address)).threads(threads);
        let error = second.start().unwrap_err();
        let Error::Listen { error, .. } = error else { panic!("{threads} threads: {error:?}") };
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{threads} threads");
    }
    // The kernel distributes connections to both threads.
    for _ in 0..64 {
        assert_eq!(HttpClient::connect(address).get("/bytes/5").body.len(), 5);
    }
    running.stop();
    let requests: Vec<u64> = running.join().unwrap().iter().map(|it| it.report).collect();
    assert!(requests.iter().all(|n| *n > 0) && requests.iter().sum::<u64>() == 64, "{requests:?}");
    // A host that shares on purpose does not fail.
    let options = ListenOptions { reuse_port: true, ..ListenOptions::default() };
    let first = endpoints().listen(any().tcp_options(options.clone())).start().unwrap();
    let beside = Listen::tcp(tcp(&first, 0)).tcp_options(options);
    let second = endpoints().listen(beside).threads(2).start().unwrap();
    for running in [first, second] {
        running.stop();
        running.join().unwrap();
    }
}

#[test]
fn a_unix_socket_in_use_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let running = endpoints().listen(Listen::unix(&path)).start().unwrap();
    let error = endpoints().listen(Listen::unix(&path)).start().unwrap_err();
    assert!(
        matches!(&error, Error::Listen { error, .. } if error.kind() == io::ErrorKind::AddrInUse)
    );
    assert_eq!(send_request(UnixStream::connect(&path).unwrap(), "/bytes/5").len(), 5);
    // The next host need not wait for the last connection of this one.
    let mut busy = UnixStream::connect(&path).unwrap();
    busy.write_all(b"GET /idle HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(send_request(UnixStream::connect(&path).unwrap(), "/bytes/5").len(), 5);
    running.stop();
    let next = endpoints().listen(Listen::unix(&path)).start().unwrap();
    drop(busy);
    assert_eq!(running.join().unwrap()[0].report, 3);
    assert_eq!(send_request(UnixStream::connect(&path).unwrap(), "/bytes/5").len(), 5);
    next.stop();
    next.join().unwrap();
    assert!(!path.exists());
}

#[test]
fn an_application_that_panics_ends_its_connection_or_the_server() {
    let running = meeting(any());
    let (mut other, mut client) =
        (HttpClient::connect(tcp(&running, 0)), HttpClient::connect(tcp(&running, 0)));
    other.get("/");
    let reply = client.get("/panic");
    assert_eq!((reply.status, reply.field("connection")), (500, Some("close")));
    assert_eq!(client.read_to_end().unwrap(), b"");
    assert_eq!(other.get("/").status, 200);
    running.stop();
    assert_eq!(running.join().unwrap().len(), 2);

    let running = meet(any()).on_panic(OnPanic::StopServer).start().unwrap();
    let mut other = HttpClient::connect(tcp(&running, 0));
    other.get("/");
    let mut client = HttpClient::connect(tcp(&running, 0));
    client.send_get("/panic");
    let error = running.join().unwrap_err(); // without a stop
    assert!(error.to_string().ends_with("panicked: a bug"), "{error}");
    assert_eq!(client.read_reply().unwrap().status, 500);
    assert_eq!(other.read_to_end().unwrap(), b"", "it was idle");
}

/// Has another thread answer.
struct MailboxHandler(Option<Mailbox<Vec<u8>>>);

impl ServerApp for MailboxHandler {
    type Data = ();
    type Message = Vec<u8>;

    fn start(&mut self, mailbox: Mailbox<Vec<u8>>) {
        self.0 = Some(mailbox);
    }

    fn handle(
        &mut self,
        context: &mut ExchangeContext,
        _: &mut ServerConnection,
        (): &mut (),
        event: Event<'_, Server>,
    ) {
        if let Event::Head { head, .. } = event {
            let (mailbox, exchange, target) =
                (self.0.clone().unwrap(), context.exchange, head.target);
            let message = target.to_vec();
            std::thread::spawn(move || mailbox.post(exchange, message));
        }
    }

    fn handle_message(
        &mut self,
        context: &mut ExchangeContext,
        reply: &mut ServerConnection,
        (): &mut (),
        message: Vec<u8>,
    ) {
        let (stream, len) = (context.exchange.stream, BodyLen::Exact(message.len() as u64));
        reply.send_head(stream, Response::new(200, Headers::EMPTY), len).unwrap();
        reply.send_data(stream, Bytes::from(message).into()).unwrap();
        reply.send_end(stream, Headers::EMPTY).unwrap();
    }
}

#[test]
fn other_threads_post_to_the_requesting_thread() {
    let host = Host::new(|_| Ok(MailboxHandler(None))).loop_options(requested_options());
    let running = host.listen(any()).threads(2).start().unwrap();
    for n in 0..20 {
        let mut client = HttpClient::connect(tcp(&running, 0));
        assert_eq!(client.get(&format!("/{n}")).body, format!("/{n}").into_bytes());
        assert_eq!(client.get("/again").body, b"/again");
    }
    running.stop();
    running.join().unwrap();
}

#[test]
fn an_application_loop_takes_opened_sockets() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let opened = Listen::unix(&path).open().unwrap();
    assert_eq!((&opened.address, opened.sockets.len()), (&Address::Unix(path.clone()), 1));
    served_by_hand(opened, &path);
    assert!(!path.exists());
}

fn served_by_hand(opened: fulmar_host::OpenListener, path: &Path) {
    use fulmar_drive::{Epoll, Reactor};
    use fulmar_server::{ServerEngine, Stop};
    let engine = ServerEngine::new(fulmar_sys::now(), app(), Limits::default(), Stop::new());
    let mut reactor = Reactor::new(engine, Epoll::new().unwrap());
    for socket in &opened.sockets {
        let id = reactor.listen(socket.try_clone().unwrap()).unwrap();
        reactor.engine.add_listener(id, opened.layers.clone());
    }
    let (stream, (sender, receiver)) = (UnixStream::connect(path).unwrap(), mpsc::channel());
    let asking = std::thread::spawn(move || sender.send(send_request(stream, "/bytes/7")));
    let answer = loop {
        reactor.turn().unwrap();
        if let Ok(answer) = receiver.try_recv() {
            break answer;
        }
        if reactor.engine.connections() == 0 && reactor.stats().accepted > 0 {
            break receiver.recv_timeout(PATIENCE).unwrap();
        }
    };
    asking.join().unwrap().unwrap();
    assert_eq!(answer.len(), 7);
}
