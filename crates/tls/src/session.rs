//! One connection's TLS (RFC 8446, RFC 5246): records in, plaintext out, and back.
//!
//! Ciphertext that is not yet a whole record stays in the [`Input`], plaintext that the connection
//! does not take is kept by who owns both: an idle session holds no buffer. Whoever may read a
//! session's memory may read its keys, so nothing of it is shown.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bytes::BytesMut;
use fulmar_proto::{
    FileRange, Input, Layer, LayerError, Opened, Outbox, Sealed, Segment, Transmit,
};
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, WriteTraffic};

use crate::buffers::{self, append};
use crate::error::TlsError;
use crate::info::Info;
use crate::side::{ServerEnd, Side};

/// The end that asks for TLS.
pub type ClientSession = Session<UnbufferedClientConnection>;

/// The end that is asked.
pub type ServerSession = Session<ServerEnd>;

/// One connection's TLS, of either side.
pub struct Session<S> {
    tls: S,
    outbox: Outbox,   // ciphertext
    queue_max: usize, // no more of it is sealed ahead of the socket than about this
    stage: Stage,
    /// Whole records at the front of the input belong to a handshake message whose end has not
    /// come. rustls counts on seeing them again with whatever it is asked next, so nothing is
    /// sealed meanwhile.
    incomplete: bool,
    peer: Peer,
    /// Bytes that have been opened since the last that held something for the connection.
    silent: usize,
}

/// How far we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Handshake,
    Open,
    /// We have said that nothing more comes.
    Finished,
    /// It failed; the alert that the peer deserves, if any, is in the outbox.
    Failed,
}

/// What the peer has said about its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    Open,
    /// It has sent close_notify, and nobody has been told.
    Ending,
    Ended,
}

impl ClientSession {
    pub(crate) fn client(
        config: Arc<rustls::ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Self, TlsError> {
        let mut session = Self::new(UnbufferedClientConnection::new(config, name)?);
        session.speak()?; // the ClientHello
        Ok(session)
    }
}

impl ServerSession {
    pub(crate) fn server(config: Arc<rustls::ServerConfig>) -> Result<Self, TlsError> {
        Ok(Self::new(ServerEnd::new(UnbufferedServerConnection::new(config)?)))
    }
}

impl<S: Side> Session<S> {
    fn new(tls: S) -> Self {
        let outbox = Outbox::default();
        let (queue_max, stage, peer) = (QUEUE_MAX, Stage::Handshake, Peer::Open);
        Self { tls, outbox, queue_max, stage, incomplete: false, peer, silent: 0 }
    }

    /// What was agreed; `None` before the handshake is complete.
    pub fn info(&self) -> Option<Info<'_>> {
        let state = (self.stage != Stage::Handshake).then(|| self.tls.common())?;
        Info::of_state(state, self.tls.server_name())
    }

