//! `timeout`.

use std::time::Duration;

use crate::draft::Draft;
use crate::line::Line;
use crate::rules::Fault;
use crate::table::{BACK, BOTH, FRONT, Keyword, NAMED, row};
use crate::values::{Unit, duration};

pub(super) const ROWS: &[Keyword<Draft>] = &[
    row("timeout client", FRONT, "<time>", "a client is silent", client),
    row("timeout client-fin", FRONT, "<time>", "a client that is half closed", client_fin),
    row("timeout http-request", BOTH, "<time>", "a request's head is to be complete", request),
    row("timeout http-keep-alive", BOTH, "<time>", "the next request is to begin", keep_alive),
    row("timeout connect", BACK, "<time>", "a connection to a server is to stand", connect),
    row("timeout server", BACK, "<time>", "a server is silent", server),
    row("timeout server-fin", BACK, "<time>", "a server that is half closed", server_fin),
    row("timeout queue", BACK, "<time>", "a request waits for a free place", queue),
    row("timeout tunnel", BACK, "<time>", "a tunnel is silent, on both sides", tunnel),
    row("timeout check", BACK, "<time>", "the answer to a health check", check),
    row("timeout tarpit", BOTH, "<time>", "how long a tarpit holds", tarpit),
    row(
        "tcp-request inspect-delay",
        FRONT | BACK | NAMED,
        "<time>",
        "how long content rules wait for bytes",
        inspect_delay,
    ),
    row(
        "tcp-response inspect-delay",
        BACK | NAMED,
        "<time>",
        "how long those of responses do",
        response_inspect_delay,
    ),
];

/// `None` is no limit, which 0 says, too.
fn time(line: &mut Line<'_>) -> Result<Option<Duration>, Fault> {
    let word = line.word("a time")?;
    let time = duration(&word, "a time", Unit::Millis)?;
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
