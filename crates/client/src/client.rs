//! The engine: transfers on connections that they share.

use std::time::{Instant, SystemTime};

use fulmar_engine::{
    Action, Connections, DriverEvent, End, Engine, Passage, SocketEvent, SocketId, Timeouts,
};
use fulmar_proto::{ClientConnection, Connection, FileRange, Segment, Transmit};

use fulmar_semantics::cookies::Jar;

use crate::application::{Application, Context};
use crate::connection_handler::{ConnectionHandler, failure};
use crate::error::Error;
use crate::key::Route;
use crate::options::Config;
use crate::request::Request;
use crate::seat::Seat;
use crate::state::{ClientState, Command, Stats};
use crate::transfer::{BodyUse, Transfer, TransferId, TransferStage};

/// A client, to be driven by a reactor.
///
/// Transfers are started with [`Client::start`], or by the application whenever it is told of
/// something; each waits in the queue of its origin until a connection can be had.
#[derive(Debug)]
pub struct Client<A> {
    pub(crate) connections: Connections<ClientConnection, Seat>,
    pub(crate) core: ConnectionHandler<A>,
    due: Vec<u32>,
}

impl<A: Application> Client<A> {
    /// A client whose transfers are told to `application`. It is `now`, and `wall` on the clock
    /// that cookies and dates are held against.
    pub fn new(now: Instant, wall: SystemTime, application: A, config: Config) -> Self {
        let timeouts = Timeouts {
            connect: config.connect_timeout,
            handshake: config.handshake_timeout,
            idle: config.idle_timeout,
            ..Timeouts::default()
        };
        Self {
            connections: Connections::new(now, timeouts, 0, 1),
            core: ConnectionHandler { application, state: ClientState::new(now, wall, config) },
            due: Vec::new(),
        }
    }

    /// Who hears of transfers.
    pub fn application(&self) -> &A {
        &self.core.application
    }

    /// Who hears of transfers, to be changed.
    pub fn application_mut(&mut self) -> &mut A {
        &mut self.core.application
    }

