//! `multipart/form-data` with nested `multipart/mixed`, as it arrives (RFC 2046 §5.1).
//!
//! ```text
//! Preamble ─▶ Delimiter ─▶ Head ─▶ Body ─▶ Delimiter ...
//!                 └─────▶ Epilogue
//! ```
//!
//! In a nested form the same states follow each other with the inner boundary. Its epilogue is
//! skipped up to the next outer boundary.
//!
//! Besides `CRLF`, a bare line feed ends a line of a head, as in the original.

use std::mem;
use std::sync::Arc;

use super::{PostFailure, PostHead, PostPiece, PostProcessor, c_string, has_prefix};

#[derive(Debug)]
pub(super) struct MultipartPost {
    state: MultipartState,
    /// Received bytes; those before `read` are parsed.
    pending: Vec<u8>,
    read: usize,
    outer: Delimiter,
    nested: Option<NestedForm>,
    line_size_max: usize,
}

#[derive(Debug)]
enum MultipartState {
    /// Before the first delimiter of a form; true at the start of a line.
    Preamble(bool),
    /// After a delimiter.
    Delimiter,
    Head(PostHead, Option<Delimiter>),
    Body(PartBody),
    /// After the last delimiter.
    Epilogue,
}

#[derive(Debug)]
struct PartBody {
    head: Arc<PostHead>,
    offset: u64,
    /// So many unparsed bytes are data, so that each byte is searched once.
    known: usize,
}

#[derive(Debug)]
struct NestedForm {
    delimiter: Delimiter,
    /// The names of the outer part, which inner parts inherit.
    head: PostHead,
}

/// `CRLF "--" BOUNDARY`.
#[derive(Clone, Debug)]
struct Delimiter(Vec<u8>);

/// A position of a delimiter in bytes that may end within one.
enum DelimiterMatch {
    At(usize),
    /// The bytes up to here are no part of a delimiter.
    NotBefore(usize),
}

/// The boundary among the parameters of a content type; quotes are optional.
pub(super) fn boundary_of(parameters: &[u8]) -> Option<&[u8]> {
    let from = find(parameters, NAME)? + NAME.len();
    let value = &parameters[from..];
    match value.strip_prefix(b"\"") {
        Some(quoted) => quoted.split(|byte| *byte == b'"').next(),
        None => value.split(|byte| *byte == b';').next().map(<[u8]>::trim_ascii),
    }
}

impl MultipartPost {
    pub(super) fn new(boundary: &[u8], line_size_max: usize) -> Self {
        let outer = Delimiter::new(boundary);
        let state = MultipartState::Preamble(true);
        Self { state, pending: Vec::new(), read: 0, outer, nested: None, line_size_max }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.pending.drain(..mem::take(&mut self.read));
        self.pending.extend_from_slice(bytes);
    }

    pub(super) fn finish(&self) -> Result<(), PostFailure> {
        match self.state {
            MultipartState::Epilogue => Ok(()),
            MultipartState::Preamble(_) if self.nested.is_none() => Ok(()),
            _ => Err(PostFailure),
        }
    }

    pub(super) fn poll_piece(&mut self) -> Result<Option<PostPiece>, PostFailure> {
        loop {
            let progress = match &self.state {
                MultipartState::Preamble(at_line) => self.preamble(*at_line),
                MultipartState::Delimiter => self.after_delimiter()?,
                MultipartState::Head(..) => self.head_line()?,
                MultipartState::Body(_) => match self.body() {
                    Some(piece) => return Ok(Some(piece)),
                    None => !matches!(self.state, MultipartState::Body(_)),
                },
                MultipartState::Epilogue => return self.epilogue().map(|()| None),
            };
            if !progress {
                return Ok(None);
            }
        }
    }

    fn delimiter(&self) -> &Delimiter {
        self.nested.as_ref().map_or(&self.outer, |nested| &nested.delimiter)
    }

    /// True if a delimiter was found. Within a nested form that has ended, it is the outer one.
    fn preamble(&mut self, at_line: bool) -> bool {
        let delimiter = self.delimiter();
        let bare = &delimiter.0[2..];
        let unparsed = &self.pending[self.read..];
        if at_line {
            if unparsed.starts_with(bare) {
                let size = bare.len();
                self.consume(size);
                self.state = MultipartState::Delimiter;
                return true;
            }
            if bare.starts_with(unparsed) {
                return false;
            }
        }
        match delimiter.find(unparsed) {
            DelimiterMatch::At(at) => {
                let size = delimiter.0.len();
                self.consume(at + size);
                self.state = MultipartState::Delimiter;
                true
            }
            DelimiterMatch::NotBefore(at) => {
                self.consume(at);
                self.state = MultipartState::Preamble(false);
                false
            }
        }
    }

    /// True if the state changed.
    fn after_delimiter(&mut self) -> Result<bool, PostFailure> {
        let head = self.nested.as_ref().map(|nested| nested.head.clone()).unwrap_or_default();
        let (size, next) = match self.pending[self.read..] {
            [b'-', b'-', ..] => match self.nested.take() {
                Some(_) => (2, MultipartState::Preamble(false)),
                None => (2, MultipartState::Epilogue),
            },
            [b'\r', b'\n', ..] => (2, MultipartState::Head(head, None)),
            [b'\n', ..] => (1, MultipartState::Head(head, None)),
            [] | [b'-' | b'\r'] => return Ok(false),
            _ => return Err(PostFailure),
        };
        self.consume(size);
        self.state = next;
        Ok(true)
    }

