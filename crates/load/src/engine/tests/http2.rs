//! The same over HTTP/2: several requests per connection, whose streams end one by one.

use fulmar_proto::PeerError;
use fulmar_proto::h2::ErrorCode;

use super::*;

fn http2(streams: u16, requests: u64, change: impl FnOnce(&mut Options)) -> Options {
    options(|o| {
        (o.protocol, o.until) = (LoadProtocol::Http2 { streams }, RunUntil::Requests(requests));
        change(o);
    })
}

fn run(options: &Options, script: impl FnMut(u64) -> Treatment + 'static) -> SimulatedRun {
    let mut world = SimulatedRun::new(options, script);
    assert!(matches!(world.run(), Finish::Done(_)));
    world
}

/// Requests without a response, on all connections.
fn outstanding(world: &mut SimulatedRun) -> Vec<usize> {
    let Load { connections, core, .. } = &mut world.load;
    let of = |socket: &SocketId| connections.get_mut(*socket).map(|(_, conn)| conn.flights.len());
    core.sockets.iter().filter_map(of).collect()
}

#[test]
fn exactly_as_many_requests_as_requested_on_any_number_of_streams() {
    for streams in [1, 3, 100, 10_000] {
        for n in [1, 7, 5_000] {
            let world = run(&http2(streams, n, |_| {}), |_| Treatment::Answer);
            let tally = world.tally();
            assert_eq!((tally.answered, tally.issued, tally.errors()), (n, n, 0), "{streams} {n}");
            assert_eq!((world.requests, tally.refused), (n, 0));
            assert!(tally.opened <= 4, "{}", tally.opened);
            assert_eq!(tally.statuses().collect::<Vec<_>>(), [(200, n)]);
        }
    }
}

#[test]
fn one_request_is_sent_before_the_settings_and_then_as_many_as_they_allow() {
    let options = http2(500, 1_000_000, |_| {});
    let mut world = SimulatedRun::new(&options, |_| Treatment::Answer);
    while world.requests == 0 {
        world.turn();
    }
    assert_eq!(world.requests, 1, "of one connection");
    (0..20).for_each(|_| world.turn());
    assert_eq!(outstanding(&mut world), [128; 4], "SETTINGS_MAX_CONCURRENT_STREAMS of the server");
    assert_eq!((world.tally().streams_max, world.tally().refused), (Some(128), 0));
}

#[test]
fn refused_streams_are_opened_again() {
    for rate in [None, Some(50_000)] {
        let options = http2(20, 2_000, |o| o.rate = rate);
        let refuse = Treatment::ResetStream(Reset::Refused);
        let world = run(&options, move |n| if n % 10 == 0 { refuse } else { Treatment::Answer });
        let tally = world.tally();
        assert_eq!((tally.answered, tally.issued, tally.errors()), (2_000, 2_000, 0));
        assert_eq!((tally.refused, world.requests, tally.opened), (222, 2_222, 4));
    }
}

#[test]
fn a_server_that_refuses_every_stream_fails_the_requests() {
    let world = run(&http2(100, 10, |_| {}), |_| Treatment::ResetStream(Reset::Refused));
    assert_eq!(world.errors(), [("stream_refused", 10)]);
    assert!(world.tally().refused > 10_000);
}

#[test]
fn a_server_that_accepts_no_stream_fails_the_requests() {
    const NO_STREAMS: &[u8] = b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\0\
        \0\0\x04\x03\0\0\0\0\x01\0\0\0\x07"; // SETTINGS, and REFUSED_STREAM for stream 1
    for rate in [None, Some(100)] {
        let options = http2(10, 100, |o| (o.timeout, o.rate) = (Duration::from_secs(2), rate));
        let world = run(&options, |_| Treatment::Bytes(NO_STREAMS, false));
        assert_eq!(world.errors(), [("stream_refused", 100)], "{rate:?}");
        assert_eq!((world.requests, world.tally().issued), (4, 100));
        assert_eq!((world.tally().streams_max, world.tally().opened), (Some(0), 4));
    }
}

