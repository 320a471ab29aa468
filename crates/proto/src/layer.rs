//! What may lie between a socket and its connection: TLS, or a tunnel being opened through a proxy.

use std::any::Any;
use std::error::Error;
use std::fmt;

use bytes::BytesMut;

use crate::input::Input;
use crate::transmit::{FileRange, Transmit};

/// Between a socket and its connection: bytes of the socket below, bytes of the connection above.
///
/// Like a connection it does no I/O: who owns the socket feeds it [`Input`], passes what it opens
/// on to the connection, has it seal what the connection wants to send, and sends what
/// [`Layer::poll_transmit`] shows.
pub trait Layer: fmt::Debug + Send {
    /// Consumes what arrived, at most one record of it, and appends to `above` what it holds for
    /// the connection. Asked again until it says [`Opened::Blocked`], and only while the
    /// connection wants to read.
    ///
    /// # Errors
    /// The peer broke the protocol or cannot be trusted. The last words it deserves are queued.
    fn open(&mut self, input: &mut Input<'_>, above: &mut BytesMut) -> Result<Opened, LayerError>;

    /// Takes bytes that the connection wants to send, as many as make sense now: 0 before the
    /// layer stands, or while enough is queued.
    ///
    /// # Errors
    /// Nothing can be sent this way any more.
    fn seal(&mut self, transmit: Transmit<'_>) -> Result<Sealed, LayerError>;

    /// Takes the bytes of the file range that [`Sealed::Load`] asked for: all of them, or the
    /// first.
    ///
    /// # Errors
    /// As for `seal`.
    fn seal_loaded(&mut self, bytes: &[u8]) -> Result<(), LayerError>;

    /// The connection has said everything: queues what says so to the peer, once.
    fn finish(&mut self);

    /// What the socket may send now; asking again without `handle_sent` gives the same answer.
    fn poll_transmit(&mut self) -> Option<Transmit<'_>>;

    /// The first `bytes` of the transmit have left.
    fn handle_sent(&mut self, bytes: u64);

    /// No more than this many bytes are to be queued for the socket before some have left; a
    /// layer may ignore it that queues little anyway.
    fn set_queue_max(&mut self, _bytes: usize) {}

    /// What there is to know about it, for those who know its type; nothing by default. Asked once
    /// it stands, and when it is replaced.
    fn info(&self) -> Option<&dyn Any> {
        None
    }
}

/// What came of the bytes that arrived.
#[derive(Debug)]
pub enum Opened {
    /// Something was opened, or at least consumed: there may be more.
    Some,
    /// Nothing more without more bytes from the peer.
    Blocked,
    /// The layer stands: the connection may talk. Told once, unless `Replaced` is.
    Established,
    /// The peer has said, in a way that cannot be forged, that nothing more will come.
    Ended,
    /// The socket has ended, and the peer has not said that it would: somebody else may have cut
    /// it. This is the error, unless nothing was owed any more.
    Truncated(LayerError),
    /// This layer has done its work, and everything it had to say has left. What follows on the
    /// socket belongs to the next layer, or to the connection itself.
    Replaced(Option<Box<dyn Layer>>),
}

/// What came of the bytes to be sent.
#[derive(Clone, Debug)]
pub enum Sealed {
    /// So many bytes of the transmit were taken.
    Bytes(u64),
    /// The next bytes are in a file: they have to be read into memory first.
    Load(FileRange),
}

/// Why a layer failed: the crate that it comes from says what it may be.
pub type LayerError = Box<dyn Error + Send + Sync>;
