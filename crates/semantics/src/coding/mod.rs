//! Content codings (RFC 9110 §8.4): their names, and the ones that a client accepts
//! ([`AcceptedCodings`]).
//!
//! With the feature `decoding`, `ContentDecoder` decodes a body as it arrives.

mod accept;
#[cfg(feature = "decoding")]
mod codec;
#[cfg(feature = "decoding")]
mod decoder;

pub use accept::AcceptedCodings;
#[cfg(feature = "decoding")]
pub use decoder::{
    CODINGS_LEN_MAX, CodingError, CodingLimits, ContentDecoder, DecodeStep, HELD_SIZE_MAX,
    NAME_SIZE_MAX, RATIO_SIZE_MIN, RATIO_USUAL,
};

/// A supported content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentCoding {
    /// `gzip` and `x-gzip` (RFC 1952); consecutive members are one body.
    Gzip,
    /// `deflate` (RFC 1950), also without the zlib header (RFC 1951), which some servers omit.
    Deflate,
    /// `br` (RFC 7932).
    Brotli,
    /// `zstd` (RFC 8878, with the window of RFC 9659); consecutive frames are one body.
    Zstd,
}

impl ContentCoding {
    /// The coding with this name, compared without case.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        match () {
            () if is(b"gzip") || is(b"x-gzip") => Some(Self::Gzip),
            () if is(b"deflate") => Some(Self::Deflate),
            () if is(b"br") => Some(Self::Brotli),
            () if is(b"zstd") => Some(Self::Zstd),
            () => None,
        }
    }

    /// The name in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }
}

/// The value of `Accept-Encoding` for all supported codings (RFC 9110 §12.5.3).
pub const ACCEPT_ENCODING: &str = "gzip, deflate, br, zstd";
