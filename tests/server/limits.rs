//! Limits of a server, in virtual time: deadlines, minimum rates, connection limits, graceful stop.

use std::time::Duration;

use fulmar_engine::Rate;
use fulmar_engine::sim::PeerId;
use fulmar_semantics::proxy_protocol::ProxyProtocol;
use fulmar_server::{Layers, Limits, ServerEngine, Stop};
use fulmar_tests::app::{App, app};
use fulmar_tests::loops::LISTENER;
use fulmar_tests::server_hand::ServerHand;

type AppHand = ServerHand<App>;

fn hand(limits: Limits) -> AppHand {
    hand_with(limits, Stop::new())
}

fn hand_with(limits: Limits, stop: Stop) -> AppHand {
    ServerHand::new(|now| {
        let mut engine = ServerEngine::new(now, app(), limits, stop);
        engine.add_listener(LISTENER, None);
        engine
    })
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")
}

fn post(target: &str, len: usize) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {len}\r\n\r\n")
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// When a connection was closed, in milliseconds.
fn closed(hand: &mut AppHand, socket: PeerId) -> Option<u128> {
    hand.peer(socket).closed.map(|(at, _)| at.as_millis())
}

/// A late request gets 408, then the client has a short time to read it.
#[test]
fn a_late_request_gets_408() {
    for begun in ["G", "GET / HTTP/1.1\r\nHost: h\r\nA: ", &post("/idle", 10), "\r\nG"] {
        let mut hand = hand(Limits::default());
        let socket = hand.connect();
        hand.sim.pass(seconds(5));
        hand.send(socket, begun);
        hand.sim.pass(seconds(60));
        let wire = hand.peer(socket);
        assert!(wire.text().starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{begun:?}: {wire:?}");
        assert!(
            wire.text().contains("\r\nConnection: close\r\n") && wire.shut_down.is_some(),
            "{wire:?}"
        );
        let body = begun.starts_with("POST");
        assert_eq!(closed(&mut hand, socket), Some(if body { 37_000 } else { 27_000 }));
        assert_eq!(hand.server().application().handler().gone(), 1);
    }
}

/// Between two requests no timeout is reported, and a request with a response gets no second one.
#[test]
fn idle_and_served_connections_get_no_408() {
    let mut hand = hand(Limits::default());
    let idle = hand.connect();
    hand.send(idle, get("/status/204"));
    let answer = hand.peer(idle).received.clone();
    let blank = hand.connect();
    hand.send(blank, "\r\n");
    let echo = hand.connect();
    hand.send(echo, post("/echo", 10) + "abc");
    hand.sim.pass(seconds(100));
    assert_eq!(hand.peer(idle).received, answer);
    assert_eq!((closed(&mut hand, idle), closed(&mut hand, blank)), (Some(75_000), Some(75_000)));
    assert!(
        hand.peer(echo).text().starts_with("HTTP/1.1 200") && hand.peer(echo).shut_down.is_none()
    );
    assert!(hand.peer(echo).text().ends_with("\r\n\r\nabc"), "and nothing after it");
    assert_eq!(closed(&mut hand, echo), Some(30_000));
}

/// Single bytes do not keep a connection open, however long its body.
#[test]
fn a_body_must_come_at_a_rate() {
    let mut hand = hand(Limits::default());
    let (slow, steady) = (hand.connect(), hand.connect());
    for socket in [slow, steady] {
        hand.send(socket, post("/idle", 1_000_000));
    }
    for _ in 0..300 {
        hand.sim.pass(seconds(1));
        hand.send(slow, "x");
        hand.send(steady, [b'y'; 300]);
    }
    let late = closed(&mut hand, slow).expect("it is over");
    assert!((30_000..=62_000).contains(&late), "{late}");
    assert_eq!(closed(&mut hand, steady), None, "who keeps the rate may take his time");
    hand.sim.pass(seconds(31));
    assert!(hand.peer(steady).text().starts_with("HTTP/1.1 408"), "but silence ends it");
}

#[test]
fn an_answer_must_be_taken_at_a_rate() {
    let mut hand = hand(Limits::default());
    let (slow, steady) = (hand.connect(), hand.connect());
    for socket in [slow, steady] {
        hand.peer(socket).window = 100;
        hand.send(socket, get("/bytes/1000000"));
    }
    for _ in 0..300 {
        hand.sim.pass(seconds(1));
        if hand.peer(slow).closed.is_none() {
            hand.take(slow, 1);
        }
        hand.take(steady, 300);
    }
    let late = closed(&mut hand, slow).expect("it is over");
    assert!((30_000..=62_000).contains(&late), "{late}");
    assert_eq!(closed(&mut hand, steady), None);
    assert_eq!(hand.peer(steady).received.len(), 100 + 300 * 300);
}

/// The rate is checked at deadlines, without wake-ups of its own in between.
#[test]
fn looking_at_the_rate_costs_a_wake_up_in_each_period() {
    let mut hand = hand(Limits::default());
    let socket = hand.connect();
    hand.send(socket, post("/idle", 100_000_000));
    let before = hand.wake_ups();
    for _ in 0..6_000 {
        hand.sim.pass(Duration::from_millis(100));
        hand.send(socket, [b'y'; 1_000]);
    }
    // 600 seconds are 20 periods of 30; the wheel is coarse, and takes a few steps to a deadline.
    assert!(hand.wake_ups() - before <= 4 * 20, "{}", hand.wake_ups() - before);
    assert_eq!(closed(&mut hand, socket), None);
}

#[test]
fn without_a_minimum_rate_slow_bodies_are_accepted() {
    let mut hand = hand(Limits { rate_min: None, ..Limits::default() });
    let socket = hand.connect();
    hand.send(socket, post("/idle", 1_000));
    for _ in 0..100 {
        hand.sim.pass(seconds(29));
        hand.send(socket, "x");
    }
    assert_eq!(closed(&mut hand, socket), None);
}

fn all(timeout: Duration, rate_min: Option<Rate>) -> Limits {
    Limits {
        handshake_timeout: timeout,
        idle_timeout: timeout,
        head_timeout: timeout,
        body_timeout: timeout,
        send_timeout: timeout,
        abandoned_timeout: timeout,
        linger_timeout: timeout,
        drain_timeout: timeout,
        rate_min,
        ..Limits::default()
    }
}

/// One connection in each phase of a server.
fn one_of_each(hand: &mut AppHand) -> Vec<PeerId> {
    let sockets: Vec<_> = (0..6).map(|_| hand.connect()).collect();
    hand.send(sockets[1], "GET / HT");
    hand.send(sockets[2], post("/idle", 10) + "x");
    hand.peer(sockets[3]).window = 10;
    hand.send(sockets[3], get("/bytes/1000"));
    hand.send(sockets[4], get("/idle"));
    hand.send(sockets[5], "nonsense\r\n\r\n"); // lingers
    sockets
}

/// The longest timeouts: nothing overflows, nothing is due, no timer is set.
#[test]
fn the_longest_timeouts_never_expire() {
    let rate = Rate { bytes_per_second: u32::MAX, grace: Duration::MAX };
    for max in [Duration::MAX, Duration::from_millis(u64::MAX), seconds(u64::from(u32::MAX))] {
        let stop = Stop::new();
        let mut hand = hand_with(all(max, Some(rate)), stop.clone());
        let sockets = one_of_each(&mut hand);
        hand.jump(seconds(3_600));
        hand.jump(seconds(50 * 24 * 3_600)); // a counter of 32 bits has wrapped
        let before = hand.wake_ups();
        hand.sim.pass(seconds(24 * 3_600));
        assert!(hand.wake_ups() - before < 100, "{} in a day", hand.wake_ups() - before);
        assert!(sockets.iter().all(|socket| closed(&mut hand, *socket).is_none()));
        stop.set();
        hand.wake();
        hand.sim.pass(seconds(24 * 3_600));
        assert_eq!(hand.server().connections(), 5, "all but the idle one");
    }
}

/// Timeouts of zero: every connection ends at the next tick, without spinning.
#[test]
fn timeouts_of_zero_end_at_once_without_spinning() {
    let rate = Rate { bytes_per_second: u32::MAX, grace: Duration::ZERO };
    for rate_min in [None, Some(rate)] {
        let mut hand = hand(all(Duration::ZERO, rate_min));
        let sockets = one_of_each(&mut hand);
        hand.sim.pass(seconds(10));
        assert!(hand.wake_ups() < 20, "{}", hand.wake_ups());
        for (at, socket) in sockets.into_iter().enumerate() {
            let suspended = at == 4; // the application has no time limit
            assert_eq!(closed(&mut hand, socket).is_none(), suspended, "{at}");
        }
    }
}

/// After a sleep of the machine, overdue connections end once, and new ones are served.
#[test]
fn after_a_clock_jump_new_connections_are_served() {
    for leap in [3_600, 50 * 24 * 3_600] {
        let mut hand = hand(Limits::default());
        one_of_each(&mut hand);
        hand.jump(seconds(leap));
        hand.sim.pass(seconds(3));
        assert!(hand.wake_ups() < 10, "{}", hand.wake_ups());
        assert_eq!(hand.server().connections(), 1, "who waits for the application");
        let late = hand.connect();
        hand.send(late, get("/bytes/3"));
        assert!(hand.peer(late).text().ends_with("\r\n\r\n012"));
    }
}

/// The limits of a network and of the machine; a Unix socket belongs to no network.
#[test]
fn connections_per_address_are_limited() {
    let limits =
        Limits { address_connections_max: 3, loopback_connections_max: 5, ..Limits::default() };
    let mut hand = hand(limits);
    let mut count = |peers: &[&str]| {
        let all: Vec<_> = (0..10).map(|n| peers[n % peers.len()]).collect();
        all.into_iter().filter_map(|peer| hand.connect_from(peer)).collect::<Vec<_>>()
    };
    let one = count(&["192.0.2.1:1", "192.0.2.1:2", "[::ffff:192.0.2.1]:3"]);
    assert_eq!(one.len(), 3);
    assert_eq!(count(&["192.0.2.2:1"]).len(), 3, "another one");
    assert_eq!(count(&["[2001:db8::1]:1", "[2001:db8::2]:1"]).len(), 3, "one network");
    assert_eq!(count(&["[2001:db8:0:1::1]:1"]).len(), 3);
    assert_eq!(count(&["127.0.0.1:1"]).len(), 5);
    assert_eq!(count(&["0.0.0.0:0"]).len(), 10, "a Unix socket");
    assert_eq!(hand.server().refused(), 4 * 7 + 5);
    hand.finish(one[1]);
    assert!(closed(&mut hand, one[1]).is_some());
    assert!(hand.connect_from("192.0.2.1:9").is_some(), "a place is free again");
    assert!(hand.connect_from("192.0.2.1:9").is_none());
}

/// Behind a proxy the limit applies to the client, not to the proxy.
#[test]
fn connections_per_address_are_limited_behind_a_proxy() {
    let limits = Limits { address_connections_max: 3, ..Limits::default() };
    let layers = Layers::new(|_| Some(Box::new(ProxyProtocol::new(None))));
    let mut hand = ServerHand::new(|now| {
        let mut engine = ServerEngine::new(now, app(), limits, Stop::new());
        engine.add_listener(LISTENER, Some(layers));
        engine
    });
    let mut send_request = |client: &str| {
        let socket = hand.connect_from("192.0.2.1:1")?;
        let get = "GET /bytes/1 HTTP/1.1\r\nHost: h\r\n\r\n";
        hand.send(socket, format!("PROXY TCP4 {client} 198.51.100.1 4711 80\r\n{get}"));
        let wire = hand.peer(socket);
        assert_eq!(wire.received.is_empty(), wire.closed.is_some(), "answered, or closed at once");
        wire.closed.is_none().then_some(socket)
    };
    let one: Vec<_> = (0..10).filter_map(|_| send_request("203.0.113.1")).collect();
    let others = (2..10).filter_map(|n| send_request(&format!("203.0.113.{n}"))).count();
    assert_eq!((one.len(), others), (3, 8));
    assert_eq!(hand.server().refused(), 7);
    hand.finish(one[0]);
    assert!(closed(&mut hand, one[0]).is_some());
    assert_eq!(hand.server().connections(), 10);
    let silent = (0..10).filter_map(|_| hand.connect_from("192.0.2.1:1")).count();
    assert_eq!(silent, 3, "who has not said it is the proxy itself");
}

/// Graceful stop: idle connections close at once, the response in progress has `Connection: close`,
/// and at the deadline, to the millisecond, all connections are closed.
#[test]
fn a_graceful_stop_ends_at_its_deadline() {
    let stop = Stop::new();
    let limits = Limits { drain_timeout: seconds(7), ..Limits::default() };
    let mut hand = hand_with(limits, stop.clone());
    let sockets: Vec<_> = (0..7).map(|_| hand.connect()).collect();
    let [idle, kept, head, body, busy, delayed, suspended] = sockets[..] else { unreachable!() };
    hand.send(kept, get("/status/204"));
    hand.send(head, "GET /bytes/3 HT");
    hand.send(body, post("/echo", 6) + "abc");
    hand.peer(busy).window = 10;
    hand.send(busy, get("/bytes/1000") + &get("/bytes/3"));
    hand.send(delayed, get("/delay/2000") + &get("/bytes/3"));
    hand.send(suspended, get("/idle"));
    hand.sim.pass(seconds(1));
    stop.set();
    hand.wake();
    assert!(!hand.sim.is_listening(hand.node, LISTENER) && !hand.server().is_done());
    assert_eq!(closed(&mut hand, kept), Some(1_000), "it owed nothing");
    assert_eq!(
        closed(&mut hand, idle),
        None,
        "it may have come in this very turn, and has a moment"
    );
    hand.send(head, "TP/1.1\r\nHost: h\r\n\r\n");
    hand.send(body, "def");
    hand.take(busy, 100);
    hand.sim.pass(seconds(2));
    assert_eq!(closed(&mut hand, idle), Some(2_000));
    for socket in [head, delayed] {
        let text = hand.peer(socket).text().to_owned();
        assert!(text.contains("\r\nConnection: close\r\n"), "{text}");
        assert_eq!(text.matches("HTTP/1.1").count(), 1, "what waited behind it is not begun");
    }
    assert!(closed(&mut hand, head).is_some());
    assert_eq!(closed(&mut hand, delayed), None, "a close would take its response back");
    assert!(hand.peer(body).text().ends_with("abcdef"));
    assert_eq!(closed(&mut hand, body), Some(1_000));
    hand.sim.pass(seconds(30));
    assert_eq!(closed(&mut hand, delayed), Some(4_000), "two seconds after its response");
    for socket in [busy, suspended] {
        assert_eq!(closed(&mut hand, socket), Some(8_000));
    }
    assert!(hand.server().is_done());
    assert_eq!(
        hand.server().application().handler().gone(),
        7,
        "everybody is told, whatever ended it"
    );
    assert_eq!(hand.server().refused(), 0);
}
