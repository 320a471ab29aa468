//! The path of the bytes: received on one side, sent on the other.
//!
//! This module decides nothing. Everything except forwarding is queued as [`Work`], and done when
//! neither side is borrowed.

use std::any::Any;
use std::collections::VecDeque;
use std::time::Instant;

use bytes::Bytes;
use fulmar_engine::{ConnectionEvent, Connections, End, Handler, SocketId};
use fulmar_proto::{Connection, Event, Piped, Raw, RawConnection, Segment};
use fulmar_semantics::proxy_protocol;

use super::session::{Introduction, Session, Sessions, Stage};
use crate::passing::PIECE_SIZE_MIN;
use crate::secured::Tls;

/// Connections of clients, or of servers.
pub(super) type Side = Connections<RawConnection, Seat>;

/// The state of a connection.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) session: u32,
    /// Bytes received here that the other side had no room for: not released yet.
    owed: u32,
}

impl Seat {
    pub(super) fn new(session: u32) -> Self {
        Self { session, owed: 0 }
    }

    fn owe(&mut self, size: usize) {
        self.owed = self.owed.saturating_add(u32::try_from(size).unwrap_or(u32::MAX));
    }
}

/// Which side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Client,
    Server,
}

/// A pending decision for the session with this number.
#[derive(Debug)]
pub(super) enum Work {
    /// The client's connection was established.
    Opened(u32),
    /// The client has sent bytes or its end, and rules wait for it.
    Heard(u32),
    /// The server's connection was established.
    Reached(u32),
    /// The server has sent bytes or its end, and rules wait for it.
    Answered(u32),
    /// Much data comes from this side: it may pass through pipes.
    Streams(u32, Way),
    /// This side has ended, or is not read any more.
    Ended(u32, Way),
    /// This side has room again.
    Room(u32, Way),
    /// The client has ended its side while its session waits for a server.
    Left(u32),
    /// The client's timer has expired.
    Timer(u32),
    /// Slots of this backend may be free.
    Free(usize),
    /// This side continues sending, but the other one is closed.
    Unheard(u32, Way),
    /// A connection was closed.
    Gone(u32, Way, End),
}

/// Sessions and pending decisions.
#[derive(Debug, Default)]
pub(super) struct Desk {
    pub(super) sessions: Sessions,
    pub(super) work: VecDeque<Work>,
}

/// The handler of one side, with access to the other.
#[derive(Debug)]
pub(super) struct Across<'a> {
    pub(super) from: Way,
    pub(super) to: &'a mut Side,
    pub(super) desk: &'a mut Desk,
}

impl Across<'_> {
    /// The connection on the other side, if it exists.
    pub(super) fn other(&self, session: u32) -> Option<SocketId> {
        let session = self.desk.sessions.get(session)?;
        match self.from {
            Way::Client => session.server,
            Way::Server => session.client,
        }
    }

    fn handle_data(
        &mut self,
        now: Instant,
        (from, seat): (&mut RawConnection, &mut Seat),
        bytes: Bytes,
    ) {
        let Some(session) = self.desk.sessions.get_mut(seat.session) else { return };
        let size = bytes.len();
        if self.from == Way::Server
            && let Some(answer) = &mut session.answer
        {
            session.answered += size as u64;
            answer.pending.push(bytes);
            match answer.pending.is_full() {
                true => seat.owe(size),
                false => from.release(RawConnection::STREAM, size),
            }
            return self.desk.work.push_back(Work::Answered(seat.session));
        }
        let Some(other) = self.from.note(session, size as u64) else {
            if session.stage == Stage::Relaying {
                self.desk.work.push_back(Work::Unheard(seat.session, self.from));
            } else if self.from == Way::Client {
                // Kept until the connection is established: another attempt may need it.
                let asked = session.server.filter(|_| session.stage == Stage::Connecting);
                if let Some((to, _)) = asked.and_then(|server| self.to.get_mut(server)) {
                    let _ = to.send_data(RawConnection::STREAM, Segment::Bytes(bytes.clone()));
                }
                session.pending.push(bytes);
                match session.pending.is_full() {
                    true => seat.owe(size),
                    false => from.release(RawConnection::STREAM, size),
                }
                if matches!(session.stage, Stage::Inspecting(_)) {
                    self.desk.work.push_back(Work::Heard(seat.session));
                }
            }
            return;
        };
        if size >= PIECE_SIZE_MIN && self.to.takes_pipes(other) {
            self.desk.work.push_back(Work::Streams(seat.session, self.from));
        }
        self.say(now, (from, seat), other, bytes.into());
    }

    /// The same for bytes in a pipe; they are dropped if the other side is closed.
    fn handle_passed(
        &mut self,
        now: Instant,
        (from, seat): (&mut RawConnection, &mut Seat),
        piped: Piped,
    ) {
        let Some(session) = self.desk.sessions.get_mut(seat.session) else { return };
        match self.from.note(session, piped.len) {
            Some(other) => self.say(now, (from, seat), other, piped.into()),
            None => self.desk.work.push_back(Work::Unheard(seat.session, self.from)),
        }
    }

    /// Sends the received bytes on the other side.
    fn say(
        &mut self,
        now: Instant,
        (from, seat): (&mut RawConnection, &mut Seat),
        other: SocketId,
        piece: Segment,
    ) {
        let Some((to, _)) = self.to.get_mut(other) else { return };
        let size = usize::try_from(piece.len()).expect("it was received");
        // Refused only after the end of that side: then the bytes are dropped.
        let _ = to.send_data(RawConnection::STREAM, piece);
        match to.room(RawConnection::STREAM) {
            0 => seat.owe(size),
            _ => from.release(RawConnection::STREAM, size),
        }
        self.to.touch(now, other, &mut Aside { way: self.from.other(), desk: self.desk });
    }

    fn handle_end(&mut self, now: Instant, seat: &Seat) {
        let Some(session) = self.desk.sessions.get_mut(seat.session) else { return };
        if let (Way::Server, Some(answer)) = (self.from, &mut session.answer) {
            answer.pending.ended = true;
            return self.desk.work.push_back(Work::Answered(seat.session));
        }
        self.desk.work.push_back(match (self.from, session.stage) {
            (Way::Client, Stage::Relaying) | (Way::Server, _) => {
                Work::Ended(seat.session, self.from)
            }
            (Way::Client, _) => {
                session.pending.ended = true;
                return self.desk.work.push_back(Work::Heard(seat.session));
            }
        });
        self.tell_end(now, seat.session);
    }

    /// This side has room: the other one resumes reading.
    fn handle_room(&mut self, now: Instant, session: u32) {
        let Some(other) = self.other(session) else { return };
        release(now, self.to, other, &mut Aside { way: self.from.other(), desk: self.desk });
    }
}

