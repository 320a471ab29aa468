//! Messages as data: `data/bad-requests.txt`, `data/good-requests.txt`, and the tables of
//! `docs/strictness.md`.

/// A line of such a file.
#[derive(Clone, Debug)]
pub struct RequestCase {
    /// The row of the catalogue, and what is special.
    pub what: String,
    /// What must come of it.
    pub expected: String,
    /// What is sent.
    pub bytes: Vec<u8>,
}

/// Requests that must be refused.
pub fn bad() -> Vec<RequestCase> {
    read(include_str!("data/bad-requests.txt"))
}

/// Those that a server of HTTP/2 refuses, too: all but the preface of HTTP/2.
pub fn bad_beside_http2() -> Vec<RequestCase> {
    bad().into_iter().filter(|case| !case.bytes.starts_with(PREFACE_LINE)).collect()
}

/// Requests that must be taken.
pub fn good() -> Vec<RequestCase> {
    read(include_str!("data/good-requests.txt"))
}

/// The requests of docs/strictness.md: `expected` is the status of fulmar.
///
/// # Panics
/// The page has no such table.
pub fn strict_requests() -> Vec<RequestCase> {
    let rows = rows("Requests").into_iter();
    rows.map(|row| match &row[..] {
        [what, bytes, expected, _nginx, _haproxy, _why] => strict(what, bytes, expected),
        _ => panic!("six columns: {row:?}"),
    })
    .collect()
}

/// Its responses: `expected` is the action of the proxy, followed by that of the client.
///
/// # Panics
/// The page has no such table.
pub fn strict_responses() -> Vec<(RequestCase, String)> {
    let rows = rows("Responses").into_iter();
    rows.map(|row| match &row[..] {
        [what, bytes, expected, _nginx, _haproxy, client, _why] => {
            (strict(what, bytes, expected), client.clone())
        }
        _ => panic!("seven columns: {row:?}"),
    })
    .collect()
}

/// The cells of the only table below a heading of that page.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let page = include_str!("../docs/strictness.md");
    let heading = format!("{heading}\n");
    let section = page.split("\n## ").find(|section| section.starts_with(&heading));
    let lines = section.expect("the heading").lines().filter(|line| line.starts_with("| "));
    let cells = |line: &str| {
        let line = line.trim_start_matches("| ").trim_end_matches(" |");
        line.split(" | ").map(str::to_owned).collect()
    };
    lines.skip(1).map(cells).collect()
}

fn strict(what: &str, bytes: &str, expected: &str) -> RequestCase {
    let bytes = bytes.strip_prefix('`').and_then(|bytes| bytes.strip_suffix('`'));
    let bytes = spelled_out(bytes.expect("bytes in backquotes"));
    RequestCase { what: what.to_owned(), expected: expected.to_owned(), bytes: expand(&bytes) }
}

fn spelled_out(bytes: &str) -> String {
    SHORT.iter().fold(bytes.to_owned(), |text, (name, long)| text.replace(name, long))
}

fn read(text: &str) -> Vec<RequestCase> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(case).collect()
}

fn case(line: &str) -> RequestCase {
    let parts: Vec<_> = line.splitn(4, " | ").collect();
    let [row, expected, what, bytes] = parts[..] else { panic!("four columns: {line}") };
    let what = format!("row {row}, {what}");
    RequestCase { what, expected: expected.to_owned(), bytes: expand(&spelled_out(bytes)) }
}

/// `{N*text}` is the text N times; it may be nested.
fn expand(text: &str) -> Vec<u8> {
    let Some((before, rest)) = text.split_once('{') else { return unescape(text) };
    let (repeated, after) = rest.split_at(end_of(rest));
    let (times, repeated) = repeated.split_once('*').expect("{N*text}");
    let times = times.parse().expect("a number");
    [unescape(before), expand(repeated).repeat(times), expand(&after[1..])].concat()
}

/// The position of the brace that closes the leading one.
fn end_of(text: &str) -> usize {
    let mut depth = 1;
    let closes = |char| {
        depth += i32::from(char == '{') - i32::from(char == '}');
        depth == 0
    };
    text.find(closes).expect("a closing brace")
}

fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        if char != '\\' {
            out.extend(char.to_string().as_bytes());
            continue;
        }
        match chars.next() {
            Some('r') => out.push(b'\r'),
            Some('n') => out.push(b'\n'),
            Some('t') => out.push(b'\t'),
            Some('0') => out.push(0),
            Some('\\') => out.push(b'\\'),
            Some('x') => {
                let digits: String = chars.by_ref().take(2).collect();
                out.push(u8::from_str_radix(&digits, 16).expect("two digits"));
            }
            other => panic!("not an escape: {other:?} in {text}"),
        }
    }
    out
}

/// In this order: later ones contain earlier ones.
const SHORT: [(&str, &str); 3] = [
    ("$chunked", r"$postTransfer-Encoding: chunked\r\n\r\n"),
    ("$post", r"POST /echo HTTP/1.1\r\nHost: h\r\n"),
    ("$get", r"GET / HTTP/1.1\r\nHost: h\r\n"),
];

/// The first line of a connection of HTTP/2 (RFC 9113 §3.4).
const PREFACE_LINE: &[u8] = b"PRI * HTTP/2.0\r\n";
