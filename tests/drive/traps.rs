//! Traps of event-driven HTTP, each under our epoll and in an application's loop of every kind,
//! at full speed and byte by byte.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use fulmar_engine::{
    Accepted, Action, CloseKind, ConnectionEvent, Connections, DriverEvent, End, Endpoint, Engine,
    Handler, Limit, SocketEvent, SocketId, Timeouts,
};
use fulmar_proto::{
    BodyLen, Connection, Event, Headers, Response, Server, ServerConnection, Transmit,
};
use fulmar_server::{Limits, ServerEngine};
use fulmar_sys as sys;
use fulmar_tests::app::{App, server};
use fulmar_tests::loops::{AppLoop, LevelTriggered, Loop, client, turn_while};
use fulmar_tests::tests_in_every_loop;

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n")
}

/// One complete response with a Content-Length: its body.
fn answer(stream: &mut TcpStream) -> Vec<u8> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a whole head");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("heads are text");
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.expect("a length").parse().expect("a number")];
    stream.read_exact(&mut body).expect("a whole body");
    body
}

/// Trap 3: the descriptor of a connection that is closed while its event waits in the same batch.
fn a_stale_event_is_dropped<L: Loop<Engine = ClosingEngine>>() {
    let (mut driver, address) = L::start(ClosingEngine::new());
    let (mut first, mut second) = (client(address), client(address));
    driver.turn_until(|driver| driver.engine().connections.len() == 2);
    first.write_all(get("/").as_bytes()).expect("room");
    second.write_all(get("/").as_bytes()).expect("room");
    driver.turn_until(|driver| driver.engine().served == 1);
    assert_eq!(driver.engine().gone, 0, "closed by us, so nobody is told");
    let _third = client(address);
    driver.turn_until(|driver| driver.engine().connections.len() == 2);
    for _ in 0..5 {
        driver.turn(Duration::from_millis(1));
    }
    assert_eq!(driver.engine().served, 1, "the new tenant did not get the old one's bytes");
    let survivor = if driver.engine().victim_was_first { second } else { first };
    let start = turn_while(&mut driver, move || {
        let mut start = [0; 12];
        (&survivor).read_exact(&mut start).expect("the survivor is answered");
        start
    });
    assert_eq!(&start, b"HTTP/1.1 204");
}

/// An engine that closes every other connection when one of them speaks.
#[derive(Debug)]
struct ClosingEngine {
    connections: Connections<ServerConnection, ()>,
    served: u32,
    gone: u32,
    sockets: Vec<SocketId>,
    victim_was_first: bool,
}

#[derive(Debug, Default)]
struct ResponseCounter {
    served: u32,
    gone: u32,
}

impl Handler<ServerConnection, ()> for ResponseCounter {
    fn handle(
        &mut self,
        _: Instant,
        _: SocketId,
        (connection, ()): (&mut ServerConnection, &mut ()),
        event: ConnectionEvent<'_, Server>,
    ) {
        if let ConnectionEvent::Event(Event::Head { stream, .. }) = event {
            self.served += 1;
            let head = Response::new(204, Headers::EMPTY);
            connection.send_head(stream, head, BodyLen::Empty).expect("the first answer");
            connection.send_end(stream, Headers::EMPTY).expect("it is complete");
        }
    }

    fn handle_closed(&mut self, _: Instant, _: SocketId, (): (), _: End) {
        self.gone += 1;
    }
}

impl ClosingEngine {
    fn new() -> Self {
        let connections = Connections::new(sys::now(), Timeouts::default(), 0, 1);
        Self { connections, served: 0, gone: 0, sockets: Vec::new(), victim_was_first: false }
    }
}

impl Engine for ClosingEngine {
    fn accept(&mut self, now: Instant, _: Accepted) -> Option<SocketId> {
        let (connection, mut handler) = (ServerConnection::default(), ResponseCounter::default());
        let socket = self.connections.insert(now, None, connection, (), &mut handler);
        self.sockets.push(socket);
        Some(socket)
    }

