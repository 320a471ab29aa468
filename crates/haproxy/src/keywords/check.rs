//! Health checks: `option httpchk`, `http-check`, `option tcp-check`, `tcp-check`.

use crate::rules::{FormatString, Word, WordError};
use regex::bytes::Regex;

use crate::checks::{CheckChoice, HttpStep, RequestDraft};
use crate::compile;
use crate::draft::ProxyDraft;
use crate::keyword_table::{BACK, HTTP, Keyword, row};
use crate::line::KeywordLine;
use crate::model::{CheckExpect, Expectation, TcpStep};
use crate::values::number;

pub(super) const ROWS: &[Keyword<ProxyDraft>] = &[
    row(
        "option httpchk",
        BACK,
        "[[<method>] <uri> [<version>]]",
        "use HTTP health checks",
        option_http,
    ),
    row("option tcp-check", BACK, "", "use the steps of 'tcp-check'", option_tcp),
    row(
        "http-check send",
        BACK,
        "[meth <method>] [uri <uri>] [ver <version>] [hdr <name> <format>]* [body <text>]",
        "request of a check",
        send,
    ),
    row(
        "http-check expect",
        BACK,
        "[!] status | rstatus | string | rstring | hdr <pattern>",
        "expected response",
        expect,
    ),
    row("http-check connect", BACK, "", "open a new connection for the next request", connect),
    row("http-check comment", BACK, "<text>", "accepted: a comment", skip_one),
    row("http-check disable-on-404", BACK | HTTP, "", "on 404, accept no new clients", on_404),
    row("http-check send-state", BACK, "", "accepted: the state is not sent", nothing),
    row("tcp-check connect", BACK, "[port <port>] [ssl]", "open a connection", tcp_connect),
    row("tcp-check send", BACK, "<text>", "data to send", tcp_send),
    row("tcp-check send-binary", BACK, "<hex>", "data to send, in hexadecimal", tcp_send_binary),
    row(
        "tcp-check expect",
        BACK,
        "[!] string | rstring | binary <pattern>",
        "expected data",
        tcp_expect,
    ),
    row("tcp-check comment", BACK, "<text>", "accepted: a comment", skip_one),
];

fn option_http(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let words = line.words.rest();
    let mut send = RequestDraft::default();
    match words {
        [] => {}
        [uri] => send.target = Some(uri.text.clone()),
        [method, uri, rest @ ..] => {
            send.method = Some(method.text.clone());
            send.target = Some(uri.text.clone());
            if let Some(version) = rest.first() {
                version_and_fields(version, rest, &mut send)?;
            }
        }
    }
    draft.check.chosen = CheckChoice::Http;
    draft.check.request = Some(send);
    Ok(())
}

/// `HTTP/1.1\r\nHost:\ name`: fields after the version are an obsolete syntax.
fn version_and_fields(
    version: &Word,
    rest: &[Word],
    send: &mut RequestDraft,
) -> Result<(), WordError> {
    let text: Vec<&str> = rest.iter().map(|word| &*word.text).collect();
    let text = text.join(" ");
    let mut lines = text.split("\r\n");
    let first = Word { text: lines.next().unwrap_or("").to_owned(), column: version.column };
    send.http11 = Some(is_http11(&first)?);
    for field in lines.filter(|line| !line.is_empty()) {
        let Some((name, value)) = field.split_once(':') else {
            let message = format!("'{field}' is not a header field");
            return Err(WordError::new(version.column, message));
        };
        send.fields.push((name.to_owned(), FormatString::literal(value.trim().as_bytes())));
    }
    Ok(())
}

fn is_http11(word: &Word) -> Result<bool, WordError> {
    match &*word.text {
        "HTTP/1.0" => Ok(false),
        "HTTP/1.1" => Ok(true),
        other => {
            let message = format!("'{other}': expected HTTP/1.0 or HTTP/1.1");
            Err(WordError::new(word.column, message))
        }
    }
}

