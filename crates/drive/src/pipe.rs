//! A pipe between sockets and files: bytes pass through it without being copied (splice(2)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fulmar_proto::FileRange;
use fulmar_sys as sys;

/// Empty between two uses; one that could not be emptied is closed, so that nothing of one socket
/// ever reaches the file of another.
#[derive(Debug)]
pub(crate) struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Pipe {
    pub(crate) fn open() -> io::Result<Self> {
        let (reader, writer) = sys::pipe()?;
        match sys::set_pipe_size(writer.as_fd(), PIPE_SIZE) {
            // A system without this has no `splice` either.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => return Err(error),
            // Refused to users whose pipes have much memory already: a smaller one does as well.
            _ => {}
        }
        Ok(Self { reader, writer })
    }

    /// Takes at most `len` bytes from a socket; 0 at its end.
    pub(crate) fn fill(&self, socket: BorrowedFd<'_>, len: usize) -> io::Result<usize> {
        sys::splice_in(socket, self.writer.as_fd(), len)
    }

    /// Gives `len` bytes to a file: how many it took, and why not all of them.
    pub(crate) fn empty(&self, range: &FileRange, len: usize) -> (usize, io::Result<()>) {
        let mut moved = 0;
        while moved < len {
            let offset = range.offset + moved as u64;
            match sys::splice_out(self.reader.as_fd(), range.file.as_fd(), offset, len - moved) {
                Ok(0) => return (moved, Err(io::ErrorKind::WriteZero.into())),
                Ok(n) => moved += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (moved, Err(error)),
            }
        }
        (moved, Ok(()))
    }

    pub(crate) fn close(self) {
        sys::close(self.reader);
        sys::close(self.writer);
    }
}

/// What the kernel lets anybody have (`/proc/sys/fs/pipe-max-size`).
pub(crate) const PIPE_SIZE: u32 = 1024 * 1024;
