//! Bodies that pass through pipes (splice(2)): complete and in order in every loop, with any slow
//! side; in both modes and directions; and with an early end of either side.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use fulmar_drive::Portions;
use fulmar_haproxy::model::ServerTlsConfig;
use fulmar_proxy::{Proxy, Stat, sum};
use fulmar_sys::{Call, Ledger};
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::https;
use fulmar_tests::loops::{
    AppLoop, Edge, LevelTriggered, Loop, OneShot, OwnLoop, PollLoop, client, turn_while,
};
use fulmar_tests::tcp_proxy;
use fulmar_tests::test_proxy::{configured, server};
use fulmar_tests::tests_in_every_loop;
use fulmar_tests::threads::serve_each;
use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};

tests_in_every_loop! {
    at_any_pace: [],
    at_full_speed: [
        long_responses_pass,
        a_long_request_passes,
        a_response_until_the_end_passes,
        streams_pass_both_ways,
        a_slow_reader_gets_everything,
    ],
}

/// The same bytes for the same seed.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut noise = vec![0; len];
    fastrand::Rng::with_seed(seed).fill(&mut noise);
    noise
}

/// Reads a head, to the byte.
fn head(stream: &mut impl Read) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("a head")
}

/// The number behind `name`.
fn number(head: &str, name: &str) -> usize {
    let text = head.split(name).nth(1).expect("it is there");
    let digits = text.split(|c: char| !c.is_ascii_digit()).next().expect("it is there");
    digits.parse().expect("a number")
}

/// Responds to `/N` with N bytes, and to a body with `true` if it equals the expected noise.
fn serve(mut stream: TcpStream) {
    loop {
        let head = head(&mut stream);
        if head.is_empty() {
            return;
        }
        let body = match head.starts_with("POST") {
            true => {
                let mut heard = vec![0; number(&head, "Content-Length: ")];
                if stream.read_exact(&mut heard).is_err() {
                    return;
                }
                let whole = heard == noise(2, heard.len());
                whole.to_string().into_bytes()
            }
            false => {
                let len = number(&head, "GET /");
                noise(1, len)
            }
        };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        if sent.is_err() {
            return;
        }
    }
}

/// A proxy of mode http with these lines in `global`, and in its frontend.
fn http<L: Loop<Engine = Proxy>>(global: &str, front: &str, to: SocketAddr) -> (L, SocketAddr) {
    L::start(configured(&text(global, front, to)).0)
}

fn text(global: &str, front: &str, to: SocketAddr) -> String {
    format!(
        "global\n{global}\ndefaults\n mode http\n timeout connect 5s\n timeout client 60s\n \
         timeout server 60s\nfrontend fe\n bind 127.0.0.1:0\n default_backend be\n{front}\n\
         backend be\n server s1 {to}\n"
    )
}

fn tcp<L: Loop<Engine = Proxy>>(to: SocketAddr) -> (L, SocketAddr) {
    let config =
        tcp_proxy::config(tcp_proxy::frontend(), [tcp_proxy::backend([server("one", to)])]);
    let (proxy, ..) = tcp_proxy::proxy(config, None);
    L::start(proxy)
}

/// Requests `len` bytes and reads them, `piece` at a time.
fn get(stream: &mut TcpStream, len: usize, piece: usize) {
    write!(stream, "GET /{len} HTTP/1.1\r\nHost: h\r\n\r\n").expect("somebody listens");
    assert_eq!(number(&head(stream), "Content-Length: "), len);
    let mut heard = vec![0; len];
    for piece in heard.chunks_mut(piece) {
        stream.read_exact(piece).expect("it is not over");
        thread::yield_now(); // falls behind
    }
    assert!(heard == noise(1, len), "every byte, and in order");
}

/// Calls for pipes that `act` has led to in this thread.
fn spliced(act: impl FnOnce()) -> u64 {
    let before = Ledger::here();
    act();
    (Ledger::here() - before).count(Call::splice).calls
}

/// Several on one connection, with short ones between them: nothing is lost at any border.
fn long_responses_pass<L: Loop<Engine = Proxy>>() {
    let (mut driver, address) = http::<L>("", "", serve_each(serve));
    let calls = spliced(|| {
        turn_while(&mut driver, || {
            let mut stream = client(address);
            for len in [3_000_000, 10, 1_234_567, 0, 70_000, 5_000_000] {
                get(&mut stream, len, 100_000);
            }
        });
    });
    assert!(calls > 0, "none of it was seen to pass");
    driver.turn_until(|driver| driver.watched().len() <= 2); // the server's is kept
}

