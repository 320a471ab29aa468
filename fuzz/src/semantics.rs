//! Parsers of fields and bodies: random bytes give a value or an error, and an accepted value is
//! the same after it is written and parsed again.

use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use fulmar_proto::HeaderBuf;
use fulmar_semantics::auth::{AuthRequest, Authorization, challenges};
use fulmar_semantics::conditional::{Conditions, Validators};
use fulmar_semantics::cookies::{self, Jar, Pairs, UrlParts};
use fulmar_semantics::date::{format_date, is_http_time, parse_date};
use fulmar_semantics::form::{FormEvent, FormLimits, Parser, ParserError};
use fulmar_semantics::proxy_protocol::{HeaderMisuse, SIZE_MAX, decode, encode_v2};
use fulmar_semantics::range::{RANGES_LEN_MAX, Selection, Span, select};

/// A PROXY header: the same however much of it has arrived, and when it is written again.
pub fn proxy_protocol(data: &[u8]) {
    let whole = decode(data);
    for end in 0..data.len() {
        match (decode(&data[..end]), &whole) {
            (Ok(None), _) => {}
            (early, late) => assert_eq!(&early, late, "{end} bytes are enough"),
        }
    }
    let Ok(Some((header, size))) = whole else { return };
    assert!(size <= data.len().min(SIZE_MAX));
    let mut wire = Vec::new();
    match encode_v2(&header, &mut wire) {
        Ok(()) => assert_eq!(decode(&wire), Ok(Some((header, wire.len())))),
        Err(error) => assert_eq!(error, HeaderMisuse::TooLong, "a checksum is added"),
    }
}

/// A form: the same however it is split, of no more events than bytes.
pub fn multipart(data: &[u8]) {
    let _ = Parser::new(data, FormLimits::default());
    let (sizes, body) = data.split_at(data.len().min(SIZES_LEN));
    let at_once = form(body, &[usize::MAX]);
    let sizes: Vec<_> = sizes.iter().map(|size| usize::from(*size) % 40 + 1).collect();
    if !sizes.is_empty() {
        assert_eq!(form(body, &sizes), at_once);
    }
}

/// The events of a form that arrives in such pieces; data of one part are one.
fn form(body: &[u8], sizes: &[usize]) -> (Vec<FormEvent>, Result<(), ParserError>) {
    let content_type = b"multipart/form-data; boundary=b";
    let mut parser = Parser::new(content_type, FormLimits::default()).expect("a boundary");
    let (mut events, mut rest, mut polled) = (Vec::new(), body, 0);
    for size in sizes.iter().cycle() {
        let (piece, later) = rest.split_at((*size).min(rest.len()));
        rest = later;
        parser.push(Bytes::copy_from_slice(piece));
        loop {
            polled += 1;
            assert!(polled < 4 * body.len() + 10, "events come out of bytes");
            match parser.poll_event() {
                Ok(None) => break,
                Ok(Some(FormEvent::Data(bytes))) => {
                    assert!(!bytes.is_empty());
                    match events.last_mut() {
                        Some(FormEvent::Data(known)) => {
                            *known = [&known[..], &bytes].concat().into()
                        }
                        _ => events.push(FormEvent::Data(bytes)),
                    }
                }
                Ok(Some(event)) => events.push(event),
                Err(error) => {
                    assert_eq!(parser.poll_event(), Err(error), "asked again it is the same");
                    // How much of a broken part was delivered depends on the pieces.
                    events.pop_if(|event| matches!(event, FormEvent::Data(_)));
                    return (events, Err(error));
                }
            }
        }
        if rest.is_empty() {
            break;
        }
    }
    let finished = parser.finish();
    if finished.is_err() {
        events.pop_if(|event| matches!(event, FormEvent::Data(_)));
    }
    (events, finished)
}

/// A `Range` field of files of all sizes: parts lie in the file, apart from each other.
pub fn ranges(data: &[u8]) {
    for len in [0, 1, 99, 10_000, u64::MAX] {
        let spans = match select(data, len) {
            Selection::Whole | Selection::Unsatisfiable => continue,
            Selection::One(span) => vec![span],
            Selection::Several(spans) => spans,
        };
        assert!(!spans.is_empty() && spans.len() <= RANGES_LEN_MAX);
        let end = |span: &Span| span.start.checked_add(span.len).expect("it lies in the file");
        assert!(spans.iter().all(|span| span.len > 0 && end(span) <= len));
        let mut sorted = spans;
        sorted.sort_unstable_by_key(|span| span.start);
        assert!(sorted.windows(2).all(|pair| end(&pair[0]) <= pair[1].start));
    }
}

/// Conditional fields, a line each: any verdict, and a range only if one was requested.
pub fn conditions(data: &[u8]) {
    let names = ["If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"];
    let names = names.into_iter().chain(["If-Range", "Range", "Range"]);
    let mut headers = HeaderBuf::new();
    for (name, value) in names.zip(data.split(|byte| *byte == b'\n')) {
        let _ = headers.push(name, value); // not everything is a value
    }
    let found = Conditions::of(headers.as_headers());
    let tags = [None, Some("\"abc\""), Some("W/\"abc\"")];
    for (etag, modified) in tags.into_iter().zip([None, Some(784_111_777), Some(0)]) {
        let current = Validators { etag: etag.map(str::to_owned), modified };
        let _ = (found.evaluate(&current), found.evaluate_change(Some(&current)));
        let range = found.range(&current, 784_111_778);
        assert!(range.is_none_or(|range| headers.as_headers().get("Range") == Some(range)));
    }
    let _ = found.evaluate_change(None);
}

/// Cookies of both directions: what a jar sends back is one sound field.
pub fn cookies(data: &[u8]) {
    let mut headers = HeaderBuf::new();
    if headers.push("Cookie", data).is_ok() {
        let pairs = Pairs::of(headers.as_headers());
        let size: usize = pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(size <= data.len(), "nothing is made up");
    }
    let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
    let url = UrlParts { is_secure: true, host: "www.example.com", path: "/a/b" };
    let mut jar = Jar::new(cookies::JarLimits::default());
    for line in data.split(|byte| *byte == b'\n') {
        let _ = jar.store(now, url, line);
    }
    let mut sent = Vec::new();
    if jar.header(now, url, &mut sent) {
        headers.clear();
        headers.push("Cookie", &sent).expect("a field that may be sent");
    }
}

/// Credentials and challenges: for any input, an unused password is wrong.
pub fn authorization(data: &[u8]) {
    for challenge in challenges(data.split(|byte| *byte == b'\n')) {
        let _ = (challenge.is("Digest"), challenge.get("realm"), challenge.get("nonce"));
    }
    if let Some(Authorization::Digest(proof)) = Authorization::parse(data) {
        let request = AuthRequest { method: b"GET", target: proof.target(), body: Some(b"") };
        assert!(!proof.verify("realm", "user", "a password that nobody used", request));
        let _ = (proof.nonce(), proof.count(), proof.scheme());
    }
}

/// A date of HTTP: what is read is what would be written.
pub fn dates(data: &[u8]) {
    if let Some(unix) = parse_date(data) {
        assert!(is_http_time(unix), "{unix}");
        assert_eq!(parse_date(&format_date(unix)), Some(unix));
    }
}

const SIZES_LEN: usize = 3;
