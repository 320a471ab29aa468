//! The WebSocket of a handle: the frames that it sends, and the part of a frame that it received.

use bytes::{Buf, Bytes};

use crate::code::CurlCode;
use crate::random;
use crate::websocket_frames::{
    PONG, WebSocketDecoder, WebSocketEncoder, WebSocketFault, WebSocketPiece,
};

/// The WebSocket of a handle, from its handshake on.
#[derive(Debug, Default)]
pub(crate) struct WebSocketState {
    pub(crate) decoder: WebSocketDecoder,
    pub(crate) encoder: WebSocketEncoder,
    /// The response to the last PING, which follows the frame that is being sent.
    deferred: Vec<u8>,
    /// Responses to PINGs that were passed to the client since it last reported room.
    queued: usize,
    /// Received, and not decoded.
    pub(crate) input: Bytes,
    /// Decoded, and not returned by `curl_ws_recv`.
    pub(crate) piece: Option<WebSocketPiece>,
    pub(crate) meta: WebSocketMeta,
}

/// What `struct curl_ws_frame` describes: the part of a frame that was returned last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WebSocketMeta {
    /// `CURLWS_*`.
    pub flags: u32,
    /// Payload of the frame before this part.
    pub offset: u64,
    /// And behind it.
    pub left: u64,
    /// The length of this part.
    pub len: usize,
}

impl WebSocketState {
    /// A frame, or a part of one; the number of payload bytes that it has. `flags`: `CURLWS_*`.
    pub(crate) fn encode(
        &mut self,
        payload: &[u8],
        frame_len: u64,
        flags: u32,
    ) -> Result<(Vec<u8>, usize), CurlCode> {
        let mut out = Vec::with_capacity(payload.len() + HEAD_LEN_MAX);
        let continues = flags & OFFSET != 0 && frame_len == 0;
        let needed = match continues {
            true => self.encoder.left(),
            false if self.encoder.left() > 0 => return Err(CurlCode::BadFunctionArgument),
            false if flags & OFFSET != 0 => frame_len,
            false => payload.len() as u64,
        };
        if payload.len() as u64 > needed {
            return Err(CurlCode::BadFunctionArgument);
        }
        if !continues {
            self.encoder.begin(flags, needed, mask()?, &mut out);
        }
        self.encoder.push(payload, &mut out);
        if self.encoder.left() == 0 {
            out.append(&mut self.deferred);
        }
        Ok((out, payload.len()))
    }

    /// The response to a PING (§5.5.3). It is empty if the response has to wait: for the end of a
    /// frame, or, if the client keeps what its connection has no room for (`is_queued`), for room.
    pub(crate) fn pong(&mut self, payload: &[u8], is_queued: bool) -> Result<Vec<u8>, CurlCode> {
        if self.encoder.left() == 0 && self.queued < PONGS_SIZE_MAX {
            let (frame, _) = self.encode(payload, 0, PONG)?;
            self.queued += if is_queued { frame.len() } else { 0 };
            return Ok(frame);
        }
        // §5.5.3: the last PING is enough. The application may never end its frame, and a server
        // may send PINGs without receiving.
        self.deferred.clear();
        let mut encoder = WebSocketEncoder::default();
        encoder.begin(PONG, payload.len() as u64, mask()?, &mut self.deferred);
        encoder.push(payload, &mut self.deferred);
        Ok(Vec::new())
    }

    /// The client has room: the response that waits for it, if there is one.
    pub(crate) fn deferred_pong(&mut self) -> Vec<u8> {
        self.queued = 0;
        if self.encoder.left() == 0 { std::mem::take(&mut self.deferred) } else { Vec::new() }
    }

    pub(crate) fn decode(&mut self) -> Result<Option<WebSocketPiece>, WebSocketFault> {
        self.decoder.decode(&mut self.input)
    }

