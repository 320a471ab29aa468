//! Frontends: listen addresses and properties.

use crate::arguments::backlog_of;
use crate::compile;
use crate::draft::{BackendReference, ProxyDraft};
use crate::keyword_table::{BACKEND, BOTH, FRONT, FRONTEND, HTTP, Keyword, STRICT, row};
use crate::line::KeywordLine;
use crate::model::{HeaderCapture, Mode};
use crate::parameters::bind;
use crate::position::NameReference;
use crate::rules::{EvalPoint, WordError};
use crate::values::{number, one_of};

pub(super) const ROWS: &[Keyword<ProxyDraft>] = &[
    row("mode", BOTH, "tcp | http", "protocol of the proxy", mode),
    row("bind", FRONTEND, "<address>[, ...] [<parameter>...]", "listen address", bind_line),
    row("maxconn", FRONT, "<number>", "maximum number of concurrent client connections", maxconn),
    row("backlog", FRONT, "<number>", "length of the queue of pending connections", backlog),
    row(
        "rate-limit sessions",
        FRONT,
        "<number>",
        "maximum number of new sessions per second",
        rate_limit,
    ),
    row("disabled", BOTH, "", "do not start", disabled),
    row("enabled", BOTH, "", "start (default)", enabled),
    row("description", FRONTEND | BACKEND, "<text>", "description in statistics", description),
    row("id", FRONTEND | BACKEND, "<number>", "number in statistics", id),
    row(
        "default_backend",
        FRONT,
        "<backend>",
        "backend of requests without a matching 'use_backend'",
        default_backend,
    ),
    row(
        "use_backend",
        FRONTEND,
        "<backend> [if | unless <condition>]",
        "backend of matching requests; the name may be a format",
        use_backend,
    ),
    row(
        "monitor-uri",
        FRONT | HTTP,
        "<path>",
        "path to which the proxy itself responds with 200",
        monitor_uri,
    ),
    row(
        "monitor fail",
        FRONTEND | HTTP,
        "if | unless <condition>",
        "respond with 503 on the monitor URI",
        monitor_fail,
    ),
    row("unique-id-format", FRONT, "<format>", "format of unique IDs", unique_id_format),
    row("unique-id-header", FRONT, "<name>", "header field with the unique ID", unique_id_header),
    row(
        "declare capture",
        FRONTEND | STRICT,
        "request | response len <length>",
        "capture slot for rules",
        declare,
    ),
    row(
        "capture request header",
        FRONTEND | HTTP,
        "<name> len <length>",
        "capture a request header field for the log",
        capture_request,
    ),
    row(
        "capture response header",
        FRONTEND | HTTP,
        "<name> len <length>",
        "capture a response header field for the log",
        capture_response,
    ),
    row(
        "capture cookie",
        FRONTEND | HTTP,
        "<name> len <length>",
        "capture a cookie for the log",
        capture_cookie,
    ),
];

fn mode(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("tcp or http")?;
    if word.text == "health" {
        let message = "'mode health' is obsolete: use 'http-request return status 200'";
        return Err(WordError::new(word.column, message));
    }
    draft.mode = one_of(&word, "mode", &[("tcp", Mode::Tcp), ("http", Mode::Http)])?;
    Ok(())
}

fn bind_line(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let found = bind::parse(line)?;
    draft.binds.extend(found);
    Ok(())
}

fn maxconn(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let most = number(&line.word("a number")?, 0, usize::MAX / 2)?;
    draft.frontend.connections_max = (most > 0).then_some(most);
    Ok(())
}

fn backlog(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.frontend.backlog = Some(backlog_of(line)?);
    Ok(())
}

fn rate_limit(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let most = number(&line.word("a number")?, 0, u32::MAX)?;
    draft.frontend.sessions_per_second_max = (most > 0).then_some(most);
    Ok(())
}

fn disabled(draft: &mut ProxyDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.disabled = true;
    Ok(())
}

fn enabled(draft: &mut ProxyDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.disabled = false;
    Ok(())
}

fn description(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    line.words.clone().expect("a text")?;
    let words: Vec<&str> = line.words.rest().iter().map(|word| &*word.text).collect();
    draft.description = Some(words.join(" "));
    Ok(())
}

fn id(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.id = Some(number(&line.word("a number")?, 1, u32::MAX / 2)?);
    Ok(())
}

fn default_backend(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let name = line.word("the name of a backend")?;
    draft.default_backend = Some(NameReference { name, spot: line.spot.clone() });
    Ok(())
}

fn use_backend(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let name = line.word("the name of a backend")?;
    let choice = match name.text.contains('%') {
        true => BackendReference::Computed(compile::name_format(&name, line)?),
        false => BackendReference::Named(NameReference { name, spot: line.spot.clone() }),
    };
    let condition = compile::condition(draft, line, EvalPoint::Request)?;
    draft.use_backends.push((choice, condition));
    Ok(())
}

fn monitor_uri(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.frontend.monitor_uri = Some(line.word("a path")?.text);
    Ok(())
}

fn monitor_fail(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let condition = compile::required_condition(draft, line, EvalPoint::Request)?;
    draft.frontend.monitor_fails.push(condition);
    Ok(())
}

fn unique_id_format(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("a format")?;
    draft.unique_id_format = Some(compile::id_format(&word, line)?.into());
    Ok(())
}

fn unique_id_header(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.unique_id_header = Some(line.word("the name of a field")?.text);
    Ok(())
}

fn capture(line: &mut KeywordLine<'_>) -> Result<HeaderCapture, WordError> {
    let field = line.word("a name")?.text;
    let word = line.word("len")?;
    if word.text != "len" {
        let message = format!("'{}': expected 'len' and a number", word.text);
        return Err(WordError::new(word.column, message));
    }
    let len = number(&line.word("a number of bytes")?, 0, CAPTURE_MAX)?;
    Ok(HeaderCapture { field, len })
}

fn capture_request(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.frontend.request_captures.push(capture(line)?);
    Ok(())
}

fn capture_response(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.frontend.response_captures.push(capture(line)?);
    Ok(())
}

fn capture_cookie(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let HeaderCapture { field, len } = capture(line)?;
    draft.frontend.cookie_capture = Some((field, len));
    Ok(())
}

/// `declare capture`: a slot for rules.
fn declare(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let side = one_of(
        &line.word("request or response")?,
        "side",
        &[("request", true), ("response", false)],
    )?;
    let word = line.word("len")?;
    if word.text != "len" {
        let message = format!("'{}': expected 'len' and a number", word.text);
        return Err(WordError::new(word.column, message));
    }
    let len = number(&line.word("a number of bytes")?, 1, CAPTURE_MAX)?;
    let captures = match side {
        true => &mut draft.frontend.request_captures,
        false => &mut draft.frontend.response_captures,
    };
    captures.push(HeaderCapture { field: String::new(), len });
    Ok(())
}

/// Far longer than log lines are.
const CAPTURE_MAX: usize = 65_536;
