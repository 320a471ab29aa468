//! The TLS session of one connection (RFC 8446, RFC 5246): decrypts received records, encrypts sent
//! data.
//!
//! An incomplete record stays in the [`Input`], and the caller owns the decrypted bytes: an idle
//! session holds no buffer. The memory of a session contains its keys, so `Debug` does not print
//! it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bytes::BytesMut;
use fulmar_proto::{Input, Layer, LayerError, Opened, Outbox, Sealed, Segment, Transmit};
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, WriteTraffic};

use crate::buffers::{self, append};
use crate::error::TlsError;
use crate::info::Info;
use crate::plain_http::{self, FirstBytes};
use crate::side::{ServerSide, TlsSide};

/// The client side of a session.
pub type ClientSession = Session<UnbufferedClientConnection>;

/// The server side of a session.
pub type ServerSession = Session<ServerSide>;

/// The TLS session of one connection, client or server side.
pub struct Session<S> {
    tls: S,
    outbox: Outbox,   // ciphertext
    queue_max: usize, // about this many bytes are sealed ahead of the socket
    stage: SessionStage,
    /// The input begins with complete records of an incomplete handshake message. rustls expects
    /// them again in the next call, so nothing is sealed until the message is complete.
    incomplete: bool,
    peer: PeerState,
    /// Bytes opened since the last application data.
    non_data: usize,
}

/// The state of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionStage {
    Handshake,
    Open,
    /// close_notify was queued; no more data is sent.
    Finished,
    /// The session failed. The alert for the peer, if any, is in the outbox.
    Failed,
}

/// The state of the peer's sending direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PeerState {
    Open,
    /// The peer sent close_notify; the connection has not been notified yet.
    Ending,
    Ended,
}

impl ClientSession {
    pub(crate) fn client(
        config: Arc<rustls::ClientConfig>,
        name: ServerName<'static>,
        alpn: Vec<Vec<u8>>,
    ) -> Result<Self, TlsError> {
        let tls = UnbufferedClientConnection::new_with_alpn(config, name, alpn)?;
        let mut session = Self::new(tls);
        session.queue_pending()?; // the ClientHello
        Ok(session)
    }
}

impl ServerSession {
    pub(crate) fn server(config: Arc<rustls::ServerConfig>) -> Result<Self, TlsError> {
        Ok(Self::new(ServerSide::new(UnbufferedServerConnection::new(config)?)))
    }
}

impl<S: TlsSide> Session<S> {
    fn new(tls: S) -> Self {
        let outbox = Outbox::default();
        let (queue_max, stage, peer) = (QUEUE_MAX, SessionStage::Handshake, PeerState::Open);
        Self { tls, outbox, queue_max, stage, incomplete: false, peer, non_data: 0 }
    }

