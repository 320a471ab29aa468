//! Cases as data, and a driver without sockets that runs them.
//!
//! A case is a block of lines; blocks are set apart by blank lines:
//!
//! ```text
//! # row 2: two lengths (RFC 9112 §6.3)       its name
//! server                                     the receiver: `server`, or `client GET HEAD ..`
//! answer end 200 exact 2 "ok"                server: when and how it answers (this is the default)
//! lenient bare-lf chunk-blanks               the leniencies of the connection; none by default
//! refused BadField                           the error without them
//! > POST / HTTP/1.1\r\nHost: a\r\n           what arrives; lines are joined; \r \n \t \0 \\ \xNN,
//! > Content-Length: 5, 6\r\n\r\n             and {a*300} for three hundred times `a`
//! eof                                        and then the peer closes its side
//! error BadLength                            what must come of it, in order: events,
//! reply 400 close                            then what was sent (`reply`, or all of it: `sent`),
//! linger                                     then `open`, `linger`, `closed`, or `ended` (of two)
//! ```
#![allow(dead_code, reason = "each test uses a part of it")]

mod escapes;

pub(crate) use escapes::{escape, unescape};

use bytes::{Bytes, BytesMut};
use fulmar_proto::h1::H1Client;
use fulmar_proto::h1::H1Server;
use fulmar_proto::h1::Leniency;
use fulmar_proto::{
    BodyLen, Connection, Event, HeaderBuf, Headers, Input, PeerError, Request, Response, Scratch,
    Segment, StreamId, Version,
};

pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) role: CaseRole,
    pub(crate) answer: Vec<String>,
    pub(crate) input: Vec<u8>,
    pub(crate) eof: bool,
    pub(crate) leniency: Leniency,
    pub(crate) refused: Option<String>,
    pub(crate) expected: Vec<String>,
}

pub(crate) enum CaseRole {
    Server,
    Client(Vec<String>),
}

/// All cases of all files.
pub(crate) fn cases() -> Vec<Case> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder of cases")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    let texts = paths.iter().map(|path| std::fs::read_to_string(path).expect("a file of cases"));
    texts.flat_map(|text| text.split("\n\n").filter_map(case).collect::<Vec<_>>()).collect()
}

fn case(block: &str) -> Option<Case> {
    let mut lines = block.lines().filter(|line| !line.is_empty());
    let name = lines.next()?.strip_prefix("# ")?.to_owned();
    let mut case = Case {
        name,
        role: CaseRole::Server,
        answer: words("end 200 exact 2 \"ok\""),
        input: Vec::new(),
        eof: false,
        leniency: Leniency::strict(),
        refused: None,
        expected: Vec::new(),
    };
    let mut has_role = false;
    for line in lines {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("#", _) => {}
            ("server", _) => has_role = true,
            ("client", rest) => {
                has_role = true;
                case.role = CaseRole::Client(words(rest));
            }
            ("answer", rest) => case.answer = words(rest),
            (">", rest) => case.input.extend(unescape(rest)),
            ("eof", _) => case.eof = true,
            ("lenient", rest) => case.leniency = leniency(rest),
            ("refused", rest) => case.refused = Some(rest.to_owned()),
            _ => case.expected.push(line.to_owned()),
        }
    }
    has_role.then_some(case)
}

fn leniency(names: &str) -> Leniency {
    let one = |name| match name {
        "folded-fields" => Leniency::FOLDED_FIELDS,
        "bare-lf" => Leniency::BARE_LF,
        "chunk-blanks" => Leniency::CHUNK_BLANKS,
        "coding-over-length" => Leniency::CODING_OVER_LENGTH,
        "coding-in-http10" => Leniency::CODING_IN_HTTP10,
        "repeated-length" => Leniency::REPEATED_LENGTH,
        "http09" => Leniency::HTTP_09,
        "all" => EVERYTHING,
        other => panic!("{other:?} is no leniency"),
    };
    names.split(' ').map(one).fold(Leniency::strict(), Leniency::with)
}

/// Every leniency.
pub(crate) const EVERYTHING: Leniency = Leniency::lenient().with(Leniency::HTTP_09);

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

impl Case {
    /// What comes of the case when its input arrives cut at `cuts`, as lines.
    pub(crate) fn run(&self, cuts: &[usize]) -> Vec<String> {
        self.run_with(self.leniency, cuts)
    }