    fn handle(&mut self, now: Instant, event: DriverEvent<'_>) {
        let mut handler = ResponseCounter::default();
        let socket = match event {
            DriverEvent::Socket(socket, event) => {
                self.connections.handle(now, socket, event, &mut handler);
                Some(socket)
            }
            DriverEvent::Timeout => {
                self.connections.handle_timeout(now, &mut handler);
                None
            }
            _ => None,
        };
        self.served += handler.served;
        self.gone += handler.gone;
        if handler.served > 0 {
            for (at, other) in self.sockets.iter().enumerate() {
                if Some(*other) != socket && self.connections.close(*other).is_some() {
                    self.victim_was_first = at == 0;
                }
            }
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.connections.poll_action()
    }

    fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>> {
        self.connections.poll_transmit(socket)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.connections.poll_timeout()
    }
}

/// A slot that the engine freed between two turns is reused only after its `Close`.
fn a_slot_in_use_is_not_reused<L: Loop<Engine = ClosingEngine>>() {
    let (mut driver, address) = L::start(ClosingEngine::new());
    let _first = client(address);
    driver.turn_until(|driver| driver.engine().connections.len() == 1);
    let old = driver.engine().sockets[0];
    driver.engine().connections.close(old).expect("it is there");
    let mut second = client(address);
    driver.turn_until(|driver| driver.engine().connections.len() == 1);
    let new = driver.engine().sockets[1];
    assert!(new.index == old.index && new != old, "the same place, another tenant");
    second.write_all(get("/").as_bytes()).expect("room");
    driver.turn_until(|driver| driver.engine().served == 1);
}

/// Trap 6: two requests in one segment, then silence; the second waits above the descriptor.
fn bytes_above_the_descriptor_are_not_forgotten<L: Loop<Engine = ServerEngine<App>>>() {
    let (mut driver, address) = L::start(server(Limits::default()));
    let mut stream = client(address);
    let both = get("/delay/20") + &get("/bytes/3");
    stream.write_all(both.as_bytes()).expect("room");
    let bodies = turn_while(&mut driver, move || (answer(&mut stream), answer(&mut stream)));
    assert_eq!(bodies, (b"delayed\n".to_vec(), b"012".to_vec()));
}

/// Trap 7: byte by byte in, and out through a window that is always full.
fn any_pace_gives_the_same_bytes<L: Loop<Engine = ServerEngine<App>>>() {
    let (mut driver, address) = L::start(server(Limits::default()));
    let len = 20_000_000 / L::SLOWER;
    let body = turn_while(&mut driver, move || {
        let mut stream = client(address);
        stream.set_nodelay(true).expect("a TCP socket");
        for byte in get(&format!("/bytes/{len}")).bytes() {
            stream.write_all(&[byte]).expect("room");
        }
        answer(&mut stream)
    });
    assert_eq!(body.len(), len);
    let expected = |at: usize| {
        b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-\n"[at % 65_536 % 64]
    };
    assert!(body.iter().enumerate().all(|(at, byte)| *byte == expected(at)));
}

/// Trap 7, the other way: an echo, with both directions full at times.
fn an_echo_survives_back_pressure<L: Loop<Engine = ServerEngine<App>>>() {
    let (mut driver, address) = L::start(server(Limits::default()));
    let len = 8_000_000 / u32::try_from(L::SLOWER).expect("some");
    let sent: Vec<u8> =
        (0..len).flat_map(|n| n.to_be_bytes().into_iter().skip(1).take(1)).collect();
    let expected = sent.clone();
    let body = turn_while(&mut driver, move || {
        let stream = client(address);
        let mut writer = stream.try_clone().expect("a descriptor");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let len = sent.len();
                let head =
                    format!("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: {len}\r\n\r\n");
                writer.write_all(head.as_bytes()).expect("room");
                writer.write_all(&sent).expect("room, in time");
            });
            let mut reader = stream;
            answer(&mut reader)
        })
    });
    assert!(body == expected, "every byte came back in its place");
}

