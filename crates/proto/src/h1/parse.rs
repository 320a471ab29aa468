//! Parsing of heads: finds the end of a head, then decodes it once (RFC 9112 §2 to §5).
//!
//! A head that has arrived whole is decoded at once, which also finds its end. For all others
//! [`Scan`] examines every byte once, for line ends and limits only. Decoding follows when the
//! blank line has arrived. The start line is parsed here, the fields by `fields`. The facts on
//! which framing, reuse and routing depend are recorded in the same pass.
//!
//! The same bytes give the same error however they are split: errors of the start line come
//! before those of the lines after it, and those of the scan before those of the fields.

use std::ops::Range;

use crate::errors::PeerError;
use crate::head::{Header, Version, is_hop, is_protected, is_tchar, slice, text_len, trim_ows};
use crate::target;

use super::fields::{self, Piece};
use super::framing::{Coding, Length};
use super::leniency::{Leniency, repaired_line};
use super::{FIELDS_LEN_MAX, HEAD_SIZE_MAX, METHOD_SIZE_MAX, TARGET_SIZE_MAX};

/// The progress of the search for the blank line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scan {
    /// Examined bytes.
    at: u16,
    /// Where the current line begins.
    line: u16,
    /// Lines before it.
    lines: u8,
}

/// What ended a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanError {
    BareLf,
    TooManyLines,
    TooLarge,
}

impl Scan {
    /// No byte was examined.
    pub(super) const FRESH: Self = Self { at: 0, line: 0, lines: 0 };

    /// Examines the new part of `bytes`. Returns the length of the section once its blank line has
    /// arrived. `lines_max` of `None`: only the size is limited.
    pub(super) fn advance(
        &mut self,
        bytes: &[u8],
        size_max: usize,
        lines_max: Option<u8>,
        leniency: Leniency,
    ) -> Result<Option<usize>, ScanError> {
        let seen = &bytes[..bytes.len().min(size_max)];
        let start = usize::from(self.at);
        let Some(fresh) = seen.get(start..) else { return Ok(None) };
        for offset in memchr::memchr_iter(b'\n', fresh) {
            let end = start + offset;
            let line = &seen[usize::from(self.line)..end];
            if !line.ends_with(b"\r") && !leniency.has(Leniency::BARE_LF) {
                return Err(ScanError::BareLf);
            }
            if matches!(line, b"" | b"\r") {
                return Ok(Some(end + 1));
            }
            if lines_max == Some(self.lines) {
                return Err(ScanError::TooManyLines);
            }
            self.lines = self.lines.saturating_add(1);
            self.line = narrow(end + 1);
        }
        if bytes.len() > seen.len() {
            return Err(ScanError::TooLarge);
        }
        self.at = narrow(seen.len());
        Ok(None)
    }

    /// The number of examined bytes.
    pub(super) fn seen(self) -> u16 {
        self.at
    }

    /// Bytes were examined by another scan.
    pub(super) fn begun(self) -> Self {
        Self { at: self.at.max(1), ..self }
    }

    /// True if no byte was examined.
    pub(super) fn is_fresh(self) -> bool {
        self.at == 0
    }
}

fn narrow(n: usize) -> u16 {
    u16::try_from(n).expect("sections are limited to less than 64 KiB")
}

/// Searches for the end of a head. `check` examines the start line with its LF, or the part of it
/// that has arrived: once when it is complete, and before that a bounded part.
pub(super) fn head_end(
    scan: &mut Scan,
    bytes: &[u8],
    leniency: Leniency,
    check: impl Fn(&[u8]) -> Result<(), PeerError>,
) -> Result<Option<usize>, PeerError> {
    let in_start_line = scan.line == 0;
    let end =
        scan.advance(bytes, HEAD_SIZE_MAX, Some(LINES_MAX), leniency).map_err(
            |error| match error {
                ScanError::BareLf => PeerError::BadField,
                ScanError::TooManyLines => PeerError::TooManyFields,
                ScanError::TooLarge => PeerError::HeadTooLarge,
            },
        );
    if in_start_line && !matches!(end, Ok(Some(_))) {
        let is_partial = scan.line == 0 && end.is_ok();
        let line_end = if is_partial { None } else { memchr::memchr(b'\n', bytes) };
        match line_end.map_or(bytes, |line_end| &bytes[..=line_end]) {
            line if line_end.is_some() && leniency.has(Leniency::BARE_LF) => {
                check(&repaired_line(line))?;
            }
            line => check(line)?,
        }
    }
    end
}

