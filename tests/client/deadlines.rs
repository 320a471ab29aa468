//! Deadlines: none, immediate, and beyond the range of the clock; in virtual time.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fulmar_client::{
    Client, Config, Error, Options, RateLimit, Request, RequestBody, TransferEvent, Waiting,
};
use fulmar_engine::sim::{Faults, NameEntry, NodeId, Sim};
use fulmar_engine::{DriverEvent, Engine};
use fulmar_server::Limits;
use fulmar_sys as sys;
use fulmar_tests::app::server;
use fulmar_tests::in_every_loop;
use fulmar_tests::scripted::{ScriptedRequest, ServerStep, answer};
use fulmar_tests::transfers::{ClientLoop, Staged, TransferRecorder};

/// A client, and a server of endpoints.
struct ClientSim {
    sim: Sim,
    client: NodeId<Client<TransferRecorder>>,
}

fn world(recorder: TransferRecorder, config: Config) -> ClientSim {
    let now = sys::now();
    let client = Client::new(now, sys::wall_clock(), recorder, config);
    let hour = Duration::from_secs(3600);
    let limits = Limits { idle_timeout: hour, send_timeout: hour, ..Limits::default() };
    let mut sim = Sim::new(now, 56, Faults::default());
    let (client, server) = (sim.add(client), sim.add(server(limits)));
    sim.listen(server, SocketAddr::from((Ipv4Addr::LOCALHOST, 80)), 128);
    sim.names.insert("name.example".into(), NameEntry::Never);
    ClientSim { sim, client }
}

fn get(path: &str, options: Options) -> Request {
    let url = format!("http://127.0.0.1{path}");
    Request::get(&url).options(Arc::new(options)).build().expect("a request")
}

impl ClientSim {
    fn client(&mut self) -> &mut Client<TransferRecorder> {
        &mut self.sim[self.client]
    }

    /// Runs until `done`; false if that takes more steps.
    fn run(&mut self, steps_max: usize, done: impl Fn(&Client<TransferRecorder>) -> bool) -> bool {
        let client = self.client;
        self.sim.run(steps_max, |sim| done(&sim[client]))
    }
}

fn start(world: &mut ClientSim, request: &Request) -> fulmar_client::TransferId {
    let now = world.sim.now();
    world.client().start(now, request)
}

fn run(world: &mut ClientSim) {
    assert!(world.run(1_000_000, |client| client.running() == 0), "a livelock");
    assert_eq!(world.client().running(), 0, "a stall");
}

fn everything(span: Duration) -> (Options, Config) {
    let options = Options {
        continue_timeout: span,
        expect_continue_from: Some(1),
        first_byte_timeout: Some(span),
        idle_timeout: Some(span),
        total_timeout: Some(span),
        lowest_speed: Some((1, span)),
        highest_speed: Some(u64::MAX),
        retries: 1,
        ..Options::default()
    };
    let config = Config {
        idle_timeout: Some(span),
        name_timeout: Some(span),
        connect_timeout: Some(span),
        handshake_timeout: Some(span),
        attempt_delay: span,
        rate: Some(RateLimit { requests: 1, per: span, burst: u32::MAX }),
        retry_after_max: span,
        ..Config::default()
    };
    (options, config)
}

/// A deadline beyond the range of the clock never expires, and does not overflow.
#[test]
fn timeouts_beyond_the_clock_never_expire() {
    for span in [Duration::MAX, Duration::from_secs(u64::MAX / 2), Duration::from_secs(1 << 40)] {
        let (options, config) = everything(span);
        let mut world = world(TransferRecorder::default(), config);
        let id = start(&mut world, &get("/bytes/100000", options.clone()));
        let echo = Request::with_method("PUT", "http://127.0.0.1/echo")
            .body(RequestBody::Bytes(vec![b'x'; 50_000].into()))
            .options(Arc::new(options.clone()))
            .build()
            .unwrap();
        let echo = start(&mut world, &echo);
        run(&mut world);
        for id in [id, echo] {
            assert!(world.client().application().ended(id).result.is_ok());
        }
        // A name, and a query without a reply.
        let request = Request::get("http://name.example/").options(Arc::new(options));
        let id = start(&mut world, &request.build().unwrap());
        assert!(world.client().running() == 1);
        let now = world.sim.now();
        assert!(world.client().with(now, |_, context| context.remove(id)));
    }
}