/// Trap 8 and 9: the peer closes or resets while a response is pending: no spinning.
fn a_peer_that_left_causes_no_spinning<L: Loop<Engine = ServerEngine<App>>>(reset: bool) {
    let (mut driver, address) = L::start(server(Limits::default()));
    let mut stream = client(address);
    stream.write_all(get("/idle").as_bytes()).expect("room");
    driver.turn_until(|driver| driver.engine().application().requests() == 1);
    let before = driver.stats();
    if reset {
        // Unread bytes turn a close into a reset.
        stream.write_all(get("/bytes/1").as_bytes()).expect("room");
        sys_reset(stream);
        driver.turn_until(|driver| driver.engine().connections() == 0);
    } else {
        stream.shutdown(Shutdown::Write).expect("open");
        let start = sys::now();
        while sys::now() - start < Duration::from_millis(200) {
            driver.turn(Duration::from_millis(50));
        }
    }
    let events = driver.stats().events - before.events;
    assert!(events <= 3, "{events} wake-ups for one departure");
}

/// A close that the other side sees as a reset: with SO_LINGER 0.
fn sys_reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket");
}

/// A half-close does not end the connection: the response is still pending.
fn a_half_closed_peer_is_answered<L: Loop<Engine = ServerEngine<App>>>() {
    let (mut driver, address) = L::start(server(Limits::default()));
    let mut stream = client(address);
    stream.write_all(get("/delay/30").as_bytes()).expect("room");
    stream.shutdown(Shutdown::Write).expect("open");
    let rest = turn_while(&mut driver, move || {
        let body = answer(&mut stream);
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("then the end");
        (body, rest)
    });
    assert_eq!(rest, (b"delayed\n".to_vec(), Vec::new()));
}

/// Trap 11: the end of every opened connection is reported exactly once, whatever the cause.
fn every_connection_ends_exactly_once<L: Loop<Engine = ServerEngine<App>>>() {
    let (mut driver, address) = L::start(server(Limits::default()));
    let clients: Vec<_> = (0..60).map(|_| client(address)).collect();
    driver.turn_until(|driver| driver.engine().connections() == 60);
    for (at, mut stream) in clients.into_iter().enumerate() {
        match at % 4 {
            0 => {}
            1 => stream.write_all(get("/bytes/10").as_bytes()).expect("room"),
            2 => stream.write_all(b"GET / HTT").expect("room"),
            _ => stream.write_all(b"nonsense\r\n\r\n").expect("room"),
        }
        driver.turn(Duration::ZERO);
    }
    driver.turn_until(|driver| driver.engine().connections() == 0);
    assert_eq!(driver.engine().application().handler().gone(), 60);
}

/// Trap 15: no exchange waits for a delayed acknowledgement (40 ms on Linux).
fn nothing_waits_for_an_acknowledgement<L: Loop<Engine = ServerEngine<App>>>() {
    let (mut driver, address) = L::start(server(Limits::default()));
    let times = turn_while(&mut driver, move || {
        let mut stream = client(address);
        let mut times = [const { Vec::new() }; 2]; // of each kind
        for n in 0..60 {
            let start = sys::now();
            // Head and body in two writes, as simple clients do.
            let head = "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\n";
            let (first, second) = if n % 2 == 0 { (head, "abc") } else { ("", "") };
            let request = get("/bytes/3000");
            if first.is_empty() {
                stream.write_all(request.as_bytes()).expect("room");
            } else {
                stream.set_nodelay(true).expect("a TCP socket");
                stream.write_all(first.as_bytes()).expect("room");
                stream.write_all(second.as_bytes()).expect("room");
            }
            answer(&mut stream);
            times[n % 2].push(sys::now() - start);
        }
        times
    });
    for mut times in times {
        times.sort_unstable();
        let median = times[times.len() / 2];
        assert!(median < Duration::from_millis(35), "the median exchange took {median:?}");
    }
}