    /// Who hears of transfers, and what may be done with them.
    pub fn with<O>(&mut self, now: Instant, act: impl FnOnce(&mut A, &mut Context<'_>) -> O) -> O {
        let ConnectionHandler { application, state } = &mut self.core;
        let out = act(application, &mut Context { now, state });
        self.run_commands(now);
        out
    }

    /// Starts a transfer.
    pub fn start(&mut self, now: Instant, request: &Request) -> TransferId {
        self.with(now, |_, context| context.start(request))
    }

    /// Transfers that have been started and are not over.
    pub fn running(&self) -> usize {
        self.core.state.transfers.len()
    }

    /// Connections, those that are being opened included.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Connections that wait for their next request.
    pub fn idle_connections(&self) -> usize {
        self.core.state.pool.idle()
    }

    /// Connections that are being opened.
    pub fn connecting(&self) -> usize {
        self.core.state.attempts.len()
    }

    /// Transfers whose request is under way, and whose answer has not begun. Walks all
    /// connections: for reports, not for a turn.
    pub fn awaiting_response(&self) -> usize {
        let transfers = &self.core.state.transfers;
        let sent = |id: &SocketId| {
            transfers.get(*id).is_some_and(|transfer| transfer.stage == TransferStage::Sending)
        };
        transfers.keys().filter(sent).count()
    }

    /// Keys that connections, waiting transfers or manners are kept for at the moment.
    pub fn origins(&self) -> usize {
        self.core.state.pool.len()
    }

    /// What was done so far.
    pub fn stats(&self) -> Stats {
        self.core.state.stats
    }

    /// The cookies, if there is a jar.
    pub fn cookies(&self) -> Option<&Jar> {
        self.core.state.jar.as_ref()
    }

    /// From now on cookies are kept here, and sent; `None`: neither.
    pub fn set_cookies(&mut self, jar: Option<Jar>) {
        self.core.state.jar = jar;
    }

    /// Closes idle connections; those in use are closed when their answers are complete.
    pub fn close_idle(&mut self, now: Instant) {
        while self.evict(now) {}
        for socket in self.connections.sockets() {
            if let Some((connection, seat)) = self.connections.get_mut(socket)
                && !seat.owners.is_empty()
            {
                connection.close_after();
            }
        }
        self.run_commands(now);
    }

    /// Does what had to wait until the connections were at hand.
    pub(crate) fn run_commands(&mut self, now: Instant) {
        while let Some(command) = self.core.state.commands.pop_front() {
            match command {
                Command::Dispatch(origin) => self.dispatch(now, origin),
                Command::Freed(socket) => self.on_freed(now, socket),
                Command::Cancel(socket, id) => self.cancel(now, socket, id),
                Command::Hold(id) => self.hold(now, id),
                Command::SendBody(id) => self.send_body(now, id),
                Command::Send(id, data) => self.send(now, id, data),
                Command::Offer(id) => self.offer(now, id),
                Command::Finish(id) => self.finish(now, id),
                Command::Splice(id) => self.splice(id),
                Command::Race(at) => {
                    self.race(now, at);
                }
                Command::Closed(seat, socket, end) => self.on_closed(now, &seat, socket, end),
            }
        }
    }

    /// Lets waiting transfers go, as far as they may; what room they leave is the next origin's.
    fn dispatch(&mut self, now: Instant, origin: usize) {
        self.assign_waiting(now, origin);
        self.serve_waiting_origin();
    }

    /// One after the other, as long as there is a connection for each.
    fn assign_waiting(&mut self, now: Instant, origin: usize) {
        let mut begun = false;
        loop {
            let state = &mut self.core.state;
            let Some(id) = state.front(origin) else {
                if !begun {
                    state.sweep(now, origin);
                }
                return;
            };
            if !state.permit(now, origin) {
                return;
            }
            let Some(socket) = self.choose(origin, id) else { break };
            self.core.state.pool.pop(origin);
            self.assign(now, socket, id);
            begun = true;
        }
        self.open(now, origin, None);
    }

    /// A connection for the transfer: the one that was used last, or one to be pipelined on.
    fn choose(&mut self, origin: usize, id: TransferId) -> Option<SocketId> {
        let pool = &mut self.core.state.pool;
        if let Some(link) = pool.idle_of(origin) {
            pool.remove_idle(origin, link);
            return Some(self.connections.key(link));
        }
        let known = pool.get(origin)?;
        let request = &self.core.state.transfers.get(id.0)?.request;
        if !(known.pipelines && request.is_idempotent() && request.body().is_empty()) {
            return None;
        }
        while let Some(link) = self.core.state.pool.shared_of(origin) {
            let socket = self.connections.key(link);
            if self.connections.get(socket).is_some_and(|(connection, _)| connection.vacancy() > 0)
            {
                return Some(socket);
            }
            self.share(socket); // its peer has said meanwhile that it will close
        }
        None
    }

    /// Begins an exchange.
    fn assign(&mut self, now: Instant, socket: SocketId, id: TransferId) {
        let Some(link) = self.connections.get_mut(socket) else { return };
        self.core.assign(now, socket, link, id);
        self.share(socket);
        self.connections.touch(now, socket, &mut self.core);
    }

    /// Puts a connection on the list of those that are pipelined on, or off it.
    fn share(&mut self, socket: SocketId) {
        if self.core.state.config.pipelining == 1 {
            return;
        }
        let link = self.connections.position(socket);
        let Some((connection, seat)) = self.connections.get_mut(socket) else { return };
        let state = &mut self.core.state;
        let origin = seat.origin();
        let proven = seat.uses > 1; // it has kept the connection open after an answer
        let idempotent = seat.owners.last().is_none_or(|id| {
            let transfer = state.transfers.get(id.0);
            transfer.is_some_and(|transfer| transfer.request.is_idempotent())
        });
        let wanted = !seat.owners.is_empty() && connection.vacancy() > 0 && proven && idempotent;
        if wanted != seat.shared {
            seat.shared = wanted;
            match wanted {
                true => state.pool.share(origin, link),
                false => state.pool.unshare(origin, link),
            }
        }
    }

    /// An exchange has ended: the next one, or rest.
    fn on_freed(&mut self, now: Instant, socket: SocketId) {
        self.share(socket);
        let link = self.connections.position(socket);
        let Some((connection, seat)) = self.connections.get_mut(socket) else { return };
        if !seat.owners.is_empty() {
            return self.core.state.commands.push_back(Command::Dispatch(seat.origin()));
        }
        if !seat.established || connection.wishes().finished {
            return;
        }
        if connection.vacancy() == 0 {
            // Upgraded, and the peer has ended its side: nobody is left who could end ours.
            connection.reset(Default::default(), 0);
            return self.connections.touch(now, socket, &mut self.core);
        }
        let origin = seat.origin();
        let pool = &self.core.state.pool;
        if seat.uses >= FAIR_USES && !pool.waiting_origins.is_empty() && pool.waiting(origin) > 0 {
            self.connections.close(socket); // its origin has had its share
            return self.on_connection_removed(now, origin, false);
        }
        self.core.state.pool.insert_idle(origin, link);
        self.dispatch(now, origin);
        if self.core.state.pool.idle() > self.core.state.config.idle_max {
            self.evict(now);
        }
        self.serve_waiting_origin();
    }

    /// Closes the connection that has been idle for the longest time; false if none is.
    pub(crate) fn evict(&mut self, now: Instant) -> bool {
        let Some(link) = self.core.state.pool.oldest() else { return false };
        let socket = self.connections.key(link);
        let Some(seat) = self.connections.close(socket) else { return false };
        self.core.state.pool.remove_idle(seat.origin(), link);
        self.on_connection_removed(now, seat.origin(), false);
        true
    }

    /// An origin has one connection less, or one attempt at one.
    pub(crate) fn on_connection_removed(&mut self, now: Instant, origin: usize, connecting: bool) {
        let state = &mut self.core.state;
        if let Some(known) = state.pool.get_mut(origin) {
            known.connections -= 1;
            known.connecting -= usize::from(connecting);
            match state.pool.waiting_origins.is_empty() || state.pool.waiting(origin) == 0 {
                true => state.commands.push_back(Command::Dispatch(origin)),
                false => state.pool.wait_for_connection(origin), // others have waited longer
            }
        }
        state.sweep(now, origin);
        self.serve_waiting_origin();
    }

    /// There may be room for another connection: the origin that waits longest has it.
    fn serve_waiting_origin(&mut self) {
        let state = &mut self.core.state;
        if state.pool.waiting_origins.is_empty() {
            return;
        }
        let room = self.connections.len() < state.config.connections_max || state.pool.idle() > 0;
        if room && let Some(origin) = state.pool.waiting_origins.pop_front() {
            if let Some(known) = state.pool.get_mut(origin) {
                known.waits_for_connection = false;
            }
            state.commands.push_back(Command::Dispatch(origin));
        }
    }

    /// Nobody wants an answer any more.
    fn cancel(&mut self, now: Instant, socket: SocketId, id: TransferId) {
        let Some((connection, seat)) = self.connections.get_mut(socket) else { return };
        if !seat.owners.contains(id) {
            return; // its answer is complete
        }
        let transfers = &self.core.state.transfers;
        if seat.owners.iter().all(|owner| transfers.get(owner.0).is_none()) {
            connection.reset(Default::default(), 0);
        } else {
            // Others are not to suffer: its answer is swallowed, if it is short. Nobody but the
            // one whose answer is next says whether it waits.
            let next = seat.owners.first().and_then(|owner| transfers.get(owner.0));
            connection.set_held(next.is_some_and(Transfer::is_held));
        }
        self.connections.touch(now, socket, &mut self.core);
    }

    /// A transfer was paused or resumed, by whoever.
    fn hold(&mut self, now: Instant, id: TransferId) {
        let Some(transfer) = self.core.state.transfers.get(id.0) else { return };
        let held = transfer.is_held();
        if !held && self.core.drain(now, id) {
            return; // it is over, or has paused again
        }
        self.core.state.watch(now, id);
        let Some(transfer) = self.core.state.transfers.get(id.0) else { return };
        let socket = transfer.socket;
        if !transfer.is_active() {
            return;
        }
        let Some((connection, seat)) = self.connections.get_mut(socket) else { return };
        if seat.owners.first() != Some(id) {
            return; // when its turn comes
        }
        connection.set_held(held);
        self.connections.touch(now, socket, &mut self.core);
    }

    /// The body of a request may leave.
    fn send_body(&mut self, now: Instant, id: TransferId) {
        let Some(transfer) = self.core.state.transfers.get(id.0) else { return };
        let (socket, stream) = (transfer.socket, transfer.stream);
        if let Some((connection, _)) = self.connections.get_mut(socket) {
            self.core.send_body(now, id, connection, stream);
            self.connections.touch(now, socket, &mut self.core);
        }
    }

    fn send(&mut self, now: Instant, id: TransferId, data: Segment) {
        let Some(transfer) = self.core.state.transfers.get_mut(id.0) else { return };
        let (socket, stream) = (transfer.socket, transfer.stream);
        let bytes = data.len();
        if !transfer.is_active() {
            return;
        }
        let Some((connection, _)) = self.connections.get_mut(socket) else { return };
        match connection.send_data(stream, data) {
            Ok(()) => transfer.sent += bytes,
            Err(error) => return self.core.usage_error(now, id, error),
        }
        // After whatever was queued together with this: a body that is finished has no room.
        self.core.state.commands.push_back(Command::Offer(id));
        self.connections.touch(now, socket, &mut self.core);
    }

    /// There may be room for more of a request's body.
    fn offer(&mut self, now: Instant, id: TransferId) {
        let Some(transfer) = self.core.state.transfers.get(id.0) else { return };
        let (socket, stream) = (transfer.socket, transfer.stream);
        if !transfer.is_active() {
            return;
        }
        let Some((connection, _)) = self.connections.get_mut(socket) else { return };
        if connection.room(stream) > 0 {
            self.core.emit_writable(now, id);
        }
    }

    fn finish(&mut self, now: Instant, id: TransferId) {
        let Some(transfer) = self.core.state.transfers.get(id.0) else { return };
        let (socket, stream) = (transfer.socket, transfer.stream);
        if !transfer.is_active() {
            return;
        }
        let Some((connection, _)) = self.connections.get_mut(socket) else { return };
        if let Err(error) = connection.send_end(stream, fulmar_proto::Headers::EMPTY) {
            return self.core.usage_error(now, id, error);
        }
        self.connections.touch(now, socket, &mut self.core);
    }

    fn splice(&mut self, id: TransferId) {
        if let Some(transfer) = self.core.state.transfers.get(id.0) {
            self.connections.splice(transfer.socket);
        }
    }

    /// A connection is gone, and what it owed with it.
    fn on_closed(&mut self, now: Instant, seat: &Seat, socket: SocketId, end: End) {
        if seat.attempt().is_some() {
            return self.handle_refused(now, seat, socket, end);
        }
        if !seat.established {
            let known = self.core.state.pool.get(seat.origin());
            let tunnel = known.is_some_and(|k| matches!(k.key.key().route, Route::Tunnel(_)));
            let error = match end {
                End::Failed(error) if tunnel => Error::Proxy(error),
                end => failure(end),
            };
            self.core.fail_front(now, seat.origin(), error);
        }
        self.on_connection_removed(now, seat.origin(), !seat.established);
    }

    fn check_deadlines(&mut self, now: Instant) {
        let mut due = std::mem::take(&mut self.due);
        self.core.state.transfer_timers.expire(now, &mut due);
        for at in due.drain(..) {
            let id = TransferId(self.core.state.transfers.key(at));
            self.core.check_transfer(now, id);
        }
        self.core.state.origin_timers.expire(now, &mut due);
        for at in due.drain(..) {
            let origin = at as usize;
            self.check_name(now, origin);
            self.core.state.sweep(now, origin);
            if self.core.state.pool.get(origin).is_some() {
                self.core.state.commands.push_back(Command::Dispatch(origin));
            }
        }
        self.due = due;
    }
}

/// Exchanges that a connection is kept for while other origins wait for one: opening another
/// costs about as much as this many requests save.
const FAIR_USES: u32 = 16;

impl<A: Application> Engine for Client<A> {
    #[inline]
    fn handle(&mut self, now: Instant, event: DriverEvent<'_>) {
        match event {
            DriverEvent::Socket(socket, event) => self.handle_socket(now, socket, event),
            DriverEvent::Resolved(lookup, addresses) => {
                self.handle_resolved(now, lookup.0 as usize, addresses);
            }
            DriverEvent::Timeout => self.handle_timeout(now),
            DriverEvent::Wake => {
                return self.with(now, |application, context| application.handle_wake(context));
            }
            // It accepts no connections, and counts no time of sends.
            DriverEvent::AcceptFailed(..) | DriverEvent::Flush => {}
        }
        self.run_commands(now);
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.core.state.actions.pop_front().or_else(|| self.connections.poll_action())
    }

    fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>> {
        self.connections.poll_transmit(socket)
    }

    fn poll_passage(&mut self, socket: SocketId) -> Option<Passage> {
        let (_, seat) = self.connections.get(socket)?;
        let transfer = self.core.state.transfers.get(seat.owners.first()?.0)?;
        let place = transfer.extra.as_ref()?.file.clone()?;
        // The last byte is received, with whatever stands behind it: what a server says beyond its
        // response must be seen before the next transfer is given the connection.
        let len = place.len.min(self.connections.direct(socket).saturating_sub(1));
        let place = Passage::File(FileRange { len, ..place });
        (transfer.body == BodyUse::Splice && len > 0).then_some(place)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let state = &self.core.state;
        let own = [
            self.connections.poll_timeout(),
            state.transfer_timers.next(),
            state.origin_timers.next(),
            self.core.application.poll_timeout(),
        ];
        own.into_iter().flatten().min()
    }
}

impl<A: Application> Client<A> {
    #[inline]
    fn handle_socket(&mut self, now: Instant, socket: SocketId, event: SocketEvent<'_>) {
        match event {
            SocketEvent::Connected => self.connected(now, socket),
            SocketEvent::Sent(bytes) if bytes > 0 => {
                if let Some((_, seat)) = self.connections.get_mut(socket) {
                    seat.sent = true;
                    let id = seat.owners.last();
                    self.core.note_progress(now, id);
                }
            }
            SocketEvent::Spliced(bytes) => {
                if let Some((connection, seat)) = self.connections.get_mut(socket) {
                    let id = seat.owners.first();
                    if self.core.spliced(now, id, bytes) {
                        connection.set_held(true);
                    }
                }
            }
            _ => {}
        }
        self.connections.handle(now, socket, event, &mut self.core);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.connections.handle_timeout(now, &mut self.core);
        self.check_deadlines(now);
        if self.core.application.poll_timeout().is_some_and(|due| due <= now) {
            self.with(now, |application, context| application.handle_timeout(context));
        }
    }
}