    /// The first bytes of a piece; the others stay.
    pub(crate) fn take(&mut self, piece: WebSocketPiece, buffer: &mut [u8]) -> WebSocketMeta {
        let WebSocketPiece { flags, offset, left, mut payload } = piece;
        let len = payload.len().min(buffer.len());
        payload.copy_to_slice(&mut buffer[..len]);
        let behind = left + payload.len() as u64;
        if !payload.is_empty() {
            let offset = offset + len as u64;
            self.piece = Some(WebSocketPiece { flags, offset, left, payload });
        }
        self.meta = WebSocketMeta { flags, offset, left: behind, len };
        self.meta
    }
}

fn mask() -> Result<[u8; 4], CurlCode> {
    let mut mask = [0; 4];
    random::fill(&mut mask).map_err(|failure| failure.code)?;
    Ok(mask)
}

/// `CURLWS_OFFSET`: a part of a frame.
const OFFSET: u32 = 1 << 5;
const HEAD_LEN_MAX: usize = 14;
/// Once so many bytes of responses to PINGs wait for room, only the last one is kept.
const PONGS_SIZE_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::websocket_frames::{CONT, TEXT};

    #[test]
    fn a_response_to_a_ping_waits_for_the_end_of_a_frame() {
        let mut socket = WebSocketState::default();
        let (begun, len) = socket.encode(b"he", 5, TEXT | OFFSET).expect("a part");
        assert_eq!((begun.len(), len), (2 + 4 + 2, 2));
        for ping in [&b"first"[..], b"second", b"x"] {
            assert_eq!(socket.pong(ping, false).expect("random bytes"), b"");
        }
        assert_eq!(socket.encode(b"y", 0, TEXT), Err(CurlCode::BadFunctionArgument));
        assert_eq!(socket.encode(b"four", 0, OFFSET), Err(CurlCode::BadFunctionArgument));
        let (rest, _) = socket.encode(b"llo", 0, OFFSET).expect("the rest");
        assert_eq!(rest.len(), 3 + 2 + 4 + 1);
        assert_eq!(rest[3..5], [0x8a, 0x81]);
        assert_eq!(socket.pong(b"", false).expect("random bytes").len(), 2 + 4);
        let (last, _) = socket.encode(b"", 0, CONT).expect("a fragment");
        assert_eq!(last[..2], [0x02, 0x80]);
    }

    #[test]
    fn responses_to_pings_without_room_have_a_limit() {
        let mut socket = WebSocketState::default();
        let mut ping = |number: u32| socket.pong(&[number.to_be_bytes()[3]; 125], true);
        let sent: Vec<usize> =
            (0..1000).map(|number| ping(number).expect("random bytes").len()).collect();
        assert_eq!(sent.iter().position(|len| *len == 0), Some(PONGS_SIZE_MAX.div_ceil(131)));
        assert_eq!(sent.iter().sum::<usize>(), PONGS_SIZE_MAX.div_ceil(131) * 131);
        let last = socket.deferred_pong();
        let mask = last[2..6].iter().cycle();
        let payload: Vec<u8> = last[6..].iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect();
        assert_eq!(payload, [999_u32.to_be_bytes()[3]; 125]);
        assert_eq!(socket.deferred_pong(), b"");
        assert_eq!(socket.pong(b"next", true).expect("random bytes").len(), 6 + 4);
    }

    #[test]
    fn a_small_buffer_gets_a_frame_in_parts() {
        let mut socket =
            WebSocketState { input: Bytes::from_static(b"\x81\x05hello"), ..Default::default() };
        let mut buffer = [0; 2];
        let mut parts = Vec::new();
        while let Some(piece) = socket.piece.take().or_else(|| socket.decode().expect("sound")) {
            let WebSocketMeta { flags, offset, left, len } = socket.take(piece, &mut buffer);
            parts.push((flags, offset, left, buffer[..len].to_vec()));
        }
        let part = |offset, left, text: &[u8]| (TEXT, offset, left, text.to_vec());
        assert_eq!(parts, [part(0, 3, b"he"), part(2, 1, b"ll"), part(4, 0, b"o")]);
    }
}
