//! Files, pipes, and the last bytes of a connection.

use super::*;

#[test]
fn files_are_loaded_and_sent() {
    let (mut sim, probe, peer) = accepted();
    let (socket, range) = (ACCEPTED, file(b"content"));
    sim[probe].queue(socket, range.clone());
    sim[probe].actions.push_back(Action::Load {
        socket,
        range: FileRange { offset: 3, len: 4, ..range.clone() },
    });
    sim[probe].actions.push_back(Action::Load { socket: id(9), range: range.clone() });
    sim.settle();
    assert_eq!(sim[probe].take_log(), ["101 loaded tent", "101 sent 7"]);
    assert_eq!(sim[peer].text(), "content");
    for action in [
        Action::Transmit { socket },
        Action::Load { socket, range: FileRange { len: 8, ..range.clone() } },
    ] {
        let (mut sim, probe, _) = accepted();
        sim[probe]
            .queued
            .entry(socket)
            .or_default()
            .0
            .push(FileRange { len: 8, ..range.clone() }.into());
        sim[probe].actions.push_back(action);
        sim.settle();
        assert_eq!(sim[probe].take_log(), ["101 failed unexpected end of file"], "it is shorter");
    }
}

#[test]
fn bytes_bypass_the_engine_into_files_and_pipes() {
    let (mut sim, probe, peer) = accepted();
    let range = FileRange { len: 4, ..file(b"") };
    sim[probe].passage = Some(Passage::File(range.clone()));
    sim[probe].actions.push_back(Action::Splice { socket: ACCEPTED });
    sim.play(peer, send(b"data"));
    assert_eq!(sim[probe].take_log(), ["101 spliced 4"]);
    sim[probe].queue(ACCEPTED, range);
    sim.settle();
    assert_eq!(sim[peer].text(), "data");
    sim[probe].passage = None;
    sim.play(peer, send(b"as usual"));
    assert_eq!(sim[probe].take_log(), ["101 sent 4", "101 input 8 eof false"]);
    // A pipe is used again after it was emptied; the limit holds.
    sim[probe].passage = Some(Passage::Pipe { len: 6 });
    sim[probe].pipes_max = Some(1);
    for echoes in [true, true, false] {
        sim[peer].received.clear();
        sim[probe].echoes = echoes;
        sim[probe].actions.push_back(Action::Splice { socket: ACCEPTED });
        sim.play(peer, send(b"012345"));
        let log = sim[probe].take_log();
        assert_eq!(log[0], "101 piped 6");
        assert_eq!(sim[peer].text(), if echoes { "012345" } else { "" });
    }
    // Bytes that were not sent are lost with their pipe.
    sim[probe].pipes_max = Some(0);
    sim.play(peer, send(b"rest"));
    assert_eq!(sim[probe].take_log(), ["101 input 4 eof false"]);
}

#[test]
fn a_file_that_fails_stops_reading() {
    let (mut sim, probe, peer) = accepted();
    let unwritable = std::fs::File::open("/dev/null").expect("it is there");
    let file = Arc::new(OwnedFd::from(unwritable));
    sim[probe].passage = Some(Passage::File(FileRange { file, offset: 0, len: 9 }));
    sim[probe].actions.push_back(Action::Splice { socket: ACCEPTED });
    sim.play(peer, send(b"data"));
    sim.play(peer, send(b"more"));
    assert_eq!(sim[probe].take_log(), ["101 file failed", "101 unread"]);
}

/// A last transmit leaves with the FIN, or 200 ms later.
#[test]
fn last_bytes_wait_for_the_fin() {
    #[derive(Default)]
    struct LastTransmit(VecDeque<Action>, bool);
    impl Engine for LastTransmit {
        const SENDS_EARLY: bool = true;
        fn accept(&mut self, _: Instant, _: Accepted) -> Option<SocketId> {
            Some(SOCKET)
        }
        fn handle(&mut self, _: Instant, event: DriverEvent<'_>) {
            self.1 |= matches!(event, DriverEvent::Socket(_, SocketEvent::Sent(4)));
        }
        fn poll_action(&mut self) -> Option<Action> {
            self.0.pop_front()
        }
        fn poll_transmit(&mut self, _: SocketId) -> Option<Transmit<'_>> {
            (!self.1).then_some(Transmit { is_last: true, ..Transmit::new(b"last", &[]) })
        }
        fn poll_timeout(&self) -> Option<Instant> {
            None
        }
    }
    for (shuts_down, at) in [(true, 0), (false, 200)] {
        let mut sim = Sim::in_order(Instant::now());
        let node = sim.add(LastTransmit::default());
        sim.listen(node, address(80), 9);
        let peer = sim.connect(address(1), address(80));
        sim.settle();
        sim[node].0.push_back(Action::Transmit { socket: SOCKET });
        sim.settle();
        assert!(sim[node].1 && sim[peer].received.is_empty());
        if shuts_down {
            sim[node].0.push_back(Action::Shutdown { socket: SOCKET });
        }
        assert!(sim.run(1_000, |sim| !sim[peer].received.is_empty()));
        assert_eq!(sim.elapsed().as_millis(), at);
    }
    // Early bytes are tried before the connect has been confirmed.
    let mut sim = Sim::new(Instant::now(), 3, Faults::default());
    let node = sim.add(LastTransmit::default());
    let script = sim.script(Box::new(|_, _, _| {}));
    sim.default_route(script);
    let endpoint = Box::new(Endpoint::to(address(7)));
    sim[node].0.push_back(Action::Connect { socket: SOCKET, endpoint });
    sim[node].0.push_back(Action::Transmit { socket: SOCKET });
    assert!(sim.run(1_000, |_| false));
    assert!(sim[node].1);
}