fn a_long_request_passes<L: Loop<Engine = Proxy>>() {
    let (mut driver, address) = http::<L>("", "", serve_each(serve));
    let calls = spliced(|| {
        turn_while(&mut driver, || {
            let mut stream = client(address);
            for len in [4_000_000, 10, 300_001] {
                let head = format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {len}\r\n\r\n");
                stream.write_all(head.as_bytes()).expect("somebody listens");
                stream.write_all(&noise(2, len)).expect("somebody listens");
                let mut answer = vec![0; number(&self::head(&mut stream), "Content-Length: ")];
                stream.read_exact(&mut answer).expect("an answer");
                assert_eq!(answer, b"true", "every byte, and in order");
            }
        });
    });
    assert!(calls > 0, "none of it was seen to pass");
}

/// Its end is that of the connection; it is passed on in chunks.
fn a_response_until_the_end_passes<L: Loop<Engine = Proxy>>() {
    let to = serve_each(|mut stream| {
        head(&mut stream);
        let sent = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        sent.and_then(|()| stream.write_all(&noise(1, 2_000_000))).expect("somebody listens");
    });
    let (mut driver, address) = http::<L>("", "", to);
    let calls = spliced(|| {
        turn_while(&mut driver, || {
            let mut stream = client(address);
            stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").expect("somebody listens");
            assert!(head(&mut stream).contains("chunked"));
            let mut heard = Vec::new();
            loop {
                let mut line = Vec::new();
                let mut byte = [0];
                while !line.ends_with(b"\r\n") {
                    stream.read_exact(&mut byte).expect("a size");
                    line.push(byte[0]);
                }
                let size = std::str::from_utf8(&line[..line.len() - 2]).expect("digits");
                let size = usize::from_str_radix(size, 16).expect("digits");
                let mut chunk = vec![0; size + 2];
                stream.read_exact(&mut chunk).expect("a chunk");
                if size == 0 {
                    break;
                }
                heard.extend_from_slice(&chunk[..size]);
            }
            assert!(heard == noise(1, 2_000_000), "every byte, and in order");
        });
    });
    assert!(calls > 0, "none of it was seen to pass");
}

/// Both at once, with readers that fall behind; each side ends on its own.
fn streams_pass_both_ways<L: Loop<Engine = Proxy>>() {
    let (mut driver, address) = tcp::<L>(serve_each(|stream| talk(stream, 2, 3_000_000)));
    let calls = spliced(|| {
        turn_while(&mut driver, || talk(client(address), 1, 5_000_000));
    });
    assert!(calls > 0, "none of it was seen to pass");
    driver.turn_until(|driver| driver.watched().len() <= 1);
}

/// Sends `len` bytes of `seed` and the end, then reads to the other side's end.
fn talk(stream: TcpStream, seed: u64, len: usize) {
    let mut reader = stream.try_clone().expect("a descriptor");
    let heard = thread::spawn(move || {
        let (mut heard, mut piece) = (Vec::new(), vec![0; 100_000]);
        while let Ok(n @ 1..) = reader.read(&mut piece) {
            heard.extend_from_slice(&piece[..n]);
            thread::yield_now(); // falls behind
        }
        heard
    });
    let mut stream = stream;
    stream.write_all(&noise(seed, len)).expect("somebody listens");
    stream.shutdown(Shutdown::Write).expect("it is open");
    let other = noise(3 - seed, 8_000_000 - len);
    assert!(heard.join().expect("a reader") == other, "every byte, and in order");
}

/// Pipes are filled and emptied in part, and again and again.
#[test]
fn all_pass_in_small_portions() {
    pass_in_small_portions::<OwnLoop<_>>();
    pass_in_small_portions::<PollLoop<_>>();
    pass_in_small_portions::<AppLoop<_, LevelTriggered>>();
    pass_in_small_portions::<AppLoop<_, Edge>>();
    pass_in_small_portions::<AppLoop<_, OneShot>>();
}

fn pass_in_small_portions<L: Loop<Engine = Proxy>>() {
    let (mut driver, address) = http::<L>("", "", serve_each(serve));
    driver.set_portions(Portions { receive: 5_000, send: 1_700, again: 300, seed: 7 });
    let calls = spliced(|| {
        turn_while(&mut driver, || get(&mut client(address), 600_000, 9_999));
    });
    assert!(calls > 100, "{calls} calls: most of it passes in small portions");
}

/// The bytes beyond the client's window wait in the proxy's buffers, then in a pipe.
fn a_slow_reader_gets_everything<L: Loop<Engine = Proxy>>() {
    let (mut driver, address) = http::<L>("maxpipes 2", "", serve_each(serve));
    let calls = spliced(|| {
        turn_while(&mut driver, || {
            thread::scope(|scope| {
                for _ in 0..6 {
                    scope.spawn(|| {
                        let mut stream = client(address);
                        set_socket_recv_buffer_size(&stream, 32_768).expect("a socket");
                        get(&mut stream, 1_000_000, 3_000);
                    });
                }
            });
        });
    });
    assert!(calls > 0, "there are two pipes for six");
}

