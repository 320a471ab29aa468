//! A streaming decoder for `Content-Encoding`.
//!
//! The output never exceeds the caller's buffer, and decoding stops while it is full. So a
//! decompression bomb stays compressed until it is read. Memory is used only by the decoders: a
//! window of 32 KB for gzip and deflate, up to 8 MB for zstd and 16 MB for Brotli if a stream
//! requires it, and [`HELD_SIZE_MAX`] between two codings.
//!
//! ```
//! use fulmar_semantics::coding::{ContentDecoder, CodingLimits};
//!
//! let decoder = ContentDecoder::new([&b"gzip"[..]], CodingLimits::default())?;
//! let mut decoder = decoder.expect("gzip is a coding");
//! let mut input = &b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xcb\xc8\x04\0\xac\x2a\x93\xd8\x02\0\0\0"[..];
//! let (mut piece, mut body) = ([0; 64 * 1024], Vec::new());
//! loop {
//!     let step = decoder.decode(input, &mut piece)?;
//!     input = &input[step.consumed..];
//!     body.extend_from_slice(&piece[..step.produced]); // back-pressure: wait here
//!     if !step.pending {
//!         break; // all input is decoded
//!     }
//! }
//! decoder.finish()?; // the body is complete
//! assert_eq!(body, b"hi");
//! # Ok::<(), fulmar_semantics::coding::CodingError>(())
//! ```

use std::fmt;

use super::ContentCoding;
use super::codec::{Codec, CodecFault, CodecStep};

/// The decoder of a body. Needs the feature `decoding`.
#[derive(Debug)]
pub struct ContentDecoder {
    /// In decoding order: the reverse of the field. Never empty.
    stages: Vec<DecodeStage>,
    limits: CodingLimits,
    consumed: u64,
    produced: u64,
    /// The error that stopped the decoder.
    failed: Option<CodingError>,
}

/// Limits of the decoded size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodingLimits {
    /// Maximum size of the decoded body in bytes.
    pub output_max: Option<u64>,
    /// Maximum ratio of decoded to received bytes; applies to bodies larger than
    /// [`RATIO_SIZE_MIN`].
    pub ratio_max: Option<u32>,
}

impl Default for CodingLimits {
    fn default() -> Self {
        Self { output_max: None, ratio_max: Some(RATIO_USUAL) }
    }
}

/// The result of a call of [`ContentDecoder::decode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeStep {
    /// Number of input bytes consumed. The rest must be passed again.
    pub consumed: usize,
    /// Number of decoded bytes at the beginning of the output.
    pub produced: usize,
    /// The output is full: there may be more without more input. If false, all input was consumed.
    pub pending: bool,
}

impl ContentDecoder {
    /// A decoder for these `Content-Encoding` fields, in wire order; `None` if they are empty, or
    /// only contain `identity`.
    ///
    /// # Errors
    /// [`CodingError::Unknown`], [`CodingError::TooMany`].
    pub fn new<'a>(
        values: impl IntoIterator<Item = &'a [u8]>,
        limits: CodingLimits,
    ) -> Result<Option<Self>, CodingError> {
        let mut stages = Vec::new();
        let names = values.into_iter().flat_map(|value| value.split(|b| *b == b','));
        for name in names.map(<[u8]>::trim_ascii) {
            if name.is_empty() || name.eq_ignore_ascii_case(b"identity") {
                continue;
            }
            let coding =
                ContentCoding::from_name(name).ok_or_else(|| CodingError::unknown(name))?;
            if stages.len() == CODINGS_LEN_MAX {
                return Err(CodingError::TooMany);
            }
            stages.push(DecodeStage::new(coding));
        }
        stages.reverse();
        let decoder = Self { stages, limits, consumed: 0, produced: 0, failed: None };
        Ok((!decoder.stages.is_empty()).then_some(decoder))
    }

    /// Decodes as much of `input` as fits into `output`. An empty input continues with pending
    /// data.
    ///
    /// # Errors
    /// The body does not match its fields, or exceeds a limit. The output of this call and of later
    /// calls is invalid.
    pub fn decode(&mut self, input: &[u8], output: &mut [u8]) -> Result<DecodeStep, CodingError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let mut rest = input;
        let produced = pull(&mut self.stages, &mut rest, output);
        let step = produced.and_then(|produced| {
            let consumed = input.len() - rest.len();
            self.account(DecodeStep { consumed, produced, pending: produced == output.len() })
        });
        if let Err(error) = &step {
            self.failed = Some(error.clone());
        }
        step
    }

    /// Checks at the end of the input, without pending data, that the body is complete. An empty
    /// body is complete with any coding, because servers send such bodies.
    ///
    /// # Errors
    /// [`CodingError::Truncated`], or the error that `decode` returned.
    pub fn finish(&self) -> Result<(), CodingError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let open = self.stages.iter().find(|stage| !stage.codec.is_ended());
        match open {
            Some(stage) if self.consumed > 0 => Err(CodingError::Truncated(stage.coding)),
            _ => Ok(()),
        }
    }

    fn account(&mut self, step: DecodeStep) -> Result<DecodeStep, CodingError> {
        self.consumed += step.consumed as u64;
        self.produced += step.produced as u64;
        if let Some(max) = self.limits.output_max.filter(|max| self.produced > *max) {
            return Err(CodingError::OutputTooLong { max });
        }
        let exceeded = |max: &u32| self.produced > self.consumed.saturating_mul((*max).into());
        match self.limits.ratio_max.filter(exceeded) {
            Some(max) if self.produced > RATIO_SIZE_MIN => Err(CodingError::RatioTooHigh { max }),
            _ => Ok(step),
        }
    }
}

