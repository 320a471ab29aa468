//! What is attached to the connection of a server.

use std::net::SocketAddr;
use std::time::Instant;

use fulmar_engine::Exchange as Asked;

/// What is attached to the connection of a server; an idle one costs as much as this.
#[derive(Debug)]
pub(super) struct Seat {
    /// The backend, by its place in the configuration.
    pub(super) backend: u32,
    /// The server, by its place in the backend.
    pub(super) server: u32,
    /// The list of idle connections that it belongs to.
    pub(super) shelf: u32,
    /// Exchanges begun on it.
    pub(super) uses: u32,
    /// When it was asked for.
    pub(super) since: Instant,
    /// Whose exchange it is about.
    pub(super) client: Option<Asked>,
    /// It stands, with every layer.
    pub(super) stands: bool,
    /// Bytes of the exchange in hand have left.
    pub(super) sent: bool,
    /// Bytes have come since the exchange in hand began.
    pub(super) heard: bool,
    /// Who may use it.
    pub(super) users: Users,
    /// How often the server's address had changed before: from then on it is another server.
    pub(super) moved: u32,
    /// How often sessions of the server had been shut down before.
    pub(super) sheds: u32,
    /// Whom a PROXY header has announced: it holds for all that comes on this connection.
    pub(super) announced: Option<Box<Announced>>,
}

/// Where a client comes from, and what it has connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Announced {
    pub(super) source: Option<SocketAddr>,
    pub(super) destination: Option<SocketAddr>,
}

/// Who may use a server's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Users {
    Everybody,
    /// One client alone.
    One,
    /// The same, as what it is about to prove, or has proven, holds for all that comes on this
    /// connection (NTLM, Negotiate).
    Proven,
}

impl Seat {
    /// Of a connection that is asked for.
    pub(super) fn new(now: Instant, (backend, server): (usize, usize), shelf: u32) -> Self {
        let narrow = |at: usize| u32::try_from(at).expect("fewer servers than 2^32");
        Self {
            backend: narrow(backend),
            server: narrow(server),
            shelf,
            uses: 0,
            since: now,
            client: None,
            stands: false,
            sent: false,
            heard: false,
            users: Users::Everybody,
            moved: 0,
            sheds: 0,
            announced: None,
        }
    }

    /// One client alone may use it.
    pub(super) fn is_private(&self) -> bool {
        self.users != Users::Everybody
    }

    /// It has ended more than one exchange.
    pub(super) fn is_proven(&self) -> bool {
        self.uses > 1
    }

    /// Which server it leads to: backend and server.
    pub(super) fn place(&self) -> (usize, usize) {
        (self.backend as usize, self.server as usize)
    }
}
