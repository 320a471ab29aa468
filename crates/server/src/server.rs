//! The server engine: accepted connections, an application, limits, and a graceful stop.

use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fulmar_engine::{
    Accepted, Action, ConnectionEvent, Connections, DriverEvent, End, Engine, Exchange, Handler,
    Limit, ListenerId, SocketId, Stop, Timeouts,
};
use fulmar_proto::h2::{H2, SharedHttp2Limits};
use fulmar_proto::{
    BodyLen, Connection, Event, Headers, Reset, Response, Server, ServerConnection, StreamId,
    Transmit,
};

use crate::address_counts::{AddressCounts, PeerNetwork};
use crate::application::{ExchangeContext, ServerApp};
use crate::limits::{Limits, Shares};
use crate::listener::{Layers, ServerListener};
use crate::mailbox::Mailbox;
use crate::panics::{Panic, catch};
use crate::proxied;

/// A server, which a reactor drives.
#[derive(Debug)]
pub struct ServerEngine<A: ServerApp> {
    connections: Connections<ServerConnection, Option<A::Data>>,
    app: GuardedApp<A>,
    shares: Shares,
    http2: SharedHttp2Limits,
    listeners: Vec<ServerListener>,
    accepting: bool,
    stop: Stop,
    ending: Option<Instant>, // the deadline of a graceful stop
    first_request_deadline: Option<Instant>, // the deadline of first requests after a stop
    actions: VecDeque<Action>,
    accept_failures: u64,
    cut: u64,
    mailbox: Mailbox<A::Message>,
    messages: Vec<(Exchange, A::Message)>, // empty between two wake-ups
}

impl<A: ServerApp> ServerEngine<A> {
    /// A server for `application`. It ends when `stop` is set.
    ///
    /// # Panics
    /// A limit of HTTP/2 is out of its range.
    pub fn new(now: Instant, mut application: A, limits: Limits, stop: Stop) -> Self {
        let mailbox = Mailbox::new();
        application.start(mailbox.clone());
        Self {
            connections: Connections::new(now, limits.timeouts(), 0, 1),
            app: GuardedApp {
                application,
                timers: Vec::new(),
                addresses: AddressCounts::default(),
                limits,
                refused: 0,
                ending: false,
                first_panic: None,
                unreported: RefCell::default(),
            },
            shares: limits.shares(),
            http2: SharedHttp2Limits::new(limits.http2),
            listeners: Vec::new(),
            accepting: true,
            stop,
            ending: None,
            first_request_deadline: None,
            actions: VecDeque::new(),
            accept_failures: 0,
            cut: 0,
            mailbox,
            messages: Vec::new(),
        }
    }

    /// The application.
    pub fn application(&self) -> &A {
        &self.app.application
    }

    /// The application, mutable.
    pub fn application_mut(&mut self) -> &mut A {
        &mut self.app.application
    }

    /// Accepts connections from `listener`; `layers` makes their layers, if there are any. The
    /// engine pauses and closes the listener according to its limits and its end.
    pub fn add_listener(&mut self, id: ListenerId, layers: Option<Layers>) {
        self.listeners.push(ServerListener { id, layers });
    }

    /// Accepts no more connections from `listener`, and closes it; open connections continue. The
    /// queue of the kernel remains if another descriptor of the socket is open. False if `id` is
    /// unknown, or was removed before.
    pub fn remove_listener(&mut self, id: ListenerId) -> bool {
        let Some(at) = self.listeners.iter().position(|known| known.id == id) else { return false };
        self.listeners.remove(at);
        self.actions.push_back(Action::Unlisten { listener: id });
        true
    }

    /// Sets the timeouts of one connection, in place of those of its [`Limits`], until it closes or
    /// others are set. `None` is no timeout. [`Limits::timeouts`] returns the values to start from.
    /// The timeout of the current phase counts from the beginning of the phase. A closed connection
    /// is ignored. The application cannot call it within an event; the code that runs the driver
    /// can, between two turns.
    pub fn set_timeouts(&mut self, socket: SocketId, timeouts: Timeouts) {
        self.connections.set_own_timeouts(socket, timeouts);
    }

    /// The mailbox for messages of other threads to the application. The driver of this server sets
    /// its waker.
    pub fn mailbox(&self) -> Mailbox<A::Message> {
        self.mailbox.clone()
    }

