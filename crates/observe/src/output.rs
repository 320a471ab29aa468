//! The output of several logs, without mixing their lines.
//!
//! A pipe takes at most `PIPE_BUF` bytes atomically (pipe(7)), and a full disk takes part of a
//! line. So logs write one after another, and the rest of a partial line is written before other
//! lines.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fulmar_sys as sys;

/// A file, a pipe or a terminal, shared by the logs of all threads. Cheap to clone.
///
/// If a pipe has a slow reader, the writing thread waits, unless the pipe is non-blocking.
#[derive(Clone, Debug)]
pub struct Output(Arc<Mutex<LogSink>>);

#[derive(Debug)]
struct LogSink {
    fd: OwnedFd,
    /// The unwritten rest of a partial line.
    torn: Vec<u8>,
    /// The last write failed.
    failing: bool,
    /// Lost lines that were not reported yet.
    lost: u64,
}

/// A failure of a log, or its end.
#[derive(Debug)]
pub enum Trouble {
    /// A write failed.
    Failed(io::Error),
    /// Writing works again.
    Recovered {
        /// Number of lines lost meanwhile.
        lost: u64,
    },
    /// The log was closed with lost lines at its end.
    Ended {
        /// Number of lines lost.
        lost: u64,
    },
}

/// The result of a write.
pub(crate) struct WriteResult {
    /// Number of bytes that need no further write; they end with a line.
    pub(crate) taken: usize,
    /// Some bytes are not written yet, here or at the caller.
    pub(crate) failed: bool,
    /// A report for one of the logs that share the output.
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
    /// `fd` must be open for appending.
    pub fn new(fd: OwnedFd) -> Self {
        let sink = LogSink { fd, torn: Vec::new(), failing: false, lost: 0 };
        Self(Arc::new(Mutex::new(sink)))
    }

    /// Switches to another file, from any thread, for example after log rotation. The rest of a
    /// partial line is lost.
    pub fn reopen(&self, fd: OwnedFd) {
        let mut sink = self.sink();
        sink.torn.clear();
        sys::close(std::mem::replace(&mut sink.fd, fd));
    }

    /// Writes the rest of an earlier line, then whole lines.
    pub(crate) fn write(&self, lines: &[u8]) -> WriteResult {
        let mut sink = self.sink();
        let (taken, error) = sink.write(lines);
        let (failed, before) = (error.is_some(), sink.failing);
        let trouble = match error {
            Some(error) if !before => Some(Trouble::Failed(error)),
            None if before => Some(Trouble::Recovered { lost: std::mem::take(&mut sink.lost) }),
            Some(_) | None => None,
        };
        sink.failing = failed;
        WriteResult { taken, failed, trouble }
    }

    /// Counts lines that were dropped without a write.
    pub(crate) fn lose(&self, lines: u64) {
        self.sink().lost += lines;
    }

    /// Called when a log that shares the output ends.
    pub(crate) fn end(&self) -> Option<Trouble> {
        let lost = std::mem::take(&mut self.sink().lost);
        (lost > 0).then_some(Trouble::Ended { lost })
    }

    /// Number of lost lines that were not reported.
    #[cfg(test)]
    pub(crate) fn lost(&self) -> u64 {
        self.sink().lost
    }

    /// Code that holds the lock does not panic.
    fn sink(&self) -> MutexGuard<'_, LogSink> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogSink {
    /// Returns the number of bytes handled; less than all after an error.
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

    /// A full pipe is treated like a full disk; the next attempt shows whether it has room.
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
