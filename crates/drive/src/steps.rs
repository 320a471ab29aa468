//! Transmits that are no entry of a list: several buffers, or files. Each takes the calls that its
//! steps name.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use fulmar_proto::{Part, Run, Step, Weave, WeavePiece};
use fulmar_sys as sys;

use crate::pipe;
use crate::throttle::{Direction, Throttle, portion};

/// What came of a transmit, or of as much of it as was tried.
#[derive(Debug, Default)]
pub(crate) struct SendOutcome {
    /// Bytes that were to leave.
    pub(crate) wanted: u64,
    /// How many have left. If that is fewer, and nothing has failed, the socket has no room left.
    pub(crate) sent: u64,
    /// The error behind them. It may be reported only once, as that of a file: no event repeats it.
    pub(crate) error: Option<io::Error>,
}

impl SendOutcome {
    /// Of one call that was to send `wanted` bytes.
    pub(crate) fn of_call(wanted: u64, result: io::Result<u64>) -> Self {
        match result {
            Ok(sent) => Self { wanted, sent, error: None },
            Err(error) => Self { wanted, sent: 0, error: failure(error) },
        }
    }

    /// Nothing is left, and nothing is wrong.
    pub(crate) fn is_all(&self) -> bool {
        self.sent == self.wanted && self.error.is_none()
    }
}

/// Does the steps of a transmit until one falls short, or about `share` bytes have left: what is
/// behind them was not tried, and the socket may have room for it.
///
/// `memory` is for files that have to be read; it grows when that happens first.
pub(crate) fn send_steps<'t>(
    fd: BorrowedFd<'_>,
    steps: impl Iterator<Item = Step<'t>>,
    share: u64,
    memory: &mut Vec<u8>,
    throttle: &mut Option<Box<Throttle>>,
) -> SendOutcome {
    let mut outcome = SendOutcome::default();
    for step in steps {
        if outcome.sent >= share {
            break;
        }
        let step = match step {
            Step::File { run, part } => {
                Step::File { run, part: Part { len: part.len.min(share), ..part } }
            }
            step => step,
        };
        outcome.wanted += step.len();
        let (sent, result) = send_step(fd, step, memory, throttle);
        outcome.sent += sent;
        outcome.error = result.err().and_then(failure);
        if !outcome.is_all() {
            break;
        }
    }
    outcome
}

/// That a socket has no room is no failure.
fn failure(error: io::Error) -> Option<io::Error> {
    (error.kind() != io::ErrorKind::WouldBlock).then_some(error)
}

/// The number of bytes of a step that were sent, and the result behind them.
fn send_step(
    fd: BorrowedFd<'_>,
    step: Step<'_>,
    memory: &mut Vec<u8>,
    throttle: &mut Option<Box<Throttle>>,
) -> (u64, io::Result<()>) {
    let len = usize::try_from(step.len()).unwrap_or(usize::MAX);
    match portion(throttle, Direction::Send, len) {
        Ok(n) if n < len => send_some(fd, step, n, memory),
        Ok(_) => send_whole(fd, step, memory),
        Err(error) => (0, Err(error)),
    }
}

