//! A layer between a socket and its connection, kept in step with both.
//!
//! A record is opened only while the connection wants to read, so back-pressure reaches the
//! socket. Opened bytes that the connection has not taken are kept here. The descriptor does not
//! report them again, so `held` records that there may be more.

use bytes::BytesMut;
use fulmar_proto::{
    Block, Connection, FileRange, Input, IoState, Layer, LayerError, LayerStack, Opened, Phase,
    Sealed, Segment, Transmit,
};

use super::{ConnectionEvent, Delivery, End, Entry, Handler};

/// A layer on a socket.
#[derive(Debug)]
pub(crate) struct Transport {
    pub(crate) layer: Box<dyn Layer>,
    unread: BytesMut, // opened, and not taken by the connection; empty when idle
    pub(crate) load: Option<FileRange>, // requested, and not loaded yet
    state: LayerState,
    ended: bool, // the peer has ended its side
    held: bool,  // more can be opened once the connection reads
    /// The layer holds bytes of messages for the socket, not only frames such as acknowledgements.
    sends_messages: bool,
}

/// How far the layer is.
#[derive(Debug)]
enum LayerState {
    Opening,
    Open,
    /// Both the connection and the layer have ended their side. `quiet`: everything before the
    /// layer's end was sent.
    Finished {
        quiet: bool,
    },
    /// The layer's alert is queued. `reported`: it was sent, as far as the socket took it.
    Failed {
        error: LayerError,
        reported: bool,
    },
}

impl Transport {
    pub(crate) fn new(layer: Box<dyn Layer>) -> Self {
        let unread = BytesMut::new();
        Self {
            layer,
            unread,
            load: None,
            state: LayerState::Opening,
            ended: false,
            held: false,
            sends_messages: false,
        }
    }

    /// The same for another connection: directly on the layer, or on `above`, which is put on it.
    pub(crate) fn restart(mut self, above: Option<Box<dyn Layer>>) -> Self {
        if !matches!(self.state, LayerState::Open) {
            return self; // the socket is being closed
        }
        match above {
            Some(above) => Self::new(Box::new(LayerStack::new(above, self.layer, self.unread))),
            None => {
                self.held = true;
                self
            }
        }
    }

    /// Opens the input, a record at a time, and passes it on. `None`: the layer has done its
    /// work, and the connection is directly on the socket.
    ///
    /// Opened bytes go through `spare`, which is shared by all connections.
    pub(crate) fn open<C: Connection, T>(
        mut self: Box<Self>,
        entry: &mut Entry<C, T>,
        input: &mut Input<'_>,
        spare: &mut Block,
        delivery: &mut Delivery<'_, impl Handler<C, T>>,
    ) -> Option<Box<Self>> {
        if self.unread.is_empty() {
            spare.clear();
            let stays = self.open_into(entry, input, &mut Above::Spare(spare), delivery);
            let left = spare.memory().len();
            self.unread = spare.split_copy(left);
            stays.then_some(self)
        } else {
            // The memory is kept, so that a head that arrives byte by byte is copied once.
            let mut above = std::mem::take(&mut self.unread);
            let (before, arrived) = (above.len(), input.len());
            let stays = self.open_into(entry, input, &mut Above::Own(&mut above), delivery);
            if !above.is_empty() {
                let is_little = above.len() < (before + arrived - input.len()) / 2;
                self.unread = if is_little { BytesMut::from(&above[..]) } else { above };
            }
            stays.then_some(self)
        }
    }

    /// The same into `above`; false: the layer has done its work.
    fn open_into<C: Connection, T>(
        &mut self,
        entry: &mut Entry<C, T>,
        input: &mut Input<'_>,
        above: &mut Above<'_>,
        delivery: &mut Delivery<'_, impl Handler<C, T>>,
    ) -> bool {
        loop {
            if matches!(self.state, LayerState::Failed { .. }) {
                input.clear();
                return true;
            }
            if !matches!(self.state, LayerState::Opening) {
                entry.feed(&mut above.input(self.ended), delivery);
                self.held = !entry.connection.io_state().wants_read;
                if self.ended {
                    input.clear();
                }
                if self.held || self.ended {
                    return true;
                }
            }
            match self.layer.open(input, above.room()) {
                Ok(Opened::Some) => {}
                Ok(Opened::Blocked) => return true,
                Ok(Opened::Established) => {
                    self.state = LayerState::Open;
                    if let Some(protocol) = self.layer.alpn() {
                        entry.connection.handle_alpn(protocol);
                    }
                    let info = self.layer.info();
                    entry.notify(delivery, ConnectionEvent::Established { info });
                }
                Ok(Opened::Ended) => self.ended = true,
                Ok(Opened::Truncated(error)) => match entry.connection.io_state().phase {
                    Phase::Idle | Phase::Linger => self.ended = true,
                    Phase::Handshake
                    | Phase::Head
                    | Phase::Body
                    | Phase::Response
                    | Phase::Application
                    | Phase::Send
                    | Phase::Tunnel => self.fail(error),
                },
                Ok(Opened::Replaced(next)) => {
                    if let Some(info) = self.layer.info() {
                        entry.notify(delivery, ConnectionEvent::Replaced { info });
                    }
                    let Some(next) = next else {
                        entry.notify(delivery, ConnectionEvent::Established { info: None });
                        entry.feed(input, delivery);
                        return false;
                    };
                    self.layer = next;
                }
                Err(error) => self.fail(error),
            }
        }
    }