    /// As [`Case::run`], with another leniency.
    pub(crate) fn run_with(&self, leniency: Leniency, cuts: &[usize]) -> Vec<String> {
        let mut pieces = Vec::new();
        let mut start = 0;
        for cut in cuts {
            pieces.push(&self.input[start..*cut]);
            start = *cut;
        }
        pieces.push(&self.input[start..]);
        let raw = self.expected.iter().any(|line| line.starts_with("sent "));
        let (mut lines, sent, end) = match &self.role {
            CaseRole::Server => {
                let mut connection = H1Server::default();
                connection.set_leniency(leniency);
                drive(&mut connection, &pieces, self.eof, !cuts.is_empty(), |connection, event| {
                    self.serve(connection, event);
                })
            }
            CaseRole::Client(requests) => {
                let mut connection = H1Client::with_depth(8);
                connection.set_leniency(leniency);
                requests.iter().for_each(|what| ask(&mut connection, what));
                drive(&mut connection, &pieces, self.eof, !cuts.is_empty(), |_, _| ())
            }
        };
        match &self.role {
            _ if raw => lines.push(format!("sent {}", escape(&sent))),
            CaseRole::Server => lines.extend(replies(&sent)),
            CaseRole::Client(_) => {}
        }
        let either = self.expected.last().is_some_and(|line| line == "ended");
        lines.push(if either && end != "open" { "ended" } else { end }.to_owned());
        lines
    }

    /// Responds as `answer` specifies.
    fn serve(&self, connection: &mut H1Server, event: &Event<'_, fulmar_proto::Server>) {
        let stream = event.stream();
        let answer: Vec<&str> = self.answer.iter().map(String::as_str).collect();
        match (event, &answer[..]) {
            (Event::Head { .. }, ["head", rest @ ..]) | (Event::End { .. }, ["end", rest @ ..]) => {
                answer_with(connection, stream, rest);
            }
            (Event::Head { head, .. }, ["continue", ..]) if head.expects_continue => {
                let head = Response::new(100, Headers::EMPTY);
                connection.send_head(stream, head, BodyLen::Empty).expect("a 100");
            }
            (Event::End { .. }, ["continue", rest @ ..]) => {
                answer_with(connection, stream, rest);
            }
            (Event::Data { bytes, .. }, ["end", .., "tunnel"]) => {
                let echo = Segment::Bytes(bytes.clone());
                let _ = connection.send_data(stream, echo);
            }
            _ => {}
        }
        if let Event::Data { bytes, .. } = event {
            connection.release(stream, bytes.len());
        }
    }
}

/// `[interim 103] 200 exact 2 "ok"`, `101 tunnel`; a second End, of a tunnel, is a FIN.
fn answer_with(connection: &mut H1Server, stream: StreamId, words: &[&str]) {
    let (status, rest) = words.split_first().expect("a status");
    if *status == "interim" {
        let head = Response::new(rest[0].parse().expect("a status"), Headers::EMPTY);
        connection.send_head(stream, head, BodyLen::Empty).expect("an interim response");
        return answer_with(connection, stream, &rest[1..]);
    }
    let mut headers = HeaderBuf::new();
    if *status == "101" {
        headers.push("Upgrade", b"websocket").expect("a field");
    }
    let status = status.parse().expect("a status");
    let (len, body) = match rest {
        ["tunnel"] => (BodyLen::Empty, None),
        ["empty"] => (BodyLen::Empty, Some("")),
        ["exact", n, body] => (BodyLen::Exact(n.parse().expect("a length")), Some(*body)),
        ["unknown", body] => (BodyLen::Unknown, Some(*body)),
        other => panic!("{other:?} is no answer"),
    };
    match connection.send_head(stream, Response::new(status, headers.as_headers()), len) {
        Ok(()) => {}
        Err(_) if body.is_none() => {
            connection.send_end(stream, Headers::EMPTY).expect("the FIN of a tunnel");
            return;
        }
        Err(error) => panic!("{error}"),
    }
    let Some(body) = body else { return };
    let body = Bytes::copy_from_slice(body.trim_matches('"').as_bytes());
    connection.send_data(stream, body.into()).expect("the body");
    connection.send_end(stream, Headers::EMPTY).expect("the end");
}

/// Sends one request, of which `what` is the method or the kind.
fn ask(connection: &mut H1Client, what: &str) {
    let stream = connection.open().expect("a vacancy");
    if what == "OPENED" {
        return;
    }
    let mut headers = HeaderBuf::new();
    headers.push("Host", b"a").expect("a field");
    let (method, target, len) = match what {
        "UPLOAD" => (&b"POST"[..], &b"/"[..], BodyLen::Exact(10)),
        "CONNECT" => (&b"CONNECT"[..], &b"a:80"[..], BodyLen::Empty),
        "UPGRADE" => {
            headers.push("Upgrade", b"websocket").expect("a field");
            (&b"GET"[..], &b"/"[..], BodyLen::Empty)
        }
        method => (method.as_bytes(), &b"/"[..], BodyLen::Empty),
    };
    let request = Request::new(method, target, headers.as_headers());
    connection.send_head(stream, request, len).expect("a request");
    if what != "UPLOAD" {
        connection.send_end(stream, Headers::EMPTY).expect("the end");
    }
}

