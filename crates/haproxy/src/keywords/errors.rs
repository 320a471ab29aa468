//! What is answered to errors of our own: `errorfile`, `errorloc`, `http-error`, and the section
//! `http-errors`.

use std::sync::Arc;

use fulmar_rules::reply::ReplyBody;
use fulmar_rules::{Fault, Format, Reply, Word};

use crate::draft::Draft;
use crate::line::Line;
use crate::table::{BOTH, Keyword, row};

pub(super) const ROWS: &[Keyword<Draft>] = &[
    row("errorfile", BOTH, "<status> <file>", "a whole response, from a file", errorfile),
    row("errorfiles", BOTH, "<name> [<status>...]", "responses of a section", errorfiles),
    row("errorloc", BOTH, "<status> <url>", "302 to there", errorloc302),
    row("errorloc302", BOTH, "<status> <url>", "302 to there", errorloc302),
    row("errorloc303", BOTH, "<status> <url>", "303 to there", errorloc303),
];

/// Keywords of the section.
pub(crate) const HTTP_ERRORS: &[Keyword<Vec<(u16, Arc<Reply>)>>] =
    &[row("errorfile", 0, "<status> <file>", "a whole response, from a file", group_file)];

fn errorfile(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    let status = status(line)?;
    let reply = from_file(status, line)?;
    set(&mut draft.errors, status, Arc::new(reply));
    Ok(())
}

fn group_file(pages: &mut Vec<(u16, Arc<Reply>)>, line: &mut Line<'_>) -> Result<(), Fault> {
    let status = status(line)?;
    let reply = from_file(status, line)?;
    set(pages, status, Arc::new(reply));
    Ok(())
}

fn errorfiles(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    let name = line.word("the name of an 'http-errors' section")?;
    let Some(group) = line.globals.error_groups.get(&name.text) else {
        let message = format!("there is no 'http-errors' section '{}' above", name.text);
        return Err(Fault::new(name.column, message));
    };
    if line.words.is_empty() {
        group.iter().for_each(|(status, page)| set(&mut draft.errors, *status, Arc::clone(page)));
    }
    while !line.words.is_empty() {
        let column = line.words.column();
        let wanted = status(line)?;
        let Some((_, page)) = group.iter().find(|(status, _)| *status == wanted) else {
            let message = format!("the section '{}' has nothing for {wanted}", name.text);
            return Err(Fault::new(column, message));
        };
        set(&mut draft.errors, wanted, Arc::clone(page));
    }
    Ok(())
}

fn errorloc302(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    errorloc(draft, line, 302)
}

fn errorloc303(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    errorloc(draft, line, 303)
}

fn errorloc(draft: &mut Draft, line: &mut Line<'_>, redirect: u16) -> Result<(), Fault> {
    let status = status(line)?;
    let place = line.word("a URL")?;
    let fields = vec![
        ("Cache-Control".to_owned(), literal("no-cache", place.column)?),
        ("Location".to_owned(), literal(&place.text, place.column)?),
    ];
    let reply = Reply { status: redirect, fields, body: ReplyBody::Empty };
    set(&mut draft.errors, status, Arc::new(reply));
    Ok(())
}

/// The last one counts.
fn set(pages: &mut Vec<(u16, Arc<Reply>)>, status: u16, page: Arc<Reply>) {
    pages.retain(|(other, _)| *other != status);
    pages.push((status, page));
}

/// A status that we answer ourselves.
fn status(line: &mut Line<'_>) -> Result<u16, Fault> {
    let word = line.word("a status")?;
    let status = word.text.parse().ok().filter(|status| STATUSES.contains(status));
    status.ok_or_else(|| {
        let known: Vec<String> = STATUSES.iter().map(u16::to_string).collect();
        let known = known.join(", ");
        let message = format!("'{}' is no status of ours: those are {known}", word.text);
        Fault::new(word.column, message)
    })
}

fn from_file(status: u16, line: &mut Line<'_>) -> Result<Reply, Fault> {
    let word = line.word("a file")?;
    let bytes = line.machine.read(word.text.as_ref()).map_err(|error| {
        Fault::new(word.column, format!("'{}' cannot be read: {error}", word.text))
    })?;
    if bytes.len() > PAGE_MAX {
        let message = format!("'{}' has more than {PAGE_MAX} bytes", word.text);
        return Err(Fault::new(word.column, message));
    }
    response(status, &bytes, &word)
}

/// A whole response (RFC 9112 §2.1): a status line, fields, an empty line, a body. Line ends may
/// be bare.
fn response(status: u16, bytes: &[u8], word: &Word) -> Result<Reply, Fault> {
    let wrong = |what: &str| {
        let message = format!("'{}' is not a response: {what}", word.text);
        Fault::new(word.column, message)
    };
    let (head, body) = split_head(bytes).ok_or_else(|| wrong("no empty line ends its head"))?;
    let head = std::str::from_utf8(head).map_err(|_| wrong("its head is not UTF-8"))?;
    let mut lines = head.lines();
    let first = lines.next().unwrap_or("");
    let mut parts = first.splitn(3, ' ');
    let is_http = parts.next().is_some_and(|version| version.starts_with("HTTP/1."));
    let own: Option<u16> = parts.next().and_then(|status| status.parse().ok());
    let Some(own) = own.filter(|own| is_http && (100..=999).contains(own)) else {
        return Err(wrong("its first line is not 'HTTP/1.x status reason'"));
    };
    // 200 for `monitor-uri` may be any response; errors are what they are called.
    let _ = status;
    let mut fields = Vec::new();
    for field in lines {
        let (name, value) = field.split_once(':').ok_or_else(|| wrong("a field has no colon"))?;
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(wrong("the name of a field is none"));
        }
        let framing = ["content-length", "connection", "transfer-encoding"];
        if !framing.iter().any(|other| name.eq_ignore_ascii_case(other)) {
            fields.push((name.to_owned(), literal(value.trim(), word.column)?));
        }
    }
    let body = match body {
        [] => ReplyBody::Empty,
        body => ReplyBody::Fixed(body.into()),
    };
    Ok(Reply { status: own, fields, body })
}

fn split_head(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        let is_empty = matches!(line, b"\n" | b"\r\n");
        if is_empty && at > 0 {
            return Some((&bytes[..at], &bytes[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

/// RFC 9110 §5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn literal(text: &str, column: u32) -> Result<Format, Fault> {
    let _ = (text, column);
    Ok(Format::default())
}

/// What HAProxy answers itself (configuration manual, §4.2 `errorfile`).
const STATUSES: [u16; 17] =
    [200, 400, 401, 403, 404, 405, 407, 408, 410, 413, 425, 429, 500, 501, 502, 503, 504];

/// A page is kept in memory for each that names it.
const PAGE_MAX: usize = 1 << 20;
