//! Ends of exchanges, connections and tunnels: time and content of the log line, deadlines, and
//! connection rules with HTTP.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::time::Duration;

use fulmar_proxy::{Stat, sum};
use fulmar_tests::loops::{Loop, client};
use fulmar_tests::running_haproxy::RunningHaProxy;
use fulmar_tests::scripted::{Scripted, ScriptedRequest, ServerStep, answer, ok};
use fulmar_tests::test_proxy::{TestProxy, is_whole};

fn text(frontend: &str, backend: &str, servers: &str) -> String {
    format!(
        "global\n  log stdout format raw local0\n\
         defaults\n  mode http\n  log global\n  option httplog\n  timeout connect 5s\n  \
         timeout client 5s\n  timeout server 5s\n\
         frontend fe\n  bind 127.0.0.1:0\n  default_backend be\n  {frontend}\n\
         backend be\n  {backend}\n  {servers}\n"
    )
}

fn table(frontend: &str, backend: &str, origin: Scripted) -> TestProxy {
    TestProxy::new(&text(frontend, backend, "server s ORIGIN0"), vec![origin])
}

fn hello() -> Scripted {
    Scripted::new(|_: &ScriptedRequest| ok(b"hello"))
}

/// A response that does not fit into the buffers of the proxy and of a [`TestProxy`]'s client
/// together.
fn much() -> Scripted {
    Scripted::new(|_: &ScriptedRequest| {
        vec![ServerStep::Send(answer("200 OK", "", &vec![b'x'; MUCH]))]
    })
}

fn is_all(got: &[u8]) -> bool {
    let head = got.windows(4).position(|it| it == b"\r\n\r\n");
    head.is_some_and(|head| got.len() == head + 4 + MUCH)
}

fn field(line: &str, at: usize) -> &str {
    line.split(' ').nth(at).unwrap_or_default()
}

/// Lets so much time pass.
fn pass(table: &mut TestProxy, time: Duration) {
    let end = fulmar_sys::now() + time;
    table.turn_until(|_, _| fulmar_sys::now() >= end);
}

const MUCH: usize = 16 << 20;
const GET: &str = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
const GRANTED: &str =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n";
const UPGRADE: &str = "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n";

#[test]
fn a_line_is_written_when_the_client_has_the_whole_response() {
    let mut table = table("", "", much());
    let start = fulmar_sys::now();
    table.stream.write_all(GET.as_bytes()).expect("room");
    table.turn_until(|_, origins| origins[0].requests.len() == 1);
    pass(&mut table, Duration::from_millis(60));
    assert_eq!(table.log(), Vec::<String>::new(), "most of it is still to be sent");
    let (got, _) = table.talk("", |got| got.len() > MUCH && is_all(got));
    let took = (fulmar_sys::now() - start).as_millis();
    let log = table.log();
    assert_eq!((log.len(), field(&log[0], 9)), (1, "----"));
    assert_eq!(field(&log[0], 6), got.len().to_string());
    let total: u128 = field(&log[0], 4).rsplit('/').next().unwrap_or("").parse().expect("ms");
    assert!((60..=took).contains(&total), "{log:?} within {took} ms");
}

#[test]
fn a_client_that_leaves_during_a_response_has_a_part_of_it() {
    let mut table = table("", "", much());
    let (got, _) = table.talk(GET, |got| got.len() > 1000);
    table.reconnect(); // the earlier connection is closed with unread bytes
    let lines = std::rc::Rc::clone(&table.lines);
    table.turn_until(|_, _| !lines.borrow().is_empty());
    let log = table.log();
    assert_eq!((log.len(), field(&log[0], 5), field(&log[0], 9)), (1, "200", "CD--"), "{log:?}");
    let sent: usize = field(&log[0], 6).parse().expect("bytes");
    assert!(sent >= got.len() && sent < MUCH, "{sent} of {MUCH}, {} were read", got.len());
    let frontend = &table.live.frontends[0].counters;
    assert_eq!(sum(frontend, Stat::BytesOut), sent as u64);
    assert_eq!(sum(&table.live.backends[0].counters, Stat::ClientAborts), 1);
    assert_eq!(sum(&table.live.backends[0].servers[0].counters, Stat::Sessions), 0);
}

