//! `option`.

use std::net::IpAddr;

use crate::draft::{LogFormat, ProxyDraft};
use crate::keyword_table::{BACK, BOTH, FRONT, HTTP, Keyword, NO, Sections, row};
use crate::line::KeywordLine;
use crate::model::{ForwardFor, HttpMode};
use crate::position::KeywordPrefix;
use crate::rules::format::Standard;
use crate::rules::{Word, WordError};
use crate::values::number;

const fn option(
    name: &'static str,
    sections: Sections,
    about: &'static str,
    read: crate::keyword_table::Read<ProxyDraft>,
) -> Keyword<ProxyDraft> {
    row(name, sections | NO, "", about, read)
}

pub(super) const ROWS: &[Keyword<ProxyDraft>] = &[
    option("option httpclose", BOTH, "close both connections after an exchange", close),
    option(
        "option http-server-close",
        BOTH,
        "close the server connection after an exchange",
        server_close,
    ),
    option("option http-keep-alive", BOTH, "keep both connections (default)", keep_alive),
    row(
        "option forwardfor",
        BOTH | HTTP,
        "[except <network>] [header <name>] [if-none]",
        "add X-Forwarded-For with the client's address",
        forward_for,
    ),
    row(
        "option originalto",
        BOTH | HTTP,
        "[header <name>]",
        "add X-Original-To with the client's destination address",
        original_to,
    ),
    option("option abortonclose", BACK, "drop queued requests whose client has closed", abort),
    row(
        "option redispatch",
        BACK | NO,
        "[<interval>]",
        "retries may use another server",
        redispatch,
    ),
    option(
        "option prefer-last-server",
        BACK,
        "prefer the last server while it is usable",
        prefer_last,
    ),
    option("option allbackups", BACK, "use all backup servers, not only the first", backups),
    option(
        "option splice-auto",
        BOTH,
        "splice data in the kernel where it is faster (default)",
        auto,
    ),
    option("option splice-request", BOTH, "the same for requests", splice_request),
    option("option splice-response", BOTH, "the same for responses", splice_response),
    option("option clitcpka", FRONT, "enable TCP keep-alive on client connections", client_probes),
    option("option srvtcpka", BACK, "enable TCP keep-alive on server connections", server_probes),
    row("option tcpka", BOTH, "", "enable TCP keep-alive on both sides", probes),
    option("option contstats", FRONT, "update counters during transfers", contstats),
    option("option socket-stats", FRONT, "statistics per listener", socket_stats),
    option(
        "option http-buffer-request",
        BOTH | HTTP,
        "evaluate rules after the request's body has arrived",
        buffer,
    ),
    option(
        "option http-ignore-probes",
        FRONT | HTTP,
        "no response to connections closed without data",
        ignore_probes,
    ),
    option(
        "option independent-streams",
        BOTH,
        "each side's inactivity timeout counts only its own direction",
        independent,
    ),
    option("option dontlognull", FRONT, "do not log connections without data", dont_log_null),
    option("option dontlog-normal", FRONT, "log errors only", dont_log_normal),
    option("option logasap", FRONT, "log when the response begins", log_soon),
    option("option log-separate-errors", FRONT, "log errors with level 'err'", separate_errors),
    option("option log-health-checks", BACK, "log changes of servers' health", log_checks),
    row(
        "option accept-invalid-http-request",
        FRONT | NO | HTTP,
        "",
        "no effect: invalid messages are not forwarded",
        without_effect,
    ),
    row(
        "option accept-invalid-http-response",
        BACK | NO | HTTP,
        "",
        "no effect: invalid messages are not forwarded",
        without_effect,
    ),
    option(
        "option persist",
        BACK,
        "no effect: clients are not kept on servers that are down",
        persist,
    ),
    row("option httplog", FRONT, "[clf]", "HTTP log format", http_log),
    row("option httpslog", FRONT, "", "HTTP log format with TLS information", https_log),
    row("option tcplog", BOTH, "", "TCP log format", tcp_log),
];

fn close(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    set_mode(draft, line, HttpMode::Close);
    Ok(())
}

fn server_close(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    set_mode(draft, line, HttpMode::ServerClose);
    Ok(())
}

fn keep_alive(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    set_mode(draft, line, HttpMode::KeepAlive);
    Ok(())
}

/// The last of these options applies; `no` resets only the same one.
fn set_mode(draft: &mut ProxyDraft, line: &KeywordLine<'_>, mode: HttpMode) {
    let now = &mut draft.options.http_mode;
    match line.said {
        KeywordPrefix::Plain => *now = Some(mode),
        KeywordPrefix::No | KeywordPrefix::Default if *now == Some(mode) => *now = None,
        KeywordPrefix::No | KeywordPrefix::Default => {}
    }
}

fn forward_for(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let mut forward =
        ForwardFor { field: "X-Forwarded-For".to_owned(), except: None, if_none: false };
    while let Some(word) = line.words.next() {
        match &*word.text {
            "if-none" => forward.if_none = true,
            "header" => forward.field = line.word("the name of a field")?.text,
            "except" => forward.except = Some(network(&line.word("a network")?)?),
            other => {
                let message = format!("'{other}': expected 'except', 'header' or 'if-none'");
                return Err(WordError::new(word.column, message));
            }
        }
    }
    draft.options.forward_for = Some(forward);
    Ok(())
}

