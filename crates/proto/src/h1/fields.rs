//! Field lines: `field-name ":" OWS field-value OWS CRLF`, up to a blank line (RFC 9112 §5).
//!
//! One pass takes them apart, proves every byte and finds where the section ends; what the fields
//! mean is noted by `parse`. Nothing is repaired: no blank before the colon, no folded line, no
//! line end but CR LF.

use crate::head::{is_tchar, text_len, trim_ows};

/// A field line, taken apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub(super) name: &'a [u8],
    /// Without the blanks around it.
    pub(super) value: &'a [u8],
    /// Where the value begins in the section.
    pub(super) value_at: usize,
    /// Where the next line does.
    pub(super) next: usize,
}

/// The content of a section at a position.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece<'a> {
    Line(Line<'a>),
    /// The blank line, and where it ends.
    End(usize),
    /// Neither of them, or not all of it.
    Bad,
}

/// What begins at `start`, which is the first byte of a line.
#[inline(always)] // the one loop over all lines of a head
pub(super) fn piece(section: &[u8], start: usize) -> Piece<'_> {
    let line = &section[start..];
    let (name, rest) = line.split_at(token_len(line));
    let [b':', rest @ ..] = rest else {
        let blank = name.is_empty() && rest.starts_with(b"\r\n");
        return if blank { Piece::End(start + 2) } else { Piece::Bad };
    };
    let (value, rest) = rest.split_at(text_len(rest));
    if name.is_empty() || !rest.starts_with(b"\r\n") {
        return Piece::Bad;
    }
    let value_at = start + name.len() + 1;
    let next = value_at + value.len() + 2;
    let (blanks, value) = trimmed(value);
    Piece::Line(Line { name, value, value_at: value_at + blanks, next })
}

/// The number of blanks in front of a text, and the text without the blanks around it. Of text,
/// only blanks are as low as SP. Most values have one SP in front, and no other.
#[inline(always)]
fn trimmed(text: &[u8]) -> (usize, &[u8]) {
    match text {
        [b' ', value @ ..] if value.first() > Some(&b' ') && value.last() > Some(&b' ') => {
            (1, value)
        }
        _ => trimmed_slowly(text),
    }
}

#[cold]
fn trimmed_slowly(text: &[u8]) -> (usize, &[u8]) {
    let blanks = text.iter().position(|b| *b > b' ').unwrap_or(text.len());
    (blanks, trim_ows(&text[blanks..]))
}

/// The number of leading bytes of a token.
#[inline(always)]
fn token_len(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (at, word) in (0..).step_by(8).zip(words) {
        if let Some(n) = word.iter().position(|b| !is_tchar(*b)) {
            return at + n;
        }
    }
    let len = rest.iter().position(|b| !is_tchar(*b)).unwrap_or(rest.len());
    bytes.len() - rest.len() + len
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Where a section ends, and its fields.
    type Section<'a> = (usize, Vec<(&'a [u8], &'a [u8])>);

    fn ours(section: &[u8]) -> Option<Section<'_>> {
        let (mut at, mut fields) = (0, Vec::new());
        loop {
            match piece(section, at) {
                Piece::Line(line) => {
                    assert!(section[line.value_at..].starts_with(line.value));
                    fields.push((line.name, line.value));
                    at = line.next;
                }
                Piece::End(end) => return Some((end, fields)),
                Piece::Bad => return None,
            }
        }
    }

    /// The same by another parser, which takes bare LF besides.
    fn theirs(section: &[u8]) -> Option<Section<'_>> {
        let mut found = [httparse::EMPTY_HEADER; 64];
        let Ok(httparse::Status::Complete((end, found))) =
            httparse::parse_headers(section, &mut found)
        else {
            return None;
        };
        let mut ends = section[..end].iter().enumerate().filter(|(_, b)| **b == b'\n');
        if !ends.all(|(at, _)| at > 0 && section[at - 1] == b'\r') {
            return None;
        }
        Some((end, found.iter().map(|field| (field.name.as_bytes(), field.value)).collect()))
    }

    const PIECES: &[&[u8]] = &[
        b"\r\n",
        b"\r\n",
        b"\r\n",
        b"\r\n\r\n",
        b"Name: value\r\n",
        b"Other:value \t\r\n",
        b"text that is longer than a word",
        b"Host",
        b"a",
        b": ",
        b":",
        b" ",
        b"\t",
        b"/",
        b"\"",
        b"\r",
        b"\n",
        b"\0",
        b"\x0b",
        b"\x1f",
        b"\x7f",
        b"\x80\xff",
    ];

    proptest! {
        #[test]
        fn what_is_taken_is_what_a_well_kept_parser_takes(
            section in prop::collection::vec(
                prop::sample::select(PIECES),
                0..12,
            ).prop_map(|pieces| pieces.concat()),
        ) {
            prop_assert_eq!(ours(&section), theirs(&section));
        }

        #[test]
        fn any_byte_anywhere_in_a_line_is_judged_as_by_that_parser(
            at in 0..40_usize, byte in any::<u8>(), other in 0..40_usize, another in any::<u8>(),
        ) {
            let mut section = b"Some-Name: \t a value, and more of it \t\r\n\r\nrest".to_vec();
            section[at] = byte;
            section[other] = another;
            prop_assert_eq!(ours(&section), theirs(&section));
        }
    }
}
