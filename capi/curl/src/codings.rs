//! One coding of a body: how libcurl runs zlib, Brotli and zstd.

use std::fmt;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{Decoder as Zstd, Operation};

use crate::code::CurlCode;
use crate::failure::Failure;

/// A coding, and how far it is.
pub(crate) enum BodyCodec {
    Identity,
    Zlib(ZlibCodec),
    Brotli(Option<Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>>),
    Zstd(Box<Zstd<'static>>),
    /// An unknown coding: an error once there is a body.
    Unknown,
}

/// `gzip` or `deflate`.
#[derive(Debug)]
pub(crate) struct ZlibCodec {
    is_gzip: bool,
    state: ZlibState,
}

#[derive(Debug)]
enum ZlibState {
    /// No byte has arrived: the first one selects the form.
    Unknown,
    /// With a header. `may_be_raw`: the header may be missing (RFC 1951).
    Headed { engine: Decompress, may_be_raw: bool },
    /// Without a header.
    Raw(Decompress),
    /// The end has come; so many bytes of a trailer may follow.
    Ended(usize),
}

type Deliver<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), Failure>;

impl BodyCodec {
    /// The coding of a name.
    pub(crate) fn new(name: &[u8]) -> Self {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match () {
            () if is("identity") || is("none") => Self::Identity,
            () if is("gzip") || is("x-gzip") => Self::zlib(true),
            () if is("deflate") => Self::zlib(false),
            () if is("br") => {
                let alloc = StandardAlloc::default;
                Self::Brotli(Some(Box::new(BrotliState::new_strict(alloc(), alloc(), alloc()))))
            }
            () if is("zstd") => {
                Zstd::new().map_or(Self::Unknown, |decoder| Self::Zstd(Box::new(decoder)))
            }
            () => Self::Unknown,
        }
    }

    fn zlib(is_gzip: bool) -> Self {
        Self::Zlib(ZlibCodec { is_gzip, state: ZlibState::Unknown })
    }

    /// Decodes all of `input`, in pieces of at most [`PIECE_SIZE`].
    ///
    /// # Errors
    /// The bytes are not of this coding, or `deliver` fails.
    pub(crate) fn decode(&mut self, input: &[u8], deliver: Deliver<'_>) -> Result<(), Failure> {
        match self {
            Self::Identity => deliver(input),
            Self::Zlib(codec) => codec.decode(input, deliver),
            Self::Brotli(state) => brotli(state, input, deliver),
            Self::Zstd(engine) => zstd(engine, input, deliver),
            Self::Unknown => Err(bad_coding(format!(
                "Unrecognized content encoding type. libcurl understands {CODINGS} content \
                 encodings."
            ))),
        }
    }
}

impl fmt::Debug for BodyCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Identity => "Identity",
            Self::Zlib(codec) if codec.is_gzip => "Gzip",
            Self::Zlib(_) => "Deflate",
            Self::Brotli(_) => "Brotli",
            Self::Zstd(_) => "Zstd",
            Self::Unknown => "Unknown",
        })
    }
}

impl ZlibCodec {
    fn decode(&mut self, input: &[u8], deliver: Deliver<'_>) -> Result<(), Failure> {
        match self.inflate(input, deliver) {
            Ok(None) => Ok(()),
            Ok(Some((end, trailer_max))) => {
                let rest = input.len() - end;
                self.state = ZlibState::Ended(trailer_max.saturating_sub(rest));
                if rest > trailer_max { Err(trailing()) } else { Ok(()) }
            }
            Err(failure) => {
                self.state = ZlibState::Ended(0);
                Err(failure)
            }
        }
    }

    /// The end of the stream in the input, and how long a trailer may be; `None`: it goes on.
    fn inflate(
        &mut self,
        input: &[u8],
        deliver: Deliver<'_>,
    ) -> Result<Option<(usize, usize)>, Failure> {
        if let ZlibState::Unknown = self.state {
            // In a body that is announced as gzip, zlib itself distinguishes the two.
            let engine = match self.is_gzip && input.first() == Some(&GZIP_MAGIC) {
                true => Decompress::new_gzip(WINDOW_BITS),
                false => Decompress::new(true),
            };
            self.state = ZlibState::Headed { engine, may_be_raw: !self.is_gzip };
        }
        if let ZlibState::Headed { engine, may_be_raw } = &mut self.state {
            let may_be_raw = std::mem::take(may_be_raw);
            match inflate(engine, input, deliver) {
                Ok(end) => return Ok(end.map(|end| (end, 0))),
                Err(InflateError::Corrupt { is_started: false, .. }) if may_be_raw => {}
                Err(error) => return Err(error.into()),
            }
            self.state = ZlibState::Raw(Decompress::new(false));
        }
        match &mut self.state {
            ZlibState::Raw(engine) => {
                Ok(inflate(engine, input, deliver)?.map(|end| (end, RAW_TRAILER_SIZE_MAX)))
            }
            ZlibState::Ended(0) => Err(trailing()),
            ZlibState::Ended(left) => Ok(Some((0, *left))),
            ZlibState::Unknown | ZlibState::Headed { .. } => Ok(None),
        }
    }
}

