//! Pieces of a response that the application has not accepted: header lines, and the body.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::code::CurlCode;
use crate::failure::Failure;
use crate::header_list::HeaderOrigin;

/// What a piece belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldKind {
    Body,
    /// Frames of a WebSocket, not decoded.
    Frames,
    /// Header lines; the status line has no origin.
    Lines(Option<HeaderOrigin>),
    /// Header lines that go to the body too (`CURLOPT_HEADER`).
    LinesAndBody(Option<HeaderOrigin>),
}

/// The pieces, in order. A decoder makes much of few bytes, so their size has a limit.
#[derive(Debug, Default)]
pub(crate) struct HeldBody {
    pieces: VecDeque<(HeldKind, Bytes)>,
    size: usize,
}

impl HeldBody {
    /// No pieces.
    pub(crate) const EMPTY: Self = Self { pieces: VecDeque::new(), size: 0 };

    /// Appends a piece.
    ///
    /// # Errors
    /// [`CurlCode::OutOfMemory`]: they would have more than [`HELD_SIZE_MAX`] bytes.
    pub(crate) fn push(&mut self, kind: HeldKind, piece: Bytes) -> Result<(), Failure> {
        self.size += piece.len();
        if self.size > HELD_SIZE_MAX {
            return Err(Failure::new(CurlCode::OutOfMemory, ""));
        }
        self.pieces.push_back((kind, piece));
        Ok(())
    }

    /// Puts the rest of the first piece back.
    pub(crate) fn put_back(&mut self, kind: HeldKind, rest: Bytes) {
        self.size += rest.len();
        self.pieces.push_front((kind, rest));
    }

    /// The first pieces of one kind, joined, as libcurl returns them.
    pub(crate) fn pop(&mut self) -> Option<(HeldKind, Bytes)> {
        let (kind, first) = self.pieces.pop_front()?;
        let same = self.pieces.iter().take_while(|(it, _)| *it == kind).count();
        let piece = match same {
            0 => first,
            _ => {
                let mut joined = BytesMut::from(first);
                self.pieces.drain(..same).for_each(|(_, piece)| joined.extend_from_slice(&piece));
                joined.freeze()
            }
        };
        self.size -= piece.len();
        Some((kind, piece))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

/// The most that is held: as in libcurl.
const HELD_SIZE_MAX: usize = 64 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_is_that_of_the_pieces() {
        let mut held = HeldBody::default();
        let piece = Bytes::from(vec![0; HELD_SIZE_MAX / 2]);
        held.push(HeldKind::Body, piece.clone()).expect("half");
        held.push(HeldKind::Lines(None), piece.clone()).expect("whole");
        assert_eq!(held.pop(), Some((HeldKind::Body, piece.clone())));
        held.put_back(HeldKind::Body, piece.slice(1..));
        held.push(HeldKind::Body, piece.slice(..1)).expect("whole again");
        let refused = held.push(HeldKind::Body, Bytes::from_static(b"x")).expect_err("too many");
        assert_eq!(refused.code, CurlCode::OutOfMemory);
    }

    #[test]
    fn pieces_of_one_kind_are_joined() {
        let header = HeldKind::Lines(Some(HeaderOrigin::Header));
        let mut held = HeldBody::default();
        for (kind, piece) in [
            (HeldKind::Lines(None), "HTTP/1.1 200 OK\r\n"),
            (header, "a: b\r\n"),
            (header, "\r\n"),
            (HeldKind::Body, "first "),
            (HeldKind::Body, "second"),
        ] {
            held.push(kind, Bytes::from_static(piece.as_bytes())).expect("few");
        }
        let popped: Vec<_> = std::iter::from_fn(|| held.pop()).collect();
        let expected = [
            (HeldKind::Lines(None), Bytes::from_static(b"HTTP/1.1 200 OK\r\n")),
            (header, Bytes::from_static(b"a: b\r\n\r\n")),
            (HeldKind::Body, Bytes::from_static(b"first second")),
        ];
        assert_eq!(popped, expected);
    }
}
