//! The decoder of the chunked transfer coding, byte by byte (RFC 9112 §7.1).
//!
//! ```text
//!         ┌──────────────────────────────────────────────┐
//!         ▼                                              │
//!       Size ──▶ Extension ──▶ SizeLf ──▶ Data ──▶ DataCr ──▶ DataLf
//!         └────────────────────▲  └─ 0 ─▶ Trailers
//! ```
//!
//! Line ends are CR LF only, and blanks are refused where the grammar has none: a recipient that is
//! more lenient than the next one sees another message. A connection
//! may be lenient nevertheless ([`Leniency`]).

use crate::errors::PeerError;
use crate::head::{is_tchar, is_text};

use super::leniency::Leniency;
use super::parse::Scan;
use super::{CHUNK_BLANKS_MAX, CHUNK_EXT_SIZE_MAX, LIBCURL_TRAILERS_SIZE_MAX, TRAILERS_SIZE_MAX};

/// The decoder of one body. Consumes framing, never data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decoder {
    state: ChunkState,
    /// Bytes of extensions so far, in the whole message.
    extensions: u16,
}

/// With `repr(u8)` the fields keep their order: a small one in front of `size` fits beside the tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum ChunkState {
    Size {
        digits: u8,
        size: u64,
    },
    /// Lenient: so many blanks follow the size.
    Padding {
        blanks: u8,
        size: u64,
    },
    Extension {
        at: Extension,
        size: u64,
    },
    SizeLf {
        size: u64,
    },
    Data {
        left: u64,
    },
    DataCr,
    DataLf,
    Trailers(Scan),
}

/// `*( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )` (§7.1.1)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extension {
    BeforeSemicolon,
    BeforeName,
    Name,
    AfterName,
    BeforeValue,
    Value,
    Quoted,
    Escaped,
    AfterQuoted,
}

/// What comes next in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkPart {
    /// As many bytes of data as this, or fewer if no more have arrived.
    Data(u64),
    /// A trailer section of this size, with its blank line: the end of the body.
    Trailers(usize),
    /// Nothing that is complete.
    Nothing,
}

impl Decoder {
    pub(super) fn new() -> Self {
        Self { state: SIZE, extensions: 0 }
    }

    /// Reads framing at the front of `bytes`: the number of its bytes, and what follows it. Nearly
    /// always that is a size line, and all of it is there.
    #[inline(always)] // all chunks
    pub(super) fn advance(
        &mut self,
        bytes: &[u8],
        leniency: Leniency,
    ) -> Result<(usize, ChunkPart), PeerError> {
        let line = self.read_size_line(bytes);
        match self.state {
            ChunkState::Data { left } => Ok((line, ChunkPart::Data(left))),
            _ => self.advance_by_bytes(bytes, leniency),
        }
    }

    /// The number of bytes at the front of `bytes` that belong to the body, with all framing, up
    /// to the end of a chunk's data at most; and true if the body ends with them.
    pub(super) fn advance_raw(
        &mut self,
        bytes: &[u8],
        leniency: Leniency,
    ) -> Result<(usize, bool), PeerError> {
        let (framing, part) = self.advance(bytes, leniency)?;
        Ok(match part {
            ChunkPart::Nothing => (framing, false),
            ChunkPart::Trailers(size) => (framing + size, true),
            ChunkPart::Data(left) => {
                let arrived = bytes.len() - framing;
                let n = usize::try_from(left).unwrap_or(usize::MAX).min(arrived);
                self.taken(n as u64);
                let end = framing + n;
                (end + self.data_end(&bytes[end..]), false)
            }
        })
    }

