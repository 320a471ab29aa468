//! Bad input from either side of the proxy: invalid requests reach no server, invalid responses
//! reach no client, and no byte of either is left on a connection that is reused.

use std::time::Duration;

use fulmar_tests::cases::{strict_requests, strict_responses};
use fulmar_tests::loops::print_case;
use fulmar_tests::scripted::{Scripted, ScriptedRequest, ServerStep, ok};
use fulmar_tests::test_proxy::TestProxy;

use crate::http::fields::{AMBIGUOUS_LENGTHS, BAD_FIELDS, UNKNOWN_CODINGS};

fn table(frontend: &str, backend: &str, origins: Vec<Scripted>) -> TestProxy {
    let servers: String =
        (0..origins.len()).map(|at| format!("  server s{at} ORIGIN{at}\n")).collect();
    let text = format!(
        "defaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n\
         frontend fe\n  bind 127.0.0.1:0\n  default_backend be\n{frontend}\n\
         backend be\n{backend}\n{servers}"
    );
    TestProxy::new(&text, origins)
}

/// Sends it, and returns the status and whether the connection ended.
fn refused(request: &[u8]) -> (String, bool, usize) {
    let mut table = table("", "", vec![Scripted::new(|_: &ScriptedRequest| ok(b"reached"))]);
    table.origins[0].hasty = true;
    let (got, ended) = table.talk(request, |_| false);
    let status = String::from_utf8_lossy(got.get(9..12).unwrap_or_default()).into_owned();
    (status, ended, table.origins[0].requests.len())
}

/// The head of a request, in which something bad replaces `{}`.
fn with(fields: &str) -> Vec<u8> {
    format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n").into_bytes()
}

/// Lengths and codings that two readers could read differently (RFC 9112 §6), and heads that are
/// none.
#[test]
fn ambiguous_heads_are_not_forwarded() {
    for fields in [AMBIGUOUS_LENGTHS, UNKNOWN_CODINGS, BAD_FIELDS].concat() {
        let (status, ended, heard) = refused(&with(fields));
        assert!(ended && heard == 0, "{fields:?}: {status}, {heard} forwarded");
        // An unknown coding may also get 501 (§6.1).
        let is_unknown = UNKNOWN_CODINGS.contains(&fields) && status == "501";
        assert!(status == "400" || is_unknown, "{fields:?}: {status}");
    }
    for fields in ["Host: other\r\n", "Bad Name: x\r\n"] {
        let (status, ended, heard) = refused(&with(fields));
        assert!(ended && heard == 0 && status == "400", "{fields:?}: {status}");
    }
    let (status, _, heard) =
        refused(b"POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert_eq!((&*status, heard), ("400", 0));
}

#[test]
fn bad_start_lines_and_targets_are_not_forwarded() {
    for (line, status) in [
        ("GET /a#b HTTP/1.1", "400"),
        ("GET /a b HTTP/1.1", "400"),
        ("GET /a\\b HTTP/1.1", "400"),
        ("GET /%00 HTTP/1.1", "400"),
        ("GET /a%0d%0a%00 HTTP/1.1", "400"),
        ("GET /\u{fffd} HTTP/1.1", "400"),
        ("GET  HTTP/1.1", "400"),
        ("GET example.org:80 HTTP/1.1", "400"),
        ("GET * HTTP/1.1", "400"),
        ("GET http://user@h/ HTTP/1.1", "400"),
        ("CONNECT / HTTP/1.1", "400"),
        ("GET / http/1.1", "400"),
        ("GET / HTTP/1", "400"),
        ("GET /", "400"),
        ("GET / HTTP/2.0", "505"),
        ("PRI * HTTP/2.0", "400"),
    ] {
        let (got, ended, heard) = refused(format!("{line}\r\nHost: h\r\n\r\n").as_bytes());
        assert!(ended && heard == 0, "{line:?}");
        assert!(got == status || (got == "505" || got == "400"), "{line:?}: {got}");
    }
    for request in [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], b"\0\0\0\0\r\n\r\n"] {
        let (_, ended, heard) = refused(request);
        assert!(ended && heard == 0);
    }
    for fields in ["", "Host: \r\n", "Host: a,b\r\n", "Host: u@h\r\n", "Host: h/x\r\n"] {
        let (status, _, heard) = refused(format!("GET / HTTP/1.1\r\n{fields}\r\n").as_bytes());
        assert_eq!((&*status, heard), ("400", 0), "{fields:?}");
    }
    let (status, _, heard) = refused(b"GET http://other/ HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!((&*status, heard), ("400", 0));
}

#[test]
fn oversized_heads_are_refused_with_little_memory() {
    let long = "x".repeat(40_000);
    for (request, status) in [
        (format!("GET /{long} HTTP/1.1\r\nHost: h\r\n\r\n"), "414"),
        (format!("GET / HTTP/1.1\r\nHost: h\r\nX: {long}\r\n\r\n"), "431"),
        (format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "a: b\r\n".repeat(200)), "431"),
        (format!("{} / HTTP/1.1\r\nHost: h\r\n\r\n", "M".repeat(100)), "501"),
    ] {
        let (got, ended, heard) = refused(request.as_bytes());
        assert!(ended && heard == 0 && got == status, "{got} for {status}");
    }
}

