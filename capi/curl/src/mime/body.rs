//! The body of a form: its pieces, its size, and the reader.

use bytes::Bytes;

use super::encoder::EncoderState;
use super::head::{FormEscape, disposition_below, lines, multipart_type, own_type};
use super::{Mime, MimeContent, MimeEncoder, MimePart, SourceId};

/// Reads files and callbacks for a body.
pub trait MimeSources {
    /// Reads the next bytes of a source; opens it first. `Data(0)` is the end.
    fn read(&mut self, source: SourceId, into: &mut [u8]) -> MimeRead;
}

/// For bodies without files and callbacks; any source is an error.
#[derive(Clone, Copy, Debug)]
pub struct NoSources;

impl MimeSources for NoSources {
    fn read(&mut self, _: SourceId, _: &mut [u8]) -> MimeRead {
        MimeRead::Failed
    }
}

/// What a read returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MimeRead {
    /// So many bytes; 0 at the end.
    Data(usize),
    /// A callback has paused the transfer.
    Pause,
    /// A callback has aborted the transfer: `CURLE_ABORTED_BY_CALLBACK`.
    Abort,
    /// A source cannot be read, or is not 7-bit: `CURLE_READ_ERROR`.
    Failed,
}

/// A body that is being sent.
#[derive(Clone, Debug)]
pub struct MimeBody {
    content_type: Vec<u8>,
    pieces: Vec<MimePiece>,
    size: Option<u64>,
    /// The piece that is read.
    at: usize,
    /// The position in bytes of a piece.
    offset: usize,
    encoding: Option<Encoding>,
    /// What a source returned behind bytes that were returned first.
    stopped: Option<MimeRead>,
}

#[derive(Clone, Debug)]
enum MimePiece {
    Bytes(Bytes),
    /// A file or a callback, and its size, if it is known.
    Source(SourceId, Option<u64>),
    Encoded(MimeEncoder, Box<MimeBody>),
}

/// What a piece returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PieceRead {
    Done(MimeRead),
    /// Another source has to be read.
    NeedsRead,
}

/// The output of an encoder.
#[derive(Clone, Debug)]
struct Encoding {
    state: EncoderState,
    ready: Vec<u8>,
    offset: usize,
    is_last: bool,
}

impl MimeBody {
    /// The body of a form. `content_type` is that of the application, for other types than
    /// `multipart/form-data`.
    pub fn new(form: Mime, content_type: Option<&[u8]>, escape: FormEscape) -> Self {
        let own = content_type.unwrap_or(b"multipart/form-data");
        let mut body = Self::empty(multipart_type(&form, own));
        body.append_multipart(form, disposition_below(own), escape);
        body.join_bytes();
        body
    }

    /// The value of `Content-Type`, with the boundary.
    pub fn content_type(&self) -> &[u8] {
        &self.content_type
    }

    /// The size, for `Content-Length`. `None` if it is unknown: the body is sent in chunks.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// Reads the next bytes. After `Pause`, the next read continues. A source is read at most once,
    /// unless that gives nothing to return: a chunk ends where libcurl's chunk ends.
    pub fn read(&mut self, sources: &mut dyn MimeSources, into: &mut [u8]) -> MimeRead {
        loop {
            if let PieceRead::Done(read) = self.fill(sources, into, &mut false) {
                return read;
            }
        }
    }

    fn fill(
        &mut self,
        sources: &mut dyn MimeSources,
        into: &mut [u8],
        has_read: &mut bool,
    ) -> PieceRead {
        if let Some(stop) = self.stopped.take() {
            return PieceRead::Done(stop);
        }
        let mut filled = 0;
        while filled < into.len() && self.at < self.pieces.len() {
            match self.read_piece(sources, &mut into[filled..], has_read) {
                PieceRead::Done(MimeRead::Data(0)) => {
                    (self.at, self.offset, self.encoding) = (self.at + 1, 0, None);
                }
                PieceRead::Done(MimeRead::Data(len)) => filled += len,
                stop if filled == 0 => return stop,
                PieceRead::NeedsRead => break,
                PieceRead::Done(stop) => {
                    self.stopped = Some(stop);
                    break;
                }
            }
        }
        PieceRead::Done(MimeRead::Data(filled))
    }

    fn empty(content_type: Vec<u8>) -> Self {
        let (pieces, size) = (Vec::new(), Some(0));
        Self { content_type, pieces, size, at: 0, offset: 0, encoding: None, stopped: None }
    }