#[test]
fn a_reset_stream_fails_alone() {
    let options = http2(20, 2_000, |_| {});
    let reset = Treatment::ResetStream(Reset::Internal);
    let world = run(&options, move |n| if n % 100 == 0 { reset } else { Treatment::Answer });
    let tally = world.tally();
    assert_eq!((tally.answered, world.errors()), (1_980, vec![("stream_reset", 20)]));
    assert_eq!((&tally.resets[..], tally.opened), (&[(ErrorCode::InternalError, 20)][..], 4));
}

#[test]
fn a_malformed_response_fails_alone_with_its_cause() {
    const SHORT: &[u8] = b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x01\
        \0\0\x05\x01\x04\0\0\0\x01\x88\x5c\x02\x31\x30\
        \0\0\x03\0\x01\0\0\0\x01abc"; // SETTINGS, 200 with content-length 10, 3 bytes of DATA
    let world = run(&http2(10, 1, |o| o.connections = 1), |_| Treatment::Bytes(SHORT, false));
    let tally = world.tally();
    assert_eq!((world.errors(), &tally.resets[..]), (vec![("protocol", 1)], &[][..]));
    assert_eq!((&tally.broken[..], tally.established), (&[(PeerError::BodyTooShort, 1)][..], 1));
}

#[test]
fn streams_behind_the_last_one_of_goaway_are_opened_on_another_connection() {
    for streams in [1, 8, 100] {
        let close = |n| if n % 50 == 0 { Treatment::AnswerAndClose } else { Treatment::Answer };
        let world = run(&http2(streams, 2_000, |_| {}), close);
        let tally = world.tally();
        assert_eq!((tally.answered, world.errors()), (2_000, vec![]), "{streams}");
        assert!(tally.opened > 10, "{}", tally.opened);
    }
}

#[test]
fn a_server_that_ends_every_connection_by_goaway_fails_the_requests() {
    const GOAWAY: &[u8] = b"\0\0\0\x04\0\0\0\0\0\
        \0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0b"; // SETTINGS, and no stream was processed
    for (timeout, rate) in [(1, None), (60, None), (60, Some(100))] {
        let options = http2(10, 50, |o| (o.timeout, o.rate) = (Duration::from_secs(timeout), rate));
        let mut world = run(&options, |_| Treatment::Bytes(GOAWAY, false));
        assert_eq!(world.errors(), [("goaway", 50)], "{timeout} {rate:?}");
        let code = ErrorCode::EnhanceYourCalm;
        let opened = world.tally().opened;
        assert!(matches!(world.tally().goaways[..], [(c, n)] if c == code && n <= opened));
        assert_eq!((world.tally().issued, outstanding(&mut world).iter().sum()), (50, 0_usize));
        let took = world.now - world.epoch;
        assert!(took < Duration::from_secs(timeout.min(5) + 2), "{took:?}");
    }
}

#[test]
fn a_server_that_refuses_a_stream_and_closes_each_time_fails_the_requests() {
    const REFUSED: &[u8] = b"\0\0\0\x04\0\0\0\0\0\
        \0\0\x04\x03\0\0\0\0\x01\0\0\0\x07"; // SETTINGS, and REFUSED_STREAM for stream 1
    let world = run(&http2(1, 5_000, |_| {}), |_| Treatment::Bytes(REFUSED, true));
    assert_eq!(world.errors(), [("stream_refused", 5_000)]);
    assert!(world.now - world.epoch < Duration::from_secs(7));
}

#[test]
fn a_request_without_a_response_times_out_alone() {
    for rate in [None, Some(20_000)] {
        let options = http2(10, 10_000, |o| {
            (o.connections, o.timeout, o.rate) = (1, Duration::from_millis(50), rate);
        });
        let silence = |n| if n % 1_000 == 500 { Treatment::Silence } else { Treatment::Answer };
        let world = run(&options, silence);
        let tally = world.tally();
        assert_eq!((tally.answered, world.errors()), (9_990, vec![("timeout", 10)]));
        assert_eq!((tally.opened, tally.established), (1, 1));
    }
}

#[test]
fn requests_to_a_silent_server_time_out() {
    let options = http2(10, 100, |o| o.timeout = Duration::from_secs(2));
    assert_eq!(run(&options, |_| Treatment::Silence).errors(), [("timeout", 100)]);
    let world = run(&options, |_| Treatment::Stall);
    assert_eq!(world.errors(), [("timeout", 100)]);
}

