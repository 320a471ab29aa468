//! HTTP through the proxy: bodies of every kind, versions, upgrades, tunnels, ends.

use std::io::{Read, Write};

use fulmar_tests::scripted::{Scripted, ScriptedRequest, ServerStep, answer, ok};
use fulmar_tests::test_proxy::{TestProxy, configured, is_whole};

fn table(frontend: &str, backend: &str, origins: Vec<Scripted>) -> TestProxy {
    let servers: String =
        (0..origins.len()).map(|at| format!("  server s{at} ORIGIN{at}\n")).collect();
    let text = format!(
        "defaults\n  mode http\n  timeout connect 5s\n  timeout client 5s\n  timeout server 5s\n\
         frontend fe\n  bind 127.0.0.1:0\n  default_backend be\n{frontend}\n\
         backend be\n{backend}\n{servers}"
    );
    TestProxy::new(&text, origins)
}

fn responding(bytes: &'static [u8]) -> Scripted {
    Scripted::new(|_: &ScriptedRequest| vec![ServerStep::Send(bytes.to_vec())])
}

const GET: &str = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";

#[test]
fn chunks_and_trailers_are_forwarded() {
    let chunked: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
        3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n";
    let mut table = table("", "", vec![responding(chunked)]);
    let (got, _) = table.talk(GET, |got| got.ends_with(b"\r\n\r\n") && got.len() > 60);
    let got = String::from_utf8(got).expect("text");
    assert!(got.ends_with("3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n"), "{got}");
}

#[test]
fn a_chunked_request_is_forwarded() {
    let mut table = table("", "", vec![Scripted::new(|heard: &ScriptedRequest| ok(&heard.body))]);
    let got = table.send_request(
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n\
         0\r\n\r\n",
    );
    assert!(got.contains("abc") && got.contains("de"), "{got}");
    assert!(table.origins[0].requests[0].head.contains("Transfer-Encoding: chunked\r\n"));
}

