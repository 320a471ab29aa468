//! Formats of access log lines. Requests cannot forge lines or send control sequences to a
//! terminal.
//!
//! Text from a request is truncated to [`FIELD_SIZE_MAX`] bytes. Bytes that are not visible ASCII
//! are written as `\xHH`, a backslash as `\\`. In JSON this text is an ordinary string: its
//! backslashes are escaped again.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use fulmar_proto::{PeerError, Version};
use fulmar_semantics::clock::Clock;
use fulmar_server::{ExchangeSummary, HandlerError, RequestId, RequestSummary};
use fulmar_sys as sys;

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The combined format of Apache and nginx.
    Combined,
    /// JSON objects with the same fields and `duration_us`, `complete`, `request_id`,
    /// `client_request_id`, `error`.
    Json,
}

/// The content of a line, with the unescaped text of the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessLine<'a> {
    peer: SocketAddr,
    /// `None` if it could not be read.
    request: Option<(RequestId, RequestSummary<'a>)>,
    status: u16,
    bytes: u64,
    duration: Duration,
    complete: bool,
    error: Option<ResponseError<'a>>,
}

/// The error of a failed request.
#[derive(Clone, Copy, Debug)]
enum ResponseError<'a> {
    Peer(PeerError),
    Handler(&'a HandlerError),
}

impl<'a> AccessLine<'a> {
    /// From a finished exchange.
    pub(crate) fn of(exchange: &ExchangeSummary<'a>) -> Self {
        Self {
            peer: exchange.peer,
            request: Some((exchange.id, exchange.request)),
            status: exchange.status,
            bytes: exchange.bytes,
            duration: exchange.duration,
            complete: exchange.complete,
            error: exchange
                .error
                .map(ResponseError::Handler)
                .or_else(|| exchange.fault.map(ResponseError::Peer)),
        }
    }

    /// From a malformed request.
    pub(crate) fn malformed(peer: SocketAddr, error: PeerError) -> Self {
        Self {
            peer,
            request: None,
            status: error.status(),
            bytes: 0,
            duration: Duration::ZERO,
            complete: false,
            error: Some(ResponseError::Peer(error)),
        }
    }
}

impl Format {
    /// Appends a line to `out`.
    pub(crate) fn write(self, out: &mut Vec<u8>, clock: &Clock, line: &AccessLine<'_>) {
        match self {
            Self::Combined => write_combined(out, clock, line),
            Self::Json => write_json(out, clock, line),
        }
    }
}

fn write_combined(out: &mut Vec<u8>, clock: &Clock, line: &AccessLine<'_>) {
    write_peer(out, line.peer);
    out.extend_from_slice(b" - - [");
    out.extend_from_slice(clock.log());
    out.extend_from_slice(b"] \"");
    let request = line.request.map(|(_, request)| request);
    match &request {
        None => out.push(b'-'),
        Some(request) => {
            escape(out, request.method, Format::Combined);
            out.push(b' ');
            escape(out, request.target, Format::Combined);
            out.push(b' ');
            out.extend_from_slice(name_of(request.version));
        }
    }
    let (referer, user_agent) =
        request.map_or((None, None), |request| (request.referer, request.user_agent));
    put(out, format_args!("\" {:03} {} \"", line.status, line.bytes));
    escape(out, referer.unwrap_or(b"-"), Format::Combined);
    out.extend_from_slice(b"\" \"");
    escape(out, user_agent.unwrap_or(b"-"), Format::Combined);
    out.extend_from_slice(b"\"\n");
}

fn write_json(out: &mut Vec<u8>, clock: &Clock, line: &AccessLine<'_>) {
    let request = line.request.as_ref().map(|(_, request)| request);
    out.extend_from_slice(b"{\"time\":\"");
    out.extend_from_slice(clock.iso());
    out.extend_from_slice(b"\",\"peer\":\"");
    write_peer(out, line.peer);
    out.push(b'"');
    write_member(out, "method", request.map(|it| it.method));
    write_member(out, "target", request.map(|it| it.target));
    write_member(out, "version", request.map(|it| name_of(it.version)));
    put(out, format_args!(",\"status\":{},\"bytes\":{}", line.status, line.bytes));
    let (duration, complete) = (line.duration.as_micros(), line.complete);
    put(out, format_args!(",\"duration_us\":{duration},\"complete\":{complete}"));
    write_member(out, "referer", request.and_then(|it| it.referer));
    write_member(out, "user_agent", request.and_then(|it| it.user_agent));
    match line.request {
        None => out.extend_from_slice(b",\"request_id\":null"),
        Some((id, _)) => put(out, format_args!(",\"request_id\":\"{id}\"")),
    }
    write_member(out, "client_request_id", request.and_then(|it| it.client_id));
    match line.error {
        None => out.extend_from_slice(b",\"error\":null"),
        Some(ResponseError::Peer(error)) => put(out, format_args!(",\"error\":\"{error}\"")),
        // The message of a panic may contain any bytes.
        Some(ResponseError::Handler(error)) => {
            write_member(out, "error", Some(error.to_string().as_bytes()));
        }
    }
    out.extend_from_slice(b"}\n");
}

