//! Connects, bytes, ends and resets.

use super::*;

#[test]
fn an_engine_and_a_peer_exchange_bytes_and_ends() {
    let (mut sim, probe, peer) = accepted();
    sim[probe].echoes = true;
    sim.play(peer, send(b"hello"));
    sim.play(peer, PeerStep::Fin);
    let expected = ["101 input 5 eof false", "101 sent 5", "101 input 0 eof true"];
    assert_eq!(sim[probe].take_log(), expected);
    assert_eq!((sim[peer].text(), sim[peer].end), ("hello", Some(PeerEnd::Fin)));
    assert_eq!(sim[peer].shut_down, Some(Duration::ZERO));
    assert_eq!((sim[peer].closed, sim.sockets(probe)), (None, 1));
}

/// What the connecting engine is reported, by where it connects.
#[test]
fn connects_lead_where_their_routes_say() {
    let refused = "1 failed connection refused";
    for (route, expected) in [
        (AddressRoute::Refused, &[refused][..]),
        (AddressRoute::Unreachable, &["1 failed host unreachable"]),
        (AddressRoute::Silent, &[]),
    ] {
        let (mut sim, probe) = listening();
        sim.route(address(81), route);
        sim[probe].connect(SOCKET, address(81));
        sim.settle();
        assert_eq!(sim[probe].take_log(), expected);
        assert_eq!(sim.sockets(probe), usize::from(expected.is_empty()), "{route:?}");
        sim[probe].actions.push_back(Action::Close { socket: SOCKET, kind: CloseKind::Normal });
        sim.settle();
        assert_eq!(sim.sockets(probe), 0);
    }
    let (mut sim, probe) = listening();
    sim[probe].connect(SOCKET, address(80));
    sim.settle();
    assert_eq!(sim[probe].take_log(), ["1 connected", "accept 0 127.0.0.1 "]);
    sim[probe].connect(id(2), address(82));
    sim.settle();
    assert_eq!(sim[probe].take_log(), ["2 failed connection refused"], "the default route");
}

#[test]
fn scripts_serve_every_address_of_a_route() {
    let (mut sim, probe) = listening();
    let script = sim.script(Box::new(|_, peer, now| {
        if peer.received == b"ping" {
            peer.received.clear();
            let pong = b"pong".to_vec();
            let later = now + Duration::from_millis(5);
            peer.steps.extend([PeerStep::At(later), PeerStep::Send(pong), PeerStep::Close]);
        }
    }));
    sim.default_route(script);
    sim[probe].connect(SOCKET, address(7));
    sim[probe].queue(SOCKET, &b"ping"[..]);
    sim.pass(Duration::from_secs(1));
    let log = sim[probe].take_log();
    assert_eq!(log[..2], ["1 connected", "1 sent 4"]);
    assert_eq!(log[2..], ["5 ms: 1 input 4 eof false", "5 ms: 1 input 0 eof true"]);
}

#[test]
fn peers_do_each_step_of_a_script() {
    let (mut sim, probe, peer) = accepted();
    sim[probe].echoes = true;
    let enough: ReceivedCheck = Box::new(|got| got.len() >= 3);
    let next = |got: &[u8]| vec![PeerStep::StopReading, PeerStep::Send(got.to_ascii_uppercase())];
    let steps = [send(b"abc"), PeerStep::Until(enough), PeerStep::Then(Box::new(next))];
    sim[peer].steps.extend(steps);
    sim.settle();
    assert_eq!((sim[peer].text(), sim[peer].window), ("abc", 0), "the second echo is not read");
    sim.play(peer, PeerStep::Hold);
    sim.play(peer, send(b"never"));
    assert_eq!(sim[peer].steps.len(), 2);
    let (mut sim, probe, peer) = accepted();
    sim[peer].steps.push_back(PeerStep::never());
    sim[probe].actions.push_back(Action::Close { socket: ACCEPTED, kind: CloseKind::Normal });
    sim.settle();
    assert!(!sim[peer].is_open(), "nothing it waits for can arrive");
}

