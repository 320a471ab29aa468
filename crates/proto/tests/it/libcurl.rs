//! Responses as libcurl 7.88.1 reads them: a table that was recorded with that library.
//!
//! ```text
//! # two lengths that differ                     the name
//! http09                                        HTTP/0.9 is allowed; by default it is not
//! request HEAD                                  the method; GET by default
//! > HTTP/1.1 200 OK\r\nContent-Length: 3\r\n    what arrives before the connection ends
//! libcurl 18 200 4 "abc"                        its result code, the status, the number of header
//!                                               lines that it delivered, and the body
//! # transfer closed with 1 bytes remaining      its message
//! ```

use bytes::BytesMut;
use fulmar_proto::h1::{H1Client, Leniency, ResponseProfile, StatusAliases};
use fulmar_proto::{
    BodyLen, Connection, Event, Headers, Input, PeerError, Request, Scratch, UsageError,
};

use crate::common::{escape, unescape};

struct LibcurlCase {
    name: String,
    method: String,
    leniency: Leniency,
    input: Vec<u8>,
    expected: String,
}

fn table() -> Vec<LibcurlCase> {
    let text = include_str!("../libcurl/responses.txt");
    text.split("\n\n").filter(|block| !block.trim().is_empty()).map(case).collect()
}

fn case(block: &str) -> LibcurlCase {
    let mut lines = block.lines().filter(|line| !line.is_empty());
    let name = lines.next().and_then(|line| line.strip_prefix("# ")).expect("a name");
    let mut case = LibcurlCase {
        name: name.to_owned(),
        method: "GET".to_owned(),
        leniency: Leniency::strict(),
        input: Vec::new(),
        expected: String::new(),
    };
    for line in lines {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("http09", _) => case.leniency = Leniency::HTTP_09,
            ("request", method) => case.method = method.to_owned(),
            (">", bytes) => case.input.extend(unescape(bytes)),
            ("libcurl", outcome) => case.expected = outcome.to_owned(),
            ("#", _) => {}
            (other, _) => panic!("{other:?} is no key"),
        }
    }
    case
}

impl LibcurlCase {
    fn connection(&self) -> Result<H1Client, UsageError> {
        let mut connection = H1Client::default();
        connection.set_leniency(self.leniency);
        connection.set_profile(ResponseProfile::Libcurl);
        let stream = connection.open().expect("it is idle");
        let request = Request::new(self.method.as_bytes(), b"/", Headers::EMPTY);
        connection.send_head(stream, request, BodyLen::Empty)?;
        connection.send_end(stream, Headers::EMPTY)?;
        let queued = connection.unsent(stream);
        connection.handle_sent(queued);
        Ok(connection)
    }

    /// What comes of the case when it arrives in pieces of `size` bytes at most.
    fn run(&self, size: usize) -> String {
        let mut connection = self.connection().expect("a request");
        let mut outcome = LibcurlOutcome::default();
        let (mut block, mut scratch) = (BytesMut::new(), Scratch::default());
        let pieces: Vec<&[u8]> = self.input.chunks(size).collect();
        let empty: &[u8] = b"";
        let end = if size < self.input.len() {
            Some(&empty)
        } else {
            pieces.is_empty().then_some(&empty)
        };
        let count = pieces.len() + usize::from(end.is_some());
        for (at, piece) in pieces.iter().chain(end).enumerate() {
            block.extend_from_slice(piece);
            let mut input = Input::all(&mut block, at + 1 == count);
            while outcome.code.is_none() {
                match connection.poll_event(&mut input, &mut scratch) {
                    Ok(Some(event)) => outcome.note(&mut connection, &event),
                    Ok(None) => break,
                    Err(error) => {
                        outcome.fail(error, input.bytes(), connection.judged_len());
                        break;
                    }
                }
            }
            if outcome.code.is_some() {
                break;
            }
        }
        outcome.finish()
    }
}

/// What an application of libcurl sees.
#[derive(Default)]
struct LibcurlOutcome {
    code: Option<u32>,
    status: u16,
    lines: usize,
    body: Vec<u8>,
    has_head: bool,
}

