//! Integers and addresses in HAProxy's syntax.

use std::net::IpAddr;

/// The number at the start of a text: a sign and digits; 0 without a digit. Large numbers saturate.
pub(crate) fn leading_int(text: &[u8]) -> i64 {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let mut value = 0i64;
    for digit in digits.iter().map(|byte| i64::from(byte.wrapping_sub(b'0'))) {
        if digit > 9 {
            break;
        }
        let signed = if negative { -digit } else { digit };
        value = value.saturating_mul(10).saturating_add(signed);
    }
    value
}

/// The address in a text. After IPv4, other text may follow.
pub(crate) fn leading_address(text: &[u8]) -> Option<IpAddr> {
    let is_dotted = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let end = text.iter().position(|byte| !is_dotted(byte)).unwrap_or(text.len());
    let address = |text| str::from_utf8(text).ok();
    let v4 = || Some(IpAddr::V4(address(&text[..end])?.parse().ok()?));
    v4().or_else(|| Some(IpAddr::V6(address(text)?.parse().ok()?)))
}