enum InflateError {
    /// Not of the form. `is_started`: bytes were delivered before.
    Corrupt {
        text: Option<String>,
        is_started: bool,
    },
    Undelivered(Failure),
}

impl From<InflateError> for Failure {
    fn from(error: InflateError) -> Self {
        match error {
            InflateError::Undelivered(failure) => failure,
            InflateError::Corrupt { text, .. } => {
                let text = text.as_deref();
                let text = text.unwrap_or("Unknown failure within decompression software.");
                bad_coding(format!("Error while processing content unencoding: {text}"))
            }
        }
    }
}

/// Runs zlib until it needs more input; returns where in the input the stream has ended.
fn inflate(
    engine: &mut Decompress,
    input: &[u8],
    deliver: Deliver<'_>,
) -> Result<Option<usize>, InflateError> {
    let mut output = vec![0; PIECE_SIZE];
    let start = engine.total_in();
    let mut is_started = false;
    loop {
        let before = engine.total_out();
        let size = |n: u64| usize::try_from(n).expect("at most the length of a slice");
        let rest = &input[size(engine.total_in() - start)..];
        let status =
            engine.decompress(rest, &mut output, FlushDecompress::None).map_err(|error| {
                InflateError::Corrupt { text: error.message().map(str::to_owned), is_started }
            })?;
        let produced = size(engine.total_out() - before);
        if produced > 0 {
            is_started = true;
            deliver(&output[..produced]).map_err(InflateError::Undelivered)?;
        }
        match status {
            Status::Ok => {}
            Status::BufError => return Ok(None),
            Status::StreamEnd => return Ok(Some(size(engine.total_in() - start))),
        }
    }
}

/// The state is `None` after the end.
fn brotli(
    state: &mut Option<Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>>,
    input: &[u8],
    deliver: Deliver<'_>,
) -> Result<(), Failure> {
    let mut output = vec![0; PIECE_SIZE];
    let (mut left, mut at, mut total) = (input.len(), 0, 0);
    loop {
        let Some(engine) = state else { return Err(trailing()) };
        let (mut room, mut produced) = (output.len(), 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut at,
            input,
            &mut room,
            &mut produced,
            &mut output,
            &mut total,
            engine,
        );
        if produced > 0 {
            deliver(&output[..produced])?;
        }
        match result {
            BrotliResult::NeedsMoreOutput => {}
            BrotliResult::NeedsMoreInput => return Ok(()),
            BrotliResult::ResultSuccess => {
                *state = None;
                return if left > 0 { Err(trailing()) } else { Ok(()) };
            }
            BrotliResult::ResultFailure => {
                let code = match engine.error_code as i32 {
                    // Errors of the format, but for a reserved bit and a distance.
                    -15..=-3 | -1 | -19 | -20 => CurlCode::BadContentEncoding,
                    -30..=-21 => CurlCode::OutOfMemory,
                    _ => CurlCode::WriteError,
                };
                return Err(Failure::new(code, ""));
            }
        }
    }
}

fn zstd(engine: &mut Zstd<'_>, input: &[u8], deliver: Deliver<'_>) -> Result<(), Failure> {
    let mut output = vec![0; PIECE_SIZE];
    let mut rest = input;
    loop {
        let status =
            engine.run_on_buffers(rest, &mut output).map_err(|_| bad_coding(String::new()))?;
        rest = &rest[status.bytes_read..];
        if status.bytes_written > 0 {
            deliver(&output[..status.bytes_written])?;
        }
        if rest.is_empty() && status.bytes_written < output.len() {
            return Ok(());
        }
    }
}

fn bad_coding(text: String) -> Failure {
    Failure::new(CurlCode::BadContentEncoding, text)
}

/// Bytes follow the end.
fn trailing() -> Failure {
    Failure::new(CurlCode::WriteError, "")
}

/// The codings in the order of libcurl's list.
pub(crate) const CODINGS: &str = "deflate, gzip, br, zstd";
const GZIP_MAGIC: u8 = 0x1f;
const WINDOW_BITS: u8 = 15;
/// What may follow a stream without a header.
const RAW_TRAILER_SIZE_MAX: usize = 4;
/// The largest decoded piece.
const PIECE_SIZE: usize = 64 * 1024;