impl LibcurlOutcome {
    fn note(&mut self, connection: &mut H1Client, event: &Event<'_, fulmar_proto::Client>) {
        match event {
            Event::Informational { head, .. } | Event::Head { head, .. } => {
                let received = head.headers.received().expect("a head of HTTP/1");
                self.lines += lines(received);
                self.has_head = matches!(event, Event::Head { .. });
                self.status = if received.is_empty() { self.status } else { head.status };
            }
            Event::Data { stream, bytes } => {
                connection.release(*stream, bytes.len());
                self.body.extend_from_slice(bytes);
            }
            Event::End { trailers, .. } => {
                // The empty line behind trailers is not delivered.
                self.lines += trailers.received().map_or(0, |section| lines(section) - 1);
                self.code = Some(0);
            }
            Event::Writable { .. } | Event::Upgraded { .. } | Event::Reset { .. } => {
                panic!("{event:?}");
            }
        }
    }

    fn fail(&mut self, error: PeerError, message: &[u8], judged: usize) {
        if !self.has_head {
            self.lines += lines(&message[..judged]);
            if let Some(status) = message.get(9..12).and_then(|text| std::str::from_utf8(text).ok())
                && (judged > 0 || error == PeerError::NulInHead)
            {
                self.status = status.parse().expect("a status");
            }
        }
        self.code = Some(match error {
            PeerError::BadStartLine
            | PeerError::OnlyHttp2
            | PeerError::OnlyTls
            | PeerError::BadVersion
            | PeerError::BadStatus => 1,
            PeerError::NulInHead | PeerError::MissingColon | PeerError::BadLength => 8,
            PeerError::UnexpectedEof if self.has_head => 18,
            PeerError::UnexpectedEof => 52,
            PeerError::LineTooLong => 27,
            PeerError::BadField | PeerError::BadTrailer => 43,
            PeerError::BadChunk
            | PeerError::MissingChunkSize
            | PeerError::LongChunkSize
            | PeerError::HeadTooLarge => 56,
            other => panic!("{other:?}"),
        });
    }

    fn finish(self) -> String {
        let Self { code, status, lines, body, .. } = self;
        format!("{} {status} {lines} \"{}\"", code.expect("an end"), escape(&body))
    }
}

fn lines(bytes: &[u8]) -> usize {
    bytes.split_inclusive(|byte| *byte == b'\n').count()
}

#[test]
fn responses_are_read_as_libcurl_reads_them() {
    let table = table();
    assert!(table.len() > 120, "only {} cases were found", table.len());
    let differs = |case: &&LibcurlCase| case.run(usize::MAX) != case.expected;
    let wrong: Vec<String> = table
        .iter()
        .filter(differs)
        .map(|case| {
            format!("# {}: {} instead of {}", case.name, case.run(usize::MAX), case.expected)
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), table.len(), wrong.join("\n"));
}

#[test]
fn any_split_is_read_in_the_same_way() {
    for case in table() {
        let sizes: &[usize] = if case.input.len() < 2000 { &[1, 2, 3, 7, 19] } else { &[4999] };
        for size in sizes {
            assert_eq!(case.run(*size), case.expected, "# {}, in pieces of {size}", case.name);
        }
    }
}

/// The profile replaces the leniency, and the leniency the profile.
#[test]
fn other_connections_keep_the_grammar() {
    let mut connection = H1Client::default();
    connection.set_profile(ResponseProfile::Libcurl);
    connection.set_profile(ResponseProfile::Grammar);
    let stream = connection.open().expect("it is idle");
    let request = Request::new(b"GET", b"/", Headers::EMPTY);
    connection.send_head(stream, request, BodyLen::Empty).expect("a head");
    connection.send_end(stream, Headers::EMPTY).expect("the end");
    let queued = connection.unsent(stream);
    connection.handle_sent(queued);
    let mut block = BytesMut::from(&b"HTTP/1.1 200 OK\nContent-Length: 0\n\n"[..]);
    let mut input = Input::all(&mut block, false);
    let error = connection.poll_event(&mut input, &mut Scratch::default()).map(|_| ());
    assert_eq!(error, Err(PeerError::BadStartLine));
}

