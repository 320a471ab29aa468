//! The load generator as an engine: no socket, no clock, one thread's share of the run. It sends
//! due requests, and decides what becomes of those on a lost connection.
//!
//! ```text
//!  Opener ─ which connection now ─▶ Connections ─ connected, response ─▶ handle_used
//!  RequestQueue ─ which request is due ─▶ handle_used, dispatch ─▶ a request is queued: `fresh`
//!                                   handle_flush ──────────▶ it leaves now: this is its start
//! ```
//!
//! A closed loop keeps as many requests outstanding on every connection as its protocol allows. An
//! open loop gives each request that is due to a free connection, the one freed last; if none is
//! free, the request waits without being stored (see [`RequestQueue`]), and its latency counts from
//! its planned time all the same.
//! A request begins on an established connection: opening one is not part of its latency.

mod lost;

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fulmar_engine::{
    Action, ConnectionEvent, Connections, DriverEvent, End, Engine, Handler, SocketEvent, SocketId,
    Timeouts,
};
use fulmar_proto::h2::H2;
use fulmar_proto::{Client, ClientConnection, Connection, Event, Input, Reset, StreamId, Transmit};
use fulmar_tls::{HTTP2, Info, TlsError};

use crate::flights::Flight;
use crate::opener::Opener;
use crate::options::{LoadProtocol, RunUntil};
use crate::outage::Reachability;
use crate::outstanding::Outstanding;
use crate::progress::RunShared;
use crate::run_plan::{PlannedRequest, RunPlan};
use crate::schedule::{RequestQueue, Schedule, share};
use crate::tally::{ErrorKind, RunTally};

/// One thread's share of a run.
#[derive(Debug)]
pub(crate) struct Load {
    connections: Connections<ClientConnection, Conn>,
    core: LoadHandler,
    late: Vec<SocketId>, // expired timers; like `fresh`, memory that is reused
}

/// What is attached to a connection.
#[derive(Debug)]
struct Conn {
    flights: Outstanding,
    number: u32,
    gate: u16,
    batch: u8,
    stage: ConnStage,
    received: bool,  // bytes of HTTP, behind the handshake
    responded: bool, // has received a response
    armed: bool,     // a timer runs, which expires no later than the oldest request's timeout
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnStage {
    Connecting,
    Handshake,
    Established,
}

/// Everything but the connections: the handler of their events.
#[derive(Debug)]
struct LoadHandler {
    plan: Arc<RunPlan>,
    shared: Arc<RunShared>,
    thread: u32,
    epoch: Instant,
    /// The time that was converted last, and its nanoseconds: all events of a turn have one time.
    latest: (Instant, u64),
    opener: Opener,
    work: RequestQueue,
    tally: RunTally,
    origins: Vec<Cursor>,
    sockets: Vec<SocketId>, // by connection number
    begun: Vec<u64>,        // by connection number, with TLS only: its handshake
    listed: Vec<bool>,      // by connection number: is in `free`
    free: VecDeque<u32>,    // idle ones at the back, those that can take more in front
    fresh: Vec<SocketId>,   // those with requests queued in this turn
    expired: Vec<SocketId>,
    refused: Vec<SocketId>, // those whose server did not choose HTTP/2
    freed: bool,            // the current event made its connection free for a request
    service: Reachability,
    vain_since: Option<u64>, // since then connections were refused, without a response
    unused: Option<UnusedEnds>, // of connections, without a response
    refusal: Option<RefusedHandshakes>, // of handshakes, before the first response
    failure: Option<ConnectFailure>,
    publish_at: u64,
    target: u64, // responses and failures that end the run
    end: u64,    // the time that ends the run
    finish: Option<Finish>,
}

/// The next request and address of a destination.
#[derive(Debug, Default)]
struct Cursor {
    address: usize,
    request: usize,
    untried: usize, // addresses, until one has worked
}

/// Servers end connections before any request.
#[derive(Clone, Copy, Debug)]
struct UnusedEnds {
    since: u64,
    kind: ErrorKind,
}

/// Handshakes that servers have refused for one reason, in a row.
#[derive(Debug)]
struct RefusedHandshakes {
    cause: TlsError,
    times: u32,
}

/// The last connect that failed.
#[derive(Debug)]
pub(crate) struct ConnectFailure {
    pub(crate) gate: u16,
    pub(crate) error: Option<io::Error>,
}

/// Why and when a thread is done, in nanoseconds of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// The requests are done, or the time is over.
    Done(u64),
    /// It was stopped.
    Stopped(u64),
    /// No thread has a connection, and none can be opened.
    Unreachable(u64),
}

