//! Who waits for a place: one for each thread and backend.
//!
//! First come, first served, across threads too. Nothing here has a clock: `timeout queue` is the
//! caller's, who cancels.
//!
//! What the caller does, with W = "wake that thread":
//!
//! ```text
//! Group::try_place ── Wait(wants) ──▶ push ──▶ next_for or next, until Nobody
//! Group::leave(server) ─────────────────────▶ next_for(server), until Nobody
//! Group::set_*, Group::warm ── waiters() ──▶ W    (any thread, also one without a queue)
//! woken: take_wake ── true ──▶ take_unreachable (place them anew), then next, until Nobody
//! Next::Place ──▶ go on with it there     Next::Wake(thread) ──▶ W, and ask again
//! ```

use crate::balance::group::{Group, Room, Wants};
use crate::balance::lines::{Entry, Lines};
use crate::balance::waiting::{Line, Waiter};

/// Who waits for a place.
#[derive(Debug)]
pub struct Queue<T> {
    thread: usize,
    lines: Lines<T>,
}

/// One that waits: its place in the queue. Once it has been served, it means nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(Entry);

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<T> {
    /// This one's: it has a place at this server now.
    Place {
        /// What was pushed.
        token: T,
        /// Where.
        server: usize,
    },
    /// Somebody's on this thread: wake it.
    Wake(usize),
    /// Nobody waits for what is free, or nothing is free.
    Nobody,
}

impl<T> Queue<T> {
    /// An empty one, of this thread, which has no other for this group: what one tells of its
    /// lines, others take for so. A second one is a broken promise, and panics.
    pub fn new(thread: usize, group: &Group) -> Self {
        assert!(group.waiting.take(thread), "a thread has one queue for each group");
        Self { thread, lines: Lines::new(group.members().len()) }
    }

    /// How many wait here.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// True if nobody waits here.
    pub fn is_empty(&self) -> bool {
        self.lines.len() == 0
    }

    /// This one waits from now on. A place may have become free meanwhile: ask [`Queue::next`] (or
    /// `next_for`, if it is for one server) afterwards.
    pub fn push(&mut self, group: &Group, wants: Wants, token: T) -> Ticket {
        let line = line(wants);
        let ticket = group.waiting.ticket();
        let entry = self.lines.push(line, ticket, token);
        self.tell(group, line, true);
        Ticket(entry)
    }

    /// Takes back one that waits; `None`: it has been served. If it had been its turn, it is
    /// another's now: ask [`Queue::next`] or `next_for` afterwards.
    pub fn cancel(&mut self, group: &Group, ticket: Ticket) -> Option<T> {
        let (line, token) = self.lines.remove(ticket.0)?;
        self.tell(group, line, false);
        Some(token)
    }

    /// How many of this thread came before it and wait in the same line.
    pub fn position(&self, ticket: Ticket) -> Option<usize> {
        self.lines.position(ticket.0)
    }

    /// Whose turn it is at this server, if it has a free place.
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
        let token = self.lines.pop(line).expect("what a thread tells of its lines is so");
        self.tell(group, line, false);
        Next::Place { token, server }
    }

    /// Whose turn it is at any server.
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

    /// True if somebody has woken this thread for its waiters: then ask [`Queue::next`] until
    /// nobody is left. Ask this after every wake-up, also if nobody waits here any more: whoever
    /// set the alarm counts on it, and sets no other before it is taken.
    pub fn take_wake(&self, group: &Group) -> bool {
        group.waiting.take_alarm(self.thread)
    }

    /// Takes out one that waits for a server that takes nobody any more.
    pub fn take_unreachable(&mut self, group: &Group) -> Option<T> {
        let gone = |server: &usize| !group.members()[*server].is_reachable();
        let all = 0..group.members().len();
        let server = all.filter(|server| self.lines.first(Some(*server)).is_some()).find(gone)?;
        let token = self.lines.pop(Some(server));
        self.tell(group, Some(server), false);
        token
    }

    /// Tells other threads what has changed in a line: the first, then the number.
    fn tell(&self, group: &Group, line: Line, more: bool) {
        group.waiting.tell_first(self.thread, line, self.lines.first(line));
        group.waiting.count(self.thread, line, more);
        if let Some(server) = line {
            group.members()[server].count_waiting(more);
        }
    }
}

/// What is the same for all servers, looked at once: a turn costs one look at each server and at
/// each thread.
struct Look<'g> {
    group: &'g Group,
    room: Room<'g>,
    /// Who has waited longest of those who take any server.
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