/// Bodies that the configuration excludes from splicing, or that a layer has to process, are
/// copied.
#[test]
fn bodies_that_must_be_seen_do_not_pass() {
    for (global, front) in [
        ("nosplice", ""),
        ("", " no option splice-auto"),
        ("", " option splice-auto\n no option splice-response"),
    ] {
        let (mut driver, address) = http::<OwnLoop<_>>(global, front, serve_each(serve));
        let calls = spliced(|| {
            turn_while(&mut driver, || get(&mut client(address), 1_000_000, 100_000));
        });
        assert_eq!(calls, 0, "{global}{front}");
    }
    for front in [" option splice-auto", " no option splice-auto\n option splice-response"] {
        let (mut driver, address) = http::<OwnLoop<_>>("", front, serve_each(serve));
        let calls = spliced(|| {
            turn_while(&mut driver, || get(&mut client(address), 1_000_000, 100_000));
        });
        assert!(calls > 0, "{front}");
    }
}

/// TLS has to encrypt the bytes.
#[test]
fn nothing_passes_into_tls() {
    let certs = Certs::new();
    let tls = https::server_tls(&certs, CertOwner::Server);
    let to = serve_each(|mut stream| {
        let mut heard = [0; 5];
        stream.read_exact(&mut heard).expect("a question");
        stream.write_all(&noise(1, 3_000_000)).expect("somebody listens");
    });
    let config =
        tcp_proxy::config(tcp_proxy::frontend(), [tcp_proxy::backend([server("one", to)])]);
    let layer: fulmar_proxy::MakeLayer = Box::new(move |_| Some(Box::new(tls.session().ok()?)));
    let (inner, ..) = tcp_proxy::proxy(config, Some(layer));
    let (mut inner, address) = OwnLoop::start(inner);
    let mut outer = server("tls", address);
    outer.tls = Some(ServerTlsConfig::default());
    let config = tcp_proxy::config(tcp_proxy::frontend(), [tcp_proxy::backend([outer])]);
    let (outer, ..) = tcp_proxy::proxy(config, None);
    let (mut outer, address) = OwnLoop::start(outer);
    let calls = spliced(|| {
        turn_both_while(&mut inner, &mut outer, || {
            let mut stream = client(address);
            stream.write_all(b"hello").expect("somebody listens");
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard).expect("an answer");
            assert!(heard == noise(1, 3_000_000), "every byte, and in order");
        });
    });
    assert_eq!(calls, 0);
}

/// As [`turn_while`], with a second driver.
fn turn_both_while(
    first: &mut OwnLoop<Proxy>,
    second: &mut OwnLoop<Proxy>,
    peer: impl FnOnce() + Send,
) {
    thread::scope(|scope| {
        let peer = scope.spawn(peer);
        first.turn_until(|_| {
            second.turn(Duration::ZERO);
            peer.is_finished()
        });
        peer.join().expect("the peer's assertions hold");
    });
}

/// Bytes in a pipe that have no receiver any more go nowhere else: the next user gets an empty
/// pipe.
#[test]
fn an_aborted_body_leaves_no_bytes_in_pipes() {
    let (mut driver, address) = http::<OwnLoop<_>>("maxpipes 2", "", serve_each(serve));
    turn_while(&mut driver, || {
        for round in 0..20 {
            let mut stream = client(address);
            write!(stream, "GET /4000000 HTTP/1.1\r\nHost: h\r\n\r\n").expect("somebody listens");
            let mut some = vec![0; 100_000];
            stream.read_exact(&mut some).expect("a part of it");
            if round % 2 == 0 {
                let now = Some(Duration::ZERO);
                set_socket_linger(&stream, now).expect("a socket");
            }
            drop(stream);
            get(&mut client(address), 700_000, 100_000);
        }
    });
    driver.turn_until(|driver| driver.watched().len() <= 2);
}

