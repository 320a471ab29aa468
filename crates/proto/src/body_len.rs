//! The length of a body, as its sender gives it (RFC 9110 §8.6, RFC 9112 §6).

/// The length of a body, as declared by its sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyLen {
    /// No body.
    #[default]
    Empty,
    /// The number of bytes. The response to a HEAD contains the number and no body.
    Exact(u64),
    /// Its end is marked: by the last chunk, the end of the connection, or END_STREAM (HTTP/2).
    Unknown,
}

/// `1*DIGIT`, at most 2^63-1: the maximum of a file offset.
pub(crate) fn decimal(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    let mut number = 0u64;
    for byte in value {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number = number.checked_mul(10)?.checked_add(digit)?;
    }
    (number <= LENGTH_MAX).then_some(number)
}

pub(crate) const LENGTH_MAX: u64 = i64::MAX as u64;
