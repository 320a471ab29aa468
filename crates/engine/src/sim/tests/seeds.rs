//! Time, faults, and the same run for the same seed.

use super::*;

#[test]
fn deadlines_are_reported_when_nothing_can_move() {
    let (mut sim, probe) = listening();
    let due = sim.now() + Duration::from_millis(7);
    sim[probe].due = Some(due);
    sim.wake(probe);
    assert!(sim.run(10, |_| false));
    assert_eq!(sim[probe].take_log(), ["wake", "7 ms: timeout"]);
    sim[probe].due = Some(due + Duration::from_secs(1));
    sim.pass(Duration::from_millis(999));
    assert_eq!(sim.timeouts(probe), 1);
    sim.advance(Duration::from_secs(5));
    assert_eq!((sim.timeouts(probe), sim.elapsed().as_millis()), (2, 6_006));
}

/// Pairs of engines that echo over a network with every fault.
fn run(seed: u64, faults: Faults) -> (Vec<String>, u64) {
    let now = Instant::now();
    let mut sim = Sim::new(now, seed, faults);
    sim.capacity = 64;
    let server = sim.add(ProbeEngine { echoes: true, start: Some(now), ..ProbeEngine::default() });
    let client = sim.add(ProbeEngine { start: Some(now), ..ProbeEngine::default() });
    sim.listen(server, address(80), 3);
    let range = file(&[b'f'; 300]);
    for socket in (0..8).map(id) {
        sim[client].connect(socket, address(80));
        sim[client].queue(socket, Segment::from(&[b'x'; 200][..]));
        sim[client].queue(socket, range.clone());
        sim[client].actions.push_back(Action::Load { socket, range: range.clone() });
    }
    for index in 0..8 {
        let peer = sim.connect(SocketAddr::from((HOST, index)), address(80));
        sim[peer].steps.extend([send(&[b'y'; 500]), PeerStep::Fin]);
    }
    sim[server].passage = Some(Passage::Pipe { len: 10 });
    assert!(sim.run(100_000, |_| false), "seed {seed}: a livelock");
    let log = [sim[server].take_log(), sim[client].take_log()].concat();
    (log, sim.broken())
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let faults = Faults { refuse: 50, reset: 2, stall: 20, accept: 100, pipe: 300, file: 100 };
    let mut broken = 0;
    for seed in 0..8 {
        let first = run(seed, faults);
        assert_eq!(first, run(seed, faults), "seed {seed}");
        assert_ne!(first, run(seed + 1000, faults), "seed {seed}");
        broken += first.1;
    }
    assert!(broken > 0, "the faults are real");
}

/// Each fault is reported, and without it nothing is.
#[test]
fn each_fault_is_injected() {
    let none = Faults::default();
    for (faults, sign) in [
        (Faults { refuse: 300, ..none }, "failed connection refused"),
        (Faults { reset: 50, ..none }, "failed connection reset"),
        (Faults { stall: 300, ..none }, " ms: "),
        (Faults { accept: 300, ..none }, "accept failed"),
        (Faults { file: 500, ..none }, "failed other error"),
    ] {
        let found = |faults| run(7, faults).0.iter().any(|line| line.contains(sign));
        assert!(found(faults) && !found(none), "{sign}");
    }
    let piped = |faults| run(7, faults).0.iter().filter(|it| it.contains("piped")).count();
    assert!(piped(none) > 0 && piped(Faults { pipe: 1000, ..none }) == 0);
    let (log, _) = run(7, none);
    let echoed = log.iter().filter(|line| line.contains("eof true")).count();
    assert!(echoed >= 8, "every peer's end arrives: {echoed}");
}

/// A deadline that is never handled.
#[test]
fn a_livelock_is_reported() {
    #[derive(Debug)]
    struct OverdueEngine(Instant);
    impl Engine for OverdueEngine {
        fn handle(&mut self, _: Instant, _: DriverEvent<'_>) {}
        fn poll_action(&mut self) -> Option<Action> {
            None
        }
        fn poll_transmit(&mut self, _: SocketId) -> Option<Transmit<'_>> {
            None
        }
        fn poll_timeout(&self) -> Option<Instant> {
            Some(self.0)
        }
    }
    let now = Instant::now();
    let mut sim = Sim::in_order(now);
    sim.add(OverdueEngine(now));
    assert!(!sim.run(100, |_| false));
}