fn option_tcp(draft: &mut ProxyDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.check.chosen = CheckChoice::Tcp;
    Ok(())
}

fn send(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let mut send = RequestDraft::default();
    while let Some(word) = line.words.next() {
        match &*word.text {
            "meth" => send.method = Some(line.word("a method")?.text),
            "uri" => send.target = Some(line.word("a URI")?.text),
            "ver" => send.http11 = Some(is_http11(&line.word("a version")?)?),
            "hdr" => {
                let name = line.word("the name of a field")?.text;
                let value = line.word("a value")?;
                send.fields.push((name, compile::format(&value, line)?));
            }
            "body" => send.body = line.word("a body")?.text.into_bytes(),
            "comment" => line.word("a text").map(drop)?,
            other => {
                let message =
                    format!("'{other}': expected 'meth', 'uri', 'ver', 'hdr', 'body' or 'comment'");
                return Err(WordError::unknown(word.column, message));
            }
        }
    }
    draft.check.own_http().push(HttpStep::Send(send));
    Ok(())
}

/// Words before the expectation that are ignored.
fn skip_settings(line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    while let Some(word) = line.words.peek() {
        match &*word.text {
            "comment" | "min-recv" | "ok-status" | "error-status" | "tout-status"
            | "on-success" | "on-error" | "status-code" => {
                line.words.next();
                line.word("a value")?;
            }
            _ => return Ok(()),
        }
    }
    Ok(())
}

fn expect(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    skip_settings(line)?;
    let (negated, word) = negation(line)?;
    let what = match &*word.text {
        "status" => Expectation::Status(statuses(&line.word("statuses")?)?),
        "rstatus" => Expectation::StatusPattern(pattern(&line.word("a pattern")?)?),
        "string" => Expectation::Text(line.word("a text")?.text.into_bytes()),
        "rstring" => Expectation::Pattern(pattern(&line.word("a pattern")?)?),
        "hdr" => field(line)?,
        "fhdr" | "string-lf" => {
            let message = format!("'{}' is not supported here", word.text);
            return Err(WordError::unknown(word.column, message));
        }
        other => {
            let message =
                format!("'{other}': expected 'status', 'rstatus', 'string', 'rstring' or 'hdr'");
            return Err(WordError::new(word.column, message));
        }
    };
    draft.check.own_http().push(HttpStep::Expect(CheckExpect { negated, what }));
    Ok(())
}

/// `!` may be a word of its own, or a prefix of the word.
fn negation(line: &mut KeywordLine<'_>) -> Result<(bool, Word), WordError> {
    let mut negated = false;
    loop {
        let mut word = line.word("an expectation")?;
        while let Some(rest) = word.text.strip_prefix('!') {
            negated = !negated;
            word.text = rest.to_owned();
        }
        if !word.text.is_empty() {
            return Ok((negated, word));
        }
    }
}

/// `200`, `200-399,404`.
fn statuses(word: &Word) -> Result<Vec<(u16, u16)>, WordError> {
    let wrong = || {
        let message =
            format!("'{}': invalid status list, expected for example 200-299,404", word.text);
        WordError::new(word.column, message)
    };
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let status = |text: &str| text.parse().ok().filter(|status| (100..=999).contains(status));
        let (first, last) = (status(first)?, status(last)?);
        (first <= last).then_some((first, last))
    };
    word.text.split(',').map(|text| range(text).ok_or_else(wrong)).collect()
}

fn field(line: &mut KeywordLine<'_>) -> Result<Expectation, WordError> {
    let word = line.word("name")?;
    if word.text != "name" {
        return Err(WordError::new(word.column, "expected 'name' and the name of a field"));
    }
    exact(line)?;
    let name = line.word("the name of a field")?.text;
    let value = match line.words.take("value") {
        true => {
            exact(line)?;
            Some(line.word("a value")?.text)
        }
        false => None,
    };
    Ok(Expectation::Field { name, value })
}

