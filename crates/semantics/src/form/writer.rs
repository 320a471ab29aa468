//! Encodes `multipart/form-data` (RFC 7578), with names escaped as in browsers and curl (HTML,
//! "multipart/form-data encoding algorithm").
//!
//! The body is a list of segments, so files are sent without being read, and its length is known in
//! advance.

use std::fmt;

use bytes::Bytes;
use fulmar_proto::Segment;

use super::BOUNDARY_SIZE_MAX;

/// Builds a form.
///
/// ```
/// use fulmar_semantics::form::{Boundary, Multipart, FormPart};
///
/// let mut form = Multipart::new(Boundary::from_random([7; 16]));
/// form.text("name", "value");
/// let content_type = Some("text/plain");
/// let part = FormPart { filename: Some("a.txt"), content_type, ..FormPart::new("f") };
/// form.part(&part, &b"contents"[..])?;
/// let form = form.finish();
/// assert_eq!(form.len, form.segments.iter().map(|segment| segment.len()).sum::<u64>());
/// # Ok::<(), fulmar_semantics::form::BadPart>(())
/// ```
#[derive(Debug)]
pub struct Multipart {
    boundary: Boundary,
    segments: Vec<Segment>,
    /// Text before the next segment.
    text: Vec<u8>,
}

/// An encoded form. Clones share its data, so it can be sent repeatedly.
#[derive(Clone, Debug)]
pub struct EncodedForm {
    /// The value of `Content-Type`.
    pub content_type: String,
    /// The value of `Content-Length`.
    pub len: u64,
    /// The body, in order; no segment is empty.
    pub segments: Vec<Segment>,
}

/// The header of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormPart<'a> {
    /// The name of the field.
    pub name: &'a str,
    /// The file name of a file, without directories.
    pub filename: Option<&'a str>,
    /// The content type; files without one get `application/octet-stream`.
    pub content_type: Option<&'a str>,
}

impl<'a> FormPart<'a> {
    /// A field without a file name.
    pub fn new(name: &'a str) -> Self {
        Self { name, filename: None, content_type: None }
    }
}

impl Multipart {
    /// Begins a form. No part may contain the boundary.
    pub fn new(boundary: Boundary) -> Self {
        Self { boundary, segments: Vec::new(), text: Vec::new() }
    }

    /// Adds a text field.
    pub fn text(&mut self, name: &str, value: &str) {
        self.begin(&FormPart::new(name));
        self.text.extend_from_slice(b"\r\n");
        self.text.extend_from_slice(value.as_bytes());
        self.text.extend_from_slice(b"\r\n");
    }

    /// Adds a part of any kind: bytes, or a range of a file.
    ///
    /// # Errors
    /// The content type is not valid in a header field; nothing was added.
    pub fn part(&mut self, part: &FormPart<'_>, body: impl Into<Segment>) -> Result<(), BadPart> {
        let usual = part.filename.map(|_| "application/octet-stream");
        let content_type = part.content_type.or(usual);
        if content_type.is_some_and(|value| value.bytes().any(|b| b.is_ascii_control())) {
            return Err(BadPart);
        }
        self.begin(part);
        if let Some(content_type) = content_type {
            self.text.extend_from_slice(b"Content-Type: ");
            self.text.extend_from_slice(content_type.as_bytes());
            self.text.extend_from_slice(b"\r\n");
        }
        self.text.extend_from_slice(b"\r\n");
        let body = body.into();
        if !body.is_empty() {
            self.segments.push(Bytes::from(std::mem::take(&mut self.text)).into());
            self.segments.push(body);
        }
        self.text.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Finishes the form.
    pub fn finish(mut self) -> EncodedForm {
        self.text.extend_from_slice(b"--");
        self.text.extend_from_slice(self.boundary.0.as_bytes());
        self.text.extend_from_slice(b"--\r\n");
        self.segments.push(Bytes::from(self.text).into());
        EncodedForm {
            content_type: format!("multipart/form-data; boundary={}", self.boundary.0),
            len: self.segments.iter().map(Segment::len).sum(),
            segments: self.segments,
        }
    }

    fn begin(&mut self, part: &FormPart<'_>) {
        let out = &mut self.text;
        out.extend_from_slice(b"--");
        out.extend_from_slice(self.boundary.0.as_bytes());
        out.extend_from_slice(b"\r\nContent-Disposition: form-data; name=");
        quote(out, part.name);
        if let Some(filename) = part.filename {
            out.extend_from_slice(b"; filename=");
            quote(out, filename);
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Quotes a name: `"`, CR and LF are percent-encoded as in HTML, and also all other control
/// characters except the tab, which are invalid in a field (RFC 9110 §5.5).
fn quote(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for byte in text.bytes() {
        if byte == b'"' || (byte.is_ascii_control() && byte != b'\t') {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            out.push(byte);
        }
    }
    out.push(b'"');
}

/// The separator of parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundary(Box<str>);

impl Boundary {
    /// This text, which no part may contain.
    ///
    /// # Errors
    /// The text is empty, longer than [`BOUNDARY_SIZE_MAX`], or has characters that need quotes:
    /// allowed are letters, digits and `'+_-.`.
    pub fn new(text: &str) -> Result<Self, BadBoundary> {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"'+_-.".contains(&b);
        let ok = (1..=BOUNDARY_SIZE_MAX).contains(&text.len()) && text.bytes().all(is_plain);
        ok.then(|| Self(text.into())).ok_or(BadBoundary)
    }

    /// From 16 random bytes, so that content cannot contain it by accident or intent.
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(format!("----fulmar-{:032x}", u128::from_be_bytes(bytes)).into())
    }
}

/// The text is not a valid boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadBoundary;

impl fmt::Display for BadBoundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid boundary: expected 1 to {BOUNDARY_SIZE_MAX} letters, digits and '+_-.")
    }
}

impl std::error::Error for BadBoundary {}

/// A content type with a control character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadPart;

impl fmt::Display for BadPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("content type of a form part has a control character")
    }
}

impl std::error::Error for BadPart {}
