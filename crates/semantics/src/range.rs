//! Byte ranges (RFC 9110 §14): parsing `Range`, and bodies with several parts.
//!
//! Pure functions. A `Range` that is malformed, has another unit, or would cost more than it saves
//! is ignored (§14.2): the response is then complete.

use std::io::Write;

use bytes::Bytes;

/// A range of a file: never empty, never beyond its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: u64,
    /// The number of bytes.
    pub len: u64,
}

/// The result of a `Range` field for a file of a given length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The whole file: 200.
    Whole,
    /// One range: 206 with `Content-Range`.
    One(Span),
    /// Several disjoint ranges, in the requested order: 206 as `multipart/byteranges`.
    Several(Vec<Span>),
    /// No range is satisfiable: 416.
    Unsatisfiable,
}

/// Parses a `Range` value.
///
/// The result is the whole file if there are more than [`RANGES_LEN_MAX`] ranges, or if they
/// overlap.
///
/// ```
/// use fulmar_semantics::range::{Selection, Span, select};
/// assert_eq!(select(b"bytes=-500", 10_000), Selection::One(Span { start: 9_500, len: 500 }));
/// ```
pub fn select(value: &[u8], len: u64) -> Selection {
    match parse(value, len) {
        None => Selection::Whole,
        Some(spans) => match spans[..] {
            [] => Selection::Unsatisfiable,
            // A suffix of an empty file is empty, and has no `Content-Range`.
            _ if len == 0 => Selection::Whole,
            [span] => Selection::One(span),
            _ if overlap(&spans) => Selection::Whole,
            _ => Selection::Several(spans),
        },
    }
}

/// The satisfiable ranges; `None` if the field must be ignored.
fn parse(value: &[u8], len: u64) -> Option<Vec<Span>> {
    let (unit, set) = value.split_at_checked(BYTES_UNIT.len())?;
    if !unit.eq_ignore_ascii_case(BYTES_UNIT) {
        return None;
    }
    if set.starts_with(b" ") || set.starts_with(b"\t") {
        return None;
    }
    let (mut spans, mut asked) = (Vec::new(), 0);
    for spec in set.split(|b| *b == b',').map(<[u8]>::trim_ascii) {
        // Empty elements of a list are ignored (§5.6.1.2).
        if spec.is_empty() {
            continue;
        }
        asked += 1;
        if asked > RANGES_LEN_MAX {
            return None;
        }
        spans.extend(parse_spec(spec, len)?);
    }
    (asked > 0).then_some(spans)
}

/// Parses a `range-spec` (§14.1.2): outer `None` if malformed, inner if it is not satisfiable.
fn parse_spec(spec: &[u8], len: u64) -> Option<Option<Span>> {
    let dash = spec.iter().position(|b| *b == b'-')?;
    let (first, last) = (&spec[..dash], &spec[dash + 1..]);
    if first.is_empty() {
        let suffix = parse_number(last)?.min(len);
        let asks_for_some = last.iter().any(|digit| *digit != b'0');
        return Some(asks_for_some.then_some(Span { start: len - suffix, len: suffix }));
    }
    let first = parse_number(first)?;
    let last = if last.is_empty() { u64::MAX } else { parse_number(last)? };
    if last < first {
        return None;
    }
    Some((first < len).then(|| Span { start: first, len: last.min(len - 1) - first + 1 }))
}

/// `1*DIGIT`; larger numbers are capped.
fn parse_number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let push = |n: u64, digit: &u8| n.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some(digits.iter().fold(0, push))
}

fn overlap(spans: &[Span]) -> bool {
    let mut sorted = spans.to_vec();
    sorted.sort_unstable_by_key(|span| span.start);
    sorted.windows(2).any(|pair| pair[0].start + pair[0].len > pair[1].start)
}

/// Appends the value of `Content-Range` for a range (§14.4).
pub fn write_content_range(out: &mut Vec<u8>, span: Span, len: u64) {
    let last = span.start + span.len - 1;
    write!(out, "bytes {}-{last}/{len}", span.start).expect("writing to a Vec cannot fail");
}

