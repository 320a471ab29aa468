//! The bytes that a socket may send now. The system calls for them are in [`crate::plan`].

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::{Buf, Bytes};

use crate::pipe::Piped;

/// A run of outgoing bytes and where the kernel finds them. Cheap to clone; never copied.
#[derive(Clone, Debug)]
pub enum Segment {
    /// Bytes in memory.
    Bytes(Bytes),
    /// Bytes of an open file.
    File(FileRange),
    /// Bytes in a pipe.
    Pipe(Piped),
}

/// Bytes of an open file, to be sent with `sendfile(2)`. The core never reads them.
#[derive(Clone)]
pub struct FileRange {
    /// The file; may be shared with a cache.
    pub file: Arc<OwnedFd>,
    /// The offset of the first byte.
    pub offset: u64,
    /// The length.
    pub len: u64,
}

impl fmt::Debug for FileRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileRange({}..{})", self.offset, self.offset + self.len)
    }
}

impl Segment {
    /// The number of bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(range) => range.len,
            Self::Pipe(piped) => piped.len,
        }
    }

    /// True if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops the first `n` bytes, at most all of them.
    pub(crate) fn advance(&mut self, n: u64) {
        match self {
            Self::Bytes(bytes) => bytes.advance(usize::try_from(n).expect("at most its length")),
            Self::File(range) => {
                range.offset += n;
                range.len -= n;
            }
            Self::Pipe(piped) => piped.len -= n,
        }
    }
}

impl From<Bytes> for Segment {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<&'static [u8]> for Segment {
    fn from(bytes: &'static [u8]) -> Self {
        Self::Bytes(Bytes::from_static(bytes))
    }
}

impl From<Piped> for Segment {
    fn from(piped: Piped) -> Self {
        Self::Pipe(piped)
    }
}

impl From<FileRange> for Segment {
    fn from(range: FileRange) -> Self {
        Self::File(range)
    }
}

/// All bytes that a socket may send now, in order: a view. Only `handle_sent` removes bytes.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// Heads and small bodies, already joined; they are sent first.
    pub inline: &'a [u8],
    /// The bytes after them.
    pub segments: &'a [Segment],
    /// True if these are the last bytes, and none are expected from the peer: a FIN may be sent
    /// with the last packet.
    pub is_last: bool,
    /// Parts of files are payloads of frames: they are read into memory, and sent in one call with
    /// the bytes between them.
    pub is_framed: bool,
}

impl<'a> Transmit<'a> {
    /// These bytes, of which more may follow.
    pub fn new(inline: &'a [u8], segments: &'a [Segment]) -> Self {
        Self { inline, segments, is_last: false, is_framed: false }
    }

    /// The transmit as one run of bytes, if that is all it is.
    pub fn as_inline(&self) -> Option<&'a [u8]> {
        self.segments.is_empty().then_some(self.inline)
    }

    /// The number of bytes.
    pub fn len(&self) -> u64 {
        self.inline.len() as u64 + self.segments.iter().map(Segment::len).sum::<u64>()
    }

    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.inline.is_empty() && self.segments.is_empty()
    }

    /// True if some of its bytes are in a pipe.
    pub fn has_pipe(&self) -> bool {
        self.segments.iter().any(|segment| matches!(segment, Segment::Pipe(_)))
    }
}
