//! Destinations of connections and options of their sockets: Unix sockets, local addresses,
//! interfaces, probes; and the errors of unusable ones.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fulmar_drive::{
    Change, Epoll, ExternalLoop, ListenOptions, Reactor, UnixListenOptions, listen, listen_unix,
};
use fulmar_engine::{End, Endpoint, KeepAlive, ListenerId, Peer, SocketId};
use fulmar_server::{Limits, ServerEngine};
use fulmar_sys::{self as sys, Call, Ledger};
use fulmar_tests::app::{App, server};
use fulmar_tests::fetch::FetchEngine;
use fulmar_tests::loops::{
    AppLoop, Bytewise, Edge, LevelTriggered, Loop, OneShot, OwnLoop, PollLoop,
};
use fulmar_tests::process::PATIENCE;
use rustix::net::sockopt;

fn unix(path: &Path) -> Endpoint {
    Peer::Unix(path.to_owned()).into()
}

/// Unique names: a path, and the same as an abstract name.
fn names(dir: &Path) -> [PathBuf; 2] {
    let path = dir.join("socket");
    let name = format!("@{}", path.display());
    [path, name.into()]
}

fn unix_server(path: &Path) -> Reactor<ServerEngine<App>, Epoll> {
    let listener = listen_unix(path, UnixListenOptions::default()).expect("a socket");
    let mut reactor = Reactor::new(server(Limits::default()), Epoll::new().expect("a descriptor"));
    assert_eq!(reactor.listen(listener).expect("a listener"), ListenerId(0));
    reactor
}

/// Engines over Unix sockets, by path and by abstract name: several exchanges, then a large one.
fn a_unix_socket_is_as_good_as_tcp<L: Loop<Engine = FetchEngine>>() {
    let dir = tempfile::tempdir().expect("a directory");
    for name in names(dir.path()) {
        let mut server = unix_server(&name);
        let (mut client, _) = L::start(FetchEngine::default());
        let socket = client.with(|fetch, now| fetch.start(now, unix(&name), "/bytes/10", None));
        let len = 1_000_000 / L::SLOWER;
        for target in ["/bytes/3", &format!("/bytes/{len}")] {
            client.turn_until(|client| {
                server.try_turn().expect("a turn");
                client.engine().book.done.contains_key(&socket)
            });
            client.with(|fetch, now| fetch.again(now, socket, target, None));
        }
        client.turn_until(|client| {
            server.try_turn().expect("a turn");
            client.engine().book.done.get(&socket).is_some_and(|body| body.len() == len)
        });
        drop(server);
        client.turn_until(|client| client.engine().book.gone.len() == 1);
    }
}

#[test]
fn a_unix_socket_in_our_loop() {
    a_unix_socket_is_as_good_as_tcp::<OwnLoop<_>>();
    a_unix_socket_is_as_good_as_tcp::<PollLoop<_>>();
    a_unix_socket_is_as_good_as_tcp::<Bytewise<OwnLoop<_>>>();
}

#[test]
fn a_unix_socket_in_a_level_triggered_loop() {
    a_unix_socket_is_as_good_as_tcp::<AppLoop<_, LevelTriggered>>();
    a_unix_socket_is_as_good_as_tcp::<Bytewise<AppLoop<_, LevelTriggered>>>();
}

#[test]
fn a_unix_socket_in_an_edge_triggered_loop() {
    a_unix_socket_is_as_good_as_tcp::<AppLoop<_, Edge>>();
    a_unix_socket_is_as_good_as_tcp::<Bytewise<AppLoop<_, Edge>>>();
}

#[test]
fn a_unix_socket_in_a_one_shot_loop() {
    a_unix_socket_is_as_good_as_tcp::<AppLoop<_, OneShot>>();
    a_unix_socket_is_as_good_as_tcp::<Bytewise<AppLoop<_, OneShot>>>();
}

fn reactor() -> Reactor<FetchEngine, Epoll> {
    Reactor::new(FetchEngine::default(), Epoll::new().expect("a descriptor"))
}

