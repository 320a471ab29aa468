//! Sizes on the command line.

/// `512`, `64K`, `10M`, `1G`: bytes, with suffixes for powers of 1,024; greater than 0.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let (number, shift) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(number) if text.ends_with('K') => (number, 10),
        Some(number) if text.ends_with('M') => (number, 20),
        Some(number) => (number, 30),
        None => (text, 0),
    };
    let number: Option<u64> = number.parse().ok().filter(|n| *n > 0);
    let size = number.and_then(|n| n.checked_mul(1 << shift));
    size.ok_or_else(|| "must be a size greater than 0, such as 512, 64K, 10M or 1G".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, size) in [("1", 1), ("64K", 65_536), ("10M", 10 << 20), ("2G", 2 << 30)] {
            assert_eq!(parse(text), Ok(size));
        }
        for bad in ["", "0", "K", "-1", "1.5M", "1k", "1T", "99999999999G"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
