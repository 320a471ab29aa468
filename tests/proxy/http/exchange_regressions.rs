//! Regressions of exchanges between a client and a server.

use std::cell::Cell;
use std::io::Write;

use fulmar_haproxy::{ConfigSource, Environment, Options, ThisMachine, load};
use fulmar_proxy::Stat;
use fulmar_tests::scripted::{Scripted, ScriptedRequest, ServerStep, answer, ok};
use fulmar_tests::test_proxy::TestProxy;

fn table(frontend: &str, backend: &str, origins: Vec<Scripted>) -> TestProxy {
    let servers: String =
        (0..origins.len()).map(|at| format!("  server s{at} ORIGIN{at}\n")).collect();
    written(frontend, &format!("{backend}\n{servers}"), origins)
}

fn written(frontend: &str, backend: &str, origins: Vec<Scripted>) -> TestProxy {
    let text = format!(
        "defaults\n  mode http\n  timeout connect 5s\n  timeout client 5s\n  timeout server 5s\n\
         frontend fe\n  bind 127.0.0.1:0\n  default_backend be\n{frontend}\n\
         backend be\n{backend}\n"
    );
    TestProxy::new(&text, origins)
}

/// A server that knows a client by its connection, as NTLM has it.
fn knows_connections(scheme: &'static str) -> Scripted {
    let mut known = Vec::new();
    Scripted::new(move |heard: &ScriptedRequest| {
        if heard.field("authorization").is_some() {
            known.push(heard.connection);
        }
        let asks = format!("WWW-Authenticate: {scheme}\r\n");
        match known.contains(&heard.connection) {
            true => ok(b"hello alice"),
            false => vec![ServerStep::Send(answer("401 Unauthorized", &asks, b""))],
        }
    })
}

#[test]
fn a_connection_with_ntlm_is_private() {
    for scheme in ["NTLM", "Negotiate", "negotiate abc="] {
        let mut table = table(
            "",
            "  http-reuse always\n  balance roundrobin",
            vec![knows_connections(scheme), knows_connections(scheme)],
        );
        assert_eq!(table.status("/"), 401);
        let proves = format!("GET / HTTP/1.1\r\nHost: h\r\nAuthorization: {scheme} x\r\n\r\n");
        assert!(table.send_request(&proves).contains("alice"));
        let served: Vec<usize> = table.origins.iter().map(|it| it.requests.len()).collect();
        assert!(served == [2, 0] || served == [0, 2], "one connection for both: {served:?}");
        assert_eq!(table.status("/"), 200, "it stays the client's");
        let first =
            std::mem::replace(&mut table.stream, fulmar_tests::loops::client(table.address));
        for _ in 0..4 {
            assert_eq!(table.status("/"), 401, "nobody else is alice");
        }
        drop(first);
        // Unsolicited credentials count for the connection as well.
        table.reconnect();
        assert!(table.send_request(&proves).contains("alice"));
        let _first =
            std::mem::replace(&mut table.stream, fulmar_tests::loops::client(table.address));
        for _ in 0..4 {
            assert_eq!(table.status("/"), 401);
        }
    }
}

/// `option http-buffer-request` and `wait-for-body` are there to keep slow bodies from servers.
#[test]
fn an_incomplete_buffered_body_ends_in_408() {
    for (frontend, backend) in [
        ("  option http-buffer-request\n  timeout http-request 100ms", ""),
        ("  http-request wait-for-body time 100ms", ""),
        ("", "  http-request wait-for-body time 100ms at-least 50"),
    ] {
        let mut table = table(
            &format!("{frontend}\n  log 127.0.0.1:1 local0\n  option httplog"),
            backend,
            vec![Scripted::new(|_: &ScriptedRequest| ok(b"x"))],
        );
        let slow = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nx";
        let (got, ended) = table.talk(slow, |_| false);
        let got = String::from_utf8(got).expect("text");
        assert!(ended && got.starts_with("HTTP/1.1 408 "), "{got}");
        assert!(got.contains("Connection: close\r\n"), "{got}");
        assert_eq!(table.origins[0].accepted(), 0);
        let log = table.log();
        assert!(log.len() == 1 && log[0].contains(" 408 "), "{log:?}");
        assert!(log[0].contains(" cR-- "), "{log:?}");
    }
}

