//! A streaming parser for `multipart/form-data` (RFC 7578, RFC 2046 §5.1).
//!
//! ```text
//! Start ─▶ Delimiter ─▶ Head ─▶ Body ─▶ Delimiter ...
//!              └──────────────────────▶ Epilogue
//! ```
//!
//! Stricter than mail: no preamble, no padding after a boundary, and only a line end after the last
//! one. Clients do not send those, and differences between two recipients are an attack vector.

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};
use memchr::memmem;

use super::BOUNDARY_SIZE_MAX;
use super::parameters::{self, Parameter};
use crate::token::is_tchar;

/// The parser of a form. It holds the current input, and at most a partial boundary or head of
/// earlier input.
#[derive(Debug)]
pub struct Parser {
    stage: ParserStage,
    /// Finds `CRLF "--" boundary`.
    delimiter: memmem::Finder<'static>,
    /// Received bytes that are not consumed.
    pending: Bytes,
    limits: FormLimits,
    parts: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParserStage {
    /// Before the first delimiter, which may lack its line end.
    Start,
    /// After a delimiter.
    Delimiter,
    /// In the fields of a part; the first bytes, as many as given, do not contain the empty line.
    Head(usize),
    Body,
    /// After the last delimiter.
    Epilogue,
}

/// Limits of a form. The receiver of the body limits its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormLimits {
    /// Maximum number of parts.
    pub parts_max: u32,
    /// Maximum size of the header fields of a part in bytes, including the empty line.
    pub head_size_max: usize,
}

impl Default for FormLimits {
    fn default() -> Self {
        Self { parts_max: PARTS_USUAL, head_size_max: HEAD_SIZE_USUAL }
    }
}

/// An event: `Part`, any number of `Data` and `PartEnd` for each part, then `End`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormEvent {
    /// A part begins.
    Part(PartHead),
    /// Bytes of the part; never empty.
    Data(Bytes),
    /// The part is complete.
    PartEnd,
    /// The form is complete.
    End,
}

/// The header of a part. It comes from the peer, so a file name may be anything. Percent-encoding
/// by senders (of quotes and line ends) is not decoded, because `%` itself is not encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartHead {
    /// The name of the field.
    pub name: Vec<u8>,
    /// The file name of a file.
    pub filename: Option<Vec<u8>>,
    /// The content type, if there is one.
    pub content_type: Option<Vec<u8>>,
}

impl Parser {
    /// For a body with this `Content-Type`.
    ///
    /// # Errors
    /// [`ParserError::BadContentType`]: not `multipart/form-data` with a boundary.
    pub fn new(content_type: &[u8], limits: FormLimits) -> Result<Self, ParserError> {
        let (what, parameters) =
            parameters::parse(content_type).ok_or(ParserError::BadContentType)?;
        let boundary = only(&parameters, b"boundary").map_err(|_| ParserError::BadContentType)?;
        let boundary = boundary.filter(|boundary| is_boundary(boundary));
        match boundary {
            Some(boundary) if what.eq_ignore_ascii_case(b"multipart/form-data") => Ok(Self {
                stage: ParserStage::Start,
                delimiter: memmem::Finder::new(&[b"\r\n--", boundary].concat()).into_owned(),
                pending: Bytes::new(),
                limits,
                parts: 0,
            }),
            _ => Err(ParserError::BadContentType),
        }
    }

    /// Adds bytes of the body. They are copied only after a partial boundary or head.
    pub fn push(&mut self, bytes: Bytes) {
        if self.pending.is_empty() {
            self.pending = bytes;
        } else {
            // A buffer of our own, so that appending small pieces does not copy it each time.
            let mut joined = BytesMut::from(std::mem::take(&mut self.pending));
            joined.extend_from_slice(&bytes);
            self.pending = joined.freeze();
        }
    }

