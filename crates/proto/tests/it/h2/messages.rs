//! Requests: which are accepted, and what of them could be another request behind a proxy that
//! speaks HTTP/1.1 (RFC 9113 §8.2, §8.3, §10.3).

use fulmar_proto::Server;
use fulmar_proto::h1::{FIELDS_LEN_MAX, METHOD_SIZE_MAX, TARGET_SIZE_MAX};

use super::wire::{
    END_HEADERS, END_STREAM, HEADERS, PADDED, RawPeer, WHOLE, block, data, frame, post_frame,
    request,
};

/// A field of a request.
type FieldText<'a> = (&'a str, &'a [u8]);

const METHOD: FieldText<'_> = (":method", b"GET");
const SCHEME: FieldText<'_> = (":scheme", b"https");
const PATH: FieldText<'_> = (":path", b"/");
const AUTHORITY: FieldText<'_> = (":authority", b"a");
const MALFORMED: &str = "RST_STREAM 1 PROTOCOL_ERROR";

/// The events and errors of one request without a body, whole and byte by byte.
fn receive(block: Vec<u8>) -> (String, String) {
    receive_frames(&frame(HEADERS, WHOLE, 1, block))
}

fn receive_frames(bytes: &[u8]) -> (String, String) {
    let run = |size: usize| {
        let mut peer: RawPeer<Server> = RawPeer::server();
        peer.feed_pieces(bytes, size);
        assert_eq!(peer.error, None, "only the stream is reset");
        (peer.merged().join("; "), peer.errors())
    };
    let whole = run(bytes.len());
    assert_eq!(run(1), whole, "byte by byte");
    whole
}

/// A GET request with one more field.
fn with(name: &str, value: &[u8]) -> (String, String) {
    receive(request("GET", "/", &[(name, value)]))
}

fn accepted(name: &str, value: &str) -> (String, String) {
    (format!("1 head GET / [host: a, {name}: {value}] Empty; 1 end "), String::new())
}

fn refused() -> (String, String) {
    (String::new(), MALFORMED.to_owned())
}

#[test]
fn no_value_ends_a_line() {
    for value in [&b"x\r\ny: z"[..], b"x\ry", b"x\ny", b"\r", b"\n", b"x\0", b"\0", b"\x7f"] {
        assert_eq!(with("x", value), refused(), "{value:?}");
    }
    for control in (0..0x20u8).filter(|it| *it != b'\t') {
        assert_eq!(with("x", &[b'a', control, b'b']), refused(), "{control}");
    }
    for value in [&b" x"[..], b"x ", b"\tx", b"x\t", b" "] {
        assert_eq!(with("x", value), refused(), "{value:?}");
    }
    for value in ["", "x", "x y", "(with: marks, and=more)"] {
        assert_eq!(with("x", value.as_bytes()), accepted("x", value));
    }
    assert_eq!(with("x", b"a\tb"), accepted("x", "a\\tb"));
    assert_eq!(with("x", b"\xff\x80"), accepted("x", "\\xff\\x80"));
}

#[test]
fn names_are_tokens_in_lower_case() {
    let names = [
        "", "X", "aB", "a b", " a", "a ", "a:", "a\r\nb", "a\n", "a\0", "\u{e9}", "a,b", "(a)",
        "a/b", "a\tb", "{", "\u{7f}",
    ];
    for name in names {
        assert_eq!(with(name, b"v"), refused(), "{name:?}");
    }
    for name in ["x", "x-1", "_", "!#$%&*+-.^_`|~", "0"] {
        assert_eq!(with(name, b"v"), accepted(name, "v"));
    }
}

#[test]
fn fields_of_a_connection_do_not_exist() {
    let rows: [FieldText<'_>; 12] = [
        ("connection", b"close"),
        ("connection", b"keep-alive"),
        ("connection", b"x"),
        ("keep-alive", b"timeout=5"),
        ("proxy-connection", b"keep-alive"),
        ("transfer-encoding", b"chunked"),
        ("transfer-encoding", b"identity"),
        ("transfer-encoding", b""),
        ("upgrade", b"h2c"),
        ("te", b"gzip"),
        ("te", b"trailers, gzip"),
        ("te", b""),
    ];
    for (name, value) in rows {
        assert_eq!(with(name, value), refused(), "{name}: {value:?}");
    }
    assert_eq!(with("te", b"trailers"), accepted("te", "trailers"));
}

