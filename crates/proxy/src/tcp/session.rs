//! A session: a client, its server, and the state of both.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::balance::WaitTicket;
use bytes::{Bytes, BytesMut};
use fulmar_engine::SocketId;
use fulmar_haproxy::{BackendId, ServerId};

use fulmar_haproxy::rules::Sample;
use fulmar_haproxy::rules::eval_context::Variable;

use super::response_rules::InspectedResponse;
use super::termination_state::SessionEnd;
use crate::shared::BindId;
use crate::tls_info::TlsInfo;

/// A session.
#[derive(Debug)]
pub(super) struct TcpSession {
    pub(super) bind: BindId,
    pub(super) stage: TcpStage,
    /// `None` before it is inserted and after it is closed.
    pub(super) client: Option<SocketId>,
    /// `None` before it is opened and after it is closed.
    pub(super) server: Option<SocketId>,
    pub(super) proxy_header: ProxyHeaderState,
    /// The client's address, or that of a trusted PROXY header.
    pub(super) source: Option<SocketAddr>,
    pub(super) backend: Option<BackendId>,
    /// The selected server; it has a slot there if `has_slot`.
    pub(super) target: Option<ServerId>,
    pub(super) has_slot: bool,
    /// A rule selected it.
    pub(super) is_bound: bool,
    /// While it waits for a slot.
    pub(super) ticket: Option<Box<WaitTicket>>,
    /// Attempts after the first.
    pub(super) retries: u32,
    /// Another server was tried after the first one.
    pub(super) redispatched: bool,
    /// Bytes of the client before the server's connection was established.
    pub(super) pending: Pending,
    /// Bytes of the server while rules inspect them.
    pub(super) answer: Option<Box<InspectedResponse>>,
    /// Its position in the queue when it was added; from 1.
    pub(super) queue_position: u32,
    /// Properties of few sessions.
    pub(super) rare: Option<Box<RareSessionState>>,
    /// The log level set by a rule; an inner `None`: no line.
    pub(super) log_level: Option<Option<u8>>,
    /// Bytes from the client.
    pub(super) received: u64,
    /// Bytes from the server.
    pub(super) sent: u64,
    pub(super) accepted: Instant,
    /// Milliseconds after `accepted`.
    pub(super) times: SessionTimes,
    /// The reason of its end, once known.
    pub(super) ending: Option<SessionEnd>,
}

/// Properties of few sessions: those with TLS, and those with state set by rules.
#[derive(Debug, Default)]
pub(super) struct RareSessionState {
    /// The address of the connection's peer, if the client's address was replaced.
    pub(super) peer: Option<SocketAddr>,
    /// The destination of the connection, if the listening address does not determine it.
    pub(super) connected_to: Option<SocketAddr>,
    /// The client's destination, if the listening address does not determine it.
    pub(super) destination: Option<SocketAddr>,
    pub(super) tls: Option<TlsInfo>,
    pub(super) variables: Vec<(Variable, Sample<'static>)>,
    /// By slot.
    pub(super) captures: Vec<(usize, Vec<u8>)>,
}

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TcpStage {
    /// The layer below the client's connection is being established.
    Opening,
    /// Rules inspect the first bytes: the frontend's, then the backend's.
    Inspecting(Rules),
    /// It waits for a slot.
    Queued,
    /// An attempt has failed, and the next one is delayed.
    Pausing,
    /// The connection to the server is being established.
    Connecting,
    /// Bytes pass.
    Relaying,
    /// Both sides are closed.
    Over,
}

/// The owner of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    Frontend,
    Backend,
}

/// The state of the PROXY header in front of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProxyHeaderState {
    /// No header is required.
    None,
    /// A header is required first.
    Awaited,
    /// A header was received.
    Received,
}

/// Times of events; `None`: not yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SessionTimes {
    /// The layer below the client's connection was established.
    pub(super) opened: Option<u32>,
    /// The selection of a server began.
    pub(super) routed: Option<u32>,
    /// It left the queue, or did not enter it.
    pub(super) dequeued: Option<u32>,
    /// The server's connection was established.
    pub(super) connected: Option<u32>,
    /// The deadline of rules that wait for more bytes.
    pub(super) inspected_until: Option<u32>,
}

/// Bytes received before they can be forwarded.
#[derive(Debug, Default)]
pub(super) struct Pending {
    bytes: Option<Box<Bytes>>, // boxed, since most sessions have none
    /// The sender has ended its side.
    pub(super) ended: bool,
}