/// The first request has the only slot; the other one's body arrives in tiny chunks meanwhile.
#[test]
fn a_queued_request_with_small_chunks_holds_little_memory() {
    let script = |heard: &ScriptedRequest| match heard.path() {
        "/slow" => Vec::new(),
        _ => ok(b"x"),
    };
    for frontend in ["", "  timeout tarpit 1m\n  http-request tarpit if { path /tarpit }"] {
        let mut table = written(
            frontend,
            "  timeout queue 1m\n  server s ORIGIN0 maxconn 1",
            vec![Scripted::new(script)],
        );
        let path = if frontend.is_empty() { "/queued" } else { "/tarpit" };
        let mut first = fulmar_tests::loops::client(table.address);
        first.write_all(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n").expect("room");
        table.turn_until(|_, origins| origins[0].requests.len() == 1);
        let head = format!("POST {path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
        let body = "1\r\nx\r\n".repeat(CHUNKS) + "0\r\n\r\n";
        let held = allocation_counter::measure(|| {
            let turns = Cell::new(0);
            send(&mut table, head.as_bytes(), &turns);
            send(&mut table, body.as_bytes(), &turns);
        });
        assert!(held.bytes_current < 128 * 1024, "{} bytes", held.bytes_current);
        if path == "/tarpit" {
            continue;
        }
        table.origins[0].act(0, ok(b"slow"));
        let got = table.send_request("");
        assert!(got.starts_with("HTTP/1.1 200 "), "{got}");
        let heard = String::from_utf8_lossy(&table.origins[0].requests[1].body).into_owned();
        assert_eq!(heard.matches('x').count(), CHUNKS, "nothing is lost");
    }
}

/// Sends as much as there is room for, in some turns.
fn send(table: &mut TestProxy, bytes: &[u8], turns: &Cell<u32>) {
    table.stream.write_all(bytes).expect("room");
    turns.set(0);
    table.turn_until(|_, _| turns.replace(turns.get() + 1) == 40);
}

/// Of a byte each.
const CHUNKS: usize = 40_000;

/// Two clients, one place: the waiting request uses the connection that is free now.
#[test]
fn a_queued_request_takes_the_freed_connection() {
    let script = |heard: &ScriptedRequest| match heard.path() {
        "/slow" => Vec::new(),
        _ => ok(b"x"),
    };
    let mut table = written(
        "",
        "  http-reuse always\n  server s ORIGIN0 maxconn 1",
        vec![Scripted::new(script)],
    );
    let mut first = fulmar_tests::loops::client(table.address);
    first.write_all(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n").expect("room");
    table.turn_until(|_, origins| origins[0].requests.len() == 1);
    table.stream.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n").expect("room");
    let live = std::sync::Arc::clone(&table.live);
    table.turn_until(|_, _| live.backends[0].group.members()[0].sessions() == 1 && queued(&live));
    table.origins[0].act(0, ok(b"slow"));
    assert!(table.send_request("").starts_with("HTTP/1.1 200 "));
    assert_eq!(table.origins[0].accepted(), 1, "maxconn holds for connections too");
}

fn queued(live: &fulmar_proxy::Live) -> bool {
    live.backends[0].counters[0].get(Stat::Queued) == 1
}

/// `Upgrade` is a field that rules see, change and take away as any other.
#[test]
fn rules_decide_about_upgrades() {
    let asks = "GET /chat HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    for (rule, expected) in [
        ("del-header Upgrade", None),
        ("set-header Upgrade other", Some("Upgrade: other\r\nConnection: Upgrade\r\n")),
        (
            "replace-header Upgrade (.*) my\\1",
            Some("Upgrade: mywebsocket\r\nConnection: Upgrade\r\n"),
        ),
        (
            "deny if !{ req.hdr_cnt(upgrade) 1 }",
            Some("Upgrade: websocket\r\nConnection: Upgrade\r\n"),
        ),
    ] {
        let mut table = table(
            &format!("  http-request {rule}"),
            "",
            vec![Scripted::new(|_: &ScriptedRequest| ok(b"x"))],
        );
        assert!(table.send_request(asks).starts_with("HTTP/1.1 200 "), "{rule}");
        let heard = &table.origins[0].requests[0].head;
        let expected = format!("GET /chat HTTP/1.1\r\nHost: h\r\n{}\r\n", expected.unwrap_or(""));
        assert_eq!(*heard, expected, "{rule}");
    }
    let granted = Scripted::new(|_: &ScriptedRequest| {
        let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n";
        vec![ServerStep::Send(head.as_bytes().to_vec())]
    });
    let mut table =
        table("  http-response set-header X-Seen %[res.hdr(upgrade)]", "", vec![granted]);
    let (got, _) = table.talk(asks, |got| got.ends_with(b"\r\n\r\n"));
    let got = String::from_utf8(got).expect("text");
    assert!(got.starts_with("HTTP/1.1 101 ") && got.contains("X-Seen: x\r\n"), "{got}");
    assert_eq!(got.matches("Upgrade: x\r\n").count(), 1, "{got}");
}

#[test]
fn a_chunked_http_1_0_response_is_not_forwarded_as_plain() {
    for coding in ["gzip", "identity", "gzip, chunked"] {
        let head = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {coding}\r\n\r\nabc");
        let origin = Scripted::new(move |_: &ScriptedRequest| {
            vec![ServerStep::Send(head.clone().into_bytes()), ServerStep::Close]
        });
        let mut table = table("", "", vec![origin]);
        assert_eq!(table.status("/"), 502, "{coding}");
    }
}

/// Bytes that were queued for a client when its server failed are still sent to it.
#[test]
fn a_truncated_response_is_forwarded_before_the_close() {
    let origin = Scripted::new(move |heard: &ScriptedRequest| {
        let size: usize = heard.path()[1..].parse().expect("a number");
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", size + 1);
        vec![ServerStep::Send([head.as_bytes(), &vec![b'x'; size]].concat()), ServerStep::Close]
    });
    let log = "  log 127.0.0.1:1 local0\n  option httplog";
    let mut table = table(log, "  retries 0", vec![origin]);
    for size in [64 * 1024, 128 * 1024, 1024 * 1024, 6 * 1024 * 1024] {
        let turns = Cell::new(0);
        table.reconnect();
        let request = format!("GET /{size} HTTP/1.1\r\nHost: h\r\n\r\n");
        table.stream.write_all(request.as_bytes()).expect("room");
        table.turn_until(|_, _| turns.replace(turns.get() + 1) == TURNS);
        let (got, ended) = table.talk("", |_| false);
        let end = got.windows(4).position(|it| it == b"\r\n\r\n").expect("a head") + 4;
        assert!(ended);
        assert_eq!(got.len() - end, size);
    }
    table.turn_until(|proxy, _| proxy.clients() == 0);
    let log = table.log(); // the first is of a client that never sent a request
    assert!(log.len() == 5 && log[1..].iter().all(|line| line.contains(" SD-- ")), "{log:?}");
}

/// Enough turns for the bytes that fit into buffers.
const TURNS: u32 = 20;

/// The head has a length, and there is no body: the client of a GET must get the end of the
/// connection.
#[test]
fn a_get_rewritten_to_head_is_served() {
    let origin = Scripted::new(|heard: &ScriptedRequest| {
        assert_eq!(heard.method(), "HEAD");
        vec![ServerStep::Send(b"HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 5\r\n\r\n".to_vec())]
    });
    let mut table = table("  http-request set-method HEAD", "", vec![origin]);
    let (got, ended) = table.talk("GET / HTTP/1.1\r\nHost: h\r\n\r\n", |_| false);
    assert!(ended);
    assert_eq!(
        String::from_utf8_lossy(&got),
        "HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 5\r\n\r\n"
    );
}

/// A request of HTTP/1.0 without a Host means the server, and that may be another one at last.
#[test]
fn after_a_redispatch_the_host_is_that_of_the_other_server() {
    let dead = fulmar_tests::origins::free_address();
    let backend = format!(
        "  balance first\n  retries 1\n  option redispatch 1\n  timeout connect 50ms\n  \
         server dead {dead}\n  server s ORIGIN0"
    );
    let mut table = written("", &backend, vec![Scripted::new(|_: &ScriptedRequest| ok(b"x"))]);
    let (got, _) = table.talk("GET / HTTP/1.0\r\n\r\n", |_| false);
    assert!(got.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&got));
    let expected = table.origins[0].address().to_string();
    let head = &table.origins[0].requests[0].head;
    assert_eq!(head.matches("Host: ").count(), 1);
    assert!(head.contains(&format!("Host: {expected}\r\n")), "{head}");
}

/// Neither does one of the pool.
#[test]
fn a_private_connection_is_closed_when_its_server_moves() {
    let origins = (0..2).map(|_| Scripted::new(|_: &ScriptedRequest| ok(b"x"))).collect();
    let mut table = written("", "  http-reuse never\n  server s ORIGIN0", origins);
    assert_eq!(table.status("/"), 200);
    let other = table.origins[1].address();
    table.live.backends[0].group.set_address(0, other);
    assert_eq!(table.status("/"), 200);
    let heard: Vec<usize> = table.origins.iter().map(|it| it.requests.len()).collect();
    assert_eq!(heard, [1, 1]);
}

/// A client that is redirected (`redir`) keeps the connection that belongs to it.
#[test]
fn a_redirection_takes_no_connection_from_its_client() {
    let backend = "  http-reuse never\n  use-server r if { path /r }\n  server s ORIGIN0\n  \
                   server r 127.0.0.1:1 redir http://elsewhere weight 0";
    let mut table = written("", backend, vec![Scripted::new(|_: &ScriptedRequest| ok(b"x"))]);
    assert_eq!(table.status("/"), 200);
    assert_eq!(table.status("/r"), 302);
    assert_eq!(table.status("/"), 200);
    assert_eq!(table.origins[0].accepted(), 1);
}

/// It was read, and nothing was waited for.
#[test]
fn a_rule_that_would_wait_for_a_response_is_refused() {
    let text = "defaults\n  mode http\n  timeout client 1s\n  timeout server 1s\n  \
                timeout connect 1s\n\
                backend be\n  http-response wait-for-body time 1s\n  server s 127.0.0.1:1\n";
    let source = ConfigSource::Text { name: "test.cfg".to_owned(), text: text.to_owned() };
    let wrong = load(&[source], &Environment::default(), &ThisMachine, &Options::default());
    let wrong = format!("{:?}", wrong.expect_err("nobody waits there"));
    assert!(wrong.contains("'wait-for-body' is not allowed here"), "{wrong}");
}