/// One coding of a stack, with its pending input.
struct DecodeStage {
    coding: ContentCoding,
    codec: Codec,
    /// The last output was full: there may be more without more input.
    pending: bool,
    /// Output of the outer coding, unread from `at`; unused by the outermost coding.
    held: Vec<u8>,
    at: usize,
}

impl DecodeStage {
    fn new(coding: ContentCoding) -> Self {
        Self { coding, codec: Codec::new(coding), pending: false, held: Vec::new(), at: 0 }
    }

    /// Decodes some of `input`. Makes no progress only if it needs more input or more room.
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<CodecStep, CodingError> {
        if input.is_empty() && !self.pending {
            return Ok(CodecStep::default());
        }
        let done = self.codec.step(input, output).map_err(|fault| match fault {
            CodecFault::Corrupt => CodingError::Corrupt(self.coding),
            CodecFault::TrailingData => CodingError::TrailingData(self.coding),
        })?;
        self.pending = done.produced == output.len();
        Ok(done)
    }

    /// Like `step`, with the held input.
    fn step_held(&mut self, output: &mut [u8]) -> Result<CodecStep, CodingError> {
        let held = std::mem::take(&mut self.held);
        let done = self.step(&held[self.at..], output);
        self.held = held;
        self.at += done.as_ref().map_or(0, |done| done.consumed);
        done
    }
}

impl fmt::Debug for DecodeStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DecodeStage").field(&self.coding).finish()
    }
}

/// Fills `output` from the last of these stages. Each stage reads from the one before it, the first
/// one from `input`, which keeps the unconsumed rest. If the output is not full, the input was
/// consumed completely.
fn pull(
    stages: &mut [DecodeStage],
    input: &mut &[u8],
    output: &mut [u8],
) -> Result<usize, CodingError> {
    let (stage, outer) = stages.split_last_mut().expect("a decoder has at least one stage");
    let mut produced = 0;
    while produced < output.len() {
        let room = &mut output[produced..];
        let done = if outer.is_empty() {
            let done = stage.step(input, room)?;
            *input = &input[done.consumed..];
            done
        } else {
            if stage.at == stage.held.len() {
                stage.held.resize(HELD_SIZE_MAX, 0);
                let n = pull(outer, input, &mut stage.held)?;
                stage.held.truncate(n);
                stage.at = 0;
            }
            stage.step_held(room)?
        };
        if done == CodecStep::default() {
            break;
        }
        produced += done.produced;
    }
    Ok(produced)
}

/// Why a body cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodingError {
    /// An unsupported coding, with its name truncated to [`NAME_SIZE_MAX`].
    Unknown(Box<str>),
    /// More codings than [`CODINGS_LEN_MAX`].
    TooMany,
    /// The bytes are not valid in this coding, or do not match its checksum.
    Corrupt(ContentCoding),
    /// The body ended before the coding.
    Truncated(ContentCoding),
    /// Bytes follow the end of the coding.
    TrailingData(ContentCoding),
    /// The decoded body exceeds [`CodingLimits::output_max`].
    OutputTooLong {
        /// The limit.
        max: u64,
    },
    /// The ratio exceeds [`CodingLimits::ratio_max`].
    RatioTooHigh {
        /// The limit.
        max: u32,
    },
}

impl CodingError {
    fn unknown(name: &[u8]) -> Self {
        let name = &name[..name.len().min(NAME_SIZE_MAX)];
        Self::Unknown(String::from_utf8_lossy(name).into())
    }
}

impl fmt::Display for CodingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "unknown content coding {name:?}"),
            Self::TooMany => write!(f, "more than {CODINGS_LEN_MAX} content codings"),
            Self::Corrupt(coding) => write!(f, "corrupt {} body", coding.name()),
            Self::Truncated(coding) => write!(f, "truncated {} body", coding.name()),
            Self::TrailingData(coding) => {
                write!(f, "trailing bytes after the {} body", coding.name())
            }
            Self::OutputTooLong { max } => write!(f, "decoded body exceeds {max} bytes"),
            Self::RatioTooHigh { max } => {
                write!(f, "decoded body exceeds {max} times its encoded size")
            }
        }
    }
}

impl std::error::Error for CodingError {}

/// Maximum number of codings in a stack, as in curl; legitimate bodies have at most two.
pub const CODINGS_LEN_MAX: usize = 5;
/// Maximum number of bytes between two codings of a stack.
pub const HELD_SIZE_MAX: usize = 16 * 1024;
/// Above 1,032, the maximum of gzip and deflate: it stops only bombs in Brotli, zstd or stacks.
pub const RATIO_USUAL: u32 = 1_100;
/// Bodies up to this size are harmless with any ratio; a page that repeats one letter is
/// legitimate.
pub const RATIO_SIZE_MIN: u64 = 1024 * 1024;
/// Maximum length of a coding's name in an error.
pub const NAME_SIZE_MAX: usize = 64;