/// Makes calls until the socket has no room, or one fails.
///
/// `sendfile(2)` stops early at a signal (SIGSTOP and SIGCONT are enough, which cannot be blocked),
/// and at the end of a file that has become shorter, although the socket has room: no edge would
/// report that room. So the rest of a file is sent at once, until the socket returns `EAGAIN`,
/// which also makes the kernel report room. That is a call for each stall of a slow client. A short
/// count alone does not show the cause, and every query instead (the file's length, the room) is a
/// call as well.
fn send_whole(
    fd: BorrowedFd<'_>,
    mut step: Step<'_>,
    memory: &mut Vec<u8>,
) -> (u64, io::Result<()>) {
    let mut sent = 0;
    loop {
        match send_once(fd, step, memory) {
            Ok((n, rest)) => {
                sent += n as u64;
                match rest {
                    Some(rest) => step = rest,
                    None => return (sent, Ok(())),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (sent, Err(error)),
        }
    }
}

/// How many bytes have left, and what else the socket may have room for.
fn send_once<'t>(
    fd: BorrowedFd<'_>,
    step: Step<'t>,
    memory: &mut Vec<u8>,
) -> io::Result<(usize, Option<Step<'t>>)> {
    match step {
        Step::Gather { run: Run { inline, buffers: [] }, more } => {
            Ok((sys::send(fd, inline, more)?, None))
        }
        Step::Gather { run, more } => Ok((sys::send_vectored(fd, run.slices(), more)?, None)),
        Step::File { run, part } => {
            let Part { file, offset, len } = part;
            let n = match run.is_empty() {
                true => some_of_file(sys::send_file(fd, file, offset, len)?)?,
                false => sys::send_file_with_head(fd, run.slices(), file, offset, len)?,
            };
            let of_file = (n as u64).checked_sub(run.len());
            let rest = of_file.and_then(|n| behind(part, n));
            Ok((n, rest.map(|part| Step::File { run: Run::default(), part })))
        }
        Step::Read { run, part, more } => {
            let bytes = read(part, memory)?;
            let n = match run.is_empty() {
                true => sys::send(fd, bytes, more)?,
                false => sys::send_vectored(fd, run.slices().chain([bytes]), more)?,
            };
            let len = bytes.len() as u64;
            let rest = if n as u64 == run.len() + len { behind(part, len) } else { None };
            Ok((n, rest.map(|part| Step::Read { run: Run::default(), part, more })))
        }
        Step::Weave { weave, more } => send_woven(fd, weave, more, memory),
        Step::Pipe { pipe, len, more } => {
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            Ok((pipe::send(pipe, fd, len, more)?, None))
        }
    }
}

/// Reads the parts of files, and sends them with the bytes between them. What a file that has
/// become shorter lacks is read again as the rest, which fails.
fn send_woven<'t>(
    fd: BorrowedFd<'_>,
    weave: Weave<'t>,
    more: bool,
    memory: &mut Vec<u8>,
) -> io::Result<(usize, Option<Step<'t>>)> {
    let read = read_parts(weave, memory)?;
    let (len, missing) = available(weave, read.len() as u64);
    let mut unsent = read;
    let slices = Weave { len, ..weave }.pieces().map(|piece| match piece {
        WeavePiece::Bytes(bytes) => bytes,
        WeavePiece::Part(part) => {
            let len = usize::try_from(part.len).map_or(unsent.len(), |len| len.min(unsent.len()));
            let (bytes, rest) = unsent.split_at(len);
            unsent = rest;
            bytes
        }
    });
    let n = sys::send_vectored(fd, slices, more && missing.is_none())?;
    let rest = missing.filter(|_| n as u64 == len);
    Ok((n, rest.map(|part| Step::Read { run: Run::default(), part, more: false })))
}

/// The bytes of all parts, one after the other, up to the first that a file does not have. Parts
/// that are contiguous in their file are read at once.
fn read_parts<'m>(weave: Weave<'_>, memory: &'m mut Vec<u8>) -> io::Result<&'m [u8]> {
    let size: u64 = weave.parts().map(|part| part.len).sum();
    let size = usize::try_from(size).map_err(io::Error::other)?;
    if memory.len() < size {
        memory.resize(size, 0);
    }
    let (mut filled, mut run) = (0, None);
    for next in weave.parts().map(Some).chain([None]) {
        if let (Some(run), Some(next)) = (&mut run, next)
            && continues(run, next)
        {
            run.len += next.len;
        } else if let Some(Part { file, offset, len }) = std::mem::replace(&mut run, next) {
            let end = filled + usize::try_from(len).map_err(io::Error::other)?;
            let start = filled;
            while filled < end {
                let at = offset + (filled - start) as u64;
                match sys::pread(file, &mut memory[filled..end], at)? {
                    0 => return Ok(&memory[..filled]),
                    n => filled += n,
                }
            }
        }
    }
    Ok(&memory[..filled])
}

/// True if a part begins in its file where a run ends.
fn continues(run: &Part<'_>, part: Part<'_>) -> bool {
    run.file.as_raw_fd() == part.file.as_raw_fd() && run.offset + run.len == part.offset
}

/// The number of bytes before the first one that was not read, and the rest of its part.
fn available(weave: Weave<'_>, mut read: u64) -> (u64, Option<Part<'_>>) {
    let mut len = 0;
    for piece in weave.pieces() {
        if let WeavePiece::Part(part) = piece {
            if read < part.len {
                return (len + read, behind(part, read));
            }
            read -= part.len;
        }
        len += piece.len();
    }
    (len, None)
}

