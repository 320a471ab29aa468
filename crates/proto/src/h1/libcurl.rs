//! Heads of responses as libcurl 7.88 reads them ([`super::ResponseProfile::Libcurl`]).
//!
//! libcurl delivers a head line by line, and judges each line before it delivers it. So every line
//! is judged here in the order of its arrival, and the count of sound bytes is kept for the owner,
//! also if a later line is refused. The fields are collected once the empty line has arrived. Lines
//! that are no fields of the grammar are only among the received bytes.

use crate::errors::PeerError;
use crate::head::{FieldOrigin, Header, Scratch, Version, is_hop, is_text, is_token, trim_ows};
use crate::status_aliases::StatusAliases;

use super::framing::{Coding, Length};
use super::parse::{Fields, StatusLine};
use super::{LIBCURL_HEADS_SIZE_MAX, LIBCURL_LINE_SIZE_MAX};

/// What the input begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LibcurlSection {
    /// The rest has not arrived.
    Partial,
    /// A head of this length, with its empty line; or without it, if the connection has ended.
    Whole(usize),
    /// No status line: a response of HTTP/0.9.
    Http09,
}

/// True if libcurl reads a head of the grammar in the same way: of the versions that it knows, and
/// with a length that only one field declares.
pub(super) fn is_plain(head: &[u8], line: StatusLine, fields: &Fields) -> bool {
    let framed = match (fields.length, fields.coding) {
        (Length::Absent | Length::Exact(_), Coding::Absent) => true,
        (Length::Absent, Coding::Chunked) => line.version == Version::Http11,
        _ => false,
    };
    framed && line.status != 101 && matches!(&head[..8], b"HTTP/1.1" | b"HTTP/1.0")
}

/// What the judgement of a head depends on, besides its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judging {
    pub(super) has_eof: bool,
    /// Bytes of earlier heads of the exchange.
    pub(super) earlier: u32,
    /// `Content-Length` has no meaning.
    pub(super) ignores_length: bool,
}

/// Judges the lines that have arrived since the last call. `judged` counts the bytes of the sound
/// ones.
pub(super) fn judge(
    bytes: &[u8],
    judging: Judging,
    judged: &mut u32,
    aliases: &StatusAliases,
) -> Result<LibcurlSection, PeerError> {
    let Judging { has_eof, earlier, ignores_length } = judging;
    if *judged == 0 {
        let seen = bytes.len().min(HTTP.len());
        let line = memchr::memchr(b'\n', bytes).map_or(bytes, |end| &bytes[..=end]);
        if !bytes[..seen].eq_ignore_ascii_case(&HTTP[..seen]) && !aliases.may_match(line) {
            return Ok(LibcurlSection::Http09);
        }
    }
    let begin = *judged as usize;
    let mut start = begin;
    let first = memchr::memchr(b'\n', bytes).map_or(0, |end| end + 1);
    // It is known once the first line has been judged, and needed for few lines.
    let mut may_have_length = None;
    for end in memchr::memchr_iter(b'\n', &bytes[begin..]).map(|at| begin + at) {
        let line = &bytes[start..=end];
        let is_last = start > 0 && is_end(line);
        let place = match start {
            0 => LinePlace::Status,
            _ if start == first => LinePlace::First,
            _ => LinePlace::Other,
        };
        judge_line(line, place, aliases)?;
        if let Some(value) = value_of(line, b"content-length:").filter(|_| !ignores_length) {
            let may_have = *may_have_length.get_or_insert_with(|| !is_bodiless(bytes));
            if may_have && number(value) == LengthValue::Invalid {
                return Err(PeerError::BadLength);
            }
        }
        start = end + 1;
        *judged = u32::try_from(start).expect("heads are limited to less than 4 GiB");
        if earlier.saturating_add(*judged) > LIBCURL_HEADS_SIZE_MAX {
            return Err(PeerError::HeadTooLarge);
        }
        if is_last {
            return Ok(LibcurlSection::Whole(start));
        }
    }
    if bytes.len() - start >= LIBCURL_LINE_SIZE_MAX {
        return Err(PeerError::LineTooLong);
    }
    match (has_eof, start) {
        (true, 0) => Err(PeerError::UnexpectedEof),
        (true, lines) => Ok(LibcurlSection::Whole(lines)),
        (false, _) => Ok(LibcurlSection::Partial),
    }
}

/// True if a head has its last line.
pub(super) fn has_end(head: &[u8]) -> bool {
    let lines = head.strip_suffix(b"\n").unwrap_or(head);
    let last = memchr::memrchr(b'\n', lines).map_or(0, |end| end + 1);
    last > 0 && is_end(&head[last..])
}

/// True for the line that ends a head: only its first byte matters.
fn is_end(line: &[u8]) -> bool {
    matches!(line.first(), Some(b'\r' | b'\n'))
}

/// Where in a head a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinePlace {
    Status,
    /// The first field: there is none before it to be continued.
    First,
    Other,
}