/// Appends the value of `Content-Range` for 416 (§15.5.17).
pub fn write_unsatisfied_range(out: &mut Vec<u8>, len: u64) {
    write!(out, "bytes */{len}").expect("writing to a Vec cannot fail");
}

/// A body with several parts (§14.6): heads in memory, and spans of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultipartRanges {
    /// The parts in order: each head is followed by its span.
    pub parts: Vec<(Bytes, Span)>,
    /// The bytes after the last part.
    pub tail: Bytes,
    /// The total length: `Content-Length`.
    pub len: u64,
}

impl MultipartRanges {
    /// Frames `spans` of a file of `len` bytes; `fields` are added to each part, such as
    /// `Content-Type`. The boundary must not occur in the file.
    pub fn new<'a>(
        spans: &[Span],
        len: u64,
        fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone,
        boundary: &str,
    ) -> Self {
        let mut total = 0;
        let frame = |(at, span): (usize, &Span)| {
            let mut head = Vec::with_capacity(PART_HEAD_CAPACITY);
            let line_end = if at == 0 { "" } else { "\r\n" };
            head.extend_from_slice(format!("{line_end}--{boundary}\r\n").as_bytes());
            for (name, value) in fields.clone() {
                head.extend_from_slice(&[name.as_bytes(), b": ", value, b"\r\n"].concat());
            }
            head.extend_from_slice(b"Content-Range: ");
            write_content_range(&mut head, *span, len);
            head.extend_from_slice(b"\r\n\r\n");
            total += head.len() as u64 + span.len;
            (Bytes::from(head), *span)
        };
        let parts = spans.iter().enumerate().map(frame).collect();
        let tail = Bytes::from(format!("\r\n--{boundary}--\r\n"));
        Self { len: total + tail.len() as u64, parts, tail }
    }
}

/// Maximum number of ranges; requests with more are attacks, or better served with the whole file.
pub const RANGES_LEN_MAX: usize = 64;

