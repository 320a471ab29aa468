//! Layers between a socket and its connection: TLS, or the opening of a tunnel through a proxy.

use std::any::Any;
use std::error::Error;
use std::fmt;

use bytes::BytesMut;

use crate::input::Input;
use crate::transmit::{FileRange, Transmit};

/// A layer between a socket (below) and its connection (above).
///
/// Like a connection it does no I/O. The owner of the socket passes [`Input`] to it and opened
/// bytes on to the connection. It passes the connection's bytes to the layer to seal, and sends the
/// result of [`Layer::poll_transmit`].
pub trait Layer: fmt::Debug + Send {
    /// Consumes at most one record of the input, and appends its content to `above`. Called again
    /// until it returns [`Opened::Blocked`], and only while the connection reads.
    ///
    /// # Errors
    /// The peer broke the protocol or cannot be trusted. The alert is queued.
    fn open(&mut self, input: &mut Input<'_>, above: &mut BytesMut) -> Result<Opened, LayerError>;

    /// Takes bytes of the connection to send, as many as are useful now: 0 before the layer is
    /// established, or while enough is queued.
    ///
    /// # Errors
    /// Nothing can be sent this way any more.
    fn seal(&mut self, transmit: Transmit<'_>) -> Result<Sealed, LayerError>;

    /// Takes bytes of the file range of [`Sealed::Load`], or those of frame headers between its
    /// parts, in the order of the transmit.
    ///
    /// # Errors
    /// As for `seal`.
    fn seal_loaded(&mut self, bytes: &[u8]) -> Result<(), LayerError>;

    /// The connection has ended its side: queues the end for the peer, once.
    fn finish(&mut self);

    /// The bytes that the socket may send now. Without `handle_sent` in between, another call
    /// returns the same.
    fn poll_transmit(&mut self) -> Option<Transmit<'_>>;

    /// The first `bytes` of the transmit were sent.
    fn handle_sent(&mut self, bytes: u64);

    /// The maximum of bytes queued for the socket. A layer that queues few bytes may ignore it.
    fn set_queue_max(&mut self, _bytes: usize) {}

    /// The protocol that both ends have negotiated (ALPN, RFC 7301); none by default.
    fn alpn(&self) -> Option<&[u8]> {
        None
    }

    /// The description of the layer, in a type of its own; none by default. Called once the layer
    /// is established, and when it is replaced.
    fn info(&self) -> Option<&dyn Any> {
        None
    }
}

/// The result of [`Layer::open`].
#[derive(Debug)]
pub enum Opened {
    /// Bytes were opened, or at least consumed: there may be more.
    Some,
    /// More bytes from the peer are needed.
    Blocked,
    /// The layer is established: the connection may send. Returned once, unless `Replaced` is.
    Established,
    /// The peer has ended its side, in a way that cannot be forged.
    Ended,
    /// The socket has ended without the end of the layer, so the connection may have been cut on
    /// the way. This is the error, unless nothing more was expected.
    Truncated(LayerError),
    /// The layer has done its work, and all its bytes were sent. Later bytes of the socket belong
    /// to the next layer, or to the connection itself.
    Replaced(Option<Box<dyn Layer>>),
}

/// The result of [`Layer::seal`].
#[derive(Clone, Debug)]
pub enum Sealed {
    /// The number of bytes of the transmit that were taken.
    Bytes(u64),
    /// The next bytes are in a file: they have to be read into memory first. Frame headers may be
    /// between parts of the range ([`Transmit::first_file`]).
    Load(FileRange),
}

/// Why a layer failed: an error type of the layer's crate.
pub type LayerError = Box<dyn Error + Send + Sync>;
