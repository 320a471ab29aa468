//! The state of a client without its connections.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use fulmar_engine::{Action, End, LookupId, Slots, SocketId, TickSpan, Wheel};
use fulmar_proto::{FileRange, HeaderBuf, Segment};
use fulmar_semantics::cookies::Jar;
use slab::Slab;

use crate::attempt::Attempt;
use crate::auth_sessions::AuthSessions;
use crate::connection_data::ConnectionData;
use crate::deadline::later;
use crate::first_hop::{first_name, target_name};
use crate::host_limits::Permit;
use crate::options::{Config, Options};
use crate::pool::{AddressState, Pool, Swept};
use crate::request::Request;
use crate::transfer::{BodyUse, OwnConnection, Transfer, TransferId};
use crate::transfer_stage::TransferStage;

/// Transfers, the pool, and commands for when the connections are available.
#[derive(Debug)]
pub(crate) struct ClientState {
    pub(crate) config: Config,
    /// The same time on both clocks.
    pub(crate) epoch: (Instant, SystemTime),
    pub(crate) transfers: Slots<Transfer>,
    pub(crate) pool: Pool,
    pub(crate) attempts: Slab<Attempt>,
    pub(crate) commands: VecDeque<Command>,
    pub(crate) actions: VecDeque<Action>,
    /// Transfers on streams of HTTP/2 that were paused in the current event.
    pub(crate) newly_held: Vec<TransferId>,
    /// The timers of transfers, by their position.
    pub(crate) transfer_timers: Wheel,
    /// The timers of origins.
    pub(crate) origin_timers: Wheel,
    pub(crate) jar: Option<Jar>,
    /// Authentication sessions with origins that have sent challenges.
    pub(crate) sessions: AuthSessions,
    /// Descriptors or memory ran out: no connection is opened until then.
    pub(crate) exhausted_until: Option<Instant>,
    pub(crate) stats: Stats,
}

/// Commands that wait until the connections are not borrowed: no callback is re-entrant.
#[derive(Debug)]
pub(crate) enum Command {
    /// Transfers of this origin wait.
    Dispatch(usize),
    /// An exchange on this connection has ended.
    Freed(SocketId),
    /// The response to this transfer on this connection is not needed any more.
    Cancel(SocketId, TransferId),
    /// A transfer was paused or resumed.
    Hold(TransferId),
    /// The body of a request can be sent.
    SendBody(TransferId),
    /// Bytes of a request's body.
    Send(TransferId, Segment),
    /// There may be room for more of them.
    Offer(TransferId),
    /// A request's body is complete.
    Finish(TransferId),
    /// The same, with trailers.
    FinishWith(TransferId, Box<HeaderBuf>),
    /// The received body goes to the transfer's file.
    Splice(TransferId),
    /// The next address is tried in parallel.
    Race(u32),
    /// A connection is closed.
    Closed(Box<ConnectionData>, SocketId, End),
}

/// Counters of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Transfers started.
    pub started: u64,
    /// Transfers ended, with removed ones.
    pub ended: u64,
    /// Connections begun, with failed attempts.
    pub connections: u64,
    /// Connections established.
    pub established: u64,
    /// Exchanges on a connection that had been used before.
    pub reused: u64,
}

impl ClientState {
    pub(crate) fn new(now: Instant, wall: SystemTime, config: Config) -> Self {
        Self {
            config: config.bounded(),
            epoch: (now, wall),
            transfers: Slots::new(0, 1),
            pool: Pool::default(),
            attempts: Slab::new(),
            commands: VecDeque::new(),
            actions: VecDeque::new(),
            newly_held: Vec::new(),
            transfer_timers: Wheel::new(now),
            origin_timers: Wheel::new(now),
            jar: None,
            sessions: AuthSessions::default(),
            exhausted_until: None,
            stats: Stats::default(),
        }
    }

    pub(crate) fn start(&mut self, now: Instant, request: Request) -> TransferId {
        self.stats.started += 1;
        let origin = self.pool.origin(request.hashed());
        let options = request.options();
        let has_total = options.total_timeout.or(options.queue_timeout).is_some();
        let id = TransferId(self.transfers.insert(Transfer::new(now, request, origin)));
        if has_total {
            self.watch(now, id);
        }
        self.wait(origin, id, false);
        id
    }

    /// Queues a transfer for a connection.
    fn wait(&mut self, origin: usize, id: TransferId, again: bool) {
        self.pool.enqueue(origin, id, again);
        self.commands.push_back(Command::Dispatch(origin));
    }

    /// A transfer has left the queue of an origin without its dispatch. If that is the last command
    /// and no other transfer waits, it would find nothing to do.
    pub(crate) fn cancel_dispatch(&mut self, origin: usize) {
        let is_last = matches!(self.commands.back(), Some(Command::Dispatch(of)) if *of == origin);
        if is_last && self.pool.waiting(origin) == 0 {
            self.commands.pop_back();
        }
    }

