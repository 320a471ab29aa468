//! `timeout`.

use std::time::Duration;

use crate::draft::Draft;
use crate::line::Line;
use crate::rules::Fault;
use crate::table::{BACK, BOTH, FRONT, Keyword, NAMED, row};
use crate::values::{Unit, duration};

pub(super) const ROWS: &[Keyword<Draft>] = &[
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
fn time(line: &mut Line<'_>) -> Result<Option<Duration>, Fault> {
    let word = line.word("a time")?;
    let time = duration(&word, Unit::Millis)?;
    Ok((!time.is_zero()).then_some(time))
}

fn client(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    draft.frontend.timeouts.client = time(line)?;
    Ok(())
}

fn client_fin(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    draft.frontend.timeouts.client_fin = time(line)?;
    Ok(())
}

fn request(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    let time = time(line)?;
    draft.frontend.timeouts.http_request = time;
    draft.backend.timeouts.http_request = time;
    Ok(())
}

fn keep_alive(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    draft.frontend.timeouts.http_keep_alive = time(line)?;
    Ok(())
}

fn connect(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    draft.backend.timeouts.connect = time(line)?;
    Ok(())
}

fn server(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    draft.backend.timeouts.server = time(line)?;
    Ok(())
}

fn server_fin(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    draft.backend.timeouts.server_fin = time(line)?;
    Ok(())
}

fn queue(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    draft.backend.timeouts.queue = time(line)?;
    Ok(())
}

fn tunnel(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    draft.backend.timeouts.tunnel = time(line)?;
    Ok(())
}

fn check(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    draft.backend.timeouts.check = time(line)?;
    Ok(())
}

fn tarpit(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    let time = time(line)?;
    draft.frontend.timeouts.tarpit = time;
    draft.backend.timeouts.tarpit = time;
    Ok(())
}

fn inspect_delay(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    let time = time(line)?;
    draft.frontend.inspect_delay = time;
    draft.backend.inspect_delay = time;
    Ok(())
}

fn response_inspect_delay(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    draft.backend.response_inspect_delay = time(line)?;
    Ok(())
}
