//! The client engine: transfers on connections that they share.
//!
//! A command names a transfer or a connection that may have ended since the command was queued: a
//! lookup that fails means that there is nothing left to do.

use std::time::{Duration, Instant, SystemTime};

use fulmar_engine::{
    Action, Connections, DriverEvent, End, Engine, Passage, SocketEvent, SocketId, Timeouts,
};
use fulmar_proto::{
    ClientConnection, Connection, FileRange, Reset, Segment, SpliceTarget, StreamId, Transmit,
};

use fulmar_semantics::cookies::Jar;

use crate::application::{Application, Context};
use crate::connection_data::{ConnectionData, ConnectionProgress};
use crate::connection_handler::ConnectionHandler;
use crate::connection_key::Hashed;
use crate::error::Error;
use crate::lost_exchange::failure;
use crate::options::{Config, Options};
use crate::pool::Multiplexing;
use crate::request::{CompiledOrigin, Request};
use crate::request_url::RequestUrl;
use crate::state::{CONNECTED, ClientState, Command, Stats, WAITED_FOR, is_older};
use crate::transfer::{BodyUse, TransferId};
use crate::transfer_stage::TransferStage;

/// A client, which a reactor drives.
///
/// Transfers are started with [`Client::start`], or by the application at any event. Each waits in
/// the queue of its origin until it gets a connection.
#[derive(Debug)]
pub struct Client<A> {
    pub(crate) connections: Connections<ClientConnection, ConnectionData>,
    pub(crate) core: ConnectionHandler<A>,
    /// The timeouts of connections without their own.
    pub(crate) usual_timeouts: Timeouts,
    due: Vec<u32>,
}

impl<A: Application> Client<A> {
    /// A client for `application`. `now` and `wall` are the same time on two clocks; the second one
    /// is for cookies and dates.
    pub fn new(now: Instant, wall: SystemTime, application: A, config: Config) -> Self {
        Self {
            connections: Connections::new(now, timeouts(&config, None), 0, 1),
            usual_timeouts: timeouts(&config, None),
            core: ConnectionHandler { application, state: ClientState::new(now, wall, config) },
            due: Vec::new(),
        }
    }

    /// The application.
    pub fn application(&self) -> &A {
        &self.core.application
    }

    /// The application, mutable.
    pub fn application_mut(&mut self) -> &mut A {
        &mut self.core.application
    }

    /// Calls `act` with the application and the operations on transfers.
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

    /// Transfers that have been started and have not ended.
    pub fn running(&self) -> usize {
        self.core.state.transfers.len()
    }

    /// Connections, including those that are being opened.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Idle connections.
    pub fn idle_connections(&self) -> usize {
        self.core.state.pool.idle()
    }

    /// True if a request to this URL with these options would use an idle connection.
    pub fn has_idle(&self, url: &str, options: &Options) -> bool {
        let Ok((target, _)) = RequestUrl::with_user(url) else { return false };
        let Ok(key) = options.key(&target, false) else { return false };
        self.core.state.pool.has_idle(&Hashed::new(key))
    }

    /// Connections that are being opened.
    pub fn connecting(&self) -> usize {
        self.core.state.attempts.len()
    }

    /// Transfers that have sent a request and received nothing. Walks all transfers: for reports,
    /// not for each turn.
    pub fn awaiting_response(&self) -> usize {
        let transfers = &self.core.state.transfers;
        let sent = |id: &SocketId| {
            transfers.get(*id).is_some_and(|transfer| transfer.stage == TransferStage::Sending)
        };
        transfers.keys().filter(sent).count()
    }

    /// Keys for which connections, also shared with other origins, waiting transfers or limits are
    /// kept now.
    pub fn origins(&self) -> usize {
        self.core.state.pool.len()
    }

    /// Counters since the start.
    pub fn stats(&self) -> Stats {
        self.core.state.stats
    }

    /// The cookies, if there is a jar.
    pub fn cookies(&self) -> Option<&Jar> {
        self.core.state.jar.as_ref()
    }

    /// Keeps cookies in `jar` from now on, and sends them; `None`: neither.
    pub fn set_cookies(&mut self, jar: Option<Jar>) {
        self.core.state.jar = jar;
    }

