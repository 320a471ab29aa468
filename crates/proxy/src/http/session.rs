//! What is attached to the connection of a client.

use std::net::SocketAddr;
use std::time::Instant;

use fulmar_engine::SocketId;

use crate::http::exchange::Exchange;
use crate::shared::BindId;

/// What is attached to the connection of a client; an idle one costs as much as this.
#[derive(Debug)]
pub(super) struct Session {
    /// Who the client is: who has connected, or whom a PROXY header names.
    pub(super) peer: SocketAddr,
    pub(super) accepted: Instant,
    /// What the client waits for.
    pub(super) exchange: Option<Box<Exchange>>,
    /// What few clients have.
    pub(super) kept: Option<Box<Kept>>,
    frontend: u32,
    bind: u32,
    /// Requests so far.
    pub(super) requests: u32,
}

/// What few clients have.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The connection to a server that nobody else may use, between two exchanges.
    pub(super) own: Option<SocketId>,
    /// What the client connected to, as a PROXY header tells it.
    pub(super) destination: Option<SocketAddr>,
}

impl Session {
    pub(super) fn new(now: Instant, bind: BindId, peer: SocketAddr) -> Self {
        let narrow = |at: usize| u32::try_from(at).expect("fewer listeners than 2^32");
        Self {
            peer,
            accepted: now,
            exchange: None,
            kept: None,
            frontend: narrow(bind.frontend),
            bind: narrow(bind.bind),
            requests: 0,
        }
    }

    /// The listening address that the client came by.
    pub(super) fn bind(&self) -> BindId {
        BindId { frontend: self.frontend as usize, bind: self.bind as usize }
    }

    /// What few clients have, made if it is not there.
    pub(super) fn keep(&mut self) -> &mut Kept {
        self.kept.get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_client_is_small() {
        assert!(size_of::<Session>() <= 80, "{} bytes", size_of::<Session>());
    }
}
