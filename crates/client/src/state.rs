//! Everything about transfers that needs no connection at hand.

use std::collections::VecDeque;
use std::time::{Instant, SystemTime};

use fulmar_engine::{Action, End, LookupId, Slots, SocketId, Span, Wheel};
use fulmar_proto::{FileRange, Segment};
use fulmar_semantics::cookies::Jar;
use slab::Slab;

use crate::connect::Attempt;
use crate::deadline::later;
use crate::hosts::Permit;
use crate::identity::AuthSessions;
use crate::options::Config;
use crate::pool::{AddressState, Pool, Swept, name_to_resolve};
use crate::request::Request;
use crate::seat::Seat;
use crate::transfer::{BodyUse, Transfer, TransferId, TransferStage};

/// Transfers, the pool, and what is to be done as soon as the connections are at hand.
#[derive(Debug)]
pub(crate) struct ClientState {
    pub(crate) config: Config,
    /// One moment on both clocks.
    pub(crate) epoch: (Instant, SystemTime),
    pub(crate) transfers: Slots<Transfer>,
    pub(crate) pool: Pool,
    pub(crate) attempts: Slab<Attempt>,
    pub(crate) commands: VecDeque<Command>,
    pub(crate) actions: VecDeque<Action>,
    /// When transfers are to be looked at, by their position.
    pub(crate) transfer_timers: Wheel,
    /// When origins are.
    pub(crate) origin_timers: Wheel,
    pub(crate) jar: Option<Jar>,
    /// How origins are proved to, that have asked.
    pub(crate) sessions: AuthSessions,
    /// Descriptors or memory ran out: nothing is opened until then.
    pub(crate) exhausted_until: Option<Instant>,
    pub(crate) stats: Stats,
}

/// What has to wait until the connections are at hand: nothing is re-entrant.
#[derive(Debug)]
pub(crate) enum Command {
    /// Transfers of this origin wait.
    Dispatch(usize),
    /// An exchange on this connection has ended.
    Freed(SocketId),
    /// Nobody wants the answer any more that this connection owes.
    Cancel(SocketId, TransferId),
    /// A transfer was paused or resumed.
    Hold(TransferId),
    /// The body of a request may leave.
    SendBody(TransferId),
    /// Bytes of a request's body.
    Send(TransferId, Segment),
    /// There may be room for more of them.
    Offer(TransferId),
    /// A request's body is complete.
    Finish(TransferId),
    /// What arrives for this transfer goes to its file.
    Splice(TransferId),
    /// The next address is to be tried beside those that have not answered yet.
    Race(u32),
    /// A connection is gone.
    Closed(Box<Seat>, SocketId, End),
}