impl Finish {
    pub(crate) fn at(self) -> u64 {
        match self {
            Self::Done(at) | Self::Stopped(at) | Self::Unreachable(at) => at,
        }
    }
}

impl Load {
    /// Share `thread` of `plan`; the run began at `epoch`. Its first actions are connects.
    pub(crate) fn new(
        plan: Arc<RunPlan>,
        shared: Arc<RunShared>,
        thread: u32,
        epoch: Instant,
    ) -> Self {
        let limit = Some(plan.timeout);
        let timeouts =
            Timeouts { connect: limit, handshake: limit, send: limit, ..Timeouts::default() };
        let mut load = Self {
            connections: Connections::new(epoch, timeouts, 0, 1),
            core: LoadHandler::new(plan, shared, thread, epoch),
            late: Vec::new(),
        };
        load.advance(epoch);
        load
    }

    /// Why and when it ended; `None` before.
    pub(crate) fn finish(&self) -> Option<Finish> {
        self.core.finish
    }

    /// True once all connections are established that can be.
    pub(crate) fn is_warm(&self) -> bool {
        self.core.opener.is_settled() && self.core.tally.opened > 0
    }

    pub(crate) fn answered(&self) -> u64 {
        self.core.tally.answered
    }

    /// How long the oldest request without a response has waited at `at`. For the end of a run: it
    /// visits every connection.
    pub(crate) fn waited(&mut self, at: u64) -> u64 {
        let Self { connections, core, .. } = self;
        let conns = core
            .sockets
            .iter()
            .filter_map(|socket| Some(connections.get_mut(*socket)?.1.flights.oldest()));
        conns.flatten().min().map_or(0, |sent| at.saturating_sub(sent))
    }

    /// The tally, the last failed connect, and the number of connections given up. For the end of a
    /// run: it resets them.
    pub(crate) fn take_parts(&mut self) -> (RunTally, Option<ConnectFailure>, u32) {
        let empty = RunTally::new(self.core.plan.rate.is_some(), self.core.plan.has_tls());
        let tally = std::mem::replace(&mut self.core.tally, empty);
        (tally, self.core.failure.take(), self.core.opener.given_up())
    }

    /// After each event: ends the run, or assigns requests to free connections.
    fn advance(&mut self, now: Instant) {
        let at = self.core.nanos(now);
        while let Some(socket) = self.core.refused.pop() {
            if let Some(conn) = self.connections.close(socket) {
                self.core.connect_failed(at, &conn, End::Failed(io::Error::other(NO_HTTP2)));
            }
        }
        self.core.check_end(at);
        if self.core.finish.is_some() {
            return;
        }
        self.dispatch(now, at);
        self.open(now, at);
    }

    /// Assigns due requests to free connections.
    fn dispatch(&mut self, now: Instant, at: u64) {
        while !self.core.free.is_empty() && self.core.work.next().is_some_and(|next| next <= at) {
            let number = self.core.free.pop_back().expect("not empty");
            self.core.listed[number as usize] = false;
            let socket = self.core.sockets[number as usize];
            // It may have closed since it was listed.
            let Some((connection, conn)) = self.connections.get_mut(socket) else { continue };
            if conn.stage != ConnStage::Established || !self.core.has_room(connection, conn) {
                continue;
            }
            if let Some(planned) = self.core.work.take(at) {
                self.core.start(at, planned, socket, connection, conn);
            }
            if self.core.has_room(connection, conn) {
                self.core.list(conn);
            }
            self.connections.touch(now, socket, &mut self.core);
        }
    }

