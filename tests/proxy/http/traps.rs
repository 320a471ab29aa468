//! Traps of event-driven HTTP in a proxy: it has a client on one side and a server on the other,
//! and an event of either affects both.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use fulmar_drive::Ready;
use fulmar_haproxy::{ConfigSource, Environment, Options, ThisMachine, load};
use fulmar_proxy::{MakeLayer, Proxy};
use fulmar_sys as sys;
use fulmar_tests::buffers::bounded;
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::https::{http1_tls, server_tls};
use fulmar_tests::loops::{
    AppLoop, Edge, LevelTriggered, Loop, OneShot, OwnLoop, TriggerMode, assert_quiet, client, idle,
    settle, turn_while,
};
use fulmar_tests::process::PATIENCE;
use fulmar_tests::scripted::{Scripted, ScriptedRequest, ServerStep, ok};
use fulmar_tests::test_proxy::{TestProxy, configured, is_whole};
use fulmar_tests::tls_end::TlsPeer;
use fulmar_tests::{tcp_proxy, threads};
use rustix::net::sockopt::set_socket_linger;

/// A configuration with these lines in its backend.
fn text(backend: &str, to: &str) -> String {
    format!(
        "defaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n\
         frontend fe\n  bind 127.0.0.1:0\n  default_backend be\n\
         backend be\n{backend}\n  server s {to}\n"
    )
}

fn table(backend: &str, origin: Scripted) -> TestProxy {
    TestProxy::new(&text(backend, "ORIGIN0"), vec![origin])
}

