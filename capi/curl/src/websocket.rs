//! WebSocket (RFC 6455): the opening handshake, frames for callbacks, `curl_ws_send` and
//! `curl_ws_recv`.
//!
//! As in libcurl, both functions wait for the connection if the application has it
//! (`CURLOPT_CONNECT_ONLY`), PINGs are responded to, and `Sec-WebSocket-Accept` is not verified.

use std::rc::Rc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use bytes::Bytes;
use fulmar_client::TransferId;
use fulmar_sys::{self as sys, Events};

use crate::border::{CBorder, DebugKind, WRITE_SIZE_MAX};
use crate::code::CurlCode;
use crate::custom_fields::CustomFields;
use crate::failure::Failure;
use crate::handles::{Easy, EasyState, Multi};
use crate::held_body::HeldKind;
use crate::option::OptionId as Id;
use crate::random;
use crate::websocket_frames::{PING, WebSocketPiece};
use crate::websocket_state::WebSocketMeta;

/// The fields that request the protocol (§4.1), except those that the application has.
pub(crate) fn handshake_fields(custom: &CustomFields) -> Result<Vec<u8>, Failure> {
    let mut nonce = [0; 16];
    random::fill(&mut nonce)?;
    let key = STANDARD.encode(nonce);
    let fields = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", &key),
    ];
    let own = fields.iter().filter(|(name, _)| custom.find(name).is_none());
    Ok(own.flat_map(|(name, value)| format!("{name}: {value}\r\n").into_bytes()).collect())
}

/// True if the current request is the handshake of a WebSocket.
pub(crate) fn is_websocket(state: &EasyState) -> bool {
    state.transfer.as_ref().is_some_and(|transfer| transfer.target.is_websocket)
}

/// The response to a handshake.
///
/// # Errors
/// The server does not switch protocols.
pub(crate) fn accept(state: &mut EasyState, status: u16) -> Result<(), Failure> {
    if !is_websocket(state) {
        return Ok(());
    }
    if status != 101 {
        let text = format!("Refused WebSockets upgrade: {status}");
        return Err(Failure::new(CurlCode::HttpReturnedError, text));
    }
    state.websocket = Some(Box::default());
    Ok(())
}

/// The end of a WebSocket whose frames went to callbacks.
pub(crate) fn judge_end(state: &EasyState, result: &mut Result<(), Failure>) {
    let received = state.transfer.as_ref().map_or(0, |it| it.download.received);
    if state.websocket.is_some() && result.is_ok() && received == 0 {
        *result = Err(Failure::new(CurlCode::GotNothing, "Empty reply from server"));
    }
}

impl Multi {
    /// Delivers the payload of received frames to the write callback; in raw mode, the frames.
    pub(crate) fn deliver_frames(
        &self,
        easy: &Rc<Easy>,
        bytes: Bytes,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        self.debug(easy, DebugKind::DataIn, &bytes, border);
        let is_raw = easy.with_state(|state| {
            let len = bytes.len() as u64;
            state.info.received += i64::try_from(len).unwrap_or(i64::MAX);
            if let Some(transfer) = &mut state.transfer {
                transfer.download.received += len;
            }
            is_raw(state)
        });
        let kind = if is_raw { HeldKind::Body } else { HeldKind::Frames };
        self.deliver_piece(easy, kind, bytes, border)
    }

