//! Forms as bodies: urlencoded and multipart (RFC 7578), encoding and parsing.
//!
//! Needs the feature `form`.
//!
//! [`Multipart`] builds a body from segments, including unread files; [`Parser`] parses one as it
//! arrives.

mod parameters;
mod parser;
mod urlencoded;
mod writer;

pub use parser::{FormEvent, FormLimits, Parser, ParserError, PartHead};
pub use urlencoded::{URLENCODED, fields, urlencoded};
pub use writer::{BadBoundary, BadPart, Boundary, EncodedForm, FormPart, Multipart};

/// Maximum length of a boundary (RFC 2046 §5.1.1).
pub const BOUNDARY_SIZE_MAX: usize = 70;
