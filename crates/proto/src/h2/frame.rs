//! The layout of frames (RFC 9113 §4.1, §6).

use bytes::Bytes;

use crate::error_code::ErrorCode;
use crate::outbox::Outbox;

/// The first bytes of a client's connection (RFC 9113 §3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The size of a frame's header.
pub(super) const HEADER_SIZE: usize = 9;

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    /// The length of the payload.
    pub(super) len: usize,
    /// One of the constants of [`kind`], or unknown.
    pub(super) kind: u8,
    pub(super) flags: u8,
    /// 0 for the connection.
    pub(super) stream: u32,
}

impl FrameHeader {
    /// Parses the header in front of `bytes`; `None` if more are needed.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, kind, flags, stream @ ..] = bytes.first_chunk::<HEADER_SIZE>()?;
        let len = u32::from_be_bytes([0, *a, *b, *c]);
        Some(Self {
            len: usize::try_from(len).expect("24 bits fit"),
            kind: *kind,
            flags: *flags,
            stream: u32::from_be_bytes(*stream) & ID_MAX,
        })
    }

    /// Appends the header to `out`.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        let len = u32::try_from(self.len).expect("a payload is shorter than 16 MiB");
        let [_, a, b, c] = len.to_be_bytes();
        let [d, e, f, g] = self.stream.to_be_bytes();
        out.extend_from_slice(&[a, b, c, self.kind, self.flags, d, e, f, g]);
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Types of frames.
pub(super) mod kind {
    pub(in crate::h2) const DATA: u8 = 0;
    pub(in crate::h2) const HEADERS: u8 = 1;
    pub(in crate::h2) const PRIORITY: u8 = 2;
    pub(in crate::h2) const RST_STREAM: u8 = 3;
    pub(in crate::h2) const SETTINGS: u8 = 4;
    pub(in crate::h2) const PUSH_PROMISE: u8 = 5;
    pub(in crate::h2) const PING: u8 = 6;
    pub(in crate::h2) const GOAWAY: u8 = 7;
    pub(in crate::h2) const WINDOW_UPDATE: u8 = 8;
    pub(in crate::h2) const CONTINUATION: u8 = 9;
    /// RFC 9218 §7.1.
    pub(in crate::h2) const PRIORITY_UPDATE: u8 = 16;
}

/// Flags of frames.
pub(super) mod flag {
    /// DATA, HEADERS.
    pub(in crate::h2) const END_STREAM: u8 = 1;
    /// SETTINGS, PING.
    pub(in crate::h2) const ACK: u8 = 1;
    /// HEADERS, CONTINUATION.
    pub(in crate::h2) const END_HEADERS: u8 = 4;
    /// DATA, HEADERS.
    pub(in crate::h2) const PADDED: u8 = 8;
    /// HEADERS.
    pub(in crate::h2) const PRIORITY: u8 = 32;
}

/// The payload of a DATA or HEADERS frame without its padding (RFC 9113 §6.1).
///
/// # Errors
/// FRAME_SIZE_ERROR without the length of the padding, PROTOCOL_ERROR if it exceeds the payload.
pub(super) fn unpadded(header: FrameHeader, payload: &[u8]) -> Result<&[u8], ErrorCode> {
    if !header.has(flag::PADDED) {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().ok_or(ErrorCode::FrameSizeError)?;
    let len = rest.len().checked_sub((*padding).into()).ok_or(ErrorCode::ProtocolError)?;
    Ok(&rest[..len])
}

/// The number that is the whole payload: of RST_STREAM and WINDOW_UPDATE.
///
/// # Errors
/// FRAME_SIZE_ERROR if the payload does not have four bytes.
pub(super) fn number(payload: &[u8]) -> Result<u32, ErrorCode> {
    let bytes = <[u8; 4]>::try_from(payload).map_err(|_| ErrorCode::FrameSizeError)?;
    Ok(u32::from_be_bytes(bytes))
}

/// Queues a frame with this payload.
pub(super) fn queue(outbox: &mut Outbox, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    outbox.compose(|out| {
        FrameHeader { len: payload.len(), kind, flags, stream }.write(out);
        out.extend_from_slice(payload);
    });
}

/// Queues a frame whose payload is a number: RST_STREAM, WINDOW_UPDATE.
pub(super) fn queue_number(outbox: &mut Outbox, kind: u8, stream: u32, number: u32) {
    queue(outbox, kind, 0, stream, &number.to_be_bytes());
}

/// Sets the length of the frame that begins at `start`.
pub(super) fn set_len(out: &mut [u8], start: usize, len: usize) {
    let [_, bytes @ ..] = u32::try_from(len).expect("a payload is limited").to_be_bytes();
    out[start..start + bytes.len()].copy_from_slice(&bytes);
}

/// Splits a HEADERS frame that begins at `start` and is the last of `out` into one with the longest
/// payload and as many CONTINUATION frames as the rest needs.
#[cold]
pub(super) fn split_block(out: &mut Vec<u8>, start: usize, len_max: usize) {
    let first = FrameHeader::parse(&out[start..]).expect("it has a header");
    let block = out.split_off(start + HEADER_SIZE);
    out.truncate(start);
    let (mut kind, mut flags) = (kind::HEADERS, first.flags & !flag::END_HEADERS);
    let mut pieces = block.chunks(len_max).peekable();
    while let Some(piece) = pieces.next() {
        flags |= u8::from(pieces.peek().is_none()) * flag::END_HEADERS;
        FrameHeader { len: piece.len(), kind, flags, stream: first.stream }.write(out);
        out.extend_from_slice(piece);
        (kind, flags) = (kind::CONTINUATION, 0);
    }
}

/// A payload that was cut from the input.
pub(super) fn payload(frame: &Bytes) -> &[u8] {
    &frame[HEADER_SIZE..]
}

/// The largest id of a stream, and the largest window.
pub(super) const ID_MAX: u32 = 0x7fff_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_nine_bytes_and_ignores_the_reserved_bit() {
        let header = FrameHeader { len: 0x01_02_03, kind: 4, flags: 5, stream: 0x0607_0809 };
        let mut bytes = Vec::new();
        header.write(&mut bytes);
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(FrameHeader::parse(&bytes[..8]), None);
        bytes[5] |= 0x80;
        assert_eq!(FrameHeader::parse(&bytes), Some(header));
    }

    #[test]
    fn padding_is_at_most_the_payload() {
        let header = FrameHeader { len: 4, kind: kind::DATA, flags: flag::PADDED, stream: 1 };
        assert_eq!(unpadded(header, &[2, b'x', 0, 0]), Ok(&b"x"[..]));
        assert_eq!(unpadded(header, &[3, 0, 0, 0]), Ok(&b""[..]));
        assert_eq!(unpadded(header, &[4, 0, 0, 0]), Err(ErrorCode::ProtocolError));
        assert_eq!(unpadded(header, &[]), Err(ErrorCode::FrameSizeError));
    }

    #[test]
    fn a_long_block_continues_in_other_frames() {
        let flags = flag::END_HEADERS | flag::END_STREAM;
        let mut out = b"before".to_vec();
        FrameHeader { len: 0, kind: kind::HEADERS, flags, stream: 3 }.write(&mut out);
        out.extend_from_slice(b"abcde");
        split_block(&mut out, 6, 2);
        let expected = b"before\0\0\x02\x01\x01\0\0\0\x03ab\0\0\x02\x09\0\0\0\0\x03cd\
            \0\0\x01\x09\x04\0\0\0\x03e";
        assert_eq!(out, expected);
    }
}