/// Judges a line, but for its length.
fn judge_line(line: &[u8], place: LinePlace, aliases: &StatusAliases) -> Result<(), PeerError> {
    if line.len() > LIBCURL_LINE_SIZE_MAX {
        return Err(PeerError::LineTooLong);
    }
    if place == LinePlace::Status {
        status_or_alias(line, aliases)?;
    } else if is_end(line) {
        return Ok(());
    }
    if memchr::memchr(0, line).is_some() {
        return Err(PeerError::NulInHead);
    }
    if place == LinePlace::Status {
        return Ok(());
    }
    let is_folded = matches!(line.first(), Some(b' ' | b'\t'));
    let is_first = place == LinePlace::First;
    let has_colon = memchr::memchr(b':', line).is_some();
    match (is_folded, is_first) {
        (true, false) => Ok(()),
        (_, _) if !has_colon => Err(PeerError::MissingColon),
        (true, true) => Err(PeerError::BadField), // it continues no field
        (false, _) => Ok(()),
    }
}

/// True if the status of a head allows no body: the fields that declare one are ignored.
fn is_bodiless(head: &[u8]) -> bool {
    let line = memchr::memchr(b'\n', head).map_or(head, |end| &head[..=end]);
    status_line(line).is_ok_and(|(status, _)| matches!(status, 100..=199 | 204 | 304))
}

/// The same for a line that an alias may have accepted.
fn status_or_alias(line: &[u8], aliases: &StatusAliases) -> Result<(u16, Version), PeerError> {
    let begins_as_http = line.get(..HTTP.len()).is_some_and(|it| it.eq_ignore_ascii_case(HTTP));
    match !begins_as_http && aliases.may_match(line) {
        true => Ok((200, Version::Http10)),
        false => status_line(line),
    }
}

/// The status and the version of a status line, as the `sscanf` of libcurl reads them.
fn status_line(line: &[u8]) -> Result<(u16, Version), PeerError> {
    let text = line.split(|byte| *byte == 0).next().unwrap_or_default();
    let rest = text.get(HTTP.len()..).unwrap_or_default();
    let digit = |at: usize| rest.get(at).filter(|byte| byte.is_ascii_digit());
    let (Some(major), Some(b'.'), Some(minor)) = (digit(0), rest.get(1), digit(2)) else {
        // Without a minor version only 2 and 3 are read.
        return match rest {
            [b'2', b' ' | b'\t', rest @ ..] => match leading_number(rest, usize::MAX) {
                Some((status @ 100..=999, _)) => Ok((status, Version::Http2)),
                _ => Err(PeerError::BadStatus),
            },
            _ => Err(PeerError::BadVersion),
        };
    };
    let is_separated = rest.get(3) == Some(&b' ');
    let Some((status, after)) = rest.get(4..).and_then(|rest| leading_number(rest, 3)) else {
        return Err(PeerError::BadVersion);
    };
    if status < 100 || after.first().is_some_and(u8::is_ascii_digit) {
        return Err(PeerError::BadStatus);
    }
    match (major, minor) {
        (b'1', b'0') if is_separated => Ok((status, Version::Http10)),
        (b'1', b'1') if is_separated => Ok((status, Version::Http11)),
        (b'2', b'0') if is_separated => Ok((status, Version::Http2)),
        _ => Err(PeerError::BadVersion),
    }
}

/// A number behind blanks of at most `width` digits, and what follows it. A negative one is 0.
fn leading_number(text: &[u8], width: usize) -> Option<(u16, &[u8])> {
    let text = text.trim_ascii_start();
    let (sign, digits) = match text {
        [sign @ (b'-' | b'+'), digits @ ..] => (Some(*sign), digits),
        digits => (None, digits),
    };
    let width = width.saturating_sub(usize::from(sign.is_some()));
    let len = digits.iter().take(width).take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = digits.split_at(len);
    let number = std::str::from_utf8(number).ok().filter(|text| !text.is_empty())?;
    let number = number.parse().unwrap_or(u16::MAX);
    Some((if sign == Some(b'-') { 0 } else { number }, rest))
}

/// The value of a field line, if it begins with `name`, which has the colon.
fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (known, value) = line.split_at_checked(name.len())?;
    known.eq_ignore_ascii_case(name).then_some(value)
}

/// A `Content-Length`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LengthValue {
    Is(u64),
    /// Beyond 63 bits: the body ends with the connection.
    Overflow,
    Invalid,
}

/// The number that a value begins with. What follows it is ignored.
fn number(value: &[u8]) -> LengthValue {
    let value = value.trim_ascii();
    let digits = value.strip_prefix(b"+").unwrap_or(value);
    let len = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let Ok(digits) = std::str::from_utf8(&digits[..len]) else { return LengthValue::Invalid };
    match digits.parse::<i64>() {
        Ok(number) => LengthValue::Is(number.unsigned_abs()),
        Err(_) if digits.is_empty() => LengthValue::Invalid,
        Err(_) => LengthValue::Overflow,
    }
}

