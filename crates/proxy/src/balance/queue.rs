//! Queues of sessions that wait for a slot: one for each thread and backend.
//!
//! Sessions are served in order of arrival, across threads too. There is no clock here: the caller
//! cancels on `timeout queue`.
//!
//! The protocol for callers, with W = "wake that thread":
//!
//! ```text
//! Group::try_place ── Wait(wants) ──▶ push ──▶ next_for or next, until Nobody
//! Group::leave(server) ─────────────────────▶ next_for(server), until Nobody
//! Group::set_*, Group::warm ── waiters() ──▶ W    (any thread, also one without a queue)
//! woken: take_wake ── true ──▶ take_unreachable (place them anew), then next, until Nobody
//! Next::Place ──▶ continue with this server     Next::Wake(thread) ──▶ W, and repeat
//! ```

use crate::balance::group::{Group, Room, Wants};
use crate::balance::lines::{Entry, Lines};
use crate::balance::waiting::{Line, Waiter};

/// Waiting sessions of a thread.
#[derive(Debug)]
pub struct Queue<T> {
    thread: usize,
    lines: Lines<T>,
}

/// Position of a waiting session. Invalid once the session has been served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(Entry);

/// The result of a query for the next session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<T> {
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
    Nobody,
}

impl<T> Queue<T> {
    /// An empty queue of this thread. A thread has at most one queue for each group, since other
    /// threads rely on its published state.
    ///
    /// # Panics
    /// The thread already has a queue for this group.
    pub fn new(thread: usize, group: &Group) -> Self {
        assert!(group.waiting.take(thread), "a thread has only one queue for each group");
        Self { thread, lines: Lines::new(group.members().len()) }
    }

    /// Number of waiting sessions.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// True if no session waits.
    pub fn is_empty(&self) -> bool {
        self.lines.len() == 0
    }

    /// Adds a session. A slot may have become free meanwhile: call [`Queue::next`] afterwards (or
    /// `next_for` if it waits for one server).
    pub fn push(&mut self, group: &Group, wants: Wants, token: T) -> Ticket {
        let line = line(wants);
        let ticket = group.waiting.ticket();
        let entry = self.lines.push(line, ticket, token);
        self.tell(group, line, true);
        Ticket(entry)
    }

    /// Removes a session; `None` if it has been served. It may have been next: call [`Queue::next`]
    /// or `next_for` afterwards.
    pub fn cancel(&mut self, group: &Group, ticket: Ticket) -> Option<T> {
        let (line, token) = self.lines.remove(ticket.0)?;
        self.tell(group, line, false);
        Some(token)
    }

    /// Number of sessions of this thread before it in the same queue.
    pub fn position(&self, ticket: Ticket) -> Option<usize> {
        self.lines.position(ticket.0)
    }

    /// The next session for this server, if it has a free slot.
    pub fn next_for(&mut self, group: &Group, server: usize) -> Next<T> {
        self.next_in(&Look::at(group), server)
    }

    fn next_in(&mut self, look: &Look<'_>, server: usize) -> Next<T> {
        let Look { group, room, any } = look;
        let member = &group.members()[server];
        if !member.is_reachable() || !room.is_at(server) {
            return Next::Nobody;
        }
        let bound = (member.queued() > 0).then(|| group.waiting.first(Some(server))).flatten();
        let any = any.filter(|_| group.is_in_use(server));
        let Some(Waiter { thread, line, .. }) = bound.into_iter().chain(any).min() else {
            return Next::Nobody;
        };
        if thread != self.thread {
            let asleep = group.waiting.alarm(thread);
            return if asleep { Next::Wake(thread) } else { Next::Nobody };
        }
        if !group.enter(server) {
            return Next::Nobody;
        }
        let token = self.lines.pop(line).expect("the published first ticket is in the queue");
        self.tell(group, line, false);
        Next::Place { token, server }
    }

    /// The next session for any server.
    pub fn next(&mut self, group: &Group) -> Next<T> {
        if !group.waiting.is_anybody() {
            return Next::Nobody;
        }
        let look = Look::at(group);
        for server in 0..group.members().len() {
            match self.next_in(&look, server) {
                Next::Nobody => {}
                found => return found,
            }
        }
        Next::Nobody
    }

    /// True if another thread has woken this one for its waiting sessions: then call
    /// [`Queue::next`] until `Nobody`. Call this after every wake-up, even if no session waits: no
    /// thread sets the alarm again before it is taken.
    pub fn take_wake(&self, group: &Group) -> bool {
        group.waiting.take_alarm(self.thread)
    }

    /// Removes a session that waits for a server that accepts no sessions any more.
    pub fn take_unreachable(&mut self, group: &Group) -> Option<T> {
        let gone = |server: &usize| !group.members()[*server].is_reachable();
        let all = 0..group.members().len();
        let server = all.filter(|server| self.lines.first(Some(*server)).is_some()).find(gone)?;
        let token = self.lines.pop(Some(server));
        self.tell(group, Some(server), false);
        token
    }

    /// Publishes a change of a queue: the first ticket, then the count.
    fn tell(&self, group: &Group, line: Line, more: bool) {
        group.waiting.tell_first(self.thread, line, self.lines.first(line));
        group.waiting.count(self.thread, line, more);
        if let Some(server) = line {
            group.members()[server].count_waiting(more);
        }
    }
}

/// Values that are the same for all servers: a query costs one look at each server and each thread.
struct Look<'g> {
    group: &'g Group,
    room: Room<'g>,
    /// The oldest session that waits for any server.
    any: Option<Waiter>,
}

impl<'g> Look<'g> {
    fn at(group: &'g Group) -> Self {
        Self { group, room: group.room(), any: group.waiting.first(None) }
    }
}

fn line(wants: Wants) -> Line {
    match wants {
        Wants::Any => None,
        Wants::Server(server) => Some(server),
    }
}
