//! What a body is wrapped in, undone as the bytes arrive: the decoder of `Content-Encoding`.
//!
//! Bytes are pushed in and come out in the caller's buffer, never more than it holds: while it is
//! full, nothing more is undone, so a bomb waits as compressed as it arrived. Memory is that of
//! the codings alone: 32 KB of window for gzip and deflate, up to 8 MB for zstd and 16 MB for
//! Brotli where a stream asks for it, and [`HELD_SIZE_MAX`] between two codings of a stack.
//!
//! ```
//! use fulmar_semantics::coding::{Decoder, Limits};
//!
//! let mut decoder = Decoder::new([&b"gzip"[..]], Limits::default())?.expect("gzip is a coding");
//! let mut input = &b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xcb\xc8\x04\0\xac\x2a\x93\xd8\x02\0\0\0"[..];
//! let (mut piece, mut body) = ([0; 64 * 1024], Vec::new());
//! loop {
//!     let step = decoder.decode(input, &mut piece)?;
//!     input = &input[step.consumed..];
//!     body.extend_from_slice(&piece[..step.produced]); // back-pressure: wait here
//!     if !step.pending {
//!         break; // everything that has arrived is undone
//!     }
//! }
//! decoder.finish()?; // the body is complete
//! assert_eq!(body, b"hi");
//! # Ok::<(), fulmar_semantics::coding::CodingError>(())
//! ```

use std::fmt;

use super::Coding;
use super::codec::{Codec, Fault};

/// One body being undone. Needs the feature `decoding`.
#[derive(Debug)]
pub struct Decoder {
    /// In the order in which they are undone: the reverse of the field's. Never empty.
    stages: Vec<Stage>,
    limits: Limits,
    consumed: u64,
    produced: u64,
    /// Why nothing more comes out.
    failed: Option<CodingError>,
}

/// How much may come out of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the body as it was before it was wrapped.
    pub output_max: Option<u64>,
    /// Bytes out for each byte in, held against bodies that have grown beyond
    /// [`RATIO_SIZE_MIN`].
    pub ratio_max: Option<u32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { output_max: None, ratio_max: Some(RATIO_USUAL) }
    }
}

/// What one call of [`Decoder::decode`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the input that are done with. The rest has to be presented again.
    pub consumed: usize,
    /// Bytes of the body, at the front of the output.
    pub produced: usize,
    /// The output was filled: there may be more, even without more input. Otherwise all input
    /// is consumed.
    pub pending: bool,
}

impl Decoder {
    /// Undoes what these `Content-Encoding` fields say, in wire order; `None` if they say
    /// nothing, or `identity`.
    ///
    /// # Errors
    /// [`CodingError::Unknown`], [`CodingError::TooMany`].
    pub fn new<'a>(
        values: impl IntoIterator<Item = &'a [u8]>,
        limits: Limits,
    ) -> Result<Option<Self>, CodingError> {
        let mut stages = Vec::new();
        let names = values.into_iter().flat_map(|value| value.split(|b| *b == b','));
        for name in names.map(<[u8]>::trim_ascii) {
            if name.is_empty() || name.eq_ignore_ascii_case(b"identity") {
                continue;
            }
            let coding = Coding::from_name(name).ok_or_else(|| CodingError::unknown(name))?;
            if stages.len() == CODINGS_LEN_MAX {
                return Err(CodingError::TooMany);
            }
            stages.push(Stage::new(coding));
        }
        stages.reverse();
        let decoder = Self { stages, limits, consumed: 0, produced: 0, failed: None };
        Ok((!decoder.stages.is_empty()).then_some(decoder))
    }

    /// Undoes as much of `input` as fits into `output`. An empty input asks for what is pending.
    ///
    /// # Errors
    /// The body is not what its fields say, or too much of it: nothing of this call or a later
    /// one is to be used.
    pub fn decode(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, CodingError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let mut rest = input;
        let produced = pull(&mut self.stages, &mut rest, output);
        let step = produced.and_then(|produced| {
            let consumed = input.len() - rest.len();
            self.account(Step { consumed, produced, pending: produced == output.len() })
        });
        if let Err(error) = &step {
            self.failed = Some(error.clone());
        }
        step
    }

    /// No more input comes, and nothing is pending: the body is complete, or it was cut off. A
    /// body without a byte is complete whatever its coding, as servers send it.
    ///
    /// # Errors
    /// [`CodingError::Truncated`], or the error that `decode` gave.
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

    fn account(&mut self, step: Step) -> Result<Step, CodingError> {
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

/// One coding of a stack, and what waits for it.
struct Stage {
    coding: Coding,
    codec: Codec,
    /// Its last output was filled: there may be more without more input.
    pending: bool,
    /// What the coding around it has given, from `at` on; unused by the outermost one.
    held: Vec<u8>,
    at: usize,
}

impl Stage {
    fn new(coding: Coding) -> Self {
        Self { coding, codec: Codec::new(coding), pending: false, held: Vec::new(), at: 0 }
    }

    /// Undoes some of `input`. Does nothing only if nothing can be done without more of it, or
    /// if there is no room.
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Done, CodingError> {
        if input.is_empty() && !self.pending {
            return Ok(Done::default());
        }
        let done = self.codec.step(input, output).map_err(|fault| match fault {
            Fault::Corrupt => CodingError::Corrupt(self.coding),
            Fault::TrailingData => CodingError::TrailingData(self.coding),
        })?;
        self.pending = done.produced == output.len();
        Ok(done)
    }

    /// As `step`, with the input that is held.
    fn step_held(&mut self, output: &mut [u8]) -> Result<Done, CodingError> {
        let held = std::mem::take(&mut self.held);
        let done = self.step(&held[self.at..], output);
        self.held = held;
        self.at += done.as_ref().map_or(0, |done| done.consumed);
        done
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stage").field(&self.coding).finish()
    }
}

/// What one step of a codec did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) consumed: usize,
    pub(super) produced: usize,
}