    /// Opens the connections that may be opened now.
    fn open(&mut self, now: Instant, at: u64) {
        while self.core.wants_connections()
            && let Some(opening) = self.core.opener.next(at)
        {
            let (number, plan) = (opening.number, &self.core.plan);
            let conn = Conn {
                flights: plan.flights(),
                number,
                gate: opening.gate,
                batch: opening.batch,
                stage: ConnStage::Connecting,
                received: false,
                responded: false,
                armed: false,
            };
            let gate = usize::from(opening.gate);
            let address = self.core.origins[gate].address;
            let endpoint = plan.endpoint(self.core.thread, number, address);
            let layer = plan.origins[gate].layer();
            let connection = match plan.protocol {
                LoadProtocol::Http1 { pipelined } => ClientConnection::with_depth(pipelined.into()),
                // Until it is established.
                LoadProtocol::Http2 { .. } => ClientConnection::default(),
            };
            let socket = self.connections.connect(now, endpoint, layer, connection, conn);
            self.core.sockets[number as usize] = socket;
        }
    }

    /// Handles expired timers: the oldest request has timed out, or the timer is set again.
    fn check_timers(&mut self, now: Instant) {
        let at = self.core.nanos(now);
        let timeout = nanos_of(self.core.plan.timeout);
        std::mem::swap(&mut self.late, &mut self.core.expired);
        while let Some(socket) = self.late.pop() {
            // It may have closed, or its responses have arrived, since the timer expired.
            let Some((connection, conn)) = self.connections.get_mut(socket) else { continue };
            if self.core.expire_streams(at, connection, conn) {
                self.core.fill(at, socket, connection, conn);
                self.connections.touch(now, socket, &mut self.core);
            }
            let Some((_, conn)) = self.connections.get_mut(socket) else { continue };
            let oldest = conn.flights.oldest().map(|sent| sent.saturating_add(timeout));
            let Some(due) = oldest.or_else(|| self.core.fail_blocked(at, conn)) else { continue };
            if due > at {
                conn.armed = true;
                let deadline = self.core.instant(due);
                self.connections.set_timer(socket, Some(deadline));
            } else if let Some(conn) = self.connections.close(socket) {
                self.core.lose(at, conn, &End::TimedOut(None));
            }
        }
    }
}

impl Engine for Load {
    const STAMPS_SENDS: bool = true;

    #[inline]
    fn handle(&mut self, now: Instant, event: DriverEvent<'_>) {
        match event {
            DriverEvent::Socket(socket, event) => self.handle_socket(now, socket, event),
            DriverEvent::Timeout => self.handle_timeout(now),
            DriverEvent::Wake => self.handle_wake(now),
            DriverEvent::Flush => self.handle_flush(now),
            // It accepts no connections, and its addresses are resolved before it starts.
            DriverEvent::AcceptFailed(..) | DriverEvent::Resolved(..) => {}
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.connections.poll_action()
    }

    fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>> {
        self.connections.poll_transmit(socket)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let core = &self.core;
        if core.finish.is_some() {
            return None;
        }
        let due = core.work.next().filter(|_| !core.free.is_empty());
        let end = (core.end < u64::MAX).then_some(core.end);
        let opens = core.opener.deadline().filter(|_| core.wants_connections());
        let own = [end, due, opens, core.service.deadline()].into_iter().flatten().min();
        let own = own.map(|at| core.instant(at));
        match (own, self.connections.poll_timeout()) {
            (Some(own), Some(connections)) => Some(own.min(connections)),
            (own, connections) => own.or(connections),
        }
    }
}

impl Load {
    #[inline]
    fn handle_socket(&mut self, now: Instant, socket: SocketId, event: SocketEvent<'_>) {
        match event {
            SocketEvent::Input(input) => self.handle_input(now, socket, input),
            SocketEvent::Sent(_) => self.connections.handle(now, socket, event, &mut self.core),
            SocketEvent::Connected => self.handle_connected(now, socket),
            SocketEvent::Hangup
            | SocketEvent::Unread
            | SocketEvent::Loaded(_)
            | SocketEvent::Spliced(_)
            | SocketEvent::Piped(_)
            | SocketEvent::Failed(_)
            | SocketEvent::FileFailed(_) => {
                self.connections.handle(now, socket, event, &mut self.core);
                self.advance(now);
            }
        }
    }