/// The ends of the words of a request line, as offsets into the head. So short that a result with
/// one is returned in a register.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestLine {
    method: u16,
    target: u16,
    pub(super) version: Version,
}

impl RequestLine {
    pub(super) fn method(self, head: &[u8]) -> &[u8] {
        &head[..usize::from(self.method)]
    }

    pub(super) fn target(self, head: &[u8]) -> &[u8] {
        &head[usize::from(self.method) + 1..usize::from(self.target)]
    }
}

/// Checks a request line, or the part that has arrived, from its first byte on: a client of another
/// protocol may wait for a response before it sends a line end.
pub(super) fn check_request_start(line: &[u8]) -> Result<(), PeerError> {
    if line.ends_with(b"\n") {
        request_line(line).map(|_| ())
    } else {
        method_end(line).map(|_| ())
    }
}

/// Where the method ends, if it does; within the limits so far.
fn method_end(bytes: &[u8]) -> Result<Option<usize>, PeerError> {
    let Some(end) = bytes.iter().take(METHOD_SIZE_MAX + 1).position(|b| !is_tchar(*b)) else {
        let too_long = bytes.len() > METHOD_SIZE_MAX;
        return if too_long { Err(PeerError::MethodTooLong) } else { Ok(None) };
    };
    if end == 0 || bytes[end] != b' ' {
        return Err(PeerError::BadStartLine);
    }
    let line_end = bytes.last().filter(|b| **b == b'\n').map_or(0, |_| 1);
    if bytes.len() - line_end - end > TARGET_SIZE_MAX + REQUEST_LINE_REST {
        return Err(PeerError::TargetTooLong);
    }
    Ok(Some(end))
}

/// Takes `method SP target SP version CRLF` apart.
fn request_line(line: &[u8]) -> Result<RequestLine, PeerError> {
    let method = method_end(line)?.ok_or(PeerError::BadStartLine)?;
    let line = line.strip_suffix(b"\r\n").ok_or(PeerError::BadStartLine)?;
    let target = memchr::memrchr(b' ', line).filter(|end| *end > method);
    let target = target.ok_or(PeerError::BadStartLine)?;
    let version = version(&line[target + 1..])?;
    if target - method > TARGET_SIZE_MAX + 1 {
        return Err(PeerError::TargetTooLong);
    }
    Ok(RequestLine { method: narrow(method), target: narrow(target), version })
}

/// `HTTP/1.x`; other versions of the same form are distinguished from malformed ones.
pub(super) fn version(word: &[u8]) -> Result<Version, PeerError> {
    match word {
        _ if word == b"HTTP/1.1" => Ok(Version::Http11),
        b"HTTP/1.0" => Ok(Version::Http10),
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'] => Ok(Version::Http11),
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => {
            Err(PeerError::BadVersion)
        }
        _ => Err(PeerError::BadStartLine),
    }
}

/// Decodes the request head that `bytes` begin with, and fills `index` with its fields and `fields`
/// with their facts.
pub(super) fn request(
    bytes: &[u8],
    index: &mut Vec<Header>,
    fields: &mut Fields,
) -> Result<RequestLine, PeerError> {
    let line_end = memchr::memchr(b'\n', bytes).ok_or(PeerError::BadStartLine)? + 1;
    let line = request_line(&bytes[..line_end])?;
    let authority = target::check(line.method(bytes), line.target(bytes))?;
    fields.decode(bytes, line_end, index).ok_or(PeerError::BadField)?;
    let host = fields.host.as_ref().map(|at| slice(bytes, at));
    let agrees = match host {
        Some(host) if fields.repeated_host || !target::is_host(host) => false,
        Some(host) => authority.is_none_or(|authority| authority.eq_ignore_ascii_case(host)),
        None => line.version == Version::Http10,
    };
    if agrees { Ok(line) } else { Err(PeerError::BadHost) }
}

/// Checks a status line, or what there is of it.
pub(super) fn check_response_start(line: &[u8]) -> Result<(), PeerError> {
    if line.ends_with(b"\n") {
        return status_line(line).map(|_| ());
    }
    if is_status_line(line) == Some(false) { Err(PeerError::BadStartLine) } else { Ok(()) }
}