#[test]
fn lengths_are_single_numbers() {
    let values = [
        "5, 5",
        "5,6",
        "+5",
        "-5",
        "0x5",
        "5 5",
        "",
        "5.0",
        "18446744073709551616",
        "1e3",
        "a",
        "99999999999999999999",
    ];
    for value in values {
        let block = request("POST", "/", &[("content-length", value.as_bytes())]);
        let received = receive_frames(&frame(HEADERS, END_HEADERS, 1, block));
        assert_eq!(received, refused(), "{value}");
    }
    let twice = |a: &[u8], b: &[u8]| {
        let block = request("POST", "/", &[("content-length", a), ("content-length", b)]);
        receive_frames(&frame(HEADERS, END_HEADERS, 1, block))
    };
    assert_eq!(twice(b"5", b"6"), refused());
    assert!(twice(b"5", b"5").0.ends_with("Exact(5)"));
}

#[test]
fn bodies_have_the_declared_length() {
    let post = |length: &str| {
        let block = request("POST", "/", &[("content-length", length.as_bytes())]);
        frame(HEADERS, END_HEADERS, 1, block)
    };
    let trailers = frame(HEADERS, WHOLE, 1, block(&[("x", b"y")]));
    let rows = [
        ("exact", "3", data(END_STREAM, 1, "abc"), ""),
        ("in frames", "3", [data(0, 1, "ab"), data(END_STREAM, 1, "c")].concat(), ""),
        ("end behind it", "3", [data(0, 1, "abc"), data(END_STREAM, 1, "")].concat(), ""),
        ("trailers behind it", "3", [data(0, 1, "abc"), trailers.clone()].concat(), ""),
        ("padding", "3", data(END_STREAM | PADDED, 1, "\x02abc\0\0"), ""),
        ("short", "3", data(END_STREAM, 1, "ab"), MALFORMED),
        ("none", "3", data(END_STREAM, 1, ""), MALFORMED),
        ("short before trailers", "3", [data(0, 1, "ab"), trailers].concat(), MALFORMED),
        ("long", "3", data(END_STREAM, 1, "abcd"), MALFORMED),
        ("long in frames", "3", [data(0, 1, "ab"), data(0, 1, "cd")].concat(), MALFORMED),
        ("padding is no body", "3", data(END_STREAM | PADDED, 1, "\x02a\0\0"), MALFORMED),
        ("of zero", "0", data(END_STREAM, 1, ""), ""),
        ("more than zero", "0", data(END_STREAM, 1, "a"), MALFORMED),
    ];
    for (name, length, body, expected) in rows {
        let (events, errors) = receive_frames(&[post(length), body].concat());
        assert_eq!(errors, expected, "{name}");
        let last = events.rsplit("; ").next().unwrap_or_default();
        match expected {
            "" => assert!(last.starts_with("1 end"), "{name}: {events}"),
            _ => assert_eq!(last, "1 reset 1", "{name}: {events}"),
        }
    }
    let ended = receive(request("POST", "/", &[("content-length", b"3")]));
    assert_eq!(ended, refused(), "no body at all");
    assert_eq!(receive(request("GET", "/", &[("content-length", b"0")])).1, "");
}

