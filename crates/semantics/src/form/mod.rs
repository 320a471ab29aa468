//! Forms as bodies: urlencoded, and multipart both ways (RFC 7578).
//!
//! [`Multipart`] writes a body as segments, files unread among them; [`Parser`] takes one apart as
//! it arrives.

mod parameters;
mod parser;
mod writer;

pub use parser::{Event, Limits, Parser, ParserError, PartHead};
pub use writer::{BadBoundary, BadPart, Boundary, Form, Multipart, Part};

/// Fields as `application/x-www-form-urlencoded`, which is what [`URLENCODED`] says of a body and
/// what queries are written in.
///
/// ```
/// use fulmar_semantics::form::urlencoded;
/// assert_eq!(urlencoded([("q", "a b&c"), ("x", "\u{e9}")]), "q=a+b%26c&x=%C3%A9");
/// ```
pub fn urlencoded<N: AsRef<[u8]>, V: AsRef<[u8]>>(
    fields: impl IntoIterator<Item = (N, V)>,
) -> String {
    let mut out = String::new();
    for (name, value) in fields {
        if !out.is_empty() {
            out.push('&');
        }
        out.extend(form_urlencoded::byte_serialize(name.as_ref()));
        out.push('=');
        out.extend(form_urlencoded::byte_serialize(value.as_ref()));
    }
    out
}

/// The `Content-Type` of an urlencoded body.
pub const URLENCODED: &str = "application/x-www-form-urlencoded";
/// As long as a boundary may be (RFC 2046 §5.1.1).
pub const BOUNDARY_SIZE_MAX: usize = 70;