#[test]
fn a_client_that_does_not_read_times_out() {
    let mut table = table("timeout client 100ms", "", much());
    table.stream.write_all(GET.as_bytes()).expect("room");
    table.turn_until(|proxy, origins| origins[0].requests.len() == 1 && proxy.clients() == 0);
    let log = table.log();
    assert_eq!((log.len(), field(&log[0], 9)), (1, "cD--"), "{log:?}");
}

#[test]
fn pipelined_responses_are_logged_one_by_one() {
    let mut table = table("", "", hello());
    let (got, _) = table
        .talk(GET.repeat(50), |got| String::from_utf8_lossy(got).matches("hello").count() == 50);
    let log = table.log();
    assert_eq!(log.len(), 50);
    let sum: usize = log.iter().map(|line| field(line, 6).parse::<usize>().expect("bytes")).sum();
    assert_eq!(sum, got.len());
}

#[test]
fn a_line_may_be_written_as_soon_as_the_head_is_there() {
    let begins = || {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe".to_vec();
        Scripted::new(move |_: &ScriptedRequest| vec![ServerStep::Send(head.clone())])
    };
    let mut table = table("option logasap", "", begins());
    let (got, _) = table.talk(GET, |got| got.ends_with(b"he"));
    let log = table.log();
    assert_eq!((log.len(), field(&log[0], 5), field(&log[0], 9)), (1, "200", "----"), "{log:?}");
    assert_eq!(field(&log[0], 6), format!("+{}", got.len() - 2), "the head");
    assert!(field(&log[0], 4).contains("/+"), "{log:?}");
    table.origins[0].act(0, [ServerStep::Send(b"llo".to_vec())]);
    table.talk("", |got| got.ends_with(b"llo"));
    assert_eq!(table.log().len(), 1, "not twice");
}

#[test]
fn a_head_that_comes_in_pieces_takes_its_time() {
    let mut table = table("", "", hello());
    pass(&mut table, Duration::from_millis(40));
    let start = fulmar_sys::now();
    table.stream.write_all(&GET.as_bytes()[..9]).expect("room");
    pass(&mut table, Duration::from_millis(60));
    table.send_request(&GET[9..]);
    let took = (fulmar_sys::now() - start).as_millis();
    let log = table.log();
    let receiving: u128 = field(&log[0], 4).split('/').next().unwrap_or("").parse().expect("ms");
    assert!((55..=took + 1).contains(&receiving), "without the time before it: {log:?}");
}

#[test]
fn the_queue_position_is_logged() {
    for (cookie, turns) in [("", ["0/0", "0/1", "0/2"]), ("Cookie: C=a\r\n", ["0/0", "1/0", "2/0"])]
    {
        let servers = "server s ORIGIN0 maxconn 1 cookie a";
        let text = text("", "cookie C insert", servers);
        let mut table =
            TestProxy::new(&text, vec![Scripted::new(|_: &ScriptedRequest| Vec::new())]);
        let request = format!("GET / HTTP/1.1\r\nHost: h\r\n{cookie}\r\n");
        let mut streams: Vec<_> = (0..3).map(|_| client(table.address)).collect();
        for (nth, stream) in streams.iter_mut().enumerate() {
            stream.write_all(request.as_bytes()).expect("room");
            let live = std::sync::Arc::clone(&table.live);
            table.turn_until(|_, origins| {
                let waiting = sum(&live.backends[0].counters, Stat::Queued);
                origins[0].requests.len() == 1 && waiting == nth as u64
            });
        }
        for nth in 1..=3 {
            table.turn_until(|_, origins| origins[0].requests.len() == nth);
            let on = table.origins[0].requests[nth - 1].connection;
            table.origins[0].act(on, ok(b"x"));
        }
        let lines = std::rc::Rc::clone(&table.lines);
        table.turn_until(|_, _| lines.borrow().len() == 3);
        let told: Vec<String> = table.log().iter().map(|it| field(it, 11).to_owned()).collect();
        assert_eq!(told, turns, "{cookie}");
        let server = &table.live.backends[0].servers[0].counters;
        assert_eq!(sum(server, Stat::Queued), 0);
        let waited = if cookie.is_empty() { 0 } else { 2 };
        assert_eq!(server[0].peak(Stat::Queued), waited);
        assert_eq!(sum(server, Stat::Balanced), u64::from(cookie.is_empty()));
    }
}

