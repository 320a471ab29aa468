//! `application/x-www-form-urlencoded`, as it arrives.
//!
//! ```text
//! Key ── = ──▶ Value ── & ──▶ Key
//!  └────── line end ──┴─────▶ LineEnd
//! ```

use std::mem;
use std::sync::Arc;

use super::{PostFailure, PostHead, PostPiece, PostProcessor, c_string};
use crate::percent::{digit, unescape};

#[derive(Debug)]
pub(super) struct UrlencodedPost {
    state: UrlencodedState,
    /// Bytes that are not parsed.
    pending: Vec<u8>,
    read: usize,
    key_size_max: usize,
}

#[derive(Debug)]
enum UrlencodedState {
    /// In a key; its encoded bytes.
    Key(Vec<u8>),
    Value(UrlencodedValue),
    /// After a line end, which ends the form; only further ones may follow.
    LineEnd,
}

#[derive(Debug)]
struct UrlencodedValue {
    head: Arc<PostHead>,
    /// Decoded bytes that were not reported.
    data: Vec<u8>,
    /// The start of an encoding: `%`, or `%` and a digit.
    encoding: Vec<u8>,
    /// Number of reported bytes.
    offset: u64,
    /// False until a piece was reported.
    reported: bool,
}

impl UrlencodedPost {
    pub(super) fn new(key_size_max: usize) -> Self {
        let state = UrlencodedState::Key(Vec::new());
        Self { state, pending: Vec::new(), read: 0, key_size_max }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.pending.drain(..mem::take(&mut self.read));
        self.pending.extend_from_slice(bytes);
    }

    pub(super) fn poll_piece(&mut self) -> Result<Option<PostPiece>, PostFailure> {
        while let Some(byte) = self.pending.get(self.read).copied() {
            let piece = self.take(byte)?;
            if piece.is_some() {
                return Ok(piece);
            }
        }
        match &mut self.state {
            UrlencodedState::Value(value) => Ok(value.piece()),
            _ => Ok(None),
        }
    }

    pub(super) fn finish(&mut self) -> (Option<PostPiece>, Result<(), PostFailure>) {
        match mem::replace(&mut self.state, UrlencodedState::LineEnd) {
            UrlencodedState::Key(key) if !key.is_empty() => (None, Err(PostFailure)),
            UrlencodedState::Value(mut value) => {
                let is_whole = value.encoding.is_empty();
                (value.last_piece(), if is_whole { Ok(()) } else { Err(PostFailure) })
            }
            _ => (None, Ok(())),
        }
    }

    /// Consumes the next byte, unless a piece must be reported first.
    fn take(&mut self, byte: u8) -> Result<Option<PostPiece>, PostFailure> {
        let piece = match &mut self.state {
            UrlencodedState::Key(key) => match byte {
                b'=' if key.is_empty() => return Err(PostFailure),
                b'=' => {
                    let value = UrlencodedValue::new(key);
                    self.state = UrlencodedState::Value(value);
                    None
                }
                b'&' => end_key(key),
                b'\r' | b'\n' => {
                    let piece = end_key(key);
                    self.state = UrlencodedState::LineEnd;
                    piece
                }
                _ if key.len() == self.key_size_max => return Err(PostFailure),
                _ => {
                    key.push(byte);
                    None
                }
            },
            UrlencodedState::Value(value) => match byte {
                b'=' => return Err(PostFailure),
                b'&' | b'\r' | b'\n' => {
                    let piece = value.last_piece();
                    self.state = match byte {
                        b'&' => UrlencodedState::Key(Vec::new()),
                        _ => UrlencodedState::LineEnd,
                    };
                    piece
                }
                _ if value.data.len() >= PostProcessor::PIECE_MAX - 2 => {
                    return Ok(value.piece());
                }
                _ => {
                    value.push(byte);
                    None
                }
            },
            UrlencodedState::LineEnd if matches!(byte, b'\r' | b'\n') => None,
            UrlencodedState::LineEnd => return Err(PostFailure),
        };
        self.read += 1;
        Ok(piece)
    }
}

impl UrlencodedValue {
    fn new(key: &[u8]) -> Self {
        let head = Arc::new(head_of(key));
        Self { head, data: Vec::new(), encoding: Vec::new(), offset: 0, reported: false }
    }

    /// Decodes a byte. What is no encoding stays as it is, up to two bytes and this one.
    fn push(&mut self, byte: u8) {
        match (&self.encoding[..], digit(byte)) {
            ([], _) if byte == b'%' => self.encoding.push(byte),
            ([], _) => self.data.push(if byte == b'+' { b' ' } else { byte }),
            ([_], Some(_)) => self.encoding.push(byte),
            ([_, high], Some(low)) => {
                let high = digit(*high).expect("only digits are kept");
                self.data.push(high << 4 | low);
                self.encoding.clear();
            }
            (_, None) => {
                self.data.append(&mut self.encoding);
                self.push(byte);
            }
            ([_, _, ..], Some(_)) => unreachable!("an encoding has at most two bytes here"),
        }
    }

    fn piece(&mut self) -> Option<PostPiece> {
        if self.data.is_empty() {
            return None;
        }
        let data = mem::take(&mut self.data);
        let offset = self.offset;
        self.offset += data.len() as u64;
        self.reported = true;
        Some(PostPiece { head: Arc::clone(&self.head), data, offset })
    }

    /// The rest of the value, without an incomplete encoding; empty if the value is.
    fn last_piece(&mut self) -> Option<PostPiece> {
        let rest = self.piece();
        let empty = || PostPiece { head: Arc::clone(&self.head), data: Vec::new(), offset: 0 };
        rest.or_else(|| (!self.reported).then(empty))
    }
}

/// The empty value of a key without `=`; nothing between two `&`.
fn end_key(key: &mut Vec<u8>) -> Option<PostPiece> {
    let key = mem::take(key);
    let head = || Arc::new(head_of(&key));
    (!key.is_empty()).then(|| PostPiece { head: head(), data: Vec::new(), offset: 0 })
}

fn head_of(key: &[u8]) -> PostHead {
    let blank = |byte: &u8| if *byte == b'+' { b' ' } else { *byte };
    let mut key: Vec<u8> = key.iter().map(blank).collect();
    unescape(&mut key);
    PostHead { key: Some(c_string(&key)), ..PostHead::default() }
}
