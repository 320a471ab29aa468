//! Servers that refuse the client's certificate behind its handshake, as TLS 1.3 has it.

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