/// Peers on Unix sockets have no address; `unix:` as in nginx.
fn write_peer(out: &mut Vec<u8>, peer: SocketAddr) {
    match peer {
        sys::UNNAMED => out.extend_from_slice(b"unix:"),
        peer => put(out, format_args!("{}", peer.ip())),
    }
}

fn name_of(version: Version) -> &'static [u8] {
    match version {
        Version::Http09 => b"HTTP/0.9",
        Version::Http10 => b"HTTP/1.0",
        Version::Http11 => b"HTTP/1.1",
        Version::Http2 => b"HTTP/2.0",
    }
}

fn write_member(out: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    match value {
        None => out.extend_from_slice(b"null"),
        Some(value) => {
            out.push(b'"');
            escape(out, value, Format::Json);
            out.push(b'"');
        }
    }
}

/// Writes text of a request in double quotes.
fn escape(out: &mut Vec<u8>, text: &[u8], format: Format) {
    let is_cut = text.len() > FIELD_SIZE_MAX;
    let mut rest = &text[..text.len().min(FIELD_SIZE_MAX)];
    while !rest.is_empty() {
        let plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
        let len = rest.iter().position(|byte| !plain(byte)).unwrap_or(rest.len());
        out.extend_from_slice(&rest[..len]);
        let Some((byte, later)) = rest[len..].split_first() else { break };
        escape_byte(out, *byte, format);
        rest = later;
    }
    if is_cut {
        out.extend_from_slice(b"...");
    }
}

fn escape_byte(out: &mut Vec<u8>, byte: u8, format: Format) {
    // In JSON the backslash of our escape is escaped again; the quote needs no second escape.
    let backslash: &[u8] = if format == Format::Json { b"\\\\" } else { b"\\" };
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => {
            out.extend_from_slice(backslash);
            out.extend_from_slice(backslash);
        }
        other => {
            out.extend_from_slice(backslash);
            out.extend_from_slice(&[b'x', hex(other >> 4), hex(other & 15)]);
        }
    }
}

fn hex(digit: u8) -> u8 {
    b"0123456789abcdef"[usize::from(digit)]
}

fn put(out: &mut Vec<u8>, args: std::fmt::Arguments<'_>) {
    out.write_fmt(args).expect("writing to a Vec cannot fail");
}

/// Maximum size in bytes of a method, target or field in the log. Longer ones are truncated and end
/// with `...`.
pub const FIELD_SIZE_MAX: usize = 2048;

// What the server has truncated is marked, too.
const _: () = assert!(FIELD_SIZE_MAX < RequestSummary::KEPT_SIZE_MAX);

