//! The position of the fault in a malformed message, for displaying it.
//!
//! The parser only reports the kind of fault, because the position would cost time in each parse.
//! This module examines the bytes a second time.

use crate::errors::PeerError;
use crate::head::{is_tchar, is_text};
use crate::side::Side;
use crate::target;

use super::fields::{self, Piece};
use super::parse;
use super::{FIELDS_LEN_MAX, HEAD_SIZE_MAX, METHOD_SIZE_MAX, TARGET_SIZE_MAX};

/// The position of the fault in `message`, received by role `S`: the bytes that
/// [`crate::Connection::poll_event`] left at the front of its input with this error.
///
/// It is the position of the first invalid byte, of the invalid value, or of missing bytes. In the
/// framing of a body it is 0. It is at most the length of the message. It is the fault for a strict
/// connection, whatever [`super::Leniency`] the receiver has.
pub fn fault_position<S: Side>(message: &[u8], error: PeerError) -> usize {
    let at = match error {
        PeerError::HeadTooLarge => HEAD_SIZE_MAX,
        PeerError::MethodTooLong => METHOD_SIZE_MAX,
        PeerError::TargetTooLong => word(message, 1) + TARGET_SIZE_MAX,
        PeerError::BadStartLine if S::SERVER => request_line(message),
        PeerError::BadStartLine => status_line(message),
        PeerError::BadTarget => bad_target(message),
        PeerError::BadVersion => last_word(message),
        PeerError::BadField | PeerError::TooManyFields => bad_field(message),
        PeerError::BadHost => value(message, b"host"),
        PeerError::BadLength => value(message, b"content-length"),
        PeerError::BadTransferEncoding | PeerError::UnknownTransferCoding => {
            value(message, b"transfer-encoding")
        }
        PeerError::UnknownExpectation => value(message, b"expect"),
        PeerError::UnexpectedEof => message.len(),
        _ => 0,
    };
    at.min(message.len())
}

/// How long the start line is, without its end.
fn line_len(message: &[u8]) -> usize {
    let end = memchr::memchr(b'\n', message).unwrap_or(message.len());
    if message[..end].ends_with(b"\r") { end - 1 } else { end }
}

/// Where the word begins that `blanks` blanks of the start line precede.
fn word(message: &[u8], blanks: usize) -> usize {
    let line = &message[..line_len(message)];
    let mut all = memchr::memchr_iter(b' ', line);
    all.nth(blanks - 1).map_or(line.len(), |blank| blank + 1)
}

/// Where the last word of the start line begins.
fn last_word(message: &[u8]) -> usize {
    let line = &message[..line_len(message)];
    memchr::memrchr(b' ', line).map_or(0, |blank| blank + 1)
}

/// Of a method the first byte that none has, otherwise the version, or what follows it, if that is
/// what is wrong.
fn request_line(message: &[u8]) -> usize {
    let method = message.iter().take_while(|byte| is_tchar(**byte)).count();
    if method == 0 || message.get(method) != Some(&b' ') {
        return method;
    }
    let (last, end) = (last_word(message), line_len(message));
    let is_version = parse::version(&message[last..end]).is_ok();
    if is_version { end } else { last.max(method + 1) }
}

