//! The receiving side of a turn, for bytes that go straight into files.

use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

use fulmar_engine::{Engine, SocketId};
use fulmar_proto::FileRange;

use crate::pipe::{PIPE_SIZE, Pipe};
use crate::portions::{Way, portion};
use crate::reactor::Reactor;
use crate::selector::Selector;

impl<E: Engine, S: Selector> Reactor<E, S> {
    /// From now on what arrives may go into a file; what has arrived goes the usual way first.
    pub(crate) fn set_splicing(&mut self, id: SocketId) {
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.splicing = true;
            socket.resumed |= !socket.unread.is_empty();
            self.list(id);
        }
    }

    /// True if what the kernel holds of a socket goes into a file next.
    pub(crate) fn is_splicing(&mut self, id: SocketId) -> bool {
        let Some(socket) = self.sockets.get_mut(id) else { return false };
        if socket.splicing && self.engine.poll_splice(id).is_none_or(|range| range.len == 0) {
            socket.splicing = false; // the body is complete
        }
        socket.splicing && socket.unread.is_empty()
    }

    /// Moves what a socket has into its file, at most a pipe full of it in one turn. How much
    /// there is nobody tells: a pipe is full after so many pieces, not bytes, so a short splice
    /// says nothing and only `EAGAIN` ends it.
    pub(crate) fn splice(&mut self, now: Instant, id: SocketId) {
        let mut left = PIPE_SIZE as usize;
        while left > 0 {
            let Some(range) = self.engine.poll_splice(id).filter(|range| range.len > 0) else {
                break;
            };
            let len = usize::try_from(range.len).unwrap_or(usize::MAX).min(left);
            let portion = portion(&mut self.throttle, Way::Receive, len);
            let refused = portion.is_err();
            match portion.and_then(|len| self.fill(id, len)) {
                Ok(Some(0)) => return self.end_splice(now, id),
                Ok(Some(n)) if self.empty(now, id, &range, n) => left -= n,
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Some(socket) = self.sockets.get_mut(id) {
                        socket.readable = refused;
                    }
                    break;
                }
                Err(error) => return self.engine.handle_failed(now, id, error),
            }
        }
        self.relist(id);
    }

    /// From the socket into the pipe; nothing if there is no pipe to be had: then the bytes are
    /// received as usual.
    fn fill(&mut self, id: SocketId, len: usize) -> io::Result<Option<usize>> {
        let Some(socket) = self.sockets.get_mut(id) else { return Ok(None) };
        if self.pipe.is_none() {
            self.pipe = Pipe::open().ok();
        }
        let Some(pipe) = &self.pipe else {
            socket.splicing = false;
            return Ok(None);
        };
        pipe.fill(socket.fd.as_fd(), len).map(Some)
    }

    /// From the pipe into the file; false if the file failed.
    fn empty(&mut self, now: Instant, id: SocketId, range: &FileRange, len: usize) -> bool {
        let Some(pipe) = self.pipe.take() else { return false };
        let (moved, result) = pipe.empty(range, len);
        if moved > 0 {
            self.engine.handle_spliced(now, id, moved as u64);
        }
        let Err(error) = result else {
            self.pipe = Some(pipe);
            return true;
        };
        pipe.close(); // with what it holds of this socket
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.splicing = false;
            socket.reading = false; // bytes are missing from here on
        }
        self.engine.handle_splice_failed(now, id, error);
        self.update_interest(id);
        false
    }

    fn end_splice(&mut self, now: Instant, id: SocketId) {
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.eof = true;
        }
        self.redeliver(now, id);
    }
}
