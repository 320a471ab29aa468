//! Which connection a transfer uses, how long it waits for one, and what a loop watches.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fulmar_client::{CompiledOrigin, Config, ConnectionUse, Options, Protocol, Request};
use fulmar_engine::{Engine, Peer, SocketEvent};

use crate::driven::{DrivenClient, OK};

fn get(url: &str, options: Options) -> Request {
    Request::get(url).options(Arc::new(options)).build().expect("a request")
}

const URL: &str = "http://127.0.0.1/";

/// Runs a request, and returns how many connections have been begun so far.
fn run(driven: &mut DrivenClient, options: Options) -> u64 {
    driven.start(&get(URL, options));
    driven.receive(OK, false);
    driven.client.stats().connections
}

#[test]
fn a_fresh_connection_has_carried_no_request() {
    let fresh = || Options { fresh_connection: true, ..Options::default() };
    let mut driven = DrivenClient::new(None);
    assert_eq!(run(&mut driven, Options::default()), 1);
    assert_eq!(run(&mut driven, fresh()), 2);
    assert_eq!(run(&mut driven, fresh()), 3);
    assert_eq!(run(&mut driven, Options::default()), 3, "the last one is used again");
    assert_eq!(driven.client.idle_connections(), 3);
    let reused: Vec<bool> = driven.client.application().done.iter().map(|it| it.reused).collect();
    assert_eq!(reused, [false, false, false, true]);
}

/// An idle connection makes room if an origin has all its connections.
#[test]
fn a_fresh_connection_does_not_wait_for_an_idle_one() {
    let config = Config { per_host_max: 1, ..Config::default() };
    let mut driven = DrivenClient::with(None, config);
    assert_eq!(run(&mut driven, Options::default()), 1);
    let fresh = Options { fresh_connection: true, ..Options::default() };
    assert_eq!(run(&mut driven, fresh), 2);
    assert_eq!((driven.client.connections(), driven.closed), (1, 1));
}

#[test]
fn a_waiting_fresh_transfer_does_not_follow_on_a_used_connection() {
    let config = Config { per_host_max: 1, ..Config::default() };
    let mut driven = DrivenClient::with(None, config);
    driven.start(&get(URL, Options::default()));
    driven.start(&get(URL, Options { fresh_connection: true, ..Options::default() }));
    assert_eq!(driven.client.stats().connections, 1);
    driven.receive(OK, false);
    driven.receive(OK, false);
    assert_eq!(driven.client.application().ends, ["ok 200", "ok 200"]);
    assert_eq!(driven.client.stats().connections, 2);
}

#[test]
fn old_connections_are_closed_instead_of_used() {
    let aged = |idle: Option<u64>, life: Option<u64>| Options {
        idle_age_max: idle.map(Duration::from_secs),
        lifetime_max: life.map(Duration::from_secs),
        ..Options::default()
    };
    let mut driven = DrivenClient::new(None);
    assert_eq!(run(&mut driven, Options::default()), 1);
    driven.wait(Duration::from_secs(10));
    assert_eq!(run(&mut driven, aged(Some(10), None)), 1, "10 seconds are not exceeded");
    driven.wait(Duration::from_secs(12));
    assert_eq!(run(&mut driven, aged(Some(11), None)), 2);
    assert_eq!(driven.client.connections(), 1, "the old one is closed");
    driven.wait(Duration::from_secs(5));
    assert_eq!(run(&mut driven, aged(None, Some(5))), 2);
    driven.wait(Duration::from_secs(5));
    assert_eq!(run(&mut driven, aged(Some(6), Some(9))), 3);
}

