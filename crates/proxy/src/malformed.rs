//! The last malformed message of each proxy, for `show errors`.
//!
//! A frontend keeps a request, a backend a response. The size is limited, and each message replaces
//! the previous one.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fulmar_proto::h1::{HEAD_SIZE_MAX, fault_position};
use fulmar_proto::{Client, PeerError, Server};

use crate::shared::ThreadContext;

/// A malformed message.
#[derive(Debug)]
pub struct Malformed {
    /// Number of earlier malformed messages, in all proxies.
    pub event: u32,
    /// Time of receipt, since 1970.
    pub at: Duration,
    /// The frontend's index in the configuration.
    pub frontend: usize,
    /// The backend, if one was selected.
    pub backend: Option<usize>,
    /// The server, if one was selected.
    pub server: Option<usize>,
    /// The client's address, if it has one.
    pub source: Option<SocketAddr>,
    /// The message as far as it was received, with the bytes after it in the buffer.
    pub bytes: Box<[u8]>,
    /// The offset of the fault in `bytes`.
    pub position: usize,
    /// The fault.
    pub error: PeerError,
}

/// The last malformed message of a proxy, shared by all threads.
#[derive(Debug, Default)]
pub struct LastMalformed(Mutex<Option<Arc<Malformed>>>);

impl LastMalformed {
    /// The last message, if there was one.
    pub fn get(&self) -> Option<Arc<Malformed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn put(&self, malformed: Malformed) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(malformed));
    }
}

/// Direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageDirection {
    Request,
    Response,
}

/// The origin of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parties {
    pub(crate) source: Option<SocketAddr>,
    pub(crate) frontend: usize,
    pub(crate) backend: Option<usize>,
    pub(crate) server: Option<usize>,
}

/// Keeps a message with this fault. A message that only ended early is not malformed.
pub(crate) fn keep(
    now: Instant,
    shared: &ThreadContext,
    direction: MessageDirection,
    parties: Parties,
    (message, error): (&[u8], PeerError),
) {
    let live = &shared.live;
    let last = match (direction, parties.backend) {
        _ if error == PeerError::UnexpectedEof => return,
        (MessageDirection::Request, _) => &live.frontends[parties.frontend].malformed,
        (MessageDirection::Response, Some(backend)) => &live.backends[backend].malformed,
        (MessageDirection::Response, None) => return,
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
        position: match direction {
            MessageDirection::Request => fault_position::<Server>(kept, error),
            MessageDirection::Response => fault_position::<Client>(kept, error),
        },
        error,
    });
}