/// The content of a status line.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatusLine {
    pub(super) version: Version,
    pub(super) status: u16,
    /// With its line end.
    len: u16,
}

impl StatusLine {
    /// A line that was read elsewhere.
    pub(super) fn new(version: Version, status: u16) -> Self {
        Self { version, status, len: 0 }
    }
}

/// Takes `version SP status [SP reason] CRLF` apart, which `bytes` begin with. The blank before
/// an empty reason is missing so often that it is not required.
#[inline(always)] // of every response
fn status_line(bytes: &[u8]) -> Result<StatusLine, PeerError> {
    let (word, rest) = bytes.split_at_checked(VERSION_SIZE).ok_or(PeerError::BadStartLine)?;
    let version = version(word)?;
    let (status, reason) = match rest {
        [b' ', a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', reason @ ..] => {
            let digit = |byte: &u8| u16::from(byte - b'0');
            (digit(a) * 100 + digit(b) * 10 + digit(c), reason)
        }
        _ => return Err(PeerError::BadStartLine),
    };
    let size = text_len(reason);
    let is_reason = matches!(reason, [b' ' | b'\r', ..]) && reason[size..].starts_with(b"\r\n");
    if !is_reason {
        return Err(PeerError::BadStartLine);
    }
    let len = VERSION_SIZE + " 200".len() + size + 2;
    let len = u16::try_from(len).map_err(|_| PeerError::HeadTooLarge)?;
    Ok(StatusLine { version, status, len })
}

/// The head that replaces that of an HTTP/0.9 response, which has none (RFC 1945 §6).
pub(super) fn http09_response(index: &mut Vec<Header>, fields: &mut Fields) -> StatusLine {
    index.clear();
    *fields = Fields::default();
    StatusLine::new(Version::Http09, 200)
}

/// True if `bytes` begin a status line, `None` if they are too few to decide.
pub(super) fn is_status_line(bytes: &[u8]) -> Option<bool> {
    let seen = bytes.len().min(HTTP.len());
    if bytes[..seen] == HTTP[..seen] { (seen == HTTP.len()).then_some(true) } else { Some(false) }
}

/// Decodes the response head that `bytes` begin with, and fills `index` with its fields and
/// `fields` with their facts.
pub(super) fn response(
    bytes: &[u8],
    index: &mut Vec<Header>,
    fields: &mut Fields,
) -> Result<StatusLine, PeerError> {
    let line = status_line(bytes)?;
    fields.decode(bytes, line.len.into(), index).ok_or(PeerError::BadField)?;
    Ok(line)
}

/// The facts of the fields for framing, reuse and routing.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    /// Where they end, with the blank line after them.
    pub(super) end: usize,
    pub(super) length: Length,
    pub(super) coding: Coding,
    pub(super) options: Options,
    pub(super) expect: Expect,
    /// There is an `Upgrade` field.
    pub(super) upgrade: bool,
    host: Option<Range<u32>>,
    repeated_host: bool,
}

/// The content of `Connection` (RFC 9110 §7.6.1).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    pub(super) close: bool,
    pub(super) keep_alive: bool,
    pub(super) upgrade: bool,
    /// It names fields that concern this hop only.
    nominates: bool,
    len: usize,
}

/// The content of `Expect` (RFC 9110 §10.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Expect {
    #[default]
    Nothing,
    Continue,
    Unknown,
}

#[expect(clippy::cast_possible_truncation, reason = "sections are limited to less than 64 KiB")]
fn range(start: usize, len: usize) -> Range<u32> {
    start as u32..(start + len) as u32
}

impl Fields {
    /// Decodes the field lines of `section` from `start` to the first blank line; `None` if one of
    /// them is not as it must be, or not there.
    pub(super) fn decode(
        &mut self,
        section: &[u8],
        start: usize,
        index: &mut Vec<Header>,
    ) -> Option<()> {
        index.clear();
        *self = Self::default();
        let mut at = start;
        self.end = loop {
            let line = match fields::piece(section, at) {
                Piece::Line(line) if index.len() < FIELDS_LEN_MAX => line,
                Piece::End(end) => break end,
                Piece::Line(_) | Piece::Bad => return None,
            };
            let name = range(at, line.name.len());
            let value = range(line.value_at, line.value.len());
            let hop = self.note(line.name, line.value, &value);
            index.push(Header { name, value, hop });
            at = line.next;
        };
        if self.options.nominates {
            mark_nominated(section, index);
        }
        (self.options.len <= OPTIONS_LEN_MAX).then_some(())
    }