/// `-m str` is the default; other methods are not supported.
fn exact(line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    if !line.words.take("-m") {
        return Ok(());
    }
    let word = line.word("a method")?;
    match &*word.text {
        "str" => Ok(()),
        other => {
            Err(WordError::unknown(word.column, format!("'-m {other}' is not supported here")))
        }
    }
}

fn pattern(word: &Word) -> Result<Regex, WordError> {
    let built = regex::bytes::RegexBuilder::new(&word.text).size_limit(PATTERN_SIZE_MAX).build();
    built.map_err(|error| {
        // The last line of the error is the reason; the others show the pattern.
        let error = error.to_string();
        let why = error.lines().last().unwrap_or("");
        WordError::new(word.column, format!("invalid regex '{}': {why}", word.text))
    })
}

fn connect(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    while let Some(word) = line.words.next() {
        match &*word.text {
            "default" | "linger" => {}
            "comment" => line.word("a text").map(drop)?,
            other => {
                let message =
                    format!("'{other}' is not supported here: use parameters of 'server' lines");
                return Err(WordError::unknown(word.column, message));
            }
        }
    }
    draft.check.own_http();
    Ok(())
}

fn on_404(draft: &mut ProxyDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    draft.backend.disable_on_404 = true;
    Ok(())
}

fn nothing(_draft: &mut ProxyDraft, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    Ok(())
}

fn skip_one(_draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    line.word("a text").map(drop)
}

fn tcp_connect(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let (mut port, mut tls) = (None, false);
    while let Some(word) = line.words.next() {
        match &*word.text {
            "default" | "linger" => {}
            "ssl" => tls = true,
            "port" => port = Some(number(&line.word("a port")?, 1, u16::MAX)?),
            "comment" => line.word("a text").map(drop)?,
            other => {
                let message =
                    format!("'{other}' is not supported here: use parameters of 'server' lines");
                return Err(WordError::unknown(word.column, message));
            }
        }
    }
    draft.check.own_tcp().push(TcpStep::Connect { port, tls });
    Ok(())
}

fn tcp_send(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let bytes = line.word("a text")?.text.into_bytes();
    skip_settings(line)?;
    draft.check.own_tcp().push(TcpStep::Send(bytes));
    Ok(())
}

fn tcp_send_binary(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let bytes = hex(&line.word("hexadecimal digits")?)?;
    skip_settings(line)?;
    draft.check.own_tcp().push(TcpStep::Send(bytes));
    Ok(())
}

fn tcp_expect(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    skip_settings(line)?;
    let (negated, word) = negation(line)?;
    let step = match &*word.text {
        "string" => TcpStep::Expect { negated, bytes: line.word("a text")?.text.into_bytes() },
        "binary" => TcpStep::Expect { negated, bytes: hex(&line.word("hexadecimal digits")?)? },
        "rstring" => {
            TcpStep::ExpectPattern { negated, pattern: pattern(&line.word("a pattern")?)? }
        }
        "rbinary" | "string-lf" | "binary-lf" => {
            let message = format!("'{}' is not supported here", word.text);
            return Err(WordError::unknown(word.column, message));
        }
        other => {
            let message = format!("'{other}': expected 'string', 'rstring' or 'binary'");
            return Err(WordError::new(word.column, message));
        }
    };
    draft.check.own_tcp().push(step);
    Ok(())
}

fn hex(word: &Word) -> Result<Vec<u8>, WordError> {
    let digits = word.text.as_bytes();
    let bytes = digits.chunks(2).map(|pair| match pair {
        [a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => {
            std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok())
        }
        _ => None,
    });
    bytes.collect::<Option<Vec<u8>>>().ok_or_else(|| {
        let message = format!("'{}': expected two hexadecimal digits per byte", word.text);
        WordError::new(word.column, message)
    })
}

/// Size limit of a compiled pattern, in bytes.
const PATTERN_SIZE_MAX: usize = 1 << 20;
