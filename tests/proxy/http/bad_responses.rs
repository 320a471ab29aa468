//! Invalid and incomplete responses of servers: the client gets 502 or a truncated body, the log
//! names the server as the cause, and the connection is not reused.

use std::io::Write;

use fulmar_tests::loops::client;
use fulmar_tests::scripted::{Scripted, ScriptedRequest, ServerStep, answer, ok};
use fulmar_tests::test_proxy::{TestProxy, is_whole};

use crate::http::fields::{AMBIGUOUS_LENGTHS, BAD_FIELDS, UNKNOWN_CODINGS};

/// The expected result for the server's bytes to `GET /bad`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedResult {
    /// The client gets 502, and the log has `PH--`: the proxy has refused the response.
    Refused,
    /// The same with `SH--`: the server ended before its head did.
    Missing,
    /// `SD--`: the client sees that not all has come; perhaps nothing has.
    Cut,
    /// The client has this whole response; and the connection is not reused.
    Whole(&'static str),
}

use ExpectedResult::{Cut, Missing, Refused, Whole};

fn table(frontend: &str, origins: Vec<Scripted>) -> TestProxy {
    let text = format!(
        "global\n  log stdout format raw local0\n\
         defaults\n  mode http\n  log global\n  option httplog\n  timeout connect 5s\n  \
         timeout client 5s\n  timeout server 5s\n\
         frontend fe\n  bind 127.0.0.1:0\n  default_backend be\n{frontend}\n\
         backend be\n  http-reuse always\n  server s ORIGIN0\n"
    );
    TestProxy::new(&text, origins)
}

/// Sends these bytes to every request of `/bad`, and a good response to everything else.
fn saying(bytes: &[u8], last: Option<ServerStep>) -> Scripted {
    let steps: Vec<ServerStep> =
        [ServerStep::Send(bytes.to_vec())].into_iter().chain(last).collect();
    Scripted::new(move |heard: &ScriptedRequest| match heard.path() {
        "/bad" => steps.clone(),
        _ => ok(b"good"),
    })
}

/// The termination code in a line.
fn code(line: &str) -> &str {
    line.split(' ').nth(9).unwrap_or_default()
}

/// Sends `method /bad`, and checks the result; then checks that no byte of it reached the next
/// client.
fn check(method: &str, bytes: &[u8], last: Option<ServerStep>, fate: ExpectedResult) {
    let what = format!("{method} {:?} {last:?}", String::from_utf8_lossy(bytes));
    let mut table = table("", vec![saying(bytes, last)]);
    let (got, ended) =
        table.talk(format!("{method} /bad HTTP/1.1\r\nHost: h\r\n\r\n"), |got| match fate {
            Refused | Missing => got.starts_with(b"HTTP/1.1 502") && is_whole(got),
            Cut => false,
            Whole(answer) => got == answer.as_bytes(),
        });
    assert_eq!(ended, fate == Cut, "{what}: {}", String::from_utf8_lossy(&got));
    settle(table, fate, &what, &got);
}

