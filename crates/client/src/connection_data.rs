//! The client's data of a connection.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::owners::Owners;
use crate::timestamps::Setup;
use crate::transfer::NegotiatedTls;

/// The client's data of a connection. An idle connection costs as much as this.
#[derive(Debug)]
pub(crate) struct ConnectionData {
    /// The position of its origin.
    pub(crate) origin: u32,
    /// How it was opened; taken by its first exchange.
    pub(crate) opening: Option<Box<Opening>>,
    pub(crate) stage: ConnectionProgress,
    /// It is on the pool's list of connections that are pipelined on.
    pub(crate) shared: bool,
    /// The number of exchanges begun on it.
    pub(crate) uses: u32,
    pub(crate) peer: Option<SocketAddr>,
    /// When it was opened, and when it became idle the last time, in hundredths of a second of
    /// the client.
    pub(crate) opened: u32,
    pub(crate) idle_since: u32,
    /// Bytes of the current exchanges have been sent.
    pub(crate) sent: bool,
    /// Bytes have arrived above all layers since the next response became due.
    pub(crate) response_begun: bool,
    /// Discarded bytes of responses.
    pub(crate) drained: u32,
    pub(crate) owners: Owners,
}

impl ConnectionData {
    pub(crate) fn new(origin: u32, attempt: u32, peer: Option<SocketAddr>, moment: u32) -> Self {
        Self {
            origin,
            opening: Some(Box::new(Opening {
                attempt: Some(attempt),
                setup: Setup::default(),
                certificates: None,
                tls: None,
            })),
            stage: ConnectionProgress::Opening,
            shared: false,
            uses: 0,
            peer,
            opened: moment,
            idle_since: moment,
            sent: false,
            response_begun: false,
            drained: 0,
            owners: Owners::default(),
        }
    }

    /// The attempt that it belongs to, until it is connected.
    pub(crate) fn attempt(&self) -> Option<u32> {
        self.opening.as_ref()?.attempt
    }

    /// The connection begins anew, for another origin.
    pub(crate) fn move_to(&mut self, origin: usize, opening: Opening) {
        self.origin = u32::try_from(origin).expect("an index of the pool");
        self.opening = Some(Box::new(opening));
        self.stage = ConnectionProgress::Opening;
        self.shared = false;
        self.uses = 0;
        self.begin();
    }

    /// Resets the state for an exchange that is the only one.
    pub(crate) fn begin(&mut self) {
        self.sent = false;
        self.response_begun = false;
        self.drained = 0;
    }

    /// The position of its origin in the pool.
    pub(crate) fn origin(&self) -> usize {
        self.origin as usize
    }
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionProgress {
    /// The socket, or a layer above it, is being opened.
    Opening,
    /// Established, with HTTP/1.
    Http1,
    /// Established, with HTTP/2. The limit of streams is unknown until SETTINGS arrive.
    AwaitsSettings,
    /// HTTP/2, with the SETTINGS of the server.
    Http2,
}

impl ConnectionProgress {
    /// True if the connection may turn out to carry more transfers than it can take now.
    pub(crate) fn is_opening(self) -> bool {
        matches!(self, Self::Opening | Self::AwaitsSettings)
    }

    pub(crate) fn is_http2(self) -> bool {
        matches!(self, Self::AwaitsSettings | Self::Http2)
    }
}

/// How a connection is opened.
#[derive(Debug)]
pub(crate) struct Opening {
    /// The attempt that it belongs to, until it is connected.
    pub(crate) attempt: Option<u32>,
    pub(crate) setup: Setup,
    /// The certificates of the peer, if the first exchange is to report them.
    pub(crate) certificates: Option<Arc<[Vec<u8>]>>,
    /// The result of the handshake, if the first exchange is to report it.
    pub(crate) tls: Option<Box<NegotiatedTls>>,
}