/// A body that is broken on its way ends its connection to the server too: that never takes it for
/// a whole one.
#[test]
fn a_broken_body_is_not_forwarded_as_complete() {
    for body in [
        "3\r\nabc\r\nz\r\n",
        "3\r\nabcXX",
        "3\nabc\r\n0\r\n\r\n",
        "0x3\r\nabc\r\n0\r\n\r\n",
        "-1\r\n",
        "11111111111111111\r\n",
        "3;a=\0\r\nabc\r\n0\r\n\r\n",
        "3\r\nabc\r\n0\r\nContent-Length: 3\r\n\r\n",
        "3\r\nabc\r\n0\r\nHost: other\r\n\r\n",
    ] {
        let mut table = table("", "", vec![Scripted::new(|_: &ScriptedRequest| ok(b"taken"))]);
        let request = with("Transfer-Encoding: chunked\r\n");
        let (got, ended) = table.talk([&request, body.as_bytes()].concat(), |_| false);
        assert!(
            ended && got.starts_with(b"HTTP/1.1 400"),
            "{body:?}: {}",
            String::from_utf8_lossy(&got)
        );
        table.turn_until(|_, origins| origins[0].open() == 0);
        assert_eq!(table.origins[0].requests.len(), 0, "{body:?}: taken for a whole one");
    }
}

#[test]
fn a_truncated_request_is_not_complete() {
    let mut table = table("", "", vec![Scripted::new(|_: &ScriptedRequest| ok(b"taken"))]);
    use std::io::Write;
    table.stream.write_all(&[&with("Content-Length: 9\r\n")[..], b"abc"].concat()).expect("room");
    table.turn_until(|_, origins| origins[0].open() == 1);
    table.stream.shutdown(std::net::Shutdown::Write).expect("a socket");
    let (_, ended) = table.talk("", |_| false);
    assert!(ended);
    table.turn_until(|proxy, origins| proxy.clients() == 0 && origins[0].open() == 0);
    assert_eq!(table.origins[0].requests.len(), 0);
}

/// The next request begins exactly where the one before ends.
#[test]
fn bytes_behind_a_request_are_another_request() {
    let mut table =
        table("", "", vec![Scripted::new(|heard: &ScriptedRequest| ok(heard.path().as_bytes()))]);
    let two = "GET /one HTTP/1.1\r\nHost: h\r\n\r\nGET /two HTTP/1.1\r\nHost: h\r\n\r\n";
    let (got, _) = table.talk(two, |got| got.ends_with(b"/two"));
    assert!(got.starts_with(b"HTTP/1.1 200"));
    let heard: Vec<&str> = table.origins[0].requests.iter().map(|it| it.path()).collect();
    assert_eq!(heard, ["/one", "/two"]);
}

/// Bytes after a response belong to no request: the next client must not get them.
#[test]
fn bytes_beyond_a_response_are_not_forwarded() {
    let bytes = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\
                 Content-Length: 6\r\n\r\npoison";
    let script = move |heard: &ScriptedRequest| match heard.connection {
        0 => vec![ServerStep::Send(bytes.as_bytes().to_vec())],
        _ => ok(b"good"),
    };
    let mut table = table("", "  http-reuse always", vec![Scripted::new(script)]);
    assert!(table.send_request("GET /1 HTTP/1.1\r\nHost: h\r\n\r\n").ends_with("\r\n\r\nok"));
    table.reconnect();
    assert!(table.send_request("GET /2 HTTP/1.1\r\nHost: h\r\n\r\n").ends_with("\r\n\r\ngood"));
    assert_eq!(table.origins[0].accepted(), 2);
}

#[test]
fn bytes_on_an_idle_connection_end_it() {
    let mut table =
        table("", "  http-reuse always", vec![Scripted::new(|_: &ScriptedRequest| ok(b"good"))]);
    assert_eq!(table.status("/"), 200);
    table.origins[0]
        .act(0, [ServerStep::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec())]);
    table.turn_until(|_, origins| origins[0].is_quiet());
    table.turn_until(|_, origins| origins[0].open() == 0);
    assert!(table.send_request("GET / HTTP/1.1\r\nHost: h\r\n\r\n").ends_with("good"));
}

