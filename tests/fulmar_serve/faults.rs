//! `fulmar serve` when something runs out: descriptors, connections, the disk under the log.

use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use fulmar_tests::http::Client;
use fulmar_tests::process::{PATIENCE, Serve, eventually, fulmar, peer, text};
use fulmar_tests::tree::{Tree, noise};
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

/// With 64 descriptors, which may be raised to 128.
fn start_limited(root: &Path, arguments: &[&str]) -> Serve {
    let mut command = peer("sh");
    command.args(["-c", "ulimit -Sn 64; ulimit -Hn 128; exec \"$@\"", "sh"]).arg(fulmar());
    command.arg("serve").arg(root).args(["--listen", "127.0.0.1:0"]).args(arguments);
    Serve::start_command(&mut command, true)
}

/// The most that a process may have open from now on.
fn limit(serve: &Serve, descriptors: u64) {
    let pid = Pid::from_raw(serve.process.id().try_into().unwrap());
    let limit = Rlimit { current: Some(descriptors), maximum: Some(descriptors) };
    prlimit(pid, Resource::Nofile, limit).unwrap();
}

/// A client that has begun a request and keeps the rest: the kernel tells of nobody who is silent.
fn beginning(serve: &Serve) -> Client {
    let mut client = Client::connect(serve.address);
    client.send("GET /");
    client
}

/// Lets `wall` go by while a client waits for bytes that do not come; the processor time that the
/// server took meanwhile, in hundredths of a second. Who spins takes all of it, on a busy machine
/// his share.
fn ticks_while_waiting(serve: &Serve, client: &mut Client, wall: Duration) -> u64 {
    let before = serve.process.cpu_ticks();
    client.socket().set_read_timeout(Some(wall)).unwrap();
    let waited = client.read_head();
    assert!(waited.is_err(), "nothing was to come: {waited:?}");
    serve.process.cpu_ticks() - before
}

#[test]
fn what_does_not_fit_is_said_with_both_numbers() {
    let tree = Tree::new();
    let mut serve = start_limited(&tree.root(), &["--max-connections", "1000"]);
    let line = serve.process.wait_stderr("do not fit");
    assert!(line.contains("1000 connections") && line.contains("128 descriptors"), "{line}");
    assert_eq!(serve.end(Signal::TERM).status.code(), Some(0));
    // What was not asked for needs no message.
    let ended = start_limited(&tree.root(), &[]).end(Signal::TERM);
    assert_eq!(ended.stderr, "");
}

/// `ulimit -f`: the kernel kills who writes more, unless he has said that he can do without.
#[test]
fn a_file_that_may_not_be_so_long_is_an_error_and_the_end_of_nobody() {
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
    let mut client = Client::connect(serve.address);
    client.send("PUT /new HTTP/1.1\r\nHost: test\r\nContent-Length: 20000\r\n\r\n");
    client.send(noise(20_000));
    assert_eq!(client.read_reply().unwrap().status, 413);
    let out = tree.beside("out");
    let get = limited().args(["get", "--retry", "0", &serve.url("/long"), "-o"]).arg(&out).output();
    let get = get.unwrap();
    let told = text(&get.stderr);
    assert!(get.status.code() == Some(1) && told.contains("File too large"), "{get:?}");
    let left = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), [".fulmar-get.journal"]);
    assert_eq!(Client::connect(serve.address).get("/long").status, 200);
    assert_eq!(serve.end(Signal::TERM).status.code(), Some(0));
}

#[test]
fn idle_clients_beyond_the_limit_cost_no_time_and_are_served_when_others_leave() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let serve = start_limited(&tree.root(), &[]);
    let clients: Vec<_> = (0..200).map(|_| beginning(&serve)).collect();
    let mut last = Client::connect(serve.address);
    last.send_get("/f");
    let ticks = ticks_while_waiting(&serve, &mut last, Duration::from_secs(1));
    assert!(ticks < TICKS_MAX, "{ticks} ticks");
    drop(clients);
    last.socket().set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(last.read_reply().unwrap().body, b"inside");
    assert_eq!(serve.end(Signal::TERM).status.code(), Some(0));
}

