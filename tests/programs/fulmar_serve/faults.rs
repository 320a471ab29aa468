//! `fulmar serve` with exhausted resources: descriptors, connections, the disk of the log.

use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use fulmar_tests::http::HttpClient;
use fulmar_tests::process::{PATIENCE, Serve, eventually, fulmar, peer, text};
use fulmar_tests::tree::{Tree, noise};
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

/// With 64 descriptors, a soft limit that can be raised to 128.
fn start_limited(root: &Path, arguments: &[&str]) -> Serve {
    let mut command = peer("sh");
    command.args(["-c", "ulimit -Sn 64; ulimit -Hn 128; exec \"$@\"", "sh"]).arg(fulmar());
    command.arg("serve").arg(root).args(["--listen", "127.0.0.1:0"]).args(arguments);
    Serve::start_command(&mut command, true)
}

/// Sets the descriptor limit of a running server.
fn limit(serve: &Serve, descriptors: u64) {
    let pid = Pid::from_raw(serve.process.id().try_into().unwrap());
    let limit = Rlimit { current: Some(descriptors), maximum: Some(descriptors) };
    prlimit(pid, Resource::Nofile, limit).unwrap();
}

/// A client that has sent part of a request. The kernel does not report connections without data to
/// `accept`.
fn beginning(serve: &Serve) -> HttpClient {
    let mut client = HttpClient::connect(serve.address);
    client.send("GET /");
    client
}

/// Waits for `wall` while a client waits for bytes that do not arrive. Returns the server's CPU
/// time meanwhile, in hundredths of a second. A spinning server would use all of it, or its share
/// on a busy machine.
fn ticks_while_waiting(serve: &Serve, client: &mut HttpClient, wall: Duration) -> u64 {
    let before = serve.process.cpu_ticks();
    client.socket().set_read_timeout(Some(wall)).unwrap();
    let waited = client.read_head();
    assert!(waited.is_err(), "nothing was to come: {waited:?}");
    serve.process.cpu_ticks() - before
}

#[test]
fn reduced_connections_are_reported_with_both_numbers() {
    let tree = Tree::new();
    let mut serve = start_limited(&tree.root(), &["--max-connections", "1000"]);
    let line = serve.process.wait_stderr("exceed the limit");
    assert!(line.contains("1000 connections") && line.contains("128 file descriptors"), "{line}");
    assert_eq!(serve.end(Signal::TERM).status.code(), Some(0));
    // The default needs no message.
    let ended = start_limited(&tree.root(), &[]).end(Signal::TERM);
    assert_eq!(ended.stderr, "");
}

/// `ulimit -f`: by default the kernel kills a process that writes more (SIGXFSZ).
#[test]
fn exceeding_the_file_size_limit_is_an_error_and_kills_nothing() {
    let tree = Tree::new();
    tree.file("long", noise(20_000));
    let limited = || {
        let mut command = peer("sh"); // in blocks of 512 bytes
        command.args(["-c", "ulimit -f 8; exec \"$@\"", "sh"]).arg(fulmar());
        command
    };
    let mut command = limited();
    command.arg("serve").arg(tree.root()).args(["--listen", "127.0.0.1:0", "--upload"]);
    let serve = Serve::start_command(&mut command, true);
    let mut client = HttpClient::connect(serve.address);
    client.send("PUT /new HTTP/1.1\r\nHost: test\r\nContent-Length: 20000\r\n\r\n");
    client.send(noise(20_000));
    assert_eq!(client.read_reply().unwrap().status, 413);
    let out = tree.turn_while("out");
    let get = limited().args(["get", "--retry", "0", &serve.url("/long"), "-o"]).arg(&out).output();
    let get = get.unwrap();
    let told = text(&get.stderr);
    assert!(get.status.code() == Some(1) && told.contains("File too large"), "{get:?}");
    assert!(!out.exists(), "nothing was received, so nothing is left");
    assert_eq!(HttpClient::connect(serve.address).get("/long").status, 200);
    assert_eq!(serve.end(Signal::TERM).status.code(), Some(0));
}

#[test]
fn idle_clients_beyond_the_limit_cost_no_time_and_are_served_later() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let serve = start_limited(&tree.root(), &[]);
    let clients: Vec<_> = (0..200).map(|_| beginning(&serve)).collect();
    let mut last = HttpClient::connect(serve.address);
    last.send_get("/f");
    let ticks = ticks_while_waiting(&serve, &mut last, Duration::from_secs(1));
    assert!(ticks < TICKS_MAX, "{ticks} ticks");
    drop(clients);
    last.socket().set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(last.read_reply().unwrap().body, b"inside");
    assert_eq!(serve.end(Signal::TERM).status.code(), Some(0));
}

#[test]
fn exhausted_descriptors_cost_no_time_and_recover() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let serve = Serve::start(&tree.root(), &["--ledger"]);
    let mut first = beginning(&serve);
    let _ = HttpClient::connect(serve.address).get("/f");
    limit(&serve, serve.process.next_descriptor() + 4);
    let clients: Vec<_> = (0..20).map(|_| beginning(&serve)).collect();
    let mut last = HttpClient::connect(serve.address);
    last.send_get("/f");
    let ticks = ticks_while_waiting(&serve, &mut last, Duration::from_secs(1));
    assert!(ticks < TICKS_MAX, "{ticks} ticks");
    // Existing connections are served meanwhile.
    first.send("f HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(first.read_reply().unwrap().body, b"inside");
    drop(clients);
    last.socket().set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(last.read_reply().unwrap().body, b"inside");
    let ended = serve.end(Signal::TERM);
    assert_eq!(ended.status.code(), Some(0));
    assert!(ended.stderr.contains("descriptors or memory were exhausted"), "{}", ended.stderr);
}

