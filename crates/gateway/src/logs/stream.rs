//! An open descriptor that lines are written to: a file, a pipe, a terminal.
//!
//! Its reader may be stuck: a pager, a driver of a container's logs. Then nobody here waits: lines
//! are kept up to a bound, and those behind it are lost and counted. The descriptor is shared with
//! others, so it is not made non-blocking; a pipe is asked whether it takes a page, and is given no
//! more.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use fulmar_sys::{self as sys, PollEntry};

/// How many lines were lost.
pub(super) type Lost = u64;

/// An open descriptor that lines of all threads are written to.
#[derive(Debug)]
pub(super) struct Stream {
    file: File,
    /// A write may wait for a reader.
    stalls: bool,
    /// What threads have said since the last write. Nobody writes while they hold it.
    waiting: Mutex<Vec<u8>>,
    /// What is being written. Who finds it held goes on: the holder looks again.
    writing: Mutex<Writing>,
}

/// Whole lines, but for a part of the first that is written already.
#[derive(Debug, Default)]
struct Writing {
    bytes: Vec<u8>,
    done: usize,
}

impl Stream {
    pub(super) fn new(file: File) -> Self {
        let stalls = !file.metadata().is_ok_and(|it| it.is_file());
        Self { file, stalls, waiting: Mutex::default(), writing: Mutex::default() }
    }

    /// Keeps a line until [`Stream::flush`], as long as there is room.
    pub(super) fn push(&self, line: &[u8]) -> Lost {
        if self.put(line) {
            return 0;
        }
        let lost = self.flush();
        lost + Lost::from(!self.put(line))
    }

    fn put(&self, line: &[u8]) -> bool {
        let mut waiting = held(&self.waiting);
        let fits = waiting.len() + line.len() <= WAITING_SIZE_MAX;
        if fits {
            waiting.extend_from_slice(line);
        }
        fits
    }

    /// Writes what waits, as far as it is taken; the rest goes on waiting.
    pub(super) fn flush(&self) -> Lost {
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
            // Who came meanwhile has left it to us.
            if is_stuck || held(&self.waiting).is_empty() {
                return lost;
            }
        }
    }

    /// Writes as much as is taken. A reader that is gone takes nothing: then all of it is lost.
    fn write(&self, writing: &mut Writing) -> Lost {
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

    /// True if a page can be written without waiting (pipe(7): a pipe is writable if one is free).
    fn has_room(&self) -> bool {
        let mut entry = [PollEntry::new(self.file.as_fd())];
        // What cannot be asked is tried: an error tells.
        sys::poll_now(&mut entry).is_err() || entry[0].events().is_writable()
    }
}

impl Writing {
    fn is_done(&self) -> bool {
        self.done == self.bytes.len()
    }

    /// What waits is written next; the memory of what was written waits in its place.
    fn take(&mut self, waiting: &mut Vec<u8>) {
        self.bytes.clear();
        self.done = 0;
        std::mem::swap(&mut self.bytes, waiting);
    }

    fn lose(&mut self) -> Lost {
        let lost = self.bytes[self.done..].iter().filter(|byte| **byte == b'\n').count();
        self.bytes.clear();
        self.done = 0;
        lost as Lost
    }
}

/// So much as a pipe takes at once and in one piece: whole lines, if one fits.
fn piece(rest: &[u8]) -> &[u8] {
    let most = &rest[..rest.len().min(PIECE_SIZE_MAX)];
    let end = most.iter().rposition(|byte| *byte == b'\n');
    end.map_or(most, |end| &most[..=end])
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a turn writes is far less; a reader that is slower than this is stuck.
const WAITING_SIZE_MAX: usize = 64 * 1024;
/// `PIPE_BUF` of Linux: so much is not mixed with what others write.
const PIECE_SIZE_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn pipe() -> (io::PipeReader, Stream) {
        let (reader, writer) = io::pipe().unwrap();
        (reader, Stream::new(File::from(std::os::fd::OwnedFd::from(writer))))
    }

    /// Whoever wrote to a full pipe waited for its reader, and held up all others.
    #[test]
    fn a_reader_that_is_stuck_holds_nobody_up() {
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
        // The first ones, each whole and in order: later ones are lost, not torn.
        let expected: String = (0..kept).map(line).collect();
        assert!(heard == expected, "{} of {}", heard.len(), expected.len());
        assert_eq!(stream.push(line(0).as_bytes()), 0, "there is room again");
    }

    #[test]
    fn lines_that_nobody_will_read_are_counted() {
        let (reader, stream) = pipe();
        drop(reader);
        assert_eq!(stream.push(b"a\n") + stream.push(b"b\n") + stream.flush(), 2);
    }

    /// While one thread writes, others neither wait nor lose a line.
    #[test]
    fn who_finds_a_writer_leaves_the_line_to_it() {
        let (mut reader, stream) = pipe();
        std::thread::scope(|scope| {
            let threads = (0..4).map(|thread| {
                let stream = &stream;
                scope.spawn(move || {
                    let lines = (0..100).map(|n| {
                        stream.push(format!("{thread} {n}\n").as_bytes()) + stream.flush()
                    });
                    lines.sum::<Lost>()
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