    /// The next event; `None` if more bytes are needed.
    ///
    /// # Errors
    /// The body is not a form; later calls return the same error.
    pub fn poll_event(&mut self) -> Result<Option<FormEvent>, ParserError> {
        let event = self.advance()?;
        if event.is_none() && !self.pending.is_unique() {
            // The rest is small: copy it, so that it does not keep the whole input alive.
            self.pending = Bytes::copy_from_slice(&self.pending);
        }
        Ok(event)
    }

    /// Checks at the end of the body, after all events were polled, that it is complete.
    ///
    /// # Errors
    /// [`ParserError::Truncated`]: the last boundary is missing.
    pub fn finish(&self) -> Result<(), ParserError> {
        let complete = self.stage == ParserStage::Epilogue && self.pending != "\r";
        if complete { Ok(()) } else { Err(ParserError::Truncated) }
    }

    fn advance(&mut self) -> Result<Option<FormEvent>, ParserError> {
        if self.stage == ParserStage::Start && !self.start()? {
            return Ok(None);
        }
        match self.stage {
            ParserStage::Start => Ok(None),
            ParserStage::Delimiter => self.after_delimiter(),
            ParserStage::Head(scanned) => self.head(scanned),
            ParserStage::Body => Ok(self.body()),
            ParserStage::Epilogue => self.epilogue().map(|()| None),
        }
    }

    /// True after the first delimiter.
    fn start(&mut self) -> Result<bool, ParserError> {
        let line_end = self.pending.first() == Some(&b'\r');
        let skipped = if line_end { 0 } else { 2 };
        let expected = &self.delimiter.needle()[skipped..];
        let size = expected.len().min(self.pending.len());
        if self.pending[..size] != expected[..size] {
            return Err(ParserError::BadDelimiter);
        }
        let complete = size == expected.len();
        if complete {
            self.consume(size);
            self.stage = ParserStage::Delimiter;
        }
        Ok(complete)
    }

    fn after_delimiter(&mut self) -> Result<Option<FormEvent>, ParserError> {
        match self.pending[..] {
            [b'-', b'-', ..] => {
                self.consume(2);
                self.stage = ParserStage::Epilogue;
                Ok(Some(FormEvent::End))
            }
            [b'\r', b'\n', ..] if self.parts == self.limits.parts_max => {
                Err(ParserError::TooManyParts)
            }
            [b'\r', b'\n', ..] => {
                self.consume(2);
                self.parts += 1;
                self.stage = ParserStage::Head(0);
                self.head(0)
            }
            [] | [b'-' | b'\r'] => Ok(None),
            _ => Err(ParserError::BadDelimiter),
        }
    }

    fn head(&mut self, scanned: usize) -> Result<Option<FormEvent>, ParserError> {
        // Without fields the empty line is the first one.
        let end = if self.pending.starts_with(b"\r\n") {
            Some(2)
        } else {
            let from = scanned.saturating_sub(3);
            memmem::find(&self.pending[from..], b"\r\n\r\n").map(|at| from + at + 4)
        };
        let size = end.unwrap_or(self.pending.len());
        if size > self.limits.head_size_max {
            return Err(ParserError::HeadTooLarge);
        }
        if end.is_none() {
            self.stage = ParserStage::Head(size);
            return Ok(None);
        }
        let head = parse_head(&self.pending[..size - 2]).ok_or(ParserError::BadHead)?;
        self.consume(size);
        self.stage = ParserStage::Body;
        Ok(Some(FormEvent::Part(head)))
    }

    fn body(&mut self) -> Option<FormEvent> {
        let end = match self.delimiter.find(&self.pending) {
            Some(0) => {
                self.consume(self.delimiter.needle().len());
                self.stage = ParserStage::Delimiter;
                return Some(FormEvent::PartEnd);
            }
            Some(at) => at,
            None => self.pending.len() - self.delimiter_begun(),
        };
        (end > 0).then(|| FormEvent::Data(self.pending.split_to(end)))
    }

    /// Length of the end of the pending bytes that may begin a delimiter.
    fn delimiter_begun(&self) -> usize {
        let needle = self.delimiter.needle();
        let from = self.pending.len().saturating_sub(needle.len() - 1);
        let tail = &self.pending[from..];
        let begins = memchr::memchr_iter(b'\r', tail).find(|at| needle.starts_with(&tail[*at..]));
        begins.map_or(0, |at| tail.len() - at)
    }

