//! WebSocket frames (RFC 6455 §5.2), decoded and encoded without I/O, for the client's side.
//!
//! As in libcurl, fragments of a message are not put together, and their order is not checked.

use bytes::{Buf, Bytes, BytesMut};

/// `CURLWS_TEXT`.
pub(crate) const TEXT: u32 = 1;
/// `CURLWS_BINARY`.
pub(crate) const BINARY: u32 = 1 << 1;
/// `CURLWS_CONT`: not the last fragment of a message.
pub(crate) const CONT: u32 = 1 << 2;
/// `CURLWS_CLOSE`.
pub(crate) const CLOSE: u32 = 1 << 3;
/// `CURLWS_PING`.
pub(crate) const PING: u32 = 1 << 4;
/// `CURLWS_PONG`.
pub(crate) const PONG: u32 = 1 << 6;

/// A part of a frame. The payload of a control frame is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebSocketPiece {
    /// `CURLWS_*`.
    pub(crate) flags: u32,
    /// Payload of the frame before this part.
    pub(crate) offset: u64,
    /// And behind it.
    pub(crate) left: u64,
    pub(crate) payload: Bytes,
}

/// Why a frame is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WebSocketFault {
    UnknownOpcode(u8),
    /// A server must not mask (§5.1).
    Masked,
    /// Bits of extensions, of which none was negotiated.
    ReservedBits,
    /// Control frames have up to 125 bytes, and no fragments (§5.5).
    BadControl,
    TooLarge,
}

impl WebSocketFault {
    /// The text of libcurl, where it has one.
    pub(crate) fn text(self) -> String {
        match self {
            Self::UnknownOpcode(opcode) => format!("WS: unknown opcode: {opcode:x}"),
            Self::Masked => "WS: masked input frame".to_owned(),
            Self::ReservedBits => "WS: reserved bits in a frame".to_owned(),
            Self::BadControl => "WS: malformed control frame".to_owned(),
            Self::TooLarge => "WS: too large frame".to_owned(),
        }
    }
}

/// Decodes the frames of a server.
#[derive(Debug, Default)]
pub(crate) struct WebSocketDecoder {
    /// An incomplete head.
    head: Vec<u8>,
    frame: Option<OpenFrame>,
    /// The payload of an incomplete control frame.
    control: BytesMut,
}

#[derive(Clone, Copy, Debug)]
struct OpenFrame {
    flags: u32,
    offset: u64,
    left: u64,
}

impl WebSocketDecoder {
    /// Takes the next part of a frame from the input; `None`: more bytes are needed.
    ///
    /// # Errors
    /// The server broke the protocol.
    pub(crate) fn decode(
        &mut self,
        input: &mut Bytes,
    ) -> Result<Option<WebSocketPiece>, WebSocketFault> {
        if self.frame.is_none() {
            while self.head.len() < head_len(&self.head) {
                let Some(byte) = input.first() else { return Ok(None) };
                self.head.push(*byte);
                input.advance(1);
            }
            self.frame = Some(OpenFrame::parse(&self.head)?);
            self.head.clear();
        }
        let frame = self.frame.as_mut().expect("its head was just parsed");
        let len = usize::try_from(frame.left).unwrap_or(usize::MAX).min(input.len());
        if len == 0 && frame.left > 0 {
            return Ok(None);
        }
        let mut payload = input.split_to(len);
        frame.left -= len as u64;
        let OpenFrame { flags, offset, left } = *frame;
        frame.offset += len as u64;
        if left == 0 {
            self.frame = None;
        }
        if flags & CONTROL != 0 && (left > 0 || !self.control.is_empty()) {
            self.control.extend_from_slice(&payload);
            if left > 0 {
                return Ok(None);
            }
            payload = self.control.split().freeze();
            return Ok(Some(WebSocketPiece { flags, offset: 0, left, payload }));
        }
        Ok(Some(WebSocketPiece { flags, offset, left, payload }))
    }
}

/// The length of the head that begins with these bytes, as far as they show it.
fn head_len(head: &[u8]) -> usize {
    match head.get(1).map(|byte| byte & LEN_MASK) {
        Some(LEN_16) => 4,
        Some(LEN_64) => 10,
        _ => 2,
    }
}

