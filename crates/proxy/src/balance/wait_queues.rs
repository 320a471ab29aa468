//! Several queues in one allocation: push, pop and removal from the middle in constant time.

use crate::balance::waiting::QueueId;

/// Several queues of waiting sessions.
#[derive(Debug)]
pub(crate) struct WaitQueues<T> {
    slots: Vec<QueueSlot<T>>,
    free: Vec<u32>,
    ends: Box<[QueueEnds]>, // the queue for any server, then one for each
}

/// A slot index and its ticket; the next user of the slot has another ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueEntry {
    slot: u32,
    ticket: u64,
}

#[derive(Debug)]
struct QueueSlot<T> {
    ticket: u64,
    line: usize,
    before: Option<u32>,
    after: Option<u32>,
    token: Option<T>,
}

#[derive(Clone, Copy, Debug, Default)]
struct QueueEnds {
    first: Option<u32>,
    last: Option<u32>,
}

impl<T> WaitQueues<T> {
    pub(crate) fn new(servers: usize) -> Self {
        let ends = vec![QueueEnds::default(); servers + 1].into_boxed_slice();
        Self { slots: Vec::new(), free: Vec::new(), ends }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Appends to a queue.
    pub(crate) fn push(&mut self, line: QueueId, ticket: u64, token: T) -> QueueEntry {
        let line = number(line);
        let before = self.ends[line].last;
        let slot = QueueSlot { ticket, line, before, after: None, token: Some(token) };
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                u32::try_from(self.slots.len() - 1)
                    .expect("there are fewer waiting sessions than sockets")
            }
        };
        match before {
            Some(before) => self.slots[before as usize].after = Some(at),
            None => self.ends[line].first = Some(at),
        }
        self.ends[line].last = Some(at);
        QueueEntry { slot: at, ticket }
    }

    /// Removes an entry; `None` if it is gone.
    pub(crate) fn remove(&mut self, entry: QueueEntry) -> Option<(QueueId, T)> {
        let slot = self.slots.get_mut(entry.slot as usize)?;
        if slot.ticket != entry.ticket {
            return None;
        }
        let token = slot.token.take()?;
        let (line, before, after) = (slot.line, slot.before, slot.after);
        match before {
            Some(before) => self.slots[before as usize].after = after,
            None => self.ends[line].first = after,
        }
        match after {
            Some(after) => self.slots[after as usize].before = before,
            None => self.ends[line].last = before,
        }
        self.free.push(entry.slot);
        Some((line.checked_sub(1), token))
    }

    /// Removes the first entry of a queue.
    pub(crate) fn pop(&mut self, line: QueueId) -> Option<T> {
        let slot = self.ends[number(line)].first?;
        let entry = QueueEntry { slot, ticket: self.slots[slot as usize].ticket };
        self.remove(entry).map(|(_, token)| token)
    }

    /// The ticket of the first entry of a queue.
    pub(crate) fn first(&self, line: QueueId) -> Option<u64> {
        self.ends[number(line)].first.map(|slot| self.slots[slot as usize].ticket)
    }

    /// The number of entries before this one; `None` if it is gone.
    pub(crate) fn position(&self, entry: QueueEntry) -> Option<usize> {
        let slot = self.slots.get(entry.slot as usize)?;
        if slot.ticket != entry.ticket || slot.token.is_none() {
            return None;
        }
        let before = |at: &u32| self.slots[*at as usize].before;
        Some(std::iter::successors(slot.before, before).count())
    }
}

/// The queue for any server has index 0.
fn number(line: QueueId) -> usize {
    line.map_or(0, |server| server + 1)
}
