//! The system calls that a transmit takes: a pure function of what a platform can do.
//!
//! No plan sets a socket option. Accepted sockets inherit `TCP_NODELAY` from their listener, so the
//! last packet of a plan is sent at once. A head and its body are joined in packets by `MSG_MORE`
//! (Linux), by the head argument of `sendfile` (FreeBSD, macOS), or by reading the file into memory
//! and gathering it with its head (other systems). `TCP_CORK` and `TCP_NOPUSH` would have to be set
//! and cleared for each response, and Nagle's algorithm switched, without saving a packet.
//!
//! The last step of a plan never has `MSG_MORE`: when more bytes follow is unknown.

use std::os::fd::{AsFd, BorrowedFd};

use crate::pipe::Pipe;
use crate::transmit::{FileRange, Segment, Transmit};

/// What a platform's calls can do. This is data, so that all plans are tested on each platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// `MSG_MORE` is supported: another call follows, and the kernel delays an incomplete packet.
    pub more: bool,
    /// How the bytes of a file reach a socket.
    pub files: Files,
    /// How the signal of a closed connection is prevented.
    pub signals: Signals,
}

/// How the bytes of a file reach a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// `sendfile`, which sends nothing but the file.
    Sendfile,
    /// `sendfile` with bytes in memory before the file (`struct sf_hdtr`).
    SendfileHead,
    /// `pread` into memory, and a write of that.
    Read,
}

/// How `SIGPIPE` of a send to a closed connection is prevented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signals {
    /// `MSG_NOSIGNAL`, a flag of each call that supports it. `sendfile` and `splice` do not: the
    /// program has to ignore the signal, or the thread to block it.
    Flag,
    /// `SO_NOSIGPIPE`, set once for each connection: the one option that has no other way.
    Option,
    /// There is no such signal.
    Unknown,
}

impl Abilities {
    /// Linux 2.4 and later.
    pub const LINUX: Self = Self { more: true, files: Files::Sendfile, signals: Signals::Flag };
    /// FreeBSD 9.1 and later.
    pub const FREEBSD: Self =
        Self { more: false, files: Files::SendfileHead, signals: Signals::Flag };
    /// macOS 10.5 and later.
    pub const MACOS: Self =
        Self { more: false, files: Files::SendfileHead, signals: Signals::Option };
    /// NetBSD, which has no `sendfile`.
    pub const NETBSD: Self = Self { more: false, files: Files::Read, signals: Signals::Flag };
    /// Windows, also under cygwin.
    pub const WINDOWS: Self = Self { more: false, files: Files::Read, signals: Signals::Unknown };

    /// Those of the target platform. An unknown platform has the fewest.
    pub const NATIVE: Self = if cfg!(target_os = "linux") {
        Self::LINUX
    } else if cfg!(target_os = "freebsd") {
        Self::FREEBSD
    } else if cfg!(target_os = "macos") {
        Self::MACOS
    } else if cfg!(windows) {
        Self::WINDOWS
    } else {
        Self::NETBSD
    };
}

/// Bytes in memory that are sent in one call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run<'a> {
    /// Sent first.
    pub inline: &'a [u8],
    /// All of them [`Segment::Bytes`], at most [`GATHER_LEN_MAX`].
    pub buffers: &'a [Segment],
}

impl<'a> Run<'a> {
    /// The number of bytes.
    pub fn len(&self) -> u64 {
        self.inline.len() as u64 + self.buffers.iter().map(Segment::len).sum::<u64>()
    }

    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.inline.is_empty() && self.buffers.is_empty()
    }

    /// Its bytes, in place.
    pub fn slices(self) -> impl Iterator<Item = &'a [u8]> {
        let bytes = |segment: &'a Segment| match segment {
            Segment::Bytes(bytes) => Some(&bytes[..]),
            Segment::File(_) | Segment::Pipe(_) => None,
        };
        std::iter::once(self.inline).chain(self.buffers.iter().filter_map(bytes))
    }
}

/// Bytes of a file that are sent in one call.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The file.
    pub file: BorrowedFd<'a>,
    /// The offset of the first byte.
    pub offset: u64,
    /// The number of bytes.
    pub len: u64,
}

/// Parts of files between bytes in memory. Each run that is contiguous in its file is read by one
/// `pread`, and all are sent in one call.
#[derive(Clone, Copy, Debug)]
pub struct Weave<'a> {
    /// Sent first.
    pub inline: &'a [u8],
    /// Bytes and parts of files, at most [`GATHER_LEN_MAX`].
    pub segments: &'a [Segment],
    /// The number of bytes to send: all of them, or the first.
    pub len: u64,
}