    /// Passes the bytes of the connection to the layer. Returns a part of a file that has to be
    /// loaded first.
    pub(crate) fn seal<C: Connection, T>(
        &mut self,
        entry: &mut Entry<C, T>,
        delivery: &mut Delivery<'_, impl Handler<C, T>>,
    ) -> Option<FileRange> {
        if !matches!(self.state, LayerState::Open) || self.load.is_some() {
            return None;
        }
        let mut again = true;
        while std::mem::take(&mut again) {
            while let Some(transmit) = entry.connection.poll_transmit() {
                match self.layer.seal(transmit) {
                    Ok(Sealed::Bytes(0)) => break,
                    Ok(Sealed::Bytes(n)) => {
                        let phase = entry.connection.io_state().phase;
                        self.sends_messages |= phase == Phase::Send;
                        entry.connection.handle_layer_queue(self.queued());
                        entry.connection.handle_sent(n);
                        again = true;
                    }
                    Ok(Sealed::Load(range)) => {
                        self.load = Some(range.clone());
                        return Some(range);
                    }
                    Err(error) => {
                        self.fail(error);
                        return None;
                    }
                }
            }
            if again {
                entry.ask(delivery);
            }
        }
        if entry.connection.io_state().finished && entry.connection.poll_transmit().is_none() {
            let quiet = self.layer.poll_transmit().is_none();
            self.layer.finish();
            self.state = LayerState::Finished { quiet };
        }
        None
    }

    /// The bytes of a file that the layer requested, or the first of them: sealed with the frame
    /// headers between them.
    pub(crate) fn handle_loaded(&mut self, connection: &mut impl Connection, bytes: &[u8]) {
        let range = self.load.take().expect("one load is requested at a time");
        let len = range.len.min(bytes.len() as u64);
        let mut loaded = FileRange { len: 0, ..range };
        while matches!(self.state, LayerState::Open) && loaded.len < len {
            // A response that was cut off meanwhile has no part here.
            let Some(piece) = next_piece(connection.poll_transmit(), &loaded) else { return };
            self.sends_messages = true;
            let (result, n) = match piece {
                SealedPiece::Bytes(bytes) => (self.layer.seal_loaded(bytes), bytes.len() as u64),
                SealedPiece::OfFile(part) => {
                    let part = &bytes[to_usize(loaded.len)..to_usize(len.min(loaded.len + part))];
                    loaded.len += part.len() as u64;
                    (self.layer.seal_loaded(part), part.len() as u64)
                }
            };
            match result {
                Ok(()) => {
                    connection.handle_layer_queue(self.queued());
                    connection.handle_sent(n);
                }
                Err(error) => self.fail(error),
            }
        }
    }

    /// Bytes that the layer holds for the socket.
    fn queued(&mut self) -> u64 {
        self.layer.poll_transmit().map_or(0, |transmit| transmit.len())
    }

    /// The maximum of received bytes that may wait for the layer, if `above` may wait for the
    /// connection. A whole record has to fit behind them.
    pub(crate) fn unread_max(&self, above: usize) -> usize {
        match self.state {
            LayerState::Opening => HANDSHAKE_SIZE_MAX,
            _ => above.saturating_add(RECORD_ROOM),
        }
    }

    /// The socket has sent bytes of the layer.
    pub(crate) fn handle_sent(&mut self, connection: &mut impl Connection, bytes: u64) {
        self.layer.handle_sent(bytes);
        let queued = self.queued();
        connection.handle_layer_queue(queued);
        self.sends_messages &= queued > 0;
        if let LayerState::Failed { reported, .. } = &mut self.state {
            *reported = true;
        }
    }