/// What is left of a part after `n` bytes.
fn behind(part: Part<'_>, n: u64) -> Option<Part<'_>> {
    let Part { file, offset, len } = part;
    (n < len).then(|| Part { file, offset: offset + n, len: len - n })
}

/// The first `n` bytes of a step, or fewer.
fn send_some(
    fd: BorrowedFd<'_>,
    step: Step<'_>,
    n: usize,
    memory: &mut Vec<u8>,
) -> (u64, io::Result<()>) {
    if let Some(bytes) = step.run().slices().find(|slice| !slice.is_empty()) {
        return match sys::send(fd, &bytes[..n.min(bytes.len())], false) {
            Ok(sent) => (sent as u64, Ok(())),
            Err(error) => (0, Err(error)),
        };
    }
    let run = Run::default();
    let shorter = |part| Part { len: n as u64, ..part };
    let step = match step {
        Step::Gather { .. } => return (0, Ok(())), // nothing to send
        Step::File { part, .. } => Step::File { run, part: shorter(part) },
        Step::Read { part, .. } => Step::Read { run, part: shorter(part), more: false },
        Step::Weave { weave, .. } => {
            Step::Weave { weave: Weave { len: n as u64, ..weave }, more: false }
        }
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::sync::Arc;

    use fulmar_proto::{Abilities, FileRange, Segment, Transmit};

    use super::*;

    /// Into something that is never full.
    fn sent(lens: &[u64], share: u64) -> SendOutcome {
        let null = File::options().write(true).open("/dev/null").unwrap();
        let zeros = tempfile::tempfile().unwrap();
        zeros.set_len(*lens.iter().max().unwrap()).unwrap();
        let zeros = Arc::new(zeros.into());
        let range = |len: &u64| FileRange { file: Arc::clone(&zeros), offset: 0, len: *len };
        let segments: Vec<_> = lens.iter().map(|len| Segment::File(range(len))).collect();
        let transmit = Transmit::new(b"", &segments);
        send_steps(
            null.as_fd(),
            transmit.steps(Abilities::LINUX),
            share,
            &mut Vec::new(),
            &mut None,
        )
    }

    /// Parts of two files, with bytes between them, through a pair of sockets.
    fn woven(portion: u64, missing: u64) -> (Vec<u8>, Option<io::ErrorKind>) {
        use std::io::Read;
        use std::os::unix::fs::FileExt;

        let files = [(0, b"0123456789"), (1, b"abcdefghij")].map(|(n, content)| {
            let file = tempfile::tempfile().unwrap();
            file.write_all_at(content, 0).unwrap();
            file.set_len(content.len() as u64 - n * missing).unwrap();
            Arc::new(file.into())
        });
        let part = |file: usize, offset, len| {
            Segment::File(FileRange { file: Arc::clone(&files[file]), offset, len })
        };
        let bytes = |text: &'static str| Segment::from(text.as_bytes());
        let segments = [
            part(0, 2, 3),
            bytes("<"),
            part(0, 5, 5),
            bytes("|"),
            part(1, 0, 4),
            bytes(">"),
            part(1, 4, 6),
            bytes("end"),
        ];
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let transmit = Transmit { is_framed: true, ..Transmit::new(b"head", &segments) };
        let Some(Step::Weave { mut weave, more }) = transmit.steps(Abilities::LINUX).next() else {
            panic!("parts of files are woven");
        };
        weave.len = weave.len.min(portion);
        let step = Step::Weave { weave, more };
        let memory = &mut Vec::new();
        let outcome = send_steps(ours.as_fd(), [step].into_iter(), u64::MAX, memory, &mut None);
        drop(ours);
        let mut received = Vec::new();
        theirs.read_to_end(&mut received).unwrap();
        assert_eq!(outcome.sent, received.len() as u64);
        (received, outcome.error.map(|error| error.kind()))
    }

    #[test]
    fn parts_of_files_are_woven_byte_for_byte() {
        let whole = b"head234<56789|abcd>efghijend";
        for len in 1..=whole.len() {
            assert_eq!(woven(len as u64, 0), (whole[..len].to_vec(), None));
        }
    }

    /// All that there is leaves, and the failure is behind it.
    #[test]
    fn a_shorter_file_ends_a_weave_where_its_bytes_end() {
        for (missing, sent) in [(1, "head234<56789|abcd>efghi"), (6, "head234<56789|abcd>")] {
            let expected = (sent.as_bytes().to_vec(), Some(io::ErrorKind::UnexpectedEof));
            assert_eq!(woven(u64::MAX, missing), expected);
        }
        let (sent, error) = woven(u64::MAX, 10);
        assert_eq!(
            (&sent[..], error),
            (&b"head234<56789|"[..], Some(io::ErrorKind::UnexpectedEof))
        );
    }

    #[test]
    fn a_share_ends_within_a_file_and_behind_one() {
        for (lens, share, left) in [
            (&[5_000_000][..], 1_000_000, 1_000_000),
            (&[5_000_000], u64::MAX, 5_000_000),
            (&[400_000, 300_000, 200_000, 600_000], 900_000, 900_000),
            (&[400_000, 300_000, 900_000, 600_000], 800_000, 1_500_000),
        ] {
            let SendOutcome { wanted, sent, error } = sent(lens, share);
            assert_eq!((wanted, sent, error.is_none()), (left, left, true), "{lens:?}");
        }
    }
}