/// A Unix socket connects at once, without an edge: connect, request and send take one turn.
#[test]
fn a_request_over_a_unix_socket_is_one_turn_of_five_calls() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    let listener = UnixListener::bind(&path).expect("a socket");
    let mut client = reactor();
    let before = Ledger::here();
    let socket = client.with(|fetch, now| fetch.start(now, unix(&path), "/", None));
    client.turn().expect("a turn that does not wait: there is something to send");
    let spent = Ledger::here() - before;
    for call in [Call::epoll_wait, Call::socket, Call::connect, Call::send, Call::epoll_ctl] {
        assert_eq!(spent.count(call).calls, 1, "{}", call.name());
    }
    assert_eq!((spent.total(), spent.eagain()), (5, 0));
    assert_eq!(client.engine.book.connected, [socket]);
    let (mut peer, _) = listener.accept().expect("it has connected");
    let mut request = [0; 4];
    peer.read_exact(&mut request).expect("it has asked");
    peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").expect("room");
    let before = Ledger::here();
    client.turn().expect("a turn");
    assert_eq!(client.engine.book.done[&socket], b"ok");
    assert_eq!((Ledger::here() - before).total(), 2, "one wait, one receive");
}

/// Sends a request to `endpoint`, and takes one turn: the error.
fn fails(endpoint: Endpoint) -> io::Error {
    let mut client = reactor();
    let socket = client.engine.start(sys::now(), endpoint, "/", None);
    client.try_turn().expect("a turn");
    assert!(client.engine.book.connected.is_empty());
    match client.engine.book.gone.remove(&socket) {
        Some(End::Failed(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn immediate_failures_are_reported_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    assert_eq!(fails(unix(&path)).kind(), io::ErrorKind::NotFound);
    drop(UnixListener::bind(&path).expect("a socket"));
    assert_eq!(fails(unix(&path)).kind(), io::ErrorKind::ConnectionRefused);
    for (path, why) in [("/x".repeat(54), "107 bytes"), (String::new(), "empty")] {
        let error = fails(unix(Path::new(&path)));
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains(why), "{error}");
    }
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 80));
    let interface = Some("fulmar-none".into());
    let error = fails(Endpoint { interface, ..Endpoint::to(anywhere) });
    assert!(error.to_string().contains("fulmar-none: there is no such"), "{error}");
    let local = Some(SocketAddr::from(([192, 0, 2, 1], 0)));
    let error = fails(Endpoint { local, ..Endpoint::to(anywhere) });
    assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
    assert!(error.to_string().contains("192.0.2.1"), "{error}");
}

/// A full backlog is an error, not "in progress": no event would follow.
#[test]
fn a_full_backlog_is_reported_and_recovers() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    let options = UnixListenOptions { backlog: 1, ..UnixListenOptions::default() };
    let listener = listen_unix(&path, options).expect("a socket");
    let mut client = reactor();
    let full = |client: &mut Reactor<FetchEngine, Epoll>| {
        client.engine.start(sys::now(), unix(&path), "/", None);
        client.try_turn().expect("a turn");
        client.engine.book.gone.values().next().map(why)
    };
    let mut waiting = 0;
    let text = loop {
        match full(&mut client) {
            Some(text) => break text,
            None => waiting += 1,
        }
        assert!(waiting < 10, "the backlog has an end");
    };
    assert!(waiting > 0 && text.contains("try again later"), "{text}");
    client.engine.book.gone.clear();
    let (accepted, peer) = sys::accept(std::os::fd::AsFd::as_fd(&listener)).expect("somebody");
    assert_eq!(peer, sys::UNNAMED);
    assert_eq!(full(&mut client), None, "there is room again");
    drop(accepted);
}

fn why(end: &End) -> String {
    match end {
        End::Failed(error) => {
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            error.to_string()
        }
        end => panic!("{end:?}"),
    }
}

/// An established connection in the application's loop, and its descriptor.
fn connected(endpoint: Endpoint) -> (AppLoop<FetchEngine>, SocketId, i32) {
    let mut client = AppLoop::new(Reactor::new(FetchEngine::default(), ExternalLoop::new()));
    let socket = client.with(|fetch, now| fetch.start(now, endpoint, "/", None));
    client.turn_until(|client| {
        assert!(client.engine().book.gone.is_empty(), "{:?}", client.engine().book.gone);
        !client.engine().book.connected.is_empty()
    });
    let watched = |change: &Change| match change {
        Change::Watch { fd, .. } => Some(*fd),
        _ => None,
    };
    let fd = client.changes.iter().find_map(watched).expect("it is watched");
    (client, socket, fd)
}

fn listening() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a port");
    let port = listener.local_addr().expect("bound").port();
    (listener, (Ipv4Addr::LOCALHOST, port).into())
}

