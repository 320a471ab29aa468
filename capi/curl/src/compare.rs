//! Comparison of strings: `curl_strequal` and `curl_strnequal`.
//!
//! Only the letters of ASCII have a case, whatever the locale. A NULL pointer is `None`. The bytes
//! are read one by one: callers pass texts without a NUL, and a text may end in the bytes behind
//! the first difference.

/// True if both are equal, or both are NULL.
#[must_use]
pub fn str_equal<A, B>(a: Option<A>, b: Option<B>) -> bool
where
    A: IntoIterator<Item = u8>,
    B: IntoIterator<Item = u8>,
{
    match (a, b) {
        (Some(a), Some(b)) => are_equal(a.into_iter(), b.into_iter()),
        (None, None) => true,
        _ => false,
    }
}

/// True if both are equal up to `max` bytes, or both are NULL and `max` is not 0.
#[must_use]
pub fn str_nequal<A, B>(a: Option<A>, b: Option<B>, max: usize) -> bool
where
    A: IntoIterator<Item = u8>,
    B: IntoIterator<Item = u8>,
{
    match (a, b) {
        (Some(a), Some(b)) => are_equal(a.into_iter().take(max), b.into_iter().take(max)),
        (None, None) => max != 0,
        _ => false,
    }
}

fn are_equal(mut a: impl Iterator<Item = u8>, mut b: impl Iterator<Item = u8>) -> bool {
    loop {
        match (a.next(), b.next()) {
            (None, None) => return true,
            (Some(a), Some(b)) if a.eq_ignore_ascii_case(&b) => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_behind_the_first_difference_are_not_read() {
        let readable = |text: &'static [u8]| {
            let unreadable = std::iter::repeat_with(|| panic!("it is behind the text"));
            Some(text.iter().copied().chain(unreadable))
        };
        assert!(str_nequal(readable(b"Loc"), readable(b"loc"), 3));
        assert!(!str_nequal(readable(b"Lx"), readable(b"lo"), 9));
        assert!(!str_equal(Some(*b"a"), readable(b"ab")));
    }
}
