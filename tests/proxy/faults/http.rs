//! Mode http.

use std::cell::Cell;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use fulmar_tests::load::unused_port;
use fulmar_tests::own_process::own_process;

use crate::faults::cases::{Comes, FAULTS, InjectedFault, RACE, RetryCause, until_answered};
use crate::faults::message::{BodyFraming, FaultRequest, ReceivedMessage, answers};
use crate::faults::origin::{FaultyOrigin, ReceivedPart, RequestBook, Welcome};
use crate::faults::peer::SocketPeer;
use crate::faults::world::{World, descriptors};
use fulmar_engine::sim::PeerStep;

/// One client and its requests: perhaps a good one, then one that fails, then a good one if
/// possible.
struct FaultClient {
    peer: SocketPeer,
    port: u16,
    warm: Option<FaultRequest>,
    ask: FaultRequest,
    fault: &'static InjectedFault,
    next: FaultRequest,
}

/// A round of clients at once.
struct Round {
    seed: u64,
    random: fastrand::Rng,
    text: String,
    world: World,
    origins: Vec<FaultyOrigin>,
    /// Reserves a port without a listener.
    unused_port: OwnedFd,
    book: RequestBook,
    clients: Vec<FaultClient>,
    next_id: u32,
    retries: u32,
    retried: &'static [RetryCause],
    /// Requests that met the end of their connection.
    lost: Cell<usize>,
    /// Idle connections that the servers have closed.
    closed: usize,
    /// The servers close idle connections after the proxy has sent a race's requests, not before.
    closes_late: bool,
}

/// Values of `retry-on`, and their failures.
const RETRY_ON: [(&str, &[RetryCause]); 4] = [
    ("", &[]),
    ("  retry-on none\n", &[]),
    ("  retry-on conn-failure empty-response\n", &[RetryCause::Empty]),
    (
        "  retry-on all-retryable-errors\n",
        &[RetryCause::Empty, RetryCause::Junk, RetryCause::Silent],
    ),
];

