//! Bodies of responses, and owned responses.

use bytes::Bytes;
use fulmar_proto::{BodyLen, FileRange, HeaderBuf, Segment, UsageError};

/// The body of a response of known length.
#[derive(Clone, Debug, Default)]
pub enum ResponseBody {
    /// None.
    #[default]
    Empty,
    /// Bytes in memory, or part of a file.
    One(Segment),
    /// Several segments, sent in this order.
    Several(Vec<Segment>),
}

impl ResponseBody {
    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::One(segment) => segment.len(),
            Self::Several(segments) => segments.iter().map(Segment::len).sum(),
        }
    }

    /// True if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length for the head.
    pub fn declared(&self) -> BodyLen {
        match self.len() {
            0 => BodyLen::Empty,
            len => BodyLen::Exact(len),
        }
    }
}

impl From<Segment> for ResponseBody {
    fn from(segment: Segment) -> Self {
        Self::One(segment)
    }
}

impl From<Bytes> for ResponseBody {
    fn from(bytes: Bytes) -> Self {
        Self::One(Segment::Bytes(bytes))
    }
}

impl From<&'static [u8]> for ResponseBody {
    fn from(bytes: &'static [u8]) -> Self {
        Bytes::from_static(bytes).into()
    }
}

impl From<&'static str> for ResponseBody {
    fn from(text: &'static str) -> Self {
        Bytes::from_static(text.as_bytes()).into()
    }
}

impl From<Vec<u8>> for ResponseBody {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<String> for ResponseBody {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

impl From<FileRange> for ResponseBody {
    fn from(range: FileRange) -> Self {
        Self::One(Segment::File(range))
    }
}

impl From<Vec<Segment>> for ResponseBody {
    fn from(segments: Vec<Segment>) -> Self {
        Self::Several(segments)
    }
}

/// A complete response that borrows nothing: for other threads, and for later use.
#[derive(Clone, Debug)]
pub struct OwnedResponse {
    /// The status, 200 to 999.
    pub status: u16,
    /// The fields. The server adds framing, `Date` and `Connection`.
    pub headers: HeaderBuf,
    /// The body.
    pub body: ResponseBody,
}

impl OwnedResponse {
    /// A response without fields.
    pub fn new(status: u16, body: impl Into<ResponseBody>) -> Self {
        Self { status, headers: HeaderBuf::new(), body: body.into() }
    }

    /// A response of plain text in UTF-8.
    pub fn text(status: u16, text: impl Into<ResponseBody>) -> Self {
        let mut answer = Self::new(status, text);
        let (name, value) = TEXT_PLAIN;
        answer.headers.push(name, value).expect("a good field");
        answer
    }

    /// Adds a field.
    ///
    /// # Errors
    /// The name or the value has bytes that are not allowed there.
    pub fn with(mut self, name: &str, value: impl AsRef<[u8]>) -> Result<Self, UsageError> {
        self.headers.push(name, value.as_ref())?;
        Ok(self)
    }
}

/// The type of plain text.
pub(crate) const TEXT_PLAIN: (&str, &[u8]) = ("Content-Type", b"text/plain; charset=utf-8");