    /// The number of open connections.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// How often an accept failed for lack of descriptors or memory.
    pub fn accept_failures(&self) -> u64 {
        self.accept_failures
    }

    /// The number of connections with an exchange that were cut at the end of the drain timeout.
    pub fn cut_connections(&self) -> u64 {
        self.cut
    }

    /// The number of connections closed because their address had too many. Behind a trusted proxy
    /// the client's address counts, as soon as the header is received.
    pub fn refused(&self) -> u64 {
        self.app.refused
    }

    /// The first panic of the application that was caught: see [`ServerApp::handle_panic`].
    pub fn first_panic(&self) -> Option<&Panic> {
        self.app.first_panic.as_ref().or_else(|| self.app.application.first_panic())
    }

    /// True once a stop was requested and the last connection is closed.
    pub fn is_done(&self) -> bool {
        self.ending.is_some() && self.connections.is_empty()
    }

    /// Begins a graceful stop: the listeners and idle connections close, and each connection with
    /// an exchange closes after its response. A connection that has sent nothing yet may have been
    /// accepted in this turn, with a request on its way: it has [`FIRST_REQUEST_TIMEOUT`].
    fn begin_to_end(&mut self, now: Instant) {
        debug_assert!(self.ending.is_none(), "a server stops once");
        self.ending = Some(now + self.app.limits.drain_timeout.min(FOREVER));
        self.first_request_deadline = Some(now + FIRST_REQUEST_TIMEOUT);
        self.app.ending = true;
        for listener in self.listeners.drain(..) {
            self.actions.push_back(Action::Unlisten { listener: listener.id });
        }
        self.close_after(now, |connection| !connection.is_new());
    }

    /// Closes the connections that `is_affected` selects after their exchanges.
    fn close_after(&mut self, now: Instant, is_affected: impl Fn(&ServerConnection) -> bool) {
        for socket in self.connections.sockets() {
            if let Some((connection, _)) = self.connections.get_mut(socket)
                && is_affected(connection)
            {
                connection.close_after();
                self.connections.touch(now, socket, &mut self.app);
            }
        }
    }

    fn set_accepting(&mut self, on: bool) {
        if on != self.accepting {
            self.accepting = on;
            let accept = |listener: &ServerListener| Action::Accept { listener: listener.id, on };
            self.actions.extend(self.listeners.iter().map(accept));
        }
    }

    /// Delivers the messages that other threads have posted since the last wake-up.
    fn deliver(&mut self, now: Instant) {
        let mut messages = std::mem::take(&mut self.messages);
        self.mailbox.swap(&mut messages);
        for (exchange, message) in messages.drain(..) {
            let socket = exchange.socket;
            let Some(entry) = self.connections.get_mut(socket) else {
                self.app.guard(now, |_| drop(message)); // its destructor may panic
                continue;
            };
            self.app.call(now, exchange, entry, |application, context, reply, data| {
                application.handle_message(context, reply, data, message);
            });
            self.connections.touch(now, socket, &mut self.app);
        }
        self.messages = messages;
        self.settle(now);
    }

    /// Applies the effects of an event on other connections: timers, limits, and reports of panics.
    fn settle(&mut self, now: Instant) {
        if let Some(panic) = self.app.unreported.get_mut().take() {
            self.app.report(now, None, panic);
        }
        for (socket, deadline) in self.app.timers.drain(..) {
            self.connections.set_timer(socket, deadline);
        }
        let room = self.app.limits.connections_max.saturating_sub(self.connections.len());
        if !self.accepting && room > self.app.limits.connections_max / ROOM_SHARE {
            self.set_accepting(true);
        }
    }
}