    /// Delivers the payload of frames. While the application has paused, the rest is held: as in
    /// libcurl, behind all frames of the part that was being delivered.
    pub(crate) fn write_frames(
        &self,
        easy: &Rc<Easy>,
        mut bytes: Bytes,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let mut part = bytes.split_to(bytes.len().min(WRITE_SIZE_MAX));
            loop {
                // While C runs nothing is borrowed; a callback may end the transfer.
                let piece = easy.with_state(|state| match &mut state.websocket {
                    Some(socket) => socket.decoder.decode(&mut part),
                    None => Ok(None),
                });
                let piece =
                    piece.map_err(|fault| Failure::new(CurlCode::RecvError, fault.text()))?;
                let Some(piece) = piece else { break };
                self.deliver_frame(easy, &piece, border)?;
            }
            if easy.with_state(|state| state.is_halted()) && !bytes.is_empty() {
                self.hold(easy, HeldKind::Frames, bytes);
                return Ok(());
            }
        }
        Ok(())
    }

    fn deliver_frame(
        &self,
        easy: &Rc<Easy>,
        piece: &WebSocketPiece,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        if piece.flags & PING != 0 {
            let sent = self.send_pong(easy, &piece.payload, border);
            return sent.map_err(|code| Failure::new(code, ""));
        }
        let (function, data) = (easy.pointer(Id::WRITEFUNCTION), easy.pointer(Id::WRITEDATA));
        easy.with_state(|state| {
            if let Some(socket) = &mut state.websocket {
                let WebSocketPiece { flags, offset, left, ref payload } = *piece;
                socket.meta = WebSocketMeta { flags, offset, left, len: payload.len() };
            }
        });
        let written = self.call_for(easy, || border.write(function, data, &piece.payload))?;
        if written != piece.payload.len() {
            let text = "Failure writing output to destination";
            return Err(Failure::new(CurlCode::WriteError, text));
        }
        Ok(())
    }

    fn send_pong(
        &self,
        easy: &Rc<Easy>,
        payload: &[u8],
        border: &dyn CBorder,
    ) -> Result<(), CurlCode> {
        let is_queued = running_id(easy).is_some();
        let frame = easy.with_state(|state| match &mut state.websocket {
            Some(socket) => socket.pong(payload, is_queued),
            None => Ok(Vec::new()),
        })?;
        self.send_frames(easy, frame, border)
    }

    /// The client has room for frames of a WebSocket with callbacks: a PONG that waited is sent.
    pub(crate) fn feed_websocket(
        &self,
        easy: &Rc<Easy>,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        let frame = easy.with_state(|state| Some(state.websocket.as_mut()?.deferred_pong()));
        let sent = self.send_frames(easy, frame.unwrap_or_default(), border);
        sent.map_err(|code| Failure::new(code, ""))
    }

    /// Sends encoded frames on the connection of the transfer, or of the application.
    fn send_frames(
        &self,
        easy: &Rc<Easy>,
        frames: Vec<u8>,
        border: &dyn CBorder,
    ) -> Result<(), CurlCode> {
        if frames.is_empty() {
            return Ok(()); // the client would report room for more
        }
        if let Some(id) = running_id(easy) {
            self.reactor.borrow_mut().with(|client, now| {
                client.with(now, |_, context| context.send(id, Bytes::from(frames)));
            });
            return Ok(());
        }
        let mut rest = &frames[..];
        while !rest.is_empty() {
            match easy.send(rest, border) {
                Ok(len) => rest = &rest[len..],
                Err(CurlCode::Again) => self.wait_for(easy, Events::WRITABLE)?,
                Err(code) => return Err(code),
            }
        }
        Ok(())
    }

    /// Waits until the application's connection is ready.
    fn wait_for(&self, easy: &Easy, direction: Events) -> Result<(), CurlCode> {
        let socket = easy.with_state(|state| Some(state.connection.as_ref()?.socket));
        let reactor = self.reactor.borrow();
        let socket = socket.and_then(|socket| reactor.socket_descriptor(socket));
        let socket = socket.ok_or(CurlCode::GotNothing)?;
        let mut set = sys::PollSet::default();
        set.push(socket, direction);
        match set.wait(None) {
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => {
                Err(CurlCode::RecvError)
            }
            _ => Ok(()),
        }
    }
}

impl Easy {
    /// Sends a frame, or a part of one, and returns the number of payload bytes that it has
    /// (curl_ws_send(3)).
    ///
    /// # Errors
    /// There is no WebSocket, the arguments fit no frame, or the connection fails.
    pub fn send_frame(
        self: &Rc<Self>,
        payload: &[u8],
        frame_len: i64,
        flags: u32,
        border: &dyn CBorder,
    ) -> Result<usize, CurlCode> {
        let (raw, size_max) = self.with_state(|state| {
            let size = state.options.values.number(Id::UPLOAD_BUFFERSIZE);
            let size = usize::try_from(size).ok().filter(|size| *size > 0);
            (is_raw(state), size.unwrap_or(UPLOAD_SIZE) - PAYLOAD_SLACK)
        });
        let Some(multi) = self.websocket_multi() else {
            // The error of a handle without a connection.
            return self.send(payload, border);
        };
        if raw {
            if frame_len != 0 || flags != 0 {
                return Err(CurlCode::BadFunctionArgument);
            }
            multi.send_frames(self, payload.to_vec(), border)?;
            return Ok(payload.len());
        }
        let payload = &payload[..payload.len().min(size_max)];
        let frame_len = u64::try_from(frame_len).map_err(|_| CurlCode::BadFunctionArgument)?;
        let (frame, len) = self.with_state(|state| match &mut state.websocket {
            Some(socket) => socket.encode(payload, frame_len, flags),
            None => Err(CurlCode::SendError),
        })?;
        multi.send_frames(self, frame, border)?;
        Ok(len)
    }