impl Round {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let dribbles = random.u8(0..4) == 0;
        let welcomes = [Welcome::Serve, Welcome::Serve, Welcome::Close, Welcome::Reset];
        let origins: Vec<FaultyOrigin> =
            welcomes.into_iter().map(|it| FaultyOrigin::new(it, dribbles)).collect();
        let (holder, gone) = unused_port();
        let retries = random.u32(0..4);
        let (retry_on, retried) = RETRY_ON[random.usize(0..RETRY_ON.len())];
        let text = configuration(&mut random, &origins, gone, retries, retry_on);
        Self {
            seed,
            world: World::new(&text),
            unused_port: holder,
            text,
            origins,
            book: RequestBook::default(),
            clients: Vec::new(),
            next_id: 0,
            retries,
            retried,
            random,
            lost: Cell::new(0),
            closed: 0,
            closes_late: false,
        }
    }

    fn id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    /// A good request.
    fn good(&mut self) -> FaultRequest {
        let ask = FaultRequest::get(self.id(), "/");
        self.book.plans.insert(ask.id, (ask.clone(), None));
        ask
    }

    /// A request with this fault.
    fn faulty_request(&mut self, fault: &'static InjectedFault) -> FaultRequest {
        loop {
            let ask = self.any_request();
            if (fault.fits)(&ask) {
                return ask;
            }
        }
    }

    fn any_request(&mut self) -> FaultRequest {
        let random = &mut self.random;
        let sizes = [120, 3_000, 15_000, 200_000];
        let body = |random: &mut fastrand::Rng| {
            let framing = *random.choice(&[BodyFraming::Length, BodyFraming::Chunks]).unwrap();
            Some((framing, *random.choice(&sizes).unwrap()))
        };
        let method = *random.choice(&["GET", "GET", "HEAD", "POST", "POST", "PUT"]).unwrap();
        let has_body = matches!(method, "POST" | "PUT");
        let framings = [BodyFraming::Length, BodyFraming::Chunks, BodyFraming::Close];
        let answers = [0, 5, 400, 4_000, 30_000, 300_000];
        let is_huge = random.u8(0..40) == 0;
        let paths = ["/", "/", "/", "/closed", "/reset", "/refused", "/half"];
        let ask = FaultRequest {
            id: 0,
            method,
            path: random.choice(&paths).unwrap(),
            body: if has_body { body(random) } else { None },
            answer: (
                *random.choice(&framings).unwrap(),
                if is_huge { 6_000_000 } else { *random.choice(&answers).unwrap() },
            ),
        };
        FaultRequest { id: self.id(), ..ask }
    }

    /// One more client. All connect before the first request: each port is one client.
    fn add(&mut self, fault: &'static InjectedFault, race: Option<&Rc<Cell<u32>>>) {
        let stream = TcpStream::connect(self.world.address).unwrap();
        let dribbles = self.random.u8(0..8) == 0;
        let warm = (race.is_some() || self.random.bool()).then(|| self.good());
        let (ask, next) = (self.faulty_request(fault), self.good());
        self.book.plans.insert(ask.id, (ask.clone(), Some(fault)));
        let mut peer = SocketPeer::new(stream, dribbles);
        if let Some(warm) = &warm {
            peer.steps.extend([PeerStep::Send(warm.whole()), until_answered(&[warm])]);
        }
        if let Some(race) = race {
            race.set(race.get() + 1);
            let (before, now) = (Rc::clone(race), Rc::clone(race));
            peer.steps.push_back(PeerStep::Then(Box::new(move |_| {
                before.set(before.get() - 1);
                Vec::new()
            })));
            peer.steps.push_back(PeerStep::Until(Box::new(move |_| now.get() == 0)));
        }
        let before = usize::from(warm.is_some());
        peer.steps.extend(match fault.client {
            Some(fails) => shifted(fails(&ask), before),
            None => request_steps(warm.as_ref(), &ask, &next),
        });
        let port = peer.port();
        self.clients.push(FaultClient { peer, port, warm, ask, fault, next });
    }

    /// Until all clients are served or closed.
    fn run(&mut self, race: Option<&Cell<u32>>) {
        let mut raced = race.is_none();
        loop {
            let mut moved = false;
            for client in &mut self.clients {
                moved |= client.peer.turn();
            }
            for origin in &mut self.origins {
                moved |= origin.turn(&mut self.book);
            }
            if !raced && race.is_some_and(|left| left.get() == 0) {
                raced = true;
                for client in &mut self.clients {
                    client.peer.turn();
                }
                if self.closes_late {
                    for _ in 0..SENDING_TURNS {
                        self.world.turn(true, false); // no server reads meanwhile
                    }
                }
                self.closed += self.origins.iter_mut().map(FaultyOrigin::close_idle).sum::<usize>();
            }
            let over = |client: &FaultClient| client.peer.is_deaf || !client.peer.is_open();
            if self.clients.iter().all(over) && self.world.clients() == 0 {
                return;
            }
            let stuck = self.clients.iter().any(|client| client.peer.is_stuck)
                || self.origins.iter().any(FaultyOrigin::is_stuck);
            if !self.world.turn(moved, stuck) {
                let left = self.clients.iter().filter(|client| !over(client));
                let left: Vec<_> =
                    left.map(|it| (it.fault.name, &it.ask, &it.peer.steps)).collect();
                panic!("{}: nothing happens any more: {left:#?}", self.what());
            }
        }
    }

    fn what(&self) -> String {
        format!("seed {}\n{}", self.seed, self.text)
    }

    /// Every client received the right bytes, and nothing is left. How many were received, and how
    /// many clients met the end of their connection.
    fn check(mut self, before: usize) -> (usize, usize) {
        let lines: Vec<String> =
            self.world.lines.borrow().iter().map(|(_, line)| line.clone()).collect();
        for client in &self.clients {
            let mine = format!("{}|", client.port);
            let mine: Vec<&str> =
                lines.iter().filter_map(|line| line.strip_prefix(&mine)).collect();
            let what = || {
                let (warm, got) = (client.warm.is_some(), client.peer.got.len());
                let end = client.peer.end;
                let heard = self.book.heard.get(&client.ask.id);
                let ask = &client.ask;
                format!(
                    "{}: {}, {ask:?} warm {warm}: got {got} bytes, {end:?}; {heard:?}; log \
                     {mine:?}",
                    self.what(),
                    client.fault.name
                )
            };
            if let Err(why) = self.judge(client, &mine) {
                panic!("{why}\n{}", what());
            }
        }
        let left = |origin: &FaultyOrigin| origin.is_quiet();
        while !self.origins.iter().all(left) {
            let moved =
                self.origins.iter_mut().fold(false, |it, all| all.turn(&mut self.book) | it);
            let goes_on = self.world.turn(moved, false);
            assert!(goes_on, "{}: connections are left: {:#?}", self.what(), self.origins);
        }
        self.world.assert_idle(&self.what());
        let (what, counts) = (self.what(), (self.clients.len(), self.lost.get()));
        let Self { clients, origins, world, unused_port, .. } = self;
        drop((clients, origins, world, unused_port));
        assert_eq!(descriptors(), before, "{what}: descriptors");
        counts
    }

    fn judge(&self, client: &FaultClient, log: &[&str]) -> Result<(), String> {
        let FaultClient { peer, warm, ask, fault, next, .. } = client;
        let heard = self.book.heard.get(&ask.id).copied().unwrap_or_default();
        let is_head: Vec<bool> =
            warm.iter().chain([ask, next]).map(|it| it.method == "HEAD").collect();
        let mut seen = answers(&peer.got, &is_head).into_iter();
        if let Some(warm) = warm {
            let first = seen.next().ok_or("nothing was answered")?;
            is_right(warm, &first, &peer.got, 200)?;
        }
        let line = log.iter().map(|line| LoggedRequest::of(line));
        let line: Vec<LoggedRequest<'_>> = line.filter(|line| !self.is_good(line.id)).collect();
        let answer = seen.next();
        if !ask.is_idempotent() && heard.times > 1 {
            return Err("it was executed twice".to_owned());
        }
        let logged = |status: u16, codes: &[&str]| match &line[..] {
            [line] if line.status == status && codes.contains(&line.code) => Ok(()),
            _ => Err(format!("the log is to have {status} and one of {codes:?}: {line:?}")),
        };
        let status_seen = answer.as_ref().map(|it| it.0.status());
        if self.is_lost(ask, heard, status_seen) && matches!(&line[..], [line] if line.is_lost()) {
            self.lost.set(self.lost.get() + 1);
            return Ok(());
        }
        match self.what_comes(client, heard, status_seen) {
            Comes::Whole(status, codes) => {
                let answer = answer.ok_or("there is no answer")?;
                is_right(ask, &answer, &peer.got, status)?;
                logged(status, codes)?;
                let may_end = answer.0.is_last() || status == 408 || heard.whole == 0;
                match seen.next() {
                    Some(after) => is_right(next, &after, &peer.got, 200),
                    None if may_end || fault.client.is_some() => Ok(()),
                    None => Err("the connection is unusable without a visible end".to_owned()),
                }
            }
            Comes::Cut(codes) => {
                // Bytes that arrived together with the end may not have been forwarded at all.
                answer.map_or(Ok(()), |answer| is_prefix(ask, &answer, &peer.got))?;
                peer.end.ok_or("the client does not know that it is cut")?;
                logged(200, codes)
            }
            Comes::Gone(codes) => match &line[..] {
                [line] if codes.contains(&line.code) => match heard.whole {
                    1 if fault.name.contains("within the body") => Err("it was heard".to_owned()),
                    _ => Ok(()),
                },
                _ => Err(format!("the log is to have one of {codes:?}: {line:?}")),
            },
            Comes::Unheard(status, codes) => match &line[..] {
                _ if heard.times > 0 => Err("it was heard".to_owned()),
                _ if answer.is_some_and(|it| it.0.status() != status) => Err("not so".to_owned()),
                [] if warm.is_some() => Ok(()),
                [line] if codes.contains(&line.code) => Ok(()),
                _ => Err(format!("the log is to have one of {codes:?}: {line:?}")),
            },
            Comes::Fails(..) => unreachable!("it is known how it fails"),
        }
    }

    /// A request that can be retried is retried.
    fn what_comes(
        &self,
        client: &FaultClient,
        heard: ReceivedPart,
        status_seen: Option<u16>,
    ) -> Comes {
        let FaultClient { ask, fault, .. } = client;
        let Comes::Fails(failure, status, codes) = fault.comes else { return fault.comes };
        let stale = failure == RetryCause::Empty && heard.was_reused;
        let wanted = self.retries > 0 && self.retried.contains(&failure);
        let again = ask.is_idempotent() && (stale || wanted);
        // A retry while only a part of a long body had arrived may succeed.
        let is_lucky = status_seen == Some(200);
        let refused = status_seen == Some(503);
        match (failure, again) {
            (RetryCause::Unmet, _) if refused => Comes::Whole(503, &["SC"]),
            (_, true) if !ask.is_long() || is_lucky => Comes::Whole(200, &["--"]),
            _ => Comes::Whole(status, codes),
        }
    }

    /// No server could respond, since its connection was closed, or its side ended, while the
    /// request was on its way. It cannot be sent again: it may have been executed, or is no longer
    /// there.
    fn is_lost(&self, ask: &FaultRequest, heard: ReceivedPart, status_seen: Option<u16>) -> bool {
        (heard.times == 0 || heard.was_late)
            && ask.path == "/"
            && status_seen == Some(502)
            && !ask.is_repeatable()
    }

    fn is_good(&self, id: u32) -> bool {
        self.book.plans.get(&id).is_some_and(|(_, fault)| fault.is_none())
    }
}

