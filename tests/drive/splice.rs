//! Bodies that are spliced from a socket into a file: in every loop, in the simulator, with errors
//! of the file and the peer, and their cost.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use fulmar_engine::sim::{Faults, Sim};
use fulmar_engine::{End, Endpoint, Peer, Timeouts};
use fulmar_proto::{PeerError, Phase};
use fulmar_server::Limits;
use fulmar_sys::{self as sys, Call, Ledger};
use fulmar_tests::app::{AppServer, server};
use fulmar_tests::fetch::FetchEngine;
use fulmar_tests::loops::{
    AppLoop, Bytewise, Edge, LevelTriggered, Loop, Once, OneShot, OwnLoop, PollLoop,
};

/// What `/bytes/N` answers.
fn pattern(len: usize) -> Vec<u8> {
    let pattern = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-\n";
    pattern.iter().copied().cycle().take(len).collect()
}

/// Client and server in one thread, a turn each, until `done`.
fn until<L: Loop<Engine = FetchEngine>>(
    client: &mut L,
    server: &mut AppServer,
    mut done: impl FnMut(&mut FetchEngine) -> bool,
) {
    client.turn_until(|client| {
        server.turn(Duration::ZERO);
        done(client.engine())
    });
}

fn create(path: &Path) -> File {
    File::create(path).expect("room")
}

/// Two bodies are spliced into two files at the same time, then others arrive as usual on the same
/// connections: no byte is lost at either border.
fn bodies_reach_their_files<L: Loop<Engine = FetchEngine>>() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut server, address) = AppServer::start(server(Limits::default()));
    let (mut client, _) = L::start(FetchEngine::default());
    let lens = [5_000_000 / L::SLOWER, 3_000_001 / L::SLOWER];
    let paths = [dir.path().join("a"), dir.path().join("b")];
    let sockets: Vec<_> = (0..2)
        .map(|at| {
            let (target, file) = (format!("/bytes/{}", lens[at]), create(&paths[at]));
            client.with(|fetch, now| fetch.start(now, Endpoint::to(address), &target, Some(file)))
        })
        .collect();
    until(&mut client, &mut server, |fetch| fetch.book.done.len() == 2);
    for at in 0..2 {
        let content = fs::read(&paths[at]).expect("it was made");
        assert!(content == pattern(lens[at]), "{} of {} bytes", content.len(), lens[at]);
    }
    assert!(client.engine().spliced > 0, "some of it never was in our memory");
    for (socket, len) in sockets.iter().zip([1_000, 0]) {
        client.with(|fetch, now| fetch.again(now, *socket, &format!("/bytes/{len}"), None));
    }
    until(&mut client, &mut server, |fetch| fetch.book.done.len() == 2);
    assert_eq!(client.engine().book.done[&sockets[0]], pattern(1_000));
    let third = dir.path().join("c");
    let file = create(&third);
    client.with(|fetch, now| fetch.again(now, sockets[1], "/bytes/20000", Some(file)));
    until(&mut client, &mut server, |fetch| fetch.book.done.contains_key(&sockets[1]));
    assert!(fs::read(&third).expect("it was made") == pattern(20_000));
    assert!(client.engine().book.gone.is_empty());
}

/// A write error of a file is reported as such, and ends only its transfer; the bytes in its pipe
/// reach no other file.
fn a_file_that_fails_fails_alone<L: Loop<Engine = FetchEngine>>() {
    let dir = tempfile::tempdir().expect("a directory");
    let good = dir.path().join("good");
    let (mut client, _) = L::start(FetchEngine::default());
    let mut begin = |file| {
        let (listener, address) = scripted();
        let endpoint = Endpoint::to(address);
        let socket = client.with(|fetch, now| fetch.start(now, endpoint, "/", Some(file)));
        let (mut peer, _) = listener.accept().expect("it connects");
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n";
        // alone: a body that arrives with it goes through memory
        peer.write_all(head).expect("room");
        client.turn_until(|client| client.engine().is_receiving(socket));
        (socket, peer)
    };
    let (bad, mut bad_peer) = begin(unwritable(dir.path()));
    let (other, mut other_peer) = begin(create(&good));
    bad_peer.write_all(&[b'!'; 1_000]).expect("room");
    client.turn_until(|client| !client.engine().book.gone.is_empty());
    match &client.engine().book.gone[&bad] {
        End::File(error) => assert_eq!(error.raw_os_error(), Some(EBADF), "{error}"),
        end => panic!("{end:?}"),
    }
    let body = pattern(10_000);
    std::thread::scope(|scope| {
        scope.spawn(|| other_peer.write_all(&body).expect("room, in time"));
        client.turn_until(|client| client.engine().book.done.contains_key(&other));
    });
    assert!(fs::read(&good).expect("it was made") == body, "nothing of the other's");
    assert_eq!((client.engine().spliced, client.engine().book.gone.len()), (10_000, 1));
}

