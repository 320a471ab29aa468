//! Observation of servers by sessions (`observe`), and the fate of sessions when a server goes down
//! or comes back (`on-marked-down`, `on-marked-up`), from a configuration: the proxy and its health
//! checks, in the thread of the test.

use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use fulmar_proxy::balance::Health;
use fulmar_proxy::{Checks, Wake};
use fulmar_sys as sys;
use fulmar_tests::loops::{Loop, OwnLoop, client};
use fulmar_tests::origins::free_address;
use fulmar_tests::process::PATIENCE;
use fulmar_tests::scripted::{Scripted, ScriptedRequest, ServerStep, answer, ok};
use fulmar_tests::test_proxy::{RecordingJournal, TestProxy, is_whole};

/// The proxy with these servers, and their health checks: one at once, and the next one after an
/// hour.
fn start(servers: &str, origins: Vec<Scripted>) -> (TestProxy, OwnLoop<Checks>) {
    let text = format!(
        "defaults\n  mode http\n  timeout connect 1s\n  timeout client 60s\n  timeout server 60s\n\
         \x20 retries 0\n  default-server check inter 1h on-error mark-down error-limit 3\n\
         frontend fe\n  bind 127.0.0.1:0\n  default_backend be\n\
         backend be\n{servers}\n"
    );
    let mut table = TestProxy::new(&text, origins);
    let live = Arc::clone(&table.live);
    let (mut checks, _) = OwnLoop::start(Checks::new(
        sys::now(),
        Arc::clone(&live),
        Box::new(RecordingJournal::default()),
    ));
    let waker = checks.waker();
    live.checks.set_wake(Box::new(move || waker.wake()));
    // The first check is made at once, and succeeds.
    checks.turn_until(|_| live.backends[0].servers[0].check.state().finding.duration.is_some());
    let waker = table.proxy.waker();
    live.wakers.set([Box::new(move || waker.wake()) as Wake]);
    (table, checks)
}

fn health(table: &TestProxy, server: usize) -> Health {
    table.live.backends[0].group.members()[server].health()
}

/// Responds with the status in the path.
fn saying() -> Scripted {
    Scripted::new(|heard: &ScriptedRequest| match heard.path() {
        "/mute" => Vec::new(),
        "/junk" => vec![ServerStep::Send(b"this is no response\r\n\r\n".to_vec())],
        path => vec![ServerStep::Send(answer(&format!("{} Said", &path[1..]), "", b"x"))],
    })
}

/// Responds to the pending request, on its connection, besides that of a check.
fn answer_late(origin: &mut Scripted) {
    let connection = origin.requests[0].connection;
    origin.act(connection, ok(b"late"));
}

/// Three consecutive errors mark a server down: responses with 500, or invalid ones; not 4xx, and
/// not with a success in between.
#[test]
fn errors_of_responses_mark_a_server_down() {
    let (mut table, mut checks) = start("  server s ORIGIN0 observe layer7", vec![saying()]);
    let mut send_request = |table: &mut TestProxy, paths: &[&str]| {
        for path in paths {
            table.reconnect();
            table.status(path);
        }
        checks.turn(Duration::ZERO);
    };
    send_request(
        &mut table,
        &["/500", "/junk", "/200", "/500", "/503", "/404", "/501", "/500", "/junk"],
    );
    assert_eq!(health(&table, 0), Health::Up);
    send_request(&mut table, &["/502"]);
    checks.turn_until(|_| health(&table, 0) == Health::Down);
    table.reconnect();
    assert_eq!(table.status("/200"), 503, "nobody is asked any more");
}

/// With observed connections, responses are ignored: three failed connects mark it down.
#[test]
fn errors_of_connections_mark_a_server_down() {
    let address = free_address(); // reserved after this listener is closed
    let gone = TcpListener::bind(address).expect("it is held for us");
    let servers = format!("  server s {address} observe layer4");
    // the check, and no other connection
    let accepts = std::thread::spawn(move || gone.accept().map(|_| ()));
    let (mut table, mut checks) = start(&servers, Vec::new());
    accepts.join().expect("a check").expect("it connects");
    for expected in [Health::Up, Health::Up, Health::Down] {
        table.reconnect();
        assert_eq!(table.status("/"), 503);
        let start = sys::now();
        while sys::now() - start < Duration::from_millis(20) || health(&table, 0) != expected {
            assert!(sys::now() - start < PATIENCE, "not {expected:?}");
            checks.turn(Duration::from_millis(5));
        }
    }
    let (mut table, mut checks) = start("  server s ORIGIN0 observe layer4", vec![saying()]);
    for _ in 0..5 {
        table.reconnect();
        assert_eq!(table.status("/500"), 500);
    }
    checks.turn(Duration::ZERO);
    assert_eq!(health(&table, 0), Health::Up);
}

/// `on-marked-down shutdown-sessions`: without it, existing sessions are served to the end.
#[test]
fn sessions_of_a_server_that_is_marked_down_end_if_they_are_to() {
    for ends in [true, false] {
        let more = if ends { " on-marked-down shutdown-sessions" } else { "" };
        let servers = format!("  server s ORIGIN0{more}");
        let (mut table, mut checks) = start(&servers, vec![saying()]);
        table.stream.write_all(b"GET /mute HTTP/1.1\r\nHost: h\r\n\r\n").expect("room");
        table.turn_until(|_, origins| origins[0].requests.len() == 1);
        table.live.set_health(fulmar_haproxy::BackendId(0), 0, Health::Down, sys::now());
        checks.turn(Duration::ZERO);
        if !ends {
            answer_late(&mut table.origins[0]);
        }
        let (got, _) = table.talk("", is_whole);
        let status = String::from_utf8_lossy(&got[9..12]).into_owned();
        assert_eq!(status, if ends { "502" } else { "200" });
    }
}

/// `on-marked-up shutdown-backup-sessions`: sessions of the backups end when the server is back.
#[test]
fn sessions_of_backups_end_when_a_server_is_back_if_they_are_to() {
    for ends in [true, false] {
        let more = if ends { " on-marked-up shutdown-backup-sessions" } else { "" };
        let servers = format!("  server s ORIGIN0{more}\n  server b ORIGIN1 backup");
        let (mut table, mut checks) = start(&servers, vec![saying(), saying()]);
        let set = |table: &TestProxy, health| {
            table.live.set_health(fulmar_haproxy::BackendId(0), 0, health, sys::now());
        };
        set(&table, Health::Down);
        checks.turn(Duration::ZERO);
        table.stream.write_all(b"GET /mute HTTP/1.1\r\nHost: h\r\n\r\n").expect("room");
        table.turn_until(|_, origins| origins[1].requests.len() == 1);
        set(&table, Health::Up);
        checks.turn(Duration::ZERO);
        if !ends {
            answer_late(&mut table.origins[1]);
        }
        let (got, _) = table.talk("", is_whole);
        let status = String::from_utf8_lossy(&got[9..12]).into_owned();
        assert_eq!(status, if ends { "502" } else { "200" });
        table.stream = client(table.address);
        assert_eq!(table.status("/200"), 200);
        assert_eq!(table.origins[0].requests.len(), 1, "it is asked again");
    }
}