/// The log's data of one request.
#[derive(Debug)]
struct LoggedRequest<'a> {
    id: u32,
    status: u16,
    code: &'a str,
}

impl<'a> LoggedRequest<'a> {
    fn of(line: &'a str) -> Self {
        let mut parts = line.split('|');
        let mut next = || parts.next().expect("as the format has it");
        let (id, status, code) = (next(), next(), next());
        let id = id.trim_matches(['{', '}']).parse().unwrap_or(0);
        Self { id, status: status.parse().unwrap_or(0), code }
    }

    fn is_lost(&self) -> bool {
        (self.status, self.code) == (502, "SH")
    }
}

/// A response, and its position.
type SeenMessage = (ReceivedMessage, usize);

fn is_right(
    ask: &FaultRequest,
    (answer, at): &SeenMessage,
    got: &[u8],
    status: u16,
) -> Result<(), String> {
    let expected = (status == 200).then(|| ask.expected());
    match answer {
        _ if answer.status() != status => Err(format!("{} for {status}", answer.status())),
        _ if answer.end.is_none() => Err(format!("the answer is not whole: {}", answer.head)),
        _ if expected.is_some_and(|it| it != answer.content(&got[*at..])) => {
            Err("another body".to_owned())
        }
        _ => Ok(()),
    }
}