fn unwritable(dir: &Path) -> File {
    fs::write(dir.join("bad"), "").expect("room");
    File::open(dir.join("bad")).expect("it was made")
}

macro_rules! under_all {
    ($($world:ident: $loop:ty),* $(,)?) => { $(
        mod $world {
            use super::*;
            #[test] fn bodies_reach_their_files() { super::bodies_reach_their_files::<$loop>(); }
            #[test] fn a_file_that_fails_fails_alone() {
                super::a_file_that_fails_fails_alone::<$loop>();
            }
        }
    )* };
}

under_all!(
    epoll: OwnLoop<_>,
    level: AppLoop<_, LevelTriggered>,
    edge: AppLoop<_, Edge>,
    one_shot: AppLoop<_, OneShot>,
    registered_once: AppLoop<_, Once>,
    poll: PollLoop<_>,
    epoll_bytewise: Bytewise<OwnLoop<_>>,
    level_bytewise: Bytewise<AppLoop<_, LevelTriggered>>,
    edge_bytewise: Bytewise<AppLoop<_, Edge>>,
    one_shot_bytewise: Bytewise<AppLoop<_, OneShot>>,
);

#[test]
fn a_unix_socket_is_spliced_from_as_well() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, file) = (dir.path().join("socket"), dir.path().join("file"));
    let listener = UnixListener::bind(&path).expect("a socket");
    let (mut client, _) = OwnLoop::start(FetchEngine::default());
    let endpoint = Peer::Unix(path).into();
    client.with(|fetch, now| fetch.start(now, endpoint, "/", Some(create(&file))));
    let (mut peer, _) = listener.accept().expect("it connects");
    peer.write_all(HEAD).expect("room");
    client.turn(Duration::from_millis(100));
    peer.write_all(&pattern(100_000)).expect("room");
    client.turn_until(|client| client.engine().book.done.len() == 1);
    assert!(fs::read(&file).expect("it was made") == pattern(100_000));
    assert_eq!(client.engine().spliced, 100_000);
}

/// A scripted peer.
fn scripted() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    (listener, address)
}

fn begun(client: &mut OwnLoop<FetchEngine>, file: &Path, head: &[u8]) -> TcpStream {
    let (listener, address) = scripted();
    let endpoint = Endpoint::to(address);
    client.with(|fetch, now| fetch.start(now, endpoint, "/", Some(create(file))));
    let (mut peer, _) = listener.accept().expect("it connects");
    client.turn_until(|client| client.engine().book.connected.len() == 1);
    assert!(peer.read(&mut [0; 1_000]).expect("a request") > 0);
    peer.write_all(head).expect("room");
    for _ in 0..3 {
        client.turn(Duration::from_millis(10));
    }
    peer
}

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n";

#[test]
fn a_truncated_body_is_reported_and_partly_stored() {
    for reset in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        let (mut client, _) = OwnLoop::start(FetchEngine::default());
        let mut peer = begun(&mut client, &path, HEAD);
        peer.write_all(&pattern(60_000)).expect("room");
        client.turn_until(|client| client.engine().spliced == 60_000);
        if reset {
            rustix::net::sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).expect("a socket");
        }
        drop(peer);
        client.turn_until(|client| !client.engine().book.gone.is_empty());
        let end = client.engine().book.gone.values().next().expect("one");
        match end {
            End::Peer(PeerError::UnexpectedEof) if !reset => {}
            End::Failed(_) if reset => {}
            end => panic!("{end:?}"),
        }
        assert!(fs::read(&path).expect("it was made") == pattern(60_000));
    }
}

#[test]
fn chunked_bodies_are_never_spliced() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    let (mut client, _) = OwnLoop::start(FetchEngine::default());
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut peer = begun(&mut client, &path, head);
    peer.write_all(b"5\r\nhello\r\n0\r\n\r\n").expect("room");
    client.turn_until(|client| client.engine().book.done.len() == 1);
    assert_eq!((fs::read(&path).expect("made"), client.engine().spliced), (b"hello".to_vec(), 0));
}

