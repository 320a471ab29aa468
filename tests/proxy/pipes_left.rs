//! Pipes are released, whatever happens to the bodies in them. In a process of its own, because it
//! counts descriptors.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use fulmar_drive::{AnySelector, Reactor};
use fulmar_proxy::Proxy;
use fulmar_tests::buffers::bounded;
use fulmar_tests::loops::{Loop, OwnLoop, client, turn_while};
use fulmar_tests::own_process::own_process;
use fulmar_tests::test_proxy::configured;
use fulmar_tests::threads::serve_each;
use rustix::net::sockopt::set_socket_linger;

/// Ends of pipes that this process has (proc(5)).
fn ends() -> usize {
    let all = std::fs::read_dir("/proc/self/fd").expect("there is a /proc");
    let links = all.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("pipe:")).count()
}

/// Answers everything with much.
fn origin() -> SocketAddr {
    serve_each(|mut stream| {
        let mut heard = [0; 4096];
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LEN}\r\n\r\n");
        while stream.read(&mut heard).is_ok_and(|n| n > 0)
            && stream.write_all(head.as_bytes()).is_ok()
            && stream.write_all(&vec![7; LEN]).is_ok()
        {}
    })
}

fn start(maxpipes: usize, to: SocketAddr) -> (OwnLoop<Proxy>, SocketAddr) {
    let (proxy, ..) = configured(&format!(
        "global\n maxpipes {maxpipes}\ndefaults\n mode http\n timeout connect 5s\n \
         timeout client 60s\n timeout server 60s\nfrontend fe\n bind 127.0.0.1:0\n \
         default_backend be\nbackend be\n server s1 {to}\n"
    ));
    OwnLoop::start(proxy)
}

/// A client that reads the beginning of a response.
fn asker(address: SocketAddr) -> TcpStream {
    let mut stream = bounded(client(address));
    stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").expect("somebody listens");
    stream.read_exact(&mut [0; 1_000]).expect("a beginning");
    stream
}

/// Turns until nothing moves.
fn settle(driver: &mut Reactor<Proxy, AnySelector>) {
    let mut quiet = 0;
    while quiet < 3 {
        let before = driver.stats();
        driver.turn_within(Duration::from_millis(20)).expect("a turn");
        quiet = if driver.stats().events == before.events { quiet + 1 } else { 0 };
    }
}

#[test]
fn pipes_are_given_back() {
    own_process(|| {
        let before = ends();
        let to = origin();
        let (mut driver, address) = start(24, to);
        for _ in 0..3 {
            let readers =
                turn_while(&mut driver, || -> Vec<_> { (0..40).map(|_| asker(address)).collect() });
            // Each has a pipe as soon as its client takes no more, as far as there are any.
            driver.turn_until(|_| ends() - before > 2 * KEPT);
            settle(&mut driver.0);
            let used = ends() - before;
            assert!(used > 2 * KEPT && used <= 2 * 24, "{used} ends while all wait");
            for (nth, stream) in readers.into_iter().enumerate() {
                if nth % 2 == 0 {
                    set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket");
                }
            }
            driver.turn_until(|driver| driver.watched().len() <= 1);
            let left = ends() - before;
            assert!(left <= 2 * KEPT, "{left} ends when nobody is there");
        }
        // The remaining pipes are empty: the next client receives its own bytes.
        turn_while(&mut driver, || {
            let mut heard = vec![0; LEN];
            let mut stream = client(address);
            stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").expect("somebody listens");
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                stream.read_exact(&mut heard[..1]).expect("a head");
                head.push(heard[0]);
            }
            stream.read_exact(&mut heard).expect("all of it");
            assert!(heard.iter().all(|byte| *byte == 7));
        });
        let readers =
            turn_while(&mut driver, || -> Vec<_> { (0..5).map(|_| asker(address)).collect() });
        drop(driver); // in the middle
        assert_eq!(ends(), before);
        drop(readers);
    });
}

/// Larger than all buffers on its way.
const LEN: usize = 16_000_000;
/// Unused pipes that are kept.
const KEPT: usize = 16;
