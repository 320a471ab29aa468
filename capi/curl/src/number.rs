//! Numbers at the beginning of a text, as libcurl reads them.

/// Why there is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberError {
    /// There is no digit, or a minus before it.
    Missing,
    /// It is more than `i64::MAX`.
    Overflow,
}

/// The decimal number at the beginning, after blanks and an optional `+`. What follows it is
/// ignored.
pub(crate) fn leading_number(text: &[u8]) -> Result<i64, NumberError> {
    let first = text.iter().position(|byte| !matches!(byte, b' ' | b'\t')).unwrap_or(text.len());
    let text = &text[first..];
    let text = text.strip_prefix(b"+").unwrap_or(text);
    let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if len == 0 {
        return Err(NumberError::Missing);
    }
    let digit = |byte: &u8| i64::from(byte - b'0');
    let append = |number: i64, byte| number.checked_mul(10)?.checked_add(digit(byte));
    text[..len].iter().try_fold(0, append).ok_or(NumberError::Overflow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_at_the_first_other_byte() {
        for (text, expected) in [
            ("12", Ok(12)),
            (" \t12\"; x", Ok(12)),
            ("+7", Ok(7)),
            ("9223372036854775807", Ok(i64::MAX)),
            ("9223372036854775808", Err(NumberError::Overflow)),
            ("-1", Err(NumberError::Missing)),
            ("x1", Err(NumberError::Missing)),
            ("", Err(NumberError::Missing)),
        ] {
            assert_eq!(leading_number(text.as_bytes()), expected, "{text}");
        }
    }
}