/// A client with more or fewer proxies before it is the same client: the whole field was hashed.
#[test]
fn balance_hdr_hashes_the_first_value() {
    let named = |name: &'static str| Scripted::new(move |_: &ScriptedRequest| ok(name.as_bytes()));
    let origins = ["a", "b", "c", "d", "e", "f", "g"].map(named).into();
    let mut table = table("", "  balance hdr(x)", origins);
    let mut send_request = |fields: &str| {
        let got = table.send_request(format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
        got.chars().last().expect("a name")
    };
    let alone = send_request("X: 1.1.1.1\r\n");
    for more in ["X: 1.1.1.1, 2.2.2.2\r\n", "X: 1.1.1.1 ,3.3.3.3\r\n", "X:\r\nX: 1.1.1.1\r\n"] {
        assert_eq!(send_request(more), alone, "{more}");
    }
    assert_ne!(send_request("X: \"1.1.1.1,2\"\r\n"), alone); // in quotes a comma separates nothing
}

/// Browsers send such queries for typed text; they were refused.
#[test]
fn a_query_is_forwarded_unchanged() {
    let mut table = table("", "", vec![Scripted::new(|_: &ScriptedRequest| ok(b""))]);
    for target in ["/a?d=50%", "/?u=%u0041&%", "/?p=C:\\x", "http://h?\\%2", "/%41?%41\\%"] {
        let got = table.send_request(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert!(got.starts_with("HTTP/1.1 200"), "{target}: {got}");
        let heard = table.origins[0].requests.pop().expect("a request");
        assert!(heard.head.starts_with(&format!("GET {target} HTTP/1.1\r\n")), "{}", heard.head);
    }
}

/// A rule that makes its backend's name led to each of them, for this reckoning alone.
#[test]
fn the_default_fullconn_is_a_tenth_of_maxconn() {
    let text = "global\n maxconn 3000\ndefaults\n mode http\n timeout connect 1s\n \
                timeout client 1s\n \
                timeout server 1s\nfrontend one\n bind 127.0.0.1:0\n maxconn 2000\n \
                use_backend %[str(made)]\n use_backend named if TRUE\n default_backend usual\n\
                frontend two\n bind 127.0.0.1:0\n default_backend usual\n\
                backend made\nbackend named\nbackend usual\nbackend says\n fullconn 7\n";
    let (_, live, ..) = configured(text);
    let full: Vec<_> = live.backends.iter().map(|it| it.connections_full).collect();
    assert_eq!(full, [1, 200, 500, 7]);
}

/// A client of HTTP/1.0 does not know chunks, and its connection ends (RFC 9112 §6.1).
#[test]
fn an_http_1_0_client_gets_a_body_until_the_close() {
    let chunked: &[u8] =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let mut table = table("", "", vec![responding(chunked)]);
    let (got, ended) = table.talk("GET / HTTP/1.0\r\nHost: h\r\n\r\n", |_| false);
    let got = String::from_utf8(got).expect("text");
    assert!(ended && got.ends_with("\r\n\r\nabc") && !got.contains("chunked"), "{got}");
    assert_eq!(table.origins[0].requests[0].field("host"), Some("h"));
}

/// The server gets HTTP/1.1 from every client, and there every request has a Host.
#[test]
fn a_request_without_a_host_gets_one() {
    let mut table = table("", "", vec![Scripted::new(|_: &ScriptedRequest| ok(b"x"))]);
    let (got, _) = table.talk("GET / HTTP/1.0\r\n\r\n", |_| false);
    assert!(got.starts_with(b"HTTP/1.1 200"));
    let heard = &table.origins[0].requests[0];
    assert!(heard.head.starts_with("GET / HTTP/1.1\r\n"), "{}", heard.head);
    let expected = table.origins[0].address().to_string();
    assert_eq!(heard.field("host"), Some(&*expected), "the server's own address");
}

#[test]
fn an_http_1_0_server_ends_its_body_with_the_close() {
    let origin = Scripted::new(|_: &ScriptedRequest| {
        vec![ServerStep::Send(b"HTTP/1.0 200 OK\r\n\r\nabc".to_vec()), ServerStep::Close]
    });
    let mut table = table("", "", vec![origin]);
    let got = table.send_request(GET);
    assert!(
        got.contains("Transfer-Encoding: chunked\r\n") && got.ends_with("3\r\nabc\r\n0\r\n\r\n"),
        "{got}"
    );
    assert!(table.send_request(GET).starts_with("HTTP/1.1 200"), "the client's connection is kept");
}

#[test]
fn responses_without_a_body_are_forwarded_without_one() {
    let head: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n";
    let mut table = table("", "", vec![responding(head)]);
    let (got, _) =
        table.talk("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", |got| got.ends_with(b"\r\n\r\n"));
    assert_eq!(got, head);
    for bytes in [
        &b"HTTP/1.1 204 No Content\r\n\r\n"[..],
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n",
    ] {
        let mut table = self::table("", "", vec![responding(bytes)]);
        for _ in 0..2 {
            let (got, _) = table.talk(GET, |got| got.ends_with(b"\r\n\r\n"));
            assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(bytes));
        }
        assert_eq!(table.origins[0].accepted(), 1);
    }
}

#[test]
fn a_client_waits_for_the_100_of_its_server() {
    let mut table = table("", "", vec![Scripted::new(|heard: &ScriptedRequest| ok(&heard.body))]);
    let head = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
    let (got, _) = table.talk(head, |got| got.ends_with(b"\r\n\r\n"));
    assert_eq!(got, b"HTTP/1.1 100 Continue\r\n\r\n", "the server's own word");
    assert!(table.send_request("abc").ends_with("\r\n\r\nabc"));
}

#[test]
fn an_early_response_is_forwarded_and_the_connection_closed() {
    let mut origin = Scripted::new(|_: &ScriptedRequest| {
        vec![ServerStep::Send(answer("413 Content Too Large", "", b"no"))]
    });
    origin.hasty = true;
    let mut table = table("", "", vec![origin]);
    let got =
        table.send_request("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nabc");
    assert!(got.starts_with("HTTP/1.1 413") && got.ends_with("no"), "{got}");
    table.turn_until(|_, origins| origins[0].open() == 0);
    table.reconnect();
    assert!(table.send_request(GET).starts_with("HTTP/1.1 413"));
    assert_eq!(table.origins[0].accepted(), 2);
}

#[test]
fn hop_by_hop_fields_are_not_forwarded() {
    let fields = "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n\
                  Proxy-Connection: keep-alive\r\nTE: trailers, gzip\r\n";
    let own = "HTTP/1.1 200 OK\r\nConnection: X-Own\r\nX-Own: 1\r\nKeep-Alive: x\r\n\
               Content-Length: 0\r\n\r\n";
    let mut table = table("", "", vec![responding(own.as_bytes())]);
    let got = table.send_request(format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
    assert_eq!(got, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(table.origins[0].requests[0].head, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    table.send_request(
        "GET / HTTP/1.1\r\nHost: h\r\nConnection: Host, Content-Length, TE\r\nTE: trailers\r\n\r\n",
    );
    let heard = &table.origins[0].requests[1].head;
    assert!(heard.contains("Host: h\r\n") && heard.contains("TE: trailers\r\n"), "{heard}");
}

#[test]
fn an_absolute_target_sets_the_host() {
    let mut table = table("", "", vec![Scripted::new(|_: &ScriptedRequest| ok(b"x"))]);
    table.send_request("GET http://example.org/a?b HTTP/1.1\r\nHost: example.org\r\n\r\n");
    let heard = &table.origins[0].requests[0];
    assert_eq!(heard.field("host"), Some("example.org"));
}

#[test]
fn after_an_upgrade_there_are_only_bytes() {
    let origin = Scripted::new(|_: &ScriptedRequest| {
        let head =
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
        vec![ServerStep::Send([head.as_bytes(), b"first"].concat())]
    });
    let mut table = table("  timeout tunnel 1m", "", vec![origin]);
    let asks = "GET /chat HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    let (got, _) = table.talk(asks, |got| got.ends_with(b"first"));
    let got = String::from_utf8(got).expect("text");
    assert!(got.starts_with("HTTP/1.1 101") && got.contains("Upgrade: websocket\r\n"), "{got}");
    let heard = table.origins[0].requests[0].head.clone();
    assert!(heard.contains("Upgrade: websocket\r\n") && heard.contains("Connection: Upgrade\r\n"));
    // The bytes that follow are no HTTP: the origin parses them as a request, and sends its head
    // again.
    let (got, _) = table.talk("any bytes\r\n\r\n", |got| got.ends_with(b"first"));
    assert!(got.starts_with(b"HTTP/1.1 101"));
    table.origins[0].act(0, [ServerStep::Fin]);
    let (_, ended) = table.talk("", |_| false);
    assert!(ended, "the server's end is told");
}

#[test]
fn no_bytes_pass_before_an_upgrade_is_accepted() {
    let mut origin = Scripted::new(|_: &ScriptedRequest| ok(b"plain"));
    origin.hasty = true;
    let mut table = table("", "", vec![origin]);
    let smuggled = "GET /a HTTP/1.1\r\nHost: h\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n\
                    GET /b HTTP/1.1\r\nHost: h\r\n\r\n";
    let (got, _) =
        table.talk(smuggled, |got| String::from_utf8_lossy(got).matches("plain").count() == 2);
    assert!(got.starts_with(b"HTTP/1.1 200"));
    let heard: Vec<&str> = table.origins[0].requests.iter().map(|it| it.path()).collect();
    assert_eq!(heard, ["/a", "/b"], "the second is a request of its own");
    table.send_request(
        "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n\
               HTTP2-Settings: AAMAAABk\r\n\r\n",
    );
    let heard = &table.origins[0].requests[2].head;
    assert!(!heard.contains("h2c") && !heard.to_lowercase().contains("http2-settings"), "{heard}");
}

#[test]
fn connect_opens_a_tunnel() {
    let origin = Scripted::new(|_: &ScriptedRequest| {
        vec![ServerStep::Send(b"HTTP/1.1 200 OK\r\n\r\nhello".to_vec())]
    });
    let mut table = table("", "", vec![origin]);
    let asks = "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n";
    let (got, _) = table.talk(asks, |got| got.ends_with(b"hello"));
    assert!(got.starts_with(b"HTTP/1.1 200"));
    assert_eq!(table.origins[0].requests[0].path(), "example.org:443");
}

#[test]
fn connections_are_closed_as_configured() {
    let script = || Scripted::new(|_: &ScriptedRequest| ok(b"x"));
    let mut closed = table("  option httpclose", "", vec![script()]);
    let (got, ended) = closed.talk(GET, |_| false);
    assert!(ended && String::from_utf8_lossy(&got).contains("Connection: close\r\n"));
    assert_eq!(closed.origins[0].requests[0].field("connection"), Some("close"));
    let mut half = table("", "  option http-server-close", vec![script()]);
    assert!(!half.send_request(GET).contains("Connection: close"));
    half.turn_until(|_, origins| origins[0].open() == 0);
    half.send_request(GET);
    assert_eq!(half.origins[0].accepted(), 2, "the server's are not kept");
}

#[test]
fn a_request_that_is_half_closed_is_answered() {
    let mut table = table("", "", vec![Scripted::new(|_: &ScriptedRequest| ok(b"late"))]);
    table.stream.write_all(GET.as_bytes()).expect("room");
    table.stream.shutdown(std::net::Shutdown::Write).expect("a socket");
    let (got, ended) = table.talk("", |_| false);
    assert!(ended && got.ends_with(b"late"));
}

#[test]
fn abortonclose_cancels_the_request_of_a_closed_client() {
    let mut table =
        table("", "  option abortonclose", vec![Scripted::new(|_: &ScriptedRequest| Vec::new())]);
    table.stream.write_all(GET.as_bytes()).expect("room");
    table.turn_until(|_, origins| origins[0].requests.len() == 1);
    table.stream.shutdown(std::net::Shutdown::Both).expect("a socket");
    table.turn_until(|proxy, origins| proxy.clients() == 0 && origins[0].open() == 0);
    assert_eq!(table.live.backends[0].group.members()[0].sessions(), 0);
}

#[test]
fn a_soft_stop_loses_no_response() {
    let mut table = table("", "", vec![Scripted::new(|_: &ScriptedRequest| ok(b"last"))]);
    table.stream.write_all(GET.as_bytes()).expect("room");
    table.turn_until(|proxy, _| proxy.clients() == 1);
    let mut idle = fulmar_tests::loops::client(table.address);
    table.turn_until(|proxy, _| proxy.clients() == 2);
    table.stop();
    let (got, ended) = table.talk("", |_| false);
    let got = String::from_utf8(got).expect("text");
    assert!(ended && got.ends_with("last"), "{got}");
    table.turn_until(|proxy, _| proxy.is_done());
    assert_eq!(idle.read(&mut [0; 16]).ok(), Some(0), "nothing was owed to this one");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let mut table =
        table("", "", vec![Scripted::new(|heard: &ScriptedRequest| ok(heard.path().as_bytes()))]);
    let all: String = (0..20).map(|n| format!("GET /{n:02} HTTP/1.1\r\nHost: h\r\n\r\n")).collect();
    let (got, _) = table.talk(all, |got| got.ends_with(b"/19"));
    let text = String::from_utf8(got).expect("text");
    let order: Vec<_> = (0..20).map(|n| text.find(&format!("\r\n\r\n/{n:02}"))).collect();
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{order:?}");
    assert!(is_whole(text.as_bytes()));
}

/// The servers that respond to six requests of one client.
fn answering(backend: &str) -> String {
    let origin = |name: &'static [u8]| Scripted::new(move |_: &ScriptedRequest| ok(name));
    let mut table = table("", backend, vec![origin(b"A"), origin(b"B")]);
    (0..6).map(|_| table.send_request(GET).pop().expect("a body")).collect()
}

/// As with HAProxy: the rule applies to private connections.
#[test]
fn the_last_server_is_preferred_while_the_client_has_a_connection_there() {
    assert_eq!(answering("  http-reuse never\n  option prefer-last-server"), "AAAAAA");
    assert_eq!(answering("  http-reuse never"), "ABABAB");
    assert_eq!(answering("  option prefer-last-server"), "ABABAB");
}

/// Without a proxy protocol, a connection's own addresses are those of its client.
#[test]
fn a_connection_has_addresses_of_its_own() {
    let said = "%[src] %[dst] %[fc_src] %[fc_dst]";
    let text = format!(
        "defaults\n  mode http\n  timeout client 5s\nfrontend fe\n  bind 127.0.0.1:0\n\
         \x20 http-request set-src str(192.0.2.1)\n  http-request set-dst str(192.0.2.2)\n\
         \x20 http-request return content-type text/plain lf-string \"{said}\"\n"
    );
    let got = TestProxy::new(&text, vec![]).send_request(GET);
    assert!(got.ends_with("\r\n\r\n192.0.2.1 192.0.2.2 127.0.0.1 127.0.0.1"), "{got}");
}