    /// The negotiated parameters; `None` before the handshake is complete.
    pub fn info(&self) -> Option<Info<'_>> {
        let state = (self.stage != SessionStage::Handshake).then(|| self.tls.common())?;
        Info::of_state(state, self.tls.server_name())
    }

    /// Processes one step of the input, and consumes what it used.
    fn step(
        &mut self,
        input: &mut Input<'_>,
        above: &mut BytesMut,
    ) -> Result<StepResult, TlsError> {
        let status = self.tls.process(input.bytes_mut());
        let mut discard = status.discard;
        let result = match status.state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => match traffic.next_record() {
                Some(Ok(record)) => {
                    discard += record.discard;
                    above.extend_from_slice(record.payload);
                    Ok(StepResult::Plaintext)
                }
                Some(Err(error)) => Err(error),
                None => Ok(StepResult::Progress),
            },
            Ok(ConnectionState::EncodeTlsData(data)) => {
                self.outbox.push(encode(data));
                Ok(StepResult::Progress)
            }
            Ok(ConnectionState::TransmitTlsData(data)) => {
                data.done(); // it is in the outbox, in front of all later records
                Ok(StepResult::Progress)
            }
            Ok(ConnectionState::PeerClosed) => {
                self.peer = PeerState::Ending;
                Ok(StepResult::Progress)
            }
            Ok(_) => Ok(StepResult::Nothing),
            Err(error) => Err(error),
        };
        input.skip(discard);
        if self.stage == SessionStage::Handshake {
            self.tls.after_step()?;
        }
        let result = result?;
        self.count_non_data(result, discard)?;
        Ok(result)
    }

    /// Limits the total of non-data records. rustls counts each type alone, so alternating types
    /// would never reach its limits.
    fn count_non_data(&mut self, result: StepResult, opened: usize) -> Result<(), TlsError> {
        self.non_data = match (result, self.stage) {
            (StepResult::Plaintext, _) | (_, SessionStage::Handshake) => 0,
            _ => self.non_data + opened,
        };
        if self.non_data > NON_DATA_SIZE_MAX { Err(TlsError::Flood) } else { Ok(()) }
    }

    /// Like [`Layer::open`], but with a typed error.
    fn poll_open(
        &mut self,
        input: &mut Input<'_>,
        above: &mut BytesMut,
    ) -> Result<Opened, TlsError> {
        loop {
            let result = if self.peer == PeerState::Open {
                self.step(input, above)?
            } else {
                StepResult::Nothing
            };
            if self.stage == SessionStage::Handshake
                && result != StepResult::Progress
                && !self.tls.common().is_handshaking()
            {
                self.stage = SessionStage::Open;
                return Ok(Opened::Established);
            }
            match result {
                StepResult::Progress => {}
                StepResult::Plaintext => return Ok(Opened::Some),
                StepResult::Nothing => return self.poll_end(input),
            }
        }
    }

    /// Nothing more can be opened: checks whether the input has ended.
    fn poll_end(&mut self, input: &mut Input<'_>) -> Result<Opened, TlsError> {
        match self.peer {
            PeerState::Open if !input.has_eof() => {
                self.incomplete = begins_with_record(input.bytes());
                if self.stage == SessionStage::Handshake && input.len() > self.tls.unread_max() {
                    self.outbox.push(Segment::from(&ILLEGAL_PARAMETER[..]));
                    return Err(TlsError::HelloTooLarge);
                }
                Ok(Opened::Blocked)
            }
            PeerState::Open if self.stage == SessionStage::Handshake => Err(TlsError::HandshakeEof),
            PeerState::Open => {
                input.clear();
                self.peer = PeerState::Ended;
                Ok(Opened::Truncated(TlsError::Truncated.into()))
            }
            PeerState::Ending => {
                self.peer = PeerState::Ended;
                Ok(Opened::Ended)
            }
            PeerState::Ended => {
                input.clear(); // data after close_notify is ignored (RFC 8446 §6.1)
                Ok(Opened::Blocked)
            }
        }
    }

    /// Queues the messages that rustls sends without new input.
    fn queue_pending(&mut self) -> Result<(), TlsError> {
        let mut nothing = BytesMut::new();
        let mut input = Input::all(&mut nothing, false);
        while self.step(&mut input, &mut BytesMut::new())? == StepResult::Progress {}
        Ok(())
    }

    /// Ends the session, and queues the alert for the peer.
    fn fail(&mut self) {
        self.stage = SessionStage::Failed;
        while self.tls.common().wants_write() {
            match self.tls.process(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(data)) => self.outbox.push(encode(data)),
                _ => break,
            }
        }
    }

    fn failed(&mut self, error: TlsError) -> LayerError {
        self.fail();
        error.into()
    }

    /// Ends the session with a response that the client understands, instead of an alert.
    fn refuse_http(&mut self, input: &mut Input<'_>) -> LayerError {
        input.clear();
        self.stage = SessionStage::Failed;
        self.outbox.push(Segment::from(plain_http::RESPONSE));
        TlsError::NotTls.into()
    }

    /// Bytes of plaintext that may be sealed now. A queued head of less than one record does not
    /// count, so that large bodies are split at the same offsets as reads of files.
    fn room(&self) -> usize {
        let queued = usize::try_from(self.outbox.size()).unwrap_or(usize::MAX);
        match self.queue_max.saturating_sub(queued) {
            _ if queued < RECORD_SIZE => self.queue_max,
            room if room < RECORD_SIZE => 0,
            room => room,
        }
    }

    fn encrypt(&mut self, plain: &[u8]) -> Result<(), TlsError> {
        let size = plain.len() + plain.len().div_ceil(RECORD_SIZE) * RECORD_OVERHEAD;
        self.write(size, |traffic, out| traffic.encrypt(plain, out))
    }

    /// Runs `call` in the state in which rustls accepts application data.
    fn write(
        &mut self,
        size: usize,
        call: impl Fn(&mut WriteTraffic<'_, S::Data>, &mut [u8]) -> Result<usize, EncryptError>,
    ) -> Result<(), TlsError> {
        loop {
            match self.tls.process(&mut []).state? {
                ConnectionState::WriteTraffic(mut traffic) => {
                    let sealed = buffers::with(|buffers| {
                        append(&mut buffers.sealed, size, |out| match call(&mut traffic, out) {
                            Ok(n) => Ok(n),
                            Err(EncryptError::InsufficientSize(e)) => Err(Some(e.required_size)),
                            Err(EncryptError::EncryptExhausted) => Err(None),
                        })
                    });
                    self.outbox.push(Segment::Bytes(sealed.ok_or(TlsError::KeysExhausted)?));
                    return Ok(());
                }
                ConnectionState::EncodeTlsData(data) => self.outbox.push(encode(data)),
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::PeerClosed => self.peer = PeerState::Ending,
                _ => return Err(TlsError::KeysExhausted), // rustls has closed the session
            }
        }
    }

    fn poll_seal(&mut self, transmit: Transmit<'_>) -> Result<Sealed, TlsError> {
        let room = self.room();
        if self.stage != SessionStage::Open || self.incomplete || room == 0 {
            return Ok(Sealed::Bytes(0));
        }
        // Whole records, so that frame headers do not split a part.
        if let Some(range) = transmit.first_file(room.next_multiple_of(RECORD_SIZE) as u64) {
            return Ok(Sealed::Load(range));
        }
        let n = match (transmit.inline, transmit.segments.first()) {
            ([], Some(Segment::Bytes(bytes))) if bytes.len() >= RECORD_SIZE => {
                let n = bytes.len().min(room);
                self.encrypt(&bytes[..n])?;
                n
            }
            // One record at a time, each in its own buffer: the buffer is freed when its record was
            // sent.
            (inline, _) if inline.len() >= RECORD_SIZE => {
                self.encrypt(&inline[..RECORD_SIZE])?;
                RECORD_SIZE
            }
            _ => {
                let plain = buffers::flatten(transmit, RECORD_SIZE);
                let result = self.encrypt(&plain);
                let n = plain.len();
                buffers::give(plain);
                result?;
                n
            }
        };
        Ok(Sealed::Bytes(n as u64))
    }
}

