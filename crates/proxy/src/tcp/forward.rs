//! The path of the bytes: received on one side, sent on the other.
//!
//! This module decides nothing. Everything except forwarding is queued as [`SessionWork`], and
//! done when neither side is borrowed.

use std::any::Any;
use std::collections::VecDeque;
use std::time::Instant;

use bytes::Bytes;
use fulmar_engine::{ConnectionEvent, Connections, End, Handler, SocketId};
use fulmar_proto::{Connection, Event, Piped, Raw, RawConnection, Segment};
use fulmar_semantics::proxy_protocol;

use super::session::{ProxyHeaderState, TcpSession, TcpSessions, TcpStage};
use crate::pipe_use::PIECE_SIZE_MIN;
use crate::tls_info::TlsInfo;

/// Connections of clients, or of servers.
pub(super) type SideConnections = Connections<RawConnection, RelayConn>;

/// The state of a connection.
#[derive(Debug)]
pub(super) struct RelayConn {
    pub(super) session: u32,
    /// Bytes received here that the other side had no room for: not released yet.
    unreleased: u32,
}

impl RelayConn {
    pub(super) fn new(session: u32) -> Self {
        Self { session, unreleased: 0 }
    }

    fn keep_unreleased(&mut self, size: usize) {
        self.unreleased = self.unreleased.saturating_add(u32::try_from(size).unwrap_or(u32::MAX));
    }
}

/// Which side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SideKind {
    Client,
    Server,
}

/// A pending decision for the session with this number.
#[derive(Debug)]
pub(super) enum SessionWork {
    /// The client's connection was established.
    Opened(u32),
    /// The client has sent bytes or its end, and rules wait for it.
    Received(u32),
    /// The server's connection was established.
    Connected(u32),
    /// The server has sent bytes or its end, and rules wait for it.
    Inspect(u32),
    /// Much data comes from this side: it may pass through pipes.
    Streams(u32, SideKind),
    /// This side has ended, or is not read any more.
    Ended(u32, SideKind),
    /// This side has room again.
    Room(u32, SideKind),
    /// The client has ended its side while its session waits for a server.
    Aborted(u32),
    /// The client's timer has expired.
    Timer(u32),
    /// Slots of this backend may be free.
    Free(usize),
    /// This side continues sending, but the other one is closed.
    NoReceiver(u32, SideKind),
    /// A connection was closed.
    Closed(u32, SideKind, End),
}

impl SessionWork {
    /// The session that it is about.
    pub(super) fn session(&self) -> Option<u32> {
        match self {
            Self::Free(_) => None,
            Self::Opened(session)
            | Self::Received(session)
            | Self::Connected(session)
            | Self::Inspect(session)
            | Self::Streams(session, _)
            | Self::Ended(session, _)
            | Self::Room(session, _)
            | Self::Aborted(session)
            | Self::Timer(session)
            | Self::NoReceiver(session, _)
            | Self::Closed(session, ..) => Some(*session),
        }
    }
}

/// Sessions and pending decisions.
#[derive(Debug, Default)]
pub(super) struct RelayState {
    pub(super) sessions: TcpSessions,
    pub(super) work: VecDeque<SessionWork>,
}

/// The handler of one side, with access to the other. It ignores events of connections without a
/// session: they are dropped silently, or the session is over.
#[derive(Debug)]
pub(super) struct SideHandler<'a> {
    pub(super) from: SideKind,
    pub(super) to: &'a mut SideConnections,
    pub(super) state: &'a mut RelayState,
}

