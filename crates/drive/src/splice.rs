//! The receiving side of a turn, for bytes that bypass the engine.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use fulmar_engine::{Engine, Limit, Passage, SocketEvent, SocketId};
use fulmar_proto::{FileRange, Pipe, Piped};

use crate::executor::Op;
use crate::pipe::{self, PIPE_SIZE};
use crate::reactor::Reactor;
use crate::receive::BLOCK_SIZE;
use crate::selector::Selector;
use crate::socket::{SendState, Socket};
use crate::throttle::{Direction, portion};

impl<E: Engine, S: Selector> Reactor<E, S> {
    /// From now on what arrives may go past the engine; what has arrived goes the usual way first.
    pub(crate) fn set_splicing(&mut self, id: SocketId) {
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.splicing = true;
            socket.resumed |= !socket.unread.is_empty();
            self.list(id);
        }
    }

    /// True if what the kernel holds of a socket goes past the engine next.
    pub(crate) fn is_splicing(&mut self, id: SocketId) -> bool {
        let socket = self.sockets.get_mut(id).expect("it is on this turn's list");
        if socket.splicing && self.engine.poll_passage(id).is_none_or(|to| to.is_empty()) {
            socket.splicing = false; // the body is complete
        }
        socket.splicing && socket.unread.is_empty() && !matches!(socket.send, SendState::Broken(_))
    }

    /// Moves what a socket has to where it belongs. If there is no pipe to be had, it is received
    /// as usual in the next turn, and the engine may request it again.
    pub(crate) fn splice(&mut self, now: Instant, id: SocketId) {
        let to = self.engine.poll_passage(id).filter(|to| !to.is_empty());
        let pipe = to.as_ref().and_then(|_| self.pipes.take(now, &self.engine));
        match (to, pipe) {
            (Some(Passage::File(_)), Some(pipe)) => self.splice_into_file(now, id, &pipe),
            (Some(Passage::Pipe { len }), Some(pipe)) => {
                self.splice_into_pipe(now, id, pipe, len);
            }
            (None, _) | (Some(Passage::File(_) | Passage::Pipe { .. }), None) => {
                self.stop_splicing(id);
            }
        }
    }

    /// At most one full pipe per turn. The amount of input is unknown: a pipe is full after a
    /// number of pieces, not bytes, so a short splice has no meaning and only `EAGAIN` ends the
    /// input.
    fn splice_into_file(&mut self, now: Instant, id: SocketId, pipe: &Pipe) {
        let mut left = PIPE_SIZE as usize;
        while left > 0 {
            let Some(Passage::File(range)) =
                self.engine.poll_passage(id).filter(|to| !to.is_empty())
            else {
                break;
            };
            let len = usize::try_from(range.len).unwrap_or(usize::MAX).min(left);
            match self.fill(now, id, pipe, len) {
                Some(n) if self.store(now, id, pipe, &range, n) => left -= n,
                Some(_) => break,
                None => return,
            }
        }
        self.relist(id);
    }

    /// Once per turn, so that the pipe is emptied before it is filled again. A short splice has no
    /// meaning here either; but if it moved little, reading is cheaper. Bytes behind the last one
    /// that may bypass the engine have usually arrived with it, and are sent with it.
    fn splice_into_pipe(&mut self, now: Instant, id: SocketId, pipe: Arc<Pipe>, len: u64) {
        let most = usize::try_from(len).unwrap_or(usize::MAX).min(FILLED_SIZE);
        let Some(n) = self.fill(now, id, &pipe, most) else { return };
        if n < FILLED_SIZE_MIN
            && self.throttle.is_none()
            && let Some(socket) = self.sockets.get_mut(id)
        {
            socket.splicing = false;
        }
        self.report(now, id, SocketEvent::Piped(Piped { pipe, len: n as u64 }));
        match n as u64 == len && self.sockets.get(id).is_some_and(Socket::may_receive) {
            true => {
                let most =
                    self.engine.limit(Limit::Unread(id)).min(self.engine.limit(Limit::Receive(id)));
                self.receives.push(Op::receive(id, most));
            }
            false => self.relist(id),
        }
    }

    /// From the socket into the pipe: how much; `None` if that was nothing, and all there is to be
    /// done about it is done.
    fn fill(&mut self, now: Instant, id: SocketId, pipe: &Pipe, len: usize) -> Option<usize> {
        let socket = self.sockets.get_mut(id)?;
        let portion = portion(&mut self.throttle, Direction::Receive, len);
        let refused = portion.is_err();
        match portion.and_then(|len| pipe::fill(pipe, socket.fd.as_fd(), len)) {
            Ok(0) => self.end_splice(now, id),
            Ok(n) => return Some(n),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                socket.readable = refused;
                self.relist(id);
            }
            Err(error) if cannot_splice(&error) => self.stop_splicing(id),
            Err(error) => self.report(now, id, SocketEvent::Failed(error)),
        }
        None
    }

    /// From the pipe into the file; false if the file failed.
    fn store(
        &mut self,
        now: Instant,
        id: SocketId,
        pipe: &Pipe,
        range: &FileRange,
        len: usize,
    ) -> bool {
        let (moved, result) = pipe::store(pipe, range, len);
        assert!(moved <= len && (moved == len || result.is_err()), "a short store has an error");
        if moved > 0 {
            self.report(now, id, SocketEvent::Spliced(moved as u64));
        }
        let Err(error) = result else { return true };
        self.pipes_to_sweep = true; // it holds bytes of this socket
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.splicing = false;
            socket.reading = false; // bytes are missing from here on
        }
        self.report(now, id, SocketEvent::FileFailed(error));
        self.update_interest(id);
        false
    }

    /// What comes is received as usual from now on.
    fn stop_splicing(&mut self, id: SocketId) {
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.splicing = false;
        }
        self.relist(id);
    }

    fn end_splice(&mut self, now: Instant, id: SocketId) {
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.eof = true;
        }
        self.redeliver(now, id);
    }
}

/// True if it is not the socket that failed: it is of a kind that cannot do this, or the kernel or
/// a filter of system calls does not let it.
fn cannot_splice(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, OutOfMemory, PermissionDenied, Unsupported};
    matches!(error.kind(), InvalidInput | OutOfMemory | PermissionDenied | Unsupported)
}

/// Bytes of a socket that pass through a pipe in one turn.
const FILLED_SIZE: usize = BLOCK_SIZE;
/// If fewer have come than this, it was not worth it.
const FILLED_SIZE_MIN: usize = 8 * 1024;
