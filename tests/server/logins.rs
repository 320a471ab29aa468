//! Users with hashed passwords: in virtual time, with hashes that the test delays, so that every
//! order of events is exact.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use fulmar_engine::sim::PeerId;
use fulmar_proto::Request;
use fulmar_semantics::auth::{
    AuthRequest as Asked, AuthSession, Credentials, Gate, GateOptions, Scheme, Users, challenges,
};
use fulmar_server::{Handler, HandlerApp, HandlerResult, Limits, Responder, ServerEngine, Stop};
use fulmar_tests::loops::LISTENER;
use fulmar_tests::process::PATIENCE;
use fulmar_tests::server_hand::ServerHand;
use fulmar_web::auth::{Guard, GuardOptions};
use fulmar_web::htpasswd::Htpasswd;

/// A password that is being hashed; the hash ends at a signal of the test.
struct Hashing {
    thread: ThreadId,
    password: String,
    go_on: SyncSender<()>,
}

/// Ann, whose password is `right`. A hash of `panic` panics.
struct SlowUsers {
    begun: Mutex<Sender<Hashing>>,
    remembered: Mutex<HashSet<String>>,
}

impl Users for SlowUsers {
    fn password(&self, _: &str) -> Option<Cow<'_, str>> {
        None
    }

    fn verify_at_once(&self, user: &str, password: &str) -> Option<bool> {
        let remembered = self.remembered.lock().unwrap();
        remembered.contains(&format!("{user}:{password}")).then_some(true)
    }

    fn verify(&self, user: &str, password: &str) -> bool {
        let (go_on, wait) = sync_channel(1);
        let hashing = Hashing { thread: thread::current().id(), password: password.into(), go_on };
        self.begun.lock().unwrap().send(hashing).unwrap();
        let _ = wait.recv(); // the test may be over
        assert_ne!(password, "panic", "a test of panics");
        let is_right = (user, password) == ("ann", "right");
        if is_right {
            self.remembered.lock().unwrap().insert(format!("{user}:{password}"));
        }
        is_right
    }
}

/// Responds to `/open` without a password, and to everything else with user and request body.
struct Private(Guard);

impl Handler for Private {
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        if request.target == b"/open" {
            return responder.text(200, "open");
        }
        let Some(user) = self.0.admit(responder, request)? else { return Ok(()) };
        responder.collect(64, move |responder, body| {
            responder.text(200, [user.as_bytes(), b": ", &body[..]].concat())
        })
    }
}

/// Signals the test that the server has a message.
struct MessageSignal(Mutex<Sender<()>>);

impl Wake for MessageSignal {
    fn wake(self: Arc<Self>) {
        let _ = self.0.lock().unwrap().send(());
    }
}

struct LoginBench {
    hand: ServerHand<HandlerApp<Private>>,
    begun: Receiver<Hashing>,
    woken: Receiver<()>,
}

fn options() -> GuardOptions {
    GuardOptions { threads: 1, ..GuardOptions::default() }
}

fn bench(options: GuardOptions) -> LoginBench {
    let (begun, receiver) = channel();
    let users = SlowUsers { begun: Mutex::new(begun), remembered: Mutex::default() };
    serve(GateOptions::basic("r"), users, options, receiver)
}

fn serve(
    gate: GateOptions,
    users: impl Users + Send + Sync + 'static,
    options: GuardOptions,
    begun: Receiver<Hashing>,
) -> LoginBench {
    let gate = Gate::new(gate, users, [7; 32]).unwrap();
    let guard = Guard::with_options(gate, options).unwrap();
    let (bell, woken) = channel();
    let hand = ServerHand::new(|now| {
        let app = HandlerApp::new(Private(guard), now, || std::time::UNIX_EPOCH);
        let mut engine = ServerEngine::new(now, app, Limits::default(), Stop::new());
        engine.add_listener(LISTENER, None);
        engine.mailbox().set_waker(Waker::from(Arc::new(MessageSignal(Mutex::new(bell)))));
        engine
    });
    LoginBench { hand, begun, woken }
}

fn basic(password: &str) -> String {
    let credentials = Credentials::password("ann", password).unwrap();
    let asked = challenges([&b"Basic realm=r"[..]]);
    let mut session = AuthSession::begin(&asked, &credentials, Scheme::Basic, [3; 16]).unwrap();
    let mut value = Vec::new();
    let request = Asked { method: b"PUT", target: b"/", body: None };
    session.authorize(request, &mut value).unwrap();
    String::from_utf8(value).unwrap()
}