#[test]
fn endless_interim_responses_end() {
    let endless = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(50);
    let script = move |_: &ScriptedRequest| vec![ServerStep::Send(endless.clone().into_bytes())];
    let mut table = table("", "", vec![Scripted::new(script)]);
    let (got, _) = table.talk("GET / HTTP/1.1\r\nHost: h\r\n\r\n", |got| {
        String::from_utf8_lossy(got).contains("HTTP/1.1 502")
    });
    assert!(String::from_utf8_lossy(&got).matches(" 103 ").count() <= 16);
}

/// Fields that rules build from a client's bytes cannot split the message.
#[test]
fn a_rule_cannot_be_made_to_split_a_message() {
    let rules = "  http-request set-header X-Q %[url_param(q),url_dec]";
    let mut table =
        table(rules, "", vec![Scripted::new(|heard: &ScriptedRequest| ok(heard.head.as_bytes()))]);
    let got = table.send_request("GET /?q=a%20X HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(got.contains("X-Q: a X\r\n"), "{got}");
    // Line ends in a target are refused at once; by way of a field they are not to be had either.
    let got = table.send_request("GET /?q=%250d%250aEvil:1 HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(!got.contains("\r\nEvil"), "{got}");
}

/// A server that resets in the middle of an upload may have responded before: that response counts.
#[test]
fn a_response_before_a_reset_is_delivered() {
    let mut origin = Scripted::new(|_: &ScriptedRequest| {
        vec![
            ServerStep::Send(
                b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"
                    .to_vec(),
            ),
            ServerStep::Reset,
        ]
    });
    origin.hasty = true;
    let mut table = table("", "", vec![origin]);
    let body = vec![b'x'; 200_000];
    let head = with("Content-Length: 200000\r\n");
    let (got, _) = table.talk([&head[..], &body].concat(), |got| got.ends_with(b"no"));
    let status = String::from_utf8_lossy(&got[9..12]).into_owned();
    assert!(status == "401" || status == "502", "{status}: the reset may have come first");
    assert_eq!(table.origins[0].requests.len(), 1);
}

#[test]
fn slow_heads_and_silent_clients_end() {
    let mut table = table(
        "  timeout http-request 60ms",
        "",
        vec![Scripted::new(|_: &ScriptedRequest| ok(b""))],
    );
    let (got, ended) = table.talk("GET / HTTP/1.1\r\nHo", |_| false);
    assert!(ended && got.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&got));
    table.reconnect();
    let (got, ended) = table.talk("", |_| false);
    assert!(ended && got.starts_with(b"HTTP/1.1 408"), "nor is there a first request");
    let mut kept = self::table(
        "  timeout http-keep-alive 60ms",
        "",
        vec![Scripted::new(|_: &ScriptedRequest| ok(b""))],
    );
    assert_eq!(kept.status("/"), 200);
    let began = fulmar_sys::now();
    let (got, ended) = kept.talk("", |_| false);
    assert!(ended && got.is_empty());
    assert!(fulmar_sys::now() - began < Duration::from_secs(30));
}

/// Row 23 of requests that wait: an expectation other than 100-continue cannot be met; and a client
/// that does not wait is served like any other.
#[test]
fn expectations_are_met_or_refused() {
    let (status, ended, heard) = refused(&with("Content-Length: 3\r\nExpect: cookies\r\n"));
    assert_eq!((&*status, ended, heard), ("417", true, 0));
    let mut table = table("", "", vec![Scripted::new(|heard: &ScriptedRequest| ok(&heard.body))]);
    let impatient = [&with("Content-Length: 3\r\nExpect: 100-continue\r\n")[..], b"abc"].concat();
    let got = table.send_request(impatient);
    assert!(got.contains("HTTP/1.1 200 ") && got.ends_with("\r\n\r\nabc"), "{got}");
    let old = "POST / HTTP/1.0\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc";
    let (got, _) = table.talk(old, |got| got.ends_with(b"\r\n\r\nabc"));
    assert!(got.starts_with(b"HTTP/1.1 200 "), "nothing interim for HTTP/1.0 (RFC 9110 §15.2)");
}

/// Row 23: a final answer instead of 100; whether the body comes or not, it is no request.
#[test]
fn an_early_response_cancels_expect_continue() {
    for body in ["", "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"] {
        let mut origin = Scripted::new(|_: &ScriptedRequest| {
            vec![ServerStep::Send(
                b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno".to_vec(),
            )]
        });
        origin.hasty = true;
        let mut table = table("", "", vec![origin]);
        let head = with("Content-Length: 37\r\nExpect: 100-continue\r\n");
        let (got, _) = table.talk(head, |got| got.ends_with(b"\r\n\r\nno"));
        assert!(got.starts_with(b"HTTP/1.1 403 "), "{}", String::from_utf8_lossy(&got));
        let (rest, _) = table.talk(body, |got| body.is_empty() || !got.is_empty());
        assert!(!String::from_utf8_lossy(&rest).contains("HTTP/1.1 2"), "{rest:?}");
        table.turn_until(|_, origins| origins[0].open() == 0);
        let heard: Vec<&str> = table.origins[0].requests.iter().map(|it| it.path()).collect();
        assert_eq!(heard, ["/"]);
    }
}

/// Row 28: `Connection` names fields of one hop; it cannot take away those that others rely on, in
/// either direction.
#[test]
fn a_connection_field_removes_only_hop_by_hop_fields() {
    let names = "Host, Content-Length, X-Forwarded-For, Authorization, Cookie, Set-Cookie, \
                 Content-Type, Transfer-Encoding, X-Own";
    let fields = format!(
        "Connection: {names}\r\nX-Forwarded-For: 192.0.2.1\r\nAuthorization: Basic eDp5\r\n\
         Cookie: a=b\r\nX-Own: 1\r\nContent-Length: 3\r\n"
    );
    let answer = format!(
        "HTTP/1.1 200 OK\r\nConnection: {names}\r\nSet-Cookie: a=b\r\nContent-Type: text/plain\r\n\
         X-Own: 1\r\nContent-Length: 2\r\n\r\nok"
    );
    let script = move |_: &ScriptedRequest| vec![ServerStep::Send(answer.clone().into_bytes())];
    let mut table = table("  option forwardfor", "", vec![Scripted::new(script)]);
    let got = table.send_request([&with(&fields)[..], b"abc"].concat());
    let heard = &table.origins[0].requests[0];
    assert_eq!((heard.field("host"), heard.field("content-length")), (Some("h"), Some("3")));
    assert_eq!((&heard.body[..], heard.field("x-own")), (&b"abc"[..], None));
    assert_eq!(heard.field("x-forwarded-for"), Some("192.0.2.1"), "{}", heard.head);
    assert!(heard.head.contains("X-Forwarded-For: 127.0.0.1\r\n"), "{}", heard.head);
    assert!(got.contains("Content-Length: 2\r\n") && got.ends_with("\r\n\r\nok"), "{got}");
    assert!(!got.contains("X-Own"), "{got}");
}

/// Row 30: the length in a 2xx to CONNECT is ignored, anything else is an ordinary response, and no
/// bytes are forwarded before there is a tunnel.
#[test]
fn a_tunnel_begins_with_a_2xx_and_not_before() {
    let asks = "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n";
    for fields in ["Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n"] {
        let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\nhello");
        let script = move |_: &ScriptedRequest| vec![ServerStep::Send(head.clone().into_bytes())];
        let mut table = table("", "", vec![Scripted::new(script)]);
        let (got, _) = table.talk(asks, |got| got.ends_with(b"hello"));
        let got = String::from_utf8_lossy(&got);
        assert!(got.ends_with("\r\n\r\nhello") && !got.contains(fields), "{got}");
    }
    let early = format!("{asks}GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut origin = Scripted::new(|heard: &ScriptedRequest| match heard.method() {
        "CONNECT" => vec![ServerStep::Send(
            b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 2\r\n\r\nno".to_vec(),
        )],
        _ => ok(b"another"),
    });
    origin.hasty = true; // so that it also receives bytes behind the request
    let mut table = table("", "", vec![origin]);
    let (got, ended) = table.talk(early, |got| got.ends_with(b"another"));
    assert!(got.starts_with(b"HTTP/1.1 407 "), "{}", String::from_utf8_lossy(&got));
    let heard = table.origins[0].requests.iter().map(|it| it.head.matches(" HTTP/1.1\r\n").count());
    assert!(heard.into_iter().all(|requests| requests == 1), "each by itself");
    assert_eq!(table.origins[0].requests.len(), if ended { 1 } else { 2 });
}

