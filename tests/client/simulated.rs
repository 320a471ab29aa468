//! The client over a simulated network, seed after seed: whatever the network and the application
//! do, every transfer ends once, answers are right to the byte, and nothing is left.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_client::{
    Client, Config, Context, Options, Request, RequestBody, TransferEvent, TransferId,
};
use fulmar_engine::sim::{Faults, NameEntry, Sim};
use fulmar_proto::h2::Http2Limits;
use fulmar_server::{Limits, ServerEngine};
use fulmar_sys as sys;
use fulmar_tests::app::{App, server};
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::https::{self, client_tls, server_tls};
use fulmar_tests::in_every_loop;
use fulmar_tests::loops::{Loop, OwnLoop};
use fulmar_tests::transfers::{ClientAndServer, ClientLoop, TransferRecorder};

/// What the application does, as its seed says.
#[derive(Debug)]
struct Mischief {
    random: fastrand::Rng,
    /// The servers, by any of which a request is answered.
    bases: Vec<String>,
    options: Arc<Options>,
    left: u64,
    ids: Vec<TransferId>,
    paused: Vec<TransferId>,
    unsent: BTreeMap<usize, (TransferId, u64)>,
    removed: fulmar_tests::transfers::Named,
    pauses: fulmar_tests::transfers::Named,
}

impl Mischief {
    fn start(&mut self, context: &mut Context<'_>) {
        if self.left > 0 {
            self.left -= 1;
            let base = match &self.bases[..] {
                [base] => base,
                bases => &bases[self.random.usize(..bases.len())],
            };
            let request = request(base, &self.options, self.left, &mut self.random);
            self.ids.push(context.start(&request));
        }
    }

    fn act(&mut self, context: &mut Context<'_>, id: TransferId, event: &TransferEvent<'_>) {
        if matches!(event, TransferEvent::Done(_)) {
            self.start(context);
        }
        if matches!(event, TransferEvent::Writable) {
            self.send(context, id);
        }
        match self.random.u8(..) {
            0..10 => {
                let victim = self.any();
                if context.remove(victim) {
                    self.removed.borrow_mut().insert(victim);
                    self.start(context);
                }
            }
            10..30 => {
                let victim = self.any();
                if context.progress(victim).is_some() {
                    context.pause(victim);
                    self.paused.push(victim);
                    self.pauses.borrow_mut().insert(victim);
                }
            }
            30..40 => self.resume(context),
            _ => {}
        }
    }

    fn any(&mut self) -> TransferId {
        let from = self.ids.len().saturating_sub(20);
        self.ids[self.random.usize(from..self.ids.len())]
    }

    fn resume(&mut self, context: &mut Context<'_>) {
        if let Some(id) = self.paused.pop() {
            self.pauses.borrow_mut().remove(&id);
            context.resume(id);
        }
    }

    /// As much of a streamed body as it pleases.
    fn send(&mut self, context: &mut Context<'_>, id: TransferId) {
        let whole = self.random.u64(0..100_000);
        let left = match self.unsent.get(&id.index()) {
            Some((known, left)) if *known == id => *left,
            _ => whole,
        };
        let piece = left.min(self.random.u64(1..40_000));
        context.send(id, bytes::Bytes::from(vec![b'z'; usize::try_from(piece).expect("small")]));
        if left == piece {
            context.finish(id);
        }
        // Once it is finished nothing asks for more.
        self.unsent.insert(id.index(), (id, left - piece));
    }
}

/// The `n`th request: what its answer must be follows from it alone.
fn request(base: &str, options: &Arc<Options>, n: u64, random: &mut fastrand::Rng) -> Request {
    let size = random.u64(0..150_000) >> random.u32(0..18);
    let url = |path: &str| format!("{base}{path}");
    let body = vec![b'y'; usize::try_from(size).expect("small")];
    let builder = match random.u8(0..8) {
        0 => Request::get(&url("/delay/70")),
        1 => Request::with_method("PUT", &url("/echo")).body(RequestBody::Bytes(body.into())),
        2 => Request::with_method("POST", &url("/echo")).body(RequestBody::Bytes(body.into())),
        3 => Request::with_method("POST", &url("/echo")).body(RequestBody::Stream(None)),
        4 => Request::get(&url("/status/404")),
        _ => Request::get(&url(&format!("/bytes/{size}"))),
    };
    builder.options(options.clone()).tag(n).build().expect("a request")
}

/// True if `body` is what this request is answered with.
fn is_right(request: &Request, body: &[u8]) -> bool {
    let path = request.url().path();
    if let Some(size) = path.strip_prefix("/bytes/") {
        let pattern = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-\n";
        let right = body.chunks(64).all(|run| run == &pattern[..run.len()]);
        return right && body.len().to_string() == size;
    }
    match path {
        "/delay/70" => body == b"delayed\n",
        // One request has one of them. The bytes of a run are equal if it equals itself moved by
        // one.
        "/echo" => {
            let known = body.first().is_none_or(|byte| b"yz".contains(byte));
            known && body.get(1..).is_none_or(|rest| rest == &body[..rest.len()])
        }
        _ => true,
    }
}