impl LoginBench {
    fn send(&mut self, peer: &str, head: &str, body: &str) -> PeerId {
        let socket = self.hand.connect_from(peer).unwrap();
        let len = body.len();
        let request = format!("{head} HTTP/1.1\r\nHost: h\r\nContent-Length: {len}\r\n\r\n{body}");
        self.hand.send(socket, request);
        socket
    }

    /// A request with this password of Ann's.
    fn log_in(&mut self, peer: &str, password: &str) -> PeerId {
        let socket = self.hand.connect_from(peer).unwrap();
        let value = basic(password);
        let head = format!("PUT / HTTP/1.1\r\nHost: h\r\nAuthorization: {value}\r\n");
        self.hand.send(socket, format!("{head}Content-Length: 4\r\n\r\nbody"));
        socket
    }

    /// The status of the response on a connection; 0 for none.
    fn status(&mut self, socket: PeerId) -> u16 {
        let text = self.hand.peer(socket).text();
        text.split(' ').nth(1).map_or(0, |status| status.parse().unwrap())
    }

    fn field(&mut self, socket: PeerId, name: &str) -> Option<String> {
        let text = self.hand.peer(socket).text();
        let mut lines = text.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
    }

    /// The next hash that begins.
    fn next_hash(&self) -> Hashing {
        self.begun.recv_timeout(PATIENCE).expect("a hash begins")
    }

    /// Ends a hash; the responses of these connections follow.
    fn end(&mut self, hashing: &Hashing, sockets: &[PeerId]) {
        hashing.go_on.send(()).unwrap();
        self.await_responses(sockets);
    }

    fn await_responses(&mut self, sockets: &[PeerId]) {
        while sockets.iter().any(|socket| self.status(*socket) == 0) {
            self.woken.recv_timeout(PATIENCE).expect("a message comes");
            self.hand.wake();
        }
    }

    /// The response to a request with a hashed password.
    fn status_of(&mut self, peer: &str, password: &str) -> u16 {
        let socket = self.log_in(peer, password);
        if self.status(socket) == 0 {
            let hashing = self.next_hash();
            assert_eq!(hashing.password, password);
            self.end(&hashing, &[socket]);
        }
        self.status(socket)
    }
}

const PEER: &str = "203.0.113.1:1000";
const OTHER: &str = "203.0.113.2:1000";

#[test]
fn no_hash_runs_within_a_turn() {
    let mut bench = bench(options());
    let right = bench.log_in(PEER, "right");
    let wrong = bench.log_in(OTHER, "wrong");
    let hashing = bench.next_hash();
    assert_ne!(hashing.thread, thread::current().id(), "not on the event loop");
    // During the hash all other requests are served.
    let open = bench.send(OTHER, "GET /open", "");
    let anonymous = bench.send(OTHER, "GET /", "");
    assert_eq!([right, wrong, open, anonymous].map(|it| bench.status(it)), [0, 0, 200, 401]);
    bench.end(&hashing, &[right]);
    assert!(bench.hand.peer(right).text().ends_with("\r\n\r\nann: body"), "its body has waited");
    let hashing = bench.next_hash();
    bench.end(&hashing, &[wrong]);
    assert_eq!([right, wrong].map(|it| bench.status(it)), [200, 401]);
    assert!(bench.field(wrong, "WWW-Authenticate").unwrap().starts_with("Basic realm"));
    // The connection stays open, and the password is cached: no hash, no other thread.
    let head = format!("GET / HTTP/1.1\r\nHost: h\r\nAuthorization: {}\r\n\r\n", basic("right"));
    bench.hand.send(right, head);
    assert!(bench.hand.peer(right).text().ends_with("\r\n\r\nann: "));
    assert!(bench.begun.try_recv().is_err());
}

/// bcrypt itself; unknown users cost the same as known ones.
#[test]
fn bcrypt_is_hashed_elsewhere() {
    let hash = "$2y$04$xFX8CHbZyifNyiAQX6KyU.Vum8NhR.1t9RGLNso4HFLnbHHyCMOLy"; // secret
    for (name, password, status) in [("ann", "secret", 200), ("ann", "x", 401), ("bob", "x", 401)] {
        let users = Htpasswd::parse(&format!("{name}:{hash}")).unwrap();
        let (_, none) = channel();
        let mut bench = serve(GateOptions::basic("r"), users, options(), none);
        let socket = bench.log_in(PEER, password);
        assert_eq!(bench.status(socket), 0, "{name}: not within the turn");
        bench.await_responses(&[socket]);
        assert_eq!(bench.status(socket), status, "{name}");
    }
}