    fn handle_connected(&mut self, now: Instant, socket: SocketId) {
        let Some((_, conn)) = self.connections.get_mut(socket) else { return }; // timed out
        conn.stage = ConnStage::Handshake;
        if let Some(begun) = self.core.begun.get_mut(conn.number as usize) {
            *begun = nanos_of(now.saturating_duration_since(self.core.epoch));
        }
        self.connections.handle(now, socket, SocketEvent::Connected, &mut self.core);
        self.advance(now);
    }

    fn handle_input(&mut self, now: Instant, socket: SocketId, mut input: Input<'_>) {
        let before = input.len();
        self.connections.handle_input(now, socket, &mut input, &mut self.core);
        self.core.tally.bytes += (before - input.len()) as u64;
        self.advance(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.connections.handle_timeout(now, &mut self.core);
        self.check_timers(now);
        self.advance(now);
        self.core.publish(now);
    }

    fn handle_wake(&mut self, now: Instant) {
        if self.core.shared.stop.load(Ordering::Acquire) {
            let at = self.core.nanos(now);
            self.core.conclude(Finish::Stopped(at));
        }
    }

    fn handle_flush(&mut self, now: Instant) {
        let at = self.core.nanos(now);
        let LoadHandler { fresh, tally, plan, .. } = &mut self.core;
        for socket in fresh.drain(..) {
            let Some((_, conn)) = self.connections.get_mut(socket) else { continue };
            match plan.rate {
                Some(_) => conn.flights.stamp(at, |flight| tally.leave(at, flight.planned)),
                None => conn.flights.stamp(at, |flight| flight.planned = at),
            }
            if !std::mem::replace(&mut conn.armed, true) {
                self.connections.set_timer(socket, Some(now + plan.timeout));
            }
        }
        self.core.publish(now);
    }
}

impl LoadHandler {
    fn new(plan: Arc<RunPlan>, shared: Arc<RunShared>, thread: u32, epoch: Instant) -> Self {
        let connections = plan.share(thread);
        let gates = u16::try_from(plan.origins.len()).expect("the number of URLs is checked");
        let mut opener = Opener::new(gates, OPENING_MAX / plan.threads);
        for number in 0..connections {
            opener.want(0, number, plan.gate(thread, number));
        }
        let schedule = plan.rate.map(|rate| Schedule::new(rate, thread, plan.threads));
        let count = plan.count().map(|count| share(count, thread, plan.threads));
        let cursor = |origin: &crate::run_plan::Destination| Cursor {
            untried: origin.addresses.len() - 1,
            ..Cursor::default()
        };
        let no_socket = SocketId { index: u32::MAX, generation: 0 };
        Self {
            opener,
            work: RequestQueue::new(count, schedule),
            tally: RunTally::new(plan.rate.is_some(), plan.has_tls()),
            origins: plan.origins.iter().map(cursor).collect(),
            sockets: vec![no_socket; connections as usize],
            begun: vec![0; if plan.has_tls() { connections as usize } else { 0 }],
            listed: vec![false; connections as usize],
            free: VecDeque::new(),
            fresh: Vec::new(),
            expired: Vec::new(),
            refused: Vec::new(),
            freed: false,
            service: Reachability::Down { since: 0 },
            vain_since: None,
            unused: None,
            refusal: None,
            failure: None,
            publish_at: 0,
            target: count.unwrap_or(u64::MAX),
            end: match plan.until {
                RunUntil::Elapsed(duration) => nanos_of(duration),
                RunUntil::Requests(_) => u64::MAX,
            },
            finish: None,
            plan,
            shared,
            thread,
            epoch,
            latest: (epoch, 0),
        }
    }

