//! The direct executor: a list of operations, one system call per entry.
//!
//! The lists are plain arrays; an entry names a socket and a range of a thread's buffer, borrows
//! nothing from the engine and knows nothing of it.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use bytes::BytesMut;
use fulmar_engine::SocketId;
use fulmar_proto::{Segment, Step, Transmit};
use fulmar_sys as sys;

use crate::socket::Sockets;

/// One operation of a turn.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) socket: SocketId,
    /// Where its bytes lie in the thread's buffer; for a receive, the executor says.
    pub(crate) range: Range<usize>,
    pub(crate) result: io::Result<usize>,
}

impl Op {
    pub(crate) fn receive(socket: SocketId) -> Self {
        Self { socket, range: 0..0, result: Ok(0) }
    }

    pub(crate) fn send(socket: SocketId, range: Range<usize>) -> Self {
        Self { socket, range, result: Ok(0) }
    }
}

/// Receives at most `share` bytes for each entry, one after the other into `block`.
pub(crate) fn receive(ops: &mut [Op], sockets: &Sockets, block: &mut BytesMut, share: usize) {
    for op in ops {
        let start = block.len();
        op.result = sys::recv(sockets.fd(op.socket), block, share);
        op.range = start..block.len();
    }
}

/// Sends each entry's range of `buffer`.
pub(crate) fn send(ops: &mut [Op], sockets: &Sockets, buffer: &[u8]) {
    for op in ops {
        op.result = sys::send(sockets.fd(op.socket), &buffer[op.range.clone()], false);
    }
}

/// Does the steps of a transmit until one falls short: what was wanted, and what has left.
pub(crate) fn send_steps(fd: BorrowedFd<'_>, transmit: Transmit<'_>) -> (u64, io::Result<u64>) {
    let (mut wanted, mut sent) = (0, 0);
    for step in transmit.steps() {
        wanted += step.len();
        match send_step(fd, step) {
            Ok(n) => sent += n,
            Err(_) if sent > 0 => break, // it will say so again
            Err(e) => return (wanted, Err(e)),
        }
        if sent < wanted {
            break;
        }
    }
    (wanted, Ok(sent))
}

fn send_step(fd: BorrowedFd<'_>, step: Step<'_>) -> io::Result<u64> {
    let n = match step {
        Step::Gather { inline, buffers: [], more } => sys::send(fd, inline, more)?,
        Step::Gather { inline, buffers, more } => {
            let runs = std::iter::once(inline).chain(buffers.iter().filter_map(as_bytes));
            sys::send_vectored(fd, runs, more)?
        }
        Step::File { range, .. } => {
            match sys::send_file(fd, range.file.as_fd(), range.offset, range.len)? {
                0 => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, SHRUNK)),
                n => n,
            }
        }
    };
    Ok(n as u64)
}

fn as_bytes(segment: &Segment) -> Option<&[u8]> {
    match segment {
        Segment::Bytes(bytes) => Some(bytes),
        Segment::File(_) => None,
    }
}

const SHRUNK: &str = "the file became shorter while it was sent";
