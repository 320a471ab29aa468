//! Lists of operations, and the two ways to execute one: a system call per entry, or one for all.
//!
//! The lists are plain arrays; an entry names a socket and a range of a thread's buffer. It borrows
//! nothing from the engine and knows nothing of it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};

use bytes::BytesMut;
use fulmar_engine::SocketId;
use fulmar_sys::errno::{EAGAIN, EINTR, EIO};
use fulmar_sys::{self as sys, RING_LEN_MAX, Ring};

use crate::receive::FLOWING_LEN_MAX;
use crate::socket::Sockets;
use crate::throttle::{Direction, Throttle, portion};

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
    /// It was not tried, and is to be tried again: a test simulates that, or the ring failed.
    pub(crate) refused: bool,
    /// Of a send: the connection is closed in this turn, and the FIN leaves with the bytes.
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

    /// No more than this is wanted, and tried.
    fn want(&mut self, len: usize) {
        debug_assert!(len <= self.len, "an operation is only cut");
        (self.len, self.tried) = (len, len);
    }

    /// How many bytes there were.
    pub(crate) fn outcome(self) -> io::Result<usize> {
        let exceeds = usize::try_from(self.result).is_ok_and(|n| n > self.len);
        assert!(!exceeds, "no more bytes are moved than wanted");
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

    /// It was not tried.
    fn refuse(&mut self) {
        self.refused = true;
        self.note(Err(io::Error::from_raw_os_error(EAGAIN)));
    }

    /// A ring that failed has left it undone.
    fn is_undone(&self) -> bool {
        self.result == -i64::from(EINTR)
    }

    /// The bytes to send, and whether more follows at once.
    fn bytes<'b>(&self, buffer: &'b [u8]) -> (&'b [u8], bool) {
        (&buffer[self.start..][..self.tried], self.is_last && self.tried == self.len)
    }
}

/// An accepted connection; `None`: not tried.
pub(crate) type Accept = Option<io::Result<(OwnedFd, SocketAddr)>>;

/// Does lists of operations.
#[derive(Debug)]
pub(crate) enum Executor {
    /// One system call per entry; and why there is no ring, if one was requested.
    Direct(Option<io::Error>),
    /// One `io_uring_enter(2)` for a list of at least this length.
    Ring(Box<Ring>, usize),
}

impl Executor {
    /// Sockets read by one list; they share the block.
    pub(crate) fn receives_max(&self) -> usize {
        match self {
            Self::Direct(_) => FLOWING_LEN_MAX,
            Self::Ring(..) => RING_LEN_MAX,
        }
    }

    /// Accepts one connection per entry. Direct calls stop at the first entry that fails.
    pub(crate) fn accept(&mut self, list: &mut [Accept], listener: BorrowedFd<'_>) {
        if let Some(ring) = self.ring(list.len()).filter(|ring| ring.accepts()) {
            ring.accept(
                list,
                |_| listener,
                |it, found| {
                    let undone =
                        matches!(&found, Err(error) if error.kind() == io::ErrorKind::Interrupted);
                    *it = (!undone).then_some(found);
                },
            );
            self.check();
        }
        for it in list.iter_mut().filter(|it| it.is_none()) {
            if it.insert(sys::accept(listener)).is_err() {
                break;
            }
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
        let ops = throttled(ops, Direction::Receive, throttle);
        match self.ring(ops.len()) {
            Some(ring) => {
                receive_by_ring(ring, ops, share, sockets, block);
                self.check();
            }
            None => ops.iter_mut().for_each(|op| {
                op.want(share.min(op.len));
                op.note(sys::recv(sockets.fd(op.socket), block, op.len));
            }),
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
        let ops = throttled(ops, Direction::Send, throttle);
        let entry = |op: &Op| {
            let (bytes, more) = op.bytes(buffer);
            (sockets.fd(op.socket), bytes, more)
        };
        let by_call = |op: &mut Op| {
            let (fd, bytes, more) = entry(op);
            op.note(sys::send(fd, bytes, more));
        };
        match self.ring(ops.len()) {
            Some(ring) => {
                ring.send(ops, entry, Op::note);
                ops.iter_mut().filter(|op| op.is_undone()).for_each(by_call);
                self.check();
            }
            None => ops.iter_mut().for_each(by_call),
        }
    }

    /// Closes all of them.
    #[inline]
    pub(crate) fn close(&mut self, fds: &mut Vec<OwnedFd>) {
        if fds.is_empty() {
            return; // as in most turns
        }
        if let Some(ring) = self.ring(fds.len()) {
            ring.close(fds);
            self.check();
        }
        fds.drain(..).for_each(sys::close);
    }

    /// What does a list of this length.
    fn ring(&mut self, len: usize) -> Option<&mut Ring> {
        match self {
            Self::Ring(ring, len_min) if len >= *len_min => Some(ring),
            Self::Ring(..) | Self::Direct(_) => None,
        }
    }

    /// A ring that has failed is not used again.
    fn check(&mut self) {
        if let Self::Ring(ring, _) = self
            && ring.fault().is_some()
            && let Self::Ring(ring, _) = std::mem::replace(self, Self::Direct(None))
        {
            *self = Self::Direct(ring.into_fault());
        }
    }
}

/// One call for the whole list.
#[inline(never)] // direct calls are more frequent, and shorter
fn receive_by_ring(
    ring: &mut Ring,
    ops: &mut [Op],
    share: usize,
    sockets: &Sockets,
    block: &mut BytesMut,
) {
    ops.iter_mut().for_each(|op| op.want(share.min(op.len)));
    let entry = |op: &Op| (sockets.fd(op.socket), op.len);
    ring.receive(ops, share, block, entry, Op::note);
    // What has arrived lies in order: nothing can be put between it now.
    ops.iter_mut().filter(|op| op.is_undone()).for_each(Op::refuse);
}

/// The operations that are tried, cut to their portions. The others are moved behind them, with
/// their result set.
#[inline]
fn throttled<'a>(
    ops: &'a mut [Op],
    way: Direction,
    throttle: &mut Option<Box<Throttle>>,
) -> &'a mut [Op] {
    if throttle.is_none() {
        return ops;
    }
    for op in &mut *ops {
        match (portion(throttle, way, op.len), way) {
            (Ok(tried), Direction::Receive) => op.want(tried), // if it is full, another follows
            (Ok(tried), Direction::Send) => op.tried = tried,
            (Err(_), _) => op.refuse(),
        }
    }
    ops.sort_by_key(|op| op.refused);
    let tried = ops.partition_point(|op| !op.refused);
    &mut ops[..tried]
}
