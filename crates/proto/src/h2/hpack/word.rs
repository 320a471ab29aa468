//! Comparison and sampling of short texts, eight bytes at a time.

/// True if `name`, in any case, is `lower`.
pub(super) fn is_name(lower: &[u8], name: &[u8]) -> bool {
    is_same(lower, name, |lower, name| lower == to_lower(name))
}

/// As [`is_name`], for a `lower` of letters, `-` and `:`. Only letters have bit 6, and their case
/// is bit 5.
#[inline]
pub(super) fn is_static_name(lower: &[u8], name: &[u8]) -> bool {
    is_same(lower, name, |lower, name| {
        let case = (lower & (ONES * 0x40)) >> 1;
        (lower ^ name) & !case == 0
    })
}

/// Compares texts word by word; the last words overlap.
#[inline]
fn is_same(lower: &[u8], name: &[u8], is_same_word: impl Fn(u64, u64) -> bool) -> bool {
    if lower.len() != name.len() {
        return false;
    }
    let (Some(lower_last), Some(last)) = (lower.last_chunk(), name.last_chunk()) else {
        return is_same_word(short(lower), short(name));
    };
    let mut words = lower.as_chunks().0.iter().zip(name.as_chunks().0);
    is_same_word(word(lower_last), word(last))
        && words.all(|(lower, name)| is_same_word(word(lower), word(name)))
}

/// A hash of a name, without its case.
#[inline]
pub(super) fn sample_name(name: &[u8]) -> u16 {
    fold(name, to_lower)
}

/// A hash of the length of a value, and of its first and its last eight bytes.
#[inline]
pub(super) fn sample_value(value: &[u8]) -> u16 {
    fold(value, |word| word)
}

#[inline]
fn fold(text: &[u8], map: impl Fn(u64) -> u64) -> u16 {
    let (first, last) = match (text.first_chunk(), text.last_chunk()) {
        (Some(first), Some(last)) => (word(first), word(last)),
        _ => (short(text), text.len() as u64),
    };
    let hash = (map(first).wrapping_mul(FACTOR).rotate_left(32) ^ map(last)).wrapping_mul(FACTOR);
    let hash = hash.wrapping_add((text.len() as u64) << 48);
    let [.., low, high] = hash.to_le_bytes();
    u16::from_le_bytes([low, high])
}

/// Up to seven bytes as a word; different for different bytes of the same length.
#[inline]
fn short(text: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32
    } else if let [first, .., last] = text {
        u64::from_le_bytes([*first, text[1], *last, 0, 0, 0, 0, 0])
    } else {
        text.first().copied().unwrap_or(0).into()
    }
}

#[inline]
fn word(bytes: &[u8; 8]) -> u64 {
    u64::from_le_bytes(*bytes)
}

/// `to_ascii_lowercase` of each byte.
#[inline]
fn to_lower(word: u64) -> u64 {
    let low = word & (ONES * 0x7f);
    let from_a = low + ONES * (0x80 - b'A' as u64);
    let above_z = low + ONES * (0x7f - b'Z' as u64);
    word | (from_a & !above_z & !word & (ONES * 0x80)) >> 2
}

const ONES: u64 = 0x0101_0101_0101_0101;

/// Odd, with as many ones as zeros: the upper bits of a product depend on all bits.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_length_and_case_are_compared() {
        for len in 0..40 {
            let lower: Vec<u8> = (b'a'..=b'z').cycle().take(len).collect();
            let upper = lower.to_ascii_uppercase();
            assert!(is_name(&lower, &lower) && is_name(&lower, &upper));
            assert_eq!(sample_name(&lower), sample_name(&upper));
            for at in 0..len {
                for byte in 0..=u8::MAX {
                    let mut name = upper.clone();
                    name[at] = byte;
                    assert_eq!(is_name(&lower, &name), lower.eq_ignore_ascii_case(&name));
                }
            }
            assert!(!is_name(&lower, &[&lower[..], b"a"].concat()));
        }
    }

    #[test]
    fn static_names_are_compared_exactly() {
        for lower in [&b"-"[..], b":path", b"content-length", b"if-unmodified-since"] {
            for at in 0..lower.len() {
                for byte in 0..=u8::MAX {
                    let mut name = lower.to_ascii_uppercase();
                    name[at] = byte;
                    assert_eq!(is_static_name(lower, &name), lower.eq_ignore_ascii_case(&name));
                }
            }
        }
    }
}
