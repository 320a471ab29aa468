//! Backends: servers, connection reuse, retries.

use super::option::{NOT_KEPT, first_column};
use crate::arguments::{NO_USESRC, interface, source_address};
use crate::compile;
use crate::draft::{ProxyDraft, ServerDraft};
use crate::keyword_table::{BACK, BACKEND, HTTP, Keyword, STRICT, row};
use crate::line::KeywordLine;
use crate::model::{RetryOn, ReuseMode};
use crate::parameters::server;
use crate::position::NameReference;
use crate::rules::{EvalPoint, Word, WordError};
use crate::values::{number, one_of};

pub(super) const ROWS: &[Keyword<ProxyDraft>] = &[
    row(
        "server",
        BACKEND | STRICT,
        "<name> <address>[:<port>] [<parameter>...]",
        "a server",
        server_line,
    ),
    row(
        "server-template",
        BACKEND | STRICT,
        "<prefix> <number> | <first>-<last> <address>[:<port>] [<parameter>...]",
        "several servers with consecutive addresses of a name",
        server_template,
    ),
    row(
        "default-server",
        BACK | STRICT,
        "<parameter>...",
        "default parameters of servers",
        default_server,
    ),
    row(
        "use-server",
        BACKEND,
        "<server> if | unless <condition>",
        "use this server if it is up",
        use_server,
    ),
    row(
        "fullconn",
        BACK,
        "<number>",
        "number of connections at which dynamic limits are reached",
        fullconn,
    ),
    row("retries", BACK, "<number>", "number of attempts after the first", retries),
    row("retry-on", BACK, "<event>...", "errors after which a request is retried", retry_on),
    row(
        "http-reuse",
        BACK,
        "never | safe | aggressive | always",
        "which idle connections are shared",
        reuse,
    ),
    row("source", BACK, "<address>[:<port>]", "source address of connections to servers", source),
    row(
        "force-persist",
        BACKEND | HTTP,
        "if | unless <condition>",
        "no effect: clients are not kept on servers that are down",
        force_persist,
    ),
    row(
        "ignore-persist",
        BACKEND | HTTP,
        "if | unless <condition>",
        "ignore persistence cookies",
        ignore_persist,
    ),
    row("max-keep-alive-queue", BACK, "<number>", "accepted: queues are short", skip_one),
];

fn server_line(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let server = server::parse(draft, line)?;
    add(draft, server)
}

fn server_template(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let servers = server::parse_template(draft, line)?;
    servers.into_iter().try_for_each(|server| add(draft, server))
}

fn add(draft: &mut ProxyDraft, server: ServerDraft) -> Result<(), WordError> {
    let twin = draft.servers.iter().find(|other| other.model.name == server.model.name);
    if let Some(twin) = twin {
        let name = &server.model.name;
        let message =
            format!("server '{name}' is already defined in line {}", twin.model.place.line);
        return Err(WordError::new(server.column, message));
    }
    draft.servers.push(server);
    Ok(())
}

fn default_server(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    server::parse_default(draft, line)
}

fn use_server(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let name = line.word("the name of a server")?;
    let condition = compile::required_condition(draft, line, EvalPoint::Request)?;
    draft.use_servers.push((NameReference { name, spot: line.spot.clone() }, condition));
    Ok(())
}

fn fullconn(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("a number")?;
    draft.backend.full_connections = Some(number(&word, 0, usize::MAX / 2)?);
    Ok(())
}

fn retries(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.backend.retries = number(&line.word("a number")?, 0, RETRIES_MAX)?;
    Ok(())
}

fn retry_on(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    line.words.clone().expect("an event")?;
    let mut on = RetryOn { connection_failure: false, ..RetryOn::default() };
    for word in line.words.rest() {
        match &*word.text {
            "none" => on = RetryOn { connection_failure: false, ..RetryOn::default() },
            "conn-failure" => on.connection_failure = true,
            "empty-response" => on.empty_response = true,
            "junk-response" => on.junk_response = true,
            "response-timeout" => on.response_timeout = true,
            "0rtt-rejected" => {}
            "all-retryable-errors" => {
                on.connection_failure = true;
                on.empty_response = true;
                on.junk_response = true;
                on.response_timeout = true;
                on.statuses.push(500);
                on.statuses.push(502);
                on.statuses.push(503);
                on.statuses.push(504);
            }
            _ => on.statuses.push(retried_status(word)?),
        }
    }
    draft.backend.retry_on = on;
    Ok(())
}

fn retried_status(word: &Word) -> Result<u16, WordError> {
    let status = word.text.parse().ok().filter(|status| RETRIED.contains(status));
    status.ok_or_else(|| {
        let message = format!(
            "unknown event '{}', expected one of none, conn-failure, empty-response, \
             junk-response, response-timeout, 0rtt-rejected, all-retryable-errors, 401, 403, \
             404, 408, 425, 500, 501, 502, 503, 504",
            word.text
        );
        WordError::new(word.column, message)
    })
}

fn reuse(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let known = [
        ("never", ReuseMode::Never),
        ("safe", ReuseMode::Safe),
        ("aggressive", ReuseMode::Aggressive),
        ("always", ReuseMode::Always),
    ];
    draft.backend.reuse = one_of(&line.word("a mode")?, "reuse mode", &known)?;
    Ok(())
}

fn source(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.backend.source = Some(source_address(line)?);
    draft.backend.interface = interface(line)?;
    match line.words.next() {
        Some(word) => Err(WordError::unknown(word.column, format!("'{}': {NO_USESRC}", word.text))),
        None => Ok(()),
    }
}

fn force_persist(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    compile::required_condition(draft, line, EvalPoint::Request)?;
    line.warn(first_column(line), NOT_KEPT);
    Ok(())
}

fn ignore_persist(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let condition = compile::required_condition(draft, line, EvalPoint::Request)?;
    draft.backend.ignore_persist.push(condition);
    Ok(())
}

fn skip_one(_draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    line.word("a value").map(drop)
}

/// Far more than is useful.
const RETRIES_MAX: u32 = 1000;

/// Status codes that can be retried.
const RETRIED: [u16; 10] = [401, 403, 404, 408, 425, 500, 501, 502, 503, 504];