/// Releases the bytes owed by a connection, so that it receives more.
pub(super) fn release(
    now: Instant,
    side: &mut Side,
    socket: SocketId,
    on: &mut impl Handler<RawConnection, Seat>,
) {
    if let Some((connection, seat)) = side.get_mut(socket) {
        connection.release(RawConnection::STREAM, std::mem::take(&mut seat.owed) as usize);
        side.touch(now, socket, on);
    }
}

impl Handler<RawConnection, Seat> for Across<'_> {
    #[inline(always)]
    fn handle(
        &mut self,
        now: Instant,
        socket: SocketId,
        entry: (&mut RawConnection, &mut Seat),
        event: ConnectionEvent<'_, Raw>,
    ) {
        match event {
            ConnectionEvent::Established { info } => {
                self.handle_established(socket, entry.1, info);
            }
            ConnectionEvent::Replaced { info } => self.handle_replaced(entry.1, info),
            ConnectionEvent::Event(event) => self.handle_event(now, entry, event),
            ConnectionEvent::Piped(piped) => self.handle_passed(now, entry, piped),
            ConnectionEvent::Timer => self.desk.work.push_back(Work::Timer(entry.1.session)),
            ConnectionEvent::DeadlinePassed { extend } => *extend = self.outlasts(now, entry),
            // Bytes without messages have no fault.
            ConnectionEvent::Received
            | ConnectionEvent::InputUsed
            | ConnectionEvent::Fault { .. } => {}
        }
    }

    fn handle_closed(&mut self, _: Instant, _: SocketId, seat: Seat, end: End) {
        self.desk.work.push_back(Work::Gone(seat.session, self.from, end));
    }
}

impl Across<'_> {
    /// The client's bytes wait for the server.
    fn handle_established(&mut self, socket: SocketId, seat: &Seat, info: Option<&dyn Any>) {
        let Some(session) = self.desk.sessions.get_mut(seat.session) else { return };
        self.desk.work.push_back(match self.from {
            Way::Client => {
                session.client = Some(socket);
                if let Some(tls) = info.and_then(Tls::of) {
                    session.traits.get_or_insert_default().tls = Some(tls);
                }
                Work::Opened(seat.session)
            }
            Way::Server => Work::Reached(seat.session),
        });
    }

    /// A PROXY header contains the client's address.
    fn handle_replaced(&mut self, seat: &Seat, info: &dyn Any) {
        let Some(session) = self.desk.sessions.get_mut(seat.session) else { return };
        if self.from == Way::Client
            && let Some(header) = info.downcast_ref::<proxy_protocol::ProxyProtocolHeader>()
        {
            session.introduction = Introduction::Heard;
            if header.addresses.is_some() {
                session.set_source(header.source());
                session.set_destination(header.destination());
            }
        }
    }

    fn handle_event(
        &mut self,
        now: Instant,
        link: (&mut RawConnection, &mut Seat),
        event: Event<'_, Raw>,
    ) {
        match event {
            Event::Data { bytes, .. } => self.handle_data(now, link, bytes),
            Event::End { .. } => self.handle_end(now, link.1),
            Event::Writable { .. } => self.handle_room(now, link.1.session),
            _ => {}
        }
    }
}

impl Way {
    /// Counts received bytes, and returns the connection that they go to, if it is ready.
    fn note(self, session: &mut Session, bytes: u64) -> Option<SocketId> {
        match self {
            Self::Client => {
                session.received += bytes;
                session.server.filter(|_| session.stage == Stage::Relaying)
            }
            Self::Server => {
                session.answered += bytes;
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
pub(super) struct Aside<'a> {
    pub(super) way: Way,
    pub(super) desk: &'a mut Desk,
}

impl Handler<RawConnection, Seat> for Aside<'_> {
    #[inline(always)]
    fn handle(
        &mut self,
        _: Instant,
        _: SocketId,
        (_, seat): (&mut RawConnection, &mut Seat),
        event: ConnectionEvent<'_, Raw>,
    ) {
        if let ConnectionEvent::Event(Event::Writable { .. }) = event {
            self.desk.work.push_back(Work::Room(seat.session, self.way));
        }
    }

    fn handle_closed(&mut self, _: Instant, _: SocketId, seat: Seat, end: End) {
        self.desk.work.push_back(Work::Gone(seat.session, self.way, end));
    }
}