/// Checks that the log names the cause; that truncation is visible; and that no other client
/// received any byte of it.
fn settle(mut table: TestProxy, fate: ExpectedResult, what: &str, got: &[u8]) {
    let got = String::from_utf8_lossy(got);
    let lines = std::rc::Rc::clone(&table.lines);
    table.turn_until(|_, origins| origins[0].open() == 0 && !lines.borrow().is_empty());
    let expected = match fate {
        Refused => "PH--",
        Missing => "SH--",
        Cut => "SD--",
        Whole(_) => "----",
    };
    assert_eq!(code(&table.log()[0]), expected, "{what}: {:?}", table.log());
    assert!(fate != Cut || got.is_empty() || !is_complete(&got), "{what}: {got}");
    table.reconnect();
    let next = table.send_request("GET /next HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(next.starts_with("HTTP/1.1 200") && next.ends_with("\r\n\r\ngood"), "{what}: {next}");
    assert_eq!(table.origins[0].accepted(), 2, "{what}");
    assert_eq!(table.origins[0].requests.len(), 2, "{what}: it is not asked again");
}

/// The server sends this only after the head has reached the client.
fn check_late(head: &str, body: &str, last: Option<ServerStep>) {
    let what = format!("{head:?}, then {body:?} {last:?}");
    let mut table = table("", vec![saying(head.as_bytes(), None)]);
    let request = "GET /bad HTTP/1.1\r\nHost: h\r\n\r\n";
    let (mut got, _) = table.talk(request, |got| got.ends_with(b"\r\n\r\n"));
    let steps = [ServerStep::Send(body.as_bytes().to_vec())];
    table.origins[0].act(0, steps.into_iter().chain(last));
    let (rest, ended) = table.talk("", |_| false);
    got.extend(rest);
    assert!(ended && got.starts_with(b"HTTP/1.1 200"), "{what}");
    settle(table, Cut, &what, &got);
}

/// By a reader of its own: a whole body by its length, or to its last chunk.
fn is_complete(got: &str) -> bool {
    let (head, mut body) = got.split_once("\r\n\r\n").expect("a head");
    let lower = head.to_ascii_lowercase();
    if let Some(len) = lower.lines().find_map(|line| line.strip_prefix("content-length: ")) {
        return body.len() >= len.parse().expect("a length");
    }
    assert!(lower.contains("transfer-encoding: chunked"), "its end is told: {head}");
    while let Some((size, rest)) = body.split_once("\r\n") {
        match usize::from_str_radix(size, 16).expect("a size of ours") {
            0 => return true,
            size if rest.len() < size + 2 => return false,
            size => body = &rest[size + 2..],
        }
    }
    false
}

/// Rows 1-8: ambiguous lengths and codings (RFC 9112 §6). Those that RFC 9112 §6.3 lets a client
/// repair are refused too: the next recipient may repair them otherwise.
#[test]
fn ambiguous_lengths_are_not_forwarded() {
    for fields in [AMBIGUOUS_LENGTHS, UNKNOWN_CODINGS].concat() {
        let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\nabc");
        check("GET", head.as_bytes(), None, Refused);
    }
    let old = b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    check("GET", old, None, Refused);
}

/// Rows 9, 10, 12, 13, 18: heads that are none, and heads that are too large.
#[test]
fn invalid_heads_are_not_forwarded() {
    for fields in BAD_FIELDS {
        check("GET", format!("HTTP/1.1 200 OK\r\n{fields}\r\n").as_bytes(), None, Refused);
    }
    for line in [
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 0200 OK",
        "HTTP/1.1 099 OK",
        "HTTP/1.1 abc OK",
        "HTTP/1.1  200 OK",
        "HTTP/1.1\t200 OK",
        "HTTP/1.1 200 a\0b",
        "HTTP/1.1 200 a\rb",
        "HTTP/2.0 200 OK",
        "HTTP/3.0 200 OK",
        "HTTP/1 200 OK",
        "http/1.1 200 OK",
        "ICY 200 OK",
        "\x15\x03\x01\x00\x02\x02\x46",
        "GET / HTTP/1.1",
        " HTTP/1.1 200 OK",
        "HTTP/1.1 200 OK\nX: y",
    ] {
        let head = format!("{line}\r\nContent-Length: 0\r\n\r\n");
        check("GET", head.as_bytes(), None, Refused);
    }
    let long = "x".repeat(40_000);
    for head in [
        format!("HTTP/1.1 200 {long}\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\nX: {long}\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\n{long}: x\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\nX: {long}"),
        format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(200)),
    ] {
        check("GET", head.as_bytes(), None, Refused);
    }
}

/// Rows 11, 14-17: chunks that are none (RFC 9112 §7.1). The head has gone to the client by then.
#[test]
fn a_broken_chunk_is_not_forwarded_as_the_end() {
    let extensions = format!("3;a={}\r\nabc\r\n0\r\n\r\n", "x".repeat(5_000));
    let many = format!("{}0\r\n\r\n", "1;abcdefgh\r\nx\r\n".repeat(1_000));
    let trailers = format!("0\r\nA: {}\r\n\r\n", "x".repeat(10_000));
    for body in [
        "3\r\nabc\r\nz\r\n",
        "3\r\nabcXX0\r\n\r\n",
        "3\r\nabc\n0\r\n\r\n",
        "3\nabc\r\n0\r\n\r\n",
        "3\rabc\r\n0\r\n\r\n",
        "3\r\nabc\r\n0\n\n",
        "3\r\nabc\r\n0\r\n\n",
        "3\r\nabc\r\n\r\n",
        "3\r\nabc\r\n0x3\r\nabc\r\n0\r\n\r\n",
        "0x3\r\nabc\r\n0\r\n\r\n",
        "-1\r\n",
        "+3\r\nabc\r\n0\r\n\r\n",
        "1_0\r\n",
        " 3\r\nabc\r\n0\r\n\r\n",
        "3 0\r\nabc\r\n0\r\n\r\n",
        "11111111111111111\r\n",
        "00000000000000003\r\nabc\r\n0\r\n\r\n",
        "fffffffffffffffff\r\n",
        "3;\r\nabc\r\n0\r\n\r\n",
        "3;a=\0\r\nabc\r\n0\r\n\r\n",
        "3;a\nb\r\nabc\r\n0\r\n\r\n",
        &extensions,
        &many,
        "3\r\nabc\r\n0\r\nX: y\r\n folded\r\n\r\n",
        "3\r\nabc\r\n0\r\nX : y\r\n\r\n",
        "3\r\nabc\r\n0\r\nX: a\0b\r\n\r\n",
        "3\r\nabc\r\n0\r\nContent-Length: 3\r\n\r\n",
        "3\r\nabc\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "3\r\nabc\r\n0\r\nHost: other\r\n\r\n",
        &trailers,
    ] {
        check("GET", format!("{CHUNKED}{body}").as_bytes(), None, Cut);
        check_late(CHUNKED, body, None);
    }
}

