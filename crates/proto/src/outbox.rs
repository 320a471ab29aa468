//! Bytes and segments queued for one socket, in wire order.

use bytes::{Bytes, BytesMut};

use crate::block;
use crate::event::StreamId;
use crate::spare::{self, EndMark, Queue};
use crate::transmit::{Segment, Transmit};

/// The queue of one socket. Heads and small bodies are copied together and sent first, in one
/// piece; everything else is shared. An empty outbox without marks holds no memory.
#[derive(Debug, Default)]
pub struct Outbox {
    queue: Option<Box<Queue>>,
}

impl Queue {
    /// Behind everything else: little is joined with the little before it, so that a body of tiny
    /// pieces is not a piece of memory, and of a gathered send, for each.
    fn append(&mut self, bytes: Bytes) {
        // A block is worth more than a copy of little.
        if let Some(bytes) = self.join(bytes) {
            let is_share = bytes.len() <= INLINE_SIZE_MAX && block::is_share(&bytes);
            let bytes = if is_share { Bytes::copy_from_slice(&bytes) } else { bytes };
            self.segments.push_back(Segment::Bytes(bytes));
        }
    }

    /// The same for memory that is no share of a block: it needs no look at the list of blocks,
    /// which all threads share.
    fn append_own(&mut self, bytes: Bytes) {
        if let Some(bytes) = self.join(bytes) {
            self.segments.push_back(Segment::Bytes(bytes));
        }
    }

    /// Joins little with the last segment; returns the bytes if they have to be a segment.
    fn join(&mut self, bytes: Bytes) -> Option<Bytes> {
        match self.segments.back_mut() {
            Some(Segment::Bytes(last)) if last.len() + bytes.len() <= INLINE_SIZE_MAX => {
                let joined = std::mem::take(last).try_into_mut();
                let mut joined = joined.unwrap_or_else(|shared| BytesMut::from(&shared[..]));
                joined.extend_from_slice(&bytes);
                *last = joined.freeze();
                None
            }
            Some(Segment::Bytes(_) | Segment::File(_) | Segment::Pipe(_)) | None => Some(bytes),
        }
    }
}

/// Whether the owner of a connection may queue more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Room {
    #[default]
    Open,
    /// The limit of queued bytes is reached.
    Full,
    /// Down to a quarter of it; `Writable` is due.
    Reopened,
}

impl Outbox {
    /// Writes bytes straight into the outgoing buffer.
    pub fn compose(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let queue = self.queue.get_or_insert_with(spare::take);
        if queue.segments.is_empty() {
            let before = queue.inline.len();
            grow(&mut queue.inline, HEAD_SIZE_USUAL);
            write(&mut queue.inline);
            queue.count((queue.inline.len() - before) as u64);
        } else {
            let mut late = Vec::new();
            write(&mut late);
            late.shrink_to_fit(); // it may wait long
            queue.count(late.len() as u64);
            queue.append_own(late.into());
        }
        if queue.size == 0 {
            self.clear();
        }
    }

    /// Queues a segment: small bytes are copied, everything else is shared.
    pub fn push(&mut self, segment: Segment) {
        if segment.is_empty() {
            return;
        }
        let queue = self.queue.get_or_insert_with(spare::take);
        match &segment {
            Segment::Bytes(bytes) => queue.count(bytes.len() as u64),
            Segment::File(_) | Segment::Pipe(_) => queue.size += segment.len(),
        }
        match segment {
            Segment::Bytes(bytes)
                if bytes.len() <= INLINE_SIZE_MAX && queue.segments.is_empty() =>
            {
                grow(&mut queue.inline, bytes.len());
                queue.inline.extend_from_slice(&bytes);
            }
            Segment::Bytes(bytes) => queue.append(bytes),
            other => queue.segments.push_back(other),
        }
    }