/// docs/strictness.md: the proxy refuses each request with the status that the page has, and no
/// server has to do with a request that is refused for its head.
#[test]
fn the_page_on_strictness_is_true_of_the_proxy() {
    for case in strict_requests() {
        print_case(&case.what);
        let (status, ended, _) = refused(&case.bytes);
        assert!(ended && status == case.expected, "{}: {status}", case.what);
    }
    let responses = strict_responses();
    assert!(responses.len() > 15, "only {} rows were found", responses.len());
    for (case, _) in responses {
        print_case(&case.what);
        let bytes = case.bytes.clone();
        let script =
            move |_: &ScriptedRequest| vec![ServerStep::Send(bytes.clone()), ServerStep::Close];
        let mut table = table("", "  retries 0", vec![Scripted::new(script)]);
        let asks = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        let (got, ended) = table.talk(asks, |_| false);
        let got = String::from_utf8_lossy(&got).into_owned();
        let statuses: Vec<_> = got.split("HTTP/1.1 ").skip(1).map(|reply| &reply[..3]).collect();
        let last = statuses.iter().find(|status| !status.starts_with('1'));
        let is_cut = last == Some(&"200") && !got.ends_with("0\r\n\r\n");
        let outcome = if is_cut { "cut" } else { last.copied().unwrap_or("nothing") };
        assert!(ended, "{}", case.what);
        assert_eq!(outcome, case.expected, "{}: {got}", case.what);
    }
}