impl<S: TlsSide> Layer for Session<S> {
    fn open(&mut self, input: &mut Input<'_>, above: &mut BytesMut) -> Result<Opened, LayerError> {
        if self.stage == SessionStage::Failed {
            input.clear();
            return Ok(Opened::Blocked);
        }
        self.incomplete = false;
        if self.tls.awaits_hello() {
            match FirstBytes::of(input.bytes()) {
                FirstBytes::Http => return Err(self.refuse_http(input)),
                FirstBytes::Incomplete if !input.has_eof() => return Ok(Opened::Blocked),
                FirstBytes::Incomplete | FirstBytes::Other => {}
            }
        }
        self.poll_open(input, above).map_err(|error| {
            input.clear();
            self.failed(error)
        })
    }

    fn seal(&mut self, transmit: Transmit<'_>) -> Result<Sealed, LayerError> {
        self.poll_seal(transmit).map_err(|error| self.failed(error))
    }

    fn seal_loaded(&mut self, bytes: &[u8]) -> Result<(), LayerError> {
        self.encrypt(bytes).map_err(|error| self.failed(error))
    }

    fn finish(&mut self) {
        if self.stage != SessionStage::Open {
            return;
        }
        self.stage = SessionStage::Finished;
        if !self.incomplete {
            // The only error is exhausted keys, which was reported before.
            let _ = self.write(RECORD_OVERHEAD, |traffic, out| traffic.queue_close_notify(out));
        }
    }

    fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        self.outbox.transmit()
    }

    fn handle_sent(&mut self, bytes: u64) {
        self.outbox.sent(bytes);
    }

    /// The minimum is one record: with less, nothing could be sent.
    fn set_queue_max(&mut self, bytes: usize) {
        self.queue_max = bytes.max(RECORD_SIZE);
    }

    fn alpn(&self) -> Option<&[u8]> {
        Self::info(self)?.alpn
    }

    fn info(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl<S: TlsSide> fmt::Debug for Session<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("stage", &self.stage)
            .field("peer", &self.peer)
            .field("queued", &self.outbox.size())
            .finish_non_exhaustive()
    }
}

/// The result of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepResult {
    /// Application data for the connection.
    Plaintext,
    /// The state changed; call again.
    Progress,
    Nothing,
}

fn encode<D>(mut data: EncodeTlsData<'_, D>) -> Segment {
    let encoded = buffers::with(|buffers| {
        append(&mut buffers.sealed, FLIGHT_SIZE, |out| match data.encode(out) {
            Ok(n) => Ok(n),
            Err(EncodeError::InsufficientSize(e)) => Err(Some(e.required_size)),
            Err(EncodeError::AlreadyEncoded) => Err(None),
        })
    });
    Segment::Bytes(encoded.expect("it is encoded once"))
}

/// True if `bytes` begins with a complete record (RFC 8446 §5.1).
fn begins_with_record(bytes: &[u8]) -> bool {
    match bytes {
        [_, _, _, high, low, rest @ ..] => {
            rest.len() >= usize::from(u16::from_be_bytes([*high, *low]))
        }
        _ => false,
    }
}

/// Maximum plaintext of a record (RFC 8446 §5.1).
const RECORD_SIZE: usize = 16 * 1024;
/// Maximum overhead of a record: header, nonce, tag, content type and slack.
const RECORD_OVERHEAD: usize = 64;
/// Default limit of queued ciphertext in bytes; it is exceeded by one record at most.
const QUEUE_MAX: usize = 128 * 1024;
/// Maximum bytes of tickets, key updates and padding without application data in between. No known
/// peer sends more.
const NON_DATA_SIZE_MAX: usize = 32 * 1024;
/// A fatal unencrypted alert (RFC 8446 §6).
const ILLEGAL_PARAMETER: [u8; 7] = [21, 3, 3, 0, 2, 2, 47];
/// Expected size of a handshake flight in bytes.
const FLIGHT_SIZE: usize = 2048;

impl<'a> Info<'a> {
    /// Of a layer, as passed to a connection handler; `None` if it is not TLS, or if the handshake
    /// is not complete.
    pub fn of(layer: &'a dyn Any) -> Option<Self> {
        match (layer.downcast_ref::<ClientSession>(), layer.downcast_ref::<ServerSession>()) {
            (Some(session), _) => session.info(),
            (_, Some(session)) => session.info(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
