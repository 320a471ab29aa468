//! Regular expressions. Written for PCRE, run by an engine with time linear in the length of the
//! text: look-around and back-references are not supported, and are errors.

use regex::bytes;

use crate::rules::hex::hex_digit;

/// A compiled regex.
#[derive(Clone, Debug)]
pub struct Regex(bytes::Regex);

impl Regex {
    /// Compiles a regex.
    ///
    /// # Errors
    /// The regex is invalid, too large, or not supported.
    pub fn new(text: &str, ignore_case: bool) -> Result<Self, String> {
        let compiled = bytes::RegexBuilder::new(&translate(text))
            .unicode(false)
            .case_insensitive(ignore_case)
            .size_limit(SIZE_MAX)
            .dfa_size_limit(SIZE_MAX)
            .build();
        match compiled {
            Ok(regex) => Ok(Self(regex)),
            Err(error) => Err(format!("regex '{text}' is invalid: {}", last_line(&error))),
        }
    }

    /// True if the text contains a match.
    pub fn is_match(&self, text: &[u8]) -> bool {
        self.0.is_match(text)
    }

    /// The groups of the first match; the first is the whole match.
    pub fn captures<'t>(&self, text: &'t [u8]) -> Option<bytes::Captures<'t>> {
        self.0.captures(text)
    }

    /// The same at or after `start`.
    pub(crate) fn captures_at<'t>(
        &self,
        text: &'t [u8],
        start: usize,
    ) -> Option<bytes::Captures<'t>> {
        self.0.captures_at(text, start)
    }
}

/// Writes `template` with `\1` replaced by the group with this number; `\\` is a backslash, and
/// `\x41` a byte.
pub fn expand(template: &[u8], groups: &bytes::Captures<'_>, out: &mut Vec<u8>) {
    let mut rest = template;
    loop {
        match rest {
            [b'\\', digit @ b'0'..=b'9', tail @ ..] => {
                let group = groups.get(usize::from(digit - b'0'));
                out.extend_from_slice(group.map_or(&b""[..], |group| group.as_bytes()));
                rest = tail;
            }
            [b'\\', b'x', high, low, tail @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                out.push(hex_digit(*high) << 4 | hex_digit(*low));
                rest = tail;
            }
            [b'\\', other, tail @ ..] => {
                out.push(*other);
                rest = tail;
            }
            [byte, tail @ ..] => {
                out.push(*byte);
                rest = tail;
            }
            [] => return,
        }
    }
}

/// Escapes what PCRE treats as literal and our engine does not: `[`, `&` and `~` in a class, and a
/// brace that does not begin a repetition.
fn translate(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut in_class = false;
    let mut class_began = false;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        let rest = &text[at + c.len_utf8()..];
        let first = std::mem::take(&mut class_began);
        match c {
            '\\' => {
                out.push(c);
                out.extend(chars.next().map(|(_, c)| c));
            }
            '[' if !in_class => {
                in_class = true;
                class_began = true;
                out.push(c);
            }
            '^' if in_class && first => {
                class_began = true;
                out.push(c);
            }
            ']' if in_class && !first => {
                in_class = false;
                out.push(c);
            }
            '[' if named_class(rest) > 0 => {
                out.push(c);
                out.extend(chars.by_ref().take(named_class(rest)).map(|(_, c)| c));
            }
            '[' | '&' | '~' if in_class => out.extend(['\\', c]),
            '{' if !in_class && !is_repetition(rest) => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}

/// Length of `:alpha:]`, or 0.
fn named_class(rest: &str) -> usize {
    let name = rest.strip_prefix(':').and_then(|rest| rest.split_once(":]"));
    match name {
        Some((name, _)) if name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'^') => {
            name.len() + 3
        }
        _ => 0,
    }
}

/// `3}`, `3,}` or `3,5}`.
fn is_repetition(rest: &str) -> bool {
    let Some((inside, _)) = rest.split_once('}') else { return false };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match inside.split_once(',') {
        None => is_number(inside),
        Some((from, to)) => is_number(from) && (to.is_empty() || is_number(to)),
    }
}

fn last_line(error: &regex::Error) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// Memory limit of a compiled regex in bytes: the engine's default.
const SIZE_MAX: usize = 2 << 20;