/// Timeouts of zero: every transfer ends by its deadline at the latest, without spinning.
#[test]
fn timeouts_of_zero_expire_at_once() {
    let (options, config) = everything(Duration::ZERO);
    let mut world = world(TransferRecorder::default(), config);
    let slow = ["/delay/1000", "/idle", "/bytes/1000"];
    let ids = slow.map(|path| start(&mut world, &get(path, options.clone())));
    let begun = world.sim.now();
    assert!(world.run(10_000, |client| client.running() == 0), "a storm");
    for id in &ids[..2] {
        let done = world.client().application().ended(*id);
        assert!(matches!(done.result, Err(Error::TimedOut(_))), "{done:?}");
    }
    assert!(world.sim.now() - begun <= Duration::from_millis(10));
    // The shortest period for the minimum speed, without another limit.
    let options = Options { lowest_speed: Some((1, Duration::ZERO)), ..Options::default() };
    let recorder = TransferRecorder::with(|context, id, event| {
        if matches!(event, TransferEvent::Head { .. }) {
            context.pause(id);
        }
    });
    let mut world = self::world(recorder, Config::default());
    let id = start(&mut world, &get("/bytes/100000", options));
    assert!(world.run(10_000, |client| client.application().trace(id) == "H"));
    let now = world.sim.now();
    world.client().with(now, |_, context| context.resume(id));
    run(&mut world);
}

/// A wait that the server requests, and a limit that allows everything.
#[test]
fn an_endless_retry_after_is_ignored() {
    fn check<L: ClientLoop>() {
        for value in ["18446744073709551615", "99999999999999999999999999", "315360000000"] {
            let fields = format!("Retry-After: {value}\r\n");
            let said = answer("503 No", &fields, b"");
            let script = move |_: &ScriptedRequest| vec![ServerStep::Send(said.clone())];
            let config = Config { retry_after_max: Duration::MAX, ..Config::default() };
            let mut staged = Staged::<L>::new(TransferRecorder::default(), config, script);
            let options = Options { retries: 1, ..Options::default() };
            let request = Request::get(&staged.url("/")).options(Arc::new(options));
            let id = staged.start(&request.build().unwrap());
            while staged.peer.requests.is_empty() {
                staged.turn();
            }
            staged.rest();
            staged.with(|context| context.remove(id));
            assert_eq!(staged.client.engine().running(), 0);
        }
    }
    in_every_loop!(check);
}

#[test]
fn each_deadline_has_its_name() {
    let second = Some(Duration::from_secs(1));
    let first_byte = Options { first_byte_timeout: second, ..Options::default() };
    let total = Options { total_timeout: second, ..Options::default() };
    for (path, options, waiting, after) in [
        ("/delay/5000", first_byte.clone(), Waiting::FirstByte, 1_000),
        ("/idle", first_byte, Waiting::FirstByte, 1_000),
        ("/delay/5000", total.clone(), Waiting::Total, 1_000),
        ("/stream/100", total, Waiting::Total, 1_000),
    ] {
        let mut world = world(TransferRecorder::default(), Config::default());
        let begun = world.sim.now();
        let id = start(&mut world, &get(path, options));
        // An endless stream would stop the virtual clock: each poll advances it a little.
        while world.client().running() > 0 {
            assert!(world.run(200, |client| client.running() == 0) || path == "/stream/100");
            if world.client().running() > 0 {
                world.sim.advance(Duration::from_millis(10));
            }
        }
        let done = world.client().application().ended(id);
        let Err(Error::TimedOut(found)) = done.result else { panic!("{path}: {done:?}") };
        assert_eq!(found, waiting, "{path}");
        let took = u64::try_from((world.sim.now() - begun).as_millis()).unwrap();
        assert!((after..after + 100).contains(&took), "{path}: {took} ms");
    }
}