/// A piece of a [`Weave`].
#[derive(Clone, Copy, Debug)]
pub enum WeavePiece<'a> {
    /// Bytes in memory.
    Bytes(&'a [u8]),
    /// Bytes to be read.
    Part(Part<'a>),
}

impl WeavePiece<'_> {
    /// The number of bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Part(part) => part.len,
        }
    }

    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn first(self, n: u64) -> Self {
        match self {
            Self::Bytes(bytes) => {
                let n = usize::try_from(n).map_or(bytes.len(), |n| n.min(bytes.len()));
                Self::Bytes(&bytes[..n])
            }
            Self::Part(part) => Self::Part(Part { len: part.len.min(n), ..part }),
        }
    }
}

impl<'a> Weave<'a> {
    /// Its pieces in order.
    pub fn pieces(self) -> impl Iterator<Item = WeavePiece<'a>> {
        let mut left = self.len;
        let pieces = self.segments.iter().filter_map(|segment| match segment {
            Segment::Bytes(bytes) => Some(WeavePiece::Bytes(bytes)),
            Segment::File(range) => Some(WeavePiece::Part(part_of(range))),
            Segment::Pipe(_) => None,
        });
        let pieces = std::iter::once(WeavePiece::Bytes(self.inline)).chain(pieces);
        pieces.map_while(move |piece| {
            let piece = (left > 0).then(|| piece.first(left))?;
            left -= piece.len();
            Some(piece)
        })
    }

    /// Its parts of files, in order.
    pub fn parts(self) -> impl Iterator<Item = Part<'a>> {
        self.pieces().filter_map(|piece| match piece {
            WeavePiece::Bytes(_) => None,
            WeavePiece::Part(part) => Some(part),
        })
    }
}

/// One call, or several, that send a part of a transmit.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// One `send` (no buffers) or `sendmsg`.
    Gather {
        /// What to send.
        run: Run<'a>,
        /// `MSG_MORE`: another step follows.
        more: bool,
    },
    /// One `sendfile`.
    File {
        /// Sent before the file; only with [`Files::SendfileHead`].
        run: Run<'a>,
        /// What to send.
        part: Part<'a>,
    },
    /// One `pread`, and one `send` or `sendmsg`.
    Read {
        /// Sent before the bytes that were read.
        run: Run<'a>,
        /// What to read, at most [`READ_SIZE_MAX`].
        part: Part<'a>,
        /// As above.
        more: bool,
    },
    /// A `pread` for each run of a file, and one `sendmsg`.
    Weave {
        /// What to send.
        weave: Weave<'a>,
        /// As above.
        more: bool,
    },
    /// One `splice`.
    Pipe {
        /// The source.
        pipe: &'a Pipe,
        /// The number of bytes.
        len: u64,
        /// `SPLICE_F_MORE`: another step follows.
        more: bool,
    },
}

impl<'a> Step<'a> {
    /// The number of bytes that it sends if no call is short.
    pub fn len(&self) -> u64 {
        match self {
            Self::Pipe { len, .. } => *len,
            Self::Weave { weave, .. } => weave.len,
            _ => self.run().len() + self.part().map_or(0, |part| part.len),
        }
    }

    /// True if it sends nothing; no step of a transmit does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its bytes in memory: those before the first of a file.
    pub fn run(&self) -> Run<'a> {
        match self {
            Self::Gather { run, .. } | Self::File { run, .. } | Self::Read { run, .. } => *run,
            Self::Weave { weave, .. } => Run { inline: weave.inline, buffers: &[] },
            Self::Pipe { .. } => Run::default(),
        }
    }

    /// Its bytes in a file, if they are contiguous and follow those in memory.
    pub fn part(&self) -> Option<Part<'a>> {
        match self {
            Self::Gather { .. } | Self::Weave { .. } | Self::Pipe { .. } => None,
            Self::File { part, .. } | Self::Read { part, .. } => Some(*part),
        }
    }
}

impl<'a> Transmit<'a> {
    /// Cuts the queue into calls, as a platform can do them. Pure: the same segments always give
    /// the same plan.
    pub fn steps(self, on: Abilities) -> impl Iterator<Item = Step<'a>> {
        let Self { inline, segments, is_framed, .. } = self;
        let mut rest = Remaining { inline, segments, read: 0, is_framed };
        std::iter::from_fn(move || rest.step(on))
    }
}

/// The rest of a transmit.
struct Remaining<'a> {
    inline: &'a [u8],
    segments: &'a [Segment],
    read: u64, // bytes of the first segment, a file, that an earlier step reads
    is_framed: bool,
}