/// Spliced bytes are progress: each of them restarts the peer's deadline.
#[test]
fn a_spliced_body_has_the_time_that_any_body_has() {
    let dir = tempfile::tempdir().expect("a directory");
    let timeouts = Timeouts { body: Some(Duration::from_millis(1_500)), ..Timeouts::default() };
    let (mut client, _) = OwnLoop::start(FetchEngine::new(timeouts));
    let mut peer = begun(&mut client, &dir.path().join("file"), HEAD);
    let start = sys::now();
    for n in 1..=4 {
        peer.write_all(&[b'x'; 100]).expect("room");
        client.turn_until(|client| client.engine().spliced == n * 100);
        let step = sys::now();
        while sys::now() - step < Duration::from_millis(500) {
            client.turn(Duration::from_millis(20));
        }
    }
    assert!(
        sys::now() - start > Duration::from_millis(1_900) && client.engine().connections() == 1
    );
    client.turn_until(|client| client.engine().connections() == 0);
    let end = client.engine().book.gone.values().next().expect("one");
    assert!(matches!(end, End::TimedOut(Some(Phase::Body))), "{end:?}");
}

/// 10 MB into a file: the number of calls. Nothing is received, and no byte is copied into our
/// memory.
#[test]
fn ten_megabytes_cost_a_few_calls_for_each_pipe_full() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    let (mut client, _) = OwnLoop::start(FetchEngine::default());
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n";
    let mut peer = begun(&mut client, &path, head);
    let body = pattern(10_000_000);
    peer.set_nonblocking(true).expect("a socket");
    let (mut sent, mut rounds) = (0, 0);
    let before = Ledger::here();
    while client.engine().book.done.is_empty() {
        // As much as there is room for, then a turn: so the count does not depend on timing.
        while let Ok(n @ 1..) = peer.write(&body[sent..]) {
            sent += n;
        }
        client.0.turn().expect("a turn");
        rounds += 1;
        assert!(rounds < 1_000, "{sent} bytes sent, {} arrived", client.engine().spliced);
    }
    let spent = Ledger::here() - before;
    assert!(fs::read(&path).expect("it was made") == body);
    let count = |call| spent.count(call).calls;
    let [splices, waits] = [Call::splice, Call::epoll_wait].map(count);
    assert_eq!((count(Call::recv), count(Call::pipe2), count(Call::fcntl)), (0, 1, 1));
    assert_eq!(spent.total(), splices + waits + 2, "nothing else");
    assert!(spent.eagain() <= waits, "at most one look in vain for each wait");
    assert!(splices + waits <= 120, "{splices} splices in {waits} turns");
    assert_eq!(client.engine().spliced, 10_000_000);
}

#[test]
fn files_equal_the_sent_bodies_on_any_network() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut whole, mut spliced) = (0, 0);
    for seed in 0..60_u16 {
        let faults = Faults { reset: u32::from(seed % 2), stall: 20, ..Faults::default() };
        let now = sys::now();
        let mut sim = Sim::new(now, seed.into(), faults);
        sim.capacity = 1 << (6 + seed % 11);
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 80));
        let (client, server) =
            (sim.add(FetchEngine::default()), sim.add(server(Limits::default())));
        sim.listen(server, peer, 4);
        let lens: [usize; 4] = [0, 1, 3_000, 100_000 >> (seed % 7)];
        let files = lens.map(|len| dir.path().join(format!("{seed}-{len}")));
        let sockets: Vec<_> = (0..4)
            .map(|at| {
                let (target, file) = (format!("/bytes/{}", lens[at]), create(&files[at]));
                sim[client].start(now, Endpoint::to(peer), &target, Some(file))
            })
            .collect();
        let over = |sim: &Sim| {
            sockets.iter().all(|socket| {
                let book = &sim[client].book;
                book.done.contains_key(socket) || book.gone.contains_key(socket)
            })
        };
        assert!(sim.run(1_000_000, over), "seed {seed}: a livelock");
        for at in 0..4 {
            let content = fs::read(&files[at]).expect("it was made");
            assert!(pattern(lens[at]).starts_with(&content), "seed {seed}: something else");
            if sim[client].book.done.contains_key(&sockets[at]) {
                assert_eq!(content.len(), lens[at], "seed {seed}: not all of it");
                whole += 1;
            }
        }
        spliced += sim[client].spliced;
    }
    assert!(whole > 150 && spliced > 100_000, "{whole} bodies, {spliced} bytes");
}

/// `errno(3)` on Linux.
const EBADF: i32 = 9;
