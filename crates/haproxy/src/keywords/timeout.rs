//! `timeout`.

use std::time::Duration;

use crate::draft::ProxyDraft;
use crate::keyword_table::{BACK, BOTH, FRONT, Keyword, NAMED, row};
use crate::line::KeywordLine;
use crate::rules::WordError;
use crate::values::{TimeUnit, duration};

pub(super) const ROWS: &[Keyword<ProxyDraft>] = &[
    row("timeout client", FRONT, "<time>", "client inactivity", client),
    row(
        "timeout client-fin",
        FRONT,
        "<time>",
        "client inactivity after one side has closed",
        client_fin,
    ),
    row("timeout http-request", BOTH, "<time>", "waiting for a complete request header", request),
    row("timeout http-keep-alive", BOTH, "<time>", "waiting for the next request", keep_alive),
    row("timeout connect", BACK, "<time>", "connecting to a server", connect),
    row("timeout server", BACK, "<time>", "server inactivity", server),
    row(
        "timeout server-fin",
        BACK,
        "<time>",
        "server inactivity after one side has closed",
        server_fin,
    ),
    row("timeout queue", BACK, "<time>", "waiting for a free connection slot", queue),
    row("timeout tunnel", BACK, "<time>", "inactivity of both sides of a tunnel", tunnel),
    row("timeout check", BACK, "<time>", "reading the response to a health check", check),
    row("timeout tarpit", BOTH, "<time>", "duration of a tarpit", tarpit),
    row(
        "tcp-request inspect-delay",
        FRONT | BACK | NAMED,
        "<time>",
        "time that request content rules wait for data",
        inspect_delay,
    ),
    row(
        "tcp-response inspect-delay",
        BACK | NAMED,
        "<time>",
        "time that response content rules wait for data",
        response_inspect_delay,
    ),
];

/// A timeout; 0 is `None`, no limit.
fn time(line: &mut KeywordLine<'_>) -> Result<Option<Duration>, WordError> {
    let word = line.word("a time")?;
    let time = duration(&word, TimeUnit::Millis)?;
    Ok((!time.is_zero()).then_some(time))
}

fn client(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.frontend.timeouts.client = time(line)?;
    Ok(())
}

fn client_fin(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.frontend.timeouts.client_fin = time(line)?;
    Ok(())
}

fn request(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let time = time(line)?;
    draft.frontend.timeouts.http_request = time;
    draft.backend.timeouts.http_request = time;
    Ok(())
}

fn keep_alive(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.frontend.timeouts.http_keep_alive = time(line)?;
    Ok(())
}

fn connect(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.backend.timeouts.connect = time(line)?;
    Ok(())
}

fn server(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.backend.timeouts.server = time(line)?;
    Ok(())
}

fn server_fin(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.backend.timeouts.server_fin = time(line)?;
    Ok(())
}

fn queue(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.backend.timeouts.queue = time(line)?;
    Ok(())
}

fn tunnel(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.backend.timeouts.tunnel = time(line)?;
    Ok(())
}

fn check(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.backend.timeouts.check = time(line)?;
    Ok(())
}

fn tarpit(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let time = time(line)?;
    draft.frontend.timeouts.tarpit = time;
    draft.backend.timeouts.tarpit = time;
    Ok(())
}

fn inspect_delay(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let time = time(line)?;
    draft.frontend.inspect_delay = time;
    draft.backend.inspect_delay = time;
    Ok(())
}

fn response_inspect_delay(
    draft: &mut ProxyDraft,
    line: &mut KeywordLine<'_>,
) -> Result<(), WordError> {
    draft.backend.response_inspect_delay = time(line)?;
    Ok(())
}