/// Collects the fields of a head whose lines are sound into the scratch, and their facts.
/// `ignores_length`: `Content-Length` has no meaning.
pub(super) fn decode(
    head: &[u8],
    ignores_length: bool,
    aliases: &StatusAliases,
    scratch: &mut Scratch,
    fields: &mut Fields,
) -> StatusLine {
    let first = memchr::memchr(b'\n', head).map_or(head.len(), |end| end + 1);
    let (status, version) = status_or_alias(&head[..first], aliases).expect("the line was judged");
    *fields = Fields::default();
    scratch.head.clear();
    scratch.index.clear();
    collect(&head[first..], scratch);
    if !is_bodiless(head) {
        note_framing(&head[first..], ignores_length, fields);
    }
    for (name, value) in scratch.headers().iter() {
        if name.eq_ignore_ascii_case(b"connection") {
            fields.options.add(value);
        }
        fields.upgrade |= name.eq_ignore_ascii_case(b"upgrade");
    }
    fields.options.close |= version == Version::Http2; // on a connection of HTTP/1
    fields.end = scratch.head.len();
    scratch.append_received(head);
    let version = if version == Version::Http10 { version } else { Version::Http11 };
    StatusLine::new(version, status)
}

/// Collects the fields of a trailer section. Lines without a name, and NUL, are refused.
pub(super) fn trailers(section: &[u8], scratch: &mut Scratch) -> Result<(), PeerError> {
    scratch.head.clear();
    scratch.index.clear();
    for (at, line) in section.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let is_folded = at > 0 && matches!(line.first(), Some(b' ' | b'\t'));
        let is_field = is_end(line) || is_folded || memchr::memchr(b':', line).is_some();
        if !is_field || memchr::memchr(0, line).is_some() {
            return Err(PeerError::BadTrailer);
        }
    }
    collect(section, scratch);
    scratch.append_received(section);
    Ok(())
}

/// Writes the lines that are fields of the grammar, with folded ones as one line. A control
/// character becomes a blank.
fn collect(lines: &[u8], scratch: &mut Scratch) {
    let Scratch { head, index, origin } = scratch;
    *origin = FieldOrigin::Received;
    let end = |head: &[u8]| u32::try_from(head.len()).expect("heads are less than 4 GiB");
    let text = |bytes: &[u8]| -> Vec<u8> {
        let clean = |byte: &u8| if is_text(*byte) { *byte } else { b' ' };
        trim_ows(&bytes.iter().map(clean).collect::<Vec<_>>()).to_vec()
    };
    let mut may_continue = false;
    for line in lines.split_inclusive(|byte| *byte == b'\n').take_while(|line| !is_end(line)) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if matches!(line.first(), Some(b' ' | b'\t')) {
            if may_continue && let Some(last) = index.last_mut() {
                head.truncate(last.value.end as usize);
                let more = text(line);
                if last.value.start < last.value.end && !more.is_empty() {
                    head.push(b' ');
                }
                head.extend_from_slice(&more);
                last.value.end = end(head);
                head.extend_from_slice(b"\r\n");
            }
            continue;
        }
        let colon = memchr::memchr(b':', line);
        let name = colon.map(|colon| trim_ows(&line[..colon])).filter(|name| is_token(name));
        may_continue = name.is_some();
        let (Some(colon), Some(name)) = (colon, name) else { continue };
        let start = end(head);
        head.extend_from_slice(name);
        let name_range = start..end(head);
        head.extend_from_slice(b": ");
        let start = end(head);
        head.extend_from_slice(&text(&line[colon + 1..]));
        let hop = is_hop(name);
        index.push(Header { name: name_range, value: start..end(head), hop });
        head.extend_from_slice(b"\r\n");
    }
}

/// The framing that the lines declare: chunks, or the last length, or the end of the connection.
fn note_framing(lines: &[u8], ignores_length: bool, fields: &mut Fields) {
    let mut is_coded = false;
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        if let Some(value) = value_of(line, b"content-length:") {
            if ignores_length {
                continue;
            }
            match number(value) {
                LengthValue::Is(number) => fields.length = Length::Exact(number),
                LengthValue::Overflow => {
                    fields.length = Length::Absent;
                    fields.options.close = true;
                }
                LengthValue::Invalid => unreachable!("the line was judged"),
            }
        } else if let Some(value) = value_of(line, b"transfer-encoding:") {
            is_coded = true;
            let names = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            if names.into_iter().any(|name| name.eq_ignore_ascii_case(b"chunked")) {
                fields.coding = Coding::Chunked;
            }
        }
    }
    if is_coded {
        fields.length = Length::Absent;
        fields.options.close |= fields.coding != Coding::Chunked;
    }
}

const HTTP: &[u8] = b"HTTP/";