    /// Receives payload of a frame, and waits for it (curl_ws_recv(3)). PINGs are responded to.
    ///
    /// # Errors
    /// There is no WebSocket, it has ended ([`CurlCode::GotNothing`]), or the server broke the
    /// protocol.
    pub fn receive_frame(
        self: &Rc<Self>,
        buffer: &mut [u8],
        border: &dyn CBorder,
    ) -> Result<WebSocketMeta, CurlCode> {
        let mut block = vec![0; RECEIVE_SIZE];
        loop {
            let piece = self.with_state(|state| {
                let socket = state.websocket.as_mut()?;
                Some(socket.piece.take().map_or_else(|| socket.decode(), |it| Ok(Some(it))))
            });
            let multi = self.websocket_multi();
            match (piece, multi) {
                (Some(Ok(Some(piece))), Some(multi)) if piece.flags & PING != 0 => {
                    multi.send_pong(self, &piece.payload, border)?;
                    continue;
                }
                (Some(Ok(Some(piece))), _) => {
                    let taken =
                        |state: &mut EasyState| Some(state.websocket.as_mut()?.take(piece, buffer));
                    return self.with_state(taken).ok_or(CurlCode::GotNothing);
                }
                (Some(Err(fault)), Some(multi)) => {
                    let failure = Failure::new(CurlCode::RecvError, fault.text());
                    multi.report_failure(self, &failure, border);
                    return Err(failure.code);
                }
                _ => {}
            }
            match self.receive(&mut block, border) {
                Ok(0) => return Err(CurlCode::GotNothing),
                Ok(len) => self.with_state(|state| {
                    if let Some(socket) = &mut state.websocket {
                        socket.input = Bytes::copy_from_slice(&block[..len]);
                    }
                }),
                Err(CurlCode::Again) => {
                    let multi = self.websocket_multi().ok_or(CurlCode::GotNothing)?;
                    multi.wait_for(self, Events::READABLE)?;
                }
                Err(code) => return Err(code),
            }
        }
    }

    /// The part of a frame that the write callback or `curl_ws_recv` has got last
    /// (curl_ws_meta(3)); none in raw mode, or without a WebSocket.
    pub fn frame(&self) -> Option<WebSocketMeta> {
        self.with_state(|state| Some(state.websocket.as_ref().filter(|_| !is_raw(state))?.meta))
    }

    /// The multi handle whose client has the WebSocket.
    fn websocket_multi(&self) -> Option<Rc<Multi>> {
        let lender = self.with_state(|state| {
            state.websocket.as_ref()?;
            Some(state.connection.as_ref().map(|own| own.multi.upgrade()))
        })?;
        lender.unwrap_or_else(|| self.multi())
    }
}

/// The client's transfer, while frames go to callbacks.
fn running_id(easy: &Easy) -> Option<TransferId> {
    easy.with_state(|state| state.transfer.as_ref()?.id)
}

fn is_raw(state: &EasyState) -> bool {
    state.options.values.number(Id::WS_OPTIONS) & RAW_MODE != 0
}

/// `CURLWS_RAW_MODE`.
const RAW_MODE: i64 = 1;
/// The most bytes that one call receives.
const RECEIVE_SIZE: usize = 16 * 1024;
/// `CURLOPT_UPLOAD_BUFFERSIZE` by default.
const UPLOAD_SIZE: usize = 64 * 1024;
/// As much of that is not used.
const PAYLOAD_SLACK: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_application_replace_those_of_the_handshake() {
        let own = vec![b"Sec-WebSocket-Version: 8".to_vec(), b"Connection: close".to_vec()];
        let fields = handshake_fields(&CustomFields::new(own)).expect("random bytes");
        let text = String::from_utf8(fields).expect("text");
        assert!(text.starts_with("Upgrade: websocket\r\nSec-WebSocket-Key: "), "{text}");
        assert_eq!(text.lines().count(), 2);
        let key = text.lines().nth(1).and_then(|line| line.strip_prefix("Sec-WebSocket-Key: "));
        assert_eq!(STANDARD.decode(key.expect("a key")).expect("base64").len(), 16);
    }
}
