//! Lines of the log of mode http, the record that explains errors, and what is counted.

use fulmar_proxy::{Counter, Severity, sum};
use fulmar_tests::scripted::{Scripted, ScriptedRequest, ServerStep, answer, ok};
use fulmar_tests::test_proxy::TestProxy;

fn table(frontend: &str, backend: &str, origins: Vec<Scripted>) -> TestProxy {
    let servers: String =
        (0..origins.len()).map(|at| format!("  server s{at} ORIGIN{at}\n")).collect();
    let text = format!(
        "global\n  log stdout format raw local0\n\
         defaults\n  mode http\n  log global\n  option httplog\n  timeout connect 200ms\n  \
         timeout client 5s\n  timeout server 200ms\n\
         frontend fe\n  bind 127.0.0.1:0\n  default_backend be\n{frontend}\n\
         backend be\n{backend}\n{servers}"
    );
    TestProxy::new(&text, origins)
}

fn hello() -> Scripted {
    Scripted::new(|_: &ScriptedRequest| {
        vec![ServerStep::Send(answer("200 OK", "X-Kind: good\r\n", b"hello"))]
    })
}

const GET: &str = "GET /a?b HTTP/1.1\r\nHost: example.org\r\nUser-Agent: test/1\r\n\r\n";

/// The fields of a line, with times and ports as they are; the first two are client and date.
fn fields(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[test]
fn each_exchange_has_a_log_line() {
    let captures =
        "  capture request header User-Agent len 4\n  capture response header X-Kind len 9";
    let mut table = table(captures, "", vec![hello()]);
    let start = fulmar_sys::now();
    let got = table.send_request(GET);
    let took = i64::try_from((fulmar_sys::now() - start).as_millis()).expect("not so long");
    let log = table.log();
    assert_eq!(log.len(), 1, "{log:?}");
    let line = fields(&log[0]);
    assert!(line[0].starts_with("127.0.0.1:") && line[1].starts_with('['), "{log:?}");
    assert_eq!((line[2], line[3]), ("fe", "be/s0"));
    let times: Vec<i64> = line[4].split('/').map(|time| time.parse().expect("ms")).collect();
    assert!(times.len() == 5 && times.iter().all(|time| (0..=took + 1).contains(time)), "{log:?}");
    assert_eq!((line[5], line[6]), ("200", &*got.len().to_string()), "all that was sent");
    assert_eq!(line[7..10], ["-", "-", "----"]);
    assert_eq!((line[10], line[11]), ("1/1/0/0/0", "0/0"));
    assert_eq!(line[12..14], ["{test}", "{good}"]);
    assert_eq!(line[14..], ["\"GET", "/a?b", "HTTP/1.1\""]);
    assert_eq!(table.lines.borrow()[0].0, Severity::Info);
}

#[test]
fn termination_codes_show_how_an_exchange_ended() {
    type Steps = fn() -> Vec<ServerStep>;
    let cases: [(&str, &str, Steps, &str, &str); 5] = [
        ("  http-request deny", "", || ok(b""), "403", "PR--"),
        ("  http-request return status 204", "", || ok(b""), "204", "LR--"),
        ("", "", || vec![ServerStep::Close], "502", "SH--"),
        ("", "", Vec::new, "504", "sH--"),
        ("", "  http-response deny", || ok(b""), "502", "PH--"),
    ];
    for (frontend, backend, steps, status, letters) in cases {
        let origin = Scripted::new(move |_: &ScriptedRequest| steps());
        let mut table = table(frontend, backend, vec![origin]);
        table.send_request(GET);
        let log = table.log();
        let line = fields(&log[0]);
        assert_eq!((line[5], line[9]), (status, letters), "{log:?}");
    }
    let mut nobody = table("", "", vec![]);
    nobody.send_request(GET);
    let log = nobody.log();
    let line = fields(&log[0]);
    assert_eq!((line[3], line[5], line[9]), ("be/<NOSRV>", "503", "SC--"), "{log:?}");
    assert_eq!(line[4].split('/').nth(2), Some("-1"), "it never was connected: {log:?}");
}

#[test]
fn truncated_exchanges_are_logged_as_such() {
    let short = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort";
    let origin = Scripted::new(|_: &ScriptedRequest| {
        vec![ServerStep::Send(short.to_vec()), ServerStep::Close]
    });
    let mut table = table("", "", vec![origin]);
    let (_, ended) = table.talk(GET, |_| false);
    assert!(ended);
    let log = table.log();
    let line = fields(&log[0]);
    assert_eq!((line[5], line[9]), ("200", "SD--"), "{log:?}");
    let live = std::sync::Arc::clone(&table.live);
    assert_eq!(sum(&live.backends[0].counters, Counter::ServerAborts), 1);
}

#[test]
fn an_error_of_ours_is_explained() {
    let origin = Scripted::new(|_: &ScriptedRequest| vec![ServerStep::Close]);
    let mut table = table("", "  retry-on empty-response\n  retries 2", vec![origin]);
    table.send_request(GET);
    let log = table.log();
    let explained = log.last().expect("a line");
    assert!(explained.starts_with("fe be: 502 is our own answer: "), "{explained}");
    assert_eq!(explained.matches("s0: closed without an answer (a new connection)").count(), 3);
    assert!(explained.ends_with("no retries are left"), "{explained}");
    let post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx";
    table.send_request(post);
    let log = table.log();
    let explained = log.last().expect("a line");
    assert!(explained.ends_with("not tried again: it may have been executed"), "{explained}");
    assert_eq!(table.lines.borrow().last().expect("a line").0, Severity::Error);
}

#[test]
fn the_age_of_a_stale_connection_is_logged() {
    let origin = Scripted::new(|heard: &ScriptedRequest| match heard.nth {
        0 => ok(b""),
        _ => vec![ServerStep::Close],
    });
    let mut table = table("", "", vec![origin]);
    table.send_request(GET);
    let post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx";
    assert!(table.send_request(post).starts_with("HTTP/1.1 502"));
    let log = table.log();
    let explained = log.last().expect("a line");
    assert!(explained.contains("ms old, used 1 times)"), "{explained}");
}

#[test]
fn some_lines_can_be_disabled() {
    let mut normal = table("  option dontlog-normal", "", vec![hello()]);
    normal.send_request(GET);
    assert_eq!(normal.log(), Vec::<String>::new());
    let mut silent = table("  http-request set-log-level silent", "", vec![hello()]);
    silent.send_request(GET);
    assert_eq!(silent.log(), Vec::<String>::new());
    let mut loud = table("  http-request set-log-level crit", "", vec![hello()]);
    loud.send_request(GET);
    assert_eq!(loud.lines.borrow()[0].0, Severity::Critical);
}

#[test]
fn invalid_requests_are_logged_unless_empty() {
    let mut table = table("", "", vec![hello()]);
    let (got, ended) = table.talk("junk\r\n\r\n", |_| false);
    assert!(got.starts_with(b"HTTP/1.1 400") && ended);
    table.turn_until(|proxy, _| proxy.clients() == 0);
    let log = table.log();
    let line = fields(&log[0]);
    assert_eq!((line[5], line[9]), ("400", "PR--"), "{log:?}");
    assert!(log[0].ends_with("\"<BADREQ>\""), "{log:?}");
    let mut quiet = self::table("  option dontlognull", "", vec![hello()]);
    drop(std::mem::replace(&mut quiet.stream, {
        let address = quiet.address;
        fulmar_tests::loops::client(address)
    }));
    quiet.send_request(GET);
    assert_eq!(quiet.log().len(), 1, "{:?}", quiet.log());
}

#[test]
fn every_hop_counts() {
    let mut table = table("", "", vec![hello()]);
    for _ in 0..3 {
        table.send_request(GET);
    }
    let live = std::sync::Arc::clone(&table.live);
    let (frontend, backend) = (&live.frontends[0], &live.backends[0]);
    for counters in [&frontend.counters, &backend.counters] {
        assert_eq!(sum(counters, Counter::Requests), 3);
        assert_eq!(sum(counters, Counter::Responses2xx), 3);
    }
    let server = &backend.servers[0].counters;
    assert_eq!(sum(server, Counter::Responses2xx), 3);
    assert_eq!(sum(server, Counter::Reuses), 2);
    assert_eq!(sum(server, Counter::Connections), 1);
    assert_eq!(sum(server, Counter::Sessions), 0);
    assert_eq!(sum(server, Counter::IdleConnections), 1);
    assert_eq!(sum(server, Counter::Balanced), 3);
    assert_eq!(sum(&frontend.counters, Counter::Sessions), 1, "the client is still there");
    assert_eq!(sum(&frontend.counters, Counter::BytesIn), 3 * GET.len() as u64);
    assert_eq!(sum(&frontend.counters, Counter::SessionsTotal), 1);
}