/// The version, the status, or the first byte that no reason has.
fn status_line(message: &[u8]) -> usize {
    let status = word(message, 1);
    let version = message[..status].trim_ascii_end();
    if parse::version(version).is_err() {
        return 0;
    }
    let digits = message[status..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 3 { bad_text(message) } else { status }
}

/// The first byte that no text has.
fn bad_text(message: &[u8]) -> usize {
    message.iter().position(|byte| !is_text(*byte)).unwrap_or(message.len())
}

/// The first byte with which the target is none; all of it, if its bytes are in order.
fn bad_target(message: &[u8]) -> usize {
    let (from, to) = (word(message, 1), last_word(message));
    let target = message.get(from..to.saturating_sub(1)).unwrap_or_default();
    // What can still become a target: at its end an escape may have begun.
    let may_go_on = |len: usize| {
        let ends: [&[u8]; 3] = [b"", b"0", b"20"];
        ends.iter().any(|end| target::is_target(&[&target[..len], end].concat()))
    };
    let (mut fits, mut fails) = (0, target.len() + 1);
    while fails - fits > 1 {
        let middle = usize::midpoint(fits, fails);
        *(if may_go_on(middle) { &mut fits } else { &mut fails }) = middle;
    }
    from + if fails > target.len() { 0 } else { fits }
}

/// The first byte with which a field line is none; the first line beyond the limit, if all are
/// in order.
fn bad_field(message: &[u8]) -> usize {
    let mut at = memchr::memchr(b'\n', message).map_or(message.len(), |end| end + 1);
    if at > 1 && message.get(at - 2) != Some(&b'\r') {
        return at - 1; // the start line
    }
    for _ in 0..FIELDS_LEN_MAX {
        match fields::piece(message, at) {
            Piece::Line(line) => at = line.next,
            Piece::End(_) => return at,
            Piece::Bad => return at + bad_line(&message[at..]),
        }
    }
    at
}

/// The first byte with which a field line is none.
fn bad_line(line: &[u8]) -> usize {
    let name = line.iter().take_while(|byte| is_tchar(**byte)).count();
    if name == 0 || line.get(name) != Some(&b':') {
        return name;
    }
    let text = line[name..].iter().take_while(|byte| is_text(**byte)).count();
    name + text
}

/// Where the last value of a field begins; the end of the head, if there is no such field.
fn value(message: &[u8], name: &[u8]) -> usize {
    let mut at = memchr::memchr(b'\n', message).map_or(message.len(), |end| end + 1);
    let mut found = None;
    while let Piece::Line(line) = fields::piece(message, at) {
        if line.name.eq_ignore_ascii_case(name) {
            found = Some(line.value_at);
        }
        at = line.next;
    }
    found.unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::connection::Connection;
    use crate::event::Server;
    use crate::h1::{H1, H1Client, H1Server};
    use crate::head::{Headers, Request, Scratch};
    use crate::input::Input;
    use crate::{BodyLen, UsageError};

    /// What is wrong with `bytes`, and where.
    fn fault<S: Side>(connection: &mut H1<S>, bytes: &[u8]) -> Option<(PeerError, usize)> {
        let mut block = bytes::BytesMut::from(bytes);
        let mut input = Input::all(&mut block, false);
        let error = loop {
            match connection.poll_event(&mut input, &mut Scratch::default()) {
                Ok(Some(_)) if !input.is_empty() => {}
                Ok(_) => return None,
                Err(error) => break error,
            }
        };
        let at = bytes.len() - input.len() + fault_position::<S>(input.bytes(), error);
        let mut scratch = Scratch::default();
        let again = connection.poll_event(&mut input, &mut scratch);
        assert!(matches!(again, Ok(None)) && input.is_empty(), "it is dropped with the next call");
        Some((error, at))
    }

    /// A mark is in front of the expected byte.
    const REQUESTS: &[&str] = &[
        "GET / HTTP/1.1\r\nHost: a\r\nA^@ b: c\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nFoo^ : bar\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nFoo: b^\u{1}r\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n^ folded\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nnothing^\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a^\n\r\n",
        "GET / HTTP/1.1^\nHost: a\r\n\r\n",
        "G^@T / HTTP/1.1\r\n\r\n",
        "^\u{16}\u{3}\u{1}",
        "^ GET / HTTP/1.1\r\n\r\n",
        "GET / ^HTTP/x\r\nHost: a\r\n\r\n",
        "GET / ^HTTP/2.0\r\nHost: a\r\n\r\n",
        "GET /a^#b HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a%20^\\b HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a%^zz HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET ^a HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: ^b\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\r\n^\r\n",
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: ^x\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: ^gzip\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: a\r\nExpect: ^more\r\nContent-Length: 1\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n^g\r\n",
    ];

    const RESPONSES: &[&str] = &[
        "HTTP/1.1 200 OK\r\nFoo^ : bar\r\n\r\n",
        "HTTP/1.1 ^2x0 OK\r\n\r\n",
        "HTTP/1.1 200 O^\u{1}K\r\n\r\n",
        "^220 mail\r\n",
        "^\u{16}\u{3}\u{1}",
    ];

    fn connection_with_request() -> Result<H1Client, UsageError> {
        let mut client = H1Client::default();
        let stream = client.open().expect("it is idle");
        client.send_head(stream, Request::new(b"GET", b"/", Headers::EMPTY), BodyLen::Empty)?;
        client.send_end(stream, Headers::EMPTY)?;
        let queued = client.unsent(crate::StreamId(0));
        client.handle_sent(queued);
        Ok(client)
    }

    #[test]
    fn the_fault_is_found_where_it_lies() {
        for (text, is_request) in
            REQUESTS.iter().map(|it| (it, true)).chain(RESPONSES.iter().map(|it| (it, false)))
        {
            let at = text.find('^').unwrap();
            let bytes = text.replacen('^', "", 1).into_bytes();
            let found = match is_request {
                true => fault(&mut H1Server::default(), &bytes),
                false => fault(&mut connection_with_request().unwrap(), &bytes),
            };
            let (error, found) = found.unwrap_or_else(|| panic!("{text:?} is in order"));
            assert_eq!(found, at, "{error} in {text:?}");
        }
    }

    #[test]
    fn limits_are_where_they_say() {
        let target = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(TARGET_SIZE_MAX));
        let fields = "A: b\r\n".repeat(FIELDS_LEN_MAX + 1);
        let many = format!("GET / HTTP/1.1\r\n{fields}\r\n");
        let long = format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(HEAD_SIZE_MAX));
        let table = [
            (target, PeerError::TargetTooLong, 4 + TARGET_SIZE_MAX),
            (many, PeerError::TooManyFields, 16 + 6 * FIELDS_LEN_MAX),
            (long, PeerError::HeadTooLarge, HEAD_SIZE_MAX),
            ("M".repeat(40), PeerError::MethodTooLong, METHOD_SIZE_MAX),
        ];
        for (text, error, at) in table {
            let found = fault(&mut H1Server::default(), text.as_bytes());
            let found = found.map(|(error, at)| (error.to_string(), at));
            assert_eq!(found, Some((error.to_string(), at)));
        }
    }

    proptest! {
        #[test]
        fn it_lies_within_the_message(
            bytes in prop::collection::vec(any::<u8>(), 0..64),
            head in prop::bool::ANY,
        ) {
            let mut all = if head { b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec() } else { Vec::new() };
            all.extend(bytes);
            for error in [
                PeerError::BadStartLine,
                PeerError::BadTarget,
                PeerError::BadVersion,
                PeerError::BadField,
                PeerError::BadHost,
                PeerError::TargetTooLong,
                PeerError::BadChunk,
            ] {
                prop_assert!(fault_position::<Server>(&all, error) <= all.len());
            }
            if let Some((_, at)) = fault(&mut H1Server::default(), &all) {
                prop_assert!(at <= all.len());
            }
        }
    }
}