    /// One step with what arrived: consumes it, and says what came of it.
    fn step(&mut self, input: &mut Input<'_>, above: &mut BytesMut) -> Result<Came, TlsError> {
        let status = self.tls.process(input.bytes_mut());
        let mut discard = status.discard;
        let came = match status.state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => match traffic.next_record() {
                Some(Ok(record)) => {
                    discard += record.discard;
                    above.extend_from_slice(record.payload);
                    Ok(Came::Plaintext)
                }
                Some(Err(error)) => Err(error),
                None => Ok(Came::Progress),
            },
            Ok(ConnectionState::EncodeTlsData(data)) => {
                self.outbox.push(encode(data));
                Ok(Came::Progress)
            }
            Ok(ConnectionState::TransmitTlsData(data)) => {
                data.done(); // it is in the outbox, in front of all that follows
                Ok(Came::Progress)
            }
            Ok(ConnectionState::PeerClosed) => {
                self.peer = Peer::Ending;
                Ok(Came::Progress)
            }
            Ok(_) => Ok(Came::Nothing),
            Err(error) => Err(error),
        };
        input.skip(discard);
        if self.stage == Stage::Handshake {
            self.tls.hear()?;
        }
        let came = came?;
        self.note_silence(came, discard)?;
        Ok(came)
    }

    /// rustls counts what says nothing, but not if it takes turns.
    fn note_silence(&mut self, came: Came, opened: usize) -> Result<(), TlsError> {
        self.silent = match (came, self.stage) {
            (Came::Plaintext, _) | (_, Stage::Handshake) => 0,
            _ => self.silent + opened,
        };
        if self.silent > SILENT_SIZE_MAX { Err(TlsError::Flood) } else { Ok(()) }
    }

    /// As [`Layer::open`], with the error named.
    fn poll_open(
        &mut self,
        input: &mut Input<'_>,
        above: &mut BytesMut,
    ) -> Result<Opened, TlsError> {
        loop {
            let came =
                if self.peer == Peer::Open { self.step(input, above)? } else { Came::Nothing };
            if self.stage == Stage::Handshake
                && came != Came::Progress
                && !self.tls.common().is_handshaking()
            {
                self.stage = Stage::Open;
                return Ok(Opened::Established);
            }
            match came {
                Came::Progress => {}
                Came::Plaintext => return Ok(Opened::Some),
                Came::Nothing => return self.poll_end(input),
            }
        }
    }

    /// Nothing more can be opened: is this the end?
    fn poll_end(&mut self, input: &mut Input<'_>) -> Result<Opened, TlsError> {
        match self.peer {
            Peer::Open if !input.has_eof() => {
                self.incomplete = begins_with_record(input.bytes());
                if self.stage == Stage::Handshake && input.len() > self.tls.unread_max() {
                    self.outbox.push(Segment::from(&ILLEGAL_PARAMETER[..]));
                    return Err(TlsError::HelloTooLarge);
                }
                Ok(Opened::Blocked)
            }
            Peer::Open if self.stage == Stage::Handshake => Err(TlsError::HandshakeEof),
            Peer::Open => {
                input.clear();
                self.peer = Peer::Ended;
                Ok(Opened::Truncated(TlsError::Truncated.into()))
            }
            Peer::Ending => {
                self.peer = Peer::Ended;
                Ok(Opened::Ended)
            }
            Peer::Ended => {
                input.clear(); // what follows the end is ignored (RFC 8446 §6.1)
                Ok(Opened::Blocked)
            }
        }
    }

    /// Queues whatever rustls has to say of its own accord, without new input.
    fn speak(&mut self) -> Result<(), TlsError> {
        let mut nothing = BytesMut::new();
        let mut input = Input::all(&mut nothing, false);
        while self.step(&mut input, &mut BytesMut::new())? == Came::Progress {}
        Ok(())
    }

    /// No more after this: queues the alert that the peer deserves.
    fn fail(&mut self) {
        self.stage = Stage::Failed;
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

    /// Room for so many bytes of plaintext. A head that waits for its body takes none of it, so
    /// that large bodies are cut as files are read.
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

    /// Runs `call` in the state in which application data may be written.
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
                ConnectionState::PeerClosed => self.peer = Peer::Ending,
                _ => return Err(TlsError::KeysExhausted), // it has closed of its own accord
            }
        }
    }

    fn poll_seal(&mut self, transmit: Transmit<'_>) -> Result<Sealed, TlsError> {
        let room = self.room();
        if self.stage != Stage::Open || self.incomplete || room == 0 {
            return Ok(Sealed::Bytes(0));
        }
        let n = match (transmit.inline, transmit.segments.first()) {
            ([], Some(Segment::File(range))) => {
                let len = range.len.min(room as u64);
                return Ok(Sealed::Load(FileRange { len, ..range.clone() }));
            }
            ([], Some(Segment::Bytes(bytes))) if bytes.len() >= RECORD_SIZE => {
                let n = bytes.len().min(room);
                self.encrypt(&bytes[..n])?;
                n
            }
            // A record at a time, each in memory of its own: it is free when its record has left.
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

impl<S: Side> Layer for Session<S> {
    fn open(&mut self, input: &mut Input<'_>, above: &mut BytesMut) -> Result<Opened, LayerError> {
        if self.stage == Stage::Failed {
            input.clear();
            return Ok(Opened::Blocked);
        }
        self.incomplete = false;
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
        if self.stage != Stage::Open {
            return;
        }
        self.stage = Stage::Finished;
        if !self.incomplete {
            // Only a session whose keys are used up cannot say it, and it has said so before.
            let _ = self.write(RECORD_OVERHEAD, |traffic, out| traffic.queue_close_notify(out));
        }
    }

    fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        self.outbox.transmit()
    }

    fn handle_sent(&mut self, bytes: u64) {
        self.outbox.sent(bytes);
    }

    /// A record at least: without one, nothing could be sent.
    fn set_queue_max(&mut self, bytes: usize) {
        self.queue_max = bytes.max(RECORD_SIZE);
    }

    fn info(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl<S: Side> fmt::Debug for Session<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("stage", &self.stage)
            .field("peer", &self.peer)
            .field("queued", &self.outbox.size())
            .finish_non_exhaustive()
    }
}

/// What one step led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    /// Bytes for the connection.
    Plaintext,
    /// Something; there may be more.
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

/// True if a whole record (RFC 8446 §5.1) lies in front.
fn begins_with_record(bytes: &[u8]) -> bool {
    match bytes {
        [_, _, _, high, low, rest @ ..] => {
            rest.len() >= usize::from(u16::from_be_bytes([*high, *low]))
        }
        _ => false,
    }
}

/// The most plaintext that a record holds (RFC 8446 §5.1).
const RECORD_SIZE: usize = 16 * 1024;
/// Header, nonce, tag, content type and slack: what a record adds.
const RECORD_OVERHEAD: usize = 64;
/// Ciphertext that waits for the socket, and a record more, unless somebody sets another limit.
const QUEUE_MAX: usize = 128 * 1024;
/// What says nothing is tickets, changes of keys and padding: no peer sends more of it at a time.
const SILENT_SIZE_MAX: usize = 32 * 1024;
/// A fatal alert before anything is encrypted (RFC 8446 §6).
const ILLEGAL_PARAMETER: [u8; 7] = [21, 3, 3, 0, 2, 2, 47];
/// Most flights of a handshake are shorter.
const FLIGHT_SIZE: usize = 2048;

#[cfg(test)]
mod tests;