/// What a client has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Transfers started.
    pub started: u64,
    /// Transfers that are over, removed ones included.
    pub ended: u64,
    /// Connections asked for.
    pub connections: u64,
    /// Exchanges begun on a connection that had been used before.
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
        let has_total = request.options().total_timeout.is_some();
        let id = TransferId(self.transfers.insert(Transfer::new(now, request, origin)));
        if has_total {
            self.watch(now, id);
        }
        self.wait(origin, id, false);
        id
    }

    /// A transfer waits for a connection.
    fn wait(&mut self, origin: usize, id: TransferId, again: bool) {
        self.pool.enqueue(origin, id, again);
        self.commands.push_back(Command::Dispatch(origin));
    }

    /// A transfer begins again, with another request or the same.
    pub(crate) fn restart(&mut self, now: Instant, id: TransferId, request: Request, again: bool) {
        let origin = self.pool.origin(request.hashed());
        let Some(transfer) = self.transfers.get_mut(id.0) else { return };
        transfer.request = request;
        transfer.origin = origin;
        transfer.stage = TransferStage::Queued;
        transfer.since = now;
        transfer.timestamps.again(now);
        (transfer.received, transfer.sent, transfer.status) = (0, 0, 0);
        transfer.finished = false;
        transfer.body = BodyUse::Deliver;
        self.wait(origin, id, again);
    }

    /// A transfer is over or given up: its name is stale from now on.
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

    /// The transfer, if it stands on this connection: it may be over, or have gone on elsewhere.
    pub(crate) fn active_on(&self, socket: SocketId, id: TransferId) -> Option<&Transfer> {
        let transfer = self.transfers.get(id.0);
        transfer.filter(|transfer| transfer.is_active() && transfer.socket == socket)
    }

    /// The transfer that waits longest at an origin.
    pub(crate) fn front(&mut self, origin: usize) -> Option<TransferId> {
        let Self { transfers, pool, .. } = self;
        pool.front(origin, |id| {
            transfers.get(id.0).is_some_and(|transfer| transfer.stage == TransferStage::Queued)
        })
    }

    /// One exchange with the origin more.
    pub(crate) fn join(&mut self, now: Instant, origin: usize) {
        if let Some(known) = self.pool.get_mut(origin) {
            known.active += 1;
            let host = known.host;
            self.pool.hosts.begin(host, now, &self.config);
        }
    }

    /// One exchange with the origin less.
    pub(crate) fn leave(&mut self, origin: usize) {
        let Some(known) = self.pool.get_mut(origin) else { return };
        known.active -= 1;
        let host = known.host;
        let waiting_origins = self.pool.hosts.end(host).map(Command::Dispatch);
        self.commands.extend(waiting_origins);
    }

    /// Forgets an origin that nobody needs.
    pub(crate) fn sweep(&mut self, now: Instant, origin: usize) {
        match self.pool.sweep(origin, now) {
            Swept::Kept | Swept::Gone { asked: false } => {}
            Swept::Until(until) => self.set_origin_timer(origin, until),
            Swept::Gone { asked: true } => {
                self.actions.push_back(Action::Abandon { lookup: lookup(origin) });
            }
        }
    }

    pub(crate) fn set_origin_timer(&mut self, origin: usize, at: Instant) {
        let tick = self.origin_timers.tick_from(at);
        self.origin_timers.arm(position(origin), tick);
    }

    /// What arrives for a transfer is to go into a file, if that can be done.
    pub(crate) fn store(&mut self, id: TransferId, place: FileRange) -> bool {
        let Some(transfer) = self.transfers.get_mut(id.0) else { return false };
        let plain = transfer.extra.as_ref().is_none_or(|extra| extra.decoder.is_none());
        if !plain || transfer.len.is_none() || transfer.body != BodyUse::Deliver {
            return false;
        }
        transfer.body = BodyUse::Splice;
        transfer.extra().file = Some(place);
        self.commands.push_back(Command::Splice(id));
        true
    }

    /// The stage of a transfer has begun or changed: it is looked at in time.
    pub(crate) fn watch(&mut self, now: Instant, id: TransferId) {
        let Some(transfer) = self.transfers.get_mut(id.0) else { return };
        if transfer.since == now
            && transfer.extra.is_none()
            && let Some(span) = transfer.request.silence_timeouts(transfer.stage)
        {
            // Nothing but the server's silence is to be looked for.
            if span < transfer.armed {
                transfer.armed = span;
                let tick = self.transfer_timers.tick(now).after(span);
                self.transfer_timers.arm(self.transfers.position(id.0), tick);
            }
            return;
        }
        let deadline = transfer.deadline().map(|(due, _)| due);
        let Some(due) = deadline.into_iter().chain(transfer.next_check()).min() else { return };
        let span = Span::from(due.saturating_duration_since(now));
        if span < transfer.armed {
            transfer.armed = span;
            let tick = self.transfer_timers.tick_from(due);
            self.transfer_timers.arm(self.transfers.position(id.0), tick);
        }
    }

    /// May the transfer at the front of this queue go?
    pub(crate) fn permit(&mut self, now: Instant, origin: usize) -> bool {
        let Some(known) = self.pool.get(origin) else { return false };
        let host = known.host;
        match self.pool.hosts.permit(host, now, &self.config) {
            Permit::Go => return true,
            Permit::At(due) => self.set_origin_timer(origin, due),
            Permit::Later => self.pool.hosts.wait(host, origin),
        }
        false
    }

    /// A moment as seats keep it: differences are right for an hour.
    #[expect(clippy::cast_possible_truncation, reason = "it wraps")]
    pub(crate) fn stamp(&self, now: Instant) -> u32 {
        now.saturating_duration_since(self.epoch.0).as_micros() as u32
    }

    /// The resolver is asked, unless it has been.
    pub(crate) fn ask(&mut self, now: Instant, origin: usize) {
        let Some(known) = self.pool.get_mut(origin) else { return };
        if matches!(known.addresses, AddressState::Unknown) {
            known.addresses = AddressState::Resolving(now);
            let name = name_to_resolve(&known.key).into();
            self.actions.push_back(Action::Resolve { lookup: lookup(origin), name });
            if let Some(span) = self.config.name_timeout {
                self.set_origin_timer(origin, later(now, span));
            }
        }
    }
}

/// An origin's place as the boundary and the wheel know it.
pub(crate) fn position(origin: usize) -> u32 {
    u32::try_from(origin).expect("there are fewer than 2^32 origins")
}

pub(crate) fn lookup(origin: usize) -> LookupId {
    LookupId(position(origin))
}
