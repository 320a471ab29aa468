//! Queues of sessions that wait for a slot: one for each thread and backend.
//!
//! Sessions are served in order of arrival, across threads too. There is no clock here: the caller
//! cancels on `timeout queue`.
//!
//! The protocol for callers of [`ServerGroup`] and of the queue, with W = "wake that thread":
//!
//! ```text
//! try_place ── Wait(wants) ──▶ push ──▶ next_for or next, until None
//! leave(server) ─────────────────────▶ next_for(server), until None
//! set_*, slow_start_step ── threads_to_wake() ──▶ W    (any thread, also one without a queue)
//! woken: take_wake ── true ──▶ take_unreachable (place them anew), then next, until None
//! Place ──▶ continue with this server     Wake(thread) ──▶ W, and repeat
//! ```

use crate::balance::group::{FreeSlots, ServerGroup, Wants};
use crate::balance::wait_queues::{QueueEntry, WaitQueues};
use crate::balance::waiting::{OldestWaiting, QueueId};

/// Waiting sessions of a thread.
#[derive(Debug)]
pub struct WaitQueue<T> {
    thread: usize,
    lines: WaitQueues<T>,
}

/// Position of a waiting session. Invalid once the session has been served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTicket(QueueEntry);

/// The result of a query for the next session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextWaiting<T> {
    /// This session has got a slot of this server.
    Place {
        /// The session, as pushed.
        token: T,
        /// The server.
        server: usize,
    },
    /// A session of another thread is next: wake that thread.
    Wake(usize),
    /// No session waits for a free slot, or no slot is free.
    None,
}

impl<T> WaitQueue<T> {
    /// An empty queue of this thread. A thread has at most one queue for each group, since other
    /// threads rely on its published state.
    ///
    /// # Panics
    /// The thread already has a queue for this group.
    pub fn new(thread: usize, group: &ServerGroup) -> Self {
        assert!(group.waiting.take(thread), "a thread has only one queue for each group");
        Self { thread, lines: WaitQueues::new(group.members().len()) }
    }

    /// Number of waiting sessions.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// True if no session waits.
    pub fn is_empty(&self) -> bool {
        self.lines.len() == 0
    }

    /// Adds a session. A slot may have become free meanwhile: call [`WaitQueue::next`] afterwards
    /// (or `next_for` if it waits for one server).
    pub fn push(&mut self, group: &ServerGroup, wants: Wants, token: T) -> WaitTicket {
        let line = line(wants);
        let ticket = group.waiting.ticket();
        let entry = self.lines.push(line, ticket, token);
        self.publish(group, line, true);
        WaitTicket(entry)
    }

    /// Removes a session; `None` if it has been served. It may have been next: call
    /// [`WaitQueue::next`] or `next_for` afterwards.
    pub fn cancel(&mut self, group: &ServerGroup, ticket: WaitTicket) -> Option<T> {
        let (line, token) = self.lines.remove(ticket.0)?;
        self.publish(group, line, false);
        Some(token)
    }

    /// Number of sessions of this thread before it in the same queue.
    pub fn position(&self, ticket: WaitTicket) -> Option<usize> {
        self.lines.position(ticket.0)
    }

    /// The next session for this server, if it has a free slot.
    pub fn next_for(&mut self, group: &ServerGroup, server: usize) -> NextWaiting<T> {
        self.next_in(&QueueView::at(group), server)
    }

    fn next_in(&mut self, look: &QueueView<'_>, server: usize) -> NextWaiting<T> {
        let QueueView { group, room, any } = look;
        let member = &group.members()[server];
        if !member.is_reachable() || !room.is_at(server) {
            return NextWaiting::None;
        }
        let bound = (member.queued() > 0).then(|| group.waiting.first(Some(server))).flatten();
        let any = any.filter(|_| group.is_in_use(server));
        let Some(OldestWaiting { thread, line, .. }) = bound.into_iter().chain(any).min() else {
            return NextWaiting::None;
        };
        if thread != self.thread {
            let asleep = group.waiting.alarm(thread);
            return if asleep { NextWaiting::Wake(thread) } else { NextWaiting::None };
        }
        if !group.enter(server) {
            return NextWaiting::None;
        }
        let token = self.lines.pop(line).expect("the published first ticket is in the queue");
        self.publish(group, line, false);
        NextWaiting::Place { token, server }
    }

    /// The next session for any server.
    pub fn next(&mut self, group: &ServerGroup) -> NextWaiting<T> {
        if !group.waiting.is_any_waiting() {
            return NextWaiting::None;
        }
        let look = QueueView::at(group);
        for server in 0..group.members().len() {
            match self.next_in(&look, server) {
                NextWaiting::None => {}
                found => return found,
            }
        }
        NextWaiting::None
    }

    /// True if another thread has woken this one for its waiting sessions: then call
    /// [`WaitQueue::next`] until `None`. Call this after every wake-up, even if no session waits:
    /// no thread sets the alarm again before it is taken.
    pub fn take_wake(&self, group: &ServerGroup) -> bool {
        group.waiting.take_alarm(self.thread)
    }

    /// Removes a session that waits for a server that accepts no sessions any more.
    pub fn take_unreachable(&mut self, group: &ServerGroup) -> Option<T> {
        let gone = |server: &usize| !group.members()[*server].is_reachable();
        let all = 0..group.members().len();
        let server = all.filter(|server| self.lines.first(Some(*server)).is_some()).find(gone)?;
        let token = self.lines.pop(Some(server));
        debug_assert!(token.is_some(), "the queue has a first session");
        self.publish(group, Some(server), false);
        token
    }

    /// Publishes a change of a queue: the first ticket, then the count.
    fn publish(&self, group: &ServerGroup, line: QueueId, more: bool) {
        group.waiting.publish_first(self.thread, line, self.lines.first(line));
        group.waiting.count(self.thread, line, more);
        if let Some(server) = line {
            group.members()[server].count_waiting(more);
        }
    }
}

/// Values that are the same for all servers: a query costs one look at each server and each thread.
struct QueueView<'g> {
    group: &'g ServerGroup,
    room: FreeSlots<'g>,
    /// The oldest session that waits for any server.
    any: Option<OldestWaiting>,
}

impl<'g> QueueView<'g> {
    fn at(group: &'g ServerGroup) -> Self {
        Self { group, room: group.room(), any: group.waiting.first(None) }
    }
}

fn line(wants: Wants) -> QueueId {
    match wants {
        Wants::Any => None,
        Wants::Server(server) => Some(server),
    }
}
