//! Transmits that are no entry of a list: several buffers, or files. Each takes the calls that its
//! steps name.

use std::io;
use std::os::fd::BorrowedFd;

use fulmar_proto::{Part, Run, Step};
use fulmar_sys as sys;

use crate::pipe;
use crate::portions::{Throttle, Way, portion};

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
