//! Percent-encoding, as `curl_easy_escape` and `curl_easy_unescape` do it.
//!
//! Only the unreserved characters (RFC 3986 §2.3) stay as they are. Decoding accepts everything:
//! a `%` without two hexadecimal digits behind it is an ordinary character.

/// How long the input of a C function is, by its argument `length`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputLen {
    /// Up to the first NUL.
    UpToNul,
    /// This many bytes, NULs included.
    Bytes(usize),
}

impl InputLen {
    /// Returns `None` for a negative length, for which the functions return NULL.
    #[must_use]
    pub fn of(length: i32) -> Option<Self> {
        match usize::try_from(length) {
            Ok(0) => Some(Self::UpToNul),
            Ok(len) => Some(Self::Bytes(len)),
            Err(_) => None,
        }
    }
}

/// Encodes all bytes except for unreserved characters, with upper-case digits.
///
/// Returns `None` if the result were longer than [`ESCAPED_LEN_MAX`].
#[must_use]
pub fn escape(bytes: &[u8]) -> Option<Vec<u8>> {
    let encoded = bytes.iter().filter(|byte| !is_unreserved(**byte)).count();
    let len = bytes.len().saturating_add(encoded.saturating_mul(2));
    if len > ESCAPED_LEN_MAX {
        return None;
    }
    let mut escaped = Vec::with_capacity(len);
    for &byte in bytes {
        if is_unreserved(byte) {
            escaped.push(byte);
        } else {
            push_encoded(&mut escaped, byte, b"0123456789ABCDEF");
        }
    }
    Some(escaped)
}

/// Decodes `%` and two hexadecimal digits; everything else stays as it is, also `+`.
#[must_use]
pub fn unescape(bytes: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [byte, after @ ..] = rest {
        let encoded = encoded_byte(rest);
        decoded.push(encoded.unwrap_or(*byte));
        rest = if encoded.is_some() { &rest[3..] } else { after };
    }
    decoded
}

/// As [`unescape`], but returns `None` if a decoded byte is a control character below space: what
/// `CURLU_URLDECODE`, user names and passwords need.
#[must_use]
pub fn unescape_text(bytes: &[u8]) -> Option<Vec<u8>> {
    let decoded = unescape(bytes);
    decoded.iter().all(|byte| *byte >= b' ').then_some(decoded)
}

/// True for letters, digits, and `-._~`.
pub(crate) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Adds `%` and the digits of a byte.
pub(crate) fn push_encoded(text: &mut Vec<u8>, byte: u8, digits: &[u8; 16]) {
    let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
    text.extend([b'%', digits[high], digits[low]]);
}

/// The byte that the first three characters encode.
pub(crate) fn encoded_byte(text: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = *text else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

/// The longest result of [`escape`]: what 8,000,000 bytes of input can become, without its NUL.
pub const ESCAPED_LEN_MAX: usize = 23_999_999;
