//! What TLS may cost: system calls and memory, on real sockets.
#![forbid(unsafe_code)]

use std::path::Path;
use std::time::Duration;

use allocation_counter::measure;
use fulmar_engine::SocketId;
use fulmar_proto::Layer;
use fulmar_serve::{Files, FilesOptions, Options};
use fulmar_server::{Calls, Limits, ServerEngine, Stop};
use fulmar_sys::{self as sys, Call, Ledger};
use fulmar_tests::asker::Asker;
use fulmar_tests::certs::{Certs, Who};
use fulmar_tests::https::{self, Https, client_tls, layers, server_tls};
use fulmar_tests::loops::{AppLoop, LISTENER, Loop, OwnLoop};
use fulmar_tests::tls_end::TlsEnd;
use fulmar_tls::ClientTls;

type Client = OwnLoop<Asker>;

fn client() -> Client {
    OwnLoop::start(Asker::default()).0
}

fn connect(client: &mut Client, tls: &ClientTls, address: std::net::SocketAddr) -> SocketId {
    let layer: Box<dyn Layer> = Box::new(tls.session("localhost").expect("a name"));
    client.engine().connect(address, Some(layer))
}

/// Asks, and turns until the answer has come.
fn ask(client: &mut Client, socket: SocketId, target: &str) -> (u16, Vec<u8>) {
    client.engine().get(socket, target);
    client.0.try_turn().expect("a turn"); // what was asked outside of a turn
    client.turn_until(|client| !client.engine().book.answers.is_empty());
    client.engine().book.answers.pop().expect("it has come")
}

#[test]
fn a_request_on_a_kept_connection_is_one_send_and_one_recv() {
    let certs = Certs::new();
    let server = Https::start(&certs, Who::Server);
    let mut client = client();
    let socket = connect(&mut client, &client_tls(&certs), server.address);
    for _ in 0..3 {
        assert_eq!(ask(&mut client, socket, "/bytes/128").1.len(), 128); // tickets come meanwhile
    }
    let before = Ledger::here();
    for _ in 0..500 {
        assert_eq!(ask(&mut client, socket, "/bytes/128").0, 200);
    }
    let spent = Ledger::here() - before;
    for call in [Call::send, Call::recv] {
        assert_eq!(spent.count(call).calls, 500, "{}", call.name());
    }
    assert_eq!(spent.eagain(), 0);
    assert_eq!(spent.total(), 1_000 + spent.count(Call::epoll_wait).calls, "nothing else");
}

#[test]
fn files_reach_the_client_through_tls() {
    let certs = Certs::new();
    let dir = tempfile::tempdir().expect("a directory");
    let content: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 253) as u8).collect();
    std::fs::write(dir.path().join("large"), &content).expect("room");
    std::fs::write(dir.path().join("small"), &content[..1_000]).expect("room");
    let (mut server, address) = files(dir.path(), &certs);
    let mut client = client();
    let socket = connect(&mut client, &client_tls(&certs), address);
    for (target, len) in [("/small", 1_000), ("/large", 1_000_000), ("/small", 1_000)] {
        client.engine().get(socket, target);
        let before = Ledger::here();
        server.turn_until(|server| {
            client.0.try_turn().expect("a turn");
            server.0.try_turn().expect("a turn");
            !client.engine().book.answers.is_empty()
        });
        let (status, body) = client.engine().book.answers.pop().expect("it has come");
        assert!(status == 200 && body == content[..len], "{target}: {status}, {}", body.len());
        let spent = Ledger::here() - before;
        assert_eq!(spent.count(Call::sendfile).calls, 0, "TLS must see the bytes");
        let reads = spent.count(Call::pread64).calls;
        // What is small lies in the server's cache.
        assert!(len < 100_000 || (8..30).contains(&reads), "{target}: {reads}");
    }
}

fn files(
    root: &Path,
    certs: &Certs,
) -> (OwnLoop<ServerEngine<Calls<Files>>>, std::net::SocketAddr) {
    let options =
        FilesOptions { root: root.to_owned(), site: Options::default(), test_endpoints: false };
    let files = Files::open(&options).expect("a directory");
    let calls = Calls::new(files, sys::now(), sys::wall_clock);
    let tls = server_tls(certs, Who::Server);
    let mut engine = ServerEngine::new(sys::now(), calls, Limits::default(), Stop::new());
    engine.add_listener(LISTENER, Some(layers(tls)));
    OwnLoop::start(engine)
}

#[test]
fn an_idle_session_holds_no_buffer() {
    let certs = Certs::new();
    let (tls, server_config) = (client_tls(&certs), server_tls(&certs, Who::Server));
    let make = || {
        let mut client = TlsEnd::new(tls.session("localhost").expect("a name"));
        let mut server = TlsEnd::new(server_config.session().expect("a session"));
        for _ in 0..6 {
            server.wire.extend_from_slice(&client.take());
            server.open().expect("a handshake");
            client.wire.extend_from_slice(&server.take());
            client.open().expect("a handshake");
        }
        client.say(&[b'x'; 100_000]);
        server.wire.extend_from_slice(&client.take());
        server.open().expect("a request");
        server.say(&[b'x'; 100_000]);
        client.wire.extend_from_slice(&server.take());
        client.open().expect("an answer");
        assert_eq!((client.above.len(), server.above.len()), (100_000, 100_000));
        (client.layer, server.layer) // what belongs to the wire goes
    };
    let _first = make(); // what belongs to the thread comes
    let mut clients = Vec::with_capacity(SESSIONS);
    let mut servers = Vec::with_capacity(SESSIONS);
    let each = |bytes: i64| bytes.unsigned_abs() / SESSIONS as u64;
    let both = measure(|| {
        for _ in 0..SESSIONS {
            let (client, server) = make();
            clients.push(client);
            servers.push(server);
        }
    });
    let freed = measure(|| clients.clear());
    let (both, client) = (each(both.bytes_current), each(freed.bytes_current));
    println!("idle: a client's session {client} bytes, a server's {}", both - client);
    assert!(client <= 4_096 && both - client <= 4_096, "{client}, {}", both - client);
}

const SESSIONS: usize = 100;

#[test]
fn an_application_loop_serves_tls_too() {
    let certs = Certs::new();
    let tls = server_tls(&certs, Who::Server);
    type Server = AppLoop<ServerEngine<fulmar_tests::app::App>>;
    let (mut server, address) = Server::start(https::server(tls, Limits::default()));
    let mut client = client();
    let socket = connect(&mut client, &client_tls(&certs), address);
    for size in [1, 1_000_000, 128] {
        client.engine().get(socket, &format!("/bytes/{size}"));
        server.turn_until(|server| {
            client.0.try_turn().expect("a turn");
            server.turn(Duration::ZERO);
            !client.engine().book.answers.is_empty()
        });
        let (status, body) = client.engine().book.answers.pop().expect("it has come");
        assert_eq!((status, body.len()), (200, size));
    }
    client.engine().leave(socket);
    server.turn_until(|_| {
        client.0.try_turn().expect("a turn");
        !client.engine().holds(socket)
    });
    server.turn_until(|server| server.engine().connections() == 0);
}