    /// Takes a line of a part's head; false if it is incomplete.
    fn head_line(&mut self) -> Result<bool, PostFailure> {
        let unparsed = &self.pending[self.read..];
        let end = unparsed.iter().position(|byte| *byte == b'\n');
        if end.unwrap_or(unparsed.len()) > self.line_size_max {
            return Err(PostFailure);
        }
        let Some(end) = end else { return Ok(false) };
        let line = &unparsed[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.read += end + 1;
        let MultipartState::Head(head, inner) = &mut self.state else {
            unreachable!("the caller checked the state")
        };
        if !line.is_empty() {
            read_line(line, head, inner, self.nested.is_some());
            return Ok(true);
        }
        let (head, inner) = (mem::take(head), inner.take());
        self.state = match inner {
            Some(delimiter) => {
                // The outer part is no value; its inner parts have their own types.
                let head =
                    PostHead { key: head.key, filename: head.filename, ..PostHead::default() };
                self.nested = Some(NestedForm { delimiter, head });
                MultipartState::Preamble(true)
            }
            None => {
                let head = Arc::new(head);
                MultipartState::Body(PartBody { head, offset: 0, known: 0 })
            }
        };
        Ok(true)
    }

    /// The next piece of the part; at its end the state changes.
    fn body(&mut self) -> Option<PostPiece> {
        let delimiter = self.delimiter();
        let delimiter_size = delimiter.0.len();
        let unparsed = &self.pending[self.read..];
        let MultipartState::Body(body) = &self.state else {
            unreachable!("the caller checked the state")
        };
        let (head, offset) = (Arc::clone(&body.head), body.offset);
        let known = match body.known {
            0 => match delimiter.find(unparsed) {
                DelimiterMatch::At(0) => {
                    self.consume(delimiter_size);
                    self.state = MultipartState::Delimiter;
                    return (offset == 0).then(|| PostPiece { head, data: Vec::new(), offset });
                }
                DelimiterMatch::At(at) | DelimiterMatch::NotBefore(at) => at,
            },
            known => known,
        };
        let size = known.min(PostProcessor::PIECE_MAX);
        let data = unparsed[..size].to_vec();
        self.consume(size);
        let next =
            PartBody { head: Arc::clone(&head), offset: offset + size as u64, known: known - size };
        self.state = MultipartState::Body(next);
        (size > 0).then_some(PostPiece { head, data, offset })
    }

    fn epilogue(&self) -> Result<(), PostFailure> {
        match self.pending[self.read..] {
            [] | [b'\r'] | [b'\n'] | [b'\r', b'\n'] => Ok(()),
            _ => Err(PostFailure),
        }
    }

    fn consume(&mut self, size: usize) {
        self.read += size;
    }
}

impl Delimiter {
    fn new(boundary: &[u8]) -> Self {
        Self([b"\r\n--", boundary].concat())
    }

    fn find(&self, bytes: &[u8]) -> DelimiterMatch {
        if let Some(at) = find(bytes, &self.0) {
            return DelimiterMatch::At(at);
        }
        let from = bytes.len().saturating_sub(self.0.len() - 1);
        let begins = (from..bytes.len()).find(|at| self.0.starts_with(&bytes[*at..]));
        DelimiterMatch::NotBefore(begins.unwrap_or(bytes.len()))
    }
}

/// A field of a part's head. Names of fields need `": "` behind them.
fn read_line(line: &[u8], head: &mut PostHead, inner: &mut Option<Delimiter>, is_nested: bool) {
    if has_prefix(line, DISPOSITION) {
        let parameters = &line[DISPOSITION.len()..];
        if !is_nested || head.key.is_none() {
            head.key = quoted(parameters, b"name").map(c_string).or_else(|| head.key.take());
        }
        if let Some(filename) = quoted(parameters, b"filename") {
            head.filename = Some(c_string(filename));
        }
    } else if has_prefix(line, CONTENT_TYPE) {
        let value = &line[CONTENT_TYPE.len()..];
        if has_prefix(value, MIXED) && !is_nested {
            let boundary = boundary_of(value).filter(|boundary| !boundary.is_empty());
            *inner = boundary.map(Delimiter::new);
        }
        head.content_type = Some(c_string(value));
    } else if has_prefix(line, TRANSFER_ENCODING) {
        head.transfer_encoding = Some(c_string(&line[TRANSFER_ENCODING.len()..]));
    }
}

/// The value of a parameter with quotes around it.
fn quoted<'a>(parameters: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut rest = parameters;
    while let Some(at) = rest.iter().position(|byte| *byte == b';') {
        rest = rest[at + 1..].trim_ascii_start();
        let after = rest.get(name.len()..).filter(|_| has_prefix(rest, name));
        if let Some(value) = after.and_then(|after| after.strip_prefix(b"=\"")) {
            let end = value.iter().position(|byte| *byte == b'"')?;
            return Some(&value[..end]);
        }
    }
    None
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, needle)
}

const NAME: &[u8] = b"boundary=";
const DISPOSITION: &[u8] = b"Content-Disposition: ";
const CONTENT_TYPE: &[u8] = b"Content-Type: ";
const TRANSFER_ENCODING: &[u8] = b"Content-Transfer-Encoding: ";
const MIXED: &[u8] = b"multipart/mixed";