    fn nanos(&mut self, now: Instant) -> u64 {
        if self.latest.0 != now {
            self.latest = (now, nanos_of(now.saturating_duration_since(self.epoch)));
        }
        self.latest.1
    }

    fn instant(&self, at: u64) -> Instant {
        self.epoch + Duration::from_nanos(at)
    }

    /// Queues a request.
    fn start(
        &mut self,
        now: u64,
        planned: u64,
        socket: SocketId,
        connection: &mut ClientConnection,
        conn: &mut Conn,
    ) {
        let requests = &self.plan.origins[usize::from(conn.gate)].requests;
        let cursor = &mut self.origins[usize::from(conn.gate)].request;
        let request = &requests[*cursor];
        *cursor = if *cursor + 1 == requests.len() { 0 } else { *cursor + 1 };
        let stream = connection.open().expect("the caller saw a vacancy");
        let sent = match (connection, request) {
            (ClientConnection::Http1(it, _), PlannedRequest::Http1(request)) => {
                it.send_encoded(stream, request)
            }
            (ClientConnection::Http2(it), PlannedRequest::Http2(request)) => {
                it.send_encoded(stream, request)
            }
            _ => unreachable!("a run has one protocol"),
        };
        sent.expect("it was compiled, and nothing was sent");
        self.tally.issued += 1;
        if conn.flights.push(stream, Flight { planned, sent: now }) {
            self.fresh.push(socket);
        }
    }

    /// True if another request may be sent on a connection. Before its SETTINGS have arrived, the
    /// server's limit of streams is unknown, and one is sent.
    fn has_room(&self, connection: &ClientConnection, conn: &Conn) -> bool {
        match connection {
            ClientConnection::Http1(it, _) => it.vacancy() > 0,
            ClientConnection::Http2(it) => {
                let max = it.peer_streams_max().map_or(1, |_| self.plan.protocol.depth().into());
                conn.flights.len() < max && it.vacancy() > 0
            }
        }
    }

    /// Sends the requests that are due on a connection, as far as it has room.
    fn fill(
        &mut self,
        at: u64,
        socket: SocketId,
        connection: &mut ClientConnection,
        conn: &mut Conn,
    ) {
        if self.finish.is_some() {
            return;
        }
        while self.has_room(connection, conn) {
            let Some(planned) = self.work.take(at) else {
                self.list(conn);
                break;
            };
            self.start(at, planned, socket, connection, conn);
        }
        if let (ClientConnection::Http2(it), Outstanding::ByStream(flights)) =
            (&*connection, &mut conn.flights)
            && flights.note_vacancy(at, it.vacancy())
        {
            self.fresh.push(socket); // for a timer
        }
    }

    /// False if the idle connections and those being opened suffice for the remaining requests:
    /// with a connection for each request, another one would have no request.
    fn wants_connections(&self) -> bool {
        let RunTally { established, issued, answered, failed, .. } = self.tally;
        let idle = u64::from(established).saturating_sub(issued - answered - failed);
        !self.plan.reconnect || self.work.left() > idle + u64::from(self.opener.opening())
    }

    /// No request is due: the connection waits.
    fn list(&mut self, conn: &Conn) {
        if std::mem::replace(&mut self.listed[conn.number as usize], true) {
            return;
        }
        match conn.flights.len() {
            0 => self.free.push_back(conn.number),
            _ => self.free.push_front(conn.number),
        }
    }

