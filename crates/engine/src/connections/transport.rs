//! A layer between a socket and its connection, kept in step with both.
//!
//! A record is opened only while the connection wants to read, so back-pressure reaches the
//! socket; what was opened and is not taken yet is kept here. Nothing of it arrives by itself: no
//! descriptor tells of bytes that have left it, so it is noted what was held back.

use std::sync::Arc;

use bytes::BytesMut;
use fulmar_proto::{
    Block, Connection, FileRange, Input, IoState, Layer, LayerError, Opened, Phase, Sealed,
    Segment, Transmit,
};

use super::{ConnectionEvent, Delivery, End, Entry, Handler};

/// A layer on a socket.
#[derive(Debug)]
pub(crate) struct Transport {
    pub(crate) layer: Box<dyn Layer>,
    unread: BytesMut, // opened, and not taken by the connection; empty when idle
    pub(crate) load: Option<FileRange>, // asked for, and in nobody's memory so far
    stage: Stage,
    ended: bool, // the peer has said everything
    held: bool,  // there may be more to open, which the connection did not want
}

/// How far the layer is.
#[derive(Debug)]
enum Stage {
    Opening,
    Open,
    /// The connection has said everything, and the layer has said so. `quiet`: all the rest had
    /// left before.
    Finished {
        quiet: bool,
    },
    /// Its last words are queued. `told`: they were sent, as far as the socket took them.
    Failed {
        error: LayerError,
        told: bool,
    },
}

impl Transport {
    pub(crate) fn new(layer: Box<dyn Layer>) -> Self {
        let unread = BytesMut::new();
        Self { layer, unread, load: None, stage: Stage::Opening, ended: false, held: false }
    }

    /// Opens what arrived, a record at a time, and passes it on. `None`: the layer has done its
    /// work, and the connection stands on the socket itself.
    ///
    /// What is opened goes through `spare`, which belongs to all connections.
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
            // It was a copy already, so that a head arriving byte by byte is copied once.
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
            if matches!(self.stage, Stage::Failed { .. }) {
                input.clear();
                return true;
            }
            if !matches!(self.stage, Stage::Opening) {
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
                    self.stage = Stage::Open;
                    let info = self.layer.info();
                    entry.notify(delivery, ConnectionEvent::Established { info });
                }
                Ok(Opened::Ended) => self.ended = true,
                Ok(Opened::Truncated(error)) => match entry.connection.io_state().phase {
                    Phase::Idle | Phase::Linger => self.ended = true,
                    _ => self.fail(error),
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

    /// Has the layer take what the connection wants to send; some if a part of a file has to be
    /// loaded first.
    pub(crate) fn seal<C: Connection, T>(
        &mut self,
        entry: &mut Entry<C, T>,
        delivery: &mut Delivery<'_, impl Handler<C, T>>,
    ) -> Option<FileRange> {
        if !matches!(self.stage, Stage::Open) || self.load.is_some() {
            return None;
        }
        let mut again = true;
        while std::mem::take(&mut again) {
            while let Some(transmit) = entry.connection.poll_transmit() {
                match self.layer.seal(transmit) {
                    Ok(Sealed::Bytes(0)) => break,
                    Ok(Sealed::Bytes(n)) => {
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
            self.stage = Stage::Finished { quiet };
        }
        None
    }

    /// The bytes of a file that the layer asked for.
    pub(crate) fn handle_loaded(&mut self, connection: &mut impl Connection, bytes: &[u8]) {
        let Some(range) = self.load.take() else { return };
        if !matches!(self.stage, Stage::Open) || !is_next(connection.poll_transmit(), &range) {
            return; // it was given up meanwhile
        }
        let len = range.len.min(bytes.len() as u64);
        match self.layer.seal_loaded(&bytes[..usize::try_from(len).unwrap_or(bytes.len())]) {
            Ok(()) => {
                connection.handle_layer_queue(self.queued());
                connection.handle_sent(len);
            }
            Err(error) => self.fail(error),
        }
    }

    /// Bytes that the layer holds for the socket.
    fn queued(&mut self) -> u64 {
        self.layer.poll_transmit().map_or(0, |transmit| transmit.len())
    }

    /// The most received bytes that may wait for the layer, if `above` may wait for the connection:
    /// a whole record has to fit behind them.
    pub(crate) fn unread_max(&self, above: usize) -> usize {
        match self.stage {
            Stage::Opening => HANDSHAKE_SIZE_MAX,
            _ => above.saturating_add(RECORD_ROOM),
        }
    }

    /// The socket has sent bytes of the layer.
    pub(crate) fn handle_sent(&mut self, connection: &mut impl Connection, bytes: u64) {
        self.layer.handle_sent(bytes);
        connection.handle_layer_queue(self.queued());
        if let Stage::Failed { told, .. } = &mut self.stage {
            *told = true;
        }
    }

    /// True, once, if something was held back that the connection wants now.
    pub(crate) fn resumes(&mut self, wants_read: bool) -> bool {
        wants_read && std::mem::take(&mut self.held)
    }

    /// What layer and connection want together, if the connection alone wants what `above` says.
    pub(crate) fn io_state(&mut self, above: IoState) -> IoState {
        let sends = self.layer.poll_transmit().is_some();
        let finished = self.is_finished();
        let closed = match &self.stage {
            // Open and closed: given up midway, which must not look like an end.
            Stage::Opening | Stage::Open => above.closed,
            Stage::Finished { .. } => above.closed && !sends,
            Stage::Failed { told, .. } => *told || !sends,
        };
        let phase = match (&self.stage, above.phase) {
            (Stage::Opening, _) => Phase::Handshake,
            (Stage::Failed { .. }, _) => Phase::Send,
            (_, Phase::Idle | Phase::Application | Phase::Linger) if sends => Phase::Send,
            (_, phase) => phase,
        };
        IoState { phase, wants_write: sends, finished, closed, ..above }
    }

    /// True as long as the layer does not stand.
    pub(crate) fn is_opening(&self) -> bool {
        matches!(self.stage, Stage::Opening)
    }

    /// True once the layer has said that nothing more comes.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.stage, Stage::Finished { .. })
    }

    /// What the end really is, if it came as `end`.
    pub(crate) fn end(self, end: End) -> End {
        match (self.stage, end) {
            (Stage::Failed { error, .. }, _) => End::Layer(error),
            // Only our goodbye was lost.
            (Stage::Finished { quiet: true }, End::Failed(_)) => End::Closed,
            (_, end) => end,
        }
    }

    fn fail(&mut self, error: LayerError) {
        self.stage = Stage::Failed { error, told: false };
    }
}

/// Where a layer puts what it opens.
enum Above<'a> {
    /// Memory of all connections, of which a connection may keep a share.
    Spare(&'a mut Block),
    /// What this one left unread, and more behind it.
    Own(&'a mut BytesMut),
}

impl Above<'_> {
    /// For another record.
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

/// True if `range` is what a transmit begins with.
fn is_next(transmit: Option<Transmit<'_>>, range: &FileRange) -> bool {
    match transmit {
        Some(Transmit { inline: [], segments: [Segment::File(first), ..], .. }) => {
            Arc::ptr_eq(&first.file, &range.file) && first.offset == range.offset
        }
        _ => false,
    }
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