    /// Sets the limits and timeouts of connections and transfers from now on. Those that exceed a
    /// lower limit are kept. Timeouts apply to new connections, and a rate to new hosts.
    pub fn set_config(&mut self, now: Instant, config: Config) {
        self.core.state.config = config.bounded();
        while self.core.state.pool.idle() > self.core.state.config.idle_max && self.evict(now) {}
        self.run_commands(now);
    }

    /// The limits and timeouts.
    pub fn config(&self) -> &Config {
        &self.core.state.config
    }

    /// The transfer that a connection serves, or is opened for: of several, the first one. `None`
    /// if it is idle or closed.
    pub fn owner(&mut self, socket: SocketId) -> Option<TransferId> {
        let (_, data) = self.connections.get(socket)?;
        match data.stage {
            ConnectionProgress::Opening => self.core.state.front(data.origin()),
            ConnectionProgress::Http1
            | ConnectionProgress::AwaitsSettings
            | ConnectionProgress::Http2 => data.owners.first(),
        }
    }

    /// True if a request to this origin would be sent at once, on that connection.
    pub fn would_use(&self, origin: &CompiledOrigin, socket: SocketId) -> bool {
        let Some((connection, _)) = self.connections.get(socket) else { return false };
        if connection.vacancy() == 0 {
            return false;
        }
        let next = self.core.state.pool.next_for(origin.key());
        next.is_some_and(|next| next == socket.index)
    }

    /// What becomes of a connection whose request has ended.
    pub fn connection_use(&self, socket: SocketId) -> ConnectionUse {
        match self.connections.get(socket) {
            None => ConnectionUse::Closed,
            Some((_, data)) if data.stage.is_http2() && !data.owners.is_empty() => {
                ConnectionUse::Shared
            }
            Some((connection, data)) if data.owners.is_empty() && connection.vacancy() == 0 => {
                ConnectionUse::Closed // it is being closed
            }
            Some(_) => ConnectionUse::Kept,
        }
    }

    /// Closes idle connections. Connections in use are closed after their responses.
    pub fn close_idle(&mut self, now: Instant) {
        while self.evict(now) {}
        for socket in self.connections.sockets() {
            if let Some((connection, data)) = self.connections.get_mut(socket)
                && !data.owners.is_empty()
            {
                connection.close_after();
                self.connections.touch(now, socket, &mut self.core);
            }
        }
        self.run_commands(now);
    }

    /// Runs the commands that were queued while the connections were borrowed.
    #[inline]
    pub(crate) fn run_commands(&mut self, now: Instant) {
        while let Some(command) = self.core.state.commands.pop_front() {
            self.run_command(now, command);
        }
    }

    #[inline(never)] // mostly there is none
    fn run_command(&mut self, now: Instant, command: Command) {
        match command {
            Command::Dispatch(origin) => self.dispatch(now, origin),
            Command::Freed(socket) => self.on_freed(now, socket),
            Command::Cancel(socket, id) => self.cancel(now, socket, id),
            Command::Hold(id) => self.hold(now, id),
            Command::SendBody(id) => self.send_body(now, id),
            Command::Send(id, data) => self.send(now, id, data),
            Command::Offer(id) => self.offer(now, id),
            Command::Finish(id) => self.finish(now, id, fulmar_proto::Headers::EMPTY),
            Command::FinishWith(id, trailers) => self.finish(now, id, trailers.as_headers()),
            Command::Splice(id) => self.splice(id),
            Command::Race(at) => {
                self.race(now, at);
            }
            Command::Closed(data, socket, end) => self.on_closed(now, &data, socket, end),
        }
    }

    /// Assigns waiting transfers as far as possible; then other origins get the free connections.
    fn dispatch(&mut self, now: Instant, origin: usize) {
        let authority = self.core.state.pool.get(origin).map(|known| known.authority);
        self.assign_waiting(now, origin);
        self.serve_waiting_origin();
        if let Some(authority) = authority {
            self.serve_authority(authority);
        }
    }