    fn complete(&mut self, now: Instant, conn: &mut Conn, stream: StreamId) {
        let completed = conn.flights.complete(stream);
        let (flight, status) = completed.expect("responses belong to requests");
        let at = self.nanos(now);
        self.tally.answer(at, flight, status);
        self.freed = true;
        self.vain_since = None;
        let was_unused = std::mem::take(&mut self.unused).is_some();
        if was_unused || self.is_refused() {
            self.service.restore(at, &self.shared.outages);
        }
        self.refusal = None;
        if !std::mem::replace(&mut conn.responded, true) {
            self.opener.note_response(conn.batch);
            self.opener.recover(conn.gate);
        }
    }

    fn connected(&mut self, now: u64, gate: u16) {
        self.tally.connected();
        self.opener.succeed(gate);
        self.origins[usize::from(gate)].untried = 0;
        if !self.is_refused() && !self.ends_unused(now) {
            self.service.restore(now, &self.shared.outages);
        }
    }

    fn conclude(&mut self, finish: Finish) {
        if self.finish.is_none() {
            match finish {
                Finish::Done(at) if at < self.end => self.service.finish(at, &self.shared.outages),
                Finish::Done(_) | Finish::Stopped(_) | Finish::Unreachable(_) => {
                    self.service.stop(&self.shared.outages);
                }
            }
            self.finish = Some(finish);
        }
    }

    fn check_end(&mut self, now: u64) {
        if self.finish.is_some() {
            return;
        }
        let over = now >= self.end || self.tally.answered + self.tally.failed >= self.target;
        if over {
            self.conclude(Finish::Done(now));
        } else if self.is_lost(now) {
            if let Some(unused) = self.unused.filter(|_| self.ends_unused(now)) {
                self.tally.error(unused.kind);
            }
            self.conclude(Finish::Unreachable(now));
        }
    }

    /// True if servers have refused each handshake for the same reason: they would refuse the next.
    fn is_refused(&self) -> bool {
        self.refusal.as_ref().is_some_and(|refusal| refusal.times >= FAILURES_MAX)
    }

    /// True if no thread has a connection and all have given up. A connect in progress is waited
    /// for, up to the timeout.
    fn is_lost(&mut self, now: u64) -> bool {
        if (self.is_refused() || self.ends_unused(now)) && self.tally.established == 0 {
            self.service.refuse(now, &self.shared.outages);
        }
        if let Reachability::Failing { since } = self.service {
            let (opener, never) = (&self.opener, self.tally.opened == 0);
            let long = now.saturating_sub(since) >= nanos_of(LOST_AFTER);
            let gives_up = opener.is_settled()
                || never && opener.has_failed(FAILURES_MAX)
                || long && opener.has_failed(1);
            if gives_up {
                self.service.give_up(now, &self.shared.outages);
            }
        }
        self.service.is_lost(now, &self.shared.outages)
    }

    fn publish(&mut self, now: Instant) {
        let at = self.nanos(now);
        if at >= self.publish_at {
            self.publish_at = at + PUBLISH_EVERY;
            self.shared.publish(self.thread, &self.tally);
        }
    }
}

impl Handler<ClientConnection, Conn> for LoadHandler {
    #[inline(always)]
    fn handle(
        &mut self,
        now: Instant,
        socket: SocketId,
        (connection, conn): (&mut ClientConnection, &mut Conn),
        event: ConnectionEvent<'_, Client>,
    ) {
        match event {
            ConnectionEvent::Established { info } => {
                self.handle_established(now, socket, (connection, conn), info);
            }
            ConnectionEvent::Event(event) => self.handle_event(now, (connection, conn), event),
            ConnectionEvent::InputUsed => self.handle_used(now, socket, (connection, conn)),
            ConnectionEvent::Received => conn.received = true,
            ConnectionEvent::Timer => {
                conn.armed = false;
                self.expired.push(socket);
            }
            // The reason of a fault is counted at the end of its connection.
            ConnectionEvent::Replaced { .. }
            | ConnectionEvent::Sent
            | ConnectionEvent::Ending
            | ConnectionEvent::DeadlinePassed { .. }
            | ConnectionEvent::Fault { .. } => {}
            ConnectionEvent::Piped(_) => unreachable!("no pipe was requested"),
        }
    }