    #[inline(never)]
    fn advance_by_bytes(
        &mut self,
        bytes: &[u8],
        leniency: Leniency,
    ) -> Result<(usize, ChunkPart), PeerError> {
        let mut at = 0;
        loop {
            at += self.read_size_line(&bytes[at..]);
            match &mut self.state {
                ChunkState::Data { left } => return Ok((at, ChunkPart::Data(*left))),
                ChunkState::Trailers(scan) => {
                    let bytes = &bytes[at..];
                    let (size_max, len_max, leniency) = match leniency.has(Leniency::LIBCURL) {
                        true => (LIBCURL_TRAILERS_SIZE_MAX, None, Leniency::BARE_LF),
                        false => (TRAILERS_SIZE_MAX, Some(TRAILERS_LEN_MAX), leniency),
                    };
                    let end = scan.advance(bytes, size_max, len_max, leniency);
                    let end = end.map_err(|_| PeerError::BadTrailer)?;
                    return Ok((at, end.map_or(ChunkPart::Nothing, ChunkPart::Trailers)));
                }
                _ => {}
            }
            let Some(byte) = bytes.get(at) else { return Ok((at, ChunkPart::Nothing)) };
            self.state = self.step(*byte, leniency)?;
            at += 1;
        }
    }

    /// Reads the size line of a chunk, if a usual one is next. Returns its length.
    #[inline(always)]
    fn read_size_line(&mut self, bytes: &[u8]) -> usize {
        if let ChunkState::Size { digits: 0, .. } = self.state
            && let Some((line, size)) = size_line(bytes)
        {
            self.state = ChunkState::Data { left: size };
            return line;
        }
        0
    }

    /// `n` bytes of the data have been taken.
    pub(super) fn taken(&mut self, n: u64) {
        let ChunkState::Data { left } = &mut self.state else { unreachable!("only data is taken") };
        *left -= n;
        if *left == 0 {
            self.state = ChunkState::DataCr;
        }
    }

    /// Reads the line end behind the data of a chunk if all of it is at the front of `bytes`, and
    /// returns its size. It nearly always arrives with the data, which saves a poll.
    pub(super) fn data_end(&mut self, bytes: &[u8]) -> usize {
        if self.state != ChunkState::DataCr || !bytes.starts_with(b"\r\n") {
            return 0;
        }
        self.state = SIZE;
        2
    }

