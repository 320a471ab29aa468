//! Integers (RFC 7541 §5.1).

use super::HpackError;

/// Reads an integer whose first octet has `PREFIX` bits of it.
#[inline]
pub(super) fn read<const PREFIX: u32>(input: &mut &[u8]) -> Result<usize, HpackError> {
    let (first, rest) = input.split_first().ok_or(HpackError::Truncated)?;
    *input = rest;
    let mask = u8::MAX >> (8 - PREFIX);
    match first & mask {
        value if value < mask => Ok(value.into()),
        _ => read_rest(input, mask),
    }
}

/// Reads the octets after a prefix of ones.
fn read_rest(input: &mut &[u8], mask: u8) -> Result<usize, HpackError> {
    let mut value = usize::from(mask);
    for (at, octet) in (0..OCTETS_MAX).zip(*input) {
        value += usize::from(octet & 0x7f) << (7 * at);
        if octet & 0x80 == 0 {
            *input = &input[at + 1..];
            return Ok(value);
        }
    }
    match input.len() {
        OCTETS_MAX.. => Err(HpackError::IntegerTooLong),
        _ => Err(HpackError::Truncated),
    }
}

/// Writes an integer; the first octet has `pattern` above its `PREFIX` bits.
#[inline]
pub(super) fn write<const PREFIX: u32>(out: &mut Vec<u8>, pattern: u8, value: usize) {
    let mask = u8::MAX >> (8 - PREFIX);
    match u8::try_from(value) {
        Ok(value) if value < mask => out.push(pattern | value),
        _ => {
            out.push(pattern | mask);
            write_rest(out, value - usize::from(mask));
        }
    }
}

fn write_rest(out: &mut Vec<u8>, mut rest: usize) {
    loop {
        let [low, ..] = rest.to_le_bytes();
        rest >>= 7;
        if rest == 0 {
            return out.push(low & 0x7f);
        }
        out.push(low | 0x80);
    }
}

/// Octets after the prefix: values to 2²⁸, more than any string or table has.
const OCTETS_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7541, appendix C.1.
    #[test]
    fn integers_of_the_appendix() {
        for (value, prefix, octets) in
            [(10, 5, &[0b01010][..]), (1337, 5, &[0b11111, 0b1001_1010, 0b1010]), (42, 8, &[42])]
        {
            let mut out = Vec::new();
            match prefix {
                5 => write::<5>(&mut out, 0, value),
                _ => write::<8>(&mut out, 0, value),
            }
            assert_eq!(out, octets);
            let mut input = octets;
            let read = if prefix == 5 { read::<5>(&mut input) } else { read::<8>(&mut input) };
            assert_eq!((read, input), (Ok(value), &[][..]));
        }
    }

    #[test]
    fn integers_survive_a_round_trip() {
        for value in (0..70_000).chain((0..28).flat_map(|n| [(1 << n) - 1, 1 << n])) {
            let mut out = Vec::new();
            write::<5>(&mut out, 0b1010_0000, value);
            assert_eq!(out[0] >> 5, 0b101);
            for end in 0..out.len() {
                assert_eq!(read::<5>(&mut &out[..end]), Err(HpackError::Truncated), "{value}");
            }
            out.push(7);
            let mut input = &out[..];
            assert_eq!((read::<5>(&mut input), input), (Ok(value), &[7][..]));
        }
    }

    #[test]
    fn long_integers_are_refused() {
        assert_eq!(read::<7>(&mut &[0xff, 0x80, 0x80, 0x80, 0][..]), Ok(127));
        assert_eq!(read::<7>(&mut &[0xff, 0xff, 0xff, 0xff, 0x7f][..]), Ok(127 + (1 << 28) - 1));
        let long = [0xff, 0x80, 0x80, 0x80, 0x80, 0];
        assert_eq!(read::<7>(&mut &long[..]), Err(HpackError::IntegerTooLong));
    }
}
