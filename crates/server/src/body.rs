//! What an answer consists of.

use bytes::Bytes;
use fulmar_proto::{BodyLen, FileRange, HeaderBuf, Segment, UsageError};

/// The body of an answer that is known in whole.
#[derive(Clone, Debug, Default)]
pub enum ResponseBody {
    /// None.
    #[default]
    Empty,
    /// Bytes in memory, or part of a file.
    One(Segment),
    /// Several of these, one after the other.
    Several(Vec<Segment>),
}

impl ResponseBody {
    /// How many bytes it has.
    pub fn len(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::One(segment) => segment.len(),
            Self::Several(segments) => segments.iter().map(Segment::len).sum(),
        }
    }

    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As a head declares it.
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

/// A whole answer that borrows nothing: for other threads, and for those who keep it.
#[derive(Clone, Debug)]
pub struct OwnedResponse {
    /// 200 to 999.
    pub status: u16,
    /// The fields; framing, `Date` and `Connection` are the server's.
    pub headers: HeaderBuf,
    /// The body.
    pub body: ResponseBody,
}

impl OwnedResponse {
    /// An answer without fields.
    pub fn new(status: u16, body: impl Into<ResponseBody>) -> Self {
        Self { status, headers: HeaderBuf::new(), body: body.into() }
    }

    /// An answer of plain text in UTF-8.
    pub fn text(status: u16, text: impl Into<ResponseBody>) -> Self {
        let mut answer = Self::new(status, text);
        let (name, value) = TEXT_PLAIN;
        answer.headers.push(name, value).expect("a good field");
        answer
    }

    /// The same with one more field.
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