impl<'a> Remaining<'a> {
    #[inline]
    fn step(&mut self, on: Abilities) -> Option<Step<'a>> {
        if self.is_framed
            && let Some(weave) = self.weave()
        {
            return Some(Step::Weave { weave, more: on.more && !self.segments.is_empty() });
        }
        let is_bytes = |segment: &&Segment| matches!(segment, Segment::Bytes(_));
        let len = self.segments.iter().take(GATHER_LEN_MAX).take_while(is_bytes).count();
        let (buffers, later) = self.segments.split_at(len);
        let run = Run { inline: std::mem::take(&mut self.inline), buffers };
        self.segments = later;
        // A full run leaves no room in its call for the bytes of a file.
        let joins = || on.files != Files::Sendfile && len < GATHER_LEN_MAX;
        if !run.is_empty() && !joins() {
            return Some(Step::Gather { run, more: on.more && !later.is_empty() });
        }
        match later.split_first() {
            Some((Segment::File(range), _)) if on.files == Files::Read => {
                Some(self.read(run, range, on))
            }
            Some((Segment::File(range), later)) => {
                self.segments = later;
                Some(Step::File { run, part: part_of(range) })
            }
            Some((Segment::Pipe(piped), later)) if run.is_empty() => {
                self.segments = later;
                let more = on.more && !later.is_empty();
                Some(Step::Pipe { pipe: &piped.pipe, len: piped.len, more })
            }
            _ if run.is_empty() => None,
            _ => Some(Step::Gather { run, more: on.more && !later.is_empty() }),
        }
    }

    /// The next parts of files and the bytes between them, as many as one call sends.
    fn weave(&mut self) -> Option<Weave<'a>> {
        let (mut count, mut len, mut read) = (0, self.inline.len() as u64, 0);
        for segment in self.segments.iter().take(GATHER_LEN_MAX) {
            match segment {
                Segment::Bytes(_) => {}
                Segment::File(range) if read + range.len <= WEAVE_SIZE_MAX => read += range.len,
                Segment::File(_) | Segment::Pipe(_) => break,
            }
            count += 1;
            len += segment.len();
        }
        if read == 0 {
            return None;
        }
        let (segments, later) = self.segments.split_at(count);
        self.segments = later;
        Some(Weave { inline: std::mem::take(&mut self.inline), segments, len })
    }

    /// The next piece of the file that comes next.
    fn read(&mut self, run: Run<'a>, range: &'a FileRange, on: Abilities) -> Step<'a> {
        let whole = part_of(range);
        let (offset, left) = (whole.offset + self.read, whole.len - self.read);
        let len = left.min(READ_SIZE_MAX);
        self.read += len;
        if len == left {
            self.segments = &self.segments[1..];
            self.read = 0;
        }
        let part = Part { offset, len, ..whole };
        Step::Read { run, part, more: on.more && !self.segments.is_empty() }
    }
}

fn part_of(range: &FileRange) -> Part<'_> {
    Part { file: range.file.as_fd(), offset: range.offset, len: range.len }
}

