//! A session: a client, the server that it was brought to, and what became of both.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::balance::WaitTicket;
use bytes::{Bytes, BytesMut};
use fulmar_engine::SocketId;
use fulmar_haproxy::{BackendId, ServerId};

use fulmar_haproxy::rules::Sample;
use fulmar_haproxy::rules::subject::Variable;

use super::answer::Answer;
use super::ending::Ending;
use crate::secured::Tls;
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
    pub(super) introduction: Introduction,
    /// Where the client connects from, as far as it is believed.
    pub(super) source: Option<SocketAddr>,
    pub(super) backend: Option<BackendId>,
    /// The server that was chosen; it has a place at it if `seated`.
    pub(super) target: Option<ServerId>,
    pub(super) seated: bool,
    /// A rule named it.
    pub(super) is_bound: bool,
    /// While it waits for a place.
    pub(super) ticket: Option<Box<WaitTicket>>,
    /// Attempts after the first.
    pub(super) retries: u32,
    /// Another server was tried than the first.
    pub(super) redispatched: bool,
    /// What the client said before there was a server.
    pub(super) pending: Pending,
    /// What the server has said, while rules have not let it pass.
    pub(super) answer: Option<Box<Answer>>,
    /// Its place among those who waited, when it began to; from 1.
    pub(super) queue_position: u32,
    /// What only some sessions have.
    pub(super) traits: Option<Box<Traits>>,
    /// What a rule says of its line in the log; `None` in it: there is none.
    pub(super) log_level: Option<Option<u8>>,
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

/// What only some sessions have: those with TLS, and those that rules note something of.
#[derive(Debug, Default)]
pub(super) struct Traits {
    /// Where the connection comes from, if its client is somebody else.
    pub(super) peer: Option<SocketAddr>,
    /// What its connection itself goes to, if the listening address does not tell.
    pub(super) connected_to: Option<SocketAddr>,
    /// What the client connected to, if the listening address does not tell.
    pub(super) destination: Option<SocketAddr>,
    pub(super) tls: Option<Tls>,
    pub(super) variables: Vec<(Variable, Sample<'static>)>,
    /// By slot.
    pub(super) captures: Vec<(usize, Vec<u8>)>,
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

/// The PROXY header in front of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Introduction {
    /// Nobody asks for one.
    None,
    /// It has to come first.
    Awaited,
    /// It has come.
    Heard,
}

/// When things happened; `None`: never.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    /// What lies below the client's connection stood.
    pub(super) opened: Option<u32>,
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
    bytes: Option<Box<Bytes>>, // soon gone: an idle session has none
    /// And then it said that this was all.
    pub(super) ended: bool,
}

impl Pending {
    pub(super) fn push(&mut self, bytes: Bytes) {
        let Some(before) = self.bytes.take() else {
            // Little is copied, so that it does not keep the memory that it came in.
            let small = bytes.len() <= COPY_SIZE_MAX;
            let bytes = if small { Bytes::copy_from_slice(&bytes) } else { bytes };
            self.bytes = Some(Box::new(bytes));
            return;
        };
        let own = before.try_into_mut();
        let mut own = own.unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        own.extend_from_slice(&bytes);
        self.bytes = Some(Box::new(own.freeze()));
    }

    /// True if this is as much as waits for a server, and as much as rules see.
    pub(super) fn is_full(&self) -> bool {
        self.bytes().len() >= PENDING_MAX
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.as_ref().map_or(&[], |bytes| &bytes[..])
    }

    /// A share of it.
    pub(super) fn share(&self) -> Bytes {
        self.bytes.as_ref().map_or_else(Bytes::new, |bytes| Bytes::clone(bytes))
    }

    /// It has reached a server.
    pub(super) fn clear(&mut self) {
        self.bytes = None;
    }
}

impl Session {
    pub(super) fn new(now: Instant, bind: BindId, peer: Option<SocketAddr>) -> Self {
        Self {
            bind,
            stage: Stage::Opening,
            client: None,
            server: None,
            introduction: Introduction::None,
            source: peer,
            backend: None,
            target: None,
            seated: false,
            ticket: None,
            retries: 0,
            is_bound: false,
            redispatched: false,
            pending: Pending::default(),
            answer: None,
            queue_position: 0,
            traits: None,
            log_level: None,
            received: 0,
            answered: 0,
            accepted: now,
            times: Times::default(),
            ending: None,
        }
    }

    /// Where the connection comes from, whatever a PROXY header says of its client.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.traits.as_ref().and_then(|it| it.peer).or(self.source)
    }

    /// Somebody else is the client, as a header or a rule has told.
    pub(super) fn set_source(&mut self, source: Option<SocketAddr>) {
        let peer = self.peer();
        self.traits.get_or_insert_default().peer = peer;
        self.source = source;
    }

    /// Its connection goes to this address.
    pub(super) fn set_local(&mut self, local: SocketAddr) {
        self.traits.get_or_insert_default().connected_to = Some(local);
        self.set_destination(Some(local));
    }

    /// It connected to this address.
    pub(super) fn set_destination(&mut self, destination: Option<SocketAddr>) {
        self.traits.get_or_insert_default().destination = destination;
    }

    /// Milliseconds from its beginning to `now`.
    pub(super) fn age(&self, now: Instant) -> u32 {
        let millis = now.saturating_duration_since(self.accepted).as_millis();
        u32::try_from(millis).unwrap_or(u32::MAX)
    }

    /// These rules are asked from now on, and may wait for so long.
    pub(super) fn inspect_for(&mut self, now: Instant, rules: Rules, delay: Option<Duration>) {
        self.stage = Stage::Inspecting(rules);
        self.times.inspected_until = delay.map(|delay| {
            let millis = u32::try_from(delay.as_millis()).unwrap_or(u32::MAX);
            self.age(now).saturating_add(millis)
        });
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