#[test]
fn the_addresses_of_a_request_replace_those_of_the_name() {
    let addresses: Vec<SocketAddr> =
        ["127.0.0.9:81", "[::1]:82"].iter().map(|text| text.parse().expect("one")).collect();
    let options = || Options { addresses: Some(addresses.clone().into()), ..Options::default() };
    for url in ["http://name.example/", "http://10.0.0.1/"] {
        let mut driven = DrivenClient::new(None);
        driven.refuses = true;
        driven.start(&get(url, options()));
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let first = driven.socket.expect("a connection");
        driven.client.handle(driven.now, SocketEvent::Failed(refused()).of(first));
        driven.act();
        let second = driven.socket.expect("a connection");
        driven.client.handle(driven.now, SocketEvent::Connected.of(second));
        driven.act();
        assert_eq!(driven.connects, addresses.iter().map(|at| Peer::Ip(*at)).collect::<Vec<_>>());
        assert_eq!(driven.lookups, 0, "the name is not resolved");
        let host = url.trim_start_matches("http://").trim_end_matches('/');
        assert!(driven.sent().contains(&format!("Host: {host}\r\n")));
        driven.receive(OK, false);
        assert_eq!(driven.client.application().done[0].peer, Some(addresses[1]));
        let other = get(url, Options::default());
        assert_ne!(get(url, options()).key(), other.key());
    }
}

#[test]
fn timeouts_of_connections_are_those_of_the_first_waiting_transfer() {
    let second = Some(Duration::from_secs(1));
    let connect = Options { connect_timeout: second, ..Options::default() };
    let queue = Options { queue_timeout: second, ..Options::default() };
    for (options, end) in [(connect, "connect"), (queue, "Queue")] {
        let mut driven = DrivenClient::new(None);
        driven.refuses = true;
        driven.start(&get(URL, options));
        driven.wait(Duration::from_millis(900));
        assert!(driven.client.application().ends.is_empty());
        driven.wait(Duration::from_secs(2));
        assert_eq!(driven.client.application().ends, [end]);
    }
    // A transfer that has its connection waits for none.
    let mut driven = DrivenClient::new(None);
    driven.start(&get(URL, Options { queue_timeout: second, ..Options::default() }));
    driven.wait(Duration::from_secs(30));
    assert!(driven.client.application().ends.is_empty());
}

#[test]
fn a_new_configuration_applies_at_once() {
    let mut driven = DrivenClient::new(None);
    run(&mut driven, Options::default());
    assert_eq!(driven.client.idle_connections(), 1);
    let connect_timeout = Some(Duration::from_secs(2));
    let config = Config { idle_max: 0, connect_timeout, ..driven.client.config().clone() };
    driven.client.set_config(driven.now, config);
    driven.act();
    assert_eq!((driven.client.idle_connections(), driven.closed), (0, 1));
    driven.refuses = true;
    driven.start(&get(URL, Options::default()));
    driven.wait(Duration::from_secs(4));
    assert_eq!(driven.client.application().ends, ["ok 200", "connect"]);
}

#[test]
fn an_idle_connection_needs_no_event_and_no_timer_if_it_is_not_watched() {
    let idle_timeout = Some(Duration::from_secs(60));
    let config = Config { watches_idle: false, idle_timeout, ..Config::default() };
    let mut driven = DrivenClient::with(None, config);
    run(&mut driven, Options::default());
    assert_eq!(driven.watches.last(), Some(&false));
    driven.wait(Duration::from_secs(1));
    assert_eq!(driven.client.poll_timeout(), None);
    assert_eq!(run(&mut driven, Options::default()), 1);
    assert_eq!(driven.watches[driven.watches.len() - 2..], [true, false]);
    driven.wait(Duration::from_secs(61));
    assert_eq!(run(&mut driven, Options::default()), 2, "the idle timeout has passed");

    let mut watched = DrivenClient::new(None);
    run(&mut watched, Options::default());
    assert!(watched.watches.is_empty() && watched.client.poll_timeout().is_some());
}

#[test]
fn a_connection_names_its_transfer_and_a_transfer_its_connection() {
    let mut driven = DrivenClient::new(None);
    driven.refuses = true;
    let id = driven.start(&get(URL, Options::default()));
    let socket = driven.socket.expect("a connection");
    assert_eq!(driven.client.owner(socket), Some(id), "it is opened for the transfer");
    let now = driven.now;
    assert_eq!(driven.client.with(now, |_, context| context.connection(id)), None);
    driven.client.handle(now, SocketEvent::Connected.of(socket));
    driven.act();
    assert_eq!(driven.client.with(now, |_, context| context.connection(id)), Some(socket));
    assert_eq!(driven.client.owner(socket), Some(id));
    driven.receive(OK, false);
    assert_eq!(driven.client.owner(socket), None, "it is idle");
    let done = &driven.client.application().done[0];
    assert_eq!(done.connection, Some(socket));
    assert_eq!(done.peer, Some("127.0.0.1:80".parse().expect("an address")));
}