impl SideHandler<'_> {
    /// The connection on the other side, if it exists.
    pub(super) fn other(&self, session: u32) -> Option<SocketId> {
        let session = self.state.sessions.get(session)?;
        match self.from {
            SideKind::Client => session.server,
            SideKind::Server => session.client,
        }
    }

    fn handle_data(
        &mut self,
        now: Instant,
        (from, conn): (&mut RawConnection, &mut RelayConn),
        bytes: Bytes,
    ) {
        let Some(session) = self.state.sessions.get_mut(conn.session) else { return };
        let size = bytes.len();
        if self.from == SideKind::Server
            && let Some(answer) = &mut session.answer
        {
            session.sent += size as u64;
            answer.pending.push(bytes);
            match answer.pending.is_full() {
                true => conn.keep_unreleased(size),
                false => from.release(RawConnection::STREAM, size),
            }
            return self.state.work.push_back(SessionWork::Inspect(conn.session));
        }
        let Some(other) = self.from.count_received(session, size as u64) else {
            if session.stage == TcpStage::Relaying {
                self.state.work.push_back(SessionWork::NoReceiver(conn.session, self.from));
            } else if self.from == SideKind::Client {
                // Kept until the connection is established: another attempt may need it.
                let connecting = session.server.filter(|_| session.stage == TcpStage::Connecting);
                if let Some((to, _)) = connecting.and_then(|server| self.to.get_mut(server)) {
                    let _ = to.send_data(RawConnection::STREAM, Segment::Bytes(bytes.clone()));
                }
                session.pending.push(bytes);
                match session.pending.is_full() {
                    true => conn.keep_unreleased(size),
                    false => from.release(RawConnection::STREAM, size),
                }
                if matches!(session.stage, TcpStage::Inspecting(_)) {
                    self.state.work.push_back(SessionWork::Received(conn.session));
                }
            }
            return;
        };
        if size >= PIECE_SIZE_MIN && self.to.takes_pipes(other) {
            self.state.work.push_back(SessionWork::Streams(conn.session, self.from));
        }
        self.send(now, (from, conn), other, bytes.into());
    }

    /// The same for bytes in a pipe; they are dropped if the other side is closed.
    fn handle_passed(
        &mut self,
        now: Instant,
        (from, conn): (&mut RawConnection, &mut RelayConn),
        piped: Piped,
    ) {
        let Some(session) = self.state.sessions.get_mut(conn.session) else { return };
        match self.from.count_received(session, piped.len) {
            Some(other) => self.send(now, (from, conn), other, piped.into()),
            None => self.state.work.push_back(SessionWork::NoReceiver(conn.session, self.from)),
        }
    }

    /// Sends the received bytes on the other side.
    fn send(
        &mut self,
        now: Instant,
        (from, conn): (&mut RawConnection, &mut RelayConn),
        other: SocketId,
        piece: Segment,
    ) {
        let Some((to, _)) = self.to.get_mut(other) else { return };
        let size = usize::try_from(piece.len()).expect("it was received");
        // Refused only after the end of that side: then the bytes are dropped.
        let _ = to.send_data(RawConnection::STREAM, piece);
        match to.room(RawConnection::STREAM) {
            0 => conn.keep_unreleased(size),
            _ => from.release(RawConnection::STREAM, size),
        }
        self.to.touch(
            now,
            other,
            &mut DeferringHandler { way: self.from.other(), state: self.state },
        );
    }

    fn handle_end(&mut self, now: Instant, conn: &RelayConn) {
        let Some(session) = self.state.sessions.get_mut(conn.session) else { return };
        if let (SideKind::Server, Some(answer)) = (self.from, &mut session.answer) {
            answer.pending.ended = true;
            return self.state.work.push_back(SessionWork::Inspect(conn.session));
        }
        self.state.work.push_back(match (self.from, session.stage) {
            (SideKind::Client, TcpStage::Relaying) | (SideKind::Server, _) => {
                SessionWork::Ended(conn.session, self.from)
            }
            (SideKind::Client, _) => {
                session.pending.ended = true;
                return self.state.work.push_back(SessionWork::Received(conn.session));
            }
        });
        self.forward_end(now, conn.session);
    }

    /// This side has room: the other one resumes reading.
    fn handle_room(&mut self, now: Instant, session: u32) {
        let Some(other) = self.other(session) else { return };
        release(
            now,
            self.to,
            other,
            &mut DeferringHandler { way: self.from.other(), state: self.state },
        );
    }
}

/// Releases the bytes owed by a connection, so that it receives more.
pub(super) fn release(
    now: Instant,
    side: &mut SideConnections,
    socket: SocketId,
    on: &mut impl Handler<RawConnection, RelayConn>,
) {
    if let Some((connection, conn)) = side.get_mut(socket) {
        connection.release(RawConnection::STREAM, std::mem::take(&mut conn.unreleased) as usize);
        side.touch(now, socket, on);
    }
}