impl OpenFrame {
    fn parse(head: &[u8]) -> Result<Self, WebSocketFault> {
        let (first, second) = (head[0], head[1]);
        let opcode = first & OPCODE_MASK;
        let kind = match opcode {
            0 => 0,
            OPCODE_TEXT => TEXT,
            OPCODE_BINARY => BINARY,
            OPCODE_CLOSE => CLOSE,
            OPCODE_PING => PING,
            OPCODE_PONG => PONG,
            other => return Err(WebSocketFault::UnknownOpcode(other)),
        };
        if first & RESERVED != 0 {
            return Err(WebSocketFault::ReservedBits);
        }
        if second & MASKED != 0 {
            return Err(WebSocketFault::Masked);
        }
        let extended = head[2..].iter().fold(0, |len: u64, byte| len << 8 | u64::from(*byte));
        let left = if head.len() > 2 { extended } else { u64::from(second & LEN_MASK) };
        if i64::try_from(left).is_err() {
            return Err(WebSocketFault::TooLarge);
        }
        let is_last = first & FIN != 0;
        if kind & CONTROL != 0 && (!is_last || left > CONTROL_LEN_MAX) {
            return Err(WebSocketFault::BadControl);
        }
        Ok(Self { flags: if is_last { kind } else { kind | CONT }, offset: 0, left })
    }
}

/// Encodes the frames of a client, which are masked (§5.3).
#[derive(Debug, Default)]
pub(crate) struct WebSocketEncoder {
    /// A message has begun whose last fragment was not sent.
    is_fragmented: bool,
    /// Payload that the current frame still needs.
    left: u64,
    mask: [u8; 4],
    /// Bytes of the frame that were masked.
    masked: usize,
}

impl WebSocketEncoder {
    /// Payload that the current frame still needs: no other one can begin before.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Appends the head of a frame (§5.2).
    pub(crate) fn begin(&mut self, flags: u32, len: u64, mask: [u8; 4], out: &mut Vec<u8>) {
        assert_eq!(self.left, 0, "frames do not interleave");
        let opcode = match flags {
            _ if flags & TEXT != 0 => OPCODE_TEXT,
            _ if flags & CLOSE != 0 => OPCODE_CLOSE,
            _ if flags & PING != 0 => OPCODE_PING,
            _ if flags & PONG != 0 => OPCODE_PONG,
            _ => OPCODE_BINARY,
        };
        let first = match flags & CONT != 0 {
            // Between the fragments of a message, too.
            _ if opcode & OPCODE_CONTROL != 0 => FIN | opcode,
            true if std::mem::replace(&mut self.is_fragmented, true) => 0,
            true => opcode,
            false if std::mem::take(&mut self.is_fragmented) => FIN,
            false => FIN | opcode,
        };
        out.push(first);
        match (u8::try_from(len), u16::try_from(len)) {
            (Ok(len), _) if len < LEN_16 => out.push(MASKED | len),
            (_, Ok(len)) => {
                out.push(MASKED | LEN_16);
                out.extend_from_slice(&len.to_be_bytes());
            }
            _ => {
                out.push(MASKED | LEN_64);
                out.extend_from_slice(&len.to_be_bytes());
            }
        }
        out.extend_from_slice(&mask);
        (self.mask, self.masked, self.left) = (mask, 0, len);
    }

    /// Appends payload of the current frame, not more than it needs.
    pub(crate) fn push(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        self.left -= payload.len() as u64;
        let mask = self.mask.iter().cycle().skip(self.masked);
        out.extend(payload.iter().zip(mask).map(|(byte, mask)| byte ^ mask));
        self.masked = (self.masked + payload.len()) % self.mask.len();
    }
}

const CONTROL: u32 = CLOSE | PING | PONG;
const CONTROL_LEN_MAX: u64 = 125;
const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
const OPCODE_MASK: u8 = 0xf;
const OPCODE_TEXT: u8 = 1;
const OPCODE_BINARY: u8 = 2;
const OPCODE_CONTROL: u8 = 8;
const OPCODE_CLOSE: u8 = 8;
const OPCODE_PING: u8 = 9;
const OPCODE_PONG: u8 = 0xa;
const MASKED: u8 = 0x80;
const LEN_MASK: u8 = 0x7f;
/// The length follows in 16 bits.
const LEN_16: u8 = 126;
/// The length follows in 64 bits.
const LEN_64: u8 = 127;

#[cfg(test)]
mod tests {
    use super::*;

