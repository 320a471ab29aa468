//! Parsing of responses.

use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;

use super::{ErrorPages, PAGES, ReplyBody, ReplyTemplate, parse_file};
use crate::rules::compile_context::CompileContext;
use crate::rules::elements::{field_name, format};
use crate::rules::format::{FormatOptions, FormatString};
use crate::rules::nearest;
use crate::rules::words::{Word, WordCursor, WordError};

/// The rule that has the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyKind {
    /// `deny` and `tarpit`, with the default status.
    Denial(u16),
    /// `return` and `http-error`.
    Return,
}

/// Parses `status`, `content-type`, a body and `hdr`, in any order.
pub(crate) fn parse(
    words: &mut WordCursor<'_>,
    kind: ReplyKind,
    context: &CompileContext<'_>,
) -> Result<ReplyTemplate, WordError> {
    let begin = words.column();
    let mut status = None;
    let mut content_type = None;
    let mut fields = Vec::new();
    let mut body = None;
    while let Some(word) = words.peek() {
        match &word.text[..] {
            "if" | "unless" => break,
            "status" | "deny_status" => {
                words.next();
                status = Some((words.column(), self::status(words, 200..=599)?));
            }
            "content-type" => {
                words.next();
                content_type = Some(words.expect("a type")?.text.clone());
            }
            "hdr" => {
                words.next();
                fields.push((field_name(words)?, format(words, FormatOptions::VALUE, context)?));
            }
            name if BODIES.contains(&name) => {
                words.next();
                if body.is_some() {
                    return Err(WordError::new(word.column, "the body is already defined"));
                }
                body = Some((word, read_body(word, words, context)?));
            }
            other => {
                let known = BODIES.into_iter().chain(["status", "content-type", "hdr"]);
                let message = nearest::unknown("argument", other, known);
                return Err(WordError::unknown(word.column, message));
            }
        }
    }
    let default = match kind {
        ReplyKind::Denial(status) => status,
        ReplyKind::Return => 200,
    };
    let parts = Parts { begin, status, default, content_type, fields, body };
    parts.assemble(kind)
}

/// The parsed words.
struct Parts<'w> {
    begin: u32,
    status: Option<(u32, u16)>,
    default: u16,
    content_type: Option<String>,
    fields: Vec<(String, FormatString)>,
    body: Option<(&'w Word, BodySource)>,
}

/// The body parameter.
enum BodySource {
    Whole(ReplyTemplate),
    Page,
    PageOf(String),
    Text(ReplyBody),
}

impl Parts<'_> {
    fn assemble(self, kind: ReplyKind) -> Result<ReplyTemplate, WordError> {
        let (column, status) = self.status.unwrap_or((self.begin, self.default));
        let page = |body| {
            if PAGES.iter().any(|(known, ..)| *known == status) {
                return Ok(ReplyTemplate { status, fields: Vec::new(), body });
            }
            let message = format!("no error page for status {status}: define a body");
            Err(WordError::new(column, message))
        };
        let fields = self.fields;
        let (word, body) = match self.body {
            None if kind == ReplyKind::Return => {
                return Ok(ReplyTemplate { status, fields, body: ReplyBody::Empty });
            }
            // `deny hdr X y`: a response without a body; `deny` alone: the error page.
            None if self.content_type.is_some() || !fields.is_empty() => {
                return Ok(ReplyTemplate { status, fields, body: ReplyBody::Empty });
            }
            None => return page(ReplyBody::ErrorPage),
            Some(body) => body,
        };
        match body {
            BodySource::Whole(reply) => Ok(reply),
            BodySource::Page => page(ReplyBody::ErrorPage),
            BodySource::PageOf(section) => page(ReplyBody::PageOf { section, column: word.column }),
            BodySource::Text(body)
                if matches!(
                    (status, &body),
                    (204 | 304, ReplyBody::Fixed(_) | ReplyBody::Format(_))
                ) =>
            {
                let message = format!("a response with status {status} cannot have a body");
                Err(WordError::new(word.column, message))
            }
            BodySource::Text(body) => {
                let mut fields = fields;
                match self.content_type {
                    Some(text) => {
                        let text = FormatString::literal(text.as_bytes());
                        fields.insert(0, ("content-type".to_owned(), text));
                    }
                    None if matches!(body, ReplyBody::Empty) => {}
                    None => {
                        let message = "missing 'content-type'";
                        return Err(WordError::new(word.column, message));
                    }
                }
                Ok(ReplyTemplate { status, fields, body })
            }
        }
    }
}

fn read_body(
    name: &Word,
    words: &mut WordCursor<'_>,
    context: &CompileContext<'_>,
) -> Result<BodySource, WordError> {
    Ok(match &name.text[..] {
        "default-errorfiles" => BodySource::Page,
        "errorfile" => BodySource::Whole(whole(words, context)?),
        "errorfiles" => BodySource::PageOf(words.expect("the name of a section")?.text.clone()),
        "file" => {
            let word = words.expect("a file")?;
            BodySource::Text(fixed(read(word, context)?))
        }
        "lf-file" => {
            let word = words.expect("a file")?;
            let text = String::from_utf8(read(word, context)?).map_err(|_| {
                WordError::new(word.column, format!("'{}' is not valid UTF-8", word.text))
            })?;
            BodySource::Text(formatted(&text, word.column, context)?)
        }
        "string" => {
            let word = words.expect("a text")?;
            BodySource::Text(fixed(word.text.clone().into_bytes()))
        }
        _ => {
            let word = words.expect("a format")?;
            BodySource::Text(formatted(&word.text, word.column, context)?)
        }
    })
}