/// An application that does as the seed says, on a client.
fn mischievous(
    seed: u64,
    config: Config,
    (bases, options): (&[&str], Options),
    total: u64,
) -> (Client<TransferRecorder>, Shared) {
    let recorder = TransferRecorder::default();
    let mischief = Rc::new(RefCell::new(Mischief {
        random: fastrand::Rng::with_seed(seed),
        bases: bases.iter().map(|base| (*base).to_owned()).collect(),
        options: options.into(),
        left: total,
        ids: Vec::new(),
        paused: Vec::new(),
        unsent: BTreeMap::new(),
        removed: recorder.removed.clone(),
        pauses: recorder.paused.clone(),
    }));
    let (inside, ticking) = (Rc::clone(&mischief), Rc::clone(&mischief));
    let recorder = TransferRecorder {
        act: Some(Box::new(move |context, id, event| {
            inside.borrow_mut().act(context, id, event);
        })),
        tick: Some(Box::new(move |context| {
            while !ticking.borrow().paused.is_empty() {
                ticking.borrow_mut().resume(context);
            }
            (context.running() > 0).then(|| context.now + TICK)
        })),
        ..recorder
    };
    let now = sys::now();
    let mut client = Client::new(now, sys::wall_clock(), recorder, config);
    client.application_mut().due = Some(now + TICK);
    (client, mischief)
}

fn begin(client: &mut Client<TransferRecorder>, now: Instant, mischief: &Shared) {
    client.with(now, |_, context| {
        for _ in 0..12 {
            mischief.borrow_mut().start(context);
        }
    });
}

type Shared = Rc<RefCell<Mischief>>;

fn check(
    client: &Client<TransferRecorder>,
    mischief: &Shared,
    may_fail: bool,
    what: &str,
) -> usize {
    let mischief = mischief.borrow();
    let recorder = client.application();
    assert_eq!((client.running(), mischief.left), (0, 0), "{what}: all is over");
    let mut failed = 0;
    for id in &mischief.ids {
        let ends = recorder.trace(*id).matches('D').count();
        let removed = mischief.removed.borrow().contains(id);
        assert_eq!(ends, usize::from(!removed), "{what}: each ends once");
    }
    for (id, done) in &recorder.done {
        match &done.result {
            Ok(()) => assert!(is_right(&done.request, recorder.body(*id)), "{what}: {done:?}"),
            Err(error) => {
                assert!(may_fail, "{what}: {error:?} {done:?}");
                failed += 1;
            }
        }
    }
    failed
}

fn run(seed: u64, faults: Faults, pipelining: u32) -> usize {
    let now = sys::now();
    let limits = Limits { idle_timeout: Duration::from_secs(5), ..Limits::default() };
    let config = Config {
        pipelining,
        per_host_max: 3,
        idle_timeout: Some(Duration::from_secs(60)),
        ..Config::default()
    };
    let (mut client, mischief) =
        mischievous(seed, config, (&["http://127.0.0.1"], Options::default()), 60);
    begin(&mut client, now, &mischief);
    let mut sim = Sim::new(now, seed, faults);
    sim.capacity = 1 << (8 + seed % 9);
    let (client, server) = (sim.add(client), sim.add(server(limits)));
    sim.listen(server, SocketAddr::from((Ipv4Addr::LOCALHOST, 80)), 4);
    let what = format!("seed {seed}, depth {pipelining}, {faults:?}");
    let ended = sim.run(3_000_000, |sim| {
        let client = &sim[client];
        assert!(client.connections() <= 3, "{what}: {} connections", client.connections());
        assert!(client.idle_connections() <= client.connections(), "{what}");
        false
    });
    assert!(ended, "{what}: a livelock");
    let failed = check(&sim[client], &mischief, faults != Faults::default(), &what);
    let client = &sim[client];
    let left = (client.connections(), client.idle_connections(), client.origins());
    assert_eq!((left, sim[server].connections()), ((0, 0, 0), 0), "{what}: nothing is left");
    let stats = client.stats();
    assert_eq!(stats.started, stats.ended, "{what}");
    failed
}

#[test]
fn a_calm_network_completes_everything() {
    for seed in 0..150 {
        for depth in [1, 4] {
            run(seed, Faults::default(), depth);
        }
    }
}