    /// Records one field; true if it concerns this hop only.
    fn note(&mut self, name: &[u8], value: &[u8], at: &Range<u32>) -> bool {
        match name.len() {
            4 if is(name, b"host") => {
                self.repeated_host |= self.host.is_some();
                self.host = Some(at.clone());
            }
            6 if is(name, b"expect") => self.expect = self.expect.add(value),
            7 if is(name, b"upgrade") => self.upgrade = true,
            10 if is(name, b"connection") => self.options.add(value),
            14 if is(name, b"content-length") => self.length = self.length.add(value),
            17 if is(name, b"transfer-encoding") => self.coding = self.coding.add(value),
            2 | 7 | 10 | 16 => return is_hop(name),
            _ => return false,
        }
        name.len() != 4
    }
}

/// True if `name`, which is a token, is `known`, which is in lower case and has no digits: to set
/// the bit of lower case changes nothing in its letters and hyphens. Four at a time.
#[inline(always)]
fn is<const N: usize>(name: &[u8], known: &[u8; N]) -> bool {
    let Some(name) = name.first_chunk::<N>() else { return false };
    let (words, rest) = name.as_chunks();
    let (known_words, known_rest) = known.as_chunks();
    let lower = |word: &[u8; 4]| u32::from_ne_bytes(*word) | 0x2020_2020;
    let pairs = words.iter().zip(known_words);
    let rests = rest.iter().zip(known_rest);
    pairs.fold(true, |same, (a, b)| same & (lower(a) == u32::from_ne_bytes(*b)))
        && rests.fold(true, |same, (a, b)| same & (a | 0x20 == *b))
}

impl Options {
    #[inline(never)] // most heads have none: their loop stays small, and the facts in memory
    pub(super) fn add(&mut self, value: &[u8]) {
        for option in value.split(|b| *b == b',').map(trim_ows) {
            let is = |known: &[u8]| option.eq_ignore_ascii_case(known);
            self.len += usize::from(!option.is_empty());
            match option.len() {
                0 => {}
                5 if is(b"close") => self.close = true,
                7 if is(b"upgrade") => self.upgrade = true,
                10 if is(b"keep-alive") => self.keep_alive = true,
                _ => self.nominates = true,
            }
        }
    }
}

impl Expect {
    fn add(self, value: &[u8]) -> Self {
        match self {
            Self::Nothing if value.eq_ignore_ascii_case(b"100-continue") => Self::Continue,
            _ => Self::Unknown,
        }
    }
}

/// Fields named by `Connection` are hop-by-hop too, except those that must not be removed.
fn mark_nominated(section: &[u8], index: &mut [Header]) {
    let mut names = [&section[..0]; OPTIONS_LEN_MAX];
    let is_connection = |h: &&Header| slice(section, &h.name).eq_ignore_ascii_case(b"connection");
    let options = index
        .iter()
        .filter(is_connection)
        .flat_map(|header| slice(section, &header.value).split(|b| *b == b',').map(trim_ows));
    for (slot, option) in names.iter_mut().zip(options.filter(|option| !option.is_empty())) {
        *slot = option;
    }
    for header in index {
        let name = slice(section, &header.name);
        let named = names.iter().any(|option| option.eq_ignore_ascii_case(name));
        header.hop |= named && !is_protected(name);
    }
}

const HTTP: &[u8] = b"HTTP/";
const VERSION_SIZE: usize = 8;
/// The rest of a request line besides method and target, with CR and without LF.
const REQUEST_LINE_REST: usize = " ".len() + " HTTP/1.1\r".len();
/// The start line, and the fields.
#[expect(clippy::cast_possible_truncation, reason = "100 fits")]
const LINES_MAX: u8 = FIELDS_LEN_MAX as u8 + 1;
/// Names in `Connection`, in all: more have no honest use, and each costs a comparison per field.
const OPTIONS_LEN_MAX: usize = 16;