/// A prefix of the right response that is visibly incomplete.
fn is_prefix(ask: &FaultRequest, (answer, at): &SeenMessage, got: &[u8]) -> Result<(), String> {
    let content = answer.content(&got[*at..]);
    match answer {
        _ if answer.status() != 200 => Err(format!("{} for 200", answer.status())),
        _ if answer.end.is_some() => Err("it seems to be whole".to_owned()),
        _ if ask.expected().starts_with(&content) => Ok(()),
        _ if content == b"abcde" => Ok(()), // of a chunk that is broken
        _ => Err("another body".to_owned()),
    }
}

/// Sends a request, and another one after its response.
fn request_steps(
    warm: Option<&FaultRequest>,
    ask: &FaultRequest,
    next: &FaultRequest,
) -> Vec<PeerStep> {
    let all: Vec<FaultRequest> = warm.into_iter().chain([ask, next]).cloned().collect();
    let so_far: Vec<&FaultRequest> = warm.into_iter().chain([ask]).collect();
    let is_head: Vec<bool> = so_far.iter().map(|ask| ask.method == "HEAD").collect();
    let go_on = move |got: &[u8]| match answers(got, &is_head).last() {
        Some((last, _)) if last.is_last() => vec![PeerStep::never()],
        _ => {
            let all: Vec<&FaultRequest> = all.iter().collect();
            vec![PeerStep::Send(all[all.len() - 1].whole()), until_answered(&all), PeerStep::Close]
        }
    };
    vec![PeerStep::Send(ask.whole()), until_answered(&so_far), PeerStep::Then(Box::new(go_on))]
}

/// Responses arrive behind the bytes received before.
fn shifted(steps: Vec<PeerStep>, before: usize) -> Vec<PeerStep> {
    if before == 0 {
        return steps;
    }
    let shift = |step| match step {
        PeerStep::Until(done) => PeerStep::Until(Box::new(move |got: &[u8]| {
            let first = ReceivedMessage::of(got, true).and_then(|first| first.end);
            first.is_some_and(|end| done(&got[end..]))
        })),
        other => other,
    };
    steps.into_iter().map(shift).collect()
}