/// Rows 16 and 37: a server that closes or resets within a body has not sent all of it.
#[test]
fn a_short_body_is_not_forwarded_as_complete() {
    for last in [ServerStep::Close, ServerStep::Reset, ServerStep::Fin] {
        for body in ["", "3", "3\r\n", "3\r\nab", "3\r\nabc", "3\r\nabc\r\n", "3\r\nabc\r\n0\r\n"] {
            check("GET", format!("{CHUNKED}{body}").as_bytes(), Some(last.clone()), Cut);
            check_late(CHUNKED, body, Some(last.clone()));
        }
        let sized = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
        check("GET", format!("{sized}abc").as_bytes(), Some(last.clone()), Cut);
        check_late(sized, "abc", Some(last.clone()));
        for head in ["H", "HTTP/1.1 200 OK", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n"] {
            check("GET", head.as_bytes(), Some(last.clone()), Missing);
        }
        check("POST", b"", Some(last), Missing);
    }
}

/// Row 34: responses without a body have none, whatever their fields contain; the bytes that follow
/// belong to no response.
#[test]
fn bytes_behind_a_response_without_a_body_are_not_forwarded() {
    let junk = "junkHTTP/1.1 200 OK\r\n\r\n";
    for (method, head) in [
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"),
        ("HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n"),
    ] {
        check(method, format!("{head}{junk}").as_bytes(), None, Whole(head));
    }
}

/// Row 36: unsolicited interim responses, and those after the final one.
#[test]
fn interim_responses_that_make_no_sense_end() {
    let switching = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n";
    check("GET", switching.as_bytes(), None, Refused);
    check("GET", b"HTTP/1.1 101 Switching Protocols\r\n\r\n", None, Refused);
    let last = String::from_utf8(answer("200 OK", "", b"ok")).expect("text");
    let after = format!("{last}HTTP/1.1 103 Early Hints\r\n\r\n");
    let last: &'static str = last.leak();
    check("GET", after.as_bytes(), None, Whole(last));
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Row 35: a long body passes through pipes, and the bytes behind it are still detected before a
/// waiting request gets the connection.
#[test]
fn bytes_behind_a_long_body_are_not_forwarded() {
    let body = vec![b'x'; 1 << 20];
    let twice = [answer("200 OK", "", &body), answer("200 OK", "", b"poison")].concat();
    let mut origin = saying(&twice, None);
    origin.hasty = true;
    let text = "defaults\n  mode http\n  timeout client 5s\n  timeout server 5s\n  \
                option splice-response\n\
                frontend fe\n  bind 127.0.0.1:0\n  default_backend be\n\
                backend be\n  http-reuse always\n  server s ORIGIN0 maxconn 1\n";
    let mut table = TestProxy::new(text, vec![origin]);
    table.stream.write_all(b"GET /bad HTTP/1.1\r\nHost: h\r\n\r\n").expect("room");
    table.turn_until(|_, origins| origins[0].requests.len() == 1);
    let mut waiting = client(table.address);
    waiting.write_all(b"GET /next HTTP/1.1\r\nHost: h\r\n\r\n").expect("room");
    table.turn_until(|proxy, _| proxy.clients() == 2);
    let whole = twice.len() - answer("200 OK", "", b"poison").len();
    let (got, _) = table.talk("", |got| got.len() >= whole);
    assert_eq!(got.len(), whole);
    std::mem::swap(&mut table.stream, &mut waiting);
    let got = table.send_request("");
    assert!(got.ends_with("\r\n\r\ngood"), "{got}");
}
