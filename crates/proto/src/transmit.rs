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

impl FileRange {
    /// True if it begins where `other` ends.
    pub fn continues(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.file, &other.file) && self.offset == other.offset + other.len
    }
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

    /// The range of the file that the transmit begins with. Contiguous parts of the file behind
    /// frame headers belong to it, so that one read loads them. It has at most `max` bytes.
    pub fn first_file(&self, max: u64) -> Option<FileRange> {
        let ([], [Segment::File(first), later @ ..]) = (self.inline, self.segments) else {
            return None;
        };
        let mut range = FileRange { len: first.len.min(max), ..first.clone() };
        for segment in later.iter().take_while(|_| self.is_framed) {
            match segment {
                Segment::Bytes(bytes) if bytes.len() <= GAP_SIZE_MAX => {}
                Segment::File(part) if part.continues(&range) => {
                    range.len = max.min(range.len + part.len);
                }
                Segment::Bytes(_) | Segment::File(_) | Segment::Pipe(_) => break,
            }
        }
        Some(range)
    }

    /// True if some of its bytes are in a pipe.
    pub fn has_pipe(&self) -> bool {
        self.segments.iter().any(|segment| matches!(segment, Segment::Pipe(_)))
    }
}

/// Bytes between two parts of a file that are read at once: frame headers, and the head of another
/// response.
const GAP_SIZE_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contiguous_parts_behind_frame_headers_are_one_range() {
        let open = || Arc::new(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
        let (one, other) = (open(), open());
        let part = |file: &Arc<OwnedFd>, offset, len| {
            Segment::File(FileRange { file: Arc::clone(file), offset, len })
        };
        let header = || Segment::from(&[0; 9][..]);
        let body = || Segment::from(&[0; 2 * GAP_SIZE_MAX][..]);
        let first = |segments: &[Segment], is_framed, max| {
            let transmit = Transmit { is_framed, ..Transmit::new(b"", segments) };
            transmit.first_file(max).map(|range| (range.offset, range.len))
        };
        let parts = [part(&one, 5, 10), header(), part(&one, 15, 10), header(), header()];
        assert_eq!(first(&parts, true, 100), Some((5, 20)));
        assert_eq!(first(&parts, true, 12), Some((5, 12)), "no more than the maximum");
        assert_eq!(first(&parts, true, 7), Some((5, 7)));
        assert_eq!(first(&parts, false, 100), Some((5, 10)), "each is a body of its own");
        assert_eq!(first(&parts[1..], true, 100), None, "it begins with bytes");
        for other in [
            [part(&one, 0, 4), header(), part(&one, 5, 4)],
            [part(&one, 0, 4), header(), part(&other, 4, 4)],
            [part(&one, 0, 4), body(), part(&one, 4, 4)],
        ] {
            assert_eq!(first(&other, true, 100), Some((0, 4)), "{other:?}");
        }
    }
}