/// An address without a listener.
fn configuration(
    random: &mut fastrand::Rng,
    origins: &[FaultyOrigin],
    gone: SocketAddr,
    retries: u32,
    retry_on: &str,
) -> String {
    let reuse = *random.choice(&["never", "safe", "aggressive", "always"]).unwrap();
    let manners =
        ["", "  option http-server-close\n", "  option redispatch 1\n", "  maxconn 500\n"];
    let manners = *random.choice(&manners).unwrap();
    let places = *random.choice(&["", " maxconn 3", " maxconn 20"]).unwrap();
    let address: Vec<SocketAddr> = origins.iter().map(FaultyOrigin::address).collect();
    format!(
        "defaults\n  mode http\n  log stdout format raw local0\n  timeout client 5s\n  \
         timeout http-request 4s\n  timeout http-keep-alive 30s\n  timeout server 10s\n  \
         timeout connect 2s\n  \
         timeout queue 1h\n  retries {retries}\n{manners}  http-reuse {reuse}\n\
         frontend fe\n  bind 127.0.0.1:0\n  capture request header X-Id len 10\n  \
         log-format \"%cp|%hr|%ST|%ts\"\n  use_backend %[path,field(2,/)] if !{{ path / }}\n  \
         default_backend be\n\
         backend be\n{retry_on}  server a {}{places}\n  server b {}{places}\n\
         backend closed\n  server c {}\n\
         backend reset\n  server d {}\n\
         backend refused\n  server e {gone}\n\
         backend half\n  retries 1\n  option redispatch 1\n  server f {gone}\n  server g {}\n",
        address[0], address[1], address[2], address[3], address[0],
    )
}

#[test]
fn a_thousand_faults_end_with_the_right_status_and_leave_nothing() {
    own_process(|| {
        let (mut count, mut lost, mut seed) = (0, 0, 0);
        while count < 1_000 {
            let before = descriptors();
            let mut round = Round::new(seed);
            for _ in 0..100 {
                let fault = &FAULTS[round.random.usize(0..FAULTS.len())];
                round.add(fault, None);
            }
            round.run(None);
            let (seen, met_an_end) = round.check(before);
            (count, lost, seed) = (count + seen, lost + met_an_end, seed + 1);
        }
        // The kernel may report an end later than the bytes before it, but hardly ever does.
        assert!(lost <= 20, "{lost} requests met the end of their connection");
    });
}

/// If a connection closes while a request is sent on it, the request is repeated, unless it may
/// have been executed.
#[test]
fn connections_that_end_as_they_are_used_cost_idempotent_requests_nothing() {
    own_process(|| {
        let (mut closed, mut lost) = (0, 0);
        for (seed, closes_late) in (0..8).flat_map(|seed| [(seed, false), (seed, true)]) {
            let before = descriptors();
            let mut round = Round { closes_late, ..Round::new(seed) };
            let race = Rc::new(Cell::new(0));
            for _ in 0..12 {
                round.add(&RACE, Some(&race));
            }
            round.run(Some(&race));
            for FaultClient { peer, warm, ask, .. } in &round.clients {
                let is_head: Vec<bool> =
                    warm.iter().chain([ask]).map(|it| it.method == "HEAD").collect();
                let status = answers(&peer.got, &is_head).get(1).map(|(it, _)| it.status());
                let times = round.book.heard.get(&ask.id).map_or(0, |heard| heard.times);
                let right = match status {
                    Some(200) => times == 1,
                    Some(502) => times == 0 && !ask.is_repeatable(),
                    _ => false,
                };
                assert!(right, "{}: {ask:?}: {status:?}, heard {times} times", round.what());
                lost += u32::from(status == Some(502));
            }
            closed += round.closed;
            round.clients.clear();
            round.check(before);
        }
        assert!(closed > 0, "connections end while requests are on their way");
        assert!(lost > 0, "some requests were sent on connections that ended");
    });
}

/// More turns than the proxy needs to receive a request and to send it on.
const SENDING_TURNS: u32 = 10;