#[test]
fn a_queue_timeout_is_logged_with_its_duration() {
    let text = text("", "timeout queue 60ms", "server s ORIGIN0 maxconn 1");
    let mut table = TestProxy::new(&text, vec![Scripted::new(|_: &ScriptedRequest| Vec::new())]);
    let mut first = client(table.address);
    first.write_all(GET.as_bytes()).expect("room");
    table.turn_until(|_, origins| origins[0].requests.len() == 1);
    let start = fulmar_sys::now();
    assert!(table.send_request(GET).starts_with("HTTP/1.1 503"));
    let took = i64::try_from((fulmar_sys::now() - start).as_millis()).expect("not so long");
    let log = table.log();
    let times: Vec<i64> = field(&log[0], 4).split('/').map(|it| it.parse().expect("ms")).collect();
    assert!((58..=took + 1).contains(&times[1]) && times[2] == -1, "{log:?} within {took} ms");
    assert_eq!((field(&log[0], 9), field(&log[0], 11)), ("sQ--", "0/1"), "{log:?}");
    assert!(log[1].ends_with("timeout in the queue"), "{log:?}");
    assert_eq!(sum(&table.live.backends[0].counters, Stat::ConnectErrors), 1);
}

/// Invalid requests compared with HAProxy: log lines and counters.
#[test]
fn invalid_requests_are_logged_as_by_haproxy() {
    let cases = ["junk\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\nA B: c\r\n\r\n"];
    let text = text("", "", "server s ORIGIN0");
    let mut table = TestProxy::new(&text, vec![hello()]);
    let mut theirs = RunningHaProxy::new(&text, &table.origins);
    for (at, case) in cases.iter().enumerate() {
        let expected = theirs.send_request(case, &mut table.origins);
        let got = table.send_request(case);
        assert_eq!(got[..12], expected[..12], "{case:?}");
        let (line, expected) = (table.log().pop().expect("a line"), theirs.line());
        // All fields but the client, the time and the numbers of connections.
        let rest = |line: &str| -> Vec<String> {
            let all = line.split(' ').enumerate().filter(|(at, _)| ![0, 1, 10].contains(at));
            all.map(|(_, field)| field.to_owned()).collect()
        };
        assert_eq!(rest(&line), rest(&expected), "{case:?}");
        let frontend = &table.live.frontends[0].counters;
        for counter in [Stat::RequestErrors, Stat::Requests, Stat::Responses4xx] {
            assert_eq!(sum(frontend, counter), at as u64 + 1, "{counter:?}");
        }
        table.reconnect();
    }
}