#[test]
fn ten_failures_a_minute_are_allowed_to_an_address() {
    let mut bench = bench(options());
    assert_eq!(bench.status_of(PEER, "right"), 200);
    for at in 0..10 {
        assert_eq!(bench.status_of(PEER, &format!("wrong{at}")), 401);
        bench.hand.sim.pass(Duration::from_secs(1));
    }
    let limited = bench.log_in(PEER, "wrong10");
    assert_eq!(bench.status(limited), 429);
    assert_eq!(bench.field(limited, "Retry-After").as_deref(), Some("50"));
    assert_eq!(bench.field(limited, "WWW-Authenticate"), None);
    assert_eq!(bench.status_of(OTHER, "wrong"), 401, "another address");
    let anonymous = bench.send(PEER, "GET /", "");
    assert_eq!(bench.status(anonymous), 401, "without a password nothing is tried");
    let remembered = bench.log_in(PEER, "right");
    assert_eq!(bench.status(remembered), 200, "at once, even if others fail from there");
    bench.hand.sim.pass(Duration::from_millis(49_500));
    let limited = bench.log_in(PEER, "wrong10");
    assert_eq!(bench.field(limited, "Retry-After").as_deref(), Some("1"));
    bench.hand.sim.pass(Duration::from_millis(500));
    assert_eq!(bench.status_of(PEER, "wrong10"), 401, "a minute after the first");
    assert!(bench.begun.try_recv().is_err(), "what was limited was not hashed");
}

#[test]
fn an_address_is_a_network_of_ipv6() {
    let mut bench = bench(options());
    for at in 0..10 {
        let peer = format!("[2001:db8::{at}]:1");
        assert_eq!(bench.status_of(&peer, &format!("wrong{at}")), 401);
    }
    assert_eq!(bench.status_of("[2001:db8::ffff:1:2:3]:1", "wrong"), 429, "the same /64");
    assert_eq!(bench.status_of("[2001:db8:0:1::1]:1", "wrong"), 401, "the next one");
    assert_eq!(bench.status_of("[::ffff:192.0.2.1]:1", "wrong"), 401, "IPv4");
}

#[test]
fn parallel_attempts_are_limited_before_they_are_hashed() {
    let mut bench = bench(options());
    let tried: Vec<_> = (0..12).map(|at| bench.log_in(PEER, &format!("wrong{at}"))).collect();
    let statuses: Vec<_> = tried.iter().map(|socket| bench.status(*socket)).collect();
    assert_eq!(statuses, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 429, 429]);
    for socket in &tried[..10] {
        let hashing = bench.next_hash();
        bench.end(&hashing, &[*socket]);
        assert_eq!(bench.status(*socket), 401);
    }
}

/// A browser opens several connections, and a downloader many, before the first is admitted.
#[test]
fn requests_with_the_same_password_share_a_hash() {
    let mut bench = bench(options());
    let all: Vec<_> = (0..40).map(|_| bench.log_in(PEER, "right")).collect();
    let hashing = bench.next_hash();
    let late = bench.log_in(PEER, "right");
    bench.end(&hashing, &all);
    bench.await_responses(&[late]);
    assert!(all.iter().all(|socket| bench.status(*socket) == 200));
    assert_eq!(bench.status(late), 200);
    assert!(bench.begun.try_recv().is_err(), "one hash for all");
    for at in 0..10 {
        assert_eq!(bench.status_of(PEER, &format!("wrong{at}")), 401, "none was a failure");
    }
}

#[test]
fn a_full_queue_is_answered_503_and_clients_that_left_make_room() {
    let mut bench = bench(GuardOptions { hashes_max: 2, ..options() });
    let first = bench.log_in(PEER, "0");
    let running = bench.next_hash();
    let queued = [bench.log_in(PEER, "1"), bench.log_in(PEER, "2")];
    let refused = bench.log_in(OTHER, "3");
    assert_eq!(bench.status(refused), 503);
    assert_eq!(bench.field(refused, "Retry-After").as_deref(), Some("1"));
    let shared = bench.log_in(OTHER, "2");
    assert_eq!(bench.status(shared), 0, "it waits for a hash that is queued already");
    bench.hand.fail(queued[0]);
    let taken = bench.log_in(OTHER, "4");
    assert_eq!(bench.status(taken), 0, "there is room again");
    bench.end(&running, &[first]);
    let second = bench.next_hash();
    assert_eq!(second.password, "2", "a job without clients is not hashed");
    bench.end(&second, &[queued[1], shared]);
    let third = bench.next_hash();
    assert_eq!(third.password, "4");
    bench.end(&third, &[taken]);
    assert_eq!([first, queued[1], shared, taken].map(|it| bench.status(it)), [401; 4]);
    // The attempt of the client that left does not count: two failures, so eight are left.
    for at in 0..8 {
        assert_eq!(bench.status_of(PEER, &format!("wrong{at}")), 401);
    }
    assert_eq!(bench.status_of(PEER, "wrong"), 429);
}