    /// One byte of framing.
    fn step(&mut self, byte: u8, leniency: Leniency) -> Result<ChunkState, PeerError> {
        let is_libcurl = leniency.has(Leniency::LIBCURL);
        let lf_ends = is_libcurl || leniency.has(Leniency::BARE_LF);
        match (self.state, byte) {
            (ChunkState::Size { size, digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let size = size.checked_mul(16).filter(|_| digits < SIZE_DIGITS_MAX);
                let too_long =
                    if is_libcurl { PeerError::LongChunkSize } else { PeerError::BadChunk };
                let size = size.ok_or(too_long)? + u64::from(HEX[usize::from(byte)]);
                Ok(ChunkState::Size { size, digits: digits + 1 })
            }
            (ChunkState::Size { size, digits }, _)
                if is_libcurl && (digits == 0 || i64::try_from(size).is_err()) =>
            {
                Err(PeerError::MissingChunkSize)
            }
            (ChunkState::Size { digits: 0, .. }, _) => Err(PeerError::BadChunk),
            (ChunkState::Size { size, .. } | ChunkState::SizeLf { size }, _) if is_libcurl => {
                match byte {
                    b'\n' => Ok(after_size(size)),
                    _ => Ok(ChunkState::SizeLf { size }), // anything up to the line end
                }
            }
            (ChunkState::DataCr | ChunkState::DataLf, b'\r') if is_libcurl => {
                Ok(ChunkState::DataLf)
            }
            (ChunkState::Size { size, .. } | ChunkState::Padding { size, .. }, b'\r') => {
                Ok(ChunkState::SizeLf { size })
            }
            (ChunkState::Size { size, .. } | ChunkState::Padding { size, .. }, b'\n')
                if lf_ends =>
            {
                Ok(after_size(size))
            }
            (ChunkState::Size { size, .. }, b' ' | b'\t')
                if leniency.has(Leniency::CHUNK_BLANKS) =>
            {
                Ok(ChunkState::Padding { size, blanks: 1 })
            }
            (ChunkState::Padding { size, blanks }, b' ' | b'\t') if blanks < CHUNK_BLANKS_MAX => {
                Ok(ChunkState::Padding { size, blanks: blanks + 1 })
            }
            (ChunkState::Padding { size, .. }, b';') | (ChunkState::Size { size, .. }, _) => {
                self.extension(size, Extension::BeforeSemicolon, byte, leniency)
            }
            (ChunkState::Extension { size, at }, _) => self.extension(size, at, byte, leniency),
            (ChunkState::SizeLf { size }, b'\n') => Ok(after_size(size)),
            (ChunkState::DataCr, b'\r') => Ok(ChunkState::DataLf),
            (ChunkState::DataCr, b'\n') if lf_ends => Ok(SIZE),
            (ChunkState::DataLf, b'\n') => Ok(SIZE),
            _ => Err(PeerError::BadChunk),
        }
    }

    /// One byte of an extension, all of which are ignored but for their size.
    fn extension(
        &mut self,
        size: u64,
        at: Extension,
        byte: u8,
        leniency: Leniency,
    ) -> Result<ChunkState, PeerError> {
        use Extension::{
            AfterName, AfterQuoted, BeforeName, BeforeSemicolon, BeforeValue, Escaped, Name,
            Quoted, Value,
        };
        let may_end = match at {
            Name | Value | AfterQuoted => true,
            BeforeSemicolon | AfterName => leniency.has(Leniency::CHUNK_BLANKS),
            BeforeName | BeforeValue | Quoted | Escaped => false,
        };
        match byte {
            b'\r' if may_end => return Ok(ChunkState::SizeLf { size }),
            b'\n' if may_end && leniency.has(Leniency::BARE_LF) => return Ok(after_size(size)),
            _ => {}
        }
        if usize::from(self.extensions) == CHUNK_EXT_SIZE_MAX {
            return Err(PeerError::BadChunk);
        }
        self.extensions += 1;
        let at = match (at, byte) {
            (BeforeSemicolon | Name | AfterName | Value | AfterQuoted, b';') => BeforeName,
            (BeforeSemicolon | AfterQuoted | Value, b' ' | b'\t') => BeforeSemicolon,
            (Name | AfterName, b' ' | b'\t') => AfterName,
            (BeforeName | BeforeValue, b' ' | b'\t') => at,
            (Name | AfterName, b'=') => BeforeValue,
            (BeforeName | Name, _) if is_tchar(byte) => Name,
            (BeforeValue, b'"') => Quoted,
            (BeforeValue | Value, _) if is_tchar(byte) => Value,
            (Quoted, b'"') => AfterQuoted,
            (Quoted, b'\\') => Escaped,
            (Quoted | Escaped, _) if is_text(byte) => Quoted,
            _ => return Err(PeerError::BadChunk),
        };
        Ok(ChunkState::Extension { size, at })
    }
}

/// The state behind the size line of a chunk.
fn after_size(size: u64) -> ChunkState {
    if size == 0 { ChunkState::Trailers(Scan::default()) } else { ChunkState::Data { left: size } }
}

/// The line of a chunk that is not the last, as nearly all are written: a few digits, no extension,
/// all of it there. Its length, and that of the chunk. Everything else is taken byte by byte.
#[inline]
fn size_line(bytes: &[u8]) -> Option<(usize, u64)> {
    let mut size = 0;
    for (at, byte) in bytes.iter().take(DIGITS_USUAL + 1).enumerate() {
        match HEX[usize::from(*byte)] {
            NO_DIGIT if *byte == b'\r' && size > 0 && bytes.get(at + 1) == Some(&b'\n') => {
                return Some((at + 2, size));
            }
            NO_DIGIT => break,
            digit => size = size * 16 + u64::from(digit),
        }
    }
    None
}

/// The values of hexadecimal digits.
const HEX: [u8; 256] = {
    let mut table = [NO_DIGIT; 256];
    let digits = b"0123456789abcdef";
    let mut value = 0;
    while value < 16 {
        table[digits[value as usize] as usize] = value;
        table[digits[value as usize].to_ascii_uppercase() as usize] = value;
        value += 1;
    }
    table
};
const NO_DIGIT: u8 = 16;
const SIZE: ChunkState = ChunkState::Size { size: 0, digits: 0 };
const SIZE_DIGITS_MAX: u8 = 16;
/// Chunks of a gigabyte and more are rare.
const DIGITS_USUAL: usize = 7;
#[expect(clippy::cast_possible_truncation, reason = "100 fits")]
const TRAILERS_LEN_MAX: u8 = super::FIELDS_LEN_MAX as u8;

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes a whole body in one go; the data, if the framing is sound and complete.
    fn decode(mut bytes: &[u8]) -> Result<Option<Vec<u8>>, PeerError> {
        let (mut decoder, mut data) = (Decoder::new(), Vec::new());
        loop {
            let (skip, piece) = decoder.advance(bytes, Leniency::strict())?;
            bytes = &bytes[skip..];
            match piece {
                ChunkPart::Trailers(size) => {
                    assert_eq!(size, bytes.len());
                    return Ok(Some(data));
                }
                ChunkPart::Data(left) if !bytes.is_empty() => {
                    let n = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    data.extend_from_slice(&bytes[..n]);
                    decoder.taken(n as u64);
                    bytes = &bytes[n..];
                }
                _ => return Ok(None),
            }
        }
    }