/// A `Retry-After` delays the other requests to its host, unless it is ignored.
#[test]
fn retry_after_of_zero_is_ignored() {
    for (seconds, is_sent) in [(0, true), (300, false)] {
        let retry_after_max = Duration::from_secs(seconds);
        let config = Config { retry_after_max, ..Config::default() };
        let mut driven = DrivenClient::with(None, config);
        driven.start(&get(URL, Options { retries: 1, ..Options::default() }));
        driven.receive(b"HTTP/1.1 503 X\r\nRetry-After: 9\r\nContent-Length: 0\r\n\r\n", false);
        assert_eq!(driven.client.running(), usize::from(!is_sent), "it is not repeated");
        driven.sent();
        driven.start(&get(URL, Options::default()));
        assert_eq!(!driven.sent().is_empty(), is_sent, "{seconds} seconds");
    }
}

/// Keys may differ in more than host and port.
#[test]
fn connections_to_a_host_and_port_are_limited_over_all_keys() {
    let named = |name: &'static [u8]| Options {
        connection_name: Some(Arc::from(name)),
        ..Options::default()
    };
    let config = Config { per_authority_max: 1, ..Config::default() };
    let mut driven = DrivenClient::with(None, config);
    driven.start(&get(URL, named(b"a")));
    let first = driven.socket;
    driven.start(&get(URL, named(b"b")));
    driven.start(&get("http://127.0.0.1:81/", named(b"b")));
    assert_eq!(driven.client.stats().connections, 2, "another port is another limit");
    driven.socket = first;
    driven.receive(OK, false);
    assert_eq!(driven.client.application().ends, ["ok 200"]);
    assert_eq!(
        (driven.client.stats().connections, driven.closed),
        (3, 1),
        "the idle one is closed"
    );
    driven.receive(OK, false);
    assert_eq!(driven.client.application().ends, ["ok 200", "ok 200"]);
    assert_eq!(driven.client.connections(), 2);
}

/// A waiting transfer that is removed leaves its turn to the next one.
#[test]
fn a_removed_transfer_does_not_wait_for_its_authority() {
    let named = |name: &'static [u8]| Options {
        connection_name: Some(Arc::from(name)),
        ..Options::default()
    };
    let config = Config { per_authority_max: 1, ..Config::default() };
    let mut driven = DrivenClient::with(None, config);
    driven.start(&get(URL, named(b"a")));
    let removed = driven.start(&get(URL, named(b"b")));
    driven.start(&get(URL, named(b"c")));
    let now = driven.now;
    driven.client.with(now, |_, context| context.remove(removed));
    driven.receive(OK, false);
    driven.receive(OK, false);
    assert_eq!(driven.client.application().ends, ["ok 200", "ok 200"]);
}

#[test]
fn the_longest_idle_connection_is_closed_if_too_many_are_open() {
    let config = Config { kept_max: 2, ..Config::default() };
    let mut driven = DrivenClient::with(None, config);
    for (port, closed) in [(80, 0), (81, 0), (82, 1), (83, 2)] {
        run_at(&mut driven, port);
        assert_eq!(driven.closed, closed, "port {port}");
    }
    assert_eq!(driven.client.idle_connections(), 2);
    assert_eq!(driven.client.stats().connections, 4);
    run_at(&mut driven, 82);
    assert_eq!(driven.client.stats().connections, 4, "the newer ones are kept");
}

fn run_at(driven: &mut DrivenClient, port: u16) {
    driven.start(&get(&format!("http://127.0.0.1:{port}/"), Options::default()));
    driven.receive(OK, false);
}