    fn append_multipart(&mut self, mime: Mime, disposition: Option<&str>, escape: FormEscape) {
        let boundary = [b"\r\n--", &mime.boundary[..]].concat();
        let mut start = 2; // the empty line before the first boundary ends the head
        for part in mime.parts {
            let head = lines(&part, disposition, escape);
            self.append(&[&boundary[start..], b"\r\n", &head, b"\r\n"].concat());
            self.append_content(part, escape);
            start = 0;
        }
        self.append(&[&boundary[start..], b"--\r\n"].concat());
    }

    fn append_content(&mut self, part: MimePart, escape: FormEscape) {
        let Some(encoder) = part.encoder else { return self.append_raw(part, escape) };
        let mut body = Self::empty(Vec::new());
        body.append_raw(part, escape);
        let size = body.size.and_then(|size| encoder.size(size));
        self.push(MimePiece::Encoded(encoder, Box::new(body)), size);
    }

    fn append_raw(&mut self, part: MimePart, escape: FormEscape) {
        let below = own_type(&part).and_then(disposition_below);
        match part.content {
            MimeContent::Empty => {}
            MimeContent::Data(data) => {
                let size = data.len() as u64;
                self.push(MimePiece::Bytes(data), Some(size));
            }
            MimeContent::File { source, size, .. } | MimeContent::Callback { source, size } => {
                self.push(MimePiece::Source(source, size), size);
            }
            MimeContent::Multipart(mime) => self.append_multipart(mime, below, escape),
        }
    }

    fn append(&mut self, bytes: &[u8]) {
        self.push(MimePiece::Bytes(Bytes::copy_from_slice(bytes)), Some(bytes.len() as u64));
    }

    fn push(&mut self, piece: MimePiece, size: Option<u64>) {
        self.size = self.size.zip(size).map(|(sum, size)| sum.saturating_add(size));
        self.pieces.push(piece);
    }

    /// Joins adjacent small pieces.
    fn join_bytes(&mut self) {
        let mut joined: Vec<MimePiece> = Vec::new();
        for piece in std::mem::take(&mut self.pieces) {
            match (joined.last_mut(), &piece) {
                (Some(MimePiece::Bytes(last)), MimePiece::Bytes(next))
                    if last.len() + next.len() <= JOINED_MAX =>
                {
                    *last = [&last[..], next].concat().into();
                }
                _ => joined.push(piece),
            }
        }
        self.pieces = joined;
    }

    /// `Data(0)` at the end of the piece.
    fn read_piece(
        &mut self,
        sources: &mut dyn MimeSources,
        into: &mut [u8],
        has_read: &mut bool,
    ) -> PieceRead {
        let read = match &mut self.pieces[self.at] {
            MimePiece::Bytes(bytes) => {
                let len = copy(&bytes[self.offset..], into);
                self.offset += len;
                MimeRead::Data(len)
            }
            MimePiece::Source(_, Some(size)) if self.offset as u64 >= *size => MimeRead::Data(0),
            MimePiece::Source(..) if *has_read => return PieceRead::NeedsRead,
            MimePiece::Source(source, _) => {
                *has_read = true;
                let read = sources.read(*source, into);
                if let MimeRead::Data(len) = read {
                    self.offset += len;
                }
                read
            }
            MimePiece::Encoded(encoder, body) => {
                let new = || Encoding {
                    state: EncoderState::new(*encoder),
                    ready: Vec::new(),
                    offset: 0,
                    is_last: false,
                };
                let encoding = self.encoding.get_or_insert_with(new);
                return encoding.read(body, sources, into, has_read);
            }
        };
        PieceRead::Done(read)
    }
}

impl Encoding {
    fn read(
        &mut self,
        body: &mut MimeBody,
        sources: &mut dyn MimeSources,
        into: &mut [u8],
        has_read: &mut bool,
    ) -> PieceRead {
        while self.offset == self.ready.len() && !self.is_last {
            let mut raw = [0; RAW_LEN];
            let room = RAW_LEN - self.state.pending_len().min(RAW_LEN - 1);
            let len = match body.fill(sources, &mut raw[..room], has_read) {
                PieceRead::Done(MimeRead::Data(len)) => len,
                stop => return stop,
            };
            self.ready.clear();
            (self.offset, self.is_last) = (0, len == 0);
            if self.state.encode(&raw[..len], self.is_last, &mut self.ready).is_err() {
                return PieceRead::Done(MimeRead::Failed);
            }
        }
        let len = copy(&self.ready[self.offset..], into);
        self.offset += len;
        PieceRead::Done(MimeRead::Data(len))
    }
}

fn copy(from: &[u8], into: &mut [u8]) -> usize {
    let len = from.len().min(into.len());
    into[..len].copy_from_slice(&from[..len]);
    len
}

/// Bytes that an encoder reads at once.
const RAW_LEN: usize = 256;

/// Larger pieces are not copied.
const JOINED_MAX: usize = 4096;
