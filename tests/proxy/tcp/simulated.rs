//! Relays of mode tcp between a client and a server that are scripted: every split, stall,
//! half-close and reset, in virtual time. What arrives is what was sent, in order; all of it,
//! unless the network broke the connection.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

use fulmar_engine::sim::{Faults, PeerId, PeerStep, Sim};
use fulmar_proxy::{Stat, sum};
use fulmar_sys as sys;
use fulmar_tests::tcp_proxy::{backend, config, frontend, proxy};
use fulmar_tests::test_proxy::server;

/// One session; true if the network broke one of its connections.
fn session(seed: u64, resets: u32) -> bool {
    let mut random = fastrand::Rng::with_seed(seed);
    let text = |random: &mut fastrand::Rng| {
        let len = if random.bool() { random.usize(..20) } else { random.usize(..600_000) };
        (0..len).map(|_| random.u8(..)).collect::<Vec<u8>>()
    };
    let (asked, answered) = (text(&mut random), text(&mut random));
    let steps = |bytes: &[u8]| [PeerStep::Send(bytes.to_vec()), PeerStep::Fin];
    let [front, behind] = ["198.51.100.1:80", "192.0.2.1:80"];
    let [front, behind]: [SocketAddr; 2] = [front, behind].map(|it| it.parse().unwrap());
    let mut back = backend([server("one", behind)]);
    back.retries = 0;
    let (engine, live, _) = proxy(config(frontend(), [back]), None);
    let faults = Faults { refuse: resets, reset: resets, pipe: 100, ..Faults::default() };
    let mut sim = Sim::new(sys::now(), seed, faults);
    let node = sim.add(engine);
    sim.listen(node, front, 1);
    let server = Rc::new(Cell::new(None));
    let (of_server, found) = (steps(&answered), Rc::clone(&server));
    let mut of_server = Some(of_server);
    let script = sim.script(Box::new(move |id, peer, _| {
        found.set(Some(id));
        peer.steps.extend(of_server.take().into_iter().flatten());
    }));
    sim.route(behind, script);
    let client = sim.connect("198.51.100.7:4711".parse().unwrap(), front);
    sim[client].steps.extend(steps(&asked));
    let is_over = |sim: &Sim| sim[client].closed.is_some() && sim.sockets(node) == 0;
    assert!(sim.run(1_000_000, is_over), "seed {seed}: a livelock");
    assert!(is_over(&sim), "seed {seed}: nothing is left");
    let ended = sim.elapsed();
    assert!(sim.run(1_000_000, |_| false), "seed {seed}: a livelock");
    let broken = sim.broken() > 0;
    let received = |peer: PeerId| &sim[peer].received;
    assert!(answered.starts_with(received(client)), "seed {seed}: the sent bytes, in order");
    if let Some(server) = server.get() {
        assert!(asked.starts_with(received(server)), "seed {seed}: the sent bytes, in order");
    }
    let left = sum(live.frontends[0].counters.iter(), Stat::Sessions);
    assert_eq!(left, 0, "seed {seed}");
    if !broken {
        assert!(ended.is_zero(), "seed {seed}: no deadline ended it");
        let server = server.get().expect("the proxy connected to a server");
        let whole = *received(client) == answered && *received(server) == asked;
        assert!(whole, "seed {seed}: all of it");
    }
    broken
}

#[test]
fn every_byte_arrives_in_order_whatever_the_network_does() {
    for seed in 0..150 {
        session(seed, 0);
    }
}

#[test]
fn a_broken_connection_ends_the_session() {
    let broken = (1_000..1_300).filter(|seed| session(*seed, 10)).count();
    assert!(broken > 100, "{broken} of 300 is too little to be a test");
}