/// HTTP/2 with prior knowledge: the connection may carry all of them.
#[test]
fn transfers_wait_for_a_multiplexed_connection_only_if_they_are_to() {
    for (awaits_multiplexing, connections) in [(true, 1), (false, 3)] {
        let options =
            || Options { protocol: Protocol::Http2, awaits_multiplexing, ..Options::default() };
        let mut driven = DrivenClient::new(None);
        driven.refuses = true;
        for _ in 0..3 {
            driven.start(&get(URL, options()));
        }
        assert_eq!(driven.client.stats().connections, connections);
    }
}

/// The response with 408 to an idle connection crosses the next request.
#[test]
fn a_request_is_sent_again_after_408_on_a_reused_connection() {
    for method in ["GET", "POST"] {
        let mut driven = DrivenClient::new(None);
        let request = Request::with_method(method, "http://127.0.0.1/").build().unwrap();
        driven.start(&request);
        driven.receive(OK, false);
        driven.sent();
        driven.client.start(driven.now, &request); // it is not sent before the input arrives
        driven.receive(b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n", true);
        assert_eq!(driven.connects.len(), 2, "{method}");
        assert!(driven.sent().starts_with(method), "on the new connection");
        driven.receive(OK, false);
        assert_eq!(driven.client.application().ends, ["ok 200", "ok 200"], "{method}");
    }
}

/// It is the connection of the next request, whose times have those of its setup.
#[test]
fn a_connection_is_opened_for_a_later_request() {
    let mut driven = DrivenClient::new(None);
    let origin = CompiledOrigin::new(URL, Options::default()).expect("an origin");
    driven.start(&origin.connection());
    let socket = driven.socket.expect("a connection");
    assert!(driven.client.would_use(&origin, socket));
    assert_eq!((driven.client.idle_connections(), driven.sent()), (1, String::new()));
    run(&mut driven, Options::default());
    driven.start(&origin.connection());
    let done = &driven.client.application().done;
    let facts: Vec<_> = done.iter().map(|it| (it.connection == Some(socket), it.reused)).collect();
    assert_eq!(facts, [(true, false), (true, false), (true, true)]);
    assert_eq!(driven.client.stats().connections, 1);
    driven.start(&get(URL, Options::default()));
    assert!(!driven.client.would_use(&origin, socket), "it is busy");
    driven.receive(b"HTTP/1.1 200 OK\r\n\r\n", true);
    assert!(!driven.client.would_use(&origin, socket), "it is closed");
}

/// The application decides about each connection.
#[test]
fn a_request_is_not_sent_again_unless_it_may_be() {
    let mut driven = DrivenClient::new(None);
    let options = Options { resends: false, ..Options::default() };
    run(&mut driven, options.clone());
    driven.start(&get(URL, options));
    driven.receive(b"", true);
    assert_eq!(driven.client.stats().connections, 1);
    assert_eq!(driven.client.application().ends.len(), 2);
}

/// Also for a repetition. The transfer may be removed then.
#[test]
fn the_connection_of_a_request_is_reported_on_demand() {
    let reported = || Options { reports_connection: true, ..Options::default() };
    let mut driven = DrivenClient::new(None);
    run(&mut driven, Options::default());
    assert_eq!(driven.client.application().connected, []);
    run(&mut driven, reported());
    driven.start(&get(URL, reported()));
    let used = driven.socket.expect("a connection");
    assert_eq!(driven.client.connection_use(used), ConnectionUse::Kept);
    driven.receive(b"", true);
    assert_eq!(driven.client.connection_use(used), ConnectionUse::Closed);
    driven.receive(OK, false);
    assert_eq!(driven.client.application().connected, [true, true, false]);

    driven.client.application_mut().removes_connected = true;
    driven.start(&get(URL, reported()));
    assert_eq!(driven.client.application().connected.len(), 4);
    assert_eq!(driven.client.application().done.len(), 3);
    driven.client.application_mut().removes_connected = false;
    assert_eq!(run(&mut driven, reported()), 3, "that of the removed request is closed");
}
