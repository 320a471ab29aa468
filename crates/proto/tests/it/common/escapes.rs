//! Bytes as text in the tables of tests.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::fmt::Write as _;

/// The bytes of a text with `\r \n \t \0 \s \xNN`, and `{a*300}` for three hundred times `a`.
pub(crate) fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let mut used = first.len_utf8();
        match first {
            '\\' => {
                used = 2;
                match rest.as_bytes()[1] {
                    b'r' => out.push(b'\r'),
                    b'n' => out.push(b'\n'),
                    b't' => out.push(b'\t'),
                    b'0' => out.push(0),
                    b's' => out.push(b' '),
                    b'x' => {
                        used = 4;
                        out.push(u8::from_str_radix(&rest[2..4], 16).expect("two hex digits"));
                    }
                    other => out.push(other),
                }
            }
            '{' if rest.contains('*') => {
                let (what, count) = rest[1..].split_once('*').expect("{what*count}");
                let (count, _) = count.split_once('}').expect("{what*count}");
                used = what.len() + count.len() + 3;
                let count = count.parse().expect("a count");
                out.extend(unescape(what).repeat(count));
            }
            _ => out.extend_from_slice(&rest.as_bytes()[..used]),
        }
        rest = &rest[used..];
    }
    out
}

/// Reverts [`unescape`]; of more than 200 characters it returns the number of bytes.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut out = String::new();
    for byte in bytes {
        match byte {
            b'\r' => out.push_str("\\r"),
            b'\n' => out.push_str("\\n"),
            b' '..=b'~' => out.push((*byte).into()),
            _ => write!(out, "\\x{byte:02x}").expect("a String grows"),
        }
    }
    if out.len() > 200 { format!("<{}>", bytes.len()) } else { out }
}
