//! Pieces of a body that the application has not accepted.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::code::CurlCode;
use crate::failure::Failure;

/// The pieces, in order. A decoder makes much of few bytes, so their size has a limit.
#[derive(Debug, Default)]
pub(crate) struct HeldBody {
    pieces: VecDeque<Bytes>,
    size: usize,
}

impl HeldBody {
    /// No pieces.
    pub(crate) const EMPTY: Self = Self { pieces: VecDeque::new(), size: 0 };

    /// Appends a piece.
    ///
    /// # Errors
    /// [`CurlCode::OutOfMemory`]: they would have more than [`HELD_SIZE_MAX`] bytes.
    pub(crate) fn push(&mut self, piece: Bytes) -> Result<(), Failure> {
        self.size += piece.len();
        if self.size > HELD_SIZE_MAX {
            return Err(Failure::new(CurlCode::OutOfMemory, ""));
        }
        self.pieces.push_back(piece);
        Ok(())
    }

    /// Puts the rest of the first piece back.
    pub(crate) fn put_back(&mut self, rest: Bytes) {
        self.size += rest.len();
        self.pieces.push_front(rest);
    }

    pub(crate) fn pop(&mut self) -> Option<Bytes> {
        let piece = self.pieces.pop_front()?;
        self.size -= piece.len();
        Some(piece)
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
        held.push(piece.clone()).expect("half");
        held.push(piece.clone()).expect("whole");
        assert_eq!(held.pop(), Some(piece.clone()));
        held.put_back(piece.slice(1..));
        held.push(piece.slice(..1)).expect("whole again");
        let refused = held.push(Bytes::from_static(b"x")).expect_err("one too many");
        assert_eq!(refused.code, CurlCode::OutOfMemory);
    }
}
