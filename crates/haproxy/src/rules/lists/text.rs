//! The lines of a file of entries, and their values.

use crate::rules::sample::{Sample, Type};

/// Parses a whole value of a type.
pub(super) fn typed(value: &[u8], to: Type) -> Option<Sample<'static>> {
    let text = || str::from_utf8(value).ok();
    match to {
        Type::Int => text()?.parse().ok().map(Sample::Int),
        Type::Address => text()?.parse().ok().map(Sample::Address),
        to => Sample::text(value).into_owned().cast(to),
    }
}

/// The lines that are not empty or comments, without leading blanks, and their numbers.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let lines = text.split(|byte| *byte == b'\n').zip(1..);
    lines.filter(|(line, _)| line.first() != Some(&b'#')).filter_map(|(line, number)| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let begin = line.iter().position(|byte| !is_blank(*byte))?;
        Some((number, &line[begin..]))
    })
}

/// The first word, and the text after the following blanks.
pub(super) fn pair(line: &[u8]) -> (&[u8], &[u8]) {
    let end = line.iter().position(|byte| is_blank(*byte)).unwrap_or(line.len());
    (&line[..end], line[end..].trim_ascii())
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}
