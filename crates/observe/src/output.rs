//! Where the lines of several logs go, each of them whole.
//!
//! A pipe takes no more than `PIPE_BUF` bytes in one piece (pipe(7)), and a disk that runs full
//! takes part of a line. So logs write one after the other, and of a line that was written in part
//! the rest leaves before anything else does.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fulmar_sys as sys;

/// A file, a pipe or a terminal, shared by the logs of all threads. Cheap to clone.
///
/// A pipe whose reader is slow has the thread that writes wait, unless it is non-blocking.
#[derive(Clone, Debug)]
pub struct Output(Arc<Mutex<Sink>>);

#[derive(Debug)]
struct Sink {
    fd: OwnedFd,
    /// What is missing of a line that was written in part.
    torn: Vec<u8>,
    /// The last attempt failed.
    failing: bool,
    /// Lines lost that nobody was told of.
    lost: u64,
}

/// What happened to a log.
#[derive(Debug)]
pub enum Trouble {
    /// It cannot be written.
    Failed(io::Error),
    /// It can again; so many lines are missing.
    Recovered {
        /// Lines that found no room meanwhile.
        lost: u64,
    },
    /// It is closed; so many lines are missing at its end.
    Ended {
        /// Lines that found no room, or could not be written any more.
        lost: u64,
    },
}

/// What became of lines.
pub(crate) struct Written {
    /// So many bytes of them need not be written again; they end with a line.
    pub(crate) taken: usize,
    /// Something is left, here or with the caller.
    pub(crate) failed: bool,
    /// To be told: to one of those who share the output, once.
    pub(crate) trouble: Option<Trouble>,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => write!(
                f,
                "cannot write the access log: {error}; serving goes on, lines that find no room \
                 are lost, and writing is tried again every second"
            ),
            Self::Recovered { lost } => {
                write!(f, "the access log can be written again; {lost} lines were lost")
            }
            Self::Ended { lost } => write!(f, "{lost} lines of the access log were lost"),
        }
    }
}

impl Output {
    /// `fd` is open for appending.
    pub fn new(fd: OwnedFd) -> Self {
        let sink = Sink { fd, torn: Vec::new(), failing: false, lost: 0 };
        Self(Arc::new(Mutex::new(sink)))
    }

    /// Writes to another file from now on, from any thread: what was one has been moved away. Of a
    /// line that was written in part, the rest is lost.
    pub fn reopen(&self, fd: OwnedFd) {
        let mut sink = self.sink();
        sink.torn.clear();
        sys::close(std::mem::replace(&mut sink.fd, fd));
    }

    /// Writes whole lines, and what is missing of earlier ones.
    pub(crate) fn write(&self, lines: &[u8]) -> Written {
        let mut sink = self.sink();
        let (taken, error) = sink.write(lines);
        let (failed, before) = (error.is_some(), sink.failing);
        let trouble = match error {
            Some(error) if !before => Some(Trouble::Failed(error)),
            None if before => Some(Trouble::Recovered { lost: std::mem::take(&mut sink.lost) }),
            Some(_) | None => None,
        };
        sink.failing = failed;
        Written { taken, failed, trouble }
    }

    /// So many lines were not even tried.
    pub(crate) fn lose(&self, lines: u64) {
        self.sink().lost += lines;
    }

    /// One of those who share it has ended.
    pub(crate) fn end(&self) -> Option<Trouble> {
        let lost = std::mem::take(&mut self.sink().lost);
        (lost > 0).then_some(Trouble::Ended { lost })
    }

    /// Lines that are missing, and that nobody was told of.
    #[cfg(test)]
    pub(crate) fn lost(&self) -> u64 {
        self.sink().lost
    }

    /// Nothing that may panic is done while the lock is held.
    fn sink(&self) -> MutexGuard<'_, Sink> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink {
    /// How many bytes are dealt with; less than all if there is an error.
    fn write(&mut self, lines: &[u8]) -> (usize, Option<io::Error>) {
        let torn = std::mem::take(&mut self.torn);
        let (written, error) = self.write_bytes(&torn);
        if error.is_some() {
            self.torn = torn[written..].to_vec();
            return (0, error);
        }
        let (written, error) = self.write_bytes(lines);
        if error.is_none() || written == 0 || lines[written - 1] == b'\n' {
            return (written, error);
        }
        let rest = &lines[written..];
        let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
        self.torn.extend_from_slice(&rest[..end]);
        (written + end, error)
    }

    /// A pipe that is full for the moment fails like a disk that is; the next attempt shows.
    fn write_bytes(&self, bytes: &[u8]) -> (usize, Option<io::Error>) {
        let mut written = 0;
        while written < bytes.len() {
            match sys::write(self.fd.as_fd(), &bytes[written..]) {
                Ok(n) if n > 0 => written += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) => return (written, Some(io::ErrorKind::WriteZero.into())),
                Err(e) => return (written, Some(e)),
            }
        }
        (written, None)
    }
}
