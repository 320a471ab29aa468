//! Files and pipes of the simulator, and the bytes of a transmit.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use fulmar_proto::{FileRange, Pipe, Segment, Transmit};

use super::Sim;
use crate::{Limit, SocketEvent, SocketId};

/// A file range that has to be read into memory.
#[derive(Debug)]
pub(super) struct Loading {
    pub(super) node: usize,
    pub(super) socket: SocketId,
    pub(super) range: FileRange,
}

impl Sim {
    /// Reads the range, or a part of it.
    pub(super) fn load(&mut self, at: usize) {
        let Loading { node, socket, range } = self.loads.remove(at);
        if !self.places.contains_key(&(node, socket)) {
            return; // closed meanwhile
        }
        let most = usize::try_from(range.len).unwrap_or(LOAD_SIZE).min(LOAD_SIZE);
        let len = self.portion(1, most) as u64;
        let result = match self.chance(self.faults.file) {
            true => Err(failure()),
            false => read(&FileRange { len, ..range }),
        };
        match result {
            Ok(bytes) => self.report(node, SocketEvent::Loaded(&bytes).of(socket)),
            Err(error) => self.report(node, SocketEvent::Failed(error).of(socket)),
        }
    }

    /// An empty pipe, if the engine allows one more. Pipes that were returned with bytes in them
    /// are closed.
    pub(super) fn take_pipe(&mut self, node: usize) -> Option<Arc<Pipe>> {
        if self.chance(self.faults.pipe) {
            return None;
        }
        let node = &mut self.nodes[node];
        node.pipes.retain(|pipe| Arc::strong_count(pipe) > 1 || pipe.is_empty());
        let is_free = |pipe: &&Arc<Pipe>| Arc::strong_count(pipe) == 1;
        if let Some(free) = node.pipes.iter().find(is_free) {
            return Some(Arc::clone(free));
        }
        if node.pipes.len() >= node.engine.limit(Limit::Pipes) {
            return None;
        }
        let (reader, writer) = io::pipe().ok()?;
        let pipe = Pipe::new(reader.into(), writer.into());
        let pipe = Arc::new(match node.engine.pipe_counts() {
            Some(counts) => pipe.counted(counts),
            None => pipe,
        });
        node.pipes.push(Arc::clone(&pipe));
        Some(pipe)
    }
}

fn open(fd: BorrowedFd<'_>) -> File {
    fd.try_clone_to_owned().expect("a spare descriptor").into()
}

/// Puts bytes into an empty pipe: at most [`PIPE_SIZE`], for which there is room.
pub(super) fn fill(pipe: &Pipe, bytes: &[u8]) {
    open(pipe.writer()).write_all(bytes).expect("room for them");
    pipe.handle_filled(bytes.len() as u64);
}

/// Puts bytes where a range begins.
pub(super) fn write(range: &FileRange, bytes: &[u8]) -> io::Result<()> {
    File::from(range.file.try_clone()?).write_all_at(bytes, range.offset)
}

/// The bytes of a file range.
fn read(range: &FileRange) -> io::Result<Vec<u8>> {
    let mut content = vec![0; usize::try_from(range.len).expect("a file for a test is small")];
    File::from(range.file.try_clone()?).read_exact_at(&mut content, range.offset)?;
    Ok(content)
}

/// The first `n` bytes of a transmit. Those in pipes are taken out.
pub(super) fn flatten(transmit: Transmit<'_>, n: usize) -> io::Result<Vec<u8>> {
    let mut bytes = transmit.inline[..n.min(transmit.inline.len())].to_vec();
    for segment in transmit.segments {
        let left = n - bytes.len();
        match segment {
            Segment::Bytes(run) => bytes.extend_from_slice(&run[..left.min(run.len())]),
            Segment::File(range) => {
                let len = range.len.min(left as u64);
                bytes.extend(read(&FileRange { len, ..range.clone() })?);
            }
            Segment::Pipe(piped) => {
                let len = piped.len.min(left as u64);
                open(piped.pipe.reader()).take(len).read_to_end(&mut bytes)?;
                piped.pipe.handle_emptied(len);
            }
        }
    }
    Ok(bytes)
}

/// What an injected fault reports.
pub(super) fn failure() -> io::Error {
    io::Error::other("an injected fault")
}

/// No pipe of Linux is smaller, unless a user has very many.
pub(super) const PIPE_SIZE: usize = 60 * 1024;
/// As much as a driver reads ahead of a socket.
const LOAD_SIZE: usize = 128 * 1024;
