//! Forms as bodies: urlencoded and multipart (RFC 7578), both ways.
//!
//! Needs the feature `form`.
//!
//! [`Multipart`] writes a body as segments, files unread among them; [`Parser`] takes one apart as
//! it arrives.

mod parameters;
mod parser;
mod urlencoded;
mod writer;

pub use parser::{Event, Limits, Parser, ParserError, PartHead};
pub use urlencoded::{URLENCODED, fields, urlencoded};
pub use writer::{BadBoundary, BadPart, Boundary, Form, Multipart, Part};

/// As long as a boundary may be (RFC 2046 §5.1.1).
pub const BOUNDARY_SIZE_MAX: usize = 70;
