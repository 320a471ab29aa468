//! Failed connections and exhausted descriptors, with a driver in memory, so that each call fails
//! exactly as the test needs it.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use fulmar_client::{Client, Config, Error, Request, Tried, Waiting};
use fulmar_engine::{Action, DriverEvent, Engine, LookupId, ResolveError, SocketEvent, SocketId};
use fulmar_proto::Input;
use fulmar_sys as sys;
use fulmar_tests::in_every_loop;
use fulmar_tests::load::unused_port;
use fulmar_tests::scripted::ok;
use fulmar_tests::transfers::{ClientLoop, Staged, TransferRecorder};

/// A client without a driver.
struct UndrivenClient {
    client: Client<TransferRecorder>,
    now: Instant,
    connects: Vec<SocketId>,
    lookups: Vec<LookupId>,
    names: Vec<Box<str>>,
    abandoned: Vec<LookupId>,
    closed: Vec<SocketId>,
    /// On which a request has left.
    asked: Vec<SocketId>,
}

impl UndrivenClient {
    fn new(config: Config) -> Self {
        let now = sys::now();
        Self {
            client: Client::new(now, sys::wall_clock(), TransferRecorder::default(), config),
            now,
            connects: Vec::new(),
            lookups: Vec::new(),
            names: Vec::new(),
            abandoned: Vec::new(),
            closed: Vec::new(),
            asked: Vec::new(),
        }
    }

    /// Records the client's actions.
    fn act(&mut self) {
        while let Some(action) = self.client.poll_action() {
            match action {
                Action::Connect { socket, .. } => self.connects.push(socket),
                Action::Resolve { lookup, name } => {
                    self.lookups.push(lookup);
                    self.names.push(name);
                }
                Action::Abandon { lookup } => self.abandoned.push(lookup),
                Action::Close { socket, .. } => self.closed.push(socket),
                Action::Transmit { socket } => {
                    let size = self.client.poll_transmit(socket).map_or(0, |sent| {
                        let segments = sent.segments.iter().map(fulmar_proto::Segment::len);
                        sent.inline.len() as u64 + segments.sum::<u64>()
                    });
                    self.client.handle(self.now, SocketEvent::Sent(size).of(socket));
                    self.asked.push(socket);
                }
                _ => {}
            }
        }
    }

    fn start(&mut self, url: &str) -> fulmar_client::TransferId {
        let id = self.client.start(self.now, &Request::get(url).build().expect("a URL"));
        self.act();
        id
    }

    fn wait(&mut self, by: Duration) {
        self.now += by;
        self.client.handle(self.now, DriverEvent::Timeout);
        self.act();
    }

    fn fail(&mut self, errno: i32) {
        let socket = self.connects.pop().expect("a connection is asked for");
        self.client
            .handle(self.now, SocketEvent::Failed(io::Error::from_raw_os_error(errno)).of(socket));
        self.act();
    }