#[test]
fn pseudo_fields_are_complete_and_single_and_first() {
    let rows: [(&str, Vec<FieldText<'_>>); 16] = [
        ("none", vec![("x", b"y")]),
        ("no method", vec![SCHEME, PATH, AUTHORITY]),
        ("no scheme", vec![METHOD, PATH, AUTHORITY]),
        ("no path", vec![METHOD, SCHEME, AUTHORITY]),
        ("two methods", vec![METHOD, METHOD, SCHEME, PATH, AUTHORITY]),
        ("two schemes", vec![METHOD, SCHEME, SCHEME, PATH, AUTHORITY]),
        ("two paths", vec![METHOD, SCHEME, PATH, PATH, AUTHORITY]),
        ("two authorities", vec![METHOD, SCHEME, PATH, AUTHORITY, AUTHORITY]),
        ("unknown", vec![METHOD, SCHEME, PATH, AUTHORITY, (":x", b"y")]),
        ("without a name", vec![METHOD, SCHEME, PATH, AUTHORITY, (":", b"y")]),
        ("upper case", vec![(":METHOD", b"GET"), SCHEME, PATH, AUTHORITY]),
        ("of a response", vec![METHOD, SCHEME, PATH, AUTHORITY, (":status", b"200")]),
        ("late", vec![METHOD, SCHEME, PATH, ("x", b"y"), AUTHORITY]),
        ("late method", vec![SCHEME, PATH, AUTHORITY, ("x", b"y"), METHOD]),
        ("protocol without CONNECT", vec![METHOD, SCHEME, PATH, AUTHORITY, (":protocol", b"x")]),
        ("name with a line", vec![METHOD, SCHEME, PATH, AUTHORITY, (":path\r\n", b"y")]),
    ];
    for (name, fields) in rows {
        assert_eq!(receive(block(&fields)), refused(), "{name}");
    }
    let any_order = receive(block(&[AUTHORITY, PATH, SCHEME, METHOD]));
    assert_eq!(any_order.0, "1 head GET / [host: a] Empty; 1 end ");
    for pseudo in [PATH, (":status", &b"200"[..]), (":x", b"y")] {
        let post = frame(HEADERS, END_HEADERS, 1, request("POST", "/", &[]));
        let trailers = frame(HEADERS, WHOLE, 1, block(&[pseudo]));
        assert_eq!(receive_frames(&[post, trailers].concat()).1, MALFORMED, "{pseudo:?}");
    }
}

#[test]
fn words_of_a_request_line_have_no_blanks() {
    let line = |method: &[u8], scheme: &[u8], path: &[u8]| {
        let fields =
            [(":method", method), (":scheme", scheme), (":path", path), (":authority", b"a")];
        receive(block(&fields))
    };
    for method in [&b""[..], b"GET /x HTTP/1.1", b"G ET", b"GET\r\n", b"GET:", b"G\0"] {
        assert_eq!(line(method, b"http", b"/"), refused(), "{method:?}");
    }
    for scheme in [&b""[..], b"ht tp", b"http://", b"1http", b"http\r\n", b"h\xff"] {
        assert_eq!(line(b"GET", scheme, b"/"), refused(), "{scheme:?}");
    }
    let paths = [
        &b""[..],
        b"x",
        b"/a b",
        b"/ HTTP/1.1",
        b"/a\r\nx: y",
        b"/a\tb",
        b"/a#b",
        b"#",
        b"/\0",
        b"/\x7f",
        b"/\xc3\xa9",
        b"http://b/",
        b"https://a/",
        b"//b\\",
        b"*",
        b"?a",
        b"/%",
        b"/%zz",
    ];
    for path in paths {
        assert_eq!(line(b"GET", b"http", path), refused(), "{:?}", path.escape_ascii());
    }
    for path in ["/", "/a/b?c=d", "/%20", "//b", "/?", "/a;b=c"] {
        let expected = format!("1 head GET {path} [host: a] Empty; 1 end ");
        assert_eq!(line(b"GET", b"http", path.as_bytes()), (expected, String::new()));
    }
    let asterisk = "1 head OPTIONS * [host: a] Empty; 1 end ".to_owned();
    assert_eq!(line(b"OPTIONS", b"http", b"*"), (asterisk, String::new()));
    assert_eq!(line(b"get", b"HTTPS", b"/").1, "", "methods are case-sensitive, schemes are not");
}

#[test]
fn a_request_has_one_host() {
    let hosts = |authority: Option<&[u8]>, fields: &[&[u8]]| {
        let mut all = vec![METHOD, SCHEME, PATH];
        all.extend(authority.map(|it| (":authority", it)));
        all.extend(fields.iter().map(|it| ("host", *it)));
        receive(block(&all))
    };
    let head = |host: &str| (format!("1 head GET / [host: {host}] Empty; 1 end "), String::new());
    assert_eq!(hosts(Some(b"a.b:80"), &[]), head("a.b:80"));
    assert_eq!(hosts(None, &[b"a"]), head("a"));
    assert_eq!(hosts(Some(b"a"), &[b"a"]), head("a"));
    assert_eq!(hosts(Some(b"a"), &[b"A"]), head("A"), "case does not distinguish hosts");
    assert_eq!(hosts(Some(b"[::1]:8080"), &[]), head("[::1]:8080"));
    assert_eq!(hosts(Some(b"a"), &[b"b"]), refused());
    assert_eq!(hosts(Some(b"a"), &[b"a:80"]), refused());
    assert_eq!(hosts(Some(b"a"), &[b"a", b"a"]), refused());
    assert_eq!(hosts(None, &[b"a", b"b"]), refused());
    for bad in [&b""[..], b"a b", b"user@a", b"a/b", b"a, b", b"a:x", b"a\r\nx: y", b"a?b", b"a#"] {
        assert_eq!(hosts(Some(bad), &[]), refused(), "{:?}", bad.escape_ascii());
        assert_eq!(hosts(None, &[bad]), refused(), "{:?}", bad.escape_ascii());
    }
    assert_eq!(hosts(None, &[]).0, "", "400, and no event");
    assert_eq!(hosts(None, &[]).1, "");
}

#[test]
fn crumbs_of_cookies_are_joined() {
    let fields: [FieldText<'_>; 5] =
        [("cookie", b"a=b"), ("x", b"y"), ("cookie", b"c=d"), ("cookie", b""), ("cookie", b"e=f")];
    let (events, errors) = receive(request("GET", "/", &fields));
    let expected = "1 head GET / [host: a, cookie: a=b; c=d; ; e=f, x: y] Empty; 1 end ";
    assert_eq!((events.as_str(), errors.as_str()), (expected, ""));
}

#[test]
fn a_tunnel_is_requested_by_its_authority() {
    let connect: FieldText<'_> = (":method", b"CONNECT");
    let rows: [(&str, Vec<FieldText<'_>>, &str); 9] = [
        ("CONNECT", vec![connect, (":authority", b"a:80")], "a:80 [host: a:80]"),
        ("no authority", vec![connect], ""),
        ("no port", vec![connect, AUTHORITY], ""),
        ("a path", vec![connect, (":authority", b"a:80"), PATH], ""),
        ("a scheme", vec![connect, (":authority", b"a:80"), SCHEME], ""),
        ("another host", vec![connect, (":authority", b"a:80"), ("host", b"b:80")], ""),
        (
            "websocket",
            vec![connect, (":protocol", b"websocket"), SCHEME, (":path", b"/chat"), AUTHORITY],
            "/chat (websocket) [host: a]",
        ),
        ("websocket without a path", vec![connect, (":protocol", b"x"), SCHEME, AUTHORITY], ""),
        ("websocket without a scheme", vec![connect, (":protocol", b"x"), PATH, AUTHORITY], ""),
    ];
    for (name, fields, head) in rows {
        let received = receive_frames(&frame(HEADERS, END_HEADERS, 1, block(&fields)));
        let expected = match head {
            "" => refused(),
            _ => (format!("1 head CONNECT {head} Empty; 1 end "), String::new()),
        };
        assert_eq!(received, expected, "{name}");
    }
}

#[test]
fn an_expectation_waits_for_its_100() {
    let expect = |value: &[u8]| request("POST", "/", &[("expect", value)]);
    let mut peer = RawPeer::server();
    peer.feed(frame(HEADERS, END_HEADERS, 1, expect(b"100-Continue")));
    assert!(peer.connection.expects_continue(fulmar_proto::StreamId(1)));
    peer.feed(data(0, 1, b"x"));
    assert!(!peer.connection.expects_continue(fulmar_proto::StreamId(1)), "the body has begun");
}

/// The status of a response that the application does not decide on.
fn status_of(block: &[u8]) -> (u16, String) {
    let mut bytes = Vec::new();
    let mut pieces = block.chunks(16_000).peekable();
    let mut kind = HEADERS;
    while let Some(piece) = pieces.next() {
        let last = if pieces.peek().is_none() { END_HEADERS } else { 0 };
        let end = if kind == HEADERS { END_STREAM } else { 0 };
        bytes.extend(frame(kind, last | end, 1, piece));
        kind = super::wire::CONTINUATION;
    }
    let mut peer = RawPeer::server();
    peer.feed(bytes);
    assert!(peer.events.is_empty() && peer.error.is_none(), "{:?}", peer.events);
    let head = peer.frames.iter().find(|frame| frame.kind == HEADERS).expect("a response");
    assert_eq!((head.stream, head.flags), (1, WHOLE));
    let mut client = RawPeer::client(1);
    client.feed(frame(HEADERS, WHOLE, 1, &head.payload));
    let status = client.events[0].split(' ').nth(2).expect("a status").parse().expect("a number");
    assert_eq!(peer.connection.open_streams(), 0);
    (status, peer.errors())
}

#[test]
fn requests_over_a_limit_receive_a_response() {
    let long = "x".repeat(9_000);
    let fields = |count: usize, size: usize| {
        let value = vec![b'v'; size];
        let more: Vec<FieldText<'_>> = (0..count).map(|_| ("x", &value[..])).collect();
        request("GET", "/", &more)
    };
    let none = String::new;
    assert_eq!(status_of(&request("GET", &format!("/{long}"), &[])), (414, none()));
    assert_eq!(status_of(&request(&"M".repeat(33), "/", &[])), (501, none()));
    assert_eq!(status_of(&request("POST", "/", &[("expect", b"tea")])), (417, none()));
    assert_eq!(status_of(&block(&[METHOD, SCHEME, PATH])), (400, none()));
    assert_eq!(status_of(&fields(120, 1)), (431, none()));
    // Incremental indexing and an index: short on the wire, 36 KB of fields.
    let mut indexed = fields(0, 0);
    indexed.extend([0x40, 1, b'x', 127, 0xa1, 0x1e]);
    indexed.extend([b'v'; 4_000]);
    indexed.extend([0xbe; 9]);
    assert_eq!(status_of(&indexed), (431, none()));
}

/// A server cannot respond to trailers: each fault is one of the stream.
#[test]
fn trailers_that_are_not_accepted_reset_the_stream() {
    let post = frame(HEADERS, END_HEADERS, 1, request("POST", "/", &[]));
    let many: Vec<FieldText<'_>> = (0..120).map(|_| ("x", &b"y"[..])).collect();
    let rows: [(&str, Vec<FieldText<'_>>, &str); 9] = [
        ("valid", vec![("x", b"y")], ""),
        ("none", vec![], ""),
        ("malformed", vec![("X", b"y")], MALFORMED),
        ("of the connection", vec![("connection", b"close")], MALFORMED),
        ("a length", vec![("content-length", b"0")], MALFORMED),
        ("a host", vec![("host", b"a")], MALFORMED),
        ("credentials", vec![("authorization", b"Basic eA==")], MALFORMED),
        ("an expectation", vec![("expect", b"tea")], MALFORMED),
        ("too many", many, MALFORMED),
    ];
    for (name, fields, expected) in rows {
        let trailers = frame(HEADERS, WHOLE, 1, block(&fields));
        let (_, errors) = receive_frames(&[&post[..], &trailers].concat());
        assert_eq!(errors, expected, "{name}");
    }
}

/// The first fault decides, as the rest is decoded for the dynamic table only.
#[test]
fn the_first_fault_of_a_request_decides() {
    let tea: FieldText<'_> = ("expect", b"tea");
    let upper: FieldText<'_> = ("X", b"y");
    assert_eq!(status_of(&request("POST", "/", &[tea, upper])), (417, String::new()));
    let malformed = frame(HEADERS, WHOLE, 1, request("POST", "/", &[upper, tea]));
    assert_eq!(receive_frames(&malformed).1, MALFORMED);
    // The limits of the parts, and one byte more.
    let target = |len: usize| request("GET", &format!("/{}", "x".repeat(len - 1)), &[]);
    assert_eq!(receive(target(TARGET_SIZE_MAX)).1, "");
    assert_eq!(status_of(&target(TARGET_SIZE_MAX + 1)), (414, String::new()));
    let method = |len: usize| request(&"M".repeat(len), "/", &[]);
    assert_eq!(receive(method(METHOD_SIZE_MAX)).1, "");
    assert_eq!(status_of(&method(METHOD_SIZE_MAX + 1)), (501, String::new()));
    let fields = |count: usize| {
        let more: Vec<FieldText<'_>> = (0..count).map(|_| ("x", &b"y"[..])).collect();
        request("GET", "/", &more)
    };
    assert_eq!(receive(fields(FIELDS_LEN_MAX)).1, "");
    assert_eq!(status_of(&fields(FIELDS_LEN_MAX + 1)), (431, String::new()));
}

#[test]
fn the_rest_of_a_refused_request_is_not_wanted() {
    let mut peer = RawPeer::server();
    let block = request("POST", "/", &[("expect", b"tea")]);
    peer.feed([frame(HEADERS, END_HEADERS, 1, block), data(0, 1, b"body")].concat());
    assert_eq!(peer.errors(), "RST_STREAM 1 NO_ERROR");
    assert_eq!((peer.connection.open_streams(), peer.events.len()), (0, 0));
}

/// A client that goes on with its upload receives the response, then a reset.
#[test]
fn rest_of_an_upload_is_drained_up_to_a_limit() {
    let mut peer = RawPeer::server();
    peer.feed(post_frame(1));
    peer.respond(1, b"early");
    let mut received = 0;
    while peer.connection.open_streams() == 1 {
        assert_eq!(peer.errors(), "", "after {received} bytes");
        let window = 65_535 + usize::try_from(peer.increments(1)).expect("small") - received;
        let piece = vec![b'x'; window.min(16_000)];
        peer.feed(data(0, 1, &piece));
        received += piece.len();
        assert!(!piece.is_empty() && received < 1 << 20, "the upload does not end");
    }
    assert!(received > 256 * 1024, "{received} bytes");
    assert_eq!(peer.errors(), "RST_STREAM 1 NO_ERROR");
}
