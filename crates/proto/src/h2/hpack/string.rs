//! String literals (RFC 7541 §5.2).

use super::{HpackError, huffman, integer};

/// Reads a string and appends its text.
pub(super) fn read(input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    let is_coded = input.first().ok_or(HpackError::Truncated)? & HUFFMAN != 0;
    let len = integer::read::<7>(input)?;
    let (text, rest) = input.split_at_checked(len).ok_or(HpackError::Truncated)?;
    *input = rest;
    if is_coded {
        return huffman::decode(text, out);
    }
    out.extend_from_slice(text);
    Ok(())
}

/// Writes a string, in the Huffman code if that is shorter. Short ones, such as lengths, are plain:
/// the code would save two octets at most.
#[inline]
pub(super) fn write(out: &mut Vec<u8>, text: impl ExactSizeIterator<Item = u8> + Clone) {
    let plain = text.len();
    if plain < CODED_MIN {
        write_plain(out, text);
    } else if plain < LEN_OF_TWO_OCTETS {
        write_coded(out, text);
    } else {
        write_long(out, text);
    }
}

/// Writes a string whose length is one octet, which is written last.
fn write_coded(out: &mut Vec<u8>, text: impl ExactSizeIterator<Item = u8> + Clone) {
    let (start, plain) = (out.len(), text.len());
    out.push(0);
    huffman::encode(out, text.clone());
    match u8::try_from(out.len() - start - 1) {
        Ok(coded) if usize::from(coded) < plain => out[start] = HUFFMAN | coded,
        _ => {
            out.truncate(start);
            write_plain(out, text);
        }
    }
}

/// Writes a string whose length may have several octets, so it is computed first.
fn write_long(out: &mut Vec<u8>, text: impl ExactSizeIterator<Item = u8> + Clone) {
    let (plain, coded) = (text.len(), huffman::encoded_len(text.clone()));
    if coded < plain {
        integer::write::<7>(out, HUFFMAN, coded);
        huffman::encode(out, text);
    } else {
        write_plain(out, text);
    }
}

#[inline]
fn write_plain(out: &mut Vec<u8>, text: impl ExactSizeIterator<Item = u8>) {
    integer::write::<7>(out, 0, text.len());
    out.extend(text);
}

/// The flag before the length: the text is in the Huffman code.
const HUFFMAN: u8 = 0x80;

/// Texts of this length may be written in the Huffman code.
const CODED_MIN: usize = 8;

/// The first length that does not fit in the octet of the flag.
const LEN_OF_TWO_OCTETS: usize = 127;