/// The server begins its response and stops.
#[test]
fn silence_amid_a_body_is_idleness_and_slowness_is_slow() {
    fn check<L: ClientLoop>() {
        let span = Duration::from_millis(40);
        let idle = Options { idle_timeout: Some(span), ..Options::default() };
        let slow = Options { lowest_speed: Some((1_000_000, span)), ..Options::default() };
        for (options, kind) in [(idle, "timeout"), (slow, "slow")] {
            let script = |_: &ScriptedRequest| {
                vec![ServerStep::Send(
                    b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello".to_vec(),
                )]
            };
            let mut staged =
                Staged::<L>::new(TransferRecorder::default(), Config::default(), script);
            let request = Request::get(&staged.url("/")).options(Arc::new(options));
            let id = staged.start(&request.build().unwrap());
            staged.run();
            let done = staged.recorder().ended(id);
            assert_eq!(done.result.as_ref().unwrap_err().kind(), kind, "{done:?}");
            staged.rest();
            assert_eq!(staged.client.engine().connections(), 0);
        }
    }
    in_every_loop!(check);
}

/// A pause on our side does not count as silence of the server.
#[test]
fn a_transfer_that_is_slowed_down_is_not_idle() {
    let options = Options {
        highest_speed: Some(10_000),
        idle_timeout: Some(Duration::from_secs(2)),
        ..Options::default()
    };
    let mut world = world(TransferRecorder::default(), Config::default());
    world.sim.capacity = 256 * 1024;
    let begun = world.sim.now();
    let id = start(&mut world, &get("/bytes/200000", options));
    run(&mut world);
    let done = world.client().application().ended(id);
    assert!(done.result.is_ok(), "{done:?}");
    let took = world.sim.now() - begun;
    assert!(took >= Duration::from_secs(19) && took < Duration::from_secs(30), "{took:?}");
}

/// The same holds for a pause by the application, however long; no timer is set for it.
#[test]
fn a_long_pause_is_neither_idle_nor_slow_and_sets_no_timer() {
    let recorder = TransferRecorder::with(|context, id, event| {
        if matches!(event, TransferEvent::Head { .. }) {
            context.pause(id);
        }
    });
    let options = Options {
        idle_timeout: Some(Duration::from_secs(2)),
        first_byte_timeout: Some(Duration::from_secs(2)),
        lowest_speed: Some((1_000, Duration::from_secs(1))),
        ..Options::default()
    };
    let mut world = world(recorder, Config::default());
    let id = start(&mut world, &get("/bytes/100000", options));
    assert!(world.run(100_000, |client| client.application().trace(id) == "H"));
    let mut wakes = 0;
    for _ in 0..60 {
        let until = world.sim.now() + Duration::from_secs(1);
        while let Some(due) = world.client().poll_timeout().filter(|due| *due <= until) {
            wakes += 1;
            let now = due.max(world.sim.now());
            world.client().handle(now, DriverEvent::Timeout);
        }
        world.sim.advance(Duration::from_secs(1));
    }
    assert!(wakes <= 5, "{wakes} wakes in a minute of pausing");
    let now = world.sim.now();
    world.client().with(now, |_, context| context.resume(id));
    run(&mut world);
    let done = world.client().application().ended(id);
    assert!(done.result.is_ok(), "{:?} {:?}", done.result, done.timings());
}

/// Requests start at the configured rate, however many wait.
#[test]
fn a_rate_is_kept() {
    let rate = Some(RateLimit { requests: 10, per: Duration::from_secs(1), burst: 1 });
    let mut world = world(TransferRecorder::default(), Config { rate, ..Config::default() });
    let begun = world.sim.now();
    for _ in 0..31 {
        start(&mut world, &get("/bytes/1", Options::default()));
    }
    run(&mut world);
    let took = world.sim.now() - begun;
    assert!(took >= Duration::from_secs(3) && took < Duration::from_secs(4), "{took:?}");
}
