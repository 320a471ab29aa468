//! Sizes on the command line.

/// `512`, `64K`, `10M`, `1G`: bytes, or so many times 1,024 of them; more than nothing.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let (number, shift) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(number) if text.ends_with('K') => (number, 10),
        Some(number) if text.ends_with('M') => (number, 20),
        Some(number) => (number, 30),
        None => (text, 0),
    };
    let number: Option<u64> = number.parse().ok().filter(|n| *n > 0);
    let size = number.and_then(|n| n.checked_mul(1 << shift));
    size.ok_or_else(|| "a size is 512, 64K, 10M or 1G, and more than nothing".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_numbers_with_a_unit() {
        for (text, size) in [("1", 1), ("64K", 65_536), ("10M", 10 << 20), ("2G", 2 << 30)] {
            assert_eq!(parse(text), Ok(size));
        }
        for bad in ["", "0", "K", "-1", "1.5M", "1k", "1T", "99999999999G"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
