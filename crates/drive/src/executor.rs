//! Lists of operations, and the two ways to do one: a system call for each entry, or one for all.
//!
//! The lists are plain arrays; an entry names a socket and a range of a thread's buffer. It borrows
//! nothing from the engine and knows nothing of it.

use std::io;
use std::os::fd::OwnedFd;

use bytes::BytesMut;
use fulmar_engine::SocketId;
use fulmar_sys::errno::EIO;
use fulmar_sys::{self as sys, RING_LEN_MAX, Ring};

use crate::portions::{Throttle, Way, portion};
use crate::receive::FLOWING_LEN_MAX;
use crate::socket::Sockets;

/// One operation of a turn: plain data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub(crate) socket: SocketId,
    /// Of a send: where its bytes begin in the thread's buffer.
    start: usize,
    /// Bytes wanted: to be sent, or to be received at most.
    pub(crate) len: usize,
    /// As many of them as are tried.
    tried: usize,
    /// How many there were, or a negated `errno(3)`; `EIO` for errors that have no number.
    result: i64,
    /// It was not tried: [`crate::Portions`].
    pub(crate) refused: bool,
    /// Of a send: the end of the connection follows in this turn, and leaves with it.
    is_last: bool,
}

impl Op {
    /// To receive at most `len` bytes.
    pub(crate) fn receive(socket: SocketId, len: usize) -> Self {
        Self { socket, start: 0, len, tried: len, result: 0, refused: false, is_last: false }
    }

    /// To send `len` bytes that begin at `start`.
    pub(crate) fn send(socket: SocketId, start: usize, len: usize, is_last: bool) -> Self {
        Self { start, is_last, ..Self::receive(socket, len) }
    }

    /// How many bytes there were.
    pub(crate) fn outcome(self) -> io::Result<usize> {
        usize::try_from(self.result).map_err(|_| {
            io::Error::from_raw_os_error(i32::try_from(-self.result).unwrap_or(i32::MAX))
        })
    }

    fn note(&mut self, result: io::Result<usize>) {
        self.result = match result {
            Ok(n) => i64::try_from(n).unwrap_or(i64::MAX),
            Err(error) => -i64::from(error.raw_os_error().unwrap_or(EIO)),
        };
    }

    /// What leaves, and whether more follows at once.
    fn bytes<'b>(&self, buffer: &'b [u8]) -> (&'b [u8], bool) {
        (&buffer[self.start..][..self.tried], self.is_last && self.tried == self.len)
    }
}

/// Does lists of operations.
#[derive(Debug)]
pub(crate) enum Executor {
    /// One system call for each entry.
    Direct,
    /// One `io_uring_enter(2)` for all of them, where they are enough to pay for it.
    Ring(Box<Ring>),
}

impl Executor {
    /// Sockets read by one list; they share the block.
    pub(crate) fn receives_max(&self) -> usize {
        match self {
            Self::Direct => FLOWING_LEN_MAX,
            Self::Ring(_) => RING_LEN_MAX,
        }
    }

    /// Receives what each entry wants, but no more than `share`, one after the other into `block`.
    pub(crate) fn receive(
        &mut self,
        ops: &mut [Op],
        share: usize,
        sockets: &Sockets,
        block: &mut BytesMut,
        throttle: &mut Option<Box<Throttle>>,
    ) {
        for op in &mut *ops {
            op.len = share.min(op.len);
        }
        let ops = throttled(ops, Way::Receive, throttle);
        for op in &mut *ops {
            op.len = op.tried; // a portion that is full is followed by another
        }
        match self.ring(ops.len()) {
            Some(ring) => {
                let entry = |op: &Op| (sockets.fd(op.socket), op.len);
                ring.receive(ops, share, block, entry, Op::note);
            }
            None => ops
                .iter_mut()
                .for_each(|op| op.note(sys::recv(sockets.fd(op.socket), block, op.len))),
        }
    }

    /// Sends what each entry wants of `buffer`.
    pub(crate) fn send(
        &mut self,
        ops: &mut [Op],
        sockets: &Sockets,
        buffer: &[u8],
        throttle: &mut Option<Box<Throttle>>,
    ) {
        let ops = throttled(ops, Way::Send, throttle);
        let entry = |op: &Op| {
            let (bytes, more) = op.bytes(buffer);
            (sockets.fd(op.socket), bytes, more)
        };
        match self.ring(ops.len()) {
            Some(ring) => ring.send(ops, entry, Op::note),
            None => ops.iter_mut().for_each(|op| {
                let (fd, bytes, more) = entry(op);
                op.note(sys::send(fd, bytes, more));
            }),
        }
    }

    /// Closes all of them.
    pub(crate) fn close(&mut self, fds: &mut Vec<OwnedFd>) {
        match self.ring(fds.len()) {
            Some(ring) => ring.close(fds),
            None => fds.drain(..).for_each(sys::close),
        }
    }

    /// What does a list of this length.
    fn ring(&mut self, len: usize) -> Option<&mut Ring> {
        match self {
            Self::Ring(ring) if len >= RING_LEN_MIN => Some(ring),
            _ => None,
        }
    }
}

/// The operations that are tried at all, cut to their portions; those that are not stand behind
/// them, and have their answer.
fn throttled<'a>(
    ops: &'a mut [Op],
    way: Way,
    throttle: &mut Option<Box<Throttle>>,
) -> &'a mut [Op] {
    for op in &mut *ops {
        op.tried = op.len;
    }
    if throttle.is_none() {
        return ops;
    }
    for op in &mut *ops {
        match portion(throttle, way, op.len) {
            Ok(tried) => op.tried = tried,
            Err(error) => {
                op.refused = true;
                op.note(Err(error));
            }
        }
    }
    ops.sort_by_key(|op| op.refused);
    let tried = ops.partition_point(|op| !op.refused);
    &mut ops[..tried]
}

/// Shorter lists cost more in a ring than by calls.
const RING_LEN_MIN: usize = 8;
