//! Pipes, through which bytes pass without being copied (splice(2)): from a socket into a file,
//! or on to another socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_engine::{Engine, Limit};
use fulmar_proto::{FileRange, Pipe};
use fulmar_sys as sys;

/// The pipes of a reactor. Each is used by one transfer at a time; one that is returned with bytes
/// in it is closed, so that nothing of one socket ever reaches where it does not belong.
#[derive(Debug, Default)]
pub(crate) struct Pipes {
    all: Vec<Arc<Pipe>>,
    /// No pipe is opened before.
    paused_until: Option<Instant>,
}

impl Pipes {
    /// An unused empty pipe, of as many as `engine` allows; `None`: bytes have to be
    /// received as usual.
    pub(crate) fn take(&mut self, now: Instant, engine: &impl Engine) -> Option<Arc<Pipe>> {
        if let Some(free) = self.all.iter().find(|pipe| is_free(pipe) && pipe.is_empty()) {
            return Some(Arc::clone(free));
        }
        if self.all.len() >= engine.limit(Limit::Pipes)
            || self.paused_until.is_some_and(|time| now < time)
        {
            return None;
        }
        match open() {
            Ok(pipe) => {
                let pipe = Arc::new(match engine.pipe_counts() {
                    Some(counts) => pipe.counted(counts),
                    None => pipe,
                });
                self.all.push(Arc::clone(&pipe));
                Some(pipe)
            }
            Err(_) => {
                self.paused_until = Some(now + REST);
                None
            }
        }
    }

    /// Closes pipes that were returned with bytes in them, and most of the unused ones.
    pub(crate) fn sweep(&mut self) {
        let mut idle = 0;
        for at in (0..self.all.len()).rev() {
            let pipe = &self.all[at];
            idle += usize::from(is_free(pipe));
            if is_free(pipe) && (!pipe.is_empty() || idle > KEPT_LEN) {
                close(self.all.swap_remove(at));
            }
        }
    }

    /// The reactor ends: all pipes are closed. Those with bytes in use are closed by their last
    /// user.
    pub(crate) fn close(&mut self) {
        self.all.drain(..).for_each(close);
    }
}

/// True if no transfer holds a part of it.
fn is_free(pipe: &Arc<Pipe>) -> bool {
    Arc::strong_count(pipe) == 1
}

fn open() -> io::Result<Pipe> {
    let (reader, writer) = sys::pipe()?;
    match sys::set_pipe_size(writer.as_fd(), PIPE_SIZE) {
        // A system without this has no `splice` either.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            close(Arc::new(Pipe::new(reader, writer)));
            Err(error)
        }
        // The user has reached the limit for the memory of pipes; a smaller one is sufficient.
        _ => Ok(Pipe::new(reader, writer)),
    }
}

fn close(pipe: Arc<Pipe>) {
    if let Ok(pipe) = Arc::try_unwrap(pipe) {
        let (reader, writer) = pipe.into_ends();
        sys::close(reader);
        sys::close(writer);
    }
}

/// Takes at most `len` bytes from a socket; 0 at its end.
pub(crate) fn fill(pipe: &Pipe, socket: BorrowedFd<'_>, len: usize) -> io::Result<usize> {
    let n = sys::splice_in(socket, pipe.writer(), len)?;
    pipe.handle_filled(n as u64);
    Ok(n)
}

/// Gives `len` bytes to a file: how many it took, and why not all of them.
pub(crate) fn store(pipe: &Pipe, range: &FileRange, len: usize) -> (usize, io::Result<()>) {
    let mut moved = 0;
    while moved < len {
        let offset = range.offset + moved as u64;
        match sys::splice_out(pipe.reader(), range.file.as_fd(), offset, len - moved) {
            Ok(0) => return (moved, Err(io::ErrorKind::WriteZero.into())),
            Ok(n) => {
                pipe.handle_emptied(n as u64);
                moved += n;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (moved, Err(error)),
        }
    }
    (moved, Ok(()))
}

/// Gives `len` bytes to a socket, or as many as it takes: it has no room left if that is fewer.
///
/// `splice(2)` stops early at a signal, although the socket has room, and no edge would report that
/// room. So it is repeated until it returns that there is none.
pub(crate) fn send(
    pipe: &Pipe,
    socket: BorrowedFd<'_>,
    len: usize,
    more: bool,
) -> io::Result<usize> {
    let mut sent = 0;
    while sent < len {
        match sys::splice_on(pipe.reader(), socket, len - sent, more) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()), // the pipe holds the bytes
            Ok(n) => {
                pipe.handle_emptied(n as u64);
                sent += n;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if sent == 0 => return Err(error),
            Err(_) => break, // the next call returns it again
        }
    }
    Ok(sent)
}

/// The limit for unprivileged users (`/proc/sys/fs/pipe-max-size`).
pub(crate) const PIPE_SIZE: u32 = 1024 * 1024;
/// The number of unused pipes to keep: two descriptors each, and some kilobytes in the kernel.
const KEPT_LEN: usize = 16;
/// The pause after no pipe could be opened.
const REST: Duration = Duration::from_secs(1);
