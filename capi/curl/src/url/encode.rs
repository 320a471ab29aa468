//! Encodings of parts, and characters that no part may contain.

use crate::escape::{encoded_byte, is_unreserved, push_encoded};

use super::UrlFlags;

/// True for control characters, and for a space unless it is allowed.
pub(super) fn has_junk(part: &[u8], flags: UrlFlags) -> bool {
    let allows_space = flags.contains(UrlFlags::ALLOW_SPACE);
    part.iter().any(|byte| byte.is_ascii_control() || (*byte == b' ' && !allows_space))
}

/// Encodes what a URL cannot contain at all: bytes above ASCII, and spaces, as `+` in a query.
///
/// `in_query` is true if the text is in a query from its beginning; otherwise from its first `?`.
pub(super) fn encode_invalid(text: &[u8], mut in_query: bool) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(text.len());
    for &byte in text {
        in_query |= byte == b'?';
        match byte {
            b' ' if in_query => encoded.push(b'+'),
            b' ' => encoded.extend(b"%20"),
            0x80.. => push_encoded(&mut encoded, byte, LOWER),
            byte => encoded.push(byte),
        }
    }
    encoded
}

/// How [`encode_part`] treats characters that have a meaning in a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PartEncoding {
    /// A space becomes `+`.
    pub(super) plus: bool,
    /// A `/` stays as it is.
    pub(super) keeps_slashes: bool,
    /// The first `=` stays as it is.
    pub(super) keeps_equals_sign: bool,
}

/// Encodes a part that is set on its own: everything but unreserved characters.
pub(super) fn encode_part(part: &[u8], mut encoding: PartEncoding) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(part.len());
    for &byte in part {
        match byte {
            b' ' if encoding.plus => encoded.push(b'+'),
            b'/' if encoding.keeps_slashes => encoded.push(byte),
            b'=' if encoding.keeps_equals_sign => {
                encoding.keeps_equals_sign = false;
                encoded.push(byte);
            }
            byte if is_unreserved(byte) => encoded.push(byte),
            byte => push_encoded(&mut encoded, byte, LOWER),
        }
    }
    encoded
}

/// Converts the digits of percent codes to lower case.
pub(super) fn lower_codes(mut part: Vec<u8>) -> Vec<u8> {
    let mut at = 0;
    while at < part.len() {
        if encoded_byte(&part[at..]).is_some() {
            part[at..at + 3].make_ascii_lowercase();
            at += 3;
        } else {
            at += 1;
        }
    }
    part
}

const LOWER: &[u8; 16] = b"0123456789abcdef";