#[test]
fn running_out_of_descriptors_costs_no_time_and_is_recovered_from() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let serve = Serve::start(&tree.root(), &["--ledger"]);
    let mut first = beginning(&serve);
    let _ = Client::connect(serve.address).get("/f");
    limit(&serve, serve.process.next_descriptor() + 4);
    let clients: Vec<_> = (0..20).map(|_| beginning(&serve)).collect();
    let mut last = Client::connect(serve.address);
    last.send_get("/f");
    let ticks = ticks_while_waiting(&serve, &mut last, Duration::from_secs(1));
    assert!(ticks < TICKS_MAX, "{ticks} ticks");
    // Those that stand are served meanwhile.
    first.send("f HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(first.read_reply().unwrap().body, b"inside");
    drop(clients);
    last.socket().set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(last.read_reply().unwrap().body, b"inside");
    let ended = serve.end(Signal::TERM);
    assert_eq!(ended.status.code(), Some(0));
    assert!(ended.stderr.contains("descriptors or memory were exhausted"), "{}", ended.stderr);
}

/// Who keeps a connection and asks nothing makes room for who asks.
#[test]
fn idle_clients_are_closed_when_descriptors_run_out() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let serve = Serve::start(&tree.root(), &[]);
    let mut idle: Vec<_> = (0..20)
        .map(|_| {
            let mut client = Client::connect(serve.address);
            assert_eq!(client.get("/f").body, b"inside");
            client
        })
        .collect();
    limit(&serve, serve.process.next_descriptor());
    let mut last = Client::connect(serve.address);
    assert_eq!(last.get("/f").body, b"inside", "though all others stay");
    // The others have been idle for less long: on a busy machine, too short to be closed with it.
    assert!(idle[0].read_to_end().is_ok(), "the oldest made room");
    assert_eq!(serve.end(Signal::TERM).status.code(), Some(0));
}

#[test]
fn more_files_than_descriptors_are_served() {
    let tree = Tree::new();
    let bytes = noise(20_000);
    (0..300).for_each(|n| drop(tree.file(n.to_string(), &bytes)));
    let serve = start_limited(&tree.root(), &[]);
    let mut client = Client::connect(serve.address);
    for n in 0..300 {
        let reply = client.get(&format!("/{n}"));
        assert!(reply.status == 200 && reply.body == bytes, "{n}: {}", reply.status);
    }
}

#[test]
fn remembered_files_make_room_for_clients() {
    let tree = Tree::new();
    (0..50).for_each(|n| drop(tree.file(n.to_string(), noise(20_000))));
    let serve = Serve::start(&tree.root(), &[]);
    let mut client = Client::connect(serve.address);
    // Every file that is remembered keeps a descriptor, and now there is none left.
    (0..50).for_each(|n| drop(client.get(&format!("/{n}"))));
    limit(&serve, serve.process.next_descriptor());
    let mut other = Client::connect(serve.address);
    assert_eq!(other.get("/0").status, 200);
    assert_eq!(client.get("/1").status, 200);
}

#[test]
fn connections_beyond_the_maximum_wait_for_their_turn() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let serve = Serve::start(&tree.root(), &["--max-connections", "10"]);
    let (sender, served) = channel();
    let clients: Vec<_> = (0..20)
        .map(|_| {
            let mut client = Client::connect(serve.address);
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
    // Those that stand are served again, and hold the others up.
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
fn a_full_disk_under_the_log_stops_nothing_and_is_told_once() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let mut serve = Serve::start(&tree.root(), &["--access-log", "/dev/full"]);
    let mut client = Client::connect(serve.address);
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
fn a_log_that_could_never_be_written_is_told_at_the_end() {
    let tree = Tree::new();
    let serve = Serve::start(&tree.root(), &["--access-log", "/dev/full"]);
    let mut client = Client::connect(serve.address);
    (0..3).for_each(|_| drop(client.get("/f")));
    let ended = serve.end(Signal::TERM);
    assert_eq!(ended.status.code(), Some(0));
    assert!(ended.stderr.contains("cannot write the access log"), "{}", ended.stderr);
    assert!(ended.stderr.contains("3 lines of the access log were lost"), "{}", ended.stderr);
}

#[test]
fn clients_that_come_and_go_leave_nothing_behind() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let serve = Serve::start(&tree.root(), &["--test-endpoints"]);
    let mut client = Client::connect(serve.address);
    client.get("/f");
    let before = serve.process.descriptors();
    for n in 0..300 {
        let mut guest = Client::connect(serve.address);
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

/// In a second: what it takes to hear of everybody, and far from a second.
const TICKS_MAX: u64 = 20;