/// Deadlines hold in both kinds of loops, and progress does not extend that of a slow head. The
/// client gets 408.
fn a_slow_head_times_out<L: Loop<Engine = ServerEngine<App>>>() {
    let limits = Limits { head_timeout: Duration::from_millis(60), ..Limits::default() };
    let (mut driver, address) = L::start(server(limits));
    let mut stream = client(address);
    stream.write_all(b"GET / HTTP/1.1\r\n").expect("room");
    let rest = turn_while(&mut driver, move || {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("the end");
        rest
    });
    driver.turn_until(|driver| driver.engine().application().handler().gone() == 1);
    assert!(rest.starts_with(b"HTTP/1.1 408 "), "{rest:?}");
}

tests_in_every_loop!(
    at_any_pace: [
        a_stale_event_is_dropped,
        a_slot_in_use_is_not_reused,
        bytes_above_the_descriptor_are_not_forgotten,
        any_pace_gives_the_same_bytes,
        an_echo_survives_back_pressure,
        a_peer_that_ends_is_waited_for,
        a_peer_that_resets_is_noticed,
        a_half_closed_peer_is_answered,
        every_connection_ends_exactly_once,
        a_slow_head_times_out,
        an_abandoned_exchange_ends,
        an_end_behind_read_bytes_is_reported,
        a_reset_behind_read_bytes_is_reported,
        a_connect_between_two_turns_is_established,
    ],
    at_full_speed: [nothing_waits_for_an_acknowledgement],
);

fn a_peer_that_ends_is_waited_for<L: Loop<Engine = ServerEngine<App>>>() {
    a_peer_that_left_causes_no_spinning::<L>(false);
}

fn a_peer_that_resets_is_noticed<L: Loop<Engine = ServerEngine<App>>>() {
    a_peer_that_left_causes_no_spinning::<L>(true);
}

/// A client that has gone while a response was pending does not keep its descriptor for ever.
fn an_abandoned_exchange_ends<L: Loop<Engine = ServerEngine<App>>>() {
    let abandoned_timeout = Duration::from_millis(60);
    let limits = Limits { abandoned_timeout, ..Limits::default() };
    let (mut driver, address) = L::start(server(limits));
    let (mut patient, mut gone) = (client(address), client(address));
    patient.write_all(get("/idle").as_bytes()).expect("room");
    gone.write_all(get("/idle").as_bytes()).expect("room");
    driver.turn_until(|driver| driver.engine().application().requests() == 2);
    drop(gone);
    driver.turn_until(|driver| driver.engine().application().handler().gone() == 1);
    assert_eq!(driver.engine().connections(), 1, "who waits may wait");
}

fn an_end_behind_read_bytes_is_reported<L: Loop<Engine = ReadOnceEngine>>() {
    end_is_noticed::<L>(false);
}

fn a_reset_behind_read_bytes_is_reported<L: Loop<Engine = ReadOnceEngine>>() {
    end_is_noticed::<L>(true);
}

/// An engine that stops reading after the first bytes receives the end or the reset that follows
/// them, also behind unread bytes: there is no other edge.
fn end_is_noticed<L: Loop<Engine = ReadOnceEngine>>(reset: bool) {
    for receive_max in [4, 64 * 1024] {
        let (mut driver, address) =
            L::start(ReadOnceEngine { receive_max, ..ReadOnceEngine::default() });
        let mut stream = client(address);
        driver.turn_until(|driver| driver.engine().sockets == 1); // it is registered from now on
        stream.write_all(get("/").as_bytes()).expect("room");
        match reset {
            true => sys_reset(stream.try_clone().expect("a descriptor")),
            false => stream.shutdown(Shutdown::Write).expect("open"),
        }
        let _half_closed = (!reset).then_some(stream);
        driver.turn_until(|driver| match reset {
            true => !driver.engine().failed.is_empty(),
            false => driver.engine().ended > 0,
        });
        let engine = driver.engine();
        assert!(engine.heard <= receive_max, "it is not read from any more");
        assert_eq!((engine.ended, engine.failed.len()), if reset { (0, 1) } else { (1, 0) });
    }
}

