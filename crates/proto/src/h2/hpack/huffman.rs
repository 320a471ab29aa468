//! The Huffman code of strings (RFC 7541 §5.2, appendix B).
//!
//! The code is canonical: the lengths of the codes determine the codes. All tables are computed
//! from them at compile time. Codes of up to 8 bits, those of nearly all text, are decoded by one
//! look into a table; longer ones by a search for their length.

use super::HpackError;

/// Appends the decoded text.
pub(super) fn decode(coded: &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    let start = out.len();
    out.resize(start + coded.len() * 8 / SHORTEST as usize, 0);
    let result = decode_into(coded, &mut out[start..]);
    out.truncate(start + result.unwrap_or(0));
    result.map(|_| ())
}

/// Writes the decoded text, which has room, and returns its length.
fn decode_into(coded: &[u8], text: &mut [u8]) -> Result<usize, HpackError> {
    let mut bits = Bits { window: 0, held: 0, rest: coded };
    let mut text_len = 0;
    loop {
        bits.refill();
        if bits.held < LONGEST {
            break;
        }
        while bits.held >= LONGEST {
            let (symbol, len) = next_symbol(bits.window);
            text[text_len] = symbol.ok_or(HpackError::EndOfString)?;
            text_len += 1;
            bits.consume(len);
        }
    }
    while bits.held > 0 {
        // As if the padding went on: no other symbol than the end of string begins with it.
        let window = bits.window | u64::MAX >> bits.held;
        let (symbol, len) = next_symbol(window);
        if len > bits.held {
            let is_padding = bits.held < 8 && window == u64::MAX;
            return if is_padding { Ok(text_len) } else { Err(HpackError::BadPadding) };
        }
        text[text_len] = symbol.ok_or(HpackError::EndOfString)?;
        text_len += 1;
        bits.consume(len);
    }
    Ok(text_len)
}

/// The symbol at the beginning of a window, and the length of its code; no symbol is the end of
/// string.
#[inline]
fn next_symbol(window: u64) -> (Option<u8>, u32) {
    match SHORT[(window >> 56) as usize] {
        (_, 0) => long_symbol(window),
        (symbol, len) => (Some(symbol), len.into()),
    }
}

/// As [`next_symbol`], for a code of more than 8 bits.
#[cold]
fn long_symbol(window: u64) -> (Option<u8>, u32) {
    let window = (window >> 32) as u32;
    let mut len = 9;
    while window > RANGES[len as usize].last {
        len += 1;
    }
    let CodeRange { first, symbols, .. } = RANGES[len as usize];
    let place = (window >> (32 - len)) - first;
    (BY_CODE.get(symbols + place as usize).copied(), len)
}

/// The unread bits of a coded string.
struct Bits<'a> {
    /// The next bits, from the highest on. Below the `held` bits are zeros, or bits of `rest`.
    window: u64,
    held: u32,
    rest: &'a [u8],
}

impl Bits<'_> {
    /// Makes the window hold 56 bits or more, or all.
    #[inline]
    fn refill(&mut self) {
        if let Some(word) = self.rest.first_chunk() {
            self.window |= u64::from_be_bytes(*word) >> self.held;
            let octets = (63 - self.held) / 8;
            self.rest = &self.rest[octets as usize..];
            self.held += octets * 8;
            return;
        }
        while let (0..=56, Some((octet, rest))) = (self.held, self.rest.split_first()) {
            self.window |= u64::from(*octet) << (56 - self.held);
            self.held += 8;
            self.rest = rest;
        }
    }

    #[inline]
    fn consume(&mut self, len: u32) {
        self.window <<= len;
        self.held -= len;
    }
}

/// Appends the code of a text, with its padding.
#[inline]
pub(super) fn encode(out: &mut Vec<u8>, text: impl Iterator<Item = u8>) {
    let (mut window, mut held) = (0u64, 0u32);
    for byte in text {
        let (code, len) = CODES[usize::from(byte)];
        window = window << len | u64::from(code);
        held += u32::from(len);
        if held >= 32 {
            held -= 32;
            let [.., a, b, c, d] = (window >> held).to_be_bytes();
            out.extend_from_slice(&[a, b, c, d]);
        }
    }
    if held > 0 {
        let padded = window << (64 - held) | u64::MAX >> held;
        out.extend_from_slice(&padded.to_be_bytes()[..held.div_ceil(8) as usize]);
    }
}

/// The length of the code of a text, with its padding.
pub(super) fn encoded_len(text: impl Iterator<Item = u8>) -> usize {
    let bits: usize = text.map(|byte| usize::from(LENGTHS[usize::from(byte)])).sum();
    bits.div_ceil(8)
}

/// The codes of one length above 8.
#[derive(Clone, Copy)]
struct CodeRange {
    first: u32,
    /// The last code, followed by ones.
    last: u32,
    /// The place of the first code's symbol in [`BY_CODE`].
    symbols: usize,
}

/// Code and length of each byte.
static CODES: [(u32, u8); 256] = TABLES.codes;

/// The bytes in the order of their codes. The code behind the last one is the end of string.
static BY_CODE: [u8; 256] = TABLES.by_code;

/// The codes of each length.
static RANGES: [CodeRange; LONGEST as usize + 1] = TABLES.ranges;

/// The byte and the length of the code that is at the beginning of an octet; 0 if it is longer.
static SHORT: [(u8, u8); 256] = TABLES.short;