/// CONNECT has no content (RFC 9110 §9.3.6). Declared content is not forwarded: after a 2xx its
/// bytes belong to the tunnel, and after anything else they are neither a body nor a request.
#[test]
fn a_connect_with_a_body_is_forwarded_without_its_length() {
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n";
    for (fields, body) in [
        ("Content-Length: 4\r\n", "abcd"),
        ("Transfer-Encoding: chunked\r\n", "4\r\nabcd\r\n0\r\n\r\n"),
        ("Content-Length: 4\r\nExpect: 100-continue\r\n", "abcd"),
    ] {
        let asks = format!(
            "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n{fields}\r\n\
             {body}{smuggled}"
        );
        // A server that accepts the tunnel: all bytes behind the head pass through it.
        let script =
            |_: &ScriptedRequest| vec![ServerStep::Send(b"HTTP/1.1 200 OK\r\n\r\nhello".to_vec())];
        let mut origin = Scripted::new(script);
        origin.hasty = true;
        let mut opened = table("", "", vec![origin]);
        let (got, _) = opened.talk(&asks, |got| got.ends_with(b"hello"));
        assert!(got.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&got));
        assert_without_length(&opened.origins[0].requests[0].head);
        // Servers that do not: nothing behind the head reaches them, and none of it is a request.
        for status in ["400 Bad Request", "407 Proxy Authentication Required", "500 Oops"] {
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nno");
            let mut origin = Scripted::new(move |_: &ScriptedRequest| {
                vec![ServerStep::Send(head.clone().into_bytes())]
            });
            origin.hasty = true;
            let mut declined = table("", "", vec![origin]);
            let (got, ended) = declined.talk(&asks, |_| false);
            let got = String::from_utf8_lossy(&got);
            assert!(ended && got.starts_with(&format!("HTTP/1.1 {}", &status[..3])), "{got}");
            assert_eq!(got.matches("HTTP/1.1 ").count(), 1, "{got}");
            let requests = &declined.origins[0].requests;
            assert_eq!(requests.len(), 1, "{fields:?}: {requests:?}");
            assert_without_length(&requests[0].head);
            assert!(!requests[0].head.contains("abcd") && requests[0].body.is_empty());
        }
    }
}

fn assert_without_length(head: &str) {
    let lower = head.to_ascii_lowercase();
    for field in ["content-length", "transfer-encoding", "expect"] {
        assert!(!lower.contains(field), "{head}");
    }
}

/// Row 31: the forwarding fields of a client are ignored unless a rule uses them.
#[test]
fn a_client_cannot_forge_its_address() {
    let echo = || Scripted::new(|heard: &ScriptedRequest| ok(heard.head.as_bytes()));
    let says = "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n";
    let mut replaced = table("  http-request set-header X-Forwarded-For %[src]", "", vec![echo()]);
    let got = replaced.send_request(says);
    assert!(got.contains("X-Forwarded-For: 127.0.0.1\r\n") && !got.contains("192.0.2.1"), "{got}");
    let acl = "  acl inner src 192.0.2.0/24\n  http-request deny if inner";
    assert!(table(acl, "", vec![echo()]).send_request(says).starts_with("HTTP/1.1 200 "));
    // A header of the PROXY protocol where none is expected is no request.
    for header in
        [&b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"[..], b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\0"]
    {
        let (status, ended, heard) = refused(&[header, says.as_bytes()].concat());
        assert!(ended && heard == 0 && matches!(&*status, "400" | "505"), "{status}");
    }
}