#[test]
fn a_silent_client_gets_408() {
    let mut quiet = table("timeout http-request 50ms", "", hello());
    let (got, ended) = quiet.talk("", |_| false);
    assert!(ended && got.starts_with(b"HTTP/1.1 408"));
    let log = quiet.log();
    assert_eq!((log.len(), field(&log[0], 5), field(&log[0], 9)), (1, "408", "cR--"), "{log:?}");
    let mut slow = table("timeout http-request 50ms", "", hello());
    let (got, ended) = slow.talk("GET / HTTP", |_| false);
    assert!(ended && got.starts_with(b"HTTP/1.1 408"));
    assert_eq!(field(&slow.log()[0], 9), "cR--");
    let probe = "timeout http-request 50ms\n  option http-ignore-probes";
    let mut ignored = table(probe, "", hello());
    assert_eq!(ignored.talk("", |_| false), (Vec::new(), true));
    assert_eq!(ignored.log(), Vec::<String>::new());
    assert_eq!(sum(&ignored.live.frontends[0].counters, Stat::RequestErrors), 0);
}

#[test]
fn no_408_between_two_requests() {
    let mut table = table("timeout http-keep-alive 50ms\n  timeout http-request 50ms", "", hello());
    assert!(table.send_request(GET).ends_with("hello"));
    assert_eq!(table.talk("", |_| false), (Vec::new(), true), "it is closed without a word");
    assert_eq!(table.log().len(), 1);
}

fn upgraded(frontend: &str, backend: &str) -> TestProxy {
    let origin =
        Scripted::new(|_: &ScriptedRequest| vec![ServerStep::Send(GRANTED.as_bytes().to_vec())]);
    let mut table = table(frontend, backend, origin);
    let (got, _) = table.talk(UPGRADE, |got| got.ends_with(b"\r\n\r\n"));
    assert!(got.starts_with(b"HTTP/1.1 101"));
    table
}

#[test]
fn a_half_closed_tunnel_ends_soon() {
    let mut half = upgraded("timeout client-fin 50ms", "timeout tunnel 1h");
    half.origins[0].act(0, [ServerStep::Fin]);
    let (_, ended) = half.talk("", |_| false);
    assert!(ended);
    half.turn_until(|proxy, _| proxy.clients() == 0);
    assert_eq!(field(&half.log()[0], 9), "cD--", "the client said nothing any more");
}

#[test]
fn server_fin_limits_a_tunnel_after_the_end_of_its_client() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
    let backend = "timeout tunnel 1h\n  timeout server-fin 50ms";
    let server = format!("server s {}", listener.local_addr().expect("it listens"));
    let mut table = TestProxy::new(&text("", backend, &server), Vec::new());
    table.stream.write_all(UPGRADE.as_bytes()).expect("room");
    table.proxy.turn_until(|proxy| proxy.engine().clients() == 1);
    listener.set_nonblocking(true).expect("a socket");
    let mut accepted = None;
    table.proxy.turn_until(|_| {
        accepted = accepted.take().or_else(|| listener.accept().ok());
        accepted.is_some()
    });
    let (mut silent, _) = accepted.expect("it was just accepted");
    silent.write_all(GRANTED.as_bytes()).expect("room");
    table.talk("", |got| got.ends_with(b"\r\n\r\n"));
    table.stream.shutdown(Shutdown::Write).expect("a socket");
    table.turn_until(|proxy, _| proxy.clients() == 0);
    assert_eq!(field(&table.log()[0], 9), "sD--", "the server said nothing any more");
}

#[test]
fn a_tunnel_without_a_byte_ends() {
    let mut table = upgraded("", "timeout tunnel 50ms");
    table.turn_until(|proxy, origins| proxy.clients() == 0 && origins[0].open() == 0);
    assert_eq!(table.log().len(), 1);
}

#[test]
fn rules_on_connections_come_before_those_on_requests() {
    for (rule, counter) in [
        ("tcp-request connection reject if { src 127.0.0.0/8 }", Stat::DeniedConnections),
        ("tcp-request session reject if { src 127.0.0.0/8 }", Stat::DeniedSessions),
        ("tcp-request content reject if { path /a }", Stat::DeniedRequests),
    ] {
        let mut table = table(rule, "", hello());
        let (got, ended) = table.talk(GET, |_| false);
        assert!(ended && got.is_empty(), "{rule}");
        assert_eq!(sum(&table.live.frontends[0].counters, counter), 1, "{rule}");
        assert_eq!(table.origins[0].requests.len(), 0, "{rule}");
        table.turn_until(|proxy, _| proxy.clients() == 0);
        assert_eq!(sum(&table.live.frontends[0].counters, Stat::Sessions), 0, "{rule}");
    }
    let mut other = table("", "tcp-request content reject if { path /a }", hello());
    assert_eq!(other.talk(GET, |_| false), (Vec::new(), true));
    other.reconnect();
    assert_eq!(other.status("/b"), 200);
}