    /// Starts a transfer again, with another request or the same.
    pub(crate) fn restart(&mut self, now: Instant, id: TransferId, request: Request, again: bool) {
        let transfer = self.transfers.get_mut(id.0).expect(RUNNING);
        let is_same_key = transfer.request.hashed() == request.hashed();
        let misdirected = transfer.extra.as_mut().and_then(|extra| {
            extra.misdirected.take_if(|_| !is_same_key);
            extra.misdirected
        });
        let origin = match misdirected {
            Some(OwnConnection::OfRequest) => self.pool.misdirected_origin(request.hashed()),
            Some(OwnConnection::OfOrigin) | None => self.pool.origin(request.hashed()),
        };
        transfer.request = request;
        transfer.origin = origin;
        transfer.stage = TransferStage::Queued;
        transfer.since = now;
        transfer.timestamps.again(now);
        (transfer.received, transfer.sent, transfer.status) = (0, 0, 0);
        transfer.finished = false;
        transfer.body = BodyUse::Deliver;
        if transfer.request.options().queue_timeout.is_some() {
            self.watch(now, id);
        }
        self.wait(origin, id, again);
    }

    /// Removes a transfer: its name is stale from now on.
    #[inline(always)] // so that the transfer is not moved to its caller
    pub(crate) fn remove(&mut self, now: Instant, id: TransferId) -> Option<Transfer> {
        let transfer = self.transfers.remove(id.0)?;
        self.stats.ended += 1;
        match transfer.stage {
            TransferStage::Queued => {
                let alive = |id: TransferId| self.transfers.get(id.0).is_some();
                self.pool.withdraw(transfer.origin, alive);
            }
            TransferStage::Detached => {}
            TransferStage::Expecting | TransferStage::Sending | TransferStage::Receiving => {
                self.leave(transfer.origin);
                self.commands.push_back(Command::Cancel(transfer.socket, id));
            }
        }
        self.sweep(now, transfer.origin);
        Some(transfer)
    }

    /// The transfer, if it is active on this connection. It may have ended or moved to another one.
    pub(crate) fn active_on(&self, socket: SocketId, id: TransferId) -> Option<&Transfer> {
        let transfer = self.transfers.get(id.0);
        transfer.filter(|transfer| transfer.is_active() && transfer.socket == socket)
    }

    /// The transfer that has waited longest at an origin.
    pub(crate) fn front(&mut self, origin: usize) -> Option<TransferId> {
        let Self { transfers, pool, .. } = self;
        pool.front(origin, |id| {
            transfers.get(id.0).is_some_and(|transfer| transfer.stage == TransferStage::Queued)
        })
    }

    /// True if a transfer may use a connection that has just carried another exchange.
    #[inline]
    pub(crate) fn may_follow(
        &mut self,
        now: Instant,
        id: TransferId,
        data: &ConnectionData,
    ) -> bool {
        let moment = self.moment(now);
        let Some(transfer) = self.transfers.get(id.0) else { return false };
        let options = transfer.request.options();
        let is_old = |max| is_older(moment, data.opened, max);
        !options.fresh_connection && !options.lifetime_max.is_some_and(is_old)
    }

    /// The options of that transfer.
    pub(crate) fn front_options(&mut self, origin: usize) -> Option<Arc<Options>> {
        let id = self.front(origin)?;
        Some(Arc::clone(self.transfers.get(id.0)?.request.options()))
    }

    /// An exchange with the origin begins.
    #[inline]
    pub(crate) fn join(&mut self, now: Instant, origin: usize) {
        let known = self.pool.get_mut(origin).expect(CONNECTED);
        known.active += 1;
        let host = known.host;
        self.pool.hosts.begin(host, now, &self.config);
    }

    /// An exchange with the origin ends.
    pub(crate) fn leave(&mut self, origin: usize) {
        let known = self.pool.get_mut(origin).expect("an origin outlives its exchanges");
        known.active -= 1;
        let host = known.host;
        let waiting_origins = self.pool.hosts.end(host).map(Command::Dispatch);
        self.commands.extend(waiting_origins);
    }

    /// A connection ends: removes it from all lists of the pool. The origins that were coalesced
    /// onto it continue on others.
    pub(crate) fn unlist(&mut self, connection: u32, data: &ConnectionData) {
        let origin = data.origin();
        self.pool.remove_idle(origin, connection);
        if data.shared {
            self.pool.unshare(origin, connection);
        }
        let served = self.pool.end_coalescing(origin, data.peer.map(|peer| peer.ip()), connection);
        self.commands.extend(served.into_iter().map(Command::Dispatch));
    }

    /// Removes an origin that is not needed.
    pub(crate) fn sweep(&mut self, now: Instant, origin: usize) {
        match self.pool.sweep(origin, now) {
            Swept::Kept | Swept::Removed { resolving: false } => {}
            Swept::Until(until) => self.set_origin_timer(origin, until),
            Swept::Removed { resolving: true } => {
                self.actions.push_back(Action::Abandon { lookup: lookup(origin) });
            }
        }
    }

