//! The bodies of responses: which arguments of `MHD_create_response_from_*` are refused, and the
//! length that the head reports. Memory and descriptors are held by the caller.

use std::fmt;

/// The kind of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyContent {
    /// Bytes in memory, in one or several pieces.
    Memory {
        /// Number of bytes.
        len: u64,
    },
    /// A part of a file.
    File {
        /// The first byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// A pipe, read to its end.
    Pipe,
    /// `MHD_ContentReaderCallback`.
    Reader {
        /// Number of bytes, if it is known.
        len: Option<u64>,
        /// Maximum number of bytes of a call.
        block_size: usize,
    },
}

/// Why there is no response (NULL).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BodyRefusal {
    /// A pointer is NULL although bytes are announced.
    NoData,
    /// A reader with blocks of 0 bytes.
    NoBlock,
    /// Offset, length or their sum is larger than files can be.
    OutOfRange,
}

impl ReplyContent {
    /// `MHD_create_response_from_buffer` and its variants.
    ///
    /// # Errors
    /// [`BodyRefusal::NoData`].
    pub fn memory(size: usize, is_null: bool) -> Result<Self, BodyRefusal> {
        Self::pieces([(size, is_null)])
    }

    /// `MHD_create_response_from_iovec`: sizes, and whether the pointer is NULL. Empty pieces are
    /// skipped, also with NULL.
    ///
    /// # Errors
    /// [`BodyRefusal`].
    pub fn pieces(pieces: impl IntoIterator<Item = (usize, bool)>) -> Result<Self, BodyRefusal> {
        let mut len: u64 = 0;
        for (size, is_null) in pieces {
            if size > 0 && is_null {
                return Err(BodyRefusal::NoData);
            }
            len = len.checked_add(size as u64).ok_or(BodyRefusal::OutOfRange)?;
        }
        if len > LEN_MAX { Err(BodyRefusal::OutOfRange) } else { Ok(Self::Memory { len }) }
    }

    /// `MHD_create_response_from_fd_at_offset64`. A bad descriptor is found when it is read.
    ///
    /// # Errors
    /// [`BodyRefusal::OutOfRange`].
    pub fn file(offset: u64, len: u64) -> Result<Self, BodyRefusal> {
        match offset.checked_add(len) {
            Some(end) if end <= LEN_MAX => Ok(Self::File { offset, len }),
            _ => Err(BodyRefusal::OutOfRange),
        }
    }

    /// `MHD_create_response_from_callback`.
    ///
    /// # Errors
    /// [`BodyRefusal`].
    pub fn reader(size: u64, block_size: usize, is_null: bool) -> Result<Self, BodyRefusal> {
        if is_null {
            return Err(BodyRefusal::NoData);
        }
        if block_size == 0 {
            return Err(BodyRefusal::NoBlock);
        }
        Ok(Self::Reader { len: (size != SIZE_UNKNOWN).then_some(size), block_size })
    }

    /// The length of the body; `None` if it is unknown.
    #[must_use]
    pub fn known_len(self) -> Option<u64> {
        match self {
            Self::Memory { len } | Self::File { len, .. } => Some(len),
            Self::Pipe => None,
            Self::Reader { len, .. } => len,
        }
    }
}

impl fmt::Display for BodyRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoData => "the body of a response is NULL",
            Self::NoBlock => "the block size of a content reader is 0",
            Self::OutOfRange => "offset and length of a body exceed the size of a file",
        })
    }
}

impl std::error::Error for BodyRefusal {}

/// `MHD_SIZE_UNKNOWN`.
pub const SIZE_UNKNOWN: u64 = u64::MAX;

/// The largest offset in a file.
const LEN_MAX: u64 = i64::MAX.unsigned_abs();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_arguments_are_those_of_the_original() {
        assert_eq!(ReplyContent::memory(3, true), Err(BodyRefusal::NoData));
        assert_eq!(ReplyContent::memory(0, true), Ok(ReplyContent::Memory { len: 0 }));
        assert_eq!(ReplyContent::reader(3, 0, false), Err(BodyRefusal::NoBlock));
        assert_eq!(ReplyContent::reader(3, 1, true), Err(BodyRefusal::NoData));
        assert!(ReplyContent::file(0, LEN_MAX).is_ok());
        assert!(ReplyContent::file(1, LEN_MAX - 1).is_ok());
        for (offset, len) in [(0, LEN_MAX + 1), (LEN_MAX + 1, 1), (1, LEN_MAX), (u64::MAX, 1)] {
            assert_eq!(
                ReplyContent::file(offset, len),
                Err(BodyRefusal::OutOfRange),
                "{offset} {len}"
            );
        }
    }

    #[test]
    fn pieces_are_those_of_the_original() {
        let pieces = |pieces: &[(usize, bool)]| ReplyContent::pieces(pieces.iter().copied());
        assert_eq!(
            pieces(&[(2, false), (0, true), (1, false)]),
            Ok(ReplyContent::Memory { len: 3 })
        );
        assert_eq!(pieces(&[]), Ok(ReplyContent::Memory { len: 0 }));
        assert_eq!(pieces(&[(2, false), (4, true)]), Err(BodyRefusal::NoData));
        let large = usize::try_from(LEN_MAX).unwrap();
        assert_eq!(pieces(&[(2, false), (large, false)]), Err(BodyRefusal::OutOfRange));
        assert_eq!(pieces(&[(2, false), (usize::MAX, false)]), Err(BodyRefusal::OutOfRange));
    }

    #[test]
    fn length_is_unknown_for_pipes_and_unsized_readers() {
        assert_eq!(ReplyContent::Pipe.known_len(), None);
        assert_eq!(ReplyContent::reader(SIZE_UNKNOWN, 9, false).unwrap().known_len(), None);
        assert_eq!(ReplyContent::reader(5, 9, false).unwrap().known_len(), Some(5));
        assert_eq!(ReplyContent::file(7, 5).unwrap().known_len(), Some(5));
    }
}