    #[test]
    fn extensions_follow_the_grammar() {
        for good in [";a", ";a=b", " ; a = b", ";a=\"b\\\"\";c", ";a;b=c\t;d", ";a=\"\" ;b"] {
            let body = format!("1{good}\r\nx\r\n0\r\n\r\n");
            assert_eq!(decode(body.as_bytes()), Ok(Some(b"x".to_vec())), "{good}");
        }
        for bad in [";", " ", ";=", ";a=", ";a =", ";a b", ";a=b c", ";a=\"b\"c", ";a\0", ";a\n"] {
            let body = format!("1{bad}\r\nx\r\n0\r\n\r\n");
            assert_eq!(decode(body.as_bytes()), Err(PeerError::BadChunk), "{bad}");
        }
    }

    #[test]
    fn a_size_has_sixteen_digits_at_most() {
        assert_eq!(
            decode(b"000000000000000a\r\n0123456789\r\n0\r\n\r\n").unwrap().unwrap().len(),
            10
        );
        assert_eq!(decode(b"ffffffffffffffff\r\nx"), Ok(None));
        assert_eq!(decode(b"00000000000000001\r\nx"), Err(PeerError::BadChunk));
    }

    /// Recorded from libcurl 7.88.1.
    #[test]
    fn faults_of_sizes_are_distinguished_by_the_rules_of_libcurl() {
        let profile = Leniency::LIBCURL;
        for (body, fault) in [
            (&b"\r\n"[..], PeerError::MissingChunkSize),
            (b"g", PeerError::MissingChunkSize),
            (b"8000000000000000;", PeerError::MissingChunkSize),
            (b"00000000000000001", PeerError::LongChunkSize),
        ] {
            assert_eq!(Decoder::new().advance(body, profile), Err(fault), "{body:?}");
        }
        let mut decoder = Decoder::new();
        let largest = b"7fffffffffffffff\r\nx";
        assert_eq!(decoder.advance(largest, profile), Ok((18, ChunkPart::Data(i64::MAX as u64))));
    }

    #[test]
    fn extensions_have_one_budget_for_the_message() {
        let chunk = format!("1;{}\r\nx\r\n", "a".repeat(1000));
        let body = |chunks: usize| format!("{}0\r\n\r\n", chunk.repeat(chunks));
        assert_eq!(decode(body(4).as_bytes()).unwrap().unwrap().len(), 4);
        assert_eq!(decode(body(5).as_bytes()), Err(PeerError::BadChunk));
    }
}