#[test]
fn a_connection_without_a_byte_for_the_timeout_is_opened_again() {
    let options = http2(10, 5_000, |o| {
        (o.connections, o.timeout) = (1, Duration::from_millis(50));
    });
    let world = run(&options, |n| if n == 1_000 { Treatment::Stall } else { Treatment::Answer });
    let [("timeout", n)] = world.errors()[..] else { panic!("{:?}", world.errors()) };
    assert!((1..=10).contains(&n), "{n}");
    assert_eq!((world.tally().answered, world.tally().opened), (5_000 - n, 2));
}

#[test]
fn lost_connections_fail_their_streams() {
    const EARLY: &[u8] = b"";
    for (fate, error) in [(Treatment::Reset, "reset"), (Treatment::Bytes(EARLY, true), "closed")] {
        let fate = move |n| if n == 1_000 { fate } else { Treatment::Answer };
        let world = run(&http2(10, 5_000, |_| {}), fate);
        let [(kind, n)] = world.errors()[..] else { panic!("{:?}", world.errors()) };
        assert!(kind == error && (1..=10).contains(&n), "{kind} {n}");
        assert_eq!((world.tally().answered, world.tally().opened), (5_000 - n, 5));
    }
}

#[test]
fn a_server_of_http1_is_named() {
    const HTTP1: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    let world = run(&http2(10, 10, |_| {}), |_| Treatment::Bytes(HTTP1, true));
    assert_eq!(world.errors(), [("protocol", 10)]);
    let [(error, _)] = world.tally().broken[..] else { panic!("{:?}", world.tally().broken) };
    assert_eq!(error.to_string(), "the server does not speak HTTP/2");
}

#[test]
fn every_request_on_a_connection_of_its_own() {
    let options = http2(1, 200, |o| o.reconnect = true);
    let world = run(&options, |_| Treatment::Answer);
    assert_eq!((world.tally().answered, world.tally().opened), (200, 200));
    assert_eq!(world.errors(), []);
}

#[test]
fn nothing_grows_with_the_number_of_requests_on_streams() {
    let options = options(|o| o.protocol = LoadProtocol::Http2 { streams: 100 });
    let mut world = SimulatedRun::new(&options, |_| Treatment::Answer);
    let capacity = |world: &SimulatedRun| {
        let core = &world.load.core;
        (core.fresh.capacity(), core.free.capacity(), core.expired.capacity(), core.sockets.len())
    };
    (0..100).for_each(|_| world.turn());
    let before = capacity(&world);
    (0..200).for_each(|_| world.turn());
    assert_eq!(capacity(&world), before);
    assert!(world.tally().answered > 50_000);
}

#[test]
fn every_request_on_a_stream_is_accounted_for_whatever_happens() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let n = random.u64(1..2_000);
        let options = http2(random.u16(1..=200), n, |o| {
            o.connections = random.u32(1..10);
            o.rate = random.bool().then(|| random.u64(100..100_000));
            o.timeout = Duration::from_millis(random.u64(1..200));
        });
        let mut fates = fastrand::Rng::with_seed(seed + 1_000_000);
        let mut world = SimulatedRun::new(&options, move |_| match fates.u32(0..100) {
            0 => Treatment::Reset,
            1 => Treatment::Stall,
            2 | 3 => Treatment::AnswerAndClose,
            4 => Treatment::Bytes(b"nonsense", false),
            5 => Treatment::Bytes(b"", true),
            6..10 => Treatment::Silence,
            10..15 => Treatment::ResetStream(Reset::Refused),
            15..20 => Treatment::ResetStream(Reset::Internal),
            _ => Treatment::Answer,
        });
        assert!(matches!(world.run(), Finish::Done(_)), "seed {seed}");
        let tally = world.tally();
        assert_eq!(tally.answered + tally.failed, n, "seed {seed}");
        assert_eq!(tally.errors(), tally.failed, "seed {seed}: {:?}", world.errors());
        assert_eq!(tally.issued, n, "seed {seed}");
    }
}