#[test]
fn the_peer_sees_the_kind_of_a_close() {
    for (kind, unread, end) in [
        (CloseKind::Normal, false, Some(PeerEnd::Fin)),
        (CloseKind::Normal, true, Some(PeerEnd::Reset)),
        (CloseKind::Reset, false, Some(PeerEnd::Reset)),
        (CloseKind::Silent, false, None),
    ] {
        let (mut sim, probe, peer) = accepted();
        if unread {
            sim[probe].actions.push_back(Action::Read { socket: ACCEPTED, on: false });
            sim.play(peer, send(b"unread"));
        }
        sim.advance(Duration::from_millis(3));
        sim[probe].actions.push_back(Action::Close { socket: ACCEPTED, kind });
        sim.settle();
        assert_eq!(sim[peer].end, end, "{kind:?}");
        assert_eq!(sim[peer].closed, Some((Duration::from_millis(3), kind)));
        assert_eq!(sim.sockets(probe), 0);
        sim.play(peer, send(b"more"));
        let late = if kind == CloseKind::Silent { None } else { Some(PeerEnd::Reset) };
        assert_eq!(sim[peer].end, late, "{kind:?}");
    }
}

#[test]
fn paused_reading_reports_unread_bytes_and_the_hangup_once() {
    let (mut sim, probe, peer) = accepted();
    sim[probe].actions.push_back(Action::Read { socket: ACCEPTED, on: false });
    sim.play(peer, send(b"one"));
    sim.play(peer, send(b"two"));
    sim.play(peer, PeerStep::Fin);
    assert_eq!(sim[probe].take_log(), ["101 unread", "101 hangup"]);
    sim[probe].actions.push_back(Action::Read { socket: ACCEPTED, on: true });
    sim.settle();
    assert_eq!(sim[probe].take_log(), ["101 input 6 eof true"]);
    for on in [false, true] {
        sim[probe].actions.push_back(Action::Read { socket: ACCEPTED, on });
    }
    sim.settle();
    assert_eq!(sim[probe].take_log(), ["101 input 0 eof true"], "resuming is always reported");
}

#[test]
fn input_that_is_left_is_limited() {
    let (mut sim, probe, peer) = accepted();
    sim[probe].leaves_input = true;
    sim[probe].unread_max = Some(4);
    sim.receive_max = 3;
    sim.play(peer, send(b"0123456789"));
    assert_eq!(sim[probe].take_log(), ["101 input 3 eof false", "101 input 4 eof false"]);
    sim[probe].leaves_input = false;
    sim[probe].actions.push_back(Action::Read { socket: ACCEPTED, on: true });
    sim.settle();
    let rest = ["101 input 4 eof false", "101 input 3 eof false", "101 input 3 eof false"];
    assert_eq!(sim[probe].take_log(), rest);
}

#[test]
fn sends_wait_for_room() {
    let (mut sim, probe, peer) = accepted();
    sim[peer].window = 4;
    sim[probe].queue(ACCEPTED, &b"0123456789"[..]);
    sim.settle();
    sim[peer].window = 100;
    sim.settle();
    assert_eq!(sim[peer].text(), "0123456789");
    assert_eq!(sim[probe].take_log(), ["101 sent 4", "101 sent 6"]);
}

#[test]
fn resets_are_reported_behind_the_bytes_before_them() {
    let (mut sim, probe, peer) = accepted();
    sim[peer].steps.extend([send(b"last"), PeerStep::Reset]);
    sim.settle();
    let expected = ["101 input 4 eof false", "101 failed connection reset"];
    assert_eq!(sim[probe].take_log(), expected);
    let (mut sim, probe, peer) = accepted();
    sim[probe].actions.push_back(Action::Read { socket: ACCEPTED, on: false });
    sim[peer].steps.extend([send(b"last"), PeerStep::Reset]);
    sim.settle();
    assert_eq!(sim[probe].take_log().last().unwrap(), "101 failed connection reset");
    assert_eq!(sim.sockets(probe), 0);
}
