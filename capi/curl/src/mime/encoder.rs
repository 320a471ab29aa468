//! Content transfer encodings (RFC 2045 §6).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A content transfer encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MimeEncoder {
    /// Unchanged.
    Binary,
    /// Unchanged.
    EightBit,
    /// Unchanged; other bytes than ASCII are a read error.
    SevenBit,
    /// In lines of 76 characters.
    Base64,
    /// In lines of at most 76 characters. The size of the result is unknown.
    QuotedPrintable,
}

impl MimeEncoder {
    /// The encoder of this name, without case; `None` if it is unknown.
    pub fn parse(name: &[u8]) -> Option<Self> {
        let mut all =
            [Self::Binary, Self::EightBit, Self::SevenBit, Self::Base64, Self::QuotedPrintable]
                .into_iter();
        all.find(|known| name.eq_ignore_ascii_case(known.name().as_bytes()))
    }

    /// Its name in `Content-Transfer-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::EightBit => "8bit",
            Self::SevenBit => "7bit",
            Self::Base64 => "base64",
            Self::QuotedPrintable => "quoted-printable",
        }
    }

    /// The size of so many bytes, encoded.
    pub(super) fn size(self, raw: u64) -> Option<u64> {
        match self {
            Self::Binary | Self::EightBit | Self::SevenBit => Some(raw),
            _ if raw == 0 => Some(0),
            Self::Base64 => {
                let chars = raw.div_ceil(3) * 4;
                Some(chars + 2 * ((chars - 1) / LINE_LEN_MAX as u64))
            }
            Self::QuotedPrintable => None,
        }
    }
}

/// A content has a byte that `7bit` does not permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotSevenBit;

/// An encoder with its position in the line.
#[derive(Clone, Debug)]
pub(super) struct EncoderState {
    encoder: MimeEncoder,
    /// Input that needs the bytes behind it.
    pending: Vec<u8>,
    column: usize,
}

impl EncoderState {
    pub(super) fn new(encoder: MimeEncoder) -> Self {
        Self { encoder, pending: Vec::new(), column: 0 }
    }

    /// Bytes of the input that are kept.
    pub(super) fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// Appends what is known of `input`, encoded. Bytes may be kept until `is_last`.
    pub(super) fn encode(
        &mut self,
        input: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), NotSevenBit> {
        match self.encoder {
            MimeEncoder::SevenBit if !input.is_ascii() => return Err(NotSevenBit),
            MimeEncoder::Binary | MimeEncoder::EightBit | MimeEncoder::SevenBit => {
                out.extend_from_slice(input);
            }
            MimeEncoder::Base64 => {
                self.pending.extend_from_slice(input);
                let whole = self.pending.len() - self.pending.len() % 3;
                let end = if is_last { self.pending.len() } else { whole };
                let taken: Vec<u8> = self.pending.drain(..end).collect();
                taken.chunks(3).for_each(|group| self.base64_group(group, out));
            }
            MimeEncoder::QuotedPrintable => {
                self.pending.extend_from_slice(input);
                let text = std::mem::take(&mut self.pending);
                let mut at = 0;
                while at < text.len() {
                    match self.quote(&text[at..], is_last, out) {
                        Some(taken) => at += taken,
                        None => break,
                    }
                }
                self.pending = text[at..].to_vec();
            }
        }
        Ok(())
    }

    fn base64_group(&mut self, group: &[u8], out: &mut Vec<u8>) {
        if self.column == LINE_LEN_MAX {
            out.extend_from_slice(b"\r\n");
            self.column = 0;
        }
        out.extend_from_slice(STANDARD.encode(group).as_bytes());
        self.column += 4;
    }

    /// Encodes the first byte of `text`, or its line end, or breaks the line before it. Returns the
    /// number of bytes taken; `None` if the bytes behind it must be known.
    fn quote(&mut self, text: &[u8], is_last: bool, out: &mut Vec<u8>) -> Option<usize> {
        let byte = text[0];
        let is_plain = match byte {
            b' ' | b'\t' => !ends_line(&text[1..], is_last)?,
            b'\r' if ends_line(text, is_last)? => {
                out.extend_from_slice(b"\r\n");
                self.column = 0;
                return Some(2);
            }
            33..=126 => byte != b'=',
            _ => false,
        };
        let len = if is_plain { 1 } else { 3 };
        let is_full = match (self.column + len).cmp(&LINE_LEN_MAX) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => !ends_line(&text[1..], is_last)?,
            std::cmp::Ordering::Greater => true,
        };
        if is_full {
            out.extend_from_slice(b"=\r\n");
            self.column = 0;
            return Some(0);
        }
        match is_plain {
            true => out.push(byte),
            false => out.extend_from_slice(format!("={byte:02X}").as_bytes()),
        }
        self.column += len;
        Some(1)
    }
}

/// True before a line end and at the end of the content; `None` if that is not known yet.
fn ends_line(text: &[u8], is_last: bool) -> Option<bool> {
    match text {
        [] => is_last.then_some(true),
        [b'\r', b'\n', ..] => Some(true),
        [b'\r'] if !is_last => None,
        _ => Some(false),
    }
}

const LINE_LEN_MAX: usize = 76;
