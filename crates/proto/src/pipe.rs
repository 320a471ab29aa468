//! Bytes in a pipe, on their way from one socket to another without being seen (splice(2)).
//!
//! A driver fills and empties the pipe. The owner of the [`Piped`] decides where its bytes go, as
//! with any other [`crate::Segment`]. A pipe without remaining parts is reused if it is empty, and
//! closed if it is not, so that bytes of one transfer never reach another.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Both ends of a pipe, and how many bytes it holds.
#[derive(Debug)]
pub struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    held: Held,
}

/// The number of bytes in a pipe, and the counters that include it.
#[derive(Debug, Default)]
struct Held {
    bytes: AtomicU64, // one thread uses it, and engines move between threads
    counts: Option<Arc<PipeCounts>>,
}

/// The pipes of a thread: how many are open, and how many of those hold bytes. For any thread to
/// read.
#[derive(Debug, Default)]
pub struct PipeCounts {
    open: AtomicUsize,
    full: AtomicUsize,
}

impl PipeCounts {
    /// The number of pipes that hold bytes.
    pub fn used(&self) -> usize {
        self.full.load(Ordering::Relaxed)
    }

    /// The number of empty pipes. It may change at any time.
    pub fn free(&self) -> usize {
        self.open.load(Ordering::Relaxed).saturating_sub(self.used())
    }
}

impl Pipe {
    /// An empty one.
    pub fn new(reader: OwnedFd, writer: OwnedFd) -> Self {
        Self { reader, writer, held: Held::default() }
    }

    /// The same pipe, counted while it is open. It is empty.
    #[must_use]
    pub fn counted(mut self, counts: Arc<PipeCounts>) -> Self {
        counts.open.fetch_add(1, Ordering::Relaxed);
        self.held.counts = Some(counts);
        self
    }

    /// The end to take bytes from.
    pub fn reader(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    /// The end to put bytes in.
    pub fn writer(&self) -> BorrowedFd<'_> {
        self.writer.as_fd()
    }

    /// So many bytes went in.
    pub fn handle_filled(&self, bytes: u64) {
        let before = self.held.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(counts) = &self.held.counts
            && before == 0
            && bytes > 0
        {
            counts.full.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// So many bytes were taken out.
    ///
    /// # Panics
    /// If they are more than it held: the driver's arithmetic is wrong.
    pub fn handle_emptied(&self, bytes: u64) {
        let before = self.held.bytes.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "more came out of a pipe than it held");
        if let Some(counts) = &self.held.counts
            && before == bytes
            && bytes > 0
        {
            counts.full.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// True if it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.held.bytes.load(Ordering::Relaxed) == 0
    }

    /// Both ends: of what it is read from, and of what is written to.
    pub fn into_ends(self) -> (OwnedFd, OwnedFd) {
        (self.reader, self.writer)
    }
}

impl Drop for Held {
    /// The pipe is closed, with what it holds.
    fn drop(&mut self) {
        if let Some(counts) = &self.counts {
            counts.full.fetch_sub((*self.bytes.get_mut() > 0).into(), Ordering::Relaxed);
            counts.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The next bytes of a pipe. They leave once: of clones, only one may be sent.
#[derive(Clone, Debug)]
pub struct Piped {
    /// The pipe that holds them, and nothing before them.
    pub pipe: Arc<Pipe>,
    /// How many there are.
    pub len: u64,
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn open_pipes_and_those_with_bytes_are_counted() {
        let counts = Arc::new(PipeCounts::default());
        let open = || {
            let (reader, writer) = io::pipe().unwrap();
            Pipe::new(reader.into(), writer.into()).counted(Arc::clone(&counts))
        };
        let pipes = [open(), open(), open()];
        assert_eq!((counts.used(), counts.free()), (0, 3));
        pipes[0].handle_filled(5);
        pipes[0].handle_filled(2);
        pipes[1].handle_filled(1);
        assert_eq!((counts.used(), counts.free()), (2, 1));
        pipes[0].handle_emptied(3);
        pipes[1].handle_emptied(1);
        assert_eq!((counts.used(), counts.free()), (1, 2));
        let [with_bytes, empty, last] = pipes;
        drop(empty.into_ends());
        assert_eq!((counts.used(), counts.free()), (1, 1));
        drop((with_bytes, last));
        assert_eq!((counts.used(), counts.free()), (0, 0));
    }
}