/// `10.0.0.0/8`, `10.0.0.0/255.0.0.0`, `::1`.
fn network(word: &Word) -> Result<(IpAddr, u8), WordError> {
    let wrong = || {
        let message = format!("'{}' is not a network address", word.text);
        WordError::new(word.column, message)
    };
    let (address, mask) = match word.text.split_once('/') {
        Some((address, mask)) => (address, Some(mask)),
        None => (&*word.text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = match mask {
        None => most,
        Some(mask) => match mask.parse::<u8>() {
            Ok(bits) if bits <= most => bits,
            Ok(_) => return Err(wrong()),
            Err(_) => {
                let mask: std::net::Ipv4Addr = mask.parse().map_err(|_| wrong())?;
                let ones = mask.to_bits().leading_ones();
                if ones != mask.to_bits().count_ones() || address.is_ipv6() {
                    return Err(wrong());
                }
                u8::try_from(ones).map_err(|_| wrong())?
            }
        },
    };
    Ok((address, bits))
}

fn original_to(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let mut field = "X-Original-To".to_owned();
    while let Some(word) = line.words.next() {
        match &*word.text {
            "header" => field = line.word("the name of a field")?.text,
            other => {
                let message = format!("'{other}' is not supported here: expected 'header'");
                return Err(WordError::unknown(word.column, message));
            }
        }
    }
    draft.options.original_to = Some(field);
    Ok(())
}

fn abort(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.options.abort_on_close = line.said.is_on();
    Ok(())
}

fn redispatch(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.options.redispatch = match (line.said, line.words.next()) {
        (KeywordPrefix::No | KeywordPrefix::Default, _) => 0,
        (KeywordPrefix::Plain, None) => -1,
        (KeywordPrefix::Plain, Some(word)) => number(word, i32::MIN, i32::MAX)?,
    };
    Ok(())
}

fn prefer_last(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.options.prefer_last_server = line.said.is_on();
    Ok(())
}

fn backups(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.backend.all_backups = line.said.is_on();
    Ok(())
}

fn auto(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.options.splice.auto = Some(line.said.is_on());
    Ok(())
}

fn splice_request(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.options.splice.request = Some(line.said.is_on());
    Ok(())
}

fn splice_response(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.options.splice.response = Some(line.said.is_on());
    Ok(())
}

fn client_probes(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.options.client_probes = line.said.is_on();
    Ok(())
}

fn server_probes(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.options.server_probes = line.said.is_on();
    Ok(())
}

fn probes(draft: &mut ProxyDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.options.client_probes = true;
    draft.options.server_probes = true;
    Ok(())
}

fn socket_stats(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.options.socket_stats = line.said.is_on();
    Ok(())
}

fn contstats(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.options.contstats = line.said.is_on();
    Ok(())
}

fn buffer(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.options.buffer_request = line.said.is_on();
    Ok(())
}

fn ignore_probes(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.options.ignore_probes = line.said.is_on();
    draft.frontend.log_options.dont_log_null |= line.said.is_on();
    Ok(())
}

fn independent(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.options.independent_streams = line.said.is_on();
    Ok(())
}

fn dont_log_null(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.frontend.log_options.dont_log_null = line.said.is_on();
    Ok(())
}

fn dont_log_normal(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.frontend.log_options.dont_log_normal = line.said.is_on();
    Ok(())
}

fn log_soon(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.frontend.log_options.as_soon_as_possible = line.said.is_on();
    Ok(())
}

fn separate_errors(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.frontend.log_options.separate_errors = line.said.is_on();
    Ok(())
}

fn log_checks(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.backend.log_health_checks = line.said.is_on();
    Ok(())
}

fn without_effect(_draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    if line.said.is_on() {
        let message =
            format!("'{}' has no effect: invalid HTTP messages are not forwarded", line.keyword);
        line.warn(first_column(line), message);
    }
    Ok(())
}

fn persist(_draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    if line.said.is_on() {
        line.warn(first_column(line), NOT_KEPT);
    }
    Ok(())
}

fn http_log(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = Word { text: line.keyword.to_owned(), column: first_column(line) };
    let spot = line.spot.clone();
    let standard = match line.words.take("clf") {
        true => Standard::HttpClf,
        false => Standard::Http,
    };
    draft.log_format = LogFormat::Http(standard, spot, word);
    Ok(())
}

fn https_log(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = Word { text: line.keyword.to_owned(), column: first_column(line) };
    draft.log_format = LogFormat::Http(Standard::Https, line.spot.clone(), word);
    Ok(())
}

fn tcp_log(draft: &mut ProxyDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.log_format = LogFormat::Tcp;
    Ok(())
}

pub(super) fn first_column(line: &KeywordLine<'_>) -> u32 {
    let blank = line.spot.text.len() - line.spot.text.trim_start().len();
    u32::try_from(blank).map_or(u32::MAX, |blank| blank + 1)
}

/// Warning for `option persist` and `force-persist`.
pub(super) const NOT_KEPT: &str =
    "no effect: clients of a server that is down or in maintenance are sent to another server";