    fn handle_closed(&mut self, now: Instant, _: SocketId, conn: Conn, end: End) {
        let at = self.nanos(now);
        if conn.stage == ConnStage::Established {
            self.lose(at, conn, &end);
        } else {
            self.connect_failed(at, &conn, end);
        }
    }
}

impl LoadHandler {
    fn handle_established(
        &mut self,
        now: Instant,
        socket: SocketId,
        (connection, conn): (&mut ClientConnection, &mut Conn),
        info: Option<&dyn Any>,
    ) {
        let info = info.and_then(Info::of);
        if let LoadProtocol::Http2 { .. } = self.plan.protocol {
            if info.as_ref().is_some_and(|info| info.alpn != Some(HTTP2)) {
                return self.refused.push(socket);
            }
            *connection = ClientConnection::Http2(Box::new(H2::with_window(WINDOW_SIZE)));
        }
        if let Some(info) = &info {
            let took = self.nanos(now) - self.begun[conn.number as usize];
            self.tally.shake_hands(took, info);
        }
        conn.stage = ConnStage::Established;
        let at = self.nanos(now);
        self.connected(at, conn.gate);
        self.freed = true;
        if info.is_none() {
            self.handle_used(now, socket, (connection, conn)); // no input is pending
        }
    }

    fn handle_event(
        &mut self,
        now: Instant,
        (connection, conn): (&mut ClientConnection, &mut Conn),
        event: Event<'_, Client>,
    ) {
        match event {
            Event::Head { stream, head, .. } => conn.flights.note_status(stream, head.status),
            Event::Data { stream, bytes } => connection.release(stream, bytes.len()),
            Event::End { stream, .. } => self.complete(now, conn, stream),
            Event::Upgraded { stream } => {
                conn.flights.note_status(stream, SWITCHING_PROTOCOLS);
                self.complete(now, conn, stream);
                connection.reset(stream, Reset::Cancelled); // what follows is not HTTP
            }
            Event::Reset { stream, code, cause, .. } => {
                let at = self.nanos(now);
                self.handle_reset(at, conn, stream, code, cause);
            }
            Event::Informational { .. } | Event::Writable { .. } => {}
        }
    }

    /// Queues the requests that are due on a connection that became free. Not before the input is
    /// used up: bytes behind a response must not be taken for the response to the next request.
    fn handle_used(
        &mut self,
        now: Instant,
        socket: SocketId,
        (connection, conn): (&mut ClientConnection, &mut Conn),
    ) {
        let freed = std::mem::take(&mut self.freed);
        if let (ClientConnection::Http2(it), Outstanding::ByStream(flights)) =
            (&*connection, &mut conn.flights)
        {
            flights.note_received(self.nanos(now));
            // SETTINGS may have changed the limit.
            it.peer_streams_max().into_iter().for_each(|max| self.tally.note_streams_max(max));
        } else if !freed {
            return;
        }
        let at = self.nanos(now);
        self.fill(at, socket, connection, conn);
    }
}

fn nanos_of(duration: Duration) -> u64 {
    let seconds = duration.as_secs().saturating_mul(1_000_000_000);
    seconds.saturating_add(duration.subsec_nanos().into())
}

/// Connects in progress, over all threads: what a listen queue usually holds.
const OPENING_MAX: u32 = 512;
/// A run without an established connection for so long is lost: a restart takes less.
const LOST_AFTER: Duration = Duration::from_secs(5);
/// A server that was never reached is given up after so many connects in a row.
const FAILURES_MAX: u32 = 6;
const PUBLISH_EVERY: u64 = 100_000_000;
const SWITCHING_PROTOCOLS: u16 = 101;
/// The receive windows of HTTP/2: bodies are not kept, so no server has to wait.
const WINDOW_SIZE: u32 = 1 << 30;
const NO_HTTP2: &str = "the server did not choose HTTP/2 (h2) by ALPN";

#[cfg(test)]
mod tests;