impl Pending {
    pub(super) fn push(&mut self, bytes: Bytes) {
        let Some(before) = self.bytes.take() else {
            // A short slice is copied, so that it does not keep its block alive.
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

    /// True if this is the maximum that waits for a server, and that rules see.
    pub(super) fn is_full(&self) -> bool {
        self.bytes().len() >= PENDING_MAX
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.as_ref().map_or(&[], |bytes| &bytes[..])
    }

    /// A shared copy of the bytes.
    pub(super) fn share(&self) -> Bytes {
        self.bytes.as_ref().map_or_else(Bytes::new, |bytes| Bytes::clone(bytes))
    }

    /// Drops the bytes after they were sent.
    pub(super) fn clear(&mut self) {
        self.bytes = None;
    }
}

impl TcpSession {
    pub(super) fn new(now: Instant, bind: BindId, peer: Option<SocketAddr>) -> Self {
        Self {
            bind,
            stage: TcpStage::Opening,
            client: None,
            server: None,
            proxy_header: ProxyHeaderState::None,
            source: peer,
            backend: None,
            target: None,
            has_slot: false,
            ticket: None,
            retries: 0,
            is_bound: false,
            redispatched: false,
            pending: Pending::default(),
            answer: None,
            queue_position: 0,
            rare: None,
            log_level: None,
            received: 0,
            sent: 0,
            accepted: now,
            times: SessionTimes::default(),
            ending: None,
        }
    }

    /// The address of the connection's peer, whatever a PROXY header contains.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.rare.as_ref().and_then(|it| it.peer).or(self.source)
    }

    /// Sets the client's address, from a header or a rule.
    pub(super) fn set_source(&mut self, source: Option<SocketAddr>) {
        let peer = self.peer();
        self.rare.get_or_insert_default().peer = peer;
        self.source = source;
    }

    /// Sets the destination of the connection.
    pub(super) fn set_local(&mut self, local: SocketAddr) {
        self.rare.get_or_insert_default().connected_to = Some(local);
        self.set_destination(Some(local));
    }

    /// Sets the client's destination.
    pub(super) fn set_destination(&mut self, destination: Option<SocketAddr>) {
        self.rare.get_or_insert_default().destination = destination;
    }

    /// Milliseconds since it was accepted.
    pub(super) fn age(&self, now: Instant) -> u32 {
        let millis = now.saturating_duration_since(self.accepted).as_millis();
        u32::try_from(millis).unwrap_or(u32::MAX)
    }

    /// Begins an inspection by these rules, which may wait for `delay`.
    pub(super) fn inspect_for(&mut self, now: Instant, rules: Rules, delay: Option<Duration>) {
        self.stage = TcpStage::Inspecting(rules);
        self.times.inspected_until = delay.map(|delay| {
            let millis = u32::try_from(delay.as_millis()).unwrap_or(u32::MAX);
            self.age(now).saturating_add(millis)
        });
    }

    /// The backend and the server of a session with a slot.
    pub(super) fn chosen(&self) -> (BackendId, ServerId) {
        let backend = self.backend.expect("a backend is selected before a server");
        (backend, self.target.expect("a server is selected with its slot"))
    }

    /// Records the reason of its end; the first reason counts.
    pub(super) fn end(&mut self, ending: SessionEnd) {
        self.ending.get_or_insert(ending);
    }
}

/// Sessions by number.
#[derive(Debug, Default)]
pub(super) struct TcpSessions {
    entries: Vec<Option<Box<TcpSession>>>,
    free: Vec<u32>,
}

impl TcpSessions {
    pub(super) fn insert(&mut self, session: TcpSession) -> u32 {
        let session = Some(Box::new(session));
        if let Some(at) = self.free.pop() {
            self.entries[at as usize] = session;
            return at;
        }
        self.entries.push(session);
        u32::try_from(self.entries.len() - 1).expect("fewer sessions than descriptors")
    }

    pub(super) fn get(&self, at: u32) -> Option<&TcpSession> {
        self.entries.get(at as usize)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut TcpSession> {
        self.entries.get_mut(at as usize)?.as_deref_mut()
    }

    /// The session with this number. Its work is done only while it exists.
    pub(super) fn of(&self, at: u32) -> &TcpSession {
        self.get(at).expect("a session exists until both of its connections are closed")
    }

    /// See [`TcpSessions::of`].
    pub(super) fn of_mut(&mut self, at: u32) -> &mut TcpSession {
        self.get_mut(at).expect("a session exists until both of its connections are closed")
    }

    pub(super) fn remove(&mut self, at: u32) -> Option<Box<TcpSession>> {
        let session = self.entries.get_mut(at as usize)?.take()?;
        self.free.push(at);
        if self.free.len() == self.entries.len() && self.entries.len() > KEPT_LEN {
            (self.entries, self.free) = (Vec::new(), Vec::new()); // after a burst
        }
        Some(session)
    }
}

/// The size of HAProxy's buffers (`tune.bufsize`).
const PENDING_MAX: usize = 16 * 1024;
/// Copying fewer bytes costs less than keeping their block alive.
const COPY_SIZE_MAX: usize = 4096;
/// Up to this number of entries, memory is kept.
const KEPT_LEN: usize = 256;
