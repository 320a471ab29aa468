//! Bytes in a pipe, on their way from one socket to another without being seen (splice(2)).
//!
//! A driver puts them in and takes them out; whoever owns the [`Piped`] decides where they go, as
//! with any other [`crate::Segment`]. A pipe that nobody holds a part of is used again if it is
//! empty, and closed if it is not: so bytes of one transfer never reach another.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Both ends of a pipe, and how many bytes it holds.
#[derive(Debug)]
pub struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    held: AtomicU64, // one thread uses it, and engines move between threads
}

impl Pipe {
    /// An empty one.
    pub fn new(reader: OwnedFd, writer: OwnedFd) -> Self {
        Self { reader, writer, held: AtomicU64::new(0) }
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
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many bytes were taken out.
    ///
    /// # Panics
    /// If they are more than it held: the driver's arithmetic is wrong.
    pub fn handle_emptied(&self, bytes: u64) {
        let before = self.held.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "more came out of a pipe than it held");
    }

    /// True if it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.held.load(Ordering::Relaxed) == 0
    }

    /// Both ends: of what it is read from, and of what is written to.
    pub fn into_ends(self) -> (OwnedFd, OwnedFd) {
        (self.reader, self.writer)
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
