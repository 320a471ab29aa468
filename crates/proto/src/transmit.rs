//! What may leave a socket now, and the system calls it takes: data, not calls.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::{Buf, Bytes};

/// A run of outgoing bytes and where the kernel finds them. Cheap to clone; never copied.
#[derive(Clone, Debug)]
pub enum Segment {
    /// Bytes in memory.
    Bytes(Bytes),
    /// Bytes of an open file.
    File(FileRange),
}

/// Bytes of an open file, to be sent with `sendfile(2)`. The core never reads them.
#[derive(Clone)]
pub struct FileRange {
    /// The file; shared with whoever caches it.
    pub file: Arc<OwnedFd>,
    /// Where the range begins.
    pub offset: u64,
    /// How long it is.
    pub len: u64,
}

impl fmt::Debug for FileRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileRange({}..{})", self.offset, self.offset + self.len)
    }
}

impl Segment {
    /// How many bytes it stands for.
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(range) => range.len,
        }
    }

    /// True if it stands for none.
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

impl From<FileRange> for Segment {
    fn from(range: FileRange) -> Self {
        Self::File(range)
    }
}

/// Everything a socket may send now, in order: a view, not a hand-over.
///
/// Looking is free; only `handle_sent` removes bytes.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// Heads and small bodies, already joined; they leave first.
    pub inline: &'a [u8],
    /// What follows them.
    pub segments: &'a [Segment],
}

/// One system call's worth of a [`Transmit`].
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// One `send` (no `buffers`) or `sendmsg`.
    Gather {
        /// Leaves first.
        inline: &'a [u8],
        /// All of them [`Segment::Bytes`], at most [`GATHER_LEN_MAX`].
        buffers: &'a [Segment],
        /// `MSG_MORE`: another step follows.
        more: bool,
    },
    /// One `sendfile`.
    File {
        /// What to send.
        range: &'a FileRange,
        /// Another step follows.
        more: bool,
    },
}

impl Step<'_> {
    /// How many bytes it sends if nothing falls short.
    pub fn len(&self) -> u64 {
        match self {
            Self::Gather { inline, buffers, .. } => {
                inline.len() as u64 + buffers.iter().map(Segment::len).sum::<u64>()
            }
            Self::File { range, .. } => range.len,
        }
    }

    /// True if it sends nothing; no step of a transmit does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> Transmit<'a> {
    /// The transmit as one run of bytes, if that is all it is.
    pub fn as_inline(&self) -> Option<&'a [u8]> {
        self.segments.is_empty().then_some(self.inline)
    }

    /// Cuts the queue into system calls. Pure: the same segments always give the same plan.
    pub fn steps(self) -> impl Iterator<Item = Step<'a>> {
        let (mut inline, mut rest) = (self.inline, self.segments);
        std::iter::from_fn(move || {
            let is_bytes = |segment: &&Segment| matches!(segment, Segment::Bytes(_));
            let run = rest.iter().take(GATHER_LEN_MAX).take_while(is_bytes).count();
            let first = std::mem::take(&mut inline);
            if run > 0 || !first.is_empty() {
                let (buffers, later) = rest.split_at(run);
                rest = later;
                return Some(Step::Gather { inline: first, buffers, more: !later.is_empty() });
            }
            let (Segment::File(range), later) = rest.split_first()? else {
                unreachable!("a run of bytes was taken above")
            };
            rest = later;
            Some(Step::File { range, more: !later.is_empty() })
        })
    }
}

/// Buffers in one `sendmsg`, besides the inline bytes.
pub const GATHER_LEN_MAX: usize = 31;

#[cfg(test)]
mod tests {
    use super::*;

    fn file(len: u64) -> Segment {
        let file = Arc::new(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
        Segment::File(FileRange { file, offset: 0, len })
    }

    /// `g3+` is a gather of three buffers with more to follow, `f` a file that ends the plan.
    fn plan(inline: &[u8], segments: &[Segment]) -> String {
        let show = |step: Step<'_>| match step {
            Step::Gather { inline, buffers, more } => {
                format!("g{}{}", usize::from(!inline.is_empty()) + buffers.len(), mark(more))
            }
            Step::File { more, .. } => format!("f{}", mark(more)),
        };
        let steps: Vec<_> = Transmit { inline, segments }.steps().map(show).collect();
        steps.join(" ")
    }

    fn mark(more: bool) -> &'static str {
        if more { "+" } else { "" }
    }

    #[test]
    fn a_plan_says_more_on_every_step_but_the_last() {
        let bytes = || Segment::from(&b"x"[..]);
        assert_eq!(plan(b"head", &[]), "g1");
        assert_eq!(plan(b"head", &[bytes(), bytes()]), "g3");
        assert_eq!(plan(b"head", &[file(10)]), "g1+ f");
        assert_eq!(plan(b"", &[file(10), bytes(), file(1)]), "f+ g1+ f");
        assert_eq!(plan(b"head", &vec![bytes(); GATHER_LEN_MAX + 1]), "g32+ g1");
    }
}