/// Feeds the pieces, sends whatever is queued after each, and notes what happens.
fn drive<C: Connection>(
    connection: &mut C,
    pieces: &[&[u8]],
    eof: bool,
    eof_apart: bool,
    mut app: impl FnMut(&mut C, &Event<'_, C::Role>),
) -> (Vec<String>, Vec<u8>, &'static str)
where
    for<'a> Event<'a, C::Role>: Show,
{
    let (mut lines, mut sent) = (Log::default(), Vec::new());
    let mut block = BytesMut::new();
    let mut scratch = Scratch::default();
    flush(connection, &mut sent);
    let apart: &[u8] = b"";
    let extra = (eof && eof_apart).then_some(&apart);
    let count = pieces.len() + extra.iter().len();
    for (i, piece) in pieces.iter().chain(extra).enumerate() {
        block.extend_from_slice(piece);
        let mut input = Input::all(&mut block, eof && i + 1 == count);
        loop {
            match connection.poll_event(&mut input, &mut scratch) {
                Ok(Some(event)) => {
                    event.show(&mut lines);
                    app(connection, &event);
                }
                Err(error) => lines.error(error),
                Ok(None) if flush(connection, &mut sent) => {}
                Ok(None) => break,
            }
        }
        if connection.io_state().closed {
            block.clear();
            break;
        }
    }
    assert!(block.len() <= fulmar_proto::h1::HEAD_SIZE_MAX, "unread input is bounded");
    let end = match (connection.io_state().closed, connection.io_state().finished) {
        (true, _) => "closed",
        (false, true) => "linger",
        (false, false) => "open",
    };
    (lines.finish(), sent, end)
}

/// Sends all that is queued; false if that was nothing.
fn flush<C: Connection>(connection: &mut C, sent: &mut Vec<u8>) -> bool {
    let before = sent.len();
    if let Some(transmit) = connection.poll_transmit() {
        sent.extend_from_slice(transmit.inline);
        for segment in transmit.segments {
            let Segment::Bytes(bytes) = segment else { panic!("no case sends files") };
            sent.extend_from_slice(bytes);
        }
    }
    connection.handle_sent((sent.len() - before) as u64);
    sent.len() > before
}

/// Events as lines; data that arrive in pieces are one line.
#[derive(Default)]
pub(crate) struct Log {
    lines: Vec<String>,
    data: Vec<u8>,
}

impl Log {
    fn push(&mut self, line: String) {
        if !self.data.is_empty() {
            let data = std::mem::take(&mut self.data);
            self.lines.push(format!("data \"{}\"", escape(&data)));
        }
        self.lines.push(line);
    }

    fn error(&mut self, error: PeerError) {
        self.push(format!("error {error:?}"));
    }

    fn finish(mut self) -> Vec<String> {
        self.push(String::new());
        self.lines.pop();
        self.lines
    }
}

pub(crate) trait Show {
    fn show(&self, log: &mut Log);
}

impl Show for Event<'_, fulmar_proto::Server> {
    fn show(&self, log: &mut Log) {
        if let Event::Head { head, len, .. } = self {
            let (method, target) = (escape(head.method), escape(head.target));
            let expects = if head.expects_continue { " continue" } else { "" };
            log.push(format!(
                "head {method} {target} {}{expects}{}",
                length(*len),
                old(head.version)
            ));
        } else {
            show(self, log);
        }
    }
}

impl Show for Event<'_, fulmar_proto::Client> {
    fn show(&self, log: &mut Log) {
        if let Event::Head { head, len, .. } = self {
            log.push(format!("head {} {}{}", head.status, length(*len), old(head.version)));
        } else {
            show(self, log);
        }
    }
}

fn show<R: fulmar_proto::Role>(event: &Event<'_, R>, log: &mut Log) {
    match event {
        Event::Head { .. } => unreachable!("shown by role"),
        Event::Informational { head, .. } => log.push(format!("info {}", head.status)),
        Event::Data { bytes, .. } => log.data.extend_from_slice(bytes),
        Event::End { trailers, .. } => {
            let field =
                |(name, value): (&[u8], &[u8])| format!(" {}: {}", escape(name), escape(value));
            log.push(format!("end{}", trailers.iter().map(field).collect::<String>()));
        }
        Event::Writable { .. } => log.push("writable".to_owned()),
        Event::Reset { .. } => log.push("reset".to_owned()),
        Event::Upgraded { .. } => log.push("upgraded".to_owned()),
    }
}

fn length(len: BodyLen) -> String {
    match len {
        BodyLen::Empty => "empty".to_owned(),
        BodyLen::Exact(n) => format!("exact {n}"),
        BodyLen::Unknown => "unknown".to_owned(),
    }
}

fn old(version: Version) -> &'static str {
    match version {
        Version::Http09 => " 0.9",
        Version::Http10 => " 1.0",
        Version::Http11 => "",
        Version::Http2 => unreachable!("HTTP/1 has no such version"),
    }
}

/// `reply 400 close` for every response in `sent`.
fn replies(sent: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(sent);
    let of = |reply: &str| {
        let close = if reply.contains("Connection: close\r\n") { " close" } else { "" };
        format!("reply {}{close}", &reply[..3])
    };
    text.split("HTTP/1.1 ").skip(1).map(of).collect()
}
