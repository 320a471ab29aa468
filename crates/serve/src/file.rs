//! A file that is ready to be sent: its header fields and its bytes.

use std::cmp::Reverse;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use bytes::Bytes;
use fulmar_proto::{FileRange, HeaderBuf, Headers, Segment};
use fulmar_semantics::coding::{AcceptedCodings, ContentCoding};
use fulmar_semantics::conditional::Validators;
use fulmar_semantics::date::{format_date, is_http_time};
use fulmar_semantics::range::Span;
use fulmar_sys as sys;
use fulmar_sys::FileInfo;

use crate::mime;
use crate::root::OpenError;

/// One state of a regular file.
#[derive(Debug)]
pub struct File {
    /// Distinguishes this state from later ones.
    pub info: FileInfo,
    /// The validators for conditional requests.
    pub validators: Validators,
    /// The bytes.
    pub content: Content,
    /// Fields of 200 and 206: type, validators, `Accept-Ranges`.
    pub headers: HeaderBuf,
    /// Fields of 304: those that may have changed without the content (RFC 9110 §15.4.5).
    pub unchanged: HeaderBuf,
    /// Compressed versions of the file in other codings. These have none themselves.
    pub coded: Vec<Coded>,
}

/// A file in a coding.
#[derive(Debug)]
pub struct Coded {
    /// The coding.
    pub coding: ContentCoding,
    /// What is sent.
    pub file: File,
}

/// The bytes of a file.
#[derive(Debug)]
pub enum Content {
    /// In memory, without a descriptor.
    Memory(Bytes),
    /// In an open file.
    Open(Arc<OwnedFd>),
}

impl File {
    /// Prepares an open regular file. Up to [`SMALL_SIZE_MAX`] bytes are read and the descriptor is
    /// closed. `name` determines the type. With `coding`, it is a compressed version of that file.
    ///
    /// # Errors
    /// The file cannot be read, or shrinks while it is read.
    pub fn load(
        (fd, mut info): (OwnedFd, FileInfo),
        name: &[u8],
        coding: Option<ContentCoding>,
        unix_now: i64,
    ) -> Result<Self, OpenError> {
        let content = if info.len <= SMALL_SIZE_MAX {
            let read = read_small(&fd, &mut info);
            sys::close(fd);
            Content::Memory(read?)
        } else {
            Content::Open(Arc::new(fd))
        };
        let validators = validators_of(&info, coding, unix_now);
        let unchanged = validator_fields(&validators);
        let mut headers = unchanged.clone();
        push(&mut headers, "Content-Type", mime::content_type(name).as_bytes());
        if let Some(coding) = coding {
            push(&mut headers, "Content-Encoding", coding.name().as_bytes());
        }
        push(&mut headers, "Accept-Ranges", b"bytes");
        Ok(Self { info, validators, content, headers, unchanged, coded: Vec::new() })
    }

    /// Sets the compressed versions. From now on every response has `Vary: Accept-Encoding` (RFC
    /// 9110 §12.5.5).
    pub fn set_coded(&mut self, coded: Vec<Coded>) {
        self.coded = coded;
        if !self.coded.is_empty() {
            self.add_vary();
            self.coded.iter_mut().for_each(|coded| coded.file.add_vary());
        }
    }

    fn add_vary(&mut self) {
        push(&mut self.headers, "Vary", b"Accept-Encoding");
        push(&mut self.unchanged, "Vary", b"Accept-Encoding");
    }

    /// Selects the version by `Accept-Encoding` in `headers`: the most preferred one, and of
    /// several the smallest.
    ///
    /// If none is acceptable, the uncompressed file: the field may be disregarded (RFC 9110
    /// §12.4.1), and 406 would not help.
    pub fn choose(&self, headers: Headers<'_>) -> &Self {
        if self.coded.is_empty() {
            return self;
        }
        let accepted = AcceptedCodings::of(headers);
        let ranked = self.coded.iter().map(|coded| (accepted.rank(Some(coded.coding)), coded));
        let best = ranked.max_by_key(|(rank, coded)| (*rank, Reverse(coded.file.len())));
        match best {
            Some((rank, coded)) if rank > 0 && rank >= accepted.rank(None) => &coded.file,
            _ => self,
        }
    }

    /// The length in bytes.
    pub fn len(&self) -> u64 {
        self.info.len
    }

    /// True if the file is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The whole file.
    pub fn whole(&self) -> Segment {
        self.piece(Span { start: 0, len: self.len() })
    }

    /// A part of the file, without copying.
    ///
    /// # Panics
    /// If the span exceeds the file.
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

/// The entity tag consists of inode, length, time of change in nanoseconds, and coding. A copy on
/// another machine has another tag.
///
/// A time in the future is left out: it would have to be replaced by the time of each message (RFC
/// 9110 §8.8.2.1).
pub(crate) fn validators_of(
    info: &FileInfo,
    coding: Option<ContentCoding>,
    unix_now: i64,
) -> Validators {
    let (seconds, nanos) = info.modified;
    let modified = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let mut etag = format!("\"{:x}-{:x}-{:x}", info.inode, info.len, modified);
    if let Some(coding) = coding {
        etag.push('-');
        etag.push_str(coding.name());
    }
    etag.push('"');
    Validators {
        etag: Some(etag),
        modified: (is_http_time(seconds) && seconds <= unix_now).then_some(seconds),
    }
}

fn validator_fields(validators: &Validators) -> HeaderBuf {
    let mut fields = HeaderBuf::new();
    if let Some(etag) = &validators.etag {
        push(&mut fields, "ETag", etag.as_bytes());
    }
    if let Some(modified) = validators.modified {
        push(&mut fields, "Last-Modified", &format_date(modified));
    }
    fields
}

/// Adds a field with a generated value.
pub(crate) fn push(fields: &mut HeaderBuf, name: &str, value: &[u8]) {
    fields.push(name, value).expect("the value is made of visible ASCII");
}

/// Reads a whole file. If it was truncated meanwhile, its state is read again.
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

/// Bytes that are cloned without an allocation. The first clone of a former `Vec` allocates the
/// reference count, so it is made here.
pub(crate) fn shared(bytes: Vec<u8>) -> Bytes {
    let bytes = Bytes::from(bytes);
    drop(bytes.clone());
    bytes
}

/// Files up to this size are kept in memory. Copying as much costs less than `sendfile`.
pub const SMALL_SIZE_MAX: u64 = 16 * 1024;

const ATTEMPTS_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_sys::FileKind;

    fn info(modified: (i64, u32)) -> FileInfo {
        FileInfo { kind: FileKind::Regular, len: 0x20, modified, inode: 0x10, device: 1 }
    }

    #[test]
    fn a_tag_is_inode_length_and_time() {
        let validators = validators_of(&info((1, 1)), None, 10);
        assert_eq!(validators.etag.as_deref(), Some("\"10-20-3b9aca01\""));
        assert_eq!(validators.modified, Some(1));
        let coded = validators_of(&info((1, 1)), Some(ContentCoding::Brotli), 10);
        assert_eq!(coded.etag.as_deref(), Some("\"10-20-3b9aca01-br\""));
    }

    #[test]
    fn times_that_http_cannot_express_are_left_out() {
        for seconds in [-1, i64::MIN, 11, i64::MAX] {
            assert_eq!(validators_of(&info((seconds, 0)), None, 10).modified, None);
        }
        let year_10000 = 253_402_300_800;
        assert_eq!(validators_of(&info((year_10000, 0)), None, i64::MAX).modified, None);
    }
}
