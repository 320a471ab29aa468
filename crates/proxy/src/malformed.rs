//! The last message of each proxy that was no HTTP: what `show errors` shows.
//!
//! Of a frontend it is a request, of a backend a response. What is kept of it is bounded, and each
//! takes the place of the one before it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fulmar_proto::h1::{HEAD_SIZE_MAX, fault_position};
use fulmar_proto::{Client, PeerError, Server};

use crate::shared::Shared;

/// A message that was no HTTP.
#[derive(Debug)]
pub struct Malformed {
    /// How many there had been before, in all proxies.
    pub event: u32,
    /// When it came, since 1970.
    pub at: Duration,
    /// The frontend, by its place in the configuration.
    pub frontend: usize,
    /// The backend, once there was one.
    pub backend: Option<usize>,
    /// Its server, once one was chosen.
    pub server: Option<usize>,
    /// Where the client comes from, if it has an address.
    pub source: Option<SocketAddr>,
    /// What was there of it, or of what it broke off with, and whatever stood behind that.
    pub bytes: Box<[u8]>,
    /// Where in them the fault lies.
    pub position: usize,
    /// What is wrong.
    pub error: PeerError,
}

/// The last one of a proxy, shared by all threads.
#[derive(Debug, Default)]
pub struct LastMalformed(Mutex<Option<Arc<Malformed>>>);

impl LastMalformed {
    /// The last one, if there was any.
    pub fn get(&self) -> Option<Arc<Malformed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn put(&self, malformed: Malformed) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(malformed));
    }
}

/// Which way a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Request,
    Response,
}

/// Whose message it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parties {
    pub(crate) source: Option<SocketAddr>,
    pub(crate) frontend: usize,
    pub(crate) backend: Option<usize>,
    pub(crate) server: Option<usize>,
}

/// Keeps a message with this fault. One that has only broken off is none.
pub(crate) fn keep(
    now: Instant,
    shared: &Shared,
    way: Way,
    parties: Parties,
    (message, error): (&[u8], PeerError),
) {
    let live = &shared.live;
    let last = match (way, parties.backend) {
        _ if error == PeerError::UnexpectedEof => return,
        (Way::Request, _) => &live.frontends[parties.frontend].malformed,
        (Way::Response, Some(backend)) => &live.backends[backend].malformed,
        (Way::Response, None) => return,
    };
    let kept = &message[..message.len().min(HEAD_SIZE_MAX)];
    let Parties { source, frontend, backend, server } = parties;
    last.put(Malformed {
        event: live.count_malformed(),
        at: shared.since_epoch(now),
        frontend,
        backend,
        server,
        source,
        bytes: kept.into(),
        position: match way {
            Way::Request => fault_position::<Server>(kept, error),
            Way::Response => fault_position::<Client>(kept, error),
        },
        error,
    });
}