/// Buffers in one `sendmsg`, besides the inline bytes.
pub const GATHER_LEN_MAX: usize = 63;
/// Bytes of a file that are read into memory at a time: about what a socket takes at once.
pub const READ_SIZE_MAX: u64 = 128 * 1024;
/// Bytes of files that are read into memory for one [`Weave`]: what HTTP/2 frames at a time.
pub const WEAVE_SIZE_MAX: u64 = 576 * 1024;

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::sync::Arc;

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::pipe::Piped;

    const PLATFORMS: [Abilities; 5] = [
        Abilities::LINUX,
        Abilities::FREEBSD,
        Abilities::MACOS,
        Abilities::NETBSD,
        Abilities::WINDOWS,
    ];

    fn file(len: u64) -> Segment {
        let file = Arc::new(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
        Segment::File(FileRange { file, offset: 0, len })
    }

    /// Nothing is read from it.
    fn pipe(len: u64) -> Segment {
        let end = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        Segment::Pipe(Piped { pipe: Arc::new(Pipe::new(end(), end())), len })
    }

    fn bytes() -> Segment {
        Segment::from(&b"x"[..])
    }

    /// `g3+` is a gather of three buffers with more to follow, `f` a file, `f1` one with a buffer
    /// before it, `r1` one that is read and leaves with a buffer before it.
    fn plan(inline: &[u8], segments: &[Segment], on: Abilities) -> String {
        show_plan(Transmit::new(inline, segments), on)
    }

    /// `w5` is a weave of five pieces.
    fn show_plan(transmit: Transmit<'_>, on: Abilities) -> String {
        let count = |run: Run<'_>| usize::from(!run.inline.is_empty()) + run.buffers.len();
        let mark = |more: bool| if more { "+" } else { "" };
        let show = |step: Step<'_>| match step {
            Step::Gather { run, more } => format!("g{}{}", count(run), mark(more)),
            Step::File { run, .. } if run.is_empty() => "f".to_owned(),
            Step::File { run, .. } => format!("f{}", count(run)),
            Step::Read { run, more, .. } => format!("r{}{}", count(run), mark(more)),
            Step::Weave { weave, more } => {
                let pieces = weave.pieces().filter(|piece| !piece.is_empty());
                format!("w{}{}", pieces.count(), mark(more))
            }
            Step::Pipe { more, .. } => format!("p{}", mark(more)),
        };
        let steps: Vec<_> = transmit.steps(on).map(show).collect();
        steps.join(" ")
    }

    #[test]
    fn each_platform_has_its_plan() {
        let (large, full) = (3 * READ_SIZE_MAX - 1, vec![bytes(); GATHER_LEN_MAX]);
        let more_than_full = [full.clone(), vec![bytes()]].concat();
        let full_and_file = [full, vec![file(1)]].concat();
        for (inline, segments, linux, freebsd, netbsd) in [
            (&b"head"[..], &[][..], "g1", "g1", "g1"),
            (b"head", &[bytes(), bytes()], "g3", "g3", "g3"),
            (b"head", &[file(10)], "g1+ f", "f1", "r1"),
            (b"head", &[file(large)], "g1+ f", "f1", "r1 r0 r0"),
            (b"head", &[file(10), bytes()], "g1+ f g1", "f1 g1", "r1 g1"),
            (b"", &[file(10), bytes(), file(1)], "f g1+ f", "f f1", "r0 r1"),
            (b"head", &[pipe(10), bytes()], "g1+ p+ g1", "g1 p g1", "g1 p g1"),
            (b"head", &more_than_full, "g64+ g1", "g64 g1", "g64 g1"),
            (b"head", &full_and_file, "g64+ f", "g64 f", "g64 r0"),
        ] {
            assert_eq!(plan(inline, segments, Abilities::LINUX), linux);
            assert_eq!(plan(inline, segments, Abilities::FREEBSD), freebsd);
            assert_eq!(plan(inline, segments, Abilities::MACOS), freebsd);
            assert_eq!(plan(inline, segments, Abilities::NETBSD), netbsd);
            assert_eq!(plan(inline, segments, Abilities::WINDOWS), netbsd);
        }
        // A file system that has no sendfile, under a kernel that has `MSG_MORE`.
        let reading = Abilities { files: Files::Read, ..Abilities::LINUX };
        assert_eq!(plan(b"head", &[file(large), bytes()], reading), "r1+ r0+ r0+ g1");
    }

    #[test]
    fn parts_of_files_in_frames_are_sent_with_the_bytes_between_them() {
        let frames = |count| vec![[bytes(), file(16 * 1024)]; count].concat();
        let long = [file(WEAVE_SIZE_MAX), bytes(), file(1)];
        for (inline, segments, expected) in [
            (&b"head"[..], &[][..], "g1"),
            (b"head", &[bytes()], "g2"),
            (b"head", &[file(10)], "w2"),
            (b"head", &[file(10), bytes(), file(20), bytes()], "w5"),
            (b"head", &frames(31), "w63"),
            (b"head", &frames(40), "w64+ w17"),
            (b"head", &long, "w3+ w1"),
            (b"head", &[file(WEAVE_SIZE_MAX + 1), bytes(), file(1)], "g1+ f w2"),
            (b"head", &[file(10), pipe(10), file(10)], "w2+ p+ w1"),
        ] {
            let transmit = Transmit { is_framed: true, ..Transmit::new(inline, segments) };
            assert_eq!(show_plan(transmit, Abilities::LINUX), expected);
            if !expected.contains('f') {
                let expected = expected.replace('+', "");
                assert_eq!(show_plan(transmit, Abilities::FREEBSD), expected);
                assert_eq!(show_plan(transmit, Abilities::NETBSD), expected);
            }
        }
    }

    #[test]
    fn a_weave_can_be_cut_anywhere() {
        let segments = [file(10), bytes(), file(20)];
        let weave = Weave { inline: b"head", segments: &segments, len: 35 };
        let lens = |len| {
            let pieces = Weave { len, ..weave }.pieces().map(|piece| piece.len());
            pieces.collect::<Vec<_>>()
        };
        for len in 0..=35 {
            assert_eq!(lens(len).iter().sum::<u64>(), len);
        }
        assert_eq!(lens(35), [4, 10, 1, 20]);
        assert_eq!(lens(14), [4, 10]);
        assert_eq!(lens(16), [4, 10, 1, 1]);
    }

    fn segments() -> impl Strategy<Value = Vec<Segment>> {
        let memory = (1..9_usize).prop_map(|len| Segment::Bytes(Bytes::from(vec![b'x'; len])));
        let disk = (1..3 * READ_SIZE_MAX).prop_map(file);
        let pipe = (1..3 * READ_SIZE_MAX).prop_map(pipe);
        prop::collection::vec(prop_oneof![8 => memory, 1 => disk, 1 => pipe], 0..80)
    }

    /// The places of all bytes, in order: in memory by address, in a file by offset.
    fn places(transmit: Transmit<'_>) -> Vec<(usize, u64)> {
        let whole = |segment: &Segment| match segment {
            Segment::Bytes(bytes) => (bytes.as_ptr() as usize, bytes.len() as u64),
            Segment::File(range) => (range.file.as_raw_fd() as usize, range.len),
            Segment::Pipe(piped) => (Arc::as_ptr(&piped.pipe).addr(), piped.len),
        };
        let inline = (transmit.inline.as_ptr() as usize, transmit.inline.len() as u64);
        let all = std::iter::once(inline).chain(transmit.segments.iter().map(whole));
        all.filter(|(_, len)| *len > 0).collect()
    }

    fn places_of_plan(steps: &[Step<'_>]) -> Vec<(usize, u64)> {
        let mut places: Vec<(usize, u64)> = Vec::new();
        for step in steps {
            if let Step::Weave { weave, .. } = step {
                let pieces = weave.pieces().map(|piece| match piece {
                    WeavePiece::Bytes(bytes) => (bytes.as_ptr() as usize, bytes.len() as u64),
                    WeavePiece::Part(part) => (part.file.as_raw_fd() as usize, part.len),
                });
                places.extend(pieces.filter(|(_, len)| *len > 0));
                continue;
            }
            for slice in step.run().slices().filter(|slice| !slice.is_empty()) {
                places.push((slice.as_ptr() as usize, slice.len() as u64));
            }
            if let Step::Pipe { pipe, len, .. } = step {
                places.push((std::ptr::from_ref(*pipe).addr(), *len));
            }
            if let Some(range) = step.part() {
                let at = range.file.as_raw_fd() as usize;
                match places.last_mut().filter(|(last, len)| *last == at && *len == range.offset) {
                    Some((_, len)) => *len += range.len,
                    None => places.push((at, range.len)),
                }
            }
        }
        places
    }

    fn says_more(step: &Step<'_>) -> bool {
        let (Step::Gather { more, .. }
        | Step::Read { more, .. }
        | Step::Weave { more, .. }
        | Step::Pipe { more, .. }) = step
        else {
            return false;
        };
        *more
    }

    proptest! {
        /// Every byte once and in order, nothing held back at the end, and no head on its own.
        #[test]
        fn every_plan_is_whole_and_flushed(
            head in prop::bool::ANY,
            is_framed in prop::bool::ANY,
            segments in segments(),
        ) {
            let inline: &[u8] = if head { b"head" } else { b"" };
            let transmit = Transmit { is_framed, ..Transmit::new(inline, &segments) };
            let most = transmit.steps(Abilities::LINUX).count();
            for on in PLATFORMS {
                let steps: Vec<_> = transmit.steps(on).collect();
                prop_assert_eq!(places_of_plan(&steps), places(transmit));
                prop_assert!(!steps.iter().any(Step::is_empty));
                prop_assert!(!steps.last().is_some_and(says_more), "held back");
                prop_assert!(on.more || !steps.iter().any(says_more), "nobody would hear it");
                if let [first, _, ..] = &steps[..] {
                    let joins = first.part().is_some() || matches!(first, Step::Weave { .. });
                    let alone = first.run().buffers.is_empty() && !joins;
                    // Every platform with pipes has `MSG_MORE`.
                    let piped = steps.iter().any(|step| matches!(step, Step::Pipe { .. }));
                    let cannot = piped && !on.more;
                    prop_assert!(!alone || cannot || says_more(first), "a head alone");
                }
                if on.files == Files::SendfileHead {
                    prop_assert!(steps.len() <= most);
                }
                for step in &steps {
                    let buffers = match step {
                        Step::Weave { weave, .. } => weave.segments.len(),
                        _ => step.run().buffers.len() + usize::from(step.part().is_some()),
                    };
                    prop_assert!(buffers <= GATHER_LEN_MAX, "too many for one call");
                }
            }
        }
    }
}
