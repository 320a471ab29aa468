//! A file that is ready to be sent: what is said of it, and where its bytes lie.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use bytes::Bytes;
use fulmar_proto::{FileRange, HeaderBuf, Segment};
use fulmar_semantics::date::format_date;
use fulmar_sys as sys;
use fulmar_sys::FileInfo;

use crate::mime;
use crate::range::Span;
use crate::root::OpenError;
use crate::validators::Validators;

/// One state of a regular file.
#[derive(Debug)]
pub struct File {
    /// By which a later state is told from this one.
    pub info: FileInfo,
    /// What conditional requests are held against.
    pub validators: Validators,
    /// The bytes.
    pub content: Content,
    /// For 200 and 206: type, validators, and that ranges are understood.
    pub headers: HeaderBuf,
    /// For 304: what may have changed without the content (RFC 9110 §15.4.5).
    pub unchanged: HeaderBuf,
}

/// Where the bytes of a file lie.
#[derive(Debug)]
pub enum Content {
    /// All of them here: no descriptor is held.
    Memory(Bytes),
    /// Where they were.
    Open(Arc<OwnedFd>),
}

impl File {
    /// Makes an open regular file ready; up to [`SMALL_SIZE_MAX`] bytes are read, and the
    /// descriptor closed. `name` decides the type.
    ///
    /// # Errors
    /// The file could not be read, or shrinks faster than it can be read.
    pub fn load(
        fd: OwnedFd,
        mut info: FileInfo,
        name: &[u8],
        unix_now: i64,
    ) -> Result<Self, OpenError> {
        let content = if info.len <= SMALL_SIZE_MAX {
            let read = read_small(&fd, &mut info);
            sys::close(fd);
            Content::Memory(read?)
        } else {
            Content::Open(Arc::new(fd))
        };
        let validators = Validators::of(&info, unix_now);
        let unchanged = validator_fields(&validators);
        let mut headers = unchanged.clone();
        push(&mut headers, "Content-Type", mime::content_type(name).as_bytes());
        push(&mut headers, "Accept-Ranges", b"bytes");
        Ok(Self { info, validators, content, headers, unchanged })
    }

    /// How many bytes it has.
    pub fn len(&self) -> u64 {
        self.info.len
    }

    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of it.
    pub fn whole(&self) -> Segment {
        self.piece(Span { start: 0, len: self.len() })
    }

    /// A part of it; nothing is copied.
    ///
    /// # Panics
    /// If the span does not lie in the file.
    pub fn piece(&self, span: Span) -> Segment {
        assert!(span.start + span.len <= self.len(), "a span is cut to the file");
        match &self.content {
            Content::Memory(bytes) => {
                let at = |n: u64| usize::try_from(n).expect("at most the length of the bytes");
                Segment::Bytes(bytes.slice(at(span.start)..at(span.start + span.len)))
            }
            Content::Open(file) => Segment::File(FileRange {
                file: Arc::clone(file),
                offset: span.start,
                len: span.len,
            }),
        }
    }
}

fn validator_fields(validators: &Validators) -> HeaderBuf {
    let mut fields = HeaderBuf::new();
    push(&mut fields, "ETag", validators.etag.as_bytes());
    if let Some(modified) = validators.modified {
        push(&mut fields, "Last-Modified", &format_date(modified));
    }
    fields
}

/// Adds a field whose value is made here.
pub(crate) fn push(fields: &mut HeaderBuf, name: &str, value: &[u8]) {
    fields.push(name, value).expect("the value is made of visible ASCII");
}

/// Reads a whole file. One that was cut meanwhile is looked at again.
fn read_small(fd: &OwnedFd, info: &mut FileInfo) -> Result<Bytes, OpenError> {
    for _ in 0..ATTEMPTS_MAX {
        let read = read_up_to(fd, info.len.min(SMALL_SIZE_MAX)).map_err(|e| OpenError::from(&e))?;
        if read.len() as u64 == info.len {
            return Ok(shared(read));
        }
        *info = sys::fstat(fd.as_fd()).map_err(|e| OpenError::from(&e))?;
    }
    Err(OpenError::Broken)
}

fn read_up_to(fd: &OwnedFd, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
    let mut filled = 0;
    while filled < bytes.len() {
        match sys::pread(fd.as_fd(), &mut bytes[filled..], filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Bytes that are cloned without an allocation. The first clone of a former `Vec` makes one, for
/// the count of references: here, not when the first request is answered.
pub(crate) fn shared(bytes: Vec<u8>) -> Bytes {
    let bytes = Bytes::from(bytes);
    drop(bytes.clone());
    bytes
}

/// Files up to this size are kept in memory: a copy of this costs less than `sendfile` does.
pub const SMALL_SIZE_MAX: u64 = 16 * 1024;

const ATTEMPTS_MAX: usize = 3;
