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

    /// The response to a PING (§5.5.3); empty if it has to wait for the end of a frame.
    pub(crate) fn pong(&mut self, payload: &[u8]) -> Result<Vec<u8>, CurlCode> {
        if self.encoder.left() == 0 {
            return Ok(self.encode(payload, 0, PONG)?.0);
        }
        // §5.5.3: the last PING is enough. The application may never end its frame.
        self.deferred.clear();
        let mut encoder = WebSocketEncoder::default();
        encoder.begin(PONG, payload.len() as u64, mask()?, &mut self.deferred);
        encoder.push(payload, &mut self.deferred);
        Ok(Vec::new())
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
            assert_eq!(socket.pong(ping).expect("random bytes"), b"");
        }
        assert_eq!(socket.encode(b"y", 0, TEXT), Err(CurlCode::BadFunctionArgument));
        assert_eq!(socket.encode(b"four", 0, OFFSET), Err(CurlCode::BadFunctionArgument));
        let (rest, _) = socket.encode(b"llo", 0, OFFSET).expect("the rest");
        assert_eq!(rest.len(), 3 + 2 + 4 + 1);
        assert_eq!(rest[3..5], [0x8a, 0x81]);
        assert_eq!(socket.pong(b"").expect("random bytes").len(), 2 + 4);
        let (last, _) = socket.encode(b"", 0, CONT).expect("a fragment");
        assert_eq!(last[..2], [0x02, 0x80]);
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
