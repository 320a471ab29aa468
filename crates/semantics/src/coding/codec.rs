//! The decoders of all codings with one signature.
//!
//! zlib-rs through flate2 (gzip, deflate) and `brotli-decompressor` are memory-safe Rust. zstd is
//! the reference library in C: the Rust implementation decodes only whole blocks of up to 128 KB.
//! All of them stop when the output is full.

use std::fmt;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder as Zstd, Operation};

use super::ContentCoding;

/// The result of one step of a codec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CodecStep {
    pub(super) consumed: usize,
    pub(super) produced: usize,
}

/// The state of one coding of a body.
pub(super) struct Codec {
    engine: CodecState,
    /// The body may end here.
    ended: bool,
}

enum CodecState {
    Gzip(Decompress),
    /// `None` until the first byte shows which of the two forms it is.
    Deflate(Option<Decompress>),
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
    Zstd(Zstd<'static>),
}

/// An error in the coded bytes.
pub(super) enum CodecFault {
    Corrupt,
    TrailingData,
}

impl Codec {
    pub(super) fn new(coding: ContentCoding) -> Self {
        let engine = match coding {
            ContentCoding::Gzip => CodecState::Gzip(Decompress::new_gzip(DEFLATE_WINDOW_BITS)),
            ContentCoding::Deflate => CodecState::Deflate(None),
            ContentCoding::Brotli => {
                let alloc = StandardAlloc::default;
                CodecState::Brotli(Box::new(BrotliState::new_strict(alloc(), alloc(), alloc())))
            }
            ContentCoding::Zstd => {
                let mut zstd = Zstd::new().expect("creation without a dictionary cannot fail");
                zstd.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_BITS_MAX))
                    .expect("within the limits of the library");
                CodecState::Zstd(zstd)
            }
        };
        Self { engine, ended: false }
    }

    /// True if this coding is complete.
    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Decodes some of `input`; makes progress if neither `input` nor `output` is empty.
    pub(super) fn step(
        &mut self,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<CodecStep, CodecFault> {
        if self.ended {
            let Some(first) = input.first() else { return Ok(CodecStep::default()) };
            self.begin_another(*first)?;
        }
        let (done, ended) = match &mut self.engine {
            CodecState::Gzip(engine) => inflate(engine, input, output)?,
            CodecState::Deflate(engine) => {
                if engine.is_none() {
                    *engine = input.first().map(|first| Decompress::new(is_zlib(*first)));
                }
                match engine {
                    Some(engine) => inflate(engine, input, output)?,
                    None => (CodecStep::default(), false),
                }
            }
            CodecState::Brotli(state) => brotli(state, input, output)?,
            CodecState::Zstd(engine) => {
                let status =
                    engine.run_on_buffers(input, output).map_err(|_| CodecFault::Corrupt)?;
                let (consumed, produced) = (status.bytes_read, status.bytes_written);
                (CodecStep { consumed, produced }, status.remaining == 0)
            }
        };
        self.ended = ended;
        Ok(done)
    }

    /// Bytes follow the end: another member or frame, or trailing data.
    fn begin_another(&mut self, first: u8) -> Result<(), CodecFault> {
        match &mut self.engine {
            CodecState::Gzip(engine) if first == GZIP_MAGIC => engine.reset(true),
            CodecState::Zstd(_) if first == ZSTD_MAGIC || ZSTD_SKIPPABLE.contains(&first) => {}
            _ => return Err(CodecFault::TrailingData),
        }
        Ok(())
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec").field("ended", &self.ended).finish_non_exhaustive()
    }
}

fn inflate(
    engine: &mut Decompress,
    input: &[u8],
    output: &mut [u8],
) -> Result<(CodecStep, bool), CodecFault> {
    let (before_in, before_out) = (engine.total_in(), engine.total_out());
    let status =
        engine.decompress(input, output, FlushDecompress::None).map_err(|_| CodecFault::Corrupt)?;
    let size = |n: u64| usize::try_from(n).expect("at most the length of a slice");
    let consumed = size(engine.total_in() - before_in);
    let produced = size(engine.total_out() - before_out);
    Ok((CodecStep { consumed, produced }, status == Status::StreamEnd))
}

/// The low half of the first byte of a zlib header is 8 (RFC 1950 §2.2). A raw stream with that
/// byte would be a stored block with non-zero padding, which no encoder writes.
fn is_zlib(first: u8) -> bool {
    first & 0x0f == 8
}

fn brotli(
    state: &mut BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    input: &[u8],
    output: &mut [u8],
) -> Result<(CodecStep, bool), CodecFault> {
    let (mut room, mut left) = (output.len(), input.len());
    let (mut consumed, mut produced, mut total) = (0, 0, 0);
    let result = BrotliDecompressStream(
        &mut left,
        &mut consumed,
        input,
        &mut room,
        &mut produced,
        output,
        &mut total,
        state,
    );
    match result {
        BrotliResult::ResultFailure => Err(CodecFault::Corrupt),
        BrotliResult::ResultSuccess => Ok((CodecStep { consumed, produced }, true)),
        BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {
            Ok((CodecStep { consumed, produced }, false))
        }
    }
}

/// 32 KB: the maximum of deflate.
const DEFLATE_WINDOW_BITS: u8 = 15;
/// 8 MB: the maximum window for senders (RFC 9659 §3).
const ZSTD_WINDOW_BITS_MAX: u32 = 23;
const GZIP_MAGIC: u8 = 0x1f;
/// The first byte of a frame (little-endian, RFC 8878 §3.1.1).
const ZSTD_MAGIC: u8 = 0x28;
/// The first bytes of skippable frames, which have no data (RFC 8878 §3.1.2).
const ZSTD_SKIPPABLE: std::ops::RangeInclusive<u8> = 0x50..=0x5f;