#[test]
fn requests_that_wait_are_bounded() {
    let mut bench = bench(GuardOptions { requests_max: 3, ..options() });
    let waiting = [(); 3].map(|()| bench.log_in(PEER, "right"));
    let refused = bench.log_in(PEER, "right");
    assert_eq!(bench.status(refused), 503);
    let hashing = bench.next_hash();
    bench.end(&hashing, &waiting);
    assert_eq!(waiting.map(|it| bench.status(it)), [200; 3]);
}

#[test]
fn a_client_that_left_while_its_hash_ran_is_not_answered() {
    let mut bench = bench(options());
    let left = bench.log_in(PEER, "right");
    let hashing = bench.next_hash();
    bench.hand.fail(left);
    let other = bench.log_in(PEER, "right");
    bench.end(&hashing, &[other]);
    assert_eq!([left, other].map(|it| bench.status(it)), [0, 200]);
}

#[test]
fn a_panic_in_a_check_ends_its_request_only() {
    let mut bench = bench(options());
    assert_eq!(bench.status_of(PEER, "panic"), 500);
    assert_eq!(bench.status_of(PEER, "right"), 200, "the thread goes on");
}

/// Also without hashes: attempts with passwords and proofs are limited.
#[test]
fn plain_passwords_are_limited_and_known_clients_are_not() {
    let users = |user: &str| (user == "ann").then(|| "right".to_owned());
    let (_, none) = channel();
    let mut bench = serve(GateOptions::basic("r"), users, options(), none);
    let status = |bench: &mut LoginBench, peer, password: &str| {
        let socket = bench.log_in(peer, password);
        bench.status(socket)
    };
    assert_eq!(status(&mut bench, PEER, "right"), 200);
    for at in 0..10 {
        let network = if at % 2 == 0 { PEER } else { OTHER };
        assert_eq!(status(&mut bench, network, &format!("wrong{at}")), 401);
    }
    for at in 0..5 {
        assert_eq!(status(&mut bench, PEER, &format!("wrong{at}")), 401);
    }
    assert_eq!(status(&mut bench, PEER, "wrong"), 429);
    assert_eq!(status(&mut bench, PEER, "right"), 200, "it was right before");
    let (_, none) = channel();
    let mut fresh = serve(GateOptions::basic("r"), users, options(), none);
    for at in 0..10 {
        assert_eq!(status(&mut fresh, PEER, &format!("wrong{at}")), 401);
    }
    assert_eq!(
        status(&mut fresh, PEER, "right"),
        429,
        "the status does not depend on the password"
    );
    assert_eq!(status(&mut fresh, OTHER, "right"), 200);
    assert_eq!(status(&mut fresh, PEER, "right"), 200, "known from elsewhere");
}

#[test]
fn digest_is_limited_and_a_nonce_in_use_is_not() {
    let users = |user: &str| (user == "ann").then(|| "right".to_owned());
    let (_, none) = channel();
    let mut bench = serve(GateOptions::digest("r"), users, options(), none);
    let challenge = |bench: &mut LoginBench| {
        let socket = bench.send(OTHER, "GET /", "");
        bench.field(socket, "WWW-Authenticate").unwrap()
    };
    let begin = |bench: &mut LoginBench, password: &str| {
        let asked = challenge(bench);
        let credentials = Credentials::password("ann", password).unwrap();
        AuthSession::begin(&challenges([asked.as_bytes()]), &credentials, Scheme::Basic, [3; 16])
            .unwrap()
    };
    let get = |bench: &mut LoginBench, session: &mut AuthSession| {
        let mut value = Vec::new();
        let asked = Asked { method: b"GET", target: b"/", body: None };
        session.authorize(asked, &mut value).unwrap();
        let value = String::from_utf8(value).unwrap();
        let socket = bench.hand.connect_from(PEER).unwrap();
        let head = format!("GET / HTTP/1.1\r\nHost: h\r\nAuthorization: {value}\r\n\r\n");
        bench.hand.send(socket, head);
        bench.status(socket)
    };
    let mut known = begin(&mut bench, "right");
    assert_eq!(get(&mut bench, &mut known), 200);
    for _ in 0..10 {
        let mut wrong = begin(&mut bench, "wrong");
        assert_eq!(get(&mut bench, &mut wrong), 401);
    }
    let [mut wrong, mut right] = ["wrong", "right"].map(|password| begin(&mut bench, password));
    assert_eq!(get(&mut bench, &mut wrong), 429);
    assert_eq!(get(&mut bench, &mut right), 429, "with a nonce that was never used");
    assert_eq!(get(&mut bench, &mut known), 200, "with one that was");
}
