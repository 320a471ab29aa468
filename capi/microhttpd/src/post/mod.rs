//! The post processor: `MHD_create_post_processor`, `MHD_post_process`,
//! `MHD_destroy_post_processor`.
//!
//! Bytes are added with [`PostProcessor::push`]; the caller polls pieces and calls the program's
//! iterator between two polls, so nothing is borrowed during the call.
//!
//! Pieces end where a `push` ends, and have at most [`PostProcessor::PIECE_MAX`] bytes. An empty
//! piece is reported for an empty value only; the original reports further ones.

mod multipart;
mod urlencoded;

use std::ffi::CString;
use std::fmt;
use std::sync::Arc;

use multipart::MultipartPost;
use urlencoded::UrlencodedPost;

/// A form that arrives in pieces.
#[derive(Debug)]
pub struct PostProcessor {
    syntax: PostSyntax,
    /// After a failure nothing more is parsed.
    failed: bool,
}

#[derive(Debug)]
enum PostSyntax {
    Urlencoded(UrlencodedPost),
    Multipart(MultipartPost),
}

/// The arguments of one call of `MHD_PostDataIterator`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostPiece {
    /// Key, file name and types.
    pub head: Arc<PostHead>,
    /// A piece of the value; decoded, may contain NUL.
    pub data: Vec<u8>,
    /// Offset of the piece in the value, in bytes.
    pub offset: u64,
}

/// The names of a value. Each ends at its first NUL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PostHead {
    /// `None` for a part without a quoted name.
    pub key: Option<CString>,
    /// File name of a part.
    pub filename: Option<CString>,
    /// `Content-Type` of a part.
    pub content_type: Option<CString>,
    /// `Content-Transfer-Encoding` of a part.
    pub transfer_encoding: Option<CString>,
}

/// Why there is no post processor (NULL).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PostRefusal {
    /// The buffer is smaller than 256 bytes. The original calls its panic function.
    BufferTooSmall,
    /// `Content-Type` is missing, or not that of a form.
    NotAForm,
    /// `multipart/form-data` without a boundary of 2 bytes or more, or with one that needs more
    /// than half of the buffer.
    BadBoundary,
}

/// The body is not a form, or is incomplete (`MHD_NO`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostFailure;

impl PostProcessor {
    /// Maximum length of a piece in bytes.
    pub const PIECE_MAX: usize = 512;

    /// For a request with this `Content-Type`.
    ///
    /// # Errors
    /// [`PostRefusal`].
    pub fn new(content_type: Option<&[u8]>, buffer_size: usize) -> Result<Self, PostRefusal> {
        if buffer_size < BUFFER_SIZE_MIN {
            return Err(PostRefusal::BufferTooSmall);
        }
        let content_type = content_type.ok_or(PostRefusal::NotAForm)?;
        let size_max = buffer_size.saturating_add(BUFFER_SPARE);
        let syntax = if has_prefix(content_type, URLENCODED) {
            PostSyntax::Urlencoded(UrlencodedPost::new(size_max))
        } else if has_prefix(content_type, MULTIPART) {
            let boundary = multipart::boundary_of(&content_type[MULTIPART.len()..]);
            let fits = |boundary: &&[u8]| (2..buffer_size / 2).contains(&boundary.len());
            let boundary = boundary.filter(fits).ok_or(PostRefusal::BadBoundary)?;
            PostSyntax::Multipart(MultipartPost::new(boundary, size_max))
        } else {
            return Err(PostRefusal::NotAForm);
        };
        Ok(Self { syntax, failed: false })
    }

    /// Adds bytes of the body. All pieces are polled before the next bytes are added.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failed {
            return;
        }
        match &mut self.syntax {
            PostSyntax::Urlencoded(form) => form.push(bytes),
            PostSyntax::Multipart(form) => form.push(bytes),
        }
    }

    /// The next piece; `None` if more bytes are needed.
    ///
    /// # Errors
    /// [`PostFailure`]; later calls return it again.
    pub fn poll_piece(&mut self) -> Result<Option<PostPiece>, PostFailure> {
        if self.failed {
            return Err(PostFailure);
        }
        let piece = match &mut self.syntax {
            PostSyntax::Urlencoded(form) => form.poll_piece(),
            PostSyntax::Multipart(form) => form.poll_piece(),
        };
        self.failed = piece.is_err();
        piece
    }

    /// Stops: the program's iterator returned `MHD_NO`.
    pub fn abort(&mut self) {
        self.failed = true;
    }

    /// Ends the body: the last piece, if one is left, and whether the form is complete.
    pub fn finish(mut self) -> (Option<PostPiece>, Result<(), PostFailure>) {
        if self.failed {
            return (None, Err(PostFailure));
        }
        match &mut self.syntax {
            PostSyntax::Urlencoded(form) => form.finish(),
            PostSyntax::Multipart(form) => (None, form.finish()),
        }
    }
}

impl fmt::Display for PostRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BufferTooSmall => "the buffer of a post processor needs at least 256 bytes",
            Self::NotAForm => "Content-Type is not that of a form",
            Self::BadBoundary => "multipart/form-data has no usable boundary",
        })
    }
}

impl fmt::Display for PostFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the body is not a form, or is incomplete")
    }
}

impl std::error::Error for PostRefusal {}

impl std::error::Error for PostFailure {}

fn has_prefix(text: &[u8], prefix: &[u8]) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// A text for C, which ends at its first NUL.
fn c_string(text: &[u8]) -> CString {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    CString::new(&text[..end]).expect("the text was cut at its first NUL")
}

const URLENCODED: &[u8] = b"application/x-www-form-urlencoded";
const MULTIPART: &[u8] = b"multipart/form-data";

/// `MHD_create_post_processor` needs a buffer of 256 bytes.
const BUFFER_SIZE_MIN: usize = 256;

/// A key, or a line of a part's head, may be longer than the buffer by so many bytes.
const BUFFER_SPARE: usize = 3;

#[cfg(test)]
mod tests;