/// Responds with the path; `/mute` gets no response, `/much` a long one, and `/half` an incomplete
/// one.
fn origin() -> Scripted {
    Scripted::new(|heard: &ScriptedRequest| match heard.path() {
        "/mute" => Vec::new(),
        "/much" => ok(&vec![b'x'; MUCH]),
        "/half" => {
            vec![ServerStep::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf".to_vec())]
        }
        path => ok(path.as_bytes()),
    })
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")
}

/// A connection of a client ends, and so does that to its server; the first of the two events
/// closes both. The second event has a number that the next client may have got.
#[test]
fn a_stale_event_ends_no_other_connection() {
    fn check<T: TriggerMode>() {
        let mut origin = origin();
        let text = text("  http-reuse never", &origin.address().to_string());
        let (mut driver, address) = AppLoop::<Proxy, T>::start(configured(&text).0);
        let mut first = client(address);
        assert!(send_request(&mut driver, &mut origin, &mut first, "/first").ends_with("/first"));
        drop(first);
        let mut stale = Vec::new();
        let start = sys::now();
        while driver.engine().clients() > 0 {
            assert!(sys::now() - start < PATIENCE, "its end is not seen");
            for (fd, ready) in driver.wait(Duration::from_millis(20)) {
                driver.notify(fd, ready);
                stale.push(fd);
            }
        }
        let mut second = client(address);
        driver.turn_until(|driver| driver.engine().clients() == 1);
        let gone = Ready { read: true, write: false, hangup: true, failed: false };
        stale.iter().for_each(|fd| driver.notify(*fd, gone));
        assert!(
            send_request(&mut driver, &mut origin, &mut second, "/second").ends_with("/second")
        );
    }
    check::<LevelTriggered>();
    check::<Edge>();
    check::<OneShot>();
}

/// Sends a request, and turns until its response has arrived.
fn send_request<L: Loop>(
    driver: &mut L,
    origin: &mut Scripted,
    stream: &mut TcpStream,
    path: &str,
) -> String {
    stream.set_nonblocking(true).expect("a socket");
    stream.write_all(get(path).as_bytes()).expect("room");
    let mut got = Vec::new();
    driver.turn_until(|_| {
        origin.turn();
        let mut bytes = [0; 4096];
        if let Ok(n) = stream.read(&mut bytes) {
            assert!(n > 0, "the connection has ended");
            got.extend_from_slice(&bytes[..n]);
        }
        is_whole(&got)
    });
    String::from_utf8(got).expect("text")
}

/// Two requests in one TLS record, and then silence: the socket does not become readable again.
#[test]
fn decrypted_requests_are_served_without_another_event() {
    let certs = Certs::new();
    let mut origin = origin();
    let text = text("", &origin.address().to_string());
    let source = ConfigSource::Text { name: "test.cfg".to_owned(), text };
    let loaded = load(&[source], &Environment::default(), &ThisMachine, &Options::default());
    let tls = server_tls(&certs, CertOwner::Server);
    let layer: MakeLayer = Box::new(move |_| Some(Box::new(tls.session().ok()?)));
    let (proxy, ..) = tcp_proxy::proxy(loaded.expect("it is right").config, Some(layer));
    let (mut driver, address) = OwnLoop::start(proxy);
    let mut peer = TlsPeer::connect(&http1_tls(&certs), address);
    driver.turn_until(|_| {
        peer.turn();
        peer.end.established
    });
    let record = peer.seal(format!("{}{}", get("/one"), get("/two")).as_bytes());
    peer.stream.write_all(&record).expect("room");
    driver.turn_until(|_| {
        origin.turn();
        peer.turn();
        peer.end.above.ends_with(b"/two")
    });
    let heard: Vec<&str> = origin.requests.iter().map(ScriptedRequest::path).collect();
    assert_eq!(heard, ["/one", "/two"]);
}

/// While a client does not read, its server is not read from: that costs nothing, and continues as
/// soon as the client reads.
#[test]
fn a_response_that_is_held_up_costs_nothing() {
    let mut table = table("", origin());
    table.stream.write_all(get("/much").as_bytes()).expect("room");
    table.turn_until(|_, origins| origins[0].requests.len() == 1);
    rest(&mut table);
    assert_quiet(&mut table.proxy, Duration::from_millis(500));
    let (got, _) = table.talk("", |got| got.len() > MUCH);
    assert!(got.len() > MUCH);
}

/// The same the other way round.
#[test]
fn a_request_that_is_held_up_costs_nothing() {
    let listener = bounded(TcpListener::bind("127.0.0.1:0").expect("a port"));
    let to = listener.local_addr().expect("an address").to_string();
    let (mut driver, _) = OwnLoop::start(configured(&text("", &to)).0);
    // The proxy's side of the client's connection has a bounded buffer, too.
    let door = bounded(TcpListener::bind("127.0.0.1:0").expect("a port"));
    let mut stream = client(door.local_addr().expect("an address"));
    let (accepted, peer) = door.accept().expect("a connection");
    accepted.set_nonblocking(true).expect("a socket");
    driver.adopt(accepted.into(), peer);
    let head = format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {MUCH}\r\n\r\n");
    let request = [head.as_bytes(), &vec![b'x'; MUCH]].concat();
    stream.set_nonblocking(true).expect("a socket");
    let (mut at, mut quiet) = (0, 0);
    while quiet < 3 {
        let before = at;
        while let Ok(n @ 1..) = stream.write(&request[at..]) {
            at += n;
        }
        assert!(at < request.len(), "it is held up");
        let (turns, _) = idle(&mut driver, Duration::from_millis(60));
        quiet = if at == before && turns <= 2 { quiet + 1 } else { 0 };
    }
    assert_quiet(&mut driver, Duration::from_millis(500));
    let (mut server, _) = listener.accept().expect("a connection");
    server.set_nonblocking(true).expect("a socket");
    let (mut heard, mut block) = (0, vec![0; 1 << 20]);
    driver.turn_until(|_| {
        if let Ok(n) = stream.write(&request[at..]) {
            at += n;
        }
        if let Ok(n) = server.read(&mut block) {
            heard += n;
        }
        heard >= MUCH && at == request.len()
    });
}

/// A client closes, or shuts down its side, while the proxy waits for something else.
#[test]
fn a_client_that_leaves_wakes_a_few_times() {
    let upload = "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 99999\r\n\r\nsome of it";
    let cases = [
        (String::new(), 0, "an idle connection"),
        ("GET /x HTTP/1.1\r\nHo".to_owned(), 0, "half a head"),
        (get("/mute"), 1, "an answer that is owed"),
        (get("/mute") + "GET /", 1, "an answer that is owed, and more"),
        (upload.to_owned(), 1, "half a body"),
        (get("/much"), 1, "an answer that is not taken"),
    ];
    std::thread::scope(|scope| {
        for (request, servers, what) in &cases {
            for resets in [false, true] {
                scope.spawn(move || {
                    let mut table = table("", origin());
                    table.stream.write_all(request.as_bytes()).expect("room");
                    table.turn_until(|proxy, origins| {
                        proxy.clients() == 1 && origins[0].accepted() == *servers
                    });
                    rest(&mut table);
                    let TestProxy { mut proxy, stream, origins, live: _live, .. } = table;
                    let before = proxy.stats().events;
                    let held = match resets {
                        true => {
                            set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket");
                            drop(stream);
                            None
                        }
                        false => stream.shutdown(Shutdown::Write).map(|()| stream).ok(),
                    };
                    if resets {
                        proxy.turn_until(|proxy| proxy.engine().clients() == 0);
                    }
                    settle(&mut proxy);
                    let events = proxy.stats().events - before;
                    assert!(events <= 3, "{what}, {resets}: {events} wake-ups");
                    assert_quiet(&mut proxy, Duration::from_millis(100));
                    drop((held, origins));
                });
            }
        }
    });
}

/// The same of a server: with an idle connection, a pending response, or a partial one.
#[test]
fn a_server_that_leaves_wakes_a_few_times() {
    std::thread::scope(|scope| {
        for path in ["/kept", "/mute", "/half"] {
            for end in [ServerStep::Fin, ServerStep::Close, ServerStep::Reset] {
                scope.spawn(move || {
                    let mut table = table("", origin());
                    table.stream.write_all(get(path).as_bytes()).expect("room");
                    table.turn_until(|_, origins| origins[0].requests.len() == 1);
                    rest(&mut table);
                    let before = table.proxy.stats().events;
                    table.origins[0].act(0, [end.clone()]);
                    rest(&mut table);
                    let events = table.proxy.stats().events - before;
                    assert!(events <= 3, "{path}, {end:?}: {events} wake-ups");
                    assert_quiet(&mut table.proxy, Duration::from_millis(100));
                });
            }
        }
    });
}

/// Turns until both sides are idle.
fn rest(table: &mut TestProxy) {
    let mut quiet = 0;
    while quiet < 3 {
        let before = table.proxy.stats().events;
        table.origins.iter_mut().for_each(Scripted::turn);
        let (turns, _) = idle(&mut table.proxy, Duration::from_millis(60));
        let is_quiet = table.proxy.stats().events == before && turns <= 2;
        quiet = if is_quiet { quiet + 1 } else { 0 };
    }
}

/// Requests that wait for a place at a server are served in the order of their arrival.
#[test]
fn queued_requests_are_served_in_order() {
    let origin = origin();
    let mut table = TestProxy::new(&text("", "ORIGIN0 maxconn 1"), vec![origin]);
    table.stream.write_all(get("/mute").as_bytes()).expect("room");
    table.turn_until(|_, origins| origins[0].requests.len() == 1);
    let mut waiting = Vec::new();
    for n in 0..30 {
        let mut stream = client(table.address);
        stream.write_all(get(&format!("/{n}")).as_bytes()).expect("room");
        // Its request is read before the next one arrives.
        let live = Arc::clone(&table.live);
        table.turn_until(|_, _| live.backends[0].group.queued() == n + 1);
        waiting.push(stream);
    }
    table.origins[0].act(0, ok(b"at last"));
    table.turn_until(|_, origins| origins[0].requests.len() == 31);
    let heard: Vec<String> =
        table.origins[0].requests[1..].iter().map(|it| it.path().to_owned()).collect();
    assert_eq!(heard, (0..30).map(|n| format!("/{n}")).collect::<Vec<_>>());
}

/// A proxy may be dropped at any time: everything that it had is closed, on both sides.
#[test]
fn a_dropped_proxy_leaves_nothing_open() {
    let mut table = table("", origin());
    let mut streams: Vec<TcpStream> = ["/mute", "/much", "/kept"]
        .iter()
        .map(|path| {
            let mut stream = client(table.address);
            stream.write_all(get(path).as_bytes()).expect("room");
            stream
        })
        .collect();
    table.turn_until(|_, origins| origins[0].requests.len() == 3);
    let TestProxy { proxy, mut origins, address, .. } = table;
    drop(proxy);
    for stream in &mut streams {
        let _ = stream.read_to_end(&mut Vec::new()); // an end or a reset: it does not hang
    }
    let start = sys::now();
    while origins[0].open() > 0 {
        assert!(sys::now() - start < PATIENCE, "a server's connection is left");
        origins[0].turn();
    }
    TcpStream::connect(address).expect_err("nobody listens any more");
}

/// Another program that is started meanwhile inherits nothing, of either side.
#[test]
fn a_child_inherits_nothing() {
    let mut table = table("", origin());
    table.stream.write_all(get("/mute").as_bytes()).expect("room");
    table.turn_until(|_, origins| origins[0].requests.len() == 1);
    rest(&mut table); // by then both are watched
    let own = table.proxy.watched().into_iter();
    let own: Vec<_> =
        own.filter_map(|fd| fs::read_link(format!("/proc/self/fd/{fd}")).ok()).collect();
    assert!(own.len() >= 3, "a listener, a client and a server: {own:?}");
    let mut child =
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cat");
    // It has become another program when it copies its input.
    child.stdin.as_mut().expect("piped").write_all(b"x").expect("room");
    child.stdout.as_mut().expect("piped").read_exact(&mut [0]).expect("a copy");
    let entries = fs::read_dir(format!("/proc/{}/fd", child.id())).expect("there is a /proc");
    let inherited: Vec<_> =
        entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok()).collect();
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    assert!(own.iter().all(|name| !inherited.contains(name)), "{inherited:?}");
}

