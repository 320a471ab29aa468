//! Mode tcp of the proxy, over real sockets.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;

use fulmar_proxy::Proxy;
use fulmar_tests::loops::{Loop, client, turn_while};
use fulmar_tests::tcp_proxy::{backend, config, frontend, proxy};
use fulmar_tests::test_proxy::server;
use fulmar_tests::tests_in_every_loop;
use fulmar_tests::threads::serve_each;

tests_in_every_loop! {
    at_any_pace: [
        an_echo_returns,
        a_client_may_end_first,
        a_server_may_end_first,
        a_server_may_send_first,
    ],
    at_full_speed: [
        large_streams_pass_both_ways_at_once,
    ],
}

/// Reads to the end, then sends the same.
fn echo(mut stream: TcpStream) {
    let mut heard = Vec::new();
    if stream.read_to_end(&mut heard).is_ok() {
        let _ = stream.write_all(&heard);
    }
}

fn start<L: Loop<Engine = Proxy>>(origin: SocketAddr) -> (L, SocketAddr) {
    let (proxy, ..) = proxy(config(frontend(), [backend([server("one", origin)])]), None);
    L::start(proxy)
}

fn an_echo_returns<L: Loop<Engine = Proxy>>() {
    let (mut driver, address) = start::<L>(serve_each(|mut stream| {
        let mut heard = [0; 5];
        stream.read_exact(&mut heard).expect("a question");
        stream.write_all(&heard).expect("somebody listens");
    }));
    turn_while(&mut driver, || {
        for _ in 0..3 {
            let mut stream = client(address);
            stream.write_all(b"hello").expect("somebody listens");
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).expect("an answer");
            assert_eq!(answer, b"hello");
        }
    });
    driver.turn_until(|driver| driver.watched().len() <= 1);
}

fn a_client_may_end_first<L: Loop<Engine = Proxy>>() {
    let (mut driver, address) = start::<L>(serve_each(echo));
    turn_while(&mut driver, || {
        let mut stream = client(address);
        stream.write_all(b"all of it").expect("somebody listens");
        stream.shutdown(Shutdown::Write).expect("it is open");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        assert_eq!(answer, b"all of it");
    });
    driver.turn_until(|driver| driver.watched().len() <= 1);
}

fn a_server_may_end_first<L: Loop<Engine = Proxy>>() {
    let (mut driver, address) = start::<L>(serve_each(|mut stream| {
        stream.write_all(b"bye").expect("somebody listens");
        stream.shutdown(Shutdown::Write).expect("it is open");
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).expect("what was left to say");
        assert_eq!(heard, b"still here");
    }));
    turn_while(&mut driver, || {
        let mut stream = client(address);
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        assert_eq!(answer, b"bye");
        stream.write_all(b"still here").expect("this way is open");
    });
    driver.turn_until(|driver| driver.watched().len() <= 1);
}

fn a_server_may_send_first<L: Loop<Engine = Proxy>>() {
    let (mut driver, address) = start::<L>(serve_each(|mut stream| {
        stream.write_all(b"220 ready\r\n").expect("somebody listens");
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).expect("a word");
        assert_eq!(heard, b"QUIT\r\n");
    }));
    turn_while(&mut driver, || {
        let mut stream = client(address);
        let mut greeting = [0; 11];
        stream.read_exact(&mut greeting).expect("a greeting");
        stream.write_all(b"QUIT\r\n").expect("somebody listens");
        stream.shutdown(Shutdown::Write).expect("it is open");
        assert_eq!(stream.read(&mut greeting).expect("an end"), 0);
    });
    driver.turn_until(|driver| driver.watched().len() <= 1);
}

/// 10 MB each way at the same time, with readers that fall behind.
fn large_streams_pass_both_ways_at_once<L: Loop<Engine = Proxy>>() {
    let (mut driver, address) = start::<L>(serve_each(|stream| exchange(stream, 2)));
    turn_while(&mut driver, || exchange(client(address), 1));
    driver.turn_until(|driver| driver.watched().len() <= 1);
}

/// Sends the bytes of `seed` and reads those of the other side.
fn exchange(stream: TcpStream, seed: u64) {
    let mut reader = stream.try_clone().expect("a descriptor");
    let heard = thread::spawn(move || {
        let mut heard = Vec::new();
        let mut piece = vec![0; 100_000];
        loop {
            let n = reader.read(&mut piece).expect("it is open");
            heard.extend_from_slice(&piece[..n]);
            if n == 0 {
                return heard;
            }
            thread::yield_now(); // falls behind
        }
    });
    let mut stream = stream;
    stream.write_all(&text(seed)).expect("somebody listens");
    stream.shutdown(Shutdown::Write).expect("it is open");
    assert!(heard.join().expect("a reader") == text(3 - seed), "every byte, and in order");
}

fn text(seed: u64) -> Vec<u8> {
    let mut text = vec![0; 10_000_000];
    fastrand::Rng::with_seed(seed).fill(&mut text);
    text
}
