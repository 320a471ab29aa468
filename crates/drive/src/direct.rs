//! The direct executor: a list of operations, one system call per entry.
//!
//! The lists are plain arrays; an entry names a socket and a length in a thread's buffer, where the
//! entries lie side by side. It borrows nothing from the engine and knows nothing of it.

use std::io;
use std::os::fd::BorrowedFd;

use bytes::BytesMut;
use fulmar_engine::SocketId;
use fulmar_proto::{Part, Run, Step};
use fulmar_sys as sys;
use fulmar_sys::errno::EIO;

use crate::pipe;
use crate::portions::{Throttle, Way, portion};
use crate::socket::Sockets;

/// One operation of a turn: plain data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub(crate) socket: SocketId,
    /// Bytes wanted: to be sent, or to be received at most.
    pub(crate) len: usize,
    /// How many there were, or a negated `errno(3)`; `EIO` for errors that have no number.
    result: i64,
    /// It was not tried: [`crate::Portions`].
    pub(crate) refused: bool,
    /// Of a send: the end of the connection follows in this turn, and leaves with it.
    pub(crate) is_last: bool,
}

impl Op {
    pub(crate) fn new(socket: SocketId, len: usize) -> Self {
        Self { socket, len, result: 0, refused: false, is_last: false }
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
}

/// Receives at most `share` bytes for each entry, and no more than it wants, one after the other
/// into `block`.
pub(crate) fn receive(
    ops: &mut [Op],
    share: usize,
    sockets: &Sockets,
    block: &mut BytesMut,
    throttle: &mut Option<Box<Throttle>>,
) {
    for op in ops {
        let len = share.min(op.len);
        let portion = portion(throttle, Way::Receive, len);
        op.refused = portion.is_err();
        op.len = *portion.as_ref().unwrap_or(&len);
        op.note(portion.and_then(|len| sys::recv(sockets.fd(op.socket), block, len)));
    }
}

/// Sends `len` bytes of `buffer` for each entry, one after the other.
pub(crate) fn send(
    ops: &mut [Op],
    sockets: &Sockets,
    mut buffer: &[u8],
    throttle: &mut Option<Box<Throttle>>,
) {
    for op in ops {
        let (bytes, rest) = buffer.split_at(op.len);
        buffer = rest;
        let portion = portion(throttle, Way::Send, bytes.len());
        op.note(portion.and_then(|n| {
            let more = op.is_last && n == bytes.len();
            sys::send(sockets.fd(op.socket), &bytes[..n], more)
        }));
    }
}

/// Does the steps of a transmit until one falls short: what was wanted, and what has left.
///
/// `memory` is for files that have to be read; it grows when that happens first.
pub(crate) fn send_steps<'t>(
    fd: BorrowedFd<'_>,
    steps: impl Iterator<Item = Step<'t>>,
    memory: &mut Vec<u8>,
    throttle: &mut Option<Box<Throttle>>,
) -> (u64, io::Result<u64>) {
    let (mut wanted, mut sent) = (0, 0);
    for step in steps {
        wanted += step.len();
        match send_step(fd, step, memory, throttle) {
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

fn send_step(
    fd: BorrowedFd<'_>,
    step: Step<'_>,
    memory: &mut Vec<u8>,
    throttle: &mut Option<Box<Throttle>>,
) -> io::Result<u64> {
    let len = usize::try_from(step.len()).unwrap_or(usize::MAX);
    match portion(throttle, Way::Send, len)? {
        n if n < len => send_some(fd, step, n, memory),
        _ => send_whole(fd, step, memory),
    }
}

fn send_whole(fd: BorrowedFd<'_>, step: Step<'_>, memory: &mut Vec<u8>) -> io::Result<u64> {
    let n = match step {
        Step::Gather { run: Run { inline, buffers: [] }, more } => sys::send(fd, inline, more)?,
        Step::Gather { run, more } => sys::send_vectored(fd, run.slices(), more)?,
        Step::File { run, part: Part { file, offset, len } } if run.is_empty() => {
            some_of_file(send_file(fd, file, offset, len)?)?
        }
        Step::File { run, part: Part { file, offset, len } } => {
            sys::send_file_with_head(fd, run.slices(), file, offset, len)?
        }
        Step::Read { run, part, more } => {
            let bytes = read(part, memory)?;
            match run.is_empty() {
                true => sys::send(fd, bytes, more)?,
                false => sys::send_vectored(fd, run.slices().chain([bytes]), more)?,
            }
        }
        Step::Pipe { pipe, len, more } => {
            pipe::send(pipe, fd, usize::try_from(len).unwrap_or(usize::MAX), more)?
        }
    };
    Ok(n as u64)
}

/// Sends as much of a file as the socket takes.
///
/// `sendfile(2)` moves a pipe full at a time and stops between two of them when a signal has come,
/// although the socket has room: no edge would tell of that later. So it is asked again wherever a
/// pipe full may have ended, which is at the end of a page. Where the socket was full, it says so.
fn send_file(fd: BorrowedFd<'_>, file: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<usize> {
    let mut sent = 0;
    while sent < len {
        match sys::send_file(fd, file, offset + sent, len - sent) {
            Ok(0) => break,
            Ok(n) => sent += n as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if sent == 0 => return Err(error),
            Err(_) => break, // it will say so again
        }
        if !(offset + sent).is_multiple_of(PAGE_SIZE) {
            break;
        }
    }
    Ok(usize::try_from(sent).unwrap_or(usize::MAX))
}

/// The first `n` bytes of a step, or fewer.
fn send_some(
    fd: BorrowedFd<'_>,
    step: Step<'_>,
    n: usize,
    memory: &mut Vec<u8>,
) -> io::Result<u64> {
    if let Some(bytes) = step.run().slices().find(|slice| !slice.is_empty()) {
        return Ok(sys::send(fd, &bytes[..n.min(bytes.len())], false)? as u64);
    }
    let run = Run::default();
    let shorter = |part| Part { len: n as u64, ..part };
    let step = match step {
        Step::Gather { .. } => return Ok(0), // nothing to send
        Step::File { part, .. } => Step::File { run, part: shorter(part) },
        Step::Read { part, .. } => Step::Read { run, part: shorter(part), more: false },
        Step::Pipe { pipe, .. } => Step::Pipe { pipe, len: n as u64, more: false },
    };
    send_whole(fd, step, memory)
}

/// The bytes of a part, or as many as the file has.
fn read<'m>(part: Part<'_>, memory: &'m mut Vec<u8>) -> io::Result<&'m [u8]> {
    let len = usize::try_from(part.len).map_err(io::Error::other)?;
    if memory.len() < len {
        memory.resize(len, 0);
    }
    let n = some_of_file(sys::pread(part.file, &mut memory[..len], part.offset)?)?;
    Ok(&memory[..n])
}

fn some_of_file(n: usize) -> io::Result<usize> {
    match n {
        0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, SHRUNK)),
        n => Ok(n),
    }
}

pub(crate) const SHRUNK: &str = "the file became shorter while it was sent";
/// The smallest page there is; larger ones end where these do.
const PAGE_SIZE: u64 = 4096;
