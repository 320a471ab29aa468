//! Log output to an open descriptor: a file, a pipe, a terminal.
//!
//! Its reader may be stuck, for example a pager or a container's log driver. The proxy never blocks
//! then: lines are buffered up to a limit; further lines are dropped and counted. The descriptor is
//! shared with other processes, so it is not made non-blocking. A pipe is polled for one free page,
//! and one write is not larger than that.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use fulmar_sys::{self as sys, PollEntry};

/// Number of dropped lines.
pub(super) type LostLines = u64;

/// A descriptor to which all threads write.
#[derive(Debug)]
pub(super) struct LogStream {
    file: File,
    /// A write may block.
    stalls: bool,
    /// Lines not yet passed to a writer. No write happens while this is locked.
    waiting: Mutex<Vec<u8>>,
    /// Data being written. A thread that finds it locked leaves its lines to the holder, which
    /// checks again.
    writing: Mutex<Writing>,
}

/// Whole lines, except for the already written part of the first.
#[derive(Debug, Default)]
struct Writing {
    bytes: Vec<u8>,
    done: usize,
}

impl LogStream {
    pub(super) fn new(file: File) -> Self {
        let stalls = !file.metadata().is_ok_and(|it| it.is_file());
        Self { file, stalls, waiting: Mutex::default(), writing: Mutex::default() }
    }

    /// Buffers a line until [`LogStream::flush`], if there is room.
    pub(super) fn push(&self, line: &[u8]) -> LostLines {
        if self.put(line) {
            return 0;
        }
        let lost = self.flush();
        lost + LostLines::from(!self.put(line))
    }

    fn put(&self, line: &[u8]) -> bool {
        let mut waiting = held(&self.waiting);
        let fits = waiting.len() + line.len() <= WAITING_SIZE_MAX;
        if fits {
            waiting.extend_from_slice(line);
        }
        fits
    }

    /// Writes buffered lines until the descriptor blocks; the rest stays.
    pub(super) fn flush(&self) -> LostLines {
        let mut lost = 0;
        loop {
            let mut writing = match self.writing.try_lock() {
                Ok(writing) => writing,
                Err(TryLockError::Poisoned(held)) => held.into_inner(),
                Err(TryLockError::WouldBlock) => return lost,
            };
            if writing.is_done() {
                writing.take(&mut held(&self.waiting));
            }
            lost += self.write(&mut writing);
            let is_stuck = !writing.is_done();
            drop(writing);
            // Lines added meanwhile were left to this thread.
            if is_stuck || held(&self.waiting).is_empty() {
                return lost;
            }
        }
    }

    /// Writes as much as possible. If the reader is gone, all lines are dropped.
    fn write(&self, writing: &mut Writing) -> LostLines {
        while !writing.is_done() {
            let rest = &writing.bytes[writing.done..];
            let piece = if self.stalls { piece(rest) } else { rest };
            if self.stalls && !self.has_room() {
                break;
            }
            match sys::write(self.file.as_fd(), piece) {
                Ok(written) if written > 0 => writing.done += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                _ => return writing.lose(),
            }
        }
        0
    }

    /// True if a page can be written without blocking (pipe(7): a pipe is writable if a page is
    /// free).
    fn has_room(&self) -> bool {
        let mut entry = [PollEntry::new(self.file.as_fd())];
        // If polling fails, try to write: the write reports the error.
        sys::poll_now(&mut entry).is_err() || entry[0].events().is_writable()
    }
}

impl Writing {
    fn is_done(&self) -> bool {
        self.done == self.bytes.len()
    }

    /// Swaps the buffers: the new lines are written next, and the empty buffer collects lines.
    fn take(&mut self, waiting: &mut Vec<u8>) {
        self.bytes.clear();
        self.done = 0;
        std::mem::swap(&mut self.bytes, waiting);
    }

    fn lose(&mut self) -> LostLines {
        let lost = self.bytes[self.done..].iter().filter(|byte| **byte == b'\n').count();
        self.bytes.clear();
        self.done = 0;
        lost as LostLines
    }
}

/// As much as a pipe takes atomically; whole lines, if at least one fits.
fn piece(rest: &[u8]) -> &[u8] {
    let most = &rest[..rest.len().min(PIECE_SIZE_MAX)];
    let end = most.iter().rposition(|byte| *byte == b'\n');
    end.map_or(most, |end| &most[..=end])
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A turn writes far less; with this much left, the reader is stuck.
const WAITING_SIZE_MAX: usize = 64 * 1024;
/// `PIPE_BUF` of Linux: writes up to this size are not interleaved with others.
const PIECE_SIZE_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn pipe() -> (io::PipeReader, LogStream) {
        let (reader, writer) = io::pipe().unwrap();
        (reader, LogStream::new(File::from(std::os::fd::OwnedFd::from(writer))))
    }

    /// Once, writing to a full pipe blocked the thread and all its clients.
    #[test]
    fn a_stuck_reader_blocks_no_thread() {
        let (mut reader, stream) = pipe();
        let line = |number: usize| format!("{number:099}\n");
        let mut lost = 0;
        for number in 0..10_000 {
            lost += stream.push(line(number).as_bytes());
            lost += stream.flush();
        }
        assert!(lost > 0, "a megabyte is more than a pipe and our memory hold");
        let mut heard = String::new();
        let kept = 10_000 - usize::try_from(lost).unwrap();
        while heard.len() < kept * 100 {
            let mut bytes = [0; 4096];
            let len = reader.read(&mut bytes).unwrap();
            heard.push_str(str::from_utf8(&bytes[..len]).unwrap());
            assert_eq!(stream.flush(), 0, "what was kept is not lost");
        }
        // The first lines, whole and in order: later ones are dropped, not cut.
        let expected: String = (0..kept).map(line).collect();
        assert!(heard == expected, "{} of {}", heard.len(), expected.len());
        assert_eq!(stream.push(line(0).as_bytes()), 0, "there is room again");
    }

    #[test]
    fn lines_without_a_reader_are_counted() {
        let (reader, stream) = pipe();
        drop(reader);
        assert_eq!(stream.push(b"a\n") + stream.push(b"b\n") + stream.flush(), 2);
    }

    /// While one thread writes, other threads neither wait nor lose lines.
    #[test]
    fn lines_are_left_to_the_current_writer() {
        let (mut reader, stream) = pipe();
        std::thread::scope(|scope| {
            let threads = (0..4).map(|thread| {
                let stream = &stream;
                scope.spawn(move || {
                    let lines = (0..100).map(|n| {
                        stream.push(format!("{thread} {n}\n").as_bytes()) + stream.flush()
                    });
                    lines.sum::<LostLines>()
                })
            });
            let threads: Vec<_> = threads.collect();
            assert!(threads.into_iter().all(|it| it.join().unwrap() == 0));
        });
        drop(stream);
        let mut heard = String::new();
        reader.read_to_string(&mut heard).unwrap();
        assert_eq!(heard.lines().count(), 400);
    }

    #[test]
    fn a_piece_ends_with_a_line() {
        let long = [b'x'; 5000];
        assert_eq!(piece(&long).len(), 4096);
        let two = [&[b'x'; 4000][..], b"\n", &[b'y'; 4000], b"\n"].concat();
        assert_eq!(piece(&two).len(), 4001);
    }
}
