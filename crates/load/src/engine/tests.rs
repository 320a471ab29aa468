//! The engine against scripted servers, in memory and virtual time.

mod http2;
mod refusals;

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use fulmar_proto::{BodyLen, HeaderBuf, Response, Scratch, Segment, ServerConnection};

use super::*;
use crate::options::Options;

/// HTTP/1.1 with so many requests outstanding on a connection.
fn pipelined(pipelined: u16) -> LoadProtocol {
    LoadProtocol::Http1 { pipelined }
}

/// What the world does to one connection.
type Script = Box<dyn FnMut(u64) -> Treatment>;

/// How a server treats the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Treatment {
    Answer,
    /// The last answer of this connection, as it says.
    AnswerAndClose,
    /// These bytes, instead of an answer, and then the end if so.
    Bytes(&'static [u8], bool),
    /// Nothing more on this connection.
    Stall,
    /// No answer to this request.
    Silence,
    Reset,
    /// The end of this stream only.
    ResetStream(Reset),
}

/// A server's end of one connection.
struct ServerEnd {
    machine: ServerConnection,
    input: BytesMut,
    outgoing: Vec<u8>,
    fin: bool,
    reset: bool,
    stalled: bool,
    fate: Treatment,
}

/// One engine and everything around it. Time moves by `DELAY` a turn, or to the next deadline.
struct SimulatedRun {
    load: Load,
    now: Instant,
    epoch: Instant,
    peers: BTreeMap<u64, ServerEnd>,
    born: Vec<SocketId>,
    script: Script,
    /// Refuses the connect with this number, with this error.
    refuse: Box<dyn FnMut(u64) -> Option<i32>>,
    connects: u64,
    /// This connect and later ones get no response.
    silent_from: u64,
    requests: u64,
    turns: u64,
    /// No answers leave from the first to the second, in nanoseconds of the run.
    stopped: (u64, u64),
    /// Where there is no server: connections are reset and connects refused in these times.
    away: Vec<(u64, u64)>,
    scratch: Scratch,
}

const DELAY: Duration = Duration::from_micros(100);
const SECOND: u64 = 1_000_000_000;
/// When a server dies, where it does.
const DEATH: u64 = SECOND / 10;

fn options(change: impl FnOnce(&mut Options)) -> Options {
    let urls = vec!["http://127.0.0.1:1/a".to_owned(), "http://127.0.0.1:1/b".to_owned()];
    let mut options = Options { urls, connections: 4, ..Options::default() };
    change(&mut options);
    options
}

