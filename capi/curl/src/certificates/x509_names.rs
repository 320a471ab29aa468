//! Distinguished names in the two forms that OpenSSL prints.

use super::der::{DerItem, items, sequence};
use super::object_names::short_name;

/// `C = SE, O = "Example, Inc."`: of a subject or issuer (RFC 4514, but with spaces, quotes, and in
/// the order of the certificate). `None` if the name is malformed.
pub(super) fn one_line(der: &[u8]) -> Option<Vec<u8>> {
    line_of(der, ", ", " = ", |line, value| line.extend(escaped(value)))
}

/// `C=SE; O=Example`: in verbose output, without quotes.
pub(super) fn plain_line(der: &[u8]) -> Option<Vec<u8>> {
    line_of(der, "; ", "=", |line, value| line.extend_from_slice(value.data))
}

/// Each attribute with `equals` before its value; `separator` is between the sets of attributes, a
/// plus sign between those of one set.
fn line_of(
    der: &[u8],
    separator: &str,
    equals: &str,
    write_value: impl Fn(&mut Vec<u8>, &DerItem<'_>),
) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    for set in sequence(der)? {
        for (nth, attribute) in items(set.data)?.iter().enumerate() {
            let (name, value) = attribute_of(attribute)?;
            line.extend_from_slice(match (line.is_empty(), nth) {
                (true, _) => b"",
                (false, 0) => separator.as_bytes(),
                (false, _) => b" + ",
            });
            line.extend_from_slice(name.as_bytes());
            line.extend_from_slice(equals.as_bytes());
            write_value(&mut line, &value);
        }
    }
    Some(line)
}

/// `/C=SE/O=Example`: within lists of names. Attributes that do not fit are left out.
pub(super) fn slash_line(der: &[u8]) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    for set in sequence(der)? {
        for (nth, attribute) in items(set.data)?.iter().enumerate() {
            let (name, value) = attribute_of(attribute)?;
            let begin = if nth == 0 { '/' } else { '+' };
            let mut added = format!("{begin}{name}=").into_bytes();
            for byte in value.data {
                match byte {
                    b' '..=b'~' if b"/+".contains(byte) => added.extend([b'\\', *byte]),
                    b' '..=b'~' => added.push(*byte),
                    _ => added.extend(format!("\\x{byte:02X}").into_bytes()),
                }
            }
            if line.len() + added.len() > SLASH_LINE_MAX {
                return Some(line);
            }
            line.extend(added);
        }
    }
    Some(line)
}

/// Its name and value.
fn attribute_of<'a>(attribute: &DerItem<'a>) -> Option<(String, DerItem<'a>)> {
    match items(attribute.data)?[..] {
        [name, value] => Some((short_name(name.data), value)),
        _ => None,
    }
}

/// The value of an attribute. Types that are no strings are dumped.
fn escaped(value: &DerItem<'_>) -> Vec<u8> {
    let utf8 = match value.universal {
        Some(12) => value.data.to_vec(),
        Some(18 | 19 | 20 | 22 | 23 | 24 | 26) => in_utf8(value.data, 1),
        Some(28) => in_utf8(value.data, 4),
        Some(30) => in_utf8(value.data, 2),
        _ => return format!("#{}", super::der::hex(value.whole, "", "")).into_bytes(),
    };
    let mut text = Vec::new();
    let mut needs_quotes = false;
    for (at, byte) in utf8.iter().enumerate() {
        let is_last = at + 1 == utf8.len();
        let is_first = at == 0 && !is_last;
        match byte {
            b'"' | b'\\' => text.extend([b'\\', *byte]),
            0..0x20 | 0x7f.. => text.extend(format!("\\{byte:02X}").into_bytes()),
            b'+' | b',' | b';' | b'<' | b'>' => needs_quotes = true,
            b' ' if is_first || is_last => needs_quotes = true,
            b'#' if is_first => needs_quotes = true,
            _ => {}
        }
        if (0x20..0x7f).contains(byte) && !b"\"\\".contains(byte) {
            text.push(*byte);
        }
    }
    match needs_quotes {
        true => [b"\"", &text[..], b"\""].concat(),
        false => text,
    }
}

/// Characters of so many bytes each.
fn in_utf8(data: &[u8], width: usize) -> Vec<u8> {
    let codes =
        data.chunks(width).map(|char| char.iter().fold(0, |code, b| code << 8 | u32::from(*b)));
    let chars = codes.map(|code| char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
    chars.collect::<String>().into_bytes()
}

/// OpenSSL's buffer, without the NUL.
const SLASH_LINE_MAX: usize = 255;
