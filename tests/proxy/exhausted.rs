//! A proxy without descriptors: the server is not marked as failed, clients get 503 or are closed,
//! nothing spins, and the proxy recovers. In a process of its own, because it changes the limit.

use std::net::TcpListener;
use std::time::Duration;

use fulmar_proxy::{LogSeverity, Stat, sum};
use fulmar_sys::{self as sys, Ledger};
use fulmar_tests::loops::{Loop, client, polling};
use fulmar_tests::own_process::own_process;
use fulmar_tests::scripted::{Scripted, ScriptedRequest, ok};
use fulmar_tests::test_proxy::TestProxy;
use rustix::process::{Resource, Rlimit, setrlimit};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

fn table(mode: &str) -> TestProxy {
    let text = format!(
        "global\n  log stdout format raw local0\n\
         defaults\n  mode {mode}\n  log global\n  option {mode}log\n  timeout connect 500ms\n  \
         timeout client 5s\n  timeout server 5s\n  retries 1\n\
         frontend fe\n  bind 127.0.0.1:0\n  default_backend be\n\
         backend be\n  server s ORIGIN0 check observe layer4 error-limit 1 on-error mark-down\n"
    );
    TestProxy::new(&text, vec![Scripted::new(|_: &ScriptedRequest| ok(b"good"))])
}

/// Takes all descriptors that are left.
fn hoard() -> Vec<TcpListener> {
    let first = TcpListener::bind("127.0.0.1:0").expect("a port");
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum: Some(64) }).expect("less");
    let mut all: Vec<_> = std::iter::from_fn(|| first.try_clone().ok()).collect();
    all.push(first);
    all
}

/// The termination code, which follows two empty fields in mode http.
fn code(line: &str, mode: &str) -> String {
    let at = if mode == "http" { 9 } else { 6 };
    line.split(' ').nth(at).unwrap_or_default().to_owned()
}

fn a_server_is_not_blamed(mode: &str) {
    let mut table = table(mode);
    let mut hoard = Vec::new();
    if mode == "http" {
        table.turn_until(|proxy, _| proxy.clients() == 1);
        hoard.append(&mut self::hoard());
    } else {
        // A server is connected to as soon as its client has come: there is room for that one.
        hoard.append(&mut self::hoard());
        hoard.truncate(hoard.len() - 1);
    }
    let (got, ended) = table.talk(GET, |got| got.ends_with(b"</main>\n"));
    match mode {
        "http" => assert!(got.starts_with(b"HTTP/1.1 503"), "{}", String::from_utf8_lossy(&got)),
        _ => assert!(ended && got.is_empty()),
    }
    let log = table.log();
    assert_eq!(code(&log[0], mode), if mode == "http" { "RC--" } else { "RC" }, "{log:?}");
    drop(hoard);
    table.reconnect();
    assert!(table.send_request(GET).ends_with("good"), "the server is still used");
    let server = &table.live.backends[0].servers[0].counters;
    assert_eq!(sum(server, Stat::ConnectErrors), 1);
}

/// A client that connects without a free descriptor waits, and is served later.
fn new_clients_wait() {
    let mut table = table("http");
    assert_eq!(table.status("/"), 200);
    let mut late = client(table.address);
    let mut hoard = hoard();
    let before = Ledger::here();
    let end = sys::now() + Duration::from_millis(350);
    while sys::now() < end {
        table.proxy.turn(Duration::from_millis(50));
    }
    let spent = Ledger::here() - before;
    assert!(spent.total() - polling(&spent) <= 40, "ten looks in a second: {spent:?}");
    let told = "Proxy fe reached process FD limit. Please check 'ulimit-n' and restart.";
    let lines = table.lines.borrow().clone();
    let alarms = lines.iter().filter(|(severity, _)| *severity == LogSeverity::Emergency);
    let alarms: Vec<&str> = alarms.map(|(_, line)| line.as_str()).collect();
    assert_eq!(alarms, [told], "once, for all its looks");
    // A client, a server, and both at the origin; and as many for a check, should one be made.
    hoard.truncate(hoard.len() - 8);
    std::mem::swap(&mut table.stream, &mut late);
    assert_eq!(table.status("/"), 200);
}

#[test]
fn exhausted_descriptors_are_reported_and_recover() {
    own_process(|| {
        a_server_is_not_blamed("http");
        a_server_is_not_blamed("tcp");
        new_clients_wait();
    });
}
