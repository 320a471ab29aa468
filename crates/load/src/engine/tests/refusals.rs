//! Servers that refuse the client's certificate behind its handshake, as TLS 1.3 has it, or end
//! connections before a request.

use fulmar_proto::PeerError;
use fulmar_proto::h2::ErrorCode;
use fulmar_tls::AlertDescription;

use super::*;

/// Ends each established connection as a server does that refuses the client's certificate.
fn refuse_certificates(world: &mut SimulatedRun) {
    let sockets: Vec<_> = world.peers.keys().copied().map(SocketId::from_bits).collect();
    for socket in sockets {
        let established = |conn: &Conn| conn.stage == ConnStage::Established;
        if world.load.connections.get(socket).is_some_and(|(_, conn)| established(conn)) {
            let conn = world.load.connections.close(socket).expect("it is open");
            let alert = TlsError::Alert(AlertDescription::CertificateRequired);
            let at = world.load.core.nanos(world.now);
            world.load.core.lose(at, conn, &End::Layer(alert.into()));
        }
    }
}

/// The run reported a failed handshake for each connect, until its time was over.
#[test]
fn a_certificate_that_every_handshake_refuses_ends_the_run() {
    for connections in [1, 4, 50] {
        let mut world =
            SimulatedRun::new(&options(|o| o.connections = connections), |_| Treatment::Stall);
        while world.load.finish().is_none() {
            world.turn();
            refuse_certificates(&mut world);
        }
        let Some(Finish::Unreachable(at)) = world.load.finish() else { panic!("not given up") };
        assert!(at < SECOND, "{at}");
        let least = u64::from(FAILURES_MAX);
        assert_eq!(world.errors(), [("handshake", world.tally().opened)], "each is counted");
        assert!((least..=least + u64::from(connections)).contains(&world.tally().opened));
        assert!(outage(&world, Finish::Unreachable(at)).1);
    }
}

/// A server that was used before may refuse some handshakes, and be used again.
#[test]
fn refused_handshakes_after_a_response_do_not_end_the_run() {
    let options = options(|o| o.until = RunUntil::Requests(100));
    let mut world = SimulatedRun::new(&options, |_| Treatment::Answer);
    while world.tally().answered < 10 {
        world.turn();
    }
    for _ in 0..2 * FAILURES_MAX {
        world.turn();
        refuse_certificates(&mut world);
    }
    assert!(matches!(world.run(), Finish::Done(_)));
    assert!(world.tally().answered > 10);
}

/// Ends each established connection as a server does that sends GOAWAY before any request.
fn end_unused(world: &mut SimulatedRun) {
    let sockets: Vec<_> = world.peers.keys().copied().map(SocketId::from_bits).collect();
    for socket in sockets {
        let established = |conn: &Conn| conn.stage == ConnStage::Established;
        if world.load.connections.get(socket).is_some_and(|(_, conn)| established(conn)) {
            let mut conn = world.load.connections.close(socket).expect("it is open");
            let core = &mut world.load.core;
            while let Some(flight) = conn.flights.pop() {
                core.tally.issued -= 1;
                core.work.give_back(flight.planned);
            }
            let goaway = PeerError::Goaway(ErrorCode::NoError);
            let at = core.nanos(world.now);
            core.lose(at, conn, &End::Peer(goaway));
        }
    }
}

/// A run with `-n` connected for ever.
#[test]
fn a_server_that_ends_every_connection_unused_ends_the_run() {
    for connections in [1, 4, 50] {
        let options = options(|o| {
            (o.connections, o.until) = (connections, RunUntil::Requests(100));
        });
        let mut world = SimulatedRun::new(&options, |_| Treatment::Stall);
        while world.load.finish().is_none() {
            world.turn();
            end_unused(&mut world);
        }
        let Some(Finish::Unreachable(at)) = world.load.finish() else { panic!("not given up") };
        assert!((5 * SECOND..8 * SECOND).contains(&at), "{at}");
        assert!(world.tally().count(ErrorKind::Goaway) >= 1, "the cause is reported");
        assert!(world.tally().opened < 200, "{}", world.tally().opened);
    }
}

/// A server that restarts may end connections unused for some seconds.
#[test]
fn connections_that_end_unused_before_a_response_do_not_end_the_run() {
    let options = options(|o| o.until = RunUntil::Requests(100));
    let mut world = SimulatedRun::new(&options, |_| Treatment::Answer);
    while nanos_of(world.now - world.epoch) < 3 * SECOND {
        world.turn();
        end_unused(&mut world);
    }
    let finish = world.run();
    assert!(matches!(finish, Finish::Done(_)), "{finish:?}");
    assert_eq!(world.tally().answered, 100);
}