impl SimulatedRun {
    fn new(options: &Options, script: impl FnMut(u64) -> Treatment + 'static) -> Self {
        let epoch = fulmar_sys::now();
        let plan = Arc::new(RunPlan::new(options).unwrap());
        let shared = Arc::new(RunShared::new(plan.threads));
        Self {
            load: Load::new(plan, shared, 0, epoch),
            now: epoch,
            epoch,
            peers: BTreeMap::new(),
            born: Vec::new(),
            script: Box::new(script),
            refuse: Box::new(|_| None),
            connects: 0,
            silent_from: u64::MAX,
            requests: 0,
            turns: 0,
            stopped: (0, 0),
            away: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    /// Runs until the engine has finished.
    fn run(&mut self) -> Finish {
        loop {
            if let Some(finish) = self.load.finish() {
                return finish;
            }
            self.turns += 1;
            assert!(self.turns < 2_000_000, "livelock");
            self.turn();
        }
    }

    fn turn(&mut self) {
        self.act();
        self.load.handle(self.now, DriverEvent::Flush);
        let sockets: Vec<_> = self.peers.keys().copied().map(SocketId::from_bits).collect();
        let mut moved = !self.born.is_empty();
        for socket in sockets {
            moved |= self.send(socket);
        }
        self.act();
        if self.load.finish().is_some() {
            return;
        }
        self.pass_time(moved);
        for socket in std::mem::take(&mut self.born) {
            self.load.handle(self.now, SocketEvent::Connected.of(socket));
        }
        let sockets: Vec<_> = self.peers.keys().copied().map(SocketId::from_bits).collect();
        for socket in sockets {
            self.receive(socket);
        }
        if self.load.poll_timeout().is_some_and(|deadline| deadline <= self.now) {
            self.load.handle(self.now, DriverEvent::Timeout);
        }
    }

    fn pass_time(&mut self, moved: bool) {
        let answers = self.peers.values().any(|peer| !peer.outgoing.is_empty() || peer.fin);
        let soon = (moved || answers && !self.is_stopped()).then_some(self.now + DELAY);
        let release = answers.then(|| self.epoch + Duration::from_nanos(self.stopped.1));
        let release = release.filter(|time| *time > self.now);
        let deadline = self.load.poll_timeout().map(|time| time.max(self.now));
        let next = [soon, release, deadline].into_iter().flatten().min();
        self.now = next.expect("something can happen");
    }

    fn is_stopped(&self) -> bool {
        let at = nanos_of(self.now - self.epoch);
        (self.stopped.0..self.stopped.1).contains(&at)
    }

    fn is_away(&self) -> bool {
        let at = nanos_of(self.now - self.epoch);
        self.away.iter().any(|(from, to)| (*from..*to).contains(&at))
    }

    fn act(&mut self) {
        while let Some(action) = self.load.poll_action() {
            match action {
                Action::Connect { socket, .. } => {
                    self.connects += 1;
                    let away = self.is_away().then_some(libc::ECONNREFUSED);
                    if let Some(errno) = away.or_else(|| (self.refuse)(self.connects)) {
                        let error = io::Error::from_raw_os_error(errno);
                        self.load.handle(self.now, SocketEvent::Failed(error).of(socket));
                        continue;
                    }
                    if self.connects >= self.silent_from {
                        continue;
                    }
                    self.born.push(socket);
                    self.peers.insert(socket.to_bits(), ServerEnd::new());
                }
                Action::Close { socket, .. } => {
                    self.peers.remove(&socket.to_bits());
                }
                Action::Transmit { .. } | Action::Shutdown { .. } | Action::Read { .. } => {}
                other => panic!("{other:?} is not a client's"),
            }
        }
    }

    /// From the engine to the server, which does what its script says.
    fn send(&mut self, socket: SocketId) -> bool {
        let peer = self.peers.get_mut(&socket.to_bits()).unwrap();
        let Some(transmit) = self.load.poll_transmit(socket) else { return false };
        let mut bytes = transmit.inline.to_vec();
        for segment in transmit.segments {
            let Segment::Bytes(more) = segment else { panic!("no files here") };
            bytes.extend_from_slice(more);
        }
        if bytes.is_empty() {
            return false;
        }
        self.load.handle(self.now, SocketEvent::Sent(bytes.len() as u64).of(socket));
        peer.input.extend_from_slice(&bytes);
        peer.think(&mut self.scratch, &mut self.requests, &mut self.script);
        true
    }

    fn receive(&mut self, socket: SocketId) {
        let (stopped, away) = (self.is_stopped(), self.is_away());
        let Some(peer) = self.peers.get_mut(&socket.to_bits()) else { return };
        if stopped {
            return;
        }
        if peer.reset || away {
            let error = io::ErrorKind::ConnectionReset.into();
            return self.load.handle(self.now, SocketEvent::Failed(error).of(socket));
        }
        if peer.outgoing.is_empty() && !peer.fin {
            return;
        }
        let mut block = BytesMut::from(&std::mem::take(&mut peer.outgoing)[..]);
        let input = Input::all(&mut block, std::mem::take(&mut peer.fin));
        self.load.handle(self.now, SocketEvent::Input(input).of(socket));
    }

    fn tally(&self) -> &RunTally {
        &self.load.core.tally
    }

    fn errors(&self) -> Vec<(&'static str, u64)> {
        let tally = self.tally();
        let named = ErrorKind::ALL.iter().map(|kind| (kind.name(), tally.count(*kind)));
        named.filter(|(_, n)| *n > 0).collect()
    }
}

impl ServerEnd {
    fn new() -> Self {
        Self {
            machine: ServerConnection::default(),
            input: BytesMut::new(),
            outgoing: Vec::new(),
            fin: false,
            reset: false,
            stalled: false,
            fate: Treatment::Answer,
        }
    }

    fn think(&mut self, scratch: &mut Scratch, requests: &mut u64, script: &mut Script) {
        let mut block = std::mem::take(&mut self.input);
        let mut input = Input::all(&mut block, false);
        while !self.stalled {
            match self.machine.poll_event(&mut input, scratch).expect("we speak HTTP") {
                Some(Event::Head { stream, .. }) => {
                    *requests += 1;
                    self.fate = script(*requests);
                    match self.fate {
                        Treatment::Answer => {}
                        Treatment::Silence => continue,
                        Treatment::ResetStream(reason) => {
                            self.machine.reset(stream, reason);
                            continue;
                        }
                        Treatment::AnswerAndClose => self.machine.close_after(),
                        Treatment::Stall => self.stalled = true,
                        Treatment::Reset => (self.stalled, self.reset) = (true, true),
                        Treatment::Bytes(bytes, fin) => {
                            self.stalled = true;
                            self.outgoing.extend_from_slice(bytes);
                            self.fin = fin;
                        }
                    }
                    if !self.stalled {
                        self.answer(stream);
                    }
                }
                Some(_) => {}
                None => break,
            }
        }
        self.input = block;
        if !self.stalled {
            self.flush();
        }
        self.fin |= self.machine.io_state().finished;
    }

    fn answer(&mut self, stream: StreamId) {
        let mut headers = HeaderBuf::new();
        headers.push("Content-Type", b"text/plain").unwrap();
        let response = Response::new(200, headers.as_headers());
        self.machine.send_head(stream, response, BodyLen::Exact(2)).unwrap();
        self.machine.send_data(stream, Segment::Bytes(Bytes::from_static(b"ok"))).unwrap();
        self.machine.send_end(stream, fulmar_proto::Headers::EMPTY).unwrap();
        self.flush();
    }

    fn flush(&mut self) {
        while let Some(transmit) = self.machine.poll_transmit() {
            self.outgoing.extend_from_slice(transmit.inline);
            for segment in transmit.segments {
                let Segment::Bytes(more) = segment else { panic!("no files here") };
                self.outgoing.extend_from_slice(more);
            }
            let n = transmit.len();
            self.machine.handle_sent(n);
        }
    }
}

#[test]
fn a_connection_costs_few_bytes() {
    assert!(size_of::<Conn>() <= 48, "{}", size_of::<Conn>());
}

#[test]
fn a_closed_loop_keeps_every_connection_busy_until_the_end() {
    let options = options(|o| o.until = RunUntil::Elapsed(Duration::from_millis(100)));
    let mut world = SimulatedRun::new(&options, |_| Treatment::Answer);
    let finish = world.run();
    assert_eq!(finish, Finish::Done(100_000_000));
    let tally = world.tally();
    assert_eq!((tally.established, tally.opened, tally.errors()), (4, 4, 0));
    let round_trips = 100_000 / 100;
    assert!((3 * round_trips..4 * round_trips).contains(&tally.answered), "{}", tally.answered);
    assert!(tally.issued - tally.answered <= 4, "outstanding at the end is no error");
    let latency = tally.latency.summary();
    assert_eq!([latency.min, latency.p50, latency.max], [Some(100); 3]);
    assert_eq!(tally.statuses().collect::<Vec<_>>(), [(200, tally.answered)]);
}

#[test]
fn exactly_as_many_requests_as_asked_for_also_pipelined() {
    for depth in [1, 3, 16, 64] {
        for n in [1, 7, 1_000] {
            let options =
                options(|o| (o.protocol, o.until) = (pipelined(depth), RunUntil::Requests(n)));
            let mut world = SimulatedRun::new(&options, |_| Treatment::Answer);
            assert!(matches!(world.run(), Finish::Done(_)));
            let tally = world.tally();
            assert_eq!((tally.answered, tally.issued, tally.errors()), (n, n, 0), "{depth} {n}");
            assert_eq!(world.requests, n);
        }
    }
}

#[test]
fn nothing_grows_with_the_number_of_requests() {
    let options = options(|o| o.protocol = pipelined(8));
    let mut world = SimulatedRun::new(&options, |_| Treatment::Answer);
    let capacity = |world: &SimulatedRun| {
        let core = &world.load.core;
        (core.fresh.capacity(), core.free.capacity(), core.expired.capacity(), core.sockets.len())
    };
    (0..100).for_each(|_| world.turn());
    let before = capacity(&world);
    (0..10_000).for_each(|_| world.turn());
    assert_eq!(capacity(&world), before);
    assert!(world.tally().answered > 200_000);
}

#[test]
fn a_stall_shows_in_an_open_loop() {
    let options = options(|o| {
        (o.rate, o.connections) = (Some(2_000), 64);
        o.until = RunUntil::Elapsed(Duration::from_secs(10));
    });
    let mut world = SimulatedRun::new(&options, |_| Treatment::Answer);
    world.stopped = (4_000_000_000, 5_000_000_000);
    world.run();
    let tally = world.tally();
    assert!((19_990..=20_000).contains(&tally.answered), "{}", tally.answered);
    let (latency, open) = (tally.latency.summary(), tally.open.as_ref().unwrap());
    assert!((850_000..=950_000).contains(&latency.p99.unwrap()), "{latency:?}");
    let raw = open.raw.summary();
    assert!(raw.p99.unwrap() < 1_000, "only 64 requests saw the stall themselves: {raw:?}");
    assert!(open.lateness.at(0.99).unwrap() > 850_000);
}

#[test]
fn an_open_loop_keeps_its_rate_and_reuses_the_hottest_connection() {
    let options = options(|o| {
        (o.rate, o.until) = (Some(1_000), RunUntil::Elapsed(Duration::from_secs(1)));
    });
    let mut world = SimulatedRun::new(&options, |_| Treatment::Answer);
    world.run();
    let tally = world.tally();
    assert!((998..=1_000).contains(&tally.issued), "{}", tally.issued);
    assert!(tally.open.as_ref().unwrap().lateness.at(0.99).unwrap() <= 100);
    assert!(world.load.core.free.len() <= 4 && world.load.core.sockets.len() == 4);
}

#[test]
fn a_pipelining_open_loop_takes_idle_connections_first() {
    let options = options(|o| {
        (o.rate, o.protocol, o.connections) = (Some(100_000), pipelined(4), 2);
        o.until = RunUntil::Requests(5_000);
    });
    let mut world = SimulatedRun::new(&options, |_| Treatment::Answer);
    world.run();
    assert_eq!((world.tally().answered, world.tally().issued), (5_000, 5_000));
}

#[test]
fn every_request_on_its_own_connection() {
    let options = options(|o| (o.reconnect, o.until) = (true, RunUntil::Requests(500)));
    let mut world = SimulatedRun::new(&options, |_| Treatment::Answer);
    world.run();
    let tally = world.tally();
    assert_eq!((tally.answered, tally.errors()), (500, 0));
    assert_eq!(tally.opened, 500, "none that has nothing to ask");
    assert!(tally.established <= 4);
}

#[test]
fn requests_that_fail_on_connections_of_their_own_are_as_many_connections() {
    for rate in [None, Some(500)] {
        let options = options(|o| {
            (o.reconnect, o.until, o.rate) = (true, RunUntil::Requests(100), rate);
        });
        let mut world = SimulatedRun::new(&options, |n| {
            if n % 10 == 9 { Treatment::Reset } else { Treatment::Answer }
        });
        world.refuse = Box::new(|n| (n == 50).then_some(libc::ECONNREFUSED));
        assert!(matches!(world.run(), Finish::Done(_)));
        let tally = world.tally();
        assert_eq!((tally.answered, tally.failed, tally.opened), (90, 10, 100));
    }
}

#[test]
fn a_keep_alive_limit_is_no_error() {
    for depth in [1, 8] {
        let options =
            options(|o| (o.protocol, o.until) = (pipelined(depth), RunUntil::Requests(1_000)));
        let close = |n| if n % 10 == 0 { Treatment::AnswerAndClose } else { Treatment::Answer };
        let mut world = SimulatedRun::new(&options, close);
        world.run();
        let tally = world.tally();
        assert_eq!((tally.answered, tally.errors(), tally.issued), (1_000, 0, 1_000), "{depth}");
        assert!(tally.opened >= 100, "{}", tally.opened);
    }
}

#[test]
fn servers_that_lie_are_told_from_each_other() {
    const SHORT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc";
    const TWICE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\n\r\n";
    const JUNK: &[u8] = b"SSH-2.0-OpenSSH_9.2\r\n";
    const LENGTHS: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na";
    for (fate, errors, answered) in [
        (Treatment::Bytes(SHORT, true), &[("closed", 10)][..], 0),
        (Treatment::Bytes(b"", true), &[("closed", 10)], 0),
        (Treatment::Bytes(JUNK, false), &[("protocol", 10)], 0),
        (Treatment::Bytes(LENGTHS, false), &[("protocol", 10)], 0),
        (Treatment::Bytes(TWICE, false), &[("protocol", 10)], 10),
        (Treatment::Bytes(SHORT, false), &[("timeout", 10)], 0),
        (Treatment::Stall, &[("timeout", 10)], 0),
        (Treatment::Reset, &[("reset", 10)], 0),
    ] {
        let options = options(|o| {
            (o.until, o.connections) = (RunUntil::Requests(10), 1);
            o.timeout = Duration::from_secs(2);
        });
        let mut world = SimulatedRun::new(&options, move |_| fate);
        world.run();
        assert_eq!(
            (world.errors(), world.tally().answered),
            (errors.to_vec(), answered),
            "{fate:?}"
        );
    }
}

#[test]
fn time_is_up_for_the_oldest_request_and_not_for_a_busy_connection() {
    let options = options(|o| {
        (o.connections, o.timeout) = (1, Duration::from_millis(50));
        o.until = RunUntil::Requests(10_000);
    });
    let mut world =
        SimulatedRun::new(
            &options,
            |n| if n == 5_000 { Treatment::Stall } else { Treatment::Answer },
        );
    let Finish::Done(at) = world.run() else { panic!("not done") };
    assert_eq!((world.errors(), world.tally().answered), (vec![("timeout", 1)], 9_999));
    assert!((1_050_000_000..1_054_000_000).contains(&at), "one stall of 50 ms: {at}");
}

#[test]
fn refused_everywhere_ends_early_and_never_spins() {
    let options = options(|o| o.connections = 1_000);
    let mut world = SimulatedRun::new(&options, |_| Treatment::Answer);
    world.refuse = Box::new(|_| Some(libc::ECONNREFUSED));
    let Finish::Unreachable(at) = world.run() else { panic!("not given up") };
    assert!(at < 1_000_000_000 && world.connects < 10, "{at} {}", world.connects);
    assert_eq!(world.errors(), [("connect_refused", world.connects)]);
    let (_, failure, _) = world.load.take_parts();
    let error = failure.unwrap().error.unwrap();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_server_that_comes_back_is_found_again() {
    let options = options(|o| o.until = RunUntil::Elapsed(Duration::from_secs(5)));
    let mut world =
        SimulatedRun::new(
            &options,
            |n| if n == 100 { Treatment::Reset } else { Treatment::Answer },
        );
    world.refuse = Box::new(|n| (5..9).contains(&n).then_some(libc::ECONNREFUSED));
    world.run();
    assert_eq!(world.errors(), [("connect_refused", 4), ("reset", 1)]);
    assert_eq!((world.tally().established, world.tally().opened), (4, 5));
}

/// Dies after a tenth of a second, and is away for so many seconds.
fn dies(options: &Options, seconds: u64) -> SimulatedRun {
    let mut world = SimulatedRun::new(options, |_| Treatment::Answer);
    world.away = vec![(DEATH, DEATH + SECOND * seconds)];
    world
}

/// Seconds of all outages, and whether the last one never ended.
fn outage(world: &SimulatedRun, finish: Finish) -> (f64, bool) {
    let (nanos, lost) = world.load.core.shared.outages.total(finish.at());
    (Duration::from_nanos(nanos).as_secs_f64(), lost)
}

#[test]
fn a_server_that_dies_ends_the_run_after_five_seconds() {
    let long = RunUntil::Elapsed(Duration::from_secs(600));
    type OptionChange = fn(&mut Options);
    let two: OptionChange = |o| o.urls[1] = "http://127.0.0.1:2/b".to_owned();
    let cases: [(&str, OptionChange); 8] = [
        ("a time", |_| {}),
        ("requests", |o| o.until = RunUntil::Requests(u64::MAX)),
        ("a rate", |o| o.rate = Some(1_000)),
        ("a rate and requests", |o| (o.rate, o.until) = (Some(10), RunUntil::Requests(100_000))),
        ("one connection", |o| o.connections = 1),
        ("a short timeout", |o| o.timeout = Duration::from_secs(1)),
        ("a connection for each request", |o| o.reconnect = true),
        ("two destinations", two),
    ];
    for (name, change) in cases {
        let options = options(|o| {
            o.until = long;
            change(o);
        });
        let mut world = dies(&options, 10_000);
        let finish = world.run();
        let Finish::Unreachable(at) = finish else { panic!("{name}: {finish:?}") };
        assert!((5 * SECOND..7 * SECOND).contains(&(at - DEATH)), "{name}: {at}");
        let (seconds, lost) = outage(&world, finish);
        assert!(lost && (5.0..7.0).contains(&seconds), "{name}: {seconds}");
        assert!(world.tally().answered > 0, "{name}");
        let tries = world.tally().count(ErrorKind::ConnectRefused);
        assert!((6..60).contains(&tries), "{name}: {tries}");
    }
}

#[test]
fn a_server_that_restarts_in_time_does_not_end_the_run() {
    let changes: [fn(&mut Options); 3] =
        [|o| o.connections = 1, |o| o.until = RunUntil::Requests(1_000), |_| {}];
    for change in changes {
        let options = options(|o| {
            (o.rate, o.until) = (Some(100), RunUntil::Elapsed(Duration::from_secs(10)));
            change(o);
        });
        let mut world = dies(&options, 3);
        world.away.push((SECOND * 6, SECOND * 7));
        let finish = world.run();
        assert!(matches!(finish, Finish::Done(at) if at / SECOND >= 9), "{finish:?}");
        let (seconds, lost) = outage(&world, finish);
        assert!(!lost && (4.0..=6.1).contains(&seconds), "{seconds}");
        assert_eq!(world.tally().established, options.connections);
    }
}

#[test]
fn a_run_that_ends_while_its_server_is_away_has_lost_it() {
    let options = options(|o| o.until = RunUntil::Elapsed(Duration::from_secs(3)));
    let mut world = dies(&options, 10_000);
    let finish = world.run();
    assert_eq!(finish, Finish::Done(3 * SECOND));
    assert!(matches!(outage(&world, finish), (seconds, true) if (2.8..=2.9).contains(&seconds)));
}

#[test]
fn one_destination_that_stays_up_keeps_the_run() {
    let options = options(|o| {
        o.urls[1] = "http://127.0.0.1:2/b".to_owned();
        (o.connections, o.rate) = (2, Some(100));
        o.until = RunUntil::Elapsed(Duration::from_secs(20));
    });
    let mut world =
        SimulatedRun::new(
            &options,
            |n| if n == 100 { Treatment::Reset } else { Treatment::Answer },
        );
    world.refuse = Box::new(|n| (n > 2).then_some(libc::ECONNREFUSED));
    let finish = world.run();
    assert!(matches!(finish, Finish::Done(_)), "{finish:?}");
    assert_eq!((world.tally().established, outage(&world, finish)), (1, (0.0, false)));
}

#[test]
fn a_connect_in_progress_is_waited_for_before_a_server_is_lost() {
    let options = options(|o| {
        (o.connections, o.timeout) = (1, Duration::from_secs(20));
        o.until = RunUntil::Elapsed(Duration::from_secs(600));
    });
    let mut world = dies(&options, 1);
    world.silent_from = 3; // the first connection, and one that is refused
    let Finish::Unreachable(at) = world.run() else { panic!("not lost") };
    assert!((20 * SECOND..22 * SECOND).contains(&(at - DEATH)), "{at}");
    assert_eq!(world.tally().count(ErrorKind::ConnectTimeout), 1);
}

#[test]
fn a_thread_that_gives_up_waits_for_the_others() {
    let options = options(|o| o.until = RunUntil::Elapsed(Duration::from_secs(600)));
    let mut world = SimulatedRun::new(&options, |_| Treatment::Answer);
    let (plan, shared) = (Arc::new(RunPlan::new(&options).unwrap()), Arc::new(RunShared::new(2)));
    world.load = Load::new(plan, Arc::clone(&shared), 0, world.epoch);
    world.away = vec![(DEATH, u64::MAX)];
    while nanos_of(world.now - world.epoch) < 20 * SECOND {
        world.turn();
    }
    assert_eq!(world.load.finish(), None, "the other one may have connections");
    let mut other = Reachability::Down { since: DEATH };
    other.fail(&shared.outages);
    other.give_up(20 * SECOND, &shared.outages);
    let Finish::Unreachable(at) = world.run() else { panic!("not lost") };
    assert!(at < 20 * SECOND + SECOND / 4, "{at}");
}

#[test]
fn without_descriptors_the_run_goes_on_with_what_it_holds() {
    let options = options(|o| {
        (o.connections, o.until) = (1_000, RunUntil::Elapsed(Duration::from_secs(2)));
    });
    let closing = |n| if n % 100 == 0 { Treatment::AnswerAndClose } else { Treatment::Answer };
    let mut world = SimulatedRun::new(&options, closing);
    let full = std::rc::Rc::new(std::cell::Cell::new(0_u64));
    let seen = std::rc::Rc::clone(&full);
    world.refuse = Box::new(move |n| {
        let over = (101..200).contains(&n);
        seen.set(seen.get() + u64::from(over));
        over.then_some(libc::EMFILE)
    });
    world.run();
    let tally = world.tally();
    assert!((90..=100).contains(&tally.established_max), "{}", tally.established_max);
    assert!(tally.answered > 1_000 && full.get() <= 99);
    assert_eq!(tally.count(ErrorKind::Descriptors), full.get());
    assert!(world.load.core.opener.given_up() >= 900);
    assert!(world.connects < 20_000, "no storm: {}", world.connects);
}

#[test]
fn no_descriptor_at_all_is_an_end() {
    let mut world = SimulatedRun::new(&options(|_| {}), |_| Treatment::Answer);
    world.refuse = Box::new(|_| Some(libc::EMFILE));
    assert!(matches!(world.run(), Finish::Unreachable(0)));
}

#[test]
fn used_up_ports_have_a_kind_of_their_own() {
    let options = options(|o| o.until = RunUntil::Elapsed(Duration::from_secs(3)));
    let mut world = SimulatedRun::new(&options, |_| Treatment::Answer);
    world.refuse = Box::new(|n| (n > 2).then_some(libc::EADDRNOTAVAIL));
    world.run();
    assert_eq!(world.tally().established, 2);
    let refused = world.tally().count(ErrorKind::AddressUnavailable);
    assert!((2..=12).contains(&refused), "{refused}");
}

#[test]
fn a_server_that_dies_while_we_connect_has_reset_us() {
    let options = options(|o| o.until = RunUntil::Requests(10));
    let mut world = SimulatedRun::new(&options, |_| Treatment::Answer);
    world.refuse = Box::new(|n| (n == 1).then_some(libc::ECONNRESET));
    assert!(matches!(world.run(), Finish::Done(_)));
    assert_eq!(world.errors(), [("reset", 1)]);
}

#[test]
fn a_second_address_is_tried_without_an_error() {
    let mut options = options(|o| o.until = RunUntil::Requests(10));
    options.urls.truncate(1);
    let epoch = fulmar_sys::now();
    let mut plan = RunPlan::new(&options).unwrap();
    plan.origins[0].addresses.insert(0, fulmar_engine::Peer::Ip("[::1]:1".parse().unwrap()));
    let mut world = SimulatedRun::new(&options, |_| Treatment::Answer);
    world.load = Load::new(Arc::new(plan), Arc::new(RunShared::new(1)), 0, epoch);
    world.refuse = Box::new(|n| (n == 1).then_some(libc::ECONNREFUSED));
    world.run();
    assert_eq!((world.tally().answered, world.errors()), (10, vec![]));
}

#[test]
fn a_stop_keeps_what_was_done() {
    let mut world = SimulatedRun::new(&options(|_| {}), |_| Treatment::Answer);
    (0..100).for_each(|_| world.turn());
    world.load.handle(world.now, DriverEvent::Wake);
    assert_eq!(world.load.finish(), None, "woken for something else");
    world.load.core.shared.stop.store(true, Ordering::Release);
    world.load.handle(world.now, DriverEvent::Wake);
    assert!(matches!(world.run(), Finish::Stopped(_)));
    assert!(world.tally().answered > 100);
    assert_eq!(world.load.poll_timeout(), None);
}

#[test]
fn every_request_is_accounted_for_whatever_happens() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let n = random.u64(1..400);
        let options = options(|o| {
            o.connections = random.u32(1..20);
            o.protocol = pipelined(random.u16(1..=8));
            o.rate = random.bool().then(|| random.u64(100..100_000));
            o.timeout = Duration::from_millis(random.u64(1..200));
            o.until = RunUntil::Requests(n);
        });
        let mut fates = fastrand::Rng::with_seed(seed + 1_000_000);
        let mut world = SimulatedRun::new(&options, move |_| match fates.u32(0..40) {
            0 => Treatment::Reset,
            1 => Treatment::Stall,
            2 => Treatment::AnswerAndClose,
            3 => Treatment::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", true),
            4 => Treatment::Bytes(b"nonsense", false),
            5 => Treatment::Bytes(b"", true),
            _ => Treatment::Answer,
        });
        let mut refusals = fastrand::Rng::with_seed(seed + 2_000_000);
        world.refuse = Box::new(move |_| (refusals.u32(0..10) == 0).then_some(libc::ECONNREFUSED));
        assert!(matches!(world.run(), Finish::Done(_)), "seed {seed}");
        let tally = world.tally();
        assert_eq!(tally.answered + tally.failed, n, "seed {seed}");
        let connects = tally.count(ErrorKind::ConnectRefused);
        let unsolicited = tally.errors() - connects - tally.failed;
        assert_eq!(unsolicited, 0, "seed {seed}: {:?}", world.errors());
        assert_eq!(tally.issued, n, "seed {seed}");
    }
}