    /// A transfer was paused: nothing more of a stream is delivered, not even in this event.
    pub(crate) fn note_held(&mut self, id: TransferId) {
        let transfer = self.transfers.get(id.0);
        if transfer.is_some_and(|transfer| transfer.multiplexed && transfer.is_active()) {
            self.newly_held.push(id);
        }
    }

    /// An idle connection needs no event of an application's loop, or is used again.
    pub(crate) fn set_watched(&mut self, socket: SocketId, on: bool) {
        if !self.config.watches_idle {
            self.actions.push_back(Action::Watch { socket, on });
        }
    }

    pub(crate) fn set_origin_timer(&mut self, origin: usize, at: Instant) {
        let tick = self.origin_timers.tick_from(at);
        self.origin_timers.arm(position(origin), tick);
    }

    /// Stores the rest of a transfer's body in a file, if that is possible.
    pub(crate) fn store(&mut self, id: TransferId, place: FileRange) -> bool {
        let Some(transfer) = self.transfers.get_mut(id.0) else { return false }; // it has ended
        let plain = transfer.extra.as_ref().is_none_or(|extra| extra.decoder.is_none());
        // The bytes of a multiplexed connection are not those of one body.
        let plain = plain && !transfer.multiplexed;
        if !plain || transfer.len.is_none() || transfer.body != BodyUse::Deliver {
            return false;
        }
        transfer.body = BodyUse::Splice;
        transfer.extra().file = Some(place);
        self.commands.push_back(Command::Splice(id));
        true
    }

    /// Sets the transfer's timer after its stage has begun or changed, unless it has ended.
    pub(crate) fn watch(&mut self, now: Instant, id: TransferId) {
        let Some(transfer) = self.transfers.get_mut(id.0) else { return };
        if transfer.since == now
            && transfer.extra.is_none()
            && let Some(span) = transfer.request.stage_timeout(transfer.stage)
        {
            // Only the stage has a deadline.
            if span < transfer.armed {
                transfer.armed = span;
                let tick = self.transfer_timers.tick(now).after(span);
                self.transfer_timers.arm(self.transfers.position(id.0), tick);
            }
            return;
        }
        let deadline = transfer.deadline().map(|(due, _)| due);
        let Some(due) = deadline.into_iter().chain(transfer.next_check()).min() else { return };
        let span = TickSpan::from(due.saturating_duration_since(now));
        if span < transfer.armed {
            transfer.armed = span;
            let tick = self.transfer_timers.tick_from(due);
            self.transfer_timers.arm(self.transfers.position(id.0), tick);
        }
    }

    /// Whether the first transfer of this queue may be sent. If not, the origin waits.
    pub(crate) fn permit(&mut self, now: Instant, origin: usize) -> bool {
        let host = self.pool.get(origin).expect(WAITED_FOR).host;
        match self.pool.hosts.permit(host, now, &self.config) {
            Permit::Go => return true,
            Permit::At(due) => self.set_origin_timer(origin, due),
            Permit::Later => self.pool.hosts.wait(host, origin),
        }
        false
    }

    /// A time in hundredths of a second since the client began, as connections store it: for more
    /// than a year.
    pub(crate) fn moment(&mut self, now: Instant) -> u32 {
        let millis = self.transfer_timers.tick(now).number(); // of one turn, they are reckoned once
        u32::try_from(millis / 10).unwrap_or(u32::MAX)
    }

    /// A time in microseconds, as connections store it. Differences are right for an hour.
    #[expect(clippy::cast_possible_truncation, reason = "it wraps")]
    pub(crate) fn stamp(&self, now: Instant) -> u32 {
        now.saturating_duration_since(self.epoch.0).as_micros() as u32
    }

    /// Starts the resolver, unless it runs.
    pub(crate) fn ask(&mut self, now: Instant, origin: usize) {
        let known = self.pool.get_mut(origin).expect(WAITED_FOR);
        if matches!(known.addresses, AddressState::Unknown) {
            known.addresses = AddressState::Resolving(now);
            let key = known.key.key();
            let first = first_name(key).filter(|_| known.first_hop.is_none());
            let name = first.or_else(|| target_name(key).map(Into::into));
            let name = name.expect("a name is missing").into_owned().into();
            self.actions.push_back(Action::Resolve { lookup: lookup(origin), name });
            if let Some(span) = self.config.name_timeout {
                self.set_origin_timer(origin, later(now, span));
            }
        }
    }
}

pub(crate) const CONNECTED: &str = "an origin outlives its connections";
pub(crate) const RUNNING: &str = "the transfer has not ended";
pub(crate) const WAITED_FOR: &str = "an origin outlives its waiting transfers";

/// True if more than `max` have passed between two moments, both in whole seconds.
pub(crate) fn is_older(moment: u32, since: u32, max: Duration) -> bool {
    u64::from(moment.saturating_sub(since) / 100) > max.as_secs()
}

/// The position of an origin for the boundary and the timers.
pub(crate) fn position(origin: usize) -> u32 {
    u32::try_from(origin).expect("there are fewer than 2^32 origins")
}

pub(crate) fn lookup(origin: usize) -> LookupId {
    LookupId(position(origin))
}