/// `CURLOPT_IGNORE_CONTENT_LENGTH`. Recorded from libcurl 7.88.1.
#[test]
fn an_ignored_length_is_not_judged_and_ends_no_body() {
    for (method, input, expected) in [
        ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello", "0 200 3 \"hello\""),
        ("GET", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nhello", "0 200 3 \"hello\""),
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "0 200 3 \"\""),
        ("GET", "HTTP/1.1 204 OK\r\nContent-Length: 2\r\n\r\n", "0 204 3 \"\""),
    ] {
        let case = LibcurlCase {
            name: input.to_owned(),
            method: method.to_owned(),
            leniency: Leniency::IGNORED_LENGTH,
            input: input.into(),
            expected: expected.to_owned(),
        };
        for size in [usize::MAX, 1] {
            assert_eq!(case.run(size), case.expected, "{method}: {input}");
        }
    }
}

/// A body may have more trailer fields than a head may have fields of the grammar.
#[test]
fn trailers_are_limited_by_their_size_only() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
    let case = LibcurlCase {
        name: String::new(),
        method: "GET".to_owned(),
        leniency: Leniency::strict(),
        input: format!("{head}{}\r\n", "A: b\r\n".repeat(1000)).into(),
        expected: "0 200 1003 \"\"".to_owned(),
    };
    assert_eq!(case.run(usize::MAX), case.expected);
}

/// The status, the body, and true if the response was complete, of a response that arrives in
/// pieces of `size` bytes.
fn read(mut connection: H1Client, input: &[u8], size: usize) -> (u16, Vec<u8>, bool) {
    let request = Request::new(b"GET", b"/", Headers::EMPTY);
    let stream = connection.open().expect("it is idle");
    connection.send_head(stream, request, BodyLen::Empty).expect("a request");
    connection.send_end(stream, Headers::EMPTY).expect("a request");
    let queued = connection.unsent(stream);
    connection.handle_sent(queued);
    let (mut block, mut scratch) = (BytesMut::new(), Scratch::default());
    let (mut status, mut body, mut is_complete) = (0, Vec::new(), false);
    for piece in input.chunks(size) {
        block.extend_from_slice(piece);
        let mut input = Input::all(&mut block, false);
        while let Some(event) = connection.poll_event(&mut input, &mut scratch).expect("sound") {
            match event {
                Event::Head { head, .. } => status = head.status,
                Event::Data { bytes, .. } => body.extend_from_slice(&bytes),
                Event::End { trailers, .. } => {
                    assert!(trailers.iter().next().is_none());
                    is_complete = true;
                }
                _ => {}
            }
        }
    }
    (status, body, is_complete)
}

#[test]
fn raw_chunks_are_delivered_up_to_the_end_of_the_body() {
    let body = b"3 ; a=b\r\nabc\r\n2\nde\r\n0\r\nx: y\r\n\r\n";
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let input = [&head[..], body].concat();
    for size in 1..=input.len() {
        let mut connection = H1Client::default();
        connection.set_leniency(Leniency::RAW_CHUNKS);
        connection.set_profile(ResponseProfile::Libcurl);
        assert_eq!(read(connection, &input, size), (200, body.to_vec(), true), "{size}");
    }
}

/// As CURLOPT_HTTP200ALIASES(3): the line has status 200, whatever follows.
#[test]
fn aliases_are_status_lines() {
    let aliases = StatusAliases::new(vec![b"icy ".to_vec(), b"XYZ 404".to_vec()]);
    for line in ["ICY 200 OK\r\n", "ICY 404\n", "xyz 404 Where\n", "HTTP/1.0 200 OK\r\n"] {
        let input = format!("{line}Content-Length: 3\r\n\r\nabc");
        for size in 1..=input.len() {
            let mut connection = H1Client::default();
            connection.set_profile(ResponseProfile::Libcurl);
            connection.set_status_aliases(aliases.clone());
            let read = read(connection, input.as_bytes(), size);
            assert_eq!(read, (200, b"abc".to_vec(), true), "{line:?} {size}");
        }
    }
}