    fn epilogue(&self) -> Result<(), ParserError> {
        match self.pending[..] {
            [] | [b'\r'] | [b'\r', b'\n'] => Ok(()),
            _ => Err(ParserError::TrailingData),
        }
    }

    fn consume(&mut self, size: usize) {
        self.pending.advance(size);
    }
}

/// Parses lines with their line ends, up to the empty line.
fn parse_head(lines: &[u8]) -> Option<PartHead> {
    let mut disposition = None;
    let mut content_type = None;
    let mut rest = lines;
    while !rest.is_empty() {
        let end = memmem::find(rest, b"\r\n")?;
        let (line, tail) = (&rest[..end], &rest[end + 2..]);
        let colon = line.iter().position(|b| *b == b':')?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        let sound = |b: &u8| !b.is_ascii_control() || *b == b'\t';
        if name.is_empty() || !name.iter().all(|b| is_tchar(*b)) || !value.iter().all(sound) {
            return None;
        }
        let slot = match name {
            _ if name.eq_ignore_ascii_case(b"content-disposition") => Some(&mut disposition),
            _ if name.eq_ignore_ascii_case(b"content-type") => Some(&mut content_type),
            _ => None,
        };
        if slot.is_some_and(|slot| slot.replace(value).is_some()) {
            return None; // repeated: ambiguous
        }
        rest = tail;
    }
    let (what, parameters) = parameters::parse(disposition?)?;
    let name = only(&parameters, b"name").ok()??.to_vec();
    let filename = only(&parameters, b"filename").ok()?.map(<[u8]>::to_vec);
    let content_type = content_type.map(<[u8]>::to_vec);
    let is_form_data = what.eq_ignore_ascii_case(b"form-data");
    is_form_data.then_some(PartHead { name, filename, content_type })
}

/// The parameter with this name; an error if it is repeated.
fn only<'a>(parameters: &'a [Parameter<'_>], name: &[u8]) -> Result<Option<&'a [u8]>, Repeated> {
    let mut found = parameters.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
    match (found.next(), found.next()) {
        (_, Some(_)) => Err(Repeated),
        (first, None) => Ok(first.map(|(_, value)| &value[..])),
    }
}

/// A parameter is repeated.
struct Repeated;

/// `boundary` (RFC 2046 §5.1.1).
fn is_boundary(text: &[u8]) -> bool {
    let is_char = |b: &u8| b.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(b);
    (1..=BOUNDARY_SIZE_MAX).contains(&text.len())
        && text.iter().all(is_char)
        && text.last() != Some(&b' ')
}

/// Why a body is not a valid form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParserError {
    /// `Content-Type` is not `multipart/form-data` with one valid boundary.
    BadContentType,
    /// The body does not begin with the boundary, or a boundary is not followed by a line end or
    /// `--`.
    BadDelimiter,
    /// The header fields of a part are malformed, or do not name the part exactly once.
    BadHead,
    /// The header fields are larger than [`FormLimits::head_size_max`].
    HeadTooLarge,
    /// More parts than [`FormLimits::parts_max`].
    TooManyParts,
    /// Bytes follow the last boundary.
    TrailingData,
    /// The body ended before the last boundary.
    Truncated,
}

impl fmt::Display for ParserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadContentType => "content type is not multipart/form-data with a boundary",
            Self::BadDelimiter => "missing or malformed boundary in the form",
            Self::BadHead => "malformed header of a form part",
            Self::HeadTooLarge => "header of a form part is too large",
            Self::TooManyParts => "too many parts in the form",
            Self::TrailingData => "trailing bytes after the form",
            Self::Truncated => "truncated form",
        })
    }
}

impl std::error::Error for ParserError {}

const PARTS_USUAL: u32 = 1_000;
const HEAD_SIZE_USUAL: usize = 8 * 1024;
