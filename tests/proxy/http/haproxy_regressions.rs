//! More faults that were found by reading, as in `regressions`: lines of the log, memory, cookies.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use fulmar_proxy::Stat;
use fulmar_proxy::balance::Placement;
use fulmar_tests::scripted::{self, Scripted, ScriptedRequest, ServerStep};
use fulmar_tests::test_proxy::{TestProxy, is_whole};

use crate::http::regressions::{DEFAULTS, get};

/// Challenges were logged as errors, and with timers that HAProxy does not log.
#[test]
fn lines_about_our_own_responses_equal_those_of_haproxy() {
    let text = format!(
        "{DEFAULTS}  timeout tarpit 50ms\nfrontend fe\n  mode http\n  bind 127.0.0.1:0\n\
         \x20 log stdout format raw local0\n  log-format \"%TR/%Tw/%Tc/%Tr %ST %ts\"\n\
         \x20 http-request auth realm x if {{ path /auth }}\n\
         \x20 http-request tarpit if {{ path /tarpit }}\n\
         \x20 http-request reject if {{ path /reject }}\n\
         \x20 http-request wait-for-body time 20ms if {{ path /wait }}\n  default_backend be\n\
         backend be\n  mode http\n  http-request set-var(txn.p) path\n\
         \x20 http-response deny if {{ var(txn.p) -m str /deny }}\n\
         \x20 http-response return status 200 if {{ var(txn.p) -m str /return }}\n  \
         server s ORIGIN0\n"
    );
    let mut table = TestProxy::new(&text, vec![Scripted::new(|_| scripted::ok(b"fine"))]);
    for (path, told) in [
        ("/auth", "0/-1/-1/-1 401 LR"),
        ("/tarpit", "-1/5/-1/-1 500 PT"),
        ("/reject", "-1/-1/-1/-1 -1 PR"),
        ("/wait", "-1/-1/-1/-1 408 cR"),
        ("/deny", "0/0/0/-1 502 PH"),
        ("/return", "0/0/0/-1 200 LH"),
    ] {
        table.reconnect();
        let head = format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n");
        let body = if path == "/wait" { "a" } else { "abc" };
        table.talk(format!("{head}{body}"), is_whole);
        table.turn_until(|_, _| true);
        let log = table.log();
        let line = log.iter().rfind(|line| line.split(' ').count() == 3).expect("a line");
        // Of times that are there, only the order of magnitude is certain.
        let (times, rest) = line.split_once(' ').expect("fields");
        let (told_times, told_rest) = told.split_once(' ').expect("fields");
        let alike = |(is, told): (&str, &str)| {
            let (is, told): (i64, i64) = (is.parse().unwrap(), told.parse().unwrap());
            (is < 0) == (told < 0) && is >= told
        };
        assert!(times.split('/').zip(told_times.split('/')).all(alike), "{path}: {line}");
        assert_eq!(rest, told_rest, "{path}");
    }
    // The buffered bytes are a part of the request.
    table.reconnect();
    let head = "POST /wait HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na";
    table.stream.write_all(head.as_bytes()).expect("room");
    let from = fulmar_sys::now();
    table.turn_until(|_, _| fulmar_sys::now() - from > Duration::from_millis(5));
    let answer = table.send_request("bc");
    let log = table.log();
    let receiving: i64 = log.last().unwrap().split('/').next().unwrap().parse().unwrap();
    assert!(answer.starts_with("HTTP/1.1 408") || receiving >= 4, "{log:?}");
}

/// It was given to another server, which a hash is there to prevent.
#[test]
fn a_hash_that_selects_a_full_server_selects_no_other() {
    let text = format!(
        "{DEFAULTS}frontend fe\n  mode http\n  bind 127.0.0.1:0\n  log stdout format raw local0\n\
         \x20 log-format \"%ST %ts\"\n  default_backend be\n\
         backend be\n  mode http\n  balance source\n\
         \x20 server a ORIGIN0 maxconn 1 maxqueue 1\n  server b ORIGIN0 maxconn 1 maxqueue 1\n"
    );
    let mut table = TestProxy::new(&text, vec![Scripted::new(|_| scripted::ok(b"fine"))]);
    let live = Arc::clone(&table.live);
    let group = &live.backends[0].group;
    for server in 0..2 {
        assert_eq!(group.try_place_at(server), Placement::Placed(server));
    }
    let mut waiting = std::net::TcpStream::connect(table.address).expect("it listens");
    waiting.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").expect("room");
    let queued = || live.backends[0].counters[0].get(Stat::Queued);
    table.turn_until(|_, _| queued() == 1);
    assert!(get(&mut table, "/", "").starts_with("HTTP/1.1 503"));
    assert_eq!(table.log()[0], "503 SQ");
}

/// Only the last attempt was counted.
#[test]
fn each_invalid_response_counts_as_a_server_error() {
    let text = format!(
        "{DEFAULTS}frontend fe\n  mode http\n  bind 127.0.0.1:0\n  default_backend be\n\
         backend be\n  mode http\n  retries 3\n  retry-on all-retryable-errors\n\
         \x20 server s ORIGIN0\n"
    );
    // As HAProxy 2.6: 1 for an empty response, 4 for an invalid one.
    for (answer, errors) in [(&b""[..], 1), (b"junk\r\n\r\n", 4)] {
        let script =
            |_: &ScriptedRequest| vec![ServerStep::Send(answer.to_vec()), ServerStep::Close];
        let mut table = TestProxy::new(&text, vec![Scripted::new(script)]);
        assert_eq!(table.status("/"), 502);
        assert_eq!(table.origins[0].requests.len(), 4);
        let backend = &table.live.backends[0];
        for counters in [&backend.counters, &backend.servers[0].counters] {
            assert_eq!(counters[0].get(Stat::ResponseErrors), errors, "{answer:?}");
        }
    }
}
