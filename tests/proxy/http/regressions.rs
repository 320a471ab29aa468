//! Regressions of the proxy: faults that were found by reviews, each with a test that showed it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use fulmar_engine::{Accepted, Action, CloseKind, Engine, SocketEvent};
use fulmar_haproxy::{BackendId, ConfigSource, Environment, Options, ThisMachine, load};
use fulmar_proto::Input;
use fulmar_proxy::Stat;
use fulmar_proxy::balance::{Health, Placement, Weight};
use fulmar_tests::gateway::{ProxyFolder, command};
use fulmar_tests::loops::{LISTENER, Loop};
use fulmar_tests::origins::free_address;
use fulmar_tests::process::{PATIENCE, eventually};
use fulmar_tests::scripted::{self, Scripted, ScriptedRequest, ServerStep};
use fulmar_tests::test_proxy::{TestProxy, configured, is_whole};
use rustix::process::{Pid, Signal, kill_process};

/// Timeouts that no test reaches.
pub(crate) const DEFAULTS: &str =
    "defaults\n  timeout client 60s\n  timeout server 60s\n  timeout connect 5s\n";

pub(crate) fn get(table: &mut TestProxy, target: &str, fields: &str) -> String {
    table.send_request(format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"))
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

/// A name from the request led from mode http to a backend of mode tcp, past its rules, and the two
/// engines woke each other for waiters of the other mode.
#[test]
fn a_name_from_a_request_selects_no_backend_of_the_other_mode() {
    let raw = TcpListener::bind("127.0.0.1:0").expect("a port");
    let raw = raw.local_addr().expect("it is bound");
    let text = format!(
        "{DEFAULTS}\
         frontend fe\n  mode http\n  bind 127.0.0.1:0\n\
         \x20 use_backend %[req.hdr(x-b)] if {{ req.hdr(x-b) -m found }}\n\
         \x20 use_backend late if {{ req.hdr(x-b) -m found }}\n  default_backend usual\n\
         backend usual\n  mode http\n  \
         http-request return status 200 content-type a/b string usual\n\
         backend late\n  mode http\n  http-request return status 200 content-type a/b string late\n\
         backend raw\n  mode tcp\n  server s {raw} maxconn 1\n"
    );
    let mut table = TestProxy::new(&text, Vec::new());
    assert_eq!(body(&get(&mut table, "/", "X-B: late\r\n")), "late");
    assert_eq!(body(&get(&mut table, "/", "X-B: raw\r\n")), "usual");
    // The first rule that matches decides, even if no backend has the name.
    assert_eq!(body(&get(&mut table, "/", "X-B: nosuch\r\n")), "usual");
    let raw = &table.live.backends[2];
    assert_eq!(raw.counters[0].get(Stat::SessionsTotal), 0, "nobody came there");
}

/// The rules of the backend were skipped without a warning.
#[test]
fn mode_tcp_does_not_lead_to_mode_http_beside_others() {
    for lead in [
        "use_backend raw if { src 10.0.0.1 }\n  default_backend web",
        "use_backend web if { src 10.0.0.1 }\n  default_backend raw",
        "use_backend %[src] if { src 10.0.0.1 }\n  default_backend web",
    ] {
        let text = format!(
            "{DEFAULTS}frontend fe\n  mode tcp\n  bind 127.0.0.1:0\n  {lead}\n\
             backend web\n  mode http\n  http-request deny\n  server s 127.0.0.1:1\n\
             backend raw\n  mode tcp\n  server s 127.0.0.1:1\n"
        );
        let source = ConfigSource::Text { name: "test.cfg".to_owned(), text };
        let (environment, options) = (Environment::default(), Options::default());
        let wrong = load(&[source], &environment, &ThisMachine, &options).expect_err("refused");
        let wrong = format!("{wrong}");
        assert!(wrong.contains("backend 'web' has mode http and others do not"), "{wrong}");
    }
}

/// The value that a sample has in the proxy, or `-`.
fn sample(expression: &str, request: &str) -> String {
    let text = format!(
        "{DEFAULTS}frontend fe\n  mode http\n  bind 127.0.0.1:0\n\
         \x20 http-request return status 200 content-type a/b lf-string \"<%[{expression}]>\"\n"
    );
    let answer = TestProxy::new(&text, Vec::new()).send_request(request);
    body(&answer).to_owned()
}

/// A slash in the query was parsed as the beginning of the path, and let requests bypass rules.
#[test]
fn a_path_begins_behind_the_authority() {
    for (target, path, whole) in [
        ("/a?b=/c", "/a", "/a?b=/c"),
        ("http://h/a?b", "/a", "/a?b"),
        ("http://h?x=/ok", "", ""),
        ("http://h", "", ""),
        ("/a://b/c", "/a://b/c", "/a://b/c"),
        ("/?x=http://h/c", "/", "/?x=http://h/c"),
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(sample("path", &request), format!("<{path}>"), "{target}");
        assert_eq!(sample("pathq", &request), format!("<{whole}>"), "{target}");
    }
    let text = format!(
        "{DEFAULTS}frontend fe\n  mode http\n  bind 127.0.0.1:0\n  stats uri /ok\n\
         \x20 http-request deny unless {{ path_beg /ok }}\n"
    );
    for (target, status) in [("http://h?x=/ok", "403"), ("/ok", "200"), ("/a?://h/ok", "403")] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
        let answer = TestProxy::new(&text, Vec::new()).send_request(request);
        assert_eq!(&answer[9..12], status, "{target}");
    }
}

/// Without TLS a certificate seemed to be verified: the sample was 0.
#[test]
fn tls_samples_have_no_value_without_tls() {
    let request = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    for asked in ["ssl_c_verify", "ssl_c_used", "ssl_fc_has_crt", "ssl_fc_protocol", "ssl_c_der"] {
        assert_eq!(sample(asked, request), "<>", "{asked}");
    }
    assert_eq!(sample("ssl_fc", request), "<0>");
}

fn answering() -> Scripted {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    Scripted::new(|_| vec![ServerStep::Send(answer.to_vec())])
}

/// Rules decided where a client had connected to, and the connection went elsewhere.
#[test]
fn a_server_without_an_address_uses_the_destination_of_rules() {
    for (server, port) in [("0.0.0.0:0", None), ("0.0.0.0", None), ("0.0.0.0:ORIGIN", Some(1))] {
        let origin = answering();
        let its = origin.address().port();
        let server = server.replace("ORIGIN", &its.to_string());
        let text = format!(
            "{DEFAULTS}frontend fe\n  mode http\n  bind 127.0.0.1:0\n\
             \x20 http-request set-dst req.hdr(x-to)\n\
             \x20 http-request set-dst-port req.hdr(x-port)\n\
             \x20 default_backend be\n\
             backend be\n  mode http\n  server s {server}\n"
        );
        let mut table = TestProxy::new(&text, vec![origin]);
        let port = port.unwrap_or(its);
        let answer = get(&mut table, "/", &format!("X-To: 127.0.0.1\r\nX-Port: {port}\r\n"));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{server}: {answer}");
        assert_eq!(table.origins[0].requests.len(), 1);
    }
}

/// All clients behind another proxy went to one server.
#[test]
fn balance_source_uses_the_address_set_by_rules() {
    let text = format!(
        "{DEFAULTS}frontend fe\n  mode http\n  bind 127.0.0.1:0\n  log stdout format raw local0\n\
         \x20 log-format \"%ci\"\n  http-request set-src req.hdr(x-from)\n  default_backend be\n\
         backend be\n  mode http\n  balance source\n\
         \x20 server a ORIGIN0\n  server b ORIGIN1\n"
    );
    let mut table = TestProxy::new(&text, vec![answering(), answering()]);
    for n in 1..=8 {
        get(&mut table, "/", &format!("X-From: 192.0.2.{n}\r\n"));
    }
    let each = table.origins.iter().map(|origin| origin.requests.len());
    assert_eq!(each.collect::<Vec<_>>(), [4, 4], "by the last number of the address");
    assert!(table.lines.borrow()[0].1.contains("192.0.2.1"), "{:?}", table.lines);
}

/// While the form came in, the rules ran a second time, and the request was counted twice.
#[test]
fn a_buffered_form_is_one_request() {
    let text = format!(
        "{DEFAULTS}frontend fe\n  mode http\n  bind 127.0.0.1:0\n  log stdout format raw local0\n\
         \x20 log-format \"n=%[var(txn.n)]\"\n  stats uri /s\n  stats admin if TRUE\n\
         \x20 http-request add-header X a\n  http-request set-var(txn.n) req.hdr_cnt(x)\n"
    );
    let mut table = TestProxy::new(&text, Vec::new());
    let answer =
        table.send_request("POST /s HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\ns=one");
    assert_eq!(body(&answer), "stats /s true s=one");
    let counters = &table.live.frontends[0].counters[0];
    assert_eq!(counters.get(Stat::Intercepted), 1);
    // A form that exceeds the body buffer is not a form.
    let long = "s".repeat(1 << 20);
    let answer = table.send_request(format!(
        "POST /s HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{long}",
        long.len()
    ));
    assert_eq!(body(&answer), "stats /s true cut");
    let lines = table.lines.borrow();
    assert!(lines.iter().all(|line| line.1 == "n=1"), "{lines:?}");
}

/// Ends with the test, however that ends.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The first thread that wrote waited for the reader with a lock in its hand, the others for the
/// lock, and SIGTERM for them.
#[test]
fn a_stuck_reader_of_standard_output_stops_nothing() {
    let place = ProxyFolder::new();
    let front = format!(" log stdout format raw local0\n log-format \"{}\"", "x".repeat(1000));
    let path = place.configure("", &front);
    let mut command = command();
    command.arg("-db").arg("-f").arg(path);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = Guarded(command.spawn().expect("it starts"));
    place.wait();
    // Each line is a thousand letters: more than a pipe and our own memory take.
    for _ in 0..4 {
        let mut stream = TcpStream::connect(place.address).expect("it accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        for _ in 0..100 {
            stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").expect("room");
            let mut heard = Vec::new();
            while !heard.ends_with(b"\r\n\r\norigin") {
                let mut bytes = [0; 4096];
                let len = stream.read(&mut bytes).expect("an answer in time");
                assert!(len > 0, "the connection is kept");
                heard.extend_from_slice(&bytes[..len]);
            }
        }
    }
    kill_process(Pid::from_child(&process.0), Signal::TERM).expect("it is there");
    eventually("it ends", || process.0.try_wait().expect("ours").is_some());
}

/// Each one that could not be served gave its place to the next from within its own failure: a
/// stack as deep as the queue.
#[test]
fn a_queue_without_servers_does_not_recurse() {
    let text = format!(
        "{DEFAULTS}frontend fe\n  mode tcp\n  bind 127.0.0.1:0\n  default_backend be\n\
         backend be\n  mode tcp\n  option redispatch\n  timeout queue 60s\n\
         \x20 server a 127.0.0.1:+65000 maxconn 1\n  server b 127.0.0.1:+65000 maxconn 1\n"
    );
    let little = std::thread::Builder::new().stack_size(1 << 20);
    let body = move || {
        let mut table = TestProxy::new(&text, Vec::new());
        let live = Arc::clone(&table.live);
        let group = &live.backends[0].group;
        for server in 0..2 {
            assert_eq!(group.try_place_at(server), Placement::Placed(server));
        }
        let _clients: Vec<_> =
            (0..300).map(|_| TcpStream::connect(table.address).expect("it listens")).collect();
        table.turn_until(|_, _| group.queued() == 301);
        (0..2).for_each(|server| group.leave(server));
        live.set_weight(BackendId(0), 0, Weight::Absolute(1)); // looks after waiters
        table.proxy.waker().wake();
        table.turn_until(|proxy, _| proxy.clients() == 0);
        assert_eq!(group.queued(), 0);
    };
    little.spawn(body).expect("a thread").join().expect("its stack is large enough");
}

/// The server took the second request for one of the client that the header had named.
#[test]
fn a_connection_with_a_proxy_header_is_not_shared() {
    let text = format!(
        "{DEFAULTS}frontend fe\n  mode http\n  bind 127.0.0.1:0\n\
         \x20 http-request set-src req.hdr(x-from)\n  default_backend be\n\
         backend be\n  mode http\n  server s ORIGIN0 send-proxy\n"
    );
    let mut table = TestProxy::new(&text, vec![Scripted::new(|_| scripted::ok(b"fine"))]);
    for from in ["192.0.2.1", "192.0.2.1", "192.0.2.2"] {
        let answer = get(&mut table, "/", &format!("X-From: {from}\r\n"));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let heard = &table.origins[0].requests;
    let connections: Vec<usize> = heard.iter().map(|heard| heard.connection).collect();
    assert_eq!(connections, [0, 0, 1]);
    assert!(heard[0].head.starts_with("PROXY TCP4 192.0.2.1 "), "{}", heard[0].head);
    assert!(heard[2].head.starts_with("PROXY TCP4 192.0.2.2 "), "{}", heard[2].head);
}

/// They counted as failures of the server: their requests were repeated.
#[test]
fn sessions_that_are_shut_down_end_there() {
    let text = format!(
        "{DEFAULTS}frontend fe\n  mode http\n  bind 127.0.0.1:0\n\
         \x20 log stdout format raw local0\n  log-format \"%ST %ts\"\n  default_backend be\n\
         backend be\n  mode http\n  retry-on all-retryable-errors\n  \
         server s ORIGIN0 observe layer4\n"
    );
    for (is_down, letter) in [(false, 'K'), (true, 'D')] {
        let script = |heard: &ScriptedRequest| match heard.path() {
            "/mute" => Vec::new(),
            "/half" => {
                vec![ServerStep::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf".to_vec())]
            }
            _ => scripted::ok(b"fine"),
        };
        let mut table = TestProxy::new(&text, vec![Scripted::new(script)]);
        let live = Arc::clone(&table.live);
        for (path, ended, what) in [("/mute", "HTTP/1.1 502", 'H'), ("/half", "HTTP/1.1 200", 'D')]
        {
            table.reconnect();
            get(&mut table, "/", "");
            assert!(get(&mut table, "/", "").ends_with("fine"), "over a connection that was used");
            let before = table.origins[0].requests.len();
            let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
            table.stream.write_all(request.as_bytes()).expect("room");
            table.turn_until(|_, origins| origins[0].requests.len() > before);
            if path == "/half" {
                let (got, _) = table.talk("", |got| got.ends_with(b"half"));
                assert!(got.starts_with(b"HTTP/1.1 200"));
            }
            if is_down {
                live.backends[0].group.set_health(0, Health::Down, fulmar_sys::now());
            }
            live.kill_sessions(BackendId(0), 0);
            table.proxy.waker().wake();
            let (got, is_over) = table.talk("", |got| path == "/mute" && is_whole(got));
            assert!(is_over || got.starts_with(ended.as_bytes()), "{path}: {got:?}");
            assert_eq!(table.origins[0].requests.len(), before + 1, "{path} was sent once");
            let told = format!("{} {letter}{what}", &ended[9..]);
            assert!(table.log().contains(&told), "{path}: {:?}", table.log());
            live.backends[0].group.set_health(0, Health::Up, fulmar_sys::now());
        }
        let server = &live.backends[0].servers[0].counters[0];
        assert_eq!(server.get(Stat::ResponseErrors), 0, "it is not the server's fault");
    }
}

/// Mode http waited a second for a server that refuses, as if there was no other.
#[test]
fn a_refused_round_robin_connect_is_redispatched_at_once() {
    let gone = free_address();
    for (algorithm, retried) in [("roundrobin", "+1"), ("random", "+1"), ("source", "+3")] {
        let text = format!(
            "{DEFAULTS}frontend fe\n  mode http\n  bind 127.0.0.1:0\n  \
             log stdout format raw local0\n\
             \x20 log-format \"%s %rc\"\n  default_backend be\n\
             backend be\n  mode http\n  balance {algorithm}\n  option redispatch\n  retries 3\n\
             \x20 timeout connect 20ms\n  server a {gone}\n  server b ORIGIN0\n"
        );
        let mut table = TestProxy::new(&text, vec![Scripted::new(|_| scripted::ok(b"fine"))]);
        for _ in 0..16 {
            assert_eq!(table.status("/"), 200, "{algorithm}");
            table.reconnect();
        }
        let log = table.log();
        let of_the_other = |line: &&String| !["b 0", &format!("b {retried}")].contains(&&line[..]);
        assert_eq!(log.iter().find(of_the_other), None, "{algorithm}: {log:?}");
        let redispatched = log.iter().any(|line| line.ends_with(retried));
        assert!(redispatched || algorithm == "source", "{algorithm}: {log:?}");
    }
}

/// On a wildcard address the destination was not read, unless a condition of a few lines needed it.
#[test]
fn the_destination_address_is_known_to_every_rule() {
    let text = format!(
        "{DEFAULTS}frontend fe\n  mode http\n  bind :0\n\
         \x20 tcp-request content set-var(sess.there) dst\n  use_backend to_%[dst]\n\
         backend to_127.0.0.1\n  mode http\n  balance hash dst\n\
         \x20 http-request return status 200 content-type a/b lf-string \"%[var(sess.there)]\"\n"
    );
    let mut table = TestProxy::new(&text, Vec::new());
    assert_eq!(body(&get(&mut table, "/", "")), "127.0.0.1");
}

/// In mode tcp the end of a queued client was received, and not processed: it kept its place until
/// its turn.
#[test]
fn a_client_that_leaves_the_tcp_queue_frees_its_slot() {
    let text = format!(
        "{DEFAULTS}frontend fe\n  mode tcp\n  bind 127.0.0.1:0\n  log stdout format raw local0\n\
         \x20 log-format \"%b/%s %ts\"\n  default_backend be\n\
         backend be\n  mode tcp\n  option abortonclose\n  server s ORIGIN0 maxconn 1\n"
    );
    for says_something in [false, true] {
        let mut table = TestProxy::new(&text, vec![Scripted::new(|_| Vec::new())]);
        let live = Arc::clone(&table.live);
        let group = &live.backends[0].group;
        assert_eq!(group.try_place_at(0), Placement::Placed(0));
        if says_something {
            table.stream.write_all(b"hello\n").expect("room");
        }
        table.turn_until(|_, _| group.queued() == 1);
        table.stream.shutdown(std::net::Shutdown::Write).expect("a socket");
        table.turn_until(|proxy, _| proxy.clients() == 0);
        assert_eq!((group.queued(), table.log()), (0, vec!["be/<NOSRV> CQ".to_owned()]));
        // A client that has ended before that is not queued at all.
        table.reconnect();
        table.stream.write_all(b"hello\n").expect("room");
        table.stream.shutdown(std::net::Shutdown::Write).expect("a socket");
        table.turn_until(|proxy, _| proxy.clients() == 0);
        assert_eq!((group.queued(), table.origins[0].accepted()), (0, 0));
        group.leave(0);
    }
}

/// It was waited for when all rules had looked.
#[test]
fn rules_can_match_a_buffered_body() {
    let deny = "http-request deny if { req.body -m sub evil }";
    for (front, back) in [
        (format!("  option http-buffer-request\n  {deny}\n"), String::new()),
        (String::new(), format!("  option http-buffer-request\n  {deny}\n")),
    ] {
        let text = format!(
            "{DEFAULTS}frontend fe\n  mode http\n  bind 127.0.0.1:0\n{front}  default_backend be\n\
             backend be\n  mode http\n{back}  server s ORIGIN0\n"
        );
        let mut table = TestProxy::new(&text, vec![Scripted::new(|_| scripted::ok(b"fine"))]);
        for (what, status) in [("good", 200), ("evil", 403)] {
            table.reconnect();
            let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\n\r\n";
            table.stream.write_all(head.as_bytes()).expect("room");
            table.turn_until(|proxy, _| proxy.clients() > 0);
            table.stream.write_all(b"so ").expect("room");
            let answer = table.send_request(what);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{what}: {answer}");
        }
        assert_eq!(table.origins[0].requests.len(), 1);
    }
}

/// The cookie that servers set themselves led nowhere.
#[test]
fn a_cookie_of_the_servers_own_leads_back() {
    let text = format!(
        "{DEFAULTS}frontend fe\n  mode http\n  bind 127.0.0.1:0\n  log stdout format raw local0\n\
         \x20 log-format \"%s %tsc\"\n  default_backend be\n\
         backend be\n  mode http\n  cookie SRV\n\
         \x20 server a ORIGIN0 cookie a\n  server b ORIGIN0 cookie b\n"
    );
    let mut table = TestProxy::new(&text, vec![Scripted::new(|_| scripted::ok(b"fine"))]);
    for value in ["b", "b", "a", "a", "b"] {
        get(&mut table, "/", &format!("Cookie: x=y; SRV={value}\r\n"));
    }
    assert_eq!(table.log(), ["b ----", "b ----", "a ----", "a ----", "b ----"]);
}

/// Every probe of a `monitor-uri` that fails was explained, in a log that is to be silent about it.
#[test]
fn unlogged_requests_are_not_explained() {
    let text = format!(
        "{DEFAULTS}frontend fe\n  mode http\n  bind 127.0.0.1:0\n  log stdout format raw local0\n\
         \x20 monitor-uri /mon\n  monitor fail if TRUE\n  http-request set-log-level silent\n"
    );
    let mut table = TestProxy::new(&text, Vec::new());
    assert_eq!((table.status("/mon"), table.status("/")), (503, 503));
    table.turn_until(|_, _| true);
    assert_eq!(table.log(), Vec::<String>::new());
}

/// Mode tcp had none: connections to be rejected by one were accepted.
#[test]
fn mode_tcp_has_variables_of_the_process() {
    let text = format!(
        "global\n  set-var proc.shut str(yes)\n{DEFAULTS}\
         frontend raw\n  mode tcp\n  bind 127.0.0.1:0\n  log stdout format raw local0\n\
         \x20 log-format \"%[var(proc.seen)]\"\n\
         \x20 tcp-request content set-var(proc.seen) str(somebody)\n\
         \x20 tcp-request content reject if {{ var(proc.shut) -m str yes }}\n  default_backend be\n\
         backend be\n  mode tcp\n  server s ORIGIN0\n"
    );
    let mut table = TestProxy::new(&text, vec![Scripted::new(|_| scripted::ok(b"fine"))]);
    let (got, ended) = table.talk("GET / HTTP/1.1\r\n\r\n", |got| !got.is_empty());
    assert!(ended && got.is_empty(), "it is rejected");
    assert_eq!(table.log(), ["somebody"]);
}

/// Each unread response kept 2 KB of its exchange, and thousands of short ones have as many bytes
/// as one long one.
#[test]
fn a_client_that_does_not_read_is_not_read_from() {
    let text = format!(
        "{DEFAULTS}frontend fe\n  mode http\n  bind 127.0.0.1:0\n  log stdout format raw local0\n\
         \x20 http-request return status 200 content-type a/b lf-string \"<%[path]>\"\n"
    );
    let mut table = TestProxy::new(&text, Vec::new());
    let live = Arc::clone(&table.live);
    let asked = || live.frontends[0].counters[0].get(Stat::Requests);
    let request = |n| format!("GET /{n}/{} HTTP/1.1\r\nHost: h\r\n\r\n", "a".repeat(500));
    table.stream.set_nonblocking(true).expect("a socket");
    let (mut n, mut unsent, mut idle) = (0, Vec::new(), 0);
    while idle < 3 {
        if unsent.is_empty() {
            unsent.extend((n..n + 16).flat_map(|n| request(n).into_bytes()));
            n += 16;
        }
        let before = asked();
        let written = table.stream.write(&unsent).unwrap_or(0);
        unsent.drain(..written);
        table.proxy.turn(Duration::ZERO);
        idle = if written == 0 && asked() == before { idle + 1 } else { 0 };
        let waiting = asked() - table.lines.borrow().len() as u64;
        assert!(waiting <= 17, "{waiting} exchanges wait to leave");
    }
    assert!(asked() < n, "it has not read them all");
    // All get their responses as soon as they are read, in order.
    let last = format!("<{}>", &request(n - 1)[4..][..503 + (n - 1).to_string().len() - 1]);
    let (got, _) = table.talk(unsent, |got| got.ends_with(last.as_bytes()));
    let got = String::from_utf8(got).expect("text");
    let answered = got.split("\r\n\r\n</").skip(1).map(|it| it.split('/').next().unwrap());
    assert!(answered.eq((0..n).map(|n| n.to_string())));
    assert_eq!(table.lines.borrow().len() as u64, n);
}

/// The effects of connection rules were lost before the first request: addresses, and the expected
/// header.
#[test]
fn connection_rules_apply_to_requests() {
    for set in ["connection", "session"] {
        let text = format!(
            "{DEFAULTS}frontend fe\n  mode http\n  bind 127.0.0.1:0\n\
             \x20 log stdout format raw local0\n  log-format \"%ci:%cp\"\n\
             \x20 tcp-request {set} set-src str(1.2.3.4)\n\
             \x20 tcp-request {set} set-src-port int(99)\n\
             \x20 tcp-request {set} set-dst str(1.2.3.5)\n\
             \x20 http-request return status 200 content-type a/b lf-string \"%[src] %[dst]\"\n"
        );
        let mut table = TestProxy::new(&text, Vec::new());
        for _ in 0..2 {
            assert_eq!(body(&get(&mut table, "/", "")), "1.2.3.4 1.2.3.5", "{set}");
        }
        assert_eq!(table.log(), ["1.2.3.4:99", "1.2.3.4:99"], "{set}");
    }
    let text = format!(
        "{DEFAULTS}frontend fe\n  mode http\n  bind 127.0.0.1:0\n\
         \x20 tcp-request connection expect-proxy layer4\n\
         \x20 http-request return status 200 content-type a/b lf-string \"%[src] \
         %[fc_rcvd_proxy]\"\n"
    );
    for (header, seen) in
        [("PROXY TCP4 9.9.9.9 8.8.8.8 1 2\r\n", "9.9.9.9 1"), ("PROXY UNKNOWN\r\n", "127.0.0.1 1")]
    {
        let mut table = TestProxy::new(&text, Vec::new());
        let answer = table.send_request(format!("{header}GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert_eq!(body(&answer), seen);
    }
}

/// They were read, and not evaluated.
#[test]
fn tcp_response_content_applies_in_mode_http() {
    for (rules, status, told) in [
        ("reject", "", "-1 PD"),
        ("accept if { status 200 }\n  tcp-response content reject", "200", "200 --"),
        ("close", "502", "502 SH"),
        ("set-var(txn.seen) status", "201", "201 --"),
    ] {
        let text = format!(
            "{DEFAULTS}frontend fe\n  mode http\n  bind 127.0.0.1:0\n\
             \x20 log stdout format raw local0\n  log-format \"%ST %ts\"\n  default_backend be\n\
             backend be\n  mode http\n  tcp-response content {rules}\n\
             \x20 http-response set-status 201 if {{ var(txn.seen) -m found }}\n  \
             server s ORIGIN0\n"
        );
        let mut table = TestProxy::new(&text, vec![Scripted::new(|_| scripted::ok(b"fine"))]);
        let (got, ended) = table.talk("GET / HTTP/1.1\r\nHost: h\r\n\r\n", is_whole);
        let got = String::from_utf8(got).expect("text");
        assert_eq!((got.get(9..12).unwrap_or(""), ended), (status, status.is_empty()), "{rules}");
        let log = table.log();
        assert_eq!(log[0], told, "{rules}: {log:?}");
    }
}

/// A tunnel was given its time on the client's side, and ended after the server's.
#[test]
fn the_time_of_a_tunnel_holds_on_both_sides() {
    let text = format!(
        "{DEFAULTS}  timeout server 300ms\nfrontend fe\n  mode http\n  bind 127.0.0.1:0\n\
         \x20 default_backend be\n\
         backend be\n  mode http\n  http-request set-timeout tunnel 60s\n\
         \x20 server s ORIGIN0\n"
    );
    let granted = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n";
    let script = move |_: &ScriptedRequest| vec![ServerStep::Send(granted.as_bytes().to_vec())];
    let mut table = TestProxy::new(&text, vec![Scripted::new(script)]);
    let (got, _) = table
        .talk("GET / HTTP/1.1\r\nHost: h\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", |got| {
            got.ends_with(b"\r\n\r\n")
        });
    assert!(got.starts_with(b"HTTP/1.1 101"));
    let from = fulmar_sys::now();
    table.turn_until(|_, _| fulmar_sys::now() - from > Duration::from_millis(600));
    table.origins[0].act(0, [ServerStep::Send(b"still there".to_vec())]);
    let (_, ended) = table.talk("", |got| got.ends_with(b"still there"));
    assert!(!ended);
}

/// Each different timeout was kept for ever, with a maximum of 4,096.
#[test]
fn any_number_of_requests_may_have_times_of_their_own() {
    let text = format!(
        "{DEFAULTS}frontend fe\n  mode http\n  bind 127.0.0.1:0\n\
         \x20 default_backend be\n\
         backend be\n  mode http\n  http-request set-timeout server req.hdr(x-t)\n\
         \x20 server s ORIGIN0\n"
    );
    let script = |heard: &ScriptedRequest| match heard.path() {
        "/mute" => Vec::new(),
        _ => scripted::ok(b"fine"),
    };
    let mut table = TestProxy::new(&text, vec![Scripted::new(script)]);
    let request = |n| format!("GET / HTTP/1.1\r\nHost: h\r\nX-T: {n}\r\n\r\n");
    let size = get(&mut table, "/", "").len();
    for from in (100_000..104_200).step_by(200) {
        let some: String = (from..from + 200).map(request).collect();
        table.talk(some, |got| got.len() >= size * 200);
    }
    assert!(get(&mut table, "/mute", "X-T: 50\r\n").starts_with("HTTP/1.1 504"));
}

/// It was logged as a bad request, got 400, and was counted as one.
#[test]
fn a_client_that_leaves_before_http_has_no_request() {
    let text = format!(
        "{DEFAULTS}frontend fe\n  mode http\n  bind 127.0.0.1:0 name door\n\
         \x20 log stdout format raw local0\n  tcp-request connection expect-proxy layer4\n"
    );
    for (said, told) in [
        (
            "GET / HTTP/1.1\r\n\r\n",
            "Received something which does not look like a PROXY protocol header",
        ),
        ("PROXY TCP4 1.2.3.4", "Truncated PROXY protocol header received"),
        ("", "Connection closed while waiting for PROXY protocol header"),
    ] {
        let mut table = TestProxy::new(&text, Vec::new());
        table.stream.write_all(said.as_bytes()).expect("room");
        table.stream.shutdown(std::net::Shutdown::Write).expect("a socket");
        let (got, _) = table.talk("", |_| false);
        assert_eq!(got, b"");
        table.turn_until(|proxy, _| proxy.clients() == 0);
        let log = table.log();
        assert!(log.len() == 1 && log[0].ends_with(&format!("] fe/door: {told}")), "{log:?}");
        let counters = &table.live.frontends[0].counters[0];
        for counter in [Stat::Requests, Stat::RequestErrors, Stat::Responses4xx] {
            assert_eq!(counters.get(counter), 0, "{counter:?}");
        }
    }
}

/// It took the place of the line of every request that failed, with status, server and times.
#[test]
fn error_log_format_applies_without_a_request() {
    let text = format!(
        "{DEFAULTS}frontend fe\n  mode http\n  bind 127.0.0.1:0\n  log stdout format raw local0\n\
         \x20 log-format \"usual %ST %ts\"\n  error-log-format wrong:%ST\n  http-request deny\n"
    );
    let mut table = TestProxy::new(&text, Vec::new());
    assert_eq!(table.status("/"), 403);
    assert!(table.send_request("what is this\r\n\r\n").starts_with("HTTP/1.1 400"));
    assert_eq!(table.log(), ["usual 403 PR", "wrong:400"]);
}

/// They received an end or a reset.
#[test]
fn silent_drop_sends_nothing() {
    for rule in [
        "tcp-request connection silent-drop",
        "tcp-request session silent-drop",
        "tcp-request content silent-drop",
        "http-request silent-drop",
    ] {
        let text = format!(
            "{DEFAULTS}frontend fe\n  mode http\n  bind 127.0.0.1:0\n  {rule}\n\
             \x20 log stdout format raw local0\n  log-format \"%ST %ts %TR/%Tw\"\n"
        );
        let (mut proxy, live, lines, _) = configured(&text);
        let now = fulmar_sys::now();
        let peer = "192.0.2.1:4711".parse().expect("an address");
        let socket = proxy
            .accept(now, Accepted { listener: LISTENER, peer, local: None })
            .expect("somebody has to drop it");
        let mut bytes = BytesMut::from(&b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"[..]);
        proxy.handle(now, SocketEvent::Input(Input::all(&mut bytes, false)).of(socket));
        let actions: Vec<Action> = std::iter::from_fn(|| proxy.poll_action()).collect();
        let drops = matches!(actions[..], [.., Action::Close { kind: CloseKind::Silent, .. }]);
        assert!(drops, "{rule}: {actions:?}");
        assert_eq!((proxy.clients(), live.frontends[0].counters[0].get(Stat::Sessions)), (0, 0));
        let has_asked = rule.contains("http") || rule.contains("content");
        let told: &[&str] = if has_asked { &["-1 PR -1/-1"] } else { &[] };
        assert_eq!(lines.borrow().iter().map(|line| &line.1[..]).collect::<Vec<_>>(), told);
    }
}
