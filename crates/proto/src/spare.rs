//! Memory for outgoing bytes: lent to connections that have something to say, one list a thread.
//!
//! An idle connection holds none of it, and in the steady state nothing is allocated: a
//! connection takes a [`Queue`] when it queues its first byte and gives it back with its last.

use std::cell::RefCell;
use std::collections::VecDeque;

use crate::transmit::Segment;

/// What one connection has queued.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Heads and small bodies, joined; they leave first.
    pub(crate) inline: Vec<u8>,
    /// Bytes of `inline` that have left.
    pub(crate) at: usize,
    /// What follows `inline`.
    pub(crate) segments: VecDeque<Segment>,
    /// Segments at the front that share no memory with the input.
    pub(crate) kept: usize,
    /// Bytes queued in all.
    pub(crate) size: u64,
}

/// A queue with nothing in it, and room from its last use.
pub(crate) fn take() -> Box<Queue> {
    SPARE.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Gives a queue back; one that has grown beyond the usual is freed instead.
pub(crate) fn give(mut queue: Box<Queue>) {
    if queue.inline.capacity() > INLINE_CAPACITY_MAX
        || queue.segments.capacity() > SEGMENTS_CAPACITY_MAX
    {
        return;
    }
    queue.inline.clear();
    queue.segments.clear();
    (queue.at, queue.kept, queue.size) = (0, 0, 0);
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < SPARE_LEN_MAX {
            spare.push(queue);
        }
    });
}

#[expect(clippy::vec_box, reason = "connections hold the box: an idle one costs a pointer")]
mod list {
    use super::{Queue, RefCell};
    thread_local!(pub(super) static SPARE: RefCell<Vec<Box<Queue>>> = const { RefCell::new(Vec::new()) });
}
use list::SPARE;

const SPARE_LEN_MAX: usize = 256;
const INLINE_CAPACITY_MAX: usize = 32 * 1024;
const SEGMENTS_CAPACITY_MAX: usize = 64;