    /// The bytes that may be sent now.
    pub fn transmit(&mut self) -> Option<Transmit<'_>> {
        let queue = self.queue.as_deref_mut().filter(|queue| queue.size > 0)?;
        let inline = &queue.inline[queue.at..];
        let segments = match queue.segments.is_empty() {
            true => &mut [],
            false => queue.segments.make_contiguous(),
        };
        Some(Transmit::new(inline, segments))
    }

    /// The first `n` bytes were sent. The rest stops sharing the thread's input block.
    ///
    /// # Panics
    /// If `n` is more than was queued: the driver's arithmetic is wrong.
    pub fn sent(&mut self, n: u64) {
        let Some(queue) = self.queue.as_deref_mut() else {
            assert_eq!(n, 0, "the driver reported bytes that nobody queued");
            return;
        };
        assert!(n <= queue.size, "the driver reported more bytes than were queued");
        queue.size -= n;
        queue.sent += n;
        if queue.size == 0 {
            return self.clear();
        }
        queue.advance(n);
    }

    /// Drops all queued bytes, and returns the memory. Only marks stay, until their owner takes
    /// them.
    pub fn clear(&mut self) {
        let Some(mut queue) = self.queue.take() else { return };
        if !queue.marks.is_empty() {
            let (sent, marks) = (queue.sent, std::mem::take(&mut queue.marks));
            self.queue = Some(Box::new(Queue { sent, marks, ..Queue::default() }));
        }
        spare::give(queue);
    }

    /// Bytes queued.
    pub fn size(&self) -> u64 {
        self.queue.as_ref().map_or(0, |queue| queue.size)
    }

    /// [`Outbox::poll_marked`] returns `stream` once the next `unsent` bytes are sent. A mark ends
    /// at a queued byte, so the limits of the queue hold for marks, too.
    pub(crate) fn mark(&mut self, stream: StreamId, unsent: u64) {
        debug_assert!(unsent <= self.size(), "a mark ends at a queued byte");
        let queue = self.queue.get_or_insert_with(spare::take);
        let end = queue.sent + unsent;
        // Usually behind all others: only a message that was reset ends in front of other bytes.
        let at = queue.marks.iter().rposition(|mark| mark.end <= end).map_or(0, |last| last + 1);
        queue.marks.insert(at, EndMark { stream, end });
    }

    /// True if [`Outbox::poll_marked`] has a stream.
    #[inline]
    pub(crate) fn has_passed_mark(&self) -> bool {
        let queue = self.queue.as_deref();
        queue.is_some_and(|it| it.marks.front().is_some_and(|mark| mark.end <= it.sent))
    }

    /// The next stream whose mark was passed, in the order of the marked bytes.
    pub(crate) fn poll_marked(&mut self) -> Option<StreamId> {
        let queue = self.queue.as_deref_mut()?;
        let sent = queue.sent;
        let mark = queue.marks.pop_front_if(|mark| mark.end <= sent)?;
        if queue.size == 0 {
            self.clear();
        }
        Some(mark.stream)
    }

    /// Unsent bytes in front of the mark of `stream`; `None` without a mark.
    pub(crate) fn unsent_before_mark(&self, stream: StreamId) -> Option<u64> {
        let queue = self.queue.as_ref()?;
        let mark = queue.marks.iter().find(|mark| mark.stream == stream)?;
        Some(mark.end.saturating_sub(queue.sent))
    }

    /// Bytes of memory that the queue holds: heads, bodies in memory, and the entry of each
    /// segment. Bytes of files and pipes are not in memory.
    pub fn memory(&self) -> u64 {
        self.queue
            .as_ref()
            .map_or(0, |queue| queue.memory + (queue.segments.len() * size_of::<Segment>()) as u64)
    }

    /// True if nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.size() == 0
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.queue.take().into_iter().for_each(spare::give);
    }
}

impl Queue {
    /// Counts bytes in memory that are queued.
    fn count(&mut self, bytes: u64) {
        self.size += bytes;
        self.memory += bytes;
    }

    /// Removes `n` sent bytes. The rest may wait long.
    #[inline(never)] // most sends take everything
    fn advance(&mut self, n: u64) {
        self.remove(n);
        self.keep();
        self.fit();
    }

    fn remove(&mut self, mut n: u64) {
        let first = n.min((self.inline.len() - self.at) as u64);
        self.memory -= first;
        self.at += usize::try_from(first).expect("at most the length of a Vec");
        n -= first;
        if self.at == self.inline.len() {
            self.inline.clear();
            self.at = 0;
        }
        while n > 0 {
            let front = self.segments.front_mut().expect("size counts every segment");
            let step = n.min(front.len());
            if matches!(front, Segment::Bytes(_)) {
                self.memory -= step;
            }
            front.advance(step);
            n -= step;
            if front.is_empty() {
                self.segments.pop_front();
                self.kept = self.kept.saturating_sub(1);
                self.front_fits = false;
            }
        }
    }