impl<A: ServerApp> Engine for ServerEngine<A> {
    fn accept(&mut self, now: Instant, from: Accepted) -> Option<SocketId> {
        let Accepted { listener, peer, .. } = from;
        let origin = PeerNetwork::of(peer.ip());
        if !self.app.has_place(origin) {
            return None;
        }
        let admits = |application: &mut A| application.admits(now, listener, peer);
        if self.app.guard(now, admits) != Some(true) {
            return None;
        }
        let known = self.listeners.iter().find(|known| known.id == listener);
        let mut layer = match known.and_then(|known| known.layers.as_ref()) {
            None => None,
            Some(layers) => Some(self.app.guard(now, |_| layers.make(peer))??),
        };
        let accept = |application: &mut A| application.accept(now, listener, peer);
        let data = Some(self.app.guard(now, accept)?);
        let mut connection = ServerConnection::default();
        connection.set_queue_max(self.shares.queue);
        connection.set_response_buffer_max(self.shares.responses);
        connection.set_http2(self.http2.clone());
        if let Some(layer) = &mut layer {
            layer.set_queue_max(self.shares.sealed);
        }
        let socket = self.connections.insert(now, layer, connection, data, &mut self.app);
        // A handler that panics as the connection begins has closed it already.
        if self.connections.get(socket).is_some() {
            self.app.addresses.enter(self.connections.position(socket), origin);
        }
        if self.connections.len() >= self.app.limits.connections_max {
            self.set_accepting(false);
        }
        Some(socket)
    }

    #[inline]
    fn handle(&mut self, now: Instant, event: DriverEvent<'_>) {
        match event {
            DriverEvent::Socket(socket, event) => {
                self.connections.handle(now, socket, event, &mut self.app);
            }
            DriverEvent::Timeout => self.handle_timeout(now),
            DriverEvent::Wake => return self.handle_wake(now),
            DriverEvent::AcceptFailed(..) => return self.handle_accept_failed(now),
            DriverEvent::Resolved(..) | DriverEvent::Flush => {} // no names, and no time of sends
        }
        self.settle(now);
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front().or_else(|| self.connections.poll_action())
    }

    fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>> {
        self.connections.poll_transmit(socket)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let ending = [self.ending, self.first_request_deadline].into_iter().flatten().min();
        let ending = ending.filter(|_| !self.connections.is_empty());
        let own = [self.connections.poll_timeout(), self.app.poll_timeout(), ending];
        own.into_iter().flatten().min()
    }

    fn limit(&self, of: Limit) -> usize {
        match of {
            Limit::Unread(socket) => self.connections.unread_max(socket).min(self.shares.unread),
            Limit::Accepts(_) => {
                self.app.limits.connections_max.saturating_sub(self.connections.len())
            }
            Limit::Receive(_) | Limit::Pipes => of.default_value(),
        }
    }
}

impl<A: ServerApp> ServerEngine<A> {
    fn handle_accept_failed(&mut self, now: Instant) {
        self.accept_failures += 1;
        self.app.guard(now, |application| application.handle_exhausted(now));
        self.connections.close_idle(now, SHED_MAX, &mut self.app);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.connections.handle_timeout(now, &mut self.app);
        if self.app.poll_timeout().is_some_and(|due| due <= now) {
            self.app.guard(now, |application| application.handle_timeout(now));
        }
        if self.first_request_deadline.is_some_and(|deadline| deadline <= now) {
            self.first_request_deadline = None;
            self.close_after(now, ServerConnection::is_new);
        }
        if self.ending.is_some_and(|deadline| deadline <= now) {
            let before = self.connections.len();
            for socket in self.connections.sockets() {
                self.connections.cut(now, socket, &mut self.app);
            }
            self.cut += (before - self.connections.len()) as u64;
        }
    }

    fn handle_wake(&mut self, now: Instant) {
        self.deliver(now);
        if self.stop.is_set() && self.ending.is_none() {
            self.begin_to_end(now);
        }
    }
}

/// The application's data of a connection; `None` after a panic there.
type DataSlot<A> = Option<<A as ServerApp>::Data>;

/// The handler of the connections. Timers that it sets are applied after the call.
#[derive(Debug)]
struct GuardedApp<A> {
    application: A,
    timers: Vec<(SocketId, Option<Instant>)>,
    addresses: AddressCounts,
    limits: Limits,
    refused: u64,
    ending: bool,
    first_panic: Option<Panic>,
    /// A panic of [`ServerApp::poll_timeout`], until the application can be called with `&mut`.
    unreported: RefCell<Option<Panic>>,
}

impl<A> GuardedApp<A> {
    /// True if one more connection from there is allowed. Otherwise it is counted as refused.
    fn has_place(&mut self, origin: PeerNetwork) -> bool {
        let max = match origin {
            PeerNetwork::Network(_) => self.limits.address_connections_max,
            PeerNetwork::Loopback(_) => self.limits.loopback_connections_max,
            PeerNetwork::Unnamed => return true,
        };
        let has = max == usize::MAX || self.addresses.count(origin) < max;
        self.refused += u64::from(!has);
        has
    }

