//! Hexadecimal digits.

/// Decodes hexadecimal digits.
pub(crate) fn unhex(digits: &[u8]) -> Result<Vec<u8>, String> {
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
        let text = String::from_utf8_lossy(digits);
        return Err(format!("'{text}' is not an even number of hexadecimal digits"));
    }
    Ok(pairs.iter().map(|[high, low]| hex_digit(*high) << 4 | hex_digit(*low)).collect())
}

/// The value of a hexadecimal digit.
pub(crate) fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}