/// Units are compared without case (§14.1).
const BYTES_UNIT: &[u8] = b"bytes=";
const PART_HEAD_CAPACITY: usize = 192;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Shows `w` for the whole, `u` for unsatisfiable, otherwise `start+len` of each range.
    fn show(value: &str, len: u64) -> String {
        let span = |span: &Span| format!("{}+{}", span.start, span.len);
        match select(value.as_bytes(), len) {
            Selection::Whole => "w".to_owned(),
            Selection::Unsatisfiable => "u".to_owned(),
            Selection::One(one) => span(&one),
            Selection::Several(spans) => spans.iter().map(span).collect::<Vec<_>>().join(" "),
        }
    }

    #[test]
    fn ranges_are_parsed_strictly() {
        for (value, selection) in [
            ("bytes=0-0", "0+1"),
            ("bytes=0-499", "0+500"),
            ("bytes=500-999", "500+500"),
            ("bytes=500-", "500+500"),
            ("bytes=0-", "0+1000"),
            ("bytes=-500", "500+500"),
            ("bytes=-1", "999+1"),
            ("bytes=-5000", "0+1000"),
            ("bytes=999-5000", "999+1"),
            ("bytes=0-99999999999999999999999999", "0+1000"),
            ("bytes=-99999999999999999999999999", "0+1000"),
            ("BYTES=0-0", "0+1"),
            ("bytes=00-001", "0+2"),
            // Several.
            ("bytes=0-0,-1", "0+1 999+1"),
            ("bytes=500-600, 601-999", "500+101 601+399"),
            ("bytes=900-, 0-99", "900+100 0+100"),
            ("bytes=0-0 ,\t, 5-6,", "0+1 5+2"),
            ("bytes=0-0,1000-", "0+1"),
            // Ignored: overlaps.
            ("bytes=0-10,10-20", "w"),
            ("bytes=0-,0-", "w"),
            ("bytes=5-5,0-999", "w"),
            // Unsatisfiable.
            ("bytes=1000-", "u"),
            ("bytes=1000-2000,3000-", "u"),
            ("bytes=-0", "u"),
            ("bytes=-000", "u"),
            ("bytes=99999999999999999999999999-", "u"),
            // Malformed.
            ("bytes=", "w"),
            ("bytes=,", "w"),
            ("bytes=-", "w"),
            ("bytes=5", "w"),
            ("bytes=5-4", "w"),
            ("bytes=0-0,5-4", "w"),
            ("bytes=a-b", "w"),
            ("bytes=+0-1", "w"),
            ("bytes=0x0-1", "w"),
            ("bytes=0-1-2", "w"),
            ("bytes=--1", "w"),
            ("bytes=0 - 1", "w"),
            ("bytes= 0-1", "w"),
            ("bytes =0-1", "w"),
            ("bytes:0-1", "w"),
            ("lines=0-1", "w"),
            ("", "w"),
        ] {
            assert_eq!(show(value, 1000), selection, "{value}");
        }
    }

    #[test]
    fn an_empty_file_has_no_parts() {
        assert_eq!(show("bytes=0-", 0), "u");
        assert_eq!(show("bytes=0-0", 0), "u");
        assert_eq!(show("bytes=-1", 0), "w");
        assert_eq!(show("bytes=-0", 0), "u");
    }

    #[test]
    fn too_many_ranges_are_the_whole() {
        let many = |n: u64| {
            let spec: Vec<_> = (0..n).map(|i| format!("{}-{}", i * 2, i * 2)).collect();
            format!("bytes={}", spec.join(","))
        };
        assert_eq!(show(&many(64), 1000).split(' ').count(), RANGES_LEN_MAX);
        assert_eq!(show(&many(65), 1000), "w");
    }

    #[test]
    fn content_ranges() {
        let mut out = Vec::new();
        write_content_range(&mut out, Span { start: 42, len: 1192 }, 1234);
        out.push(b' ');
        write_unsatisfied_range(&mut out, 1234);
        assert_eq!(out, b"bytes 42-1233/1234 bytes */1234");
    }

    #[test]
    fn parts_are_framed() {
        let spans = [Span { start: 0, len: 2 }, Span { start: 5, len: 3 }];
        let multipart = MultipartRanges::new(
            &spans,
            10,
            [("Content-Type", &b"text/plain"[..])].into_iter(),
            "B",
        );
        let mut body = Vec::new();
        for (head, span) in &multipart.parts {
            let digit = |at: u64| b'0' + u8::try_from(at).unwrap();
            body.extend_from_slice(head);
            body.extend((span.start..span.start + span.len).map(digit));
        }
        body.extend_from_slice(&multipart.tail);
        let expected = "--B\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/10\r\n\r\n01\
                        \r\n--B\r\nContent-Type: text/plain\r\n\
                        Content-Range: bytes 5-7/10\r\n\r\n567\
                        \r\n--B--\r\n";
        assert_eq!(body, expected.as_bytes());
        assert_eq!(multipart.len, body.len() as u64);
    }

    proptest! {
        #[test]
        fn ranges_are_inside_the_file(
            specs in proptest::collection::vec("[0-9]{0,4}-[0-9]{0,4}", 1..6), len in 0_u64..5000,
        ) {
            let spans = match select(format!("bytes={}", specs.join(",")).as_bytes(), len) {
                Selection::One(span) => vec![span],
                Selection::Several(spans) => spans,
                Selection::Whole | Selection::Unsatisfiable => vec![],
            };
            for span in &spans {
                prop_assert!(span.len > 0 && span.start + span.len <= len);
            }
            prop_assert!(spans.iter().map(|span| span.len).sum::<u64>() <= len);
        }

        #[test]
        fn random_bytes_are_parsed(value: Vec<u8>, len: u64) {
            select(&[b"bytes=", &value[..]].concat(), len);
            select(&value, len);
        }
    }
}
