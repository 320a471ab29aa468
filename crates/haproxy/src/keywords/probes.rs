//! TCP keep-alive settings (`clitcpka-*`, `srvtcpka-*`).

use std::time::Duration;

use crate::draft::ProxyDraft;
use crate::keyword_table::{BACK, FRONT, Keyword, row};
use crate::line::KeywordLine;
use crate::rules::WordError;
use crate::values::{TimeUnit, duration, number};

pub(super) const ROWS: &[Keyword<ProxyDraft>] = &[
    row(
        "clitcpka-cnt",
        FRONT,
        "<count>",
        "number of unacknowledged keep-alive probes to clients",
        client_count,
    ),
    row("clitcpka-idle", FRONT, "<time>", "idle time before the first probe", client_idle),
    row("clitcpka-intvl", FRONT, "<time>", "time between probes", client_interval),
    row(
        "srvtcpka-cnt",
        BACK,
        "<count>",
        "number of unacknowledged keep-alive probes to servers",
        server_count,
    ),
    row("srvtcpka-idle", BACK, "<time>", "idle time before the first probe", server_idle),
    row("srvtcpka-intvl", BACK, "<time>", "time between probes", server_interval),
];

fn count(line: &mut KeywordLine<'_>) -> Result<Option<u8>, WordError> {
    Ok(Some(number(&line.word("a number")?, 1, PROBES_MAX)?))
}

/// A time, by default in seconds.
fn time(line: &mut KeywordLine<'_>) -> Result<Option<Duration>, WordError> {
    Ok(Some(duration(&line.word("a time")?, TimeUnit::Seconds)?))
}

fn client_count(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.options.client_probe_times.count = count(line)?;
    Ok(())
}

fn client_idle(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.options.client_probe_times.idle = time(line)?;
    Ok(())
}

fn client_interval(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.options.client_probe_times.interval = time(line)?;
    Ok(())
}

fn server_count(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.options.server_probe_times.count = count(line)?;
    Ok(())
}

fn server_idle(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.options.server_probe_times.idle = time(line)?;
    Ok(())
}

fn server_interval(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.options.server_probe_times.interval = time(line)?;
    Ok(())
}

/// `MAX_TCP_KEEPCNT` of Linux.
const PROBES_MAX: u8 = 127;