    /// Assigns transfers one by one, as long as there is a connection for each.
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
            let Some(socket) = self.choose(now, origin, id) else { break };
            self.core.state.pool.pop(origin);
            self.assign(now, socket, id);
            begun = true;
        }
        self.open(now, origin, None);
    }

    /// A connection for the transfer: one that carries many, the one used last, or one to pipeline
    /// on.
    fn choose(&mut self, now: Instant, origin: usize, id: TransferId) -> Option<SocketId> {
        let known = self.core.state.pool.get(origin).expect(WAITED_FOR);
        let (multiplexing, pipelines) = (known.multiplexing, known.pipelines);
        let connecting = known.connecting;
        let coalesced_onto = known.coalesced_onto.filter(|_| known.coalesces);
        let request = &self.core.state.transfers.get(id.0).expect("it is in the queue").request;
        let options = request.options();
        let ages = (options.lifetime_max, options.idle_age_max);
        if options.fresh_connection {
            return self.choose_fresh(now, origin);
        }
        // As many connections are being opened, one for each.
        let has_own =
            !options.awaits_multiplexing && self.core.state.pool.waiting(origin) <= connecting;
        if multiplexing == Multiplexing::Yes
            && !has_own
            && let Some(socket) = self.choose_shared(origin)
        {
            return Some(socket);
        }
        if let Some(socket) = self.choose_idle(now, origin, ages) {
            return Some(socket);
        }
        if let Some(socket) = coalesced_onto.and_then(|at| self.choose_coalesced(now, at, id)) {
            return Some(socket);
        }
        let request = &self.core.state.transfers.get(id.0).expect("it is in the queue").request;
        let may_pipeline = pipelines && request.is_idempotent() && request.body().is_empty();
        match multiplexing {
            Multiplexing::No | Multiplexing::Unknown | Multiplexing::Failed if may_pipeline => {
                self.choose_shared(origin)
            }
            Multiplexing::No
            | Multiplexing::Unknown
            | Multiplexing::Failed
            | Multiplexing::Yes
            | Multiplexing::OneExchange => None,
        }
    }

    /// The idle connection that was used last. One that accepts no request any more is closed: its
    /// server has lowered the limit of streams to zero, or the connection is about to close.
    #[inline]
    fn choose_idle(
        &mut self,
        now: Instant,
        origin: usize,
        (lifetime_max, idle_age_max): (Option<Duration>, Option<Duration>),
    ) -> Option<SocketId> {
        let moment = self.core.state.moment(now);
        let is_watched = self.core.state.config.watches_idle;
        let idle_max = self.core.state.config.idle_timeout.filter(|_| !is_watched);
        while let Some(at) = self.core.state.pool.idle_of(origin) {
            self.core.state.pool.remove_idle(origin, at);
            let socket = self.connections.key(at);
            let (connection, data) = self.connections.get_mut(socket).expect(POOLED);
            let exceeds =
                |since, max: Option<Duration>| max.is_some_and(|max| is_older(moment, since, max));
            let is_old = exceeds(data.opened, lifetime_max)
                || exceeds(data.idle_since, idle_age_max)
                || exceeds(data.idle_since, idle_max);
            if connection.vacancy() > 0 && !is_old {
                self.core.state.set_watched(socket, true);
                return Some(socket);
            }
            connection.close_after();
            self.connections.touch(now, socket, &mut self.core);
        }
        None
    }

    /// The idle connection that has carried no request. If there is none, and no room for another
    /// connection of the origin, an idle one makes room.
    fn choose_fresh(&mut self, now: Instant, origin: usize) -> Option<SocketId> {
        let state = &mut self.core.state;
        let at = state.pool.idle_of(origin)?;
        let socket = self.connections.key(at);
        let (connection, data) = self.connections.get_mut(socket).expect(POOLED);
        if data.uses == 0 && connection.vacancy() > 0 {
            state.pool.remove_idle(origin, at);
            state.set_watched(socket, true);
            return Some(socket);
        }
        let open = state.pool.get(origin).expect(WAITED_FOR).connections;
        if open >= state.config.per_host_max {
            state.pool.remove_idle(origin, at);
            connection.close_after();
            self.connections.touch(now, socket, &mut self.core);
        }
        None
    }

    /// A connection with exchanges that accepts another one.
    fn choose_shared(&mut self, origin: usize) -> Option<SocketId> {
        while let Some(at) = self.core.state.pool.shared_of(origin) {
            let socket = self.connections.key(at);
            if self.connections.get(socket).is_some_and(|(connection, _)| connection.vacancy() > 0)
            {
                return Some(socket);
            }
            self.share(socket); // its peer has sent `Connection: close` or GOAWAY
        }
        None
    }

    /// Begins an exchange.
    pub(crate) fn assign(&mut self, now: Instant, socket: SocketId, id: TransferId) {
        let entry = self.connections.get_mut(socket).expect(POOLED);
        self.core.assign(now, socket, entry, id);
        self.share(socket);
        self.connections.touch(now, socket, &mut self.core);
    }

    /// Adds a connection to the list of those that accept requests besides those they have, or
    /// removes it.
    #[inline]
    fn share(&mut self, socket: SocketId) {
        let Some((connection, data)) = self.connections.get_mut(socket) else { return };
        let state = &mut self.core.state;
        let accepts = match connection {
            ClientConnection::Http1(..) if state.config.pipelining == 1 => return,
            ClientConnection::Http1(..) => {
                let proven = data.uses > 1; // it has stayed open after a response
                let idempotent = data.owners.last().is_none_or(|(_, id)| {
                    let transfer = state.transfers.get(id.0);
                    transfer.is_some_and(|transfer| transfer.request.is_idempotent())
                });
                proven && idempotent
            }
            ClientConnection::Http2(_) => true,
        };
        let origin = data.origin();
        let accepts = accepts && !state.pool.carries_one_exchange(origin);
        let wanted = !data.owners.is_empty() && connection.vacancy() > 0 && accepts;
        if wanted != data.shared {
            data.shared = wanted;
            let at = self.connections.position(socket);
            match wanted {
                true => state.pool.share(origin, at),
                false => state.pool.unshare(origin, at),
            }
        }
    }

    /// An exchange has ended: the connection gets the next one, or is idle.
    fn on_freed(&mut self, now: Instant, socket: SocketId) {
        self.share(socket);
        self.assign_in_turn(now, socket);
        let at = self.connections.position(socket);
        let Some((connection, data)) = self.connections.get_mut(socket) else { return };
        if !data.owners.is_empty() {
            return self.core.state.commands.push_back(Command::Dispatch(data.origin()));
        }
        if data.stage == ConnectionProgress::Opening || connection.io_state().finished {
            return;
        }
        if data.uses > 0 && self.core.state.pool.carries_one_exchange(data.origin()) {
            let (origin, stage) = (data.origin(), data.stage);
            self.connections.close(socket);
            return self.on_connection_removed(now, origin, stage);
        }
        if connection.vacancy() == 0 {
            match connection {
                // Upgraded, and the peer has closed its direction: no transfer is left to close
                // ours.
                ClientConnection::Http1(it, _) => it.reset(StreamId::default(), Reset::Cancelled),
                ClientConnection::Http2(it) => it.close_after(), // the server accepts no more
            }
            return self.connections.touch(now, socket, &mut self.core);
        }
        data.owners.release_memory();
        let has_served = data.uses > 0;
        data.idle_since = self.core.state.moment(now);
        let (origin, stage) = (data.origin(), data.stage);
        let pool = &self.core.state.pool;
        if data.uses >= FAIR_USES && pool.has_waiting_origins() && pool.waiting(origin) > 0 {
            // Its origin has had its share. Another command may have made it idle.
            let data = self.connections.close(socket).expect(POOLED);
            self.core.state.unlist(at, &data);
            return self.on_connection_removed(now, origin, stage);
        }
        self.core.state.pool.insert_idle(origin, at);
        self.core.state.set_watched(socket, false);
        if connection.io_state().wants_write {
            self.connections.touch(now, socket, &mut self.core); // the preface of HTTP/2
        }
        self.dispatch(now, origin);
        let state = &self.core.state;
        let is_over = state.pool.idle() > state.config.idle_max
            || self.connections.len() > state.config.kept_max;
        if is_over && has_served {
            self.evict(now);
        }
        self.serve_waiting_origin();
    }

    /// Closes the connection that has been idle for the longest time; false if none is.
    pub(crate) fn evict(&mut self, now: Instant) -> bool {
        let Some(at) = self.core.state.pool.oldest() else { return false };
        self.evict_at(now, at);
        true
    }

    /// Closes an idle connection.
    pub(crate) fn evict_at(&mut self, now: Instant, at: u32) {
        let data = self.connections.close(self.connections.key(at)).expect(POOLED);
        self.core.state.unlist(at, &data);
        self.on_connection_removed(now, data.origin(), data.stage);
    }

    /// An origin has one connection less, or one attempt at one.
    pub(crate) fn on_connection_removed(
        &mut self,
        now: Instant,
        origin: usize,
        stage: ConnectionProgress,
    ) {
        let state = &mut self.core.state;
        state.pool.remove_connection(origin);
        let known = state.pool.get_mut(origin).expect(CONNECTED);
        let authority = known.authority;
        known.connecting -= usize::from(stage.is_opening());
        if stage == ConnectionProgress::Opening && known.multiplexing == Multiplexing::Unknown {
            known.multiplexing = Multiplexing::Failed;
        }
        // Others may have waited longer.
        if state.pool.waiting(origin) == 0 || !state.pool.has_waiting_origins() {
            state.commands.push_back(Command::Dispatch(origin));
        } else if !state.pool.waiting_origins.is_empty() {
            state.pool.wait_for_connection(origin);
        } else if state.pool.authorities.is_awaited(authority) {
            state.pool.authorities.wait(authority, origin);
        } else {
            state.commands.push_back(Command::Dispatch(origin));
        }
        state.sweep(now, origin);
        self.serve_waiting_origin();
        self.serve_authority(authority);
    }

    /// If another connection is possible, the origin that has waited longest opens it.
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

    /// The transfer does not need its response any more.
    fn cancel(&mut self, now: Instant, socket: SocketId, id: TransferId) {
        let Some((connection, data)) = self.connections.get_mut(socket) else { return };
        let Some(stream) = data.owners.stream_of(id) else { return }; // its response is complete
        let transfers = &self.core.state.transfers;
        if connection.is_http2()
            || data.owners.iter().all(|(_, owner)| transfers.get(owner.0).is_none())
        {
            connection.reset(stream, Reset::Cancelled);
        } else {
            // The connection has other transfers: the unneeded response is discarded, if it is
            // short. Only the transfer of the next response can pause the connection.
            let next = data.owners.first().and_then(|owner| transfers.get(owner.0));
            let (stream, held) =
                next.map_or_else(Default::default, |next| (next.stream, next.is_held()));
            connection.set_held(stream, held);
        }
        self.connections.touch(now, socket, &mut self.core);
    }

    /// A transfer was paused or resumed.
    fn hold(&mut self, now: Instant, id: TransferId) {
        self.core.state.newly_held.clear(); // each has this command, or its event was of its stream
        let Some(transfer) = self.core.state.transfers.get(id.0) else { return };
        let held = transfer.is_held();
        if !held && self.core.drain(now, id) {
            return; // it has ended or has paused again
        }
        self.core.state.watch(now, id);
        let Some(transfer) = self.core.state.transfers.get(id.0) else { return };
        let (socket, stream) = (transfer.socket, transfer.stream);
        if !transfer.is_active() {
            return;
        }
        let Some((connection, data)) = self.connections.get_mut(socket) else { return };
        if !connection.is_http2() && data.owners.first() != Some(id) {
            return; // not its turn yet
        }
        connection.set_held(stream, held);
        self.connections.touch(now, socket, &mut self.core);
    }

    /// Sends the body of a request.
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
        // After all commands that were queued with this one: a finished body has no room.
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

    fn finish(&mut self, now: Instant, id: TransferId, trailers: fulmar_proto::Headers<'_>) {
        let Some(transfer) = self.core.state.transfers.get(id.0) else { return };
        let (socket, stream) = (transfer.socket, transfer.stream);
        if !transfer.is_active() {
            return;
        }
        let Some((connection, _)) = self.connections.get_mut(socket) else { return };
        if let Err(error) = connection.send_end(stream, trailers) {
            return self.core.usage_error(now, id, error);
        }
        self.connections.touch(now, socket, &mut self.core);
    }

    fn splice(&mut self, id: TransferId) {
        if let Some(transfer) = self.core.state.transfers.get(id.0) {
            self.connections.splice(transfer.socket, SpliceTarget::File);
        }
    }

    /// A connection is closed: fails the transfers on it.
    fn on_closed(&mut self, now: Instant, data: &ConnectionData, socket: SocketId, end: End) {
        if let Some(attempt) = data.attempt() {
            return self.handle_refused(now, (attempt, data.peer), socket, end);
        }
        if data.stage == ConnectionProgress::Opening {
            let known = self.core.state.pool.get(data.origin());
            let tunnel = known.is_some_and(|k| k.key.key().route.proxy().is_some());
            let error = match end {
                End::Failed(error) if tunnel => Error::Proxy(error),
                end => failure(end),
            };
            self.core.fail_front(now, data.origin(), error);
        }
        self.on_connection_removed(now, data.origin(), data.stage);
    }

    /// Notes whether the server has taken bytes of a request since the transfer's timer was checked
    /// the last time. With HTTP/1 this is noted when they are sent.
    fn note_sent(&mut self, now: Instant, id: TransferId) {
        let Some(transfer) = self.core.state.transfers.get_mut(id.0) else { return };
        if transfer.stage != TransferStage::Sending || !transfer.multiplexed {
            return;
        }
        let Some((connection, _)) = self.connections.get(transfer.socket) else { return };
        let taken = transfer.sent.saturating_sub(connection.unsent(transfer.stream));
        if std::mem::replace(&mut transfer.taken, taken) < taken {
            transfer.since = now;
        }
    }

    fn check_deadlines(&mut self, now: Instant) {
        let mut due = std::mem::take(&mut self.due);
        self.core.state.transfer_timers.expire(now, &mut due);
        for at in due.drain(..) {
            let id = TransferId(self.core.state.transfers.key(at));
            self.note_sent(now, id);
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

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionUse {
    /// It is closed, or accepts no further request.
    Closed,
    /// It is kept for other requests.
    Kept,
    /// It has other streams of HTTP/2.
    Shared,
}

/// The timeouts of connections. One that is not watched while it is idle has no timer: its age is
/// checked when it is used. `options` are those of the first transfer that waits for it.
pub(crate) fn timeouts(config: &Config, options: Option<&Options>) -> Timeouts {
    let own = |of: fn(&Options) -> Option<Duration>| options.and_then(of);
    Timeouts {
        connect: own(|options| options.connect_timeout).or(config.connect_timeout),
        handshake: own(|options| options.handshake_timeout).or(config.handshake_timeout),
        idle: config.idle_timeout.filter(|_| config.watches_idle),
        ..Timeouts::default()
    }
}

/// Exchanges for which a connection is kept while other origins wait for one. Opening another costs
/// about as much as this many requests save.
const FAIR_USES: u32 = 16;
const POOLED: &str = "the pool has open connections only";

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
            // It accepts no connections, and does not measure when requests are sent.
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
        let (_, data) = self.connections.get(socket)?;
        let transfer = self.core.state.transfers.get(data.owners.first()?.0)?;
        let place = transfer.extra.as_ref()?.file.clone()?;
        // The last byte is received together with what follows it: excess bytes must be noticed
        // before the next transfer gets the connection.
        let spliced = self.connections.splice_len(socket, SpliceTarget::File);
        let len = place.len.min(spliced.saturating_sub(1));
        let place = Passage::File(FileRange { len, ..place });
        (transfer.body == BodyUse::Splice && len > 0).then_some(place)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let state = &self.core.state;
        // Timers of the past may be armed. They are not worth a turn if nothing else needs one.
        let is_quiet = !state.config.watches_idle && state.transfers.is_empty();
        let is_idle = is_quiet && self.connections.len() == state.pool.idle();
        let own = [
            self.connections.poll_timeout().filter(|_| !is_idle),
            state.transfer_timers.next().filter(|_| !is_quiet),
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
            SocketEvent::Input(mut input) => {
                return self.connections.handle_input(now, socket, &mut input, &mut self.core);
            }
            SocketEvent::Connected => self.connected(now, socket),
            SocketEvent::Sent(bytes) if bytes > 0 => {
                if let Some((connection, data)) = self.connections.get_mut(socket) {
                    data.sent = true;
                    if !connection.is_http2() {
                        let id = data.owners.last().map(|(_, id)| id);
                        self.core.note_progress(now, id);
                    }
                }
            }
            SocketEvent::Spliced(bytes) => {
                if let Some((connection, data)) = self.connections.get_mut(socket) {
                    let id = data.owners.first();
                    if let Some(stream) = self.core.spliced(now, id, bytes) {
                        connection.set_held(stream, true);
                    }
                }
            }
            SocketEvent::Sent(_)
            | SocketEvent::Hangup
            | SocketEvent::Unread
            | SocketEvent::Loaded(_)
            | SocketEvent::Piped(_)
            | SocketEvent::Failed(_)
            | SocketEvent::FileFailed(_) => {}
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
