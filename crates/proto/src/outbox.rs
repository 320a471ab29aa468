//! Bytes and segments queued for one socket, in wire order.

use bytes::{Bytes, BytesMut};

use crate::block;
use crate::spare::{self, Queue};
use crate::transmit::{Segment, Transmit};

/// What is queued for one socket. Heads and small bodies are copied together and leave first,
/// in one piece; everything else is shared. An empty outbox holds no memory.
#[derive(Debug, Default)]
pub struct Outbox {
    queue: Option<Box<Queue>>,
}

impl Queue {
    /// Behind everything else: little is joined with the little before it, so that a body of tiny
    /// pieces is not a piece of memory, and of a gathered send, for each.
    fn append(&mut self, bytes: Bytes) {
        match self.segments.back_mut() {
            Some(Segment::Bytes(last)) if last.len() + bytes.len() <= INLINE_SIZE_MAX => {
                let joined = std::mem::take(last).try_into_mut();
                let mut joined = joined.unwrap_or_else(|shared| BytesMut::from(&shared[..]));
                joined.extend_from_slice(&bytes);
                *last = joined.freeze();
            }
            // A block is worth more than a copy of little.
            _ if bytes.len() <= INLINE_SIZE_MAX && block::is_share(&bytes) => {
                self.segments.push_back(Segment::Bytes(Bytes::copy_from_slice(&bytes)));
            }
            _ => self.segments.push_back(Segment::Bytes(bytes)),
        }
    }
}

impl Outbox {
    /// Writes bytes straight into the outgoing buffer.
    pub fn compose(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let queue = self.queue.get_or_insert_with(spare::take);
        if queue.segments.is_empty() {
            let before = queue.inline.len();
            write(&mut queue.inline);
            queue.size += (queue.inline.len() - before) as u64;
        } else {
            let mut late = Vec::new();
            write(&mut late);
            queue.size += late.len() as u64;
            queue.append(late.into());
        }
        self.settle();
    }

    /// Queues a segment: small bytes are copied, everything else is shared.
    pub fn push(&mut self, segment: Segment) {
        if segment.is_empty() {
            return;
        }
        let queue = self.queue.get_or_insert_with(spare::take);
        queue.size += segment.len();
        match segment {
            Segment::Bytes(bytes)
                if bytes.len() <= INLINE_SIZE_MAX && queue.segments.is_empty() =>
            {
                queue.inline.extend_from_slice(&bytes);
            }
            Segment::Bytes(bytes) => queue.append(bytes),
            other => queue.segments.push_back(other),
        }
    }

    /// What may be sent now.
    pub fn transmit(&mut self) -> Option<Transmit<'_>> {
        let queue = self.queue.as_deref_mut()?;
        let inline = &queue.inline[queue.at..];
        Some(Transmit { inline, segments: queue.segments.make_contiguous() })
    }

    /// The first `n` bytes have left. What remains stops sharing the thread's input block.
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
        if queue.size > 0 {
            queue.advance(n);
            queue.keep();
        }
        self.settle();
    }

    /// Forgets everything that is queued.
    pub fn clear(&mut self) {
        if let Some(queue) = self.queue.take() {
            spare::give(queue);
        }
    }

    /// Bytes queued.
    pub fn size(&self) -> u64 {
        self.queue.as_ref().map_or(0, |queue| queue.size)
    }

    /// True if nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.queue.is_none()
    }

    /// The memory goes back as soon as nothing is queued: `queue` is `None` exactly then.
    fn settle(&mut self) {
        if self.size() == 0 {
            self.clear();
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Queue {
    fn advance(&mut self, mut n: u64) {
        let first = n.min((self.inline.len() - self.at) as u64);
        self.at += usize::try_from(first).expect("at most the length of a Vec");
        n -= first;
        if self.at == self.inline.len() {
            self.inline.clear();
            self.at = 0;
        }
        while n > 0 {
            let front = self.segments.front_mut().expect("size counts every segment");
            let step = n.min(front.len());
            front.advance(step);
            n -= step;
            if front.is_empty() {
                self.segments.pop_front();
                self.kept = self.kept.saturating_sub(1);
            }
        }
    }

    /// Copies what still shares a block of inputs, so that no slow reader pins it. What somebody
    /// else owns stays shared, however slow its readers are.
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
}

/// Copying this much costs less than a second iovec element.
const INLINE_SIZE_MAX: usize = 4096;

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
}