    /// Copies segments that share a block of inputs, so that no slow reader pins it. Memory of the
    /// application stays shared.
    fn keep(&mut self) {
        for segment in self.segments.iter_mut().skip(self.kept) {
            if let Segment::Bytes(bytes) = segment
                && block::is_share(bytes)
            {
                *bytes = Bytes::copy_from_slice(bytes);
            }
        }
        self.kept = self.segments.len();
    }

    /// Frees the memory of sent bytes and the spare capacity: with a slow peer the unsent bytes may
    /// wait long, and the queue may never be empty.
    fn fit(&mut self) {
        if self.at >= self.inline.len() - self.at {
            self.inline.drain(..self.at); // moves at most as many bytes as were sent
            self.at = 0;
        }
        if self.inline.capacity() - self.inline.len() > HEAD_SIZE_USUAL {
            self.inline.shrink_to_fit();
        }
        // The rest of a segment keeps the memory of the whole segment.
        if let Some(Segment::Bytes(front)) = self.segments.front_mut()
            && !self.front_fits
            && self.inline.is_empty()
            && front.len() <= REST_SIZE_MAX
            && front.is_unique()
        {
            *front = Bytes::copy_from_slice(front);
            self.front_fits = true;
        }
    }
}

/// Makes room for `n` bytes. A long buffer grows by an eighth and is not doubled: it may wait long.
fn grow(inline: &mut Vec<u8>, n: usize) {
    if inline.len() >= DOUBLED_SIZE_MAX - HEAD_SIZE_USUAL && inline.capacity() - inline.len() < n {
        inline.reserve_exact(n.max(inline.len() / 8));
    }
}

/// Copying this much costs less than a second iovec element.
const INLINE_SIZE_MAX: usize = 4096;