/// Maximum size of a line: five fields and an error with five bytes for each byte, and the rest.
pub(crate) const LINE_SIZE_MAX: usize = 6 * (FIELD_SIZE_MAX * 5 + 3) + 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    use proptest::prelude::*;

    fn line<'a>(target: &'a [u8], user_agent: Option<&'a [u8]>) -> AccessLine<'a> {
        let request =
            RequestSummary { method: b"GET", target, user_agent, ..RequestSummary::default() };
        AccessLine {
            peer: ([127, 0, 0, 1], 4711).into(),
            request: Some((RequestId { server: 0xabc, number: 7 }, request)),
            status: 200,
            bytes: 2326,
            duration: Duration::from_micros(1500),
            complete: true,
            error: None,
        }
    }

    fn summary(target: &[u8]) -> ExchangeSummary<'_> {
        let line = line(target, None);
        let (id, request) = line.request.expect("it was read");
        let AccessLine { peer, status, bytes, duration, complete, .. } = line;
        let (error, fault) = (None, None);
        ExchangeSummary { peer, request, id, status, bytes, duration, complete, error, fault }
    }

    fn compose(format: Format, line: &AccessLine<'_>) -> String {
        let clock = Clock::new(UNIX_EPOCH + Duration::from_secs(784_111_777), sys::now());
        let mut out = Vec::new();
        format.write(&mut out, &clock, line);
        assert!(out.len() <= LINE_SIZE_MAX);
        String::from_utf8(out).unwrap()
    }

    fn json(line: &AccessLine<'_>) -> serde_json::Value {
        serde_json::from_str(&compose(Format::Json, line)).unwrap()
    }

    #[test]
    fn combined_format() {
        assert_eq!(
            compose(Format::Combined, &line(b"/a?b", Some(b"curl/8"))),
            "127.0.0.1 - - [06/Nov/1994:08:49:37 +0000] \"GET /a?b HTTP/1.1\" 200 2326 \"-\" \
             \"curl/8\"\n"
        );
        let unread = AccessLine::malformed(sys::UNNAMED, PeerError::HeadTooLarge);
        assert_eq!(
            compose(Format::Combined, &unread),
            "unix: - - [06/Nov/1994:08:49:37 +0000] \"-\" 431 0 \"-\" \"-\"\n"
        );
        let unanswered = compose(Format::Combined, &AccessLine { status: 0, ..line(b"/", None) });
        assert!(unanswered.contains("HTTP/1.1\" 000 2326 "), "{unanswered}");
    }

    #[test]
    fn json_format() {
        let value = json(&line(b"/a\"\\\xff", Some(b"curl/8")));
        assert_eq!(value["time"], "1994-11-06T08:49:37Z");
        assert_eq!(value["peer"], "127.0.0.1");
        assert_eq!(value["target"], "/a\"\\\\\\xff");
        assert_eq!(value["status"], 200);
        assert_eq!(value["bytes"], 2326);
        assert_eq!(value["duration_us"], 1500);
        assert_eq!(value["complete"], true);
        assert_eq!(value["request_id"], "0000000000000abc0000000000000007");
        for absent in ["referer", "client_request_id", "error"] {
            assert_eq!(value[absent], serde_json::Value::Null, "{absent}");
        }
        assert_eq!(value["user_agent"], "curl/8");
        let mut other = line(b"/", None);
        other.request.as_mut().unwrap().1.client_id = Some(b"\"theirs\n");
        assert_eq!(json(&other)["client_request_id"], "\"theirs\\x0a");
        let unread = json(&AccessLine::malformed(other.peer, PeerError::BadHost));
        assert_eq!(unread["error"], "the Host field is missing or malformed");
        assert_eq!(unread["status"], 400);
        for absent in ["request_id", "method", "target", "version"] {
            assert_eq!(unread[absent], serde_json::Value::Null, "{absent}");
        }
        let exchange = ExchangeSummary {
            fault: Some(PeerError::BodyTooShort),
            status: 0,
            ..summary(b"/upload")
        };
        let cut_short = json(&AccessLine::of(&exchange));
        assert_eq!(cut_short["error"], PeerError::BodyTooShort.to_string());
        assert_eq!((&cut_short["target"], &cut_short["status"]), (&"/upload".into(), &0.into()));
        // The message of a panic may contain bytes of a request.
        let payload: Box<dyn std::any::Any + Send> = Box::new("a \"quote\"\n");
        let error = HandlerError::Panic(payload.into());
        other.error = Some(ResponseError::Handler(&error));
        assert_eq!(json(&other)["error"], "panic: a \"quote\"\\x0a");
    }

    #[test]
    fn requests_cannot_forge_lines() {
        let agent = b"\"\n127.0.0.1 - - \x1b[2J\x9b\x7f\\x0a";
        let text = compose(Format::Combined, &line(b"/", Some(agent)));
        assert!(text.ends_with("\"\\\"\\x0a127.0.0.1 - - \\x1b[2J\\x9b\\x7f\\\\x0a\"\n"), "{text}");
    }

    #[test]
    fn long_fields_are_truncated() {
        let long = &vec![0xff; 100_000][..];
        for (format, fields) in [(Format::Combined, 4), (Format::Json, 5)] {
            let mut all = line(long, Some(long));
            let request = &mut all.request.as_mut().unwrap().1;
            request.method = long;
            (request.referer, request.client_id) = (Some(long), Some(long));
            assert_eq!(compose(format, &all).matches("...").count(), fields);
        }
    }

    proptest! {
        #[test]
        fn a_line_is_one_line(target: Vec<u8>, agent: Vec<u8>) {
            for format in [Format::Combined, Format::Json] {
                let text = compose(format, &line(&target, Some(&agent)));
                let (body, end) = text.split_at(text.len() - 1);
                prop_assert_eq!(end, "\n");
                prop_assert!(body.bytes().all(|b| matches!(b, b' '..=b'~')));
            }
            let text = compose(Format::Json, &line(&target, Some(&agent)));
            prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
        }
    }
}
