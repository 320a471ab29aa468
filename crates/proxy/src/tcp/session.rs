//! A session: a client, the server that it was brought to, and what became of both.

use std::net::SocketAddr;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use fulmar_balance::Ticket;
use fulmar_engine::SocketId;
use fulmar_haproxy::{BackendId, ServerId};

use super::ending::Ending;
use crate::shared::BindId;

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) bind: BindId,
    pub(super) stage: Stage,
    /// `None` before it is inserted, and when it is gone.
    pub(super) client: Option<SocketId>,
    /// `None` before there is one, and when it is gone.
    pub(super) server: Option<SocketId>,
    /// Where the client connects from, as far as it is believed.
    pub(super) source: Option<SocketAddr>,
    /// What it connected to.
    pub(super) destination: Option<SocketAddr>,
    pub(super) backend: Option<BackendId>,
    /// The server that was chosen; it has a place at it if `seated`.
    pub(super) target: Option<ServerId>,
    pub(super) seated: bool,
    /// While it waits for a place.
    pub(super) ticket: Option<Ticket>,
    /// Attempts after the first.
    pub(super) retries: u32,
    /// Another server was tried than the first.
    pub(super) redispatched: bool,
    /// What the client said before there was a server.
    pub(super) pending: Pending,
    /// Bytes from the client.
    pub(super) received: u64,
    /// Bytes from the server.
    pub(super) answered: u64,
    pub(super) accepted: Instant,
    /// Milliseconds after `accepted`.
    pub(super) times: Times,
    /// How it ends, once that is known.
    pub(super) ending: Option<Ending>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// What lies below the client's connection is being opened.
    Opening,
    /// Rules look at the first bytes: the frontend's, then the backend's.
    Inspecting(Rules),
    /// All servers are full.
    Queued,
    /// An attempt has failed, and the next one has to wait.
    Pausing,
    /// A server has been asked.
    Connecting,
    /// Bytes pass.
    Relaying,
    /// Nothing passes any more.
    Over,
}

/// Whose rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    Frontend,
    Backend,
}

/// When things happened; `None`: never.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    /// A server was to be chosen.
    pub(super) routed: Option<u32>,
    /// It left the queue, or never was in it.
    pub(super) dequeued: Option<u32>,
    /// The server's connection stood.
    pub(super) connected: Option<u32>,
    /// Until when rules may wait for more bytes.
    pub(super) inspected_until: Option<u32>,
}

/// What a client has said while nobody listened.
#[derive(Debug, Default)]
pub(super) struct Pending {
    bytes: Bytes,
    /// And then it said that this was all.
    pub(super) ended: bool,
}

impl Pending {
    pub(super) fn push(&mut self, bytes: Bytes) {
        if self.bytes.is_empty() {
            // Little is copied, so that it does not keep the memory that it came in.
            let small = bytes.len() <= COPY_SIZE_MAX;
            self.bytes = if small { Bytes::copy_from_slice(&bytes) } else { bytes };
            return;
        }
        let own = self.take().try_into_mut();
        let mut own = own.unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        own.extend_from_slice(&bytes);
        self.bytes = own.freeze();
    }

    /// True if this is as much as waits for a server, and as much as rules see.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= PENDING_MAX
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn take(&mut self) -> Bytes {
        std::mem::take(&mut self.bytes)
    }
}

impl Session {
    pub(super) fn new(now: Instant, bind: BindId, source: Option<SocketAddr>) -> Self {
        Self {
            bind,
            stage: Stage::Opening,
            client: None,
            server: None,
            source,
            destination: None,
            backend: None,
            target: None,
            seated: false,
            ticket: None,
            retries: 0,
            redispatched: false,
            pending: Pending::default(),
            received: 0,
            answered: 0,
            accepted: now,
            times: Times::default(),
            ending: None,
        }
    }

    /// Milliseconds from its beginning to `now`.
    pub(super) fn age(&self, now: Instant) -> u32 {
        let millis = now.saturating_duration_since(self.accepted).as_millis();
        u32::try_from(millis).unwrap_or(u32::MAX)
    }

    /// Notes why it ends; what was noted first counts.
    pub(super) fn end(&mut self, ending: Ending) {
        self.ending.get_or_insert(ending);
    }
}

/// Sessions by number.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    entries: Vec<Option<Box<Session>>>,
    free: Vec<u32>,
}

impl Sessions {
    pub(super) fn insert(&mut self, session: Session) -> u32 {
        let session = Some(Box::new(session));
        if let Some(at) = self.free.pop() {
            self.entries[at as usize] = session;
            return at;
        }
        self.entries.push(session);
        u32::try_from(self.entries.len() - 1).expect("fewer sessions than descriptors")
    }

    pub(super) fn get(&self, at: u32) -> Option<&Session> {
        self.entries.get(at as usize)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut Session> {
        self.entries.get_mut(at as usize)?.as_deref_mut()
    }

    pub(super) fn remove(&mut self, at: u32) -> Option<Box<Session>> {
        let session = self.entries.get_mut(at as usize)?.take()?;
        self.free.push(at);
        if self.free.len() == self.entries.len() && self.entries.len() > KEPT_LEN {
            (self.entries, self.free) = (Vec::new(), Vec::new()); // a crowd has left
        }
        Some(session)
    }
}

/// As much as HAProxy's buffers hold (`tune.bufsize`).
const PENDING_MAX: usize = 16 * 1024;
/// Copying this much costs less than keeping the memory that it came in.
const COPY_SIZE_MAX: usize = 4096;
/// So many places are not worth giving back.
const KEPT_LEN: usize = 256;
