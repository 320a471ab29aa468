//! Memory for outgoing bytes: a list per thread, from which connections with unsent bytes borrow.
//!
//! An idle connection holds none of it, and in the steady state nothing is allocated: a
//! connection takes a [`Queue`] when it queues its first byte and gives it back with its last.

use std::cell::RefCell;
use std::collections::VecDeque;

use crate::event::StreamId;
use crate::transmit::Segment;

/// The queue of one connection.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Heads and small bodies, joined; they are sent first.
    pub(crate) inline: Vec<u8>,
    /// Bytes of `inline` that were sent.
    pub(crate) at: usize,
    /// The segments after `inline`.
    pub(crate) segments: VecDeque<Segment>,
    /// Segments at the front that share no memory with the input.
    pub(crate) kept: usize,
    /// The rest of the first segment has memory of its own.
    pub(crate) front_fits: bool,
    /// Bytes queued in all.
    pub(crate) size: u64,
    /// Of them, bytes in memory: not those of files and pipes.
    pub(crate) memory: u64,
    /// Bytes sent since the connection has taken this queue.
    pub(crate) sent: u64,
    /// The ends of watched messages, in the order of the queue.
    pub(crate) marks: VecDeque<EndMark>,
}

/// Where a watched message ends, counted as [`Queue::sent`] is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndMark {
    pub(crate) stream: StreamId,
    pub(crate) end: u64,
}

impl Queue {
    /// Bytes of memory that it keeps while it is empty.
    fn kept_size(&self) -> usize {
        self.inline.capacity() + self.segments.capacity() * size_of::<Segment>()
    }
}

/// A queue with nothing in it, and room from its last use.
pub(crate) fn take() -> Box<Queue> {
    SPARE.with_borrow_mut(|spare| {
        let queue = spare.queues.pop().unwrap_or_default();
        spare.size -= queue.kept_size();
        queue
    })
}

/// Gives a queue back. It is freed instead if it has grown beyond the usual, or if enough memory
/// is spare: after many slow readers, every connection returns a large one.
#[inline(always)] // each message gives a queue back
pub(crate) fn give(mut queue: Box<Queue>) {
    let kept_size = queue.kept_size();
    if kept_size > KEPT_SIZE_MAX {
        return;
    }
    queue.inline.clear();
    if !queue.segments.is_empty() {
        queue.segments.clear();
    }
    (queue.at, queue.kept, queue.size, queue.memory) = (0, 0, 0, 0);
    queue.front_fits = false;
    queue.sent = 0;
    if queue.marks.capacity() > 0 {
        queue.marks = VecDeque::new();
    }
    SPARE.with_borrow_mut(|spare| {
        let size = spare.size + kept_size;
        if spare.queues.len() < SPARE_LEN_MAX && size <= SPARE_SIZE_MAX {
            spare.size = size;
            spare.queues.push(queue);
        }
    });
}

/// Queues that no connection uses.
#[derive(Debug)]
struct Spare {
    #[expect(clippy::vec_box, reason = "connections hold the box: an idle one costs a pointer")]
    queues: Vec<Box<Queue>>,
    /// Bytes of memory that they keep.
    size: usize,
}

thread_local!(static SPARE: RefCell<Spare> = const {
    RefCell::new(Spare { queues: Vec::new(), size: 0 })
});

const SPARE_LEN_MAX: usize = 256;
const SPARE_SIZE_MAX: usize = 1024 * 1024;
const KEPT_SIZE_MAX: usize = 32 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread kept 256 of them after many slow readers: 8 MB.
    #[test]
    fn large_queues_are_not_kept_beyond_a_megabyte() {
        let mut queues: Vec<_> = (0..SPARE_LEN_MAX).map(|_| take()).collect();
        for queue in &mut queues {
            queue.inline.reserve_exact(KEPT_SIZE_MAX);
        }
        queues.into_iter().for_each(give);
        let (len, size) = SPARE.with_borrow(|spare| (spare.queues.len(), spare.size));
        assert_eq!((len, size), (SPARE_SIZE_MAX / KEPT_SIZE_MAX, SPARE_SIZE_MAX));
        (0..SPARE_LEN_MAX).map(|_| take()).for_each(drop);
        assert_eq!(SPARE.with_borrow(|spare| spare.size), 0);
    }
}