fn fixed(bytes: Vec<u8>) -> ReplyBody {
    match bytes.is_empty() {
        true => ReplyBody::Empty,
        false => ReplyBody::Fixed(Bytes::from(bytes)),
    }
}

fn formatted(
    text: &str,
    column: u32,
    context: &CompileContext<'_>,
) -> Result<ReplyBody, WordError> {
    match text {
        "" => Ok(ReplyBody::Empty),
        text => FormatString::parse_in(text, column, FormatOptions::VALUE, context)
            .map(ReplyBody::Format),
    }
}

fn read(word: &Word, context: &CompileContext<'_>) -> Result<Vec<u8>, WordError> {
    context.files.read(&word.text).map_err(|error| {
        WordError::new(word.column, format!("cannot read '{}': {error}", word.text))
    })
}

/// A file with a complete response.
fn whole(
    words: &mut WordCursor<'_>,
    context: &CompileContext<'_>,
) -> Result<ReplyTemplate, WordError> {
    let word = words.expect("a file")?;
    parse_file(&read(word, context)?).map_err(|message| {
        WordError::new(word.column, format!("invalid response in '{}': {message}", word.text))
    })
}

/// A status.
pub(crate) fn status(
    words: &mut WordCursor<'_>,
    range: RangeInclusive<u16>,
) -> Result<u16, WordError> {
    let word = words.expect("a status")?;
    word.text.parse().ok().filter(|status| range.contains(status)).ok_or_else(|| {
        let (from, to) = (range.start(), range.end());
        let message = format!("invalid status '{}', expected {from} to {to}", word.text);
        WordError::new(word.column, message)
    })
}

/// A status with an error page.
fn error_status(words: &mut WordCursor<'_>) -> Result<u16, WordError> {
    let column = words.column();
    let status = status(words, 200..=599)?;
    if PAGES.iter().any(|(known, ..)| *known == status) {
        return Ok(status);
    }
    let known: Vec<_> = PAGES.iter().map(|(known, ..)| known.to_string()).collect();
    let message =
        format!("status code '{status}' not handled, supported codes are {}", known.join(", "));
    Err(WordError::new(column, message))
}

/// Parses the words after `errorfile`: a status and a file.
///
/// # Errors
/// The status has no page, or the file is not a response.
pub fn parse_errorfile(
    words: &mut WordCursor<'_>,
    context: &CompileContext<'_>,
) -> Result<(u16, Arc<ReplyTemplate>), WordError> {
    let status = error_status(words)?;
    let reply = whole(words, context)?;
    words.end()?;
    Ok((status, Arc::new(reply)))
}

/// Parses the words after `errorloc`, `errorloc302` (`redirect` is 302) and `errorloc303` (303): a
/// status and an address.
///
/// # Errors
/// The status has no page, or the address is invalid.
pub fn parse_errorloc(
    words: &mut WordCursor<'_>,
    redirect: u16,
) -> Result<(u16, Arc<ReplyTemplate>), WordError> {
    let status = error_status(words)?;
    let word = words.expect("an address")?;
    if word.text.is_empty() || word.text.bytes().any(|b| b.is_ascii_control() || b == b' ') {
        let message = format!("invalid address '{}'", word.text);
        return Err(WordError::new(word.column, message));
    }
    words.end()?;
    let field = |name: &str, value: &[u8]| (name.to_owned(), FormatString::literal(value));
    let fields = vec![field("cache-control", b"no-cache"), field("location", word.text.as_bytes())];
    Ok((status, Arc::new(ReplyTemplate { status: redirect, fields, body: ReplyBody::Empty })))
}

/// Parses the words after `http-error`, and changes the error pages of a proxy. `section` finds an
/// `http-errors` section by name.
///
/// # Errors
/// The status is missing or has no page, or the response is invalid.
pub fn parse_http_error<'s>(
    words: &mut WordCursor<'_>,
    context: &CompileContext<'_>,
    section: impl Fn(&str) -> Option<&'s ErrorPages>,
    pages: &mut ErrorPages,
) -> Result<(), WordError> {
    let mut ahead = words.clone();
    while ahead.peek().is_some_and(|word| word.text != "status") {
        ahead.next();
    }
    let status = match ahead.take("status") {
        true => error_status(&mut ahead)?,
        false => {
            let message = "missing 'status'";
            return Err(WordError::new(words.column(), message));
        }
    };
    let mut reply = parse(words, ReplyKind::Return, context)?;
    words.end()?;
    reply.resolve(section)?;
    match reply.body {
        ReplyBody::ErrorPage => pages.remove(status),
        _ => pages.set(status, Arc::new(reply)),
    }
    Ok(())
}

const BODIES: [&str; 7] =
    ["default-errorfiles", "errorfile", "errorfiles", "file", "lf-file", "string", "lf-string"];