#[test]
fn a_hostile_network_loses_only_what_it_breaks() {
    let hostile = Faults { refuse: 100, reset: 2, stall: 20, accept: 20, ..Faults::default() };
    let mut failed = 0;
    for seed in 0..200 {
        for depth in [1, 4] {
            failed += run(seed, hostile, depth);
        }
    }
    assert!(failed > 0, "the faults are real");
}

/// Origins of one certificate, and few streams: connections of HTTP/2 are coalesced.
fn run_coalesced(seed: u64, faults: Faults, connections_max: usize) -> (usize, u64) {
    let now = sys::now();
    let certs = Certs::new();
    let http2 = Some(Http2Limits { streams_max: 8, ..Http2Limits::default() });
    let limits = Limits { idle_timeout: Duration::from_secs(5), http2, ..Limits::default() };
    let config = Config {
        connections_max,
        per_host_max: 3,
        idle_timeout: Some(Duration::from_secs(60)),
        ..Config::default()
    };
    let names = ["test.example", "a.wild.example", "b.wild.example", "c.wild.example"];
    let bases = names.map(|name| format!("https://{name}"));
    let options = Options { tls: Some(client_tls(&certs)), ..Options::default() };
    let servers = (&bases.each_ref().map(String::as_str)[..], options);
    let (mut client, mischief) = mischievous(seed, config, servers, 60);
    begin(&mut client, now, &mischief);
    let mut sim = Sim::new(now, seed, faults);
    sim.capacity = 1 << (8 + seed % 9);
    for name in names {
        let address = NameEntry::addresses([Ipv4Addr::LOCALHOST.into()]);
        sim.names.insert(name.into(), address);
    }
    let server = https::server(server_tls(&certs, CertOwner::Server), limits);
    let (client, server) = (sim.add(client), sim.add(server));
    sim.listen(server, SocketAddr::from((Ipv4Addr::LOCALHOST, 443)), 4);
    let what = format!("seed {seed}, {connections_max} connections, {faults:?}");
    let ended = sim.run(3_000_000, |sim| {
        let client = &sim[client];
        assert!(client.connections() <= connections_max.min(12), "{what}");
        assert!(client.idle_connections() <= client.connections(), "{what}");
        false
    });
    assert!(ended, "{what}: a livelock");
    let failed = check(&sim[client], &mischief, faults != Faults::default(), &what);
    let client = &sim[client];
    let left = (client.connections(), client.idle_connections(), client.origins());
    assert_eq!((left, sim[server].connections()), ((0, 0, 0), 0), "{what}: nothing is left");
    let stats = client.stats();
    assert_eq!(stats.started, stats.ended, "{what}");
    (failed, stats.connections)
}

#[test]
fn origins_that_share_connections_complete_everything() {
    let (mut one, mut many) = (0, 0);
    for seed in 0..15 {
        one += run_coalesced(seed, Faults::default(), 1).1;
        many += run_coalesced(seed, Faults::default(), usize::MAX).1;
    }
    assert_eq!(one, 15, "all use the one that is allowed");
    assert!(many > one, "origins open connections of their own, too");
}

#[test]
fn origins_that_share_connections_lose_only_what_a_hostile_network_breaks() {
    let hostile = Faults { refuse: 100, reset: 2, stall: 20, accept: 20, ..Faults::default() };
    let mut failed = 0;
    for seed in 0..15 {
        for connections_max in [1, 2, usize::MAX] {
            failed += run_coalesced(seed, hostile, connections_max).0;
        }
    }
    assert!(failed > 0, "the faults are real");
}

/// What the simulator's seeds do, over sockets: the same transfers, and every answer right.
#[test]
fn every_way_to_drive_survives_the_same_seeds() {
    fn check_loop<L: ClientLoop>() {
        for seed in 0..3 {
            for pipelining in [1, 4] {
                let config = Config { pipelining, per_host_max: 3, ..Config::default() };
                let mut pair = ClientAndServer::<L, OwnLoop<ServerEngine<App>>>::new(
                    TransferRecorder::default(),
                    config.clone(),
                );
                let base = format!("http://{}", pair.address);
                let total = if L::SLOWER > 1 { 6 } else { 60 };
                let server = (&[&*base][..], Options::default());
                let (client, mischief) = mischievous(seed, config, server, total);
                pair.client = L::start(client).0;
                pair.client.with(|client, now| begin(client, now, &mischief));
                let begun: Instant = sys::now();
                while pair.client.engine().running() > 0 {
                    assert!(sys::now() - begun < Duration::from_secs(60), "seed {seed}: a stall");
                    pair.client.turn(Duration::from_millis(1));
                    pair.server.turn(Duration::ZERO);
                    assert!(pair.client.engine().connections() <= 3);
                }
                check(pair.client.engine(), &mischief, false, &format!("seed {seed}"));
            }
        }
    }
    in_every_loop!(check_loop);
}

const TICK: Duration = Duration::from_millis(20);