/// No delayed acknowledgement (40 ms) slows down either side: a body that comes behind its head,
/// one that waits for a 100, a response in small pieces.
#[test]
fn no_exchange_waits_for_an_acknowledgement() {
    let server = threads::ThreadedServer::with_connections(|_, stream, _| {
        let mut from = std::io::BufReader::new(stream);
        while let Some(mut asked) = threads::RequestRecord::read_head(&mut from)? {
            if asked.field("expect").is_some() {
                from.get_ref().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            }
            asked.read_body(&mut from)?;
            from.get_ref().write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            for _ in 0..3 {
                from.get_ref().write_all(b"5\r\nhello\r\n")?;
            }
            from.get_ref().write_all(b"0\r\n\r\n")?;
        }
        Ok(())
    });
    let text = text("", &server.address.to_string());
    let (mut driver, address) = OwnLoop::start(configured(&text).0);
    let post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n";
    let kinds: [&[&str]; 3] = [
        &["GET / HTTP/1.1\r\nHost: h\r\n\r\n"],
        &[post, "\r\n", "hello"],
        &[post, "Expect: 100-continue\r\n\r\n", "hello"],
    ];
    let quarters = turn_while(&mut driver, || kinds.map(|parts| quarter(address, parts)));
    for (parts, quarter) in kinds.iter().zip(quarters) {
        assert!(quarter < Duration::from_millis(30), "{parts:?}: {quarter:?}");
    }
}

/// The duration of later exchanges on one connection, with the response in these parts. Three of
/// four take longer: a busy machine is late now and then, and a delayed acknowledgement each time.
fn quarter(address: SocketAddr, parts: &[&str]) -> Duration {
    let mut stream = client(address);
    stream.set_nodelay(true).expect("a socket");
    let mut times: Vec<Duration> = (0..12)
        .map(|_| {
            let begun = sys::now();
            for part in parts {
                stream.write_all(part.as_bytes()).expect("somebody listens");
            }
            let mut got = Vec::new();
            while !got.ends_with(b"0\r\n\r\n") {
                let mut bytes = [0; 4096];
                let n = stream.read(&mut bytes).expect("an answer");
                assert!(n > 0, "it is not the end");
                got.extend_from_slice(&bytes[..n]);
            }
            sys::now() - begun
        })
        .skip(1)
        .collect();
    times.sort_unstable();
    times[times.len() / 4]
}

/// More than the buffers of the proxy and of peers with a fixed one hold together.
const MUCH: usize = 16 << 20;