    /// True, once, if bytes are held and the connection reads again.
    pub(crate) fn resumes(&mut self, wants_read: bool) -> bool {
        wants_read && std::mem::take(&mut self.held)
    }

    /// The state of layer and connection together; `above` is that of the connection alone.
    pub(crate) fn io_state(&mut self, above: IoState) -> IoState {
        let sends = self.layer.poll_transmit().is_some();
        let finished = self.is_finished();
        let closed = match &self.state {
            // Closed without the layer's end: the peer must not take this for a regular end.
            LayerState::Opening | LayerState::Open => above.closed,
            LayerState::Finished { .. } => above.closed && !sends,
            LayerState::Failed { reported, .. } => *reported || !sends,
        };
        let phase = match (&self.state, above.phase) {
            (LayerState::Opening, _) => Phase::Handshake,
            (LayerState::Failed { .. }, _) => Phase::Send,
            (LayerState::Finished { .. }, Phase::Linger) if sends => Phase::Send,
            (_, Phase::Idle | Phase::Application | Phase::Linger)
                if sends && self.sends_messages =>
            {
                Phase::Send
            }
            (_, phase) => phase,
        };
        IoState { phase, wants_write: sends, finished, closed, ..above }
    }

    /// True until the layer is established.
    pub(crate) fn is_opening(&self) -> bool {
        matches!(self.state, LayerState::Opening)
    }

    /// True once the layer has ended its side.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.state, LayerState::Finished { .. })
    }

    /// The reason of the end, if the connection ended with `end`.
    pub(crate) fn end(self, end: End) -> End {
        match (self.state, end) {
            (LayerState::Failed { error, .. }, _) => End::Layer(error),
            // Only the end of the layer was lost.
            (LayerState::Finished { quiet: true }, End::Failed(_)) => End::Closed,
            (_, end) => end,
        }
    }

    fn fail(&mut self, error: LayerError) {
        self.state = LayerState::Failed { error, reported: false };
    }
}

/// The memory for opened bytes.
enum Above<'a> {
    /// Shared by all connections; a connection may keep a part of it.
    Spare(&'a mut Block),
    /// The unread bytes of this connection, and more behind them.
    Own(&'a mut BytesMut),
}

impl Above<'_> {
    /// Memory for another record.
    fn room(&mut self) -> &mut BytesMut {
        match self {
            Self::Spare(block) => block.reserve(RECORD_SIZE),
            Self::Own(memory) => memory,
        }
    }

    fn input(&mut self, eof: bool) -> Input<'_> {
        match self {
            Self::Spare(block) => {
                let len = block.memory().len();
                block.input(len, eof)
            }
            Self::Own(memory) => Input::all(memory, eof).sharing_from(usize::MAX),
        }
    }
}

/// What a transmit begins with.
enum SealedPiece<'a> {
    Bytes(&'a [u8]),
    /// So many bytes of the file that was loaded.
    OfFile(u64),
}

/// The next piece, if it is a part of the file behind `loaded`, or the bytes in front of one.
fn next_piece<'a>(transmit: Option<Transmit<'a>>, loaded: &FileRange) -> Option<SealedPiece<'a>> {
    let Transmit { inline, segments, is_framed, .. } = transmit?;
    match segments {
        [Segment::File(part), ..] if inline.is_empty() => {
            part.continues(loaded).then_some(SealedPiece::OfFile(part.len))
        }
        [Segment::Bytes(bytes), ..] if inline.is_empty() && is_framed => {
            Some(SealedPiece::Bytes(bytes))
        }
        _ => (is_framed && !inline.is_empty()).then_some(SealedPiece::Bytes(inline)),
    }
}

/// A length within a buffer.
fn to_usize(len: u64) -> usize {
    usize::try_from(len).expect("a part of a buffer")
}

/// A few records of TLS behind the longest head that is not complete.
pub(crate) const OPENED_SIZE: usize = 64 * 1024;
/// What a record of TLS may hold (RFC 8446 §5.1).
const RECORD_SIZE: usize = 16 * 1024;
/// Room for the longest record (RFC 5246 §6.2.3: 18,437 bytes) behind the head in hand.
const RECORD_ROOM: usize = 8 * 1024;
/// A flight of a handshake: a client's certificates may be long, and are read when all have
/// arrived.
const HANDSHAKE_SIZE_MAX: usize = 72 * 1024;