struct HuffmanTables {
    codes: [(u32, u8); 256],
    by_code: [u8; 256],
    ranges: [CodeRange; LONGEST as usize + 1],
    short: [(u8, u8); 256],
}

const TABLES: HuffmanTables = {
    let mut tables = HuffmanTables {
        codes: [(0, 0); 256],
        by_code: [0; 256],
        ranges: [CodeRange { first: 0, last: 0, symbols: 0 }; LONGEST as usize + 1],
        short: [(0, 0); 256],
    };
    let (mut code, mut place, mut len) = (0u32, 0, 0);
    while len < LONGEST {
        len += 1;
        code <<= 1;
        let (first, symbols, mut byte) = (code, place, 0u8);
        loop {
            if LENGTHS[byte as usize] as u32 == len {
                tables.codes[byte as usize] = (code, LENGTHS[byte as usize]);
                tables.by_code[place] = byte;
                add_short(&mut tables.short, byte, code, LENGTHS[byte as usize]);
                (code, place) = (code + 1, place + 1);
            }
            if byte == u8::MAX {
                break;
            }
            byte += 1;
        }
        if len > 8 {
            let last = (code << (32 - len)).wrapping_sub(1);
            tables.ranges[len as usize] = CodeRange { first, last, symbols };
        }
    }
    assert!(code == (1 << LONGEST) - 1, "one code is left, the end of string");
    tables.ranges[LONGEST as usize].last = u32::MAX;
    tables
};

/// Adds the octets that begin with a code of up to 8 bits.
const fn add_short(short: &mut [(u8, u8); 256], byte: u8, code: u32, len: u8) {
    let mut below = 0;
    while len <= 8 && below < 1 << (8 - len) {
        short[((code as usize) << (8 - len)) + below] = (byte, len);
        below += 1;
    }
}

/// Bits of the shortest and of the longest code.
const SHORTEST: u32 = 5;
const LONGEST: u32 = 30;

/// The length of the code of each byte (appendix B). The end of string has the longest code.
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, // 0x00
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, // 0x10
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, // 0x20
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, // 0x30
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, // 0x40
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, // 0x50
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, // 0x60
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, // 0x70
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, // 0x80
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, // 0x90
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, // 0xa0
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, // 0xb0
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, // 0xc0
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, // 0xd0
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, // 0xe0
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, // 0xf0
];

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7541, appendix B.
    #[test]
    fn codes_of_the_appendix() {
        let rows: [(usize, u32, u8); 11] = [
            (0, 0x1ff8, 13),
            (1, 0x7fffd8, 23),
            (22, 0x3fff_fffe, 30),
            (48, 0x0, 5),
            (97, 0x3, 5),
            (92, 0x7fff0, 19),
            (126, 0x1ffd, 13),
            (127, 0x0fff_fffc, 28),
            (128, 0xfffe6, 20),
            (199, 0x01ff_ffec, 25),
            (255, 0x03ff_ffee, 26),
        ];
        for (symbol, code, len) in rows {
            assert_eq!(CODES[symbol], (code, len), "{symbol}");
        }
        assert_eq!(next_symbol(0x3fff_ffff << 34), (None, 30));
    }

    #[test]
    fn every_pair_of_bytes_survives_a_round_trip() {
        for first in 0..=u8::MAX {
            for second in 0..=u8::MAX {
                round_trip(&[first, second]);
                round_trip(&[first, b'e', second, second, first, b'x', first, b'~', second]);
            }
        }
        for len in 0..300 {
            round_trip(&vec![b'0'; len]);
            round_trip(&vec![b'\n'; len]);
        }
    }

    #[test]
    fn unsound_ends_are_refused() {
        let code = |bits: &str| -> Vec<u8> {
            let octets = bits.as_bytes().chunks(8);
            octets.map(|o| o.iter().fold(0, |sum, bit| sum << 1 | (bit - b'0'))).collect()
        };
        let ones = "1".repeat(64);
        for (bits, error) in [
            ("00000000", HpackError::BadPadding), // 0, and a zero
            ("00000110", HpackError::BadPadding), // 0, and a zero at the end
            (&ones[..8], HpackError::BadPadding), // eight bits
            (&format!("00000111{}", &ones[..8]), HpackError::BadPadding),
            (&format!("00000{}", &ones[..27]), HpackError::BadPadding), // 27 of 30
            (&ones[..32], HpackError::EndOfString),
            (&ones, HpackError::EndOfString),
            (&format!("00000111{ones}"), HpackError::EndOfString),
            (&format!("00000{}11", &ones[..33]), HpackError::EndOfString),
        ] {
            assert_eq!(decode(&code(bits), &mut Vec::new()), Err(error), "{bits}");
        }
        let mut out = Vec::new();
        assert_eq!((decode(&code("00000111"), &mut out), &out[..]), (Ok(()), &b"0"[..]));
    }

    fn round_trip(text: &[u8]) {
        let (mut coded, mut out) = (vec![], b"before ".to_vec());
        encode(&mut coded, text.iter().copied());
        assert_eq!(coded.len(), encoded_len(text.iter().copied()));
        assert_eq!(decode(&coded, &mut out), Ok(()), "{text:?}");
        assert_eq!(out.strip_prefix(b"before "), Some(text));
    }
}