/// An idle connection is closed to make room for a client with a request.
#[test]
fn idle_clients_are_closed_if_descriptors_are_exhausted() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let serve = Serve::start(&tree.root(), &[]);
    let mut idle: Vec<_> = (0..20)
        .map(|_| {
            let mut client = HttpClient::connect(serve.address);
            assert_eq!(client.get("/f").body, b"inside");
            client
        })
        .collect();
    limit(&serve, serve.process.next_descriptor());
    let mut last = HttpClient::connect(serve.address);
    assert_eq!(last.get("/f").body, b"inside", "though all others stay");
    // The others have been idle for a shorter time; on a busy machine too short to be closed too.
    assert!(idle[0].read_to_end().is_ok(), "the oldest made room");
    assert_eq!(serve.end(Signal::TERM).status.code(), Some(0));
}

#[test]
fn more_files_than_descriptors_are_served() {
    let tree = Tree::new();
    let bytes = noise(20_000);
    (0..300).for_each(|n| drop(tree.file(n.to_string(), &bytes)));
    let serve = start_limited(&tree.root(), &[]);
    let mut client = HttpClient::connect(serve.address);
    for n in 0..300 {
        let reply = client.get(&format!("/{n}"));
        assert!(reply.status == 200 && reply.body == bytes, "{n}: {}", reply.status);
    }
}

#[test]
fn cached_files_make_room_for_clients() {
    let tree = Tree::new();
    (0..50).for_each(|n| drop(tree.file(n.to_string(), noise(20_000))));
    let serve = Serve::start(&tree.root(), &[]);
    let mut client = HttpClient::connect(serve.address);
    // Every cached file keeps a descriptor, and now none is left.
    (0..50).for_each(|n| drop(client.get(&format!("/{n}"))));
    limit(&serve, serve.process.next_descriptor());
    let mut other = HttpClient::connect(serve.address);
    assert_eq!(other.get("/0").status, 200);
    assert_eq!(client.get("/1").status, 200);
}

#[test]
fn connections_beyond_the_maximum_wait() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let serve = Serve::start(&tree.root(), &["--max-connections", "10"]);
    let (sender, served) = channel();
    let clients: Vec<_> = (0..20)
        .map(|_| {
            let mut client = HttpClient::connect(serve.address);
            client.send_get("/f");
            client
        })
        .collect();
    for mut client in clients {
        let sender = sender.clone();
        thread::spawn(move || {
            let body = client.read_reply().unwrap().body;
            let _ = sender.send((client, body));
        });
    }
    let mut first: Vec<_> = (0..10).map(|_| served.recv().unwrap()).collect();
    assert!(served.recv_timeout(Duration::from_millis(300)).is_err(), "an eleventh is served");
    // Existing connections are served again, and delay the others.
    assert!(
        first.iter_mut().all(|(client, body)| body == b"inside" && client.get("/f").status == 200)
    );
    for _ in 0..10 {
        drop(first.pop());
        let next = served.recv_timeout(PATIENCE).expect("its turn has come");
        assert_eq!(next.1, b"inside");
        first.insert(0, next);
    }
}

#[test]
fn a_full_disk_of_the_log_is_reported_once_and_serving_continues() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let mut serve = Serve::start(&tree.root(), &["--access-log", "/dev/full"]);
    let mut client = HttpClient::connect(serve.address);
    assert_eq!(client.get("/f").status, 200);
    let line = serve.process.wait_stderr("cannot write the access log");
    assert!(line.contains("No space left"), "{line}");
    // More than its buffer holds.
    let target = format!("/{}", "x".repeat(2_000));
    for _ in 0..200 {
        assert_eq!(client.get(&target).status, 404);
    }
    assert_eq!(client.get("/f").body, b"inside");
    let ended = serve.end(Signal::TERM);
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(ended.stderr.matches("cannot write the access log").count(), 1, "{}", ended.stderr);
    // None of them could be written.
    assert!(ended.stderr.contains("202 lines of the access log were lost"), "{}", ended.stderr);
}

#[test]
fn an_unwritable_log_is_reported_at_the_end() {
    let tree = Tree::new();
    let serve = Serve::start(&tree.root(), &["--access-log", "/dev/full"]);
    let mut client = HttpClient::connect(serve.address);
    (0..3).for_each(|_| drop(client.get("/f")));
    let ended = serve.end(Signal::TERM);
    assert_eq!(ended.status.code(), Some(0));
    assert!(ended.stderr.contains("cannot write the access log"), "{}", ended.stderr);
    assert!(ended.stderr.contains("3 lines of the access log were lost"), "{}", ended.stderr);
}

#[test]
fn closed_clients_leave_nothing_behind() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let serve = Serve::start(&tree.root(), &["--test-endpoints"]);
    let mut client = HttpClient::connect(serve.address);
    client.get("/f");
    let before = serve.process.descriptors();
    for n in 0..300 {
        let mut guest = HttpClient::connect(serve.address);
        match n % 5 {
            0 => drop(guest.get("/f")),
            1 => guest.send("GET /f HT"),
            2 => guest.send_get("/stream/60000"),
            3 => guest.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 99\r\n\r\nx"),
            _ => {}
        }
    }
    eventually("every connection is gone", || {
        assert_eq!(client.get("/f").status, 200);
        serve.process.descriptors() == before
    });
}

/// In each second: accepting all connections costs less than this, spinning far more.
const TICKS_MAX: u64 = 20;