    /// Flags, length and payload of each frame, of input that arrives in pieces.
    fn frames(bytes: &[u8], piece: usize) -> Result<Vec<(u32, u64, Vec<u8>)>, WebSocketFault> {
        let mut decoder = WebSocketDecoder::default();
        let mut frames: Vec<(u32, u64, Vec<u8>)> = Vec::new();
        for part in bytes.chunks(piece) {
            let mut input = Bytes::copy_from_slice(part);
            while let Some(piece) = decoder.decode(&mut input)? {
                let total = piece.offset + piece.left + piece.payload.len() as u64;
                if piece.offset == 0 {
                    frames.push((piece.flags, total, Vec::new()));
                }
                let (flags, len, payload) = frames.last_mut().expect("a frame has begun");
                assert_eq!((*flags, *len), (piece.flags, total));
                assert_eq!(payload.len() as u64, piece.offset);
                payload.extend_from_slice(&piece.payload);
            }
        }
        Ok(frames)
    }

    #[test]
    fn any_split_gives_the_same_frames() {
        let long = vec![7; 300];
        let huge = vec![8; 70_000];
        let rows: [(&[u8], &[u8], u32); 8] = [
            (&[0x81, 5], b"hello", TEXT),
            (&[0x01, 2], b"he", TEXT | CONT),
            (&[0x00, 1], b"l", CONT),
            (&[0x89, 4], b"ping", PING),
            (&[0x80, 2], b"lo", 0),
            (&[0x82, 126, 1, 44], &long, BINARY),
            (&[0x82, 127, 0, 0, 0, 0, 0, 1, 0x11, 0x70], &huge, BINARY),
            (&[0x88, 0], b"", CLOSE),
        ];
        let bytes: Vec<u8> =
            rows.iter().flat_map(|(head, payload, _)| [*head, *payload].concat()).collect();
        let expected: Vec<(u32, u64, Vec<u8>)> = rows
            .iter()
            .map(|(_, payload, flags)| (*flags, payload.len() as u64, payload.to_vec()))
            .collect();
        for piece in [1, 2, 3, 5, 7, 64, 1000, usize::MAX] {
            assert_eq!(frames(&bytes, piece.min(bytes.len())), Ok(expected.clone()), "{piece}");
        }
    }

    #[test]
    fn bad_frames_are_refused() {
        for (bytes, fault) in [
            (&[0x83, 0][..], WebSocketFault::UnknownOpcode(3)),
            (&[0x8b, 0], WebSocketFault::UnknownOpcode(11)),
            (&[0x81, 0x80], WebSocketFault::Masked),
            (&[0xc1, 0], WebSocketFault::ReservedBits),
            (&[0x09, 0], WebSocketFault::BadControl),
            (&[0x88, 126, 0, 126], WebSocketFault::BadControl),
            (&[0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0], WebSocketFault::TooLarge),
        ] {
            for piece in [1, bytes.len()] {
                assert_eq!(frames(bytes, piece), Err(fault), "{bytes:?}");
            }
        }
        assert_eq!(WebSocketFault::UnknownOpcode(11).text(), "WS: unknown opcode: b");
    }

    /// Encoded frames without their masks: what a server sees.
    fn encoded(encoder: &mut WebSocketEncoder, flags: u32, payload: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let (mask, mut out) = ([1, 2, 3, 4], Vec::new());
        encoder.begin(flags, payload.len() as u64, mask, &mut out);
        let head = out.len();
        for part in payload.chunks(3) {
            encoder.push(part, &mut out);
        }
        let unmasked = out[head..].iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
        assert_eq!(out[head - 4..head], mask);
        assert_eq!(encoder.left(), 0);
        (out[..head - 4].to_vec(), unmasked.collect())
    }

    #[test]
    fn frames_are_masked_and_have_the_shortest_length() {
        let encoder = &mut WebSocketEncoder::default();
        for (len, head) in [
            (0, vec![0x82, 0x80]),
            (125, vec![0x82, 0x80 | 125]),
            (126, vec![0x82, 0x80 | 126, 0, 126]),
            (65_535, vec![0x82, 0x80 | 126, 255, 255]),
            (65_536, vec![0x82, 0x80 | 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let payload: Vec<u8> = (0..len).map(|n: u32| n.to_be_bytes()[3]).collect();
            assert_eq!(encoded(encoder, BINARY, &payload), (head, payload), "{len}");
        }
    }

    #[test]
    fn control_frames_may_stand_between_fragments() {
        let encoder = &mut WebSocketEncoder::default();
        let mut first = |flags| encoded(encoder, flags, b"x").0[0];
        let sent = [TEXT | CONT, PING, CONT, TEXT, TEXT, PONG, CLOSE].map(&mut first);
        assert_eq!(sent, [0x01, 0x89, 0x00, 0x80, 0x81, 0x8a, 0x88]);
    }
}
