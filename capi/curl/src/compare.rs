//! Comparison of strings: `curl_strequal` and `curl_strnequal`.
//!
//! Only the letters of ASCII have a case, whatever the locale. A NULL pointer is `None`.

/// True if both are equal, or both are NULL.
#[must_use]
pub fn str_equal(a: Option<&[u8]>, b: Option<&[u8]>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.eq_ignore_ascii_case(b),
        (None, None) => true,
        _ => false,
    }
}

/// True if both are equal up to `max` bytes, or both are NULL and `max` is not 0.
#[must_use]
pub fn str_nequal(a: Option<&[u8]>, b: Option<&[u8]>, max: usize) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a[..a.len().min(max)].eq_ignore_ascii_case(&b[..b.len().min(max)]),
        (None, None) => max != 0,
        _ => false,
    }
}