    fn note(&mut self, context: &ExchangeContext) {
        if let Some(deadline) = context.timer {
            self.timers.push((context.exchange.socket, deadline));
        }
    }
}

/// Calls of the application: all of them are here, and through `catch`.
impl<A: ServerApp> GuardedApp<A> {
    /// Calls the application for a connection, unless it has panicked there before. If it panics,
    /// it gets its data back and the connection ends.
    fn call(
        &mut self,
        now: Instant,
        exchange: Exchange,
        (connection, slot): (&mut ServerConnection, &mut DataSlot<A>),
        act: impl FnOnce(&mut A, &mut ExchangeContext, &mut ServerConnection, &mut A::Data),
    ) {
        let Some(data) = slot else {
            self.guard(now, |_| drop(act)); // a message in it may have a destructor
            return;
        };
        let mut context = ExchangeContext::new(now, exchange);
        match catch(|| act(&mut self.application, &mut context, connection, data)) {
            Ok(()) => self.note(&context),
            Err(panic) => self.end_after(panic, now, exchange, (connection, slot)),
        }
    }

    /// Calls the application for no connection; `None` if it panics.
    fn guard<T>(&mut self, now: Instant, act: impl FnOnce(&mut A) -> T) -> Option<T> {
        match catch(|| act(&mut self.application)) {
            Ok(value) => Some(value),
            Err(panic) => {
                self.report(now, None, panic);
                None
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        catch(|| self.application.poll_timeout()).unwrap_or_else(|panic| {
            self.unreported.replace(Some(panic));
            None
        })
    }

    #[cold]
    fn report(&mut self, now: Instant, data: Option<&mut A::Data>, panic: Panic) {
        // If it panics again, the panic hook has printed that.
        let _ = catch(|| self.application.handle_panic(now, data, &panic));
        self.first_panic.get_or_insert(panic);
    }

    #[cold]
    fn end_after(
        &mut self,
        panic: Panic,
        now: Instant,
        Exchange { socket, stream }: Exchange,
        (connection, slot): (&mut ServerConnection, &mut DataSlot<A>),
    ) {
        self.report(now, slot.as_mut(), panic);
        let mut data = slot.take().expect("the application was called with its data");
        self.guard(now, |application| {
            application.handle_ending(now, connection, &mut data);
            application.handle_gone(now, socket, data, &End::Panicked);
        });
        connection.set_held(stream, false);
        connection.close_after();
        connection.reset_others(stream); // they have no application any more
        let head = Response::new(500, Headers::EMPTY);
        let sent = connection.send_head(stream, head, BodyLen::Empty);
        if sent.and_then(|()| connection.send_end(stream, Headers::EMPTY)).is_err() {
            // The client must not take the sent part for a complete response.
            connection.cut_off(stream);
        }
    }
}

impl<A: ServerApp> Handler<ServerConnection, DataSlot<A>> for GuardedApp<A> {
    #[inline(always)]
    fn handle(
        &mut self,
        now: Instant,
        socket: SocketId,
        entry: (&mut ServerConnection, &mut DataSlot<A>),
        event: ConnectionEvent<'_, Server>,
    ) {
        match event {
            ConnectionEvent::Established { info } => {
                self.handle_established(now, socket, entry, info);
            }
            ConnectionEvent::Replaced { info } => self.handle_replaced(now, socket, entry, info),
            ConnectionEvent::Event(event) => self.handle_event(now, socket, entry, event),
            ConnectionEvent::Timer => self.handle_timer(now, socket, entry),
            ConnectionEvent::InputUsed => {
                if let (ServerConnection::Http2(connection), data) = entry {
                    self.report_refused(now, connection, data);
                }
            }
            ConnectionEvent::Sent => {
                let (connection, data) = entry;
                if connection.has_sent()
                    && let Some(data) = data
                {
                    self.guard(now, |application| application.handle_sent(now, connection, data));
                }
            }
            ConnectionEvent::Ending => {
                if let (connection, Some(data)) = entry {
                    self.guard(now, |application| application.handle_ending(now, connection, data));
                }
            }
            // The application learns of a fault at the end of the connection.
            ConnectionEvent::Received
            | ConnectionEvent::DeadlinePassed { .. }
            | ConnectionEvent::Fault { .. } => {}
            ConnectionEvent::Piped(_) => unreachable!("no pipe was requested"),
        }
    }

    fn handle_closed(&mut self, now: Instant, socket: SocketId, data: DataSlot<A>, end: End) {
        self.addresses.leave(socket.index);
        if let Some(data) = data {
            self.guard(now, |application| application.handle_gone(now, socket, data, &end));
        }
    }
}

impl<A: ServerApp> GuardedApp<A> {
    fn report_refused(
        &mut self,
        now: Instant,
        connection: &mut H2<Server>,
        data: &mut DataSlot<A>,
    ) {
        for error in connection.take_refused() {
            let Some(data) = data else { return }; // the application has failed
            self.guard(now, |application| application.handle_refused(now, data, error));
        }
    }

    fn handle_established(
        &mut self,
        now: Instant,
        socket: SocketId,
        entry: (&mut ServerConnection, &mut DataSlot<A>),
        info: Option<&dyn Any>,
    ) {
        let exchange = Exchange { socket, stream: StreamId::default() };
        self.call(now, exchange, entry, |application, context, _, data| {
            application.handle_established(context, data, info);
        });
    }

    fn handle_replaced(
        &mut self,
        now: Instant,
        socket: SocketId,
        (connection, data): (&mut ServerConnection, &mut DataSlot<A>),
        info: &dyn Any,
    ) {
        if let Some(source) = proxied::source(info) {
            self.addresses.leave(socket.index);
            let origin = PeerNetwork::of(source.ip());
            if self.has_place(origin) {
                self.addresses.enter(socket.index, origin);
            } else {
                connection.close_after(); // the connection is idle: it closes at once
            }
        }
        let exchange = Exchange { socket, stream: StreamId::default() };
        self.call(now, exchange, (connection, data), |application, context, _, data| {
            application.handle_replaced(context, data, info);
        });
    }

    fn handle_event(
        &mut self,
        now: Instant,
        socket: SocketId,
        (connection, data): (&mut ServerConnection, &mut DataSlot<A>),
        event: Event<'_, Server>,
    ) {
        if self.ending && matches!(event, Event::Head { .. }) {
            connection.close_after(); // a first request after the stop is the last
        }
        if data.is_none() {
            return refuse(connection, &event);
        }
        let exchange = Exchange { socket, stream: event.stream() };
        self.call(now, exchange, (connection, data), |application, context, reply, data| {
            application.handle(context, reply, data, event);
        });
    }

    fn handle_timer(
        &mut self,
        now: Instant,
        socket: SocketId,
        entry: (&mut ServerConnection, &mut DataSlot<A>),
    ) {
        let exchange = Exchange { socket, stream: StreamId::default() };
        self.call(now, exchange, entry, |application, context, reply, data| {
            application.handle_timer(context, reply, data);
        });
    }
}

/// Idle connections that are closed at a time when descriptors run out.
const SHED_MAX: usize = 64;
/// Longer than any server runs, and short enough to be added to an `Instant`.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
/// From a graceful stop to the first request of a connection that was just accepted: some round
/// trips.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// Accepting resumes when one connection in this many is free, and not at every close.
const ROOM_SHARE: usize = 64;

/// Handles an event of a connection whose application has failed: it ends after its responses, and
/// requests that were on their way (HTTP/2) are not processed.
fn refuse(connection: &mut ServerConnection, event: &Event<'_, Server>) {
    match event {
        Event::Head { stream, .. } => connection.reset(*stream, Reset::Refused),
        Event::Data { stream, bytes } => connection.release(*stream, bytes.len()),
        Event::Informational { .. }
        | Event::End { .. }
        | Event::Writable { .. }
        | Event::Reset { .. }
        | Event::Upgraded { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::net::SocketAddr;

    use fulmar_proto::Phase;

    use super::*;

    /// Admits clients with an even port, and records which connections time out, in which phase.
    #[derive(Default)]
    struct EvenPorts {
        accepted: u32,
        panics: bool,
        ends: Vec<(SocketId, Option<Phase>, Instant)>,
    }

    impl ServerApp for EvenPorts {
        type Data = ();
        type Message = Infallible;

        fn admits(&mut self, _: Instant, _: ListenerId, peer: SocketAddr) -> bool {
            assert!(!self.panics, "the policy fails");
            peer.port().is_multiple_of(2)
        }

        fn accept(&mut self, _: Instant, _: ListenerId, _: SocketAddr) {
            self.accepted += 1;
        }

        fn handle(
            &mut self,
            _: &mut ExchangeContext,
            _: &mut ServerConnection,
            (): &mut (),
            _: Event<'_, Server>,
        ) {
        }

        fn handle_gone(&mut self, now: Instant, socket: SocketId, (): (), end: &End) {
            let End::TimedOut(phase) = end else { panic!("{end:?}") };
            self.ends.push((socket, *phase, now));
        }
    }

    #[expect(clippy::disallowed_methods, reason = "virtual time starts at some moment")]
    fn server() -> (ServerEngine<EvenPorts>, Instant) {
        let now = Instant::now();
        let limits = Limits { idle_timeout: Duration::from_secs(20), ..Limits::default() };
        let mut server = ServerEngine::new(now, EvenPorts::default(), limits, Stop::new());
        server.add_listener(LISTENER, None);
        (server, now)
    }

    fn connect(server: &mut ServerEngine<EvenPorts>, now: Instant, port: u16) -> Option<SocketId> {
        let peer = SocketAddr::from(([127, 0, 0, 1], port));
        server.accept(now, Accepted { listener: LISTENER, peer, local: None })
    }

    #[test]
    fn refused_connections_have_no_data_and_no_end() {
        let (mut server, now) = server();
        assert!(connect(&mut server, now, 1).is_none());
        assert!(connect(&mut server, now, 2).is_some());
        assert_eq!((server.connections(), server.application().accepted), (1, 1));
        assert_eq!(server.refused(), 0, "the limits have not refused it");
        assert!(server.application().ends.is_empty());
    }

    #[test]
    fn a_policy_that_panics_refuses() {
        let (mut server, now) = server();
        server.application_mut().panics = true;
        assert!(connect(&mut server, now, 2).is_none());
        assert!(server.first_panic().is_some());
        server.application_mut().panics = false;
        assert!(connect(&mut server, now, 2).is_some());
    }

    #[test]
    fn a_removed_listener_closes_once_and_leaves_its_connections() {
        let (mut server, now) = server();
        connect(&mut server, now, 2).unwrap();
        while server.poll_action().is_some() {}
        assert!(!server.remove_listener(ListenerId(8)), "it is unknown");
        assert!(server.remove_listener(LISTENER));
        assert!(!server.remove_listener(LISTENER), "it is removed");
        let mut unlistens = 0;
        while let Some(action) = server.poll_action() {
            assert!(matches!(action, Action::Unlisten { listener: LISTENER }), "{action:?}");
            unlistens += 1;
        }
        assert_eq!((unlistens, server.connections()), (1, 1));
        server.begin_to_end(now);
        while let Some(action) = server.poll_action() {
            assert!(!matches!(action, Action::Unlisten { .. }), "it is closed already");
        }
    }

    #[test]
    fn a_connection_has_timeouts_of_its_own_or_none() {
        let (mut server, now) = server();
        let mut connect = |port| connect(&mut server, now, port).unwrap();
        let (plain, short, endless) = (connect(2), connect(4), connect(6));
        let timeouts = Limits::default().timeouts();
        let five = Some(Duration::from_secs(5));
        server.set_timeouts(short, Timeouts { idle: five, ..timeouts });
        server.set_timeouts(endless, Timeouts { idle: None, ..timeouts });
        while let Some(due) = server.poll_timeout() {
            server.handle(due, DriverEvent::Timeout);
            while server.poll_action().is_some() {}
        }
        let ends = &server.application().ends;
        let seconds = |at: &Instant| at.duration_since(now).as_secs();
        let known: Vec<_> = ends.iter().map(|(socket, _, at)| (*socket, seconds(at))).collect();
        assert_eq!(known, [(short, 5), (plain, 20)]);
        assert!(ends.iter().all(|(_, phase, _)| *phase == Some(Phase::Idle)), "{ends:?}");
        assert_eq!(server.connections(), 1, "without a deadline, and the driver need not wake");
        assert!(server.connections.get(endless).is_some());
    }

    const LISTENER: ListenerId = ListenerId(7);
}