#[test]
fn the_local_address_of_a_connection_is_configurable() {
    let (listener, address) = listening();
    let local = SocketAddr::from(([127, 0, 0, 9], 0));
    let (client, ..) = connected(Endpoint { local: Some(local), ..Endpoint::to(address) });
    let (_, peer) = listener.accept().expect("it has connected");
    assert_eq!(peer.ip(), local.ip());
    drop(client);
}

#[test]
fn keepalive_probes_follow_their_options() {
    let (_listener, address) = listening();
    let keep_alive = KeepAlive {
        idle: Duration::from_secs(30),
        interval: Duration::from_millis(4_500),
        count: 3,
    };
    let before = Ledger::here();
    let endpoint = Endpoint { keep_alive: Some(keep_alive), ..Endpoint::to(address) };
    let (client, _, fd) = connected(endpoint);
    let options = (Ledger::here() - before).count(Call::setsockopt).calls;
    assert_eq!(options, 4, "and TCP_NODELAY not before the second send");
    let fd = client.reactor.descriptor(fd).expect("it is open");
    assert!(sockopt::socket_keepalive(fd).expect("a socket"));
    assert_eq!(sockopt::tcp_keepidle(fd).expect("a socket"), Duration::from_secs(30));
    assert_eq!(sockopt::tcp_keepintvl(fd).expect("a socket"), Duration::from_secs(5));
    assert_eq!(sockopt::tcp_keepcnt(fd).expect("a socket"), 3);
    let before = Ledger::here();
    let (client, _, fd) = connected(Endpoint::to(address));
    assert_eq!((Ledger::here() - before).count(Call::setsockopt).calls, 0);
    let fd = client.reactor.descriptor(fd).expect("it is open");
    assert!(!sockopt::socket_keepalive(fd).expect("a socket"));
}

/// Since Linux 5.7 any process may bind a socket to an interface once; before, it needs a
/// capability.
#[test]
fn the_interface_of_a_connection_is_configurable() {
    let (_listener, address) = listening();
    let mut client = AppLoop::<_, LevelTriggered>::new(Reactor::new(
        FetchEngine::default(),
        ExternalLoop::new(),
    ));
    let endpoint = Endpoint { interface: Some("lo".into()), ..Endpoint::to(address) };
    let socket = client.with(|fetch, now| fetch.start(now, endpoint, "/", None));
    client.turn_until(|client| {
        client.engine().book.connected.len() + client.engine().book.gone.len() == 1
    });
    match client.engine().book.gone.get(&socket) {
        None => {}
        Some(End::Failed(error)) => assert!(error.to_string().contains("CAP_NET_RAW"), "{error}"),
        Some(end) => panic!("{end:?}"),
    }
}

#[test]
fn a_stale_socket_is_replaced_and_nothing_else_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    let options = UnixListenOptions::default();
    let first = listen_unix(&path, options).expect("a socket");
    assert_eq!(mode(&path), 0o600, "its owner's alone, unless told otherwise");
    let error = listen_unix(&path, options).expect_err("somebody answers");
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    UnixStream::connect(&path).expect("the first is still there");
    drop(first);
    let options = UnixListenOptions { permissions: Some(0o666), ..options };
    let second = listen_unix(&path, options).expect("nobody answers any more");
    assert_eq!(mode(&path), 0o666, "whatever the umask");
    UnixStream::connect(&path).expect("the second");
    drop(second);
    let options = UnixListenOptions { permissions: None, ..options };
    let _third = listen_unix(&path, options).expect("nobody answers any more");
    let folder = dir.path().join("folder");
    fs::create_dir(&folder).expect("room");
    assert_eq!(mode(&path), mode(&folder), "what the umask leaves of all");
    let file = dir.path().join("file");
    fs::write(&file, "precious").expect("room");
    let error = listen_unix(&file, options).expect_err("it is no socket");
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&file).expect("untouched"), b"precious");
}

/// One reactor accepts from both kinds of listener.
#[test]
fn unix_and_tcp_listeners_share_a_reactor() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    let mut server = unix_server(&path);
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let (listener, address) = listen(any, ListenOptions::default()).expect("a port");
    server.listen(listener).expect("a listener");
    let mut client = reactor();
    for endpoint in [unix(&path), Endpoint::to(address)] {
        client.engine.start(sys::now(), endpoint, "/bytes/5", None);
    }
    let start = sys::now();
    while client.engine.book.done.len() < 2 {
        assert!(sys::now() - start < PATIENCE, "nothing happens any more");
        client.try_turn().expect("a turn");
        server.try_turn().expect("a turn");
    }
    assert_eq!(server.stats().accepted, 2);
}