impl Handler<RawConnection, RelayConn> for SideHandler<'_> {
    #[inline(always)]
    fn handle(
        &mut self,
        now: Instant,
        socket: SocketId,
        entry: (&mut RawConnection, &mut RelayConn),
        event: ConnectionEvent<'_, Raw>,
    ) {
        match event {
            ConnectionEvent::Established { info } => {
                self.handle_established(socket, entry.1, info);
            }
            ConnectionEvent::Replaced { info } => self.handle_replaced(entry.1, info),
            ConnectionEvent::Event(event) => self.handle_event(now, entry, event),
            ConnectionEvent::Piped(piped) => self.handle_passed(now, entry, piped),
            ConnectionEvent::Timer => {
                self.state.work.push_back(SessionWork::Timer(entry.1.session))
            }
            ConnectionEvent::DeadlinePassed { extend } => {
                *extend = self.survives_timeout(now, entry)
            }
            // Bytes without messages have no fault.
            ConnectionEvent::Received
            | ConnectionEvent::InputUsed
            | ConnectionEvent::Sent
            | ConnectionEvent::Ending
            | ConnectionEvent::Fault { .. } => {}
        }
    }

    fn handle_closed(&mut self, _: Instant, _: SocketId, conn: RelayConn, end: End) {
        self.state.work.push_back(SessionWork::Closed(conn.session, self.from, end));
    }
}

impl SideHandler<'_> {
    /// The client's bytes wait for the server.
    fn handle_established(&mut self, socket: SocketId, conn: &RelayConn, info: Option<&dyn Any>) {
        let Some(session) = self.state.sessions.get_mut(conn.session) else { return };
        self.state.work.push_back(match self.from {
            SideKind::Client => {
                session.client = Some(socket);
                if let Some(tls) = info.and_then(TlsInfo::of) {
                    session.rare.get_or_insert_default().tls = Some(tls);
                }
                SessionWork::Opened(conn.session)
            }
            SideKind::Server => SessionWork::Connected(conn.session),
        });
    }

    /// A PROXY header contains the client's address.
    fn handle_replaced(&mut self, conn: &RelayConn, info: &dyn Any) {
        let Some(session) = self.state.sessions.get_mut(conn.session) else { return };
        if self.from == SideKind::Client
            && let Some(header) = info.downcast_ref::<proxy_protocol::ProxyProtocolHeader>()
        {
            session.proxy_header = ProxyHeaderState::Received;
            if header.addresses.is_some() {
                session.set_source(header.source());
                session.set_destination(header.destination());
            }
        }
    }

    fn handle_event(
        &mut self,
        now: Instant,
        entry: (&mut RawConnection, &mut RelayConn),
        event: Event<'_, Raw>,
    ) {
        match event {
            Event::Data { bytes, .. } => self.handle_data(now, entry, bytes),
            Event::End { .. } => self.handle_end(now, entry.1),
            Event::Writable { .. } => self.handle_room(now, entry.1.session),
            Event::Head { .. }
            | Event::Informational { .. }
            | Event::Upgraded { .. }
            | Event::Reset { .. } => {} // a raw connection has none of these
        }
    }
}

impl SideKind {
    /// Counts received bytes, and returns the connection that they go to, if it is ready.
    fn count_received(self, session: &mut TcpSession, bytes: u64) -> Option<SocketId> {
        match self {
            Self::Client => {
                session.received += bytes;
                session.server.filter(|_| session.stage == TcpStage::Relaying)
            }
            Self::Server => {
                session.sent += bytes;
                session.client
            }
        }
    }

    pub(super) fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// The handler of one side while the other one is borrowed: it only queues work.
#[derive(Debug)]
pub(super) struct DeferringHandler<'a> {
    pub(super) way: SideKind,
    pub(super) state: &'a mut RelayState,
}

impl Handler<RawConnection, RelayConn> for DeferringHandler<'_> {
    #[inline(always)]
    fn handle(
        &mut self,
        _: Instant,
        _: SocketId,
        (_, conn): (&mut RawConnection, &mut RelayConn),
        event: ConnectionEvent<'_, Raw>,
    ) {
        if let ConnectionEvent::Event(Event::Writable { .. }) = event {
            self.state.work.push_back(SessionWork::Room(conn.session, self.way));
        }
    }

    fn handle_closed(&mut self, _: Instant, _: SocketId, conn: RelayConn, end: End) {
        self.state.work.push_back(SessionWork::Closed(conn.session, self.way, end));
    }
}
