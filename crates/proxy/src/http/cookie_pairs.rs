//! The pairs of a `Cookie` field, and the first pair of a `Set-Cookie` field, as HAProxy parses
//! them: blanks around `=` are ignored, a comma separates like a semicolon, and quotes protect
//! both.
//!
//! Pure: the value of a field in, the changed one out.

use fulmar_haproxy::rules::part_len;

/// A part between two separators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CookiePair<'a> {
    /// Without blanks; the whole part if there is no `=`.
    pub(super) name: &'a [u8],
    /// Without blanks; `None`: there is no `=`.
    pub(super) value: Option<&'a [u8]>,
    /// The pair as received, with its blanks.
    whole: &'a [u8],
    /// From the separator on.
    pub(super) rest: &'a [u8],
}

impl<'a> CookiePair<'a> {
    /// The first one.
    pub(super) fn first(text: &'a [u8]) -> Self {
        let equals = text.iter().position(|byte| *byte == b'=' || SEPARATORS.contains(byte));
        let (name, value, end) = match equals {
            Some(at) if text[at] == b'=' => {
                let end = at + 1 + part_len(&text[at + 1..], SEPARATORS);
                (&text[..at], Some(text[at + 1..end].trim_ascii()), end)
            }
            other => {
                let end = other.unwrap_or(text.len());
                (&text[..end], None, end)
            }
        };
        Self { name: name.trim_ascii(), value, whole: &text[..end], rest: &text[end..] }
    }

    /// Appends the pair with another value; the blanks after it are kept.
    pub(super) fn write(&self, value: &[u8], text: &mut Vec<u8>) {
        text.extend_from_slice(self.name);
        text.push(b'=');
        text.extend_from_slice(value);
        text.extend_from_slice(&self.whole[self.whole.trim_ascii_end().len()..]);
    }
}

/// A change of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PairChange<'a> {
    /// It is kept.
    Nothing,
    /// It gets this value.
    Value(&'a [u8]),
    /// It is removed with its attributes (`$Path`), which follow it.
    Removed,
}

/// Applies `change` to every value of this name. `None`: nothing has changed. The result may be
/// empty.
pub(super) fn revise<'a>(
    field: &'a [u8],
    name: &[u8],
    mut change: impl FnMut(&'a [u8]) -> PairChange<'a>,
) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(field.len());
    let mut separator = None;
    let (mut rest, mut removed) = (field, false);
    loop {
        let pair = CookiePair::first(rest);
        let is_attribute = pair.name.starts_with(b"$");
        let change = match pair.value {
            _ if is_attribute && removed => PairChange::Removed,
            Some(value) if pair.name == name && !is_attribute => change(value),
            _ => PairChange::Nothing,
        };
        if change == PairChange::Removed {
            removed = true;
        } else {
            append(&mut text, separator, std::mem::take(&mut removed), pair, change);
        }
        let Some((next, tail)) = pair.rest.split_first() else { break };
        (separator, rest) = (Some(*next), tail);
    }
    let text = text.trim_ascii();
    (text != field).then(|| text.to_vec())
}

/// Appends a pair; `removed`: the pairs before it were removed, and so are their blanks.
fn append(
    text: &mut Vec<u8>,
    separator: Option<u8>,
    removed: bool,
    pair: CookiePair<'_>,
    change: PairChange<'_>,
) {
    if removed {
        text.truncate(text.trim_ascii_end().len());
    }
    match separator {
        Some(_) if removed && text.is_empty() => {}
        Some(mark) if removed => text.extend_from_slice(&[mark, b' ']),
        separator => text.extend(separator),
    }
    let start = if removed { 0 } else { pair.whole.len() - pair.whole.trim_ascii_start().len() };
    text.extend_from_slice(&pair.whole[..start]);
    match change {
        PairChange::Value(value) => pair.write(value, text),
        _ => text.extend_from_slice(pair.whole.trim_ascii_start()),
    }
}

/// Separators of pairs.
const SEPARATORS: &[u8] = b";,";

#[cfg(test)]
mod tests {
    use super::*;

    fn revised<'a>(field: &'a str, change: impl FnMut(&'a [u8]) -> PairChange<'a>) -> String {
        let text = revise(field.as_bytes(), b"S", change);
        text.map_or_else(|| "-".into(), |text| String::from_utf8(text).unwrap())
    }

    /// The results of HAProxy 2.6.
    #[test]
    fn removing_a_pair_keeps_the_others() {
        for (field, left) in [
            ("", "-"),
            ("a=1", "-"),
            ("AS=1;;  b = \"x; S=1\";", "-"),
            ("S", "-"),
            ("S=1", ""),
            (";S=1", ""),
            ("S=1; a=1;", "a=1;"),
            ("a=1;S=1;b=2", "a=1; b=2"),
            ("a=1; S = 1 ; c=3", "a=1; c=3"),
            ("a=1,S=1", "a=1"),
            ("a=1 ;S=1,b=2;;c", "a=1, b=2;;c"),
            ("S=1; $Path=/; a=2; $Path=/x", "a=2; $Path=/x"),
            ("a=1; S=\"x;\\\";\"; S=2;b", "a=1; b"),
        ] {
            assert_eq!(revised(field, |_| PairChange::Removed), left, "{field}");
        }
    }

    #[test]
    fn each_pair_is_changed_separately() {
        let cut = |value: &'static [u8]| PairChange::Value(&value[1..]);
        assert_eq!(revised("S=xa;  S = yb ;c", cut), "S=a;  S=b ;c");
        assert_eq!(revised("S=x", cut), "S=");
        assert_eq!(revised("S=x ;", cut), "S= ;");
    }

    #[test]
    fn the_first_pair_has_its_rest() {
        let pair = CookiePair::first(b" S =a b; path=/");
        assert_eq!((pair.name, pair.value), (&b"S"[..], Some(&b"a b"[..])));
        assert_eq!(pair.rest, b"; path=/");
        assert_eq!(CookiePair::first(b"S;x=1").value, None);
    }
}
