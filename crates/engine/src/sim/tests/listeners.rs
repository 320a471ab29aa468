//! Listeners, accepting, hand-over and names.

use super::*;

#[test]
fn a_paused_listener_leaves_connections_in_its_queue() {
    let (mut sim, probe) = listening();
    sim[probe].actions.push_back(Action::Accept { listener: LISTENER, on: false });
    sim[probe].actions.push_back(Action::ReportLocal { listener: LISTENER });
    sim.settle();
    let peers = [1, 2, 3].map(|port| sim.connect(SocketAddr::from((HOST, port)), address(80)));
    sim.settle();
    sim[probe].connect(SOCKET, address(80));
    sim.settle();
    assert!(sim[probe].take_log().is_empty(), "the queue is full, and connects wait");
    sim[probe].actions.push_back(Action::Accept { listener: LISTENER, on: true });
    sim.settle();
    let log = sim[probe].take_log();
    let local = "accept 0 198.51.100.7 192.0.2.1:80";
    assert_eq!(log.iter().filter(|line| *line == local).count(), 3, "{log:?}");
    assert!(log.contains(&"1 connected".to_owned()), "{log:?}");
    assert!(peers.iter().all(|peer| sim.socket(*peer).is_some()));
    assert_eq!(sim[probe].accepted, 4);
}

#[test]
fn accepts_are_passed_in_lists_of_the_limit() {
    for (limit, expected) in [(1, 1), (2, 2)] {
        let (mut sim, probe) = listening();
        sim[probe].accepts_max = Some(limit);
        sim[probe].actions.push_back(Action::Accept { listener: LISTENER, on: false });
        sim.settle();
        let peers = [1, 2].map(|port| sim.connect(SocketAddr::from((HOST, port)), address(80)));
        sim.settle();
        sim[probe].actions.push_back(Action::Accept { listener: LISTENER, on: true });
        sim.act();
        sim.move_on();
        assert_eq!(sim[probe].accepted, expected);
        assert_eq!(
            peers.iter().filter(|peer| sim.socket(**peer).is_some()).count(),
            expected as usize
        );
    }
}

#[test]
fn a_closed_listener_refuses_its_queue_and_later_connects() {
    let (mut sim, probe) = listening();
    sim[probe].actions.push_back(Action::Accept { listener: LISTENER, on: false });
    sim.settle();
    let waiting = sim.connect(SocketAddr::from((HOST, 1)), address(80));
    sim.settle();
    sim[probe].actions.push_back(Action::Unlisten { listener: LISTENER });
    let late = sim.connect(SocketAddr::from((HOST, 2)), address(80));
    sim.settle();
    assert!(!sim.is_listening(probe, LISTENER));
    assert_eq!(sim[waiting].end, Some(PeerEnd::Reset));
    assert_eq!(sim[late].end, Some(PeerEnd::Refused));
}

#[test]
fn refused_and_failed_accepts_are_reported() {
    let (mut sim, probe) = listening();
    sim[probe].refuses = true;
    let peer = sim.connect(SocketAddr::from((HOST, 1)), address(80));
    sim.settle();
    assert_eq!((sim[peer].end, sim.socket(peer)), (Some(PeerEnd::Fin), None));
    assert_eq!(sim[peer].closed, Some((Duration::ZERO, CloseKind::Normal)));
    sim[probe].refuses = false;
    sim[probe].take_log();
    sim.fail_accept(probe, LISTENER);
    sim.connect(SocketAddr::from((HOST, 2)), address(80));
    sim.pass(Duration::from_millis(99));
    assert_eq!(sim[probe].take_log(), ["accept failed 0"]);
    sim.pass(Duration::from_millis(1));
    assert_eq!(sim[probe].take_log(), ["accept 0 198.51.100.7 "], "after a pause");
}

/// A hand-over: both engines hold the listener until the first one closes it.
#[test]
fn listeners_and_connections_are_handed_over() {
    let (mut sim, old) = listening();
    let new = sim.add(ProbeEngine::default());
    let listener = sim.share(old, LISTENER, new);
    sim[old].actions.push_back(Action::Unlisten { listener: LISTENER });
    sim.settle();
    let peer = sim.connect(SocketAddr::from((HOST, 1)), address(80));
    sim.settle();
    assert_eq!((sim[old].accepted, sim[new].accepted, sim[peer].end), (0, 1, None));
    let peer = sim.adopt(new, listener, SocketAddr::from((HOST, 2)));
    sim[new].echoes = true;
    sim.play(peer, send(b"adopted"));
    assert_eq!(sim[peer].text(), "adopted");
    sim[new].refuses = true;
    let peer = sim.adopt(new, listener, SocketAddr::from((HOST, 3)));
    assert!(sim[peer].closed.is_some());
}

#[test]
fn unix_sockets_connect_at_once_or_not_at_all() {
    let (mut sim, probe) = listening();
    let path = || Peer::Unix("/run/a".into());
    let listener = sim.listen(probe, path(), 1);
    sim[probe].actions.push_back(Action::Accept { listener, on: false });
    sim[probe].connect(SOCKET, path());
    sim[probe].connect(id(2), path());
    sim.settle();
    assert_eq!(sim[probe].take_log(), ["1 connected", "2 failed operation would block"]);
    sim[probe].actions.push_back(Action::Accept { listener, on: true });
    sim.settle();
    assert_eq!(sim[probe].take_log(), ["accept 1 0.0.0.0 "]);
}

#[test]
fn names_are_resolved_late_never_or_not_at_all() {
    let (mut sim, probe) = listening();
    sim.names.insert("a".into(), NameEntry::addresses([HOST]));
    let after = Duration::from_millis(20);
    sim.names.insert("late".into(), NameEntry::Result(after, Err(ResolveError::TimedOut)));
    sim.names.insert("never".into(), NameEntry::Never);
    for (number, name) in (0..).zip(["a", "late", "never", "unknown", "late"]) {
        let (lookup, name) = (LookupId(number), name.into());
        sim[probe].actions.push_back(Action::Resolve { lookup, name });
    }
    sim[probe].actions.push_back(Action::Abandon { lookup: LookupId(4) });
    sim.pass(Duration::from_secs(1));
    let expected =
        ["resolved 0 [198.51.100.7]", "resolved 3 NotFound", "20 ms: resolved 1 TimedOut"];
    assert_eq!(sim[probe].take_log(), expected);
}
