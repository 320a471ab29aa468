//! The log record for each response of 500 and above by the proxy: tried servers, results, and the
//! reason for the last one.

use std::io::Write;

use fulmar_tests::origins::free_address;
use fulmar_tests::process::PATIENCE;
use fulmar_tests::scripted::{Scripted, ScriptedRequest, ServerStep, ok};
use fulmar_tests::test_proxy::TestProxy;

fn table(frontend: &str, backend: &str, origins: Vec<Scripted>) -> TestProxy {
    let servers: String =
        (0..origins.len()).map(|at| format!("  server s{at} ORIGIN{at} maxconn 1\n")).collect();
    let text = format!(
        "global\n  log stdout format raw local0\n\
         defaults\n  mode http\n  log global\n  option httplog\n  timeout connect 200ms\n  \
         timeout client 5s\n  timeout server 200ms\n  timeout queue 50ms\n  retries 0\n\
         frontend fe\n  bind 127.0.0.1:0\n{frontend}\n\
         backend be\n{backend}\n{servers}"
    );
    TestProxy::new(&text, origins)
}

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const TO_BE: &str = "  default_backend be";

/// The last log line after a request: the part after the status.
fn explained(mut table: TestProxy, status: u16) -> String {
    let got = table.send_request(GET);
    assert!(got.starts_with(&format!("HTTP/1.1 {status} ")), "{got}");
    let last = table.log().pop().expect("a line");
    let own = format!(": {status} is our own answer: ");
    let (proxies, why) = last.split_once(&own).unwrap_or_else(|| panic!("{last}"));
    assert!(proxies == "fe be" || proxies == "fe <NOBACKEND>", "{last}");
    why.to_owned()
}

#[test]
fn server_errors_are_explained() {
    type Steps = fn() -> Vec<ServerStep>;
    let cases: [(Steps, u16, &str); 3] = [
        (|| vec![ServerStep::Close], 502, "s0: closed without an answer (a new connection); "),
        (|| vec![ServerStep::Send(b"junk\r\n\r\n".to_vec()), ServerStep::Close], 502, "s0: "),
        (Vec::new, 504, "s0: no answer in time (a new connection); "),
    ];
    for (steps, status, why) in cases {
        let origin = Scripted::new(move |_: &ScriptedRequest| steps());
        let common_part = explained(table(TO_BE, "", vec![origin]), status);
        assert!(common_part.starts_with(why), "{common_part}");
        assert!(
            common_part.ends_with(
                "not tried again: retry-on does not name \
                                       this"
            ),
            "{common_part}"
        );
    }
}

#[test]
fn unreachable_servers_are_explained() {
    let server = format!("  server gone {}", free_address());
    let common_part = explained(table(TO_BE, &server, vec![]), 503);
    assert_eq!(
        common_part,
        "gone: cannot connect: connection refused (a new connection); not tried again: no retries \
         are left"
    );
}

#[test]
fn missing_servers_are_explained() {
    let server = "  server off 127.0.0.1:1 disabled";
    assert_eq!(explained(table(TO_BE, server, vec![]), 503), "no server is usable");
    assert_eq!(explained(table(TO_BE, "", vec![]), 503), "no server is usable");
    assert_eq!(explained(table("", "", vec![]), 503), "no backend is chosen");
}

#[test]
fn queue_timeouts_are_explained() {
    let never = "  timeout server 60s"; // the first one stays
    let mut table = table(TO_BE, never, vec![Scripted::new(|_: &ScriptedRequest| Vec::new())]);
    let mut first =
        std::mem::replace(&mut table.stream, fulmar_tests::loops::client(table.address));
    first.write_all(GET.as_bytes()).expect("room");
    first.set_read_timeout(Some(PATIENCE)).expect("a good time");
    table.turn_until(|_, origins| origins[0].count("GET") == 1);
    assert_eq!(explained(table, 503), "it waited too long for a place");
}

#[test]
fn denials_by_rules_are_explained() {
    let hello = || Scripted::new(|_: &ScriptedRequest| ok(b"hello"));
    for (front, back, status) in [
        ("  http-request deny deny_status 503", "", 503),
        ("  http-request return status 500", "", 500),
        ("", "  http-request deny deny_status 500", 500),
        ("", "  http-response deny", 502),
        ("  http-request tarpit", "", 500),
    ] {
        let front = format!("{front}\n{TO_BE}");
        let common_part = explained(table(&front, back, vec![hello()]), status);
        assert_eq!(common_part, "a rule wants it so", "{front} {back}");
    }
}

#[test]
fn responses_of_servers_are_not_explained() {
    let origin = Scripted::new(|_: &ScriptedRequest| {
        vec![ServerStep::Send(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec())]
    });
    let mut table = table(TO_BE, "", vec![origin]);
    assert!(table.send_request(GET).starts_with("HTTP/1.1 503 "));
    assert_eq!(table.log().len(), 1, "{:?}", table.log());
}