/// Fills `output` from the last of these stages, each fed by the one before it and the first by
/// `input`, of which it leaves what is not consumed. The output is not full only if the input
/// is used up.
fn pull(stages: &mut [Stage], input: &mut &[u8], output: &mut [u8]) -> Result<usize, CodingError> {
    let (stage, outer) = stages.split_last_mut().expect("a decoder has a stage");
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
        if done == Done::default() {
            break;
        }
        produced += done.produced;
    }
    Ok(produced)
}

/// Why a body cannot be undone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodingError {
    /// A coding that is not understood; its name, cut at [`NAME_SIZE_MAX`].
    Unknown(Box<str>),
    /// More codings than [`CODINGS_LEN_MAX`].
    TooMany,
    /// The bytes are not of this coding, or do not match its checksum.
    Corrupt(Coding),
    /// The body ended before this coding did.
    Truncated(Coding),
    /// Bytes follow where this coding has ended.
    TrailingData(Coding),
    /// More than [`Limits::output_max`] came out.
    OutputTooLong {
        /// That limit.
        max: u64,
    },
    /// More than [`Limits::ratio_max`] came out for what went in.
    RatioTooHigh {
        /// That limit.
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
            Self::Unknown(name) => write!(f, "the content coding {name:?} is not known"),
            Self::TooMany => write!(f, "more than {CODINGS_LEN_MAX} content codings"),
            Self::Corrupt(coding) => write!(f, "the {} body is corrupt", coding.name()),
            Self::Truncated(coding) => write!(f, "the {} body is cut off", coding.name()),
            Self::TrailingData(coding) => {
                write!(f, "bytes follow the end of the {} body", coding.name())
            }
            Self::OutputTooLong { max } => write!(f, "the decoded body is longer than {max} bytes"),
            Self::RatioTooHigh { max } => {
                write!(f, "the decoded body is more than {max} times as long as it was sent")
            }
        }
    }
}

impl std::error::Error for CodingError {}

/// Codings on top of each other: as many as curl accepts; more than two have no honest use.
pub const CODINGS_LEN_MAX: usize = 5;
/// Bytes between two codings of a stack.
pub const HELD_SIZE_MAX: usize = 16 * 1024;
/// gzip and deflate cannot exceed 1,032: this stops what only bombs in Brotli, zstd or stacks do.
pub const RATIO_USUAL: u32 = 1_100;
/// A body that has not grown beyond this hurts nobody, whatever its ratio: a page of one letter
/// repeated is honest.
pub const RATIO_SIZE_MIN: u64 = 1024 * 1024;
/// How much of a coding's name an error shows.
pub const NAME_SIZE_MAX: usize = 64;
