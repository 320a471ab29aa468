//! `fulmar serve` under constant signals, with clients that disconnect in the middle of responses,
//! and with limited memory.

use std::io::Write;
use std::thread;

use fulmar_tests::http::{HttpClient, replies};
use fulmar_tests::process::{Serve, eventually, is_asleep, peer};
use fulmar_tests::tree::{Tree, noise};
use rustix::process::Signal;

/// Stopping and continuing a process interrupts every wait of every thread (signal(7)): `EINTR`
/// without a handler.
#[test]
fn interrupted_waits_are_no_errors() {
    let tree = Tree::new();
    tree.file("large", noise(1 << 20));
    let serve = Serve::start(&tree.root(), &["--test-endpoints", "--spin", "off"]);
    let interrupt = || {
        serve.process.pause();
        serve.process.signal(Signal::CONT);
        serve.process.signal(Signal::WINCH);
    };
    let mut client = HttpClient::connect(serve.address);
    let before = client.ledger();
    let mut looks = 0;
    eventually("waits are interrupted", || {
        for _ in 0..10 {
            // On a busy machine it takes a while until it waits again.
            eventually("all threads wait", || is_asleep(serve.process.id()));
            interrupt();
        }
        looks += 1;
        let spent = client.ledger().since(&before);
        let others = spent.total() - spent.of("epoll_wait");
        assert!(others <= 4 * looks, "nothing but the looks: {spent:?}");
        spent.of("epoll_wait") >= 10 + 2 * looks
    });
    for _ in 0..50 {
        client.send_get("/delay/2");
        interrupt();
        assert_eq!(client.read_reply().unwrap().body, b"delayed\n");
        client.send_get("/large");
        interrupt();
        assert!(client.read_reply().unwrap().body == noise(1 << 20));
    }
    let ended = serve.end(Signal::TERM);
    assert_eq!((ended.status.code(), &ended.stderr[..]), (Some(0), ""));
}

/// If a client disconnects in the middle of a response, `send` fails without a signal: from memory,
/// and from a file, where `sendfile` has no flag against it.
#[test]
fn clients_that_disconnect_raise_no_signal() {
    let tree = Tree::new();
    tree.file("large", noise(8 << 20));
    let serve = Serve::start(&tree.root(), &["--test-endpoints"]);
    for target in ["/large", "/stream/60000", "/bytes/90000000"].repeat(10) {
        let mut client = HttpClient::connect(serve.address);
        client.send_get(target);
        client.read_head().unwrap();
    }
    assert_eq!(HttpClient::connect(serve.address).get("/bytes/1").body.len(), 1);
    assert_eq!(serve.end(Signal::TERM).status.code(), Some(0));
}

/// The peak memory of a process in kilobytes (proc(5)): its own pages, and the resident ones of its
/// file, which vary by a few megabytes.
pub(crate) fn peak(serve: &Serve) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", serve.process.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Sends `lead` and then `flood` without end. Returns how many bytes were accepted, and the
/// response.
fn flood(serve: &Serve, lead: &str, flood: &[u8]) -> (usize, Vec<u8>) {
    let mut client = HttpClient::connect(serve.address);
    client.send(lead);
    let batch = flood.repeat((1 << 16) / flood.len());
    let mut socket = client.socket().try_clone().unwrap();
    let taken = thread::spawn(move || {
        let all = FLOOD_MAX / batch.len();
        (0..all).take_while(|_| socket.write_all(&batch).is_ok()).count() * batch.len()
    });
    let answer = client.read_to_end().unwrap_or_default();
    drop(client);
    (taken.join().unwrap(), answer)
}

/// Endless input is cut off and not stored.
#[test]
fn floods_are_cut_off_without_using_memory() {
    let tree = Tree::new();
    let limited = ["-c", "ulimit -v 400000; exec \"$@\"", "sh"];
    let mut command = peer("sh");
    command.args(limited).arg(fulmar_tests::process::fulmar()).arg("serve").arg(tree.root());
    command.args(["--listen", "127.0.0.1:0", "--test-endpoints", "--body-timeout", "2"]);
    let serve = Serve::start_command(&mut command, true);
    assert_eq!(HttpClient::connect(serve.address).get("/bytes/1").body.len(), 1);
    let before = peak(&serve);
    let head = "GET / HTTP/1.1\r\nHost: h\r\n";
    let body = "POST /nothing HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (lead, what) in [
        ("", &b"M"[..]),
        ("", b"\r\n"),
        ("", b"\0"),
        ("GET /", b"x"),
        ("GET / HTTP/1.1", b" "),
        (head, b"x"),
        (head, b"X: y\r\n"),
        ("GET / HTTP/1.1\r\nHost: h\r\nX: ", b"y"),
        (body, b"0"),
        (body, b"1;a=bcdef\r\nx\r\n"),
        ("POST /nothing HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;a=", b"b"),
        (
            "POST /nothing HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            b"X: y\r\n",
        ),
        ("POST /nothing HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999\r\n\r\n", b"x"),
    ] {
        let (taken, answer) = flood(&serve, lead, what);
        assert!(
            taken < FLOOD_MAX - (1 << 17),
            "{lead:?} {:?}: all was taken",
            what.escape_ascii().to_string()
        );
        let all = replies(&answer).unwrap_or_default();
        assert!(all.len() <= 1 && all.iter().all(|reply| reply.status >= 400), "{all:?}");
    }
    let grown = peak(&serve) - before;
    assert!(grown < 32_000, "{grown} kB more than before"); // each flood is far larger
    assert_eq!(HttpClient::connect(serve.address).get("/bytes/1").body.len(), 1);
    eventually("all are closed", || serve.process.descriptors() < 20);
    assert_eq!(serve.end(Signal::TERM).status.code(), Some(0));
}

const FLOOD_MAX: usize = 256 << 20;