/// The bytes before a server's failure reach the client, and no more.
#[test]
fn a_server_that_fails_in_the_middle_ends_the_response() {
    for mode in ["short", "reset"] {
        let resets = mode == "reset";
        let serve = move |mut stream: TcpStream| {
            head(&mut stream);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n");
            let _ = stream.write_all(&noise(1, 2_000_000));
            if resets {
                set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket");
            }
        };
        let (mut driver, address) = http::<OwnLoop<_>>("", "", serve_each(serve));
        turn_while(&mut driver, || {
            let mut stream = client(address);
            stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").expect("somebody listens");
            head(&mut stream);
            let mut heard = Vec::new();
            let _ = stream.read_to_end(&mut heard); // the end, or a reset
            assert!(heard.len() <= 2_000_000, "{mode}");
            assert!(heard == noise(1, 2_000_000)[..heard.len()], "{mode}: in order");
            assert!(resets || heard.len() == 2_000_000, "{mode}: {}", heard.len());
        });
        driver.turn_until(|driver| driver.watched().len() <= 1);
    }
}

/// Spliced bytes are counted, and pipes: how many hold bytes, and how many are kept.
#[test]
fn pipes_and_their_bytes_are_counted() {
    let (proxy, live, ..) = configured(&text("maxpipes 8", "", serve_each(serve)));
    let (mut driver, address) = OwnLoop::start(proxy);
    turn_while(&mut driver, || {
        let mut stream = client(address);
        get(&mut stream, 3_000_000, 3_000_000);
        let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2000000\r\n\r\n";
        stream.write_all(head.as_bytes()).expect("somebody listens");
        stream.write_all(&noise(2, 2_000_000)).expect("somebody listens");
        let mut answer = vec![0; number(&self::head(&mut stream), "Content-Length: ")];
        stream.read_exact(&mut answer).expect("an answer");
    });
    // The bytes that arrive with a head are received, and so is the last byte of a response.
    for (counter, all) in [(Stat::PipedOut, 3_000_000), (Stat::PipedIn, 2_000_000)] {
        for counters in [&live.frontends[0].counters, &live.backends[0].counters] {
            let piped = sum(counters, counter);
            assert!((all / 2..all).contains(&piped), "{counter:?}: {piped} of {all}");
        }
    }
    let pipes = &live.pipes[0];
    assert!(pipes.used() == 0 && (1..=8).contains(&pipes.free()), "{pipes:?}");
    let mut stream = client(address);
    stream.write_all(b"GET /30000000 HTTP/1.1\r\nHost: h\r\n\r\n").expect("somebody listens");
    driver.turn_until(|_| pipes.used() > 0); // it is not read
    drop(stream);
    driver.turn_until(|_| pipes.used() == 0);
    drop(driver);
    assert_eq!((pipes.used(), pipes.free()), (0, 0));
}

/// 1 MB from a server, on established connections: the total cost. Client, proxy and server take
/// turns in one thread, each as far as possible.
#[test]
fn a_long_body_costs_few_calls() {
    for (mode, calls_max) in [("http", 22), ("tcp", 17)] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let to = listener.local_addr().expect("it is bound");
        let (mut driver, address) = match mode {
            "http" => http::<OwnLoop<_>>("", "", to),
            _ => tcp(to),
        };
        let mut client = client(address);
        client.write_all(ASKS).expect("somebody listens");
        listener.set_nonblocking(true).expect("a socket");
        let mut server = None;
        driver.turn_until(|_| {
            server = listener.accept().ok();
            server.is_some()
        });
        let (mut server, _) = server.expect("a connection");
        server.set_nonblocking(true).expect("a socket");
        client.set_nonblocking(true).expect("a socket");
        megabyte(&mut driver, &mut client, &mut server);
        let before = Ledger::here();
        for _ in 0..MEASURED {
            client.write_all(ASKS).expect("room");
            megabyte(&mut driver, &mut client, &mut server);
        }
        let spent = Ledger::here() - before;
        let waits = spent.count(Call::epoll_wait).calls + spent.count(Call::poll).calls;
        let each = (spent.total() - waits) / MEASURED;
        // 19 and 14: loopback hands over what a sender's buffer holds, in pieces of some 64 KB.
        assert!(each <= calls_max, "{mode}: {each} calls for 1 MB: {spent:?}");
    }
}

/// The server receives the request and responds, and the client reads.
fn megabyte(driver: &mut OwnLoop<Proxy>, client: &mut TcpStream, server: &mut TcpStream) {
    let answer = [&b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"[..], &[b'x'; 1_000_000]];
    let answer = answer.concat();
    let (mut asked, mut said, mut heard, mut block) = (0, 0, 0, vec![0; 2_000_000]);
    driver.turn_until(|_| {
        while let Ok(n @ 1..) = server.read(&mut block) {
            asked += n;
        }
        while asked > 0
            && said < answer.len()
            && let Ok(n) = server.write(&answer[said..])
        {
            said += n;
        }
        while let Ok(n @ 1..) = client.read(&mut block) {
            heard += n;
        }
        heard >= answer.len()
    });
}

const ASKS: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const MEASURED: u64 = 20;
