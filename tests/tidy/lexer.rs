//! Code and comments of Rust, without a parser.

use super::is_word;

/// The text with comments and the insides of strings blanked out: every byte keeps its place.
pub(super) fn code_of(text: &str) -> String {
    let mut out = text.as_bytes().to_vec();
    for (at, len) in literals(text) {
        out[at..at + len].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The line comments, with the numbers of their lines.
pub(super) fn comments_of(text: &str) -> Vec<(usize, &str)> {
    let (mut line, mut from) = (1, 0);
    let mut found = Vec::new();
    for (at, len) in literals(text).filter(|(at, _)| text[*at..].starts_with("//")) {
        line += text[from..at].matches('\n').count();
        from = at;
        found.push((line, &text[at..at + len]));
    }
    found
}

/// Where comments and literals begin, and their lengths.
fn literals(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let start = at;
            let len = blank_len(&bytes[at..], at > 0 && is_word(char::from(bytes[at - 1])));
            at += len.unwrap_or(1).max(1);
            if let Some(len) = len {
                return Some((start, len));
            }
        }
        None
    })
}

/// The length of the comment or literal that begins here, if one does.
fn blank_len(rest: &[u8], in_word: bool) -> Option<usize> {
    let until = |end: &[u8], from: usize| {
        let found = rest[from..].windows(end.len()).position(|window| window == end);
        found.map_or(rest.len(), |at| from + at + end.len())
    };
    match rest {
        [b'/', b'/', ..] => rest.iter().position(|byte| *byte == b'\n').or(Some(rest.len())),
        [b'/', b'*', ..] => Some(until(b"*/", 2)),
        [b'"', ..] => Some(quoted_len(rest, b'"')),
        [b'r', b'"' | b'#', ..] if !in_word => {
            let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
            let opens = rest.get(1 + hashes) == Some(&b'"');
            let end = [&b"\""[..], &b"#".repeat(hashes)].concat();
            opens.then(|| until(&end, 2 + hashes))
        }
        [b'\'', b'\\', ..] => Some(quoted_len(rest, b'\'')),
        [b'\'', ..] => {
            let char_len = std::str::from_utf8(&rest[1..rest.len().min(5)])
                .map_or_else(|error| error.valid_up_to(), str::len);
            let text = std::str::from_utf8(&rest[1..=char_len]).unwrap_or_default();
            let len = text.chars().next()?.len_utf8();
            (rest.get(1 + len) == Some(&b'\'')).then_some(len + 2)
        }
        _ => None,
    }
}

fn quoted_len(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}