    fn answer(&mut self, socket: SocketId) {
        let mut bytes = BytesMut::from(&b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"[..]);
        self.client.handle(self.now, SocketEvent::Input(Input::all(&mut bytes, false)).of(socket));
        self.act();
    }
}

const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ENOBUFS: i32 = 105;
const ECONNREFUSED: i32 = 111;

/// Descriptors run out: waiting transfers continue to wait, nothing is retried in a loop, and the
/// client recovers.
#[test]
fn without_descriptors_transfers_wait() {
    [EMFILE, ENFILE, ENOBUFS, ENOMEM].into_iter().for_each(exhausted);
}

fn exhausted(errno: i32) {
    let mut alone = UndrivenClient::new(Config::default());
    let ids: Vec<_> = (0..5).map(|_| alone.start("http://127.0.0.1/")).collect();
    while !alone.connects.is_empty() {
        alone.fail(errno);
    }
    assert_eq!(alone.client.running(), 5, "nobody fails");
    assert!(alone.connects.is_empty(), "nothing is tried at once");
    let mut tries = 0;
    for _ in 0..20 {
        alone.wait(Duration::from_millis(50));
        tries += alone.connects.len();
        while !alone.connects.is_empty() {
            alone.fail(errno);
        }
    }
    assert!(tries > 0 && tries <= 5 * 20, "{tries} tries in a second");
    alone.wait(Duration::from_secs(1));
    while let Some(socket) = alone.connects.pop() {
        alone.client.handle(alone.now, SocketEvent::Connected.of(socket));
        alone.act();
    }
    while let Some(socket) = alone.asked.pop() {
        alone.answer(socket);
    }
    for id in ids {
        assert!(alone.client.application().ended(id).result.is_ok());
    }
}

/// Every address is attempted, in order and in time, and the error lists them all (RFC 8305).
#[test]
fn an_error_lists_every_attempted_address() {
    let mut alone = UndrivenClient::new(Config::default());
    let id = alone.start("http://name.example:81/");
    let lookup = alone.lookups.pop().expect("a name is asked for");
    assert_eq!(alone.names, ["name.example".into()]);
    let addresses: Vec<IpAddr> = (1..=3).map(|n| Ipv4Addr::new(10, 0, 0, n).into()).collect();
    alone.client.handle(alone.now, DriverEvent::Resolved(lookup, Ok(&addresses)));
    alone.act();
    assert_eq!(alone.connects.len(), 1);
    alone.wait(Duration::from_millis(250));
    assert_eq!(alone.connects.len(), 2, "the next one beside it");
    alone.fail(ECONNREFUSED);
    assert_eq!(alone.connects.len(), 2, "a refusal does not wait");
    alone.fail(ECONNREFUSED);
    alone.fail(ECONNREFUSED);
    let done = alone.client.application().ended(id);
    let Err(Error::Connect(error)) = &done.result else { panic!("{done:?}") };
    let mut tried: Vec<_> = error.tried.iter().map(|(tried, _)| tried.clone()).collect();
    tried.sort_by_key(Tried::to_string);
    let all = addresses.iter().map(|ip| Tried::Ip((*ip, 81).into())).collect::<Vec<_>>();
    assert_eq!(tried, all);
    assert!(error.to_string().contains("10.0.0.3:81"), "{error}");
    assert_eq!((alone.client.connections(), alone.client.origins()), (0, 0));
}

/// A thousand addresses are attempted one after the other, not all at once.
#[test]
fn a_thousand_addresses_are_not_a_thousand_connections() {
    let config = Config { connect_timeout: Some(Duration::from_secs(1)), ..Config::default() };
    let mut alone = UndrivenClient::new(config);
    let id = alone.start("http://name.example/");
    let addresses: Vec<IpAddr> =
        (0..1_000_u32).map(|n| Ipv4Addr::from(0x0a00_0000 + n).into()).collect();
    let lookup = alone.lookups.pop().unwrap();
    alone.client.handle(alone.now, DriverEvent::Resolved(lookup, Ok(&addresses)));
    alone.act();
    let mut most = 0;
    for _ in 0..2_000 {
        if alone.client.running() == 0 {
            break;
        }
        alone.wait(Duration::from_millis(250));
        most = most.max(alone.client.connections());
    }
    assert!(most <= 8, "{most} at a time");
    let done = alone.client.application().ended(id);
    assert!(matches!(done.result, Err(Error::Connect(_))), "{done:?}");
    assert_eq!(alone.client.connections(), 0);
}

/// No reply: the connect deadline ends the attempt and is named in the error.
#[test]
fn a_silent_address_ends_at_the_connect_deadline() {
    let config = Config { connect_timeout: Some(Duration::from_secs(3)), ..Config::default() };
    let mut alone = UndrivenClient::new(config);
    let id = alone.start("http://10.1.2.3/");
    alone.wait(Duration::from_millis(2_990));
    assert_eq!(alone.client.running(), 1);
    alone.wait(Duration::from_millis(20));
    let done = alone.client.application().ended(id);
    let Err(Error::Connect(error)) = &done.result else { panic!("{done:?}") };
    assert_eq!(error.tried[0].1.kind(), io::ErrorKind::TimedOut);
    assert!(error.to_string().contains("10.1.2.3:80"), "{error}");
    assert_eq!(alone.closed.len(), 1);
}

/// Every transfer that waits for a name receives the result; one query serves all.
#[test]
fn one_query_serves_all_waiting_transfers_and_fails_them_all() {
    let mut alone = UndrivenClient::new(Config::default());
    let ids: Vec<_> = (0..10).map(|_| alone.start("http://name.invalid/")).collect();
    assert_eq!(alone.lookups.len(), 1);
    let lookup = alone.lookups[0];
    alone.client.handle(alone.now, DriverEvent::Resolved(lookup, Err(ResolveError::NotFound)));
    for id in ids {
        let done = alone.client.application().ended(id);
        assert!(matches!(done.result, Err(Error::Resolve(ResolveError::NotFound))), "{done:?}");
    }
    // late news
    alone.client.handle(alone.now, DriverEvent::Resolved(lookup, Err(ResolveError::NotFound)));
    assert_eq!((alone.client.running(), alone.client.origins()), (0, 0));
}

/// A resolver that violates its contract with an empty list has found nothing.
#[test]
fn an_empty_list_of_addresses_is_an_error() {
    let mut alone = UndrivenClient::new(Config::default());
    let id = alone.start("http://name.example/");
    let lookup = alone.lookups[0];
    alone.client.handle(alone.now, DriverEvent::Resolved(lookup, Ok(&[])));
    alone.act();
    let done = alone.client.application().ended(id);
    assert!(matches!(done.result, Err(Error::Resolve(ResolveError::NoAddress))), "{done:?}");
    assert_eq!(alone.client.origins(), 0);
}

/// If no transfer waits for a name any more, the query is cancelled; a query without a reply is
/// cancelled at its deadline.
#[test]
fn a_query_is_cancelled_without_transfers_and_at_its_deadline() {
    let name_timeout = Some(Duration::from_secs(5));
    let mut alone = UndrivenClient::new(Config { name_timeout, ..Config::default() });
    let id = alone.start("http://name.example/");
    let now = alone.now;
    assert!(alone.client.with(now, |_, context| context.remove(id)));
    alone.act();
    assert_eq!(alone.abandoned, alone.lookups);
    let id = alone.start("http://name.example/");
    alone.wait(Duration::from_secs(5) + Duration::from_millis(2));
    let done = alone.client.application().ended(id);
    assert!(matches!(done.result, Err(Error::TimedOut(Waiting::Name))), "{done:?}");
    assert_eq!(alone.abandoned.len(), 2);
    assert_eq!(alone.client.origins(), 0);
}

/// Events of sockets that are closed, or never existed, are ignored.
#[test]
fn late_events_of_a_closed_socket_are_ignored() {
    let mut alone = UndrivenClient::new(Config::default());
    let id = alone.start("http://127.0.0.1/");
    let socket = alone.connects[0];
    let now = alone.now;
    alone.client.with(now, |_, context| context.remove(id));
    alone.client.handle(now, SocketEvent::Connected.of(socket));
    alone.act();
    alone.client.close_idle(now);
    alone.act();
    assert_eq!(alone.closed, [socket]);
    for socket in [socket, SocketId { index: 77, generation: 3 }] {
        let client = &mut alone.client;
        client.handle(now, SocketEvent::Connected.of(socket));
        client.handle(now, SocketEvent::Hangup.of(socket));
        client.handle(now, SocketEvent::Sent(10).of(socket));
        client.handle(now, SocketEvent::Failed(io::ErrorKind::ConnectionReset.into()).of(socket));
        let mut bytes = BytesMut::from(&b"HTTP/1.1 200 OK\r\n"[..]);
        client.handle(now, SocketEvent::Input(Input::all(&mut bytes, true)).of(socket));
        assert!(client.poll_transmit(socket).is_none());
        assert!(client.poll_passage(socket).is_none());
    }
    assert_eq!(alone.client.connections(), 0);
}

#[test]
fn a_refused_connection_is_reported_with_its_address() {
    fn check<L: ClientLoop>() {
        let mut staged =
            Staged::<L>::new(TransferRecorder::default(), Config::default(), |_| ok(b""));
        let (_holder, nobody) = unused_port();
        let request = Request::get(&format!("http://{nobody}/")).build().unwrap();
        let ids = [staged.start(&request), staged.start(&request)];
        staged.run();
        for id in ids {
            let done = staged.recorder().ended(id);
            let Err(Error::Connect(error)) = &done.result else { panic!("{done:?}") };
            assert_eq!(error.tried[0].0, Tried::Ip(nobody));
            assert_eq!(error.tried[0].1.kind(), io::ErrorKind::ConnectionRefused);
            assert!(error.to_string().contains(&nobody.to_string()), "{error}");
        }
        assert_eq!(staged.client.engine().connections(), 0);
    }
    in_every_loop!(check);
}