#[test]
fn variables_live_as_long_as_their_scope() {
    let sets = "http-request set-var(proc.seen) str(yes) if { path /set }\n  \
                http-request set-var(sess.seen) str(yes) if { path /set }\n  \
                http-request set-var(txn.seen) path\n  http-request set-var(req.seen) path\n  \
                http-request unset-var(proc.seen) if { path /unset }\n  \
                http-request set-header X-Req %[var(req.seen)]\n  \
                http-response set-var(res.seen) str(now)\n  \
                http-response set-header X-All \
                %[var(proc.seen)],%[var(sess.seen)],%[var(txn.seen)],\
                %[var(req.seen)],%[var(res.seen)]";
    let mut table = table(sets, "", hello());
    let all = |table: &mut TestProxy, path: &str| {
        let got = table.send_request(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
        let value = got.lines().find_map(|line| line.strip_prefix("X-All: "));
        value.unwrap_or_default().to_owned()
    };
    assert_eq!(all(&mut table, "/a"), ",,/a,,now");
    assert_eq!(table.origins[0].requests[0].field("x-req"), Some("/a"));
    assert_eq!(all(&mut table, "/set"), "yes,yes,/set,,now");
    table.reconnect();
    assert_eq!(all(&mut table, "/b"), "yes,,/b,,now", "another connection");
    assert_eq!(all(&mut table, "/unset"), ",,/unset,,now");
}

#[test]
fn a_frontend_of_mode_tcp_uses_http_with_its_backends() {
    let text = "defaults\n timeout connect 1s\n timeout client 5s\n timeout server 5s\n\
                frontend fe\n mode tcp\n bind 127.0.0.1:0\n default_backend be\n\
                backend be\n mode http\n http-request deny if { path /no }\n server s ORIGIN0\n";
    let mut table = TestProxy::new(text, vec![hello()]);
    assert_eq!((table.status("/yes"), table.status("/no")), (200, 403));
}

#[test]
fn a_half_closed_client_that_is_gone_is_noticed() {
    let mut table = table("", "", much());
    table.stream.write_all(GET.as_bytes()).expect("room");
    table.turn_until(|_, origins| origins[0].requests.len() == 1);
    table.stream.shutdown(Shutdown::Write).expect("a socket");
    let (got, ended) = table.talk("", |_| false);
    assert!(ended && is_whole(&got), "{} bytes", got.len());
    assert_eq!(field(&table.log()[0], 9), "----");
    let mut rest = [0; 16];
    let after = table.stream.read(&mut rest).map_err(|error| error.kind());
    assert!(matches!(after, Ok(0) | Err(ErrorKind::WouldBlock)), "{after:?}");
}

/// The common name that `send-proxy-v2-ssl-cn` sends.
#[test]
fn the_common_name_of_a_certificate_is_found() {
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut asked = rcgen::CertificateParams::default();
    asked.distinguished_name.push(rcgen::DnType::OrganizationName, "Example");
    asked.distinguished_name.push(rcgen::DnType::CommonName, "client");
    let certificate = asked.self_signed(&key).expect("a certificate");
    let name = fulmar_haproxy::rules::fetch::common_name(certificate.der());
    assert_eq!(name.as_deref(), Some("client"));
    assert_eq!(fulmar_haproxy::rules::fetch::common_name(b"none"), None);
}