/// Most heads are shorter.
const HEAD_SIZE_USUAL: usize = 1024;
/// A buffer that is longer than this is no longer doubled.
const DOUBLED_SIZE_MAX: usize = 16 * 1024;
/// The rest of a segment that is copied once, so that the memory of the whole is free.
const REST_SIZE_MAX: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten thousand pieces of a byte, framed as chunks are, behind what is too long to be copied.
    #[test]
    fn tiny_pieces_are_joined_in_order() {
        let mut outbox = Outbox::default();
        let mut expected = Vec::new();
        let long = Bytes::from(vec![b'x'; INLINE_SIZE_MAX + 1]);
        let mut push = |outbox: &mut Outbox, bytes: Bytes| {
            expected.extend_from_slice(&bytes);
            outbox.push(Segment::Bytes(bytes));
        };
        push(&mut outbox, long.clone());
        for at in 0..10_000_u32 {
            push(&mut outbox, Bytes::from_static(b"1\r\n"));
            push(&mut outbox, Bytes::copy_from_slice(&at.to_le_bytes()[..1]));
            push(&mut outbox, Bytes::from_static(b"\r\n"));
        }
        push(&mut outbox, long);
        push(&mut outbox, Bytes::from_static(b"end"));
        let transmit = outbox.transmit().unwrap();
        assert!(transmit.segments.len() < 20, "{} segments", transmit.segments.len());
        let mut sent = transmit.inline.to_vec();
        for segment in transmit.segments {
            let Segment::Bytes(bytes) = segment else { unreachable!("no file was queued") };
            sent.extend_from_slice(bytes);
        }
        assert_eq!(sent, expected);
    }

    #[test]
    fn bytes_in_memory_are_counted_and_those_of_files_are_not() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let file = std::sync::Arc::new(std::os::fd::OwnedFd::from(file));
        let mut outbox = Outbox::default();
        let each = size_of::<Segment>() as u64;
        outbox.compose(|out| out.extend_from_slice(b"head"));
        outbox.push(Segment::File(crate::FileRange { file, offset: 0, len: 1_000 }));
        outbox.push(Bytes::from(vec![b'x'; 5_000]).into());
        outbox.compose(|out| out.extend_from_slice(b"next"));
        assert_eq!((outbox.size(), outbox.memory()), (6_008, 5_008 + 3 * each));
        outbox.sent(3);
        assert_eq!(outbox.memory(), 5_005 + 3 * each);
        outbox.sent(501);
        assert_eq!(outbox.memory(), 5_004 + 3 * each);
        outbox.sent(5_500);
        assert_eq!((outbox.size(), outbox.memory()), (4, 4 + each));
        outbox.sent(4);
        assert_eq!((outbox.size(), outbox.memory()), (0, 0));
    }

    /// A later message does not delay the report of an earlier one.
    #[test]
    fn marks_are_reported_once_their_bytes_are_sent() {
        let mut outbox = Outbox::default();
        for (stream, len) in [(1, 10), (3, 5_000)] {
            outbox.push(Bytes::from(vec![b'x'; len]).into());
            outbox.mark(StreamId(stream), outbox.size());
        }
        outbox.sent(9);
        assert_eq!(outbox.poll_marked(), None);
        assert_eq!(outbox.unsent_before_mark(StreamId(1)), Some(1));
        assert_eq!(outbox.unsent_before_mark(StreamId(3)), Some(5_001));
        outbox.sent(1);
        outbox.push(Bytes::from(vec![b'x'; 7]).into());
        assert_eq!(outbox.poll_marked(), Some(StreamId(1)));
        assert_eq!((outbox.poll_marked(), outbox.unsent_before_mark(StreamId(1))), (None, None));
        outbox.sent(5_007);
        assert!(outbox.is_empty() && outbox.transmit().is_none());
        outbox.push(Bytes::from_static(b"next").into());
        assert_eq!((outbox.poll_marked(), outbox.poll_marked()), (Some(StreamId(3)), None));
        outbox.sent(4);
        assert!(outbox.queue.is_none(), "an idle connection holds no memory");
    }

    /// A mark was reported only behind those that were made before it.
    #[test]
    fn marks_are_reported_in_the_order_of_their_bytes() {
        let mut outbox = Outbox::default();
        outbox.push(Bytes::from_static(b"0123456789").into());
        outbox.mark(StreamId(1), 10);
        outbox.mark(StreamId(3), 4);
        outbox.mark(StreamId(5), 4);
        outbox.sent(4);
        assert_eq!(outbox.poll_marked(), Some(StreamId(3)));
        assert_eq!((outbox.poll_marked(), outbox.poll_marked()), (Some(StreamId(5)), None));
        outbox.sent(6);
        assert_eq!((outbox.poll_marked(), outbox.poll_marked()), (Some(StreamId(1)), None));
    }

    /// With a slow reader and a queue that was never empty, all sent bytes stayed in memory.
    #[test]
    fn a_queue_that_is_never_empty_does_not_grow() {
        const DIGITS: &[u8; 10] = b"0123456789";
        let mut outbox = Outbox::default();
        for _ in 0..9 {
            outbox.push(Segment::Bytes(Bytes::from_static(&[b'x'; 4_000])));
        }
        for n in 0..10_000 {
            outbox.compose(|out| out.extend_from_slice(&[DIGITS[n % 10]; 1_000]));
            outbox.sent(1_000);
            let capacity = outbox.queue.as_ref().unwrap().inline.capacity();
            assert!(capacity <= 2 * 37_000, "{capacity} after {n}");
        }
        let left = outbox.transmit().unwrap().inline;
        let expected: Vec<u8> = (9_964..10_000).flat_map(|n| [DIGITS[n % 10]; 1_000]).collect();
        assert!(left == expected, "the last 36,000 bytes, in order");
    }

    /// Spare capacity is freed as soon as a send falls short.
    #[test]
    fn a_waiting_queue_has_no_spare_capacity() {
        let mut outbox = Outbox::default();
        for _ in 0..330 {
            outbox.compose(|out| out.extend_from_slice(&[b'x'; 100]));
        }
        let grown = outbox.queue.as_ref().unwrap().inline.capacity();
        assert!(grown <= 38_000, "{grown}");
        outbox.sent(0);
        let capacity = outbox.queue.as_ref().unwrap().inline.capacity();
        assert!((33_000..=33_000 + HEAD_SIZE_USUAL).contains(&capacity), "{capacity}");
    }
}