/// A connection that is opened between two turns, or in reaction to a send, is established, also if
/// nothing is sent on it.
fn a_connect_between_two_turns_is_established<L: Loop<Engine = ReadOnceEngine>>() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let to = Some(listener.local_addr().expect("bound"));
    let (mut driver, _) =
        L::start(ReadOnceEngine { to, receive_max: 1, ..ReadOnceEngine::default() });
    for speaks in [false, true] {
        let first = driver.with(|engine, _| engine.connect(speaks));
        let follows = usize::from(speaks); // another one, which is opened in reaction to the send
        driver.turn_until(|driver| driver.engine().connected.len() == 1 + follows);
        let connected = std::mem::take(&mut driver.engine().connected);
        assert!(connected.contains(&first), "{connected:?}");
        (0..=follows).for_each(|_| drop(listener.accept().expect("it has connected")));
    }
}

/// An engine that reads once from each connection, and never again; and that connects.
#[derive(Debug, Default)]
struct ReadOnceEngine {
    receive_max: usize,
    to: Option<SocketAddr>,
    heard: usize,
    ended: u32,
    failed: Vec<ErrorKind>,
    connected: Vec<SocketId>,
    sockets: u32,
    word: Option<SocketId>, // where one byte is to be sent
    actions: VecDeque<Action>,
}

impl ReadOnceEngine {
    fn name(&mut self) -> SocketId {
        self.sockets += 1;
        SocketId { index: self.sockets - 1, generation: 0 }
    }

    fn connect(&mut self, speaks: bool) -> SocketId {
        let socket = self.name();
        let endpoint = Box::new(Endpoint::to(self.to.expect("an address")));
        self.actions.push_back(Action::Connect { socket, endpoint });
        self.word = speaks.then_some(socket);
        socket
    }
}

impl Engine for ReadOnceEngine {
    const SENDS_EARLY: bool = true;

    fn accept(&mut self, _: Instant, _: Accepted) -> Option<SocketId> {
        Some(self.name())
    }

    fn handle(&mut self, _: Instant, event: DriverEvent<'_>) {
        let DriverEvent::Socket(socket, event) = event else { return };
        match event {
            SocketEvent::Connected => self.connected.push(socket),
            SocketEvent::Input(mut input) if self.to.is_some() => input.clear(),
            SocketEvent::Input(mut input) => {
                self.heard += input.len();
                self.ended += u32::from(input.has_eof());
                input.clear();
                self.actions.push_back(Action::Read { socket, on: false });
            }
            SocketEvent::Hangup => self.ended += 1,
            SocketEvent::Sent(bytes) => {
                if bytes > 0 && self.word.take_if(|word| *word == socket).is_some() {
                    self.connect(false);
                }
            }
            SocketEvent::Failed(error) => {
                self.failed.push(error.kind());
                self.actions.push_back(Action::Close { socket, kind: CloseKind::Normal });
            }
            SocketEvent::Unread => {} // it reads once
            event => panic!("unexpected: {event:?}"),
        }
    }

    fn limit(&self, of: Limit) -> usize {
        match of {
            Limit::Receive(_) => self.receive_max,
            of => of.default_value(),
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>> {
        let word = self.word.filter(|word| *word == socket);
        word.map(|_| Transmit::new(b"x", &[]))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// Everything that was watched is forgotten, once, in order: the trace balances.
#[test]
fn changes_balance_and_are_fused() {
    let (mut driver, address) = AppLoop::<_, LevelTriggered>::start(server(Limits::default()));
    let listener_watches = driver.changes.len();
    assert_eq!(listener_watches, 1);
    let mut stream = client(address);
    for _ in 0..10 {
        stream.write_all(get("/bytes/10").as_bytes()).expect("room");
        let before = driver.changes.len();
        driver.turn_until(|driver| driver.stats().events > 0 && driver.engine().connections() == 1);
        turn_while(&mut driver, || answer(&mut stream));
        let watches = driver.changes[before..]
            .iter()
            .filter(|change| matches!(change, fulmar_drive::Change::Watch { .. }))
            .count();
        assert!(watches <= 1, "a keep-alive exchange changes no interest");
    }
    drop(stream);
    driver.turn_until(|driver| driver.engine().connections() == 0);
    driver.turn(Duration::from_millis(1));
    assert_eq!(driver.watched.len(), 1, "only the listener is left");
}
