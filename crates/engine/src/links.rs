//! Connections of one kind, each with what its owner attached: what every engine is made of.
//!
//! `Links` turns inputs into events for a [`Handler`], whatever the connections then want into
//! actions, and the phase that each is in into a deadline. What lies between a socket and its
//! connection, if anything does, is `between`'s work. The handler is lent per call, so two
//! `Links` can be each other's handlers. Closing one connection while another is handled frees
//! its slot and queues its `Close`; later news of it finds nothing, so nothing is re-entrant.

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use fulmar_proto::{
    Connection, Event, FileRange, Input, Layer, LayerError, PeerError, Phase, Scratch, StreamId,
    Transmit, Wishes,
};

use crate::between::Between;
use crate::slots::Slots;
use crate::timers::{Span, Tick, Wheel};
use crate::{Action, Endpoint, SocketId};

mod splice;

/// Who hears of events.
pub trait Handler<C: Connection, T> {
    /// The connection stands and every layer below it is open: told once, before anything is
    /// sent. `info` is what [`fulmar_proto::Layer::info`] tells of the layer, if there is one.
    fn handle_established(
        &mut self,
        _now: Instant,
        _socket: SocketId,
        _link: (&mut C, &mut T),
        _info: Option<&dyn Any>,
    ) {
    }

    /// A layer of the connection has done its work and is about to go; told before the connection
    /// stands, and only if [`fulmar_proto::Layer::info`] tells something of it: `info`.
    fn handle_replaced(
        &mut self,
        _now: Instant,
        _socket: SocketId,
        _link: (&mut C, &mut T),
        _info: &dyn Any,
    ) {
    }

    /// Something arrived on `socket`; it may be answered on `connection` at once.
    fn handle(
        &mut self,
        now: Instant,
        socket: SocketId,
        link: (&mut C, &mut T),
        event: Event<'_, C::Role>,
    );

    /// The moment that [`Links::set_timer`] named has come.
    fn handle_timer(&mut self, _now: Instant, _socket: SocketId, _link: (&mut C, &mut T)) {}

    /// The connection is gone; its name is stale from now on.
    fn handle_gone(&mut self, now: Instant, socket: SocketId, data: T, end: End);
}

/// Why a connection is gone.
#[derive(Debug)]
#[non_exhaustive]
pub enum End {
    /// Everything was said.
    Closed,
    /// The peer broke the protocol.
    Peer(PeerError),
    /// The layer between socket and connection failed: what its crate says of it.
    Layer(LayerError),
    /// The socket failed.
    Failed(io::Error),
    /// The file failed that a body was going to, straight from the socket.
    File(io::Error),
    /// A deadline passed in this phase; `None`: before the connection stood.
    TimedOut(Option<Phase>),
}

/// One exchange on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Exchange {
    /// The connection.
    pub socket: SocketId,
    /// The exchange on it.
    pub stream: StreamId,
}

/// How long each phase may last; `None`: for ever.
///
/// `body`, `send` and `tunnel` begin again with every byte; the others do not. An application may take
/// as long as it likes, unless its peer has hung up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a connection that we asked for stands.
    pub connect: Option<Duration>,
    /// [`Phase::Handshake`], of all layers together.
    pub handshake: Option<Duration>,
    /// [`Phase::Idle`].
    pub idle: Option<Duration>,
    /// [`Phase::Head`].
    pub head: Option<Duration>,
    /// [`Phase::Body`].
    pub body: Option<Duration>,
    /// [`Phase::Answer`].
    pub answer: Option<Duration>,
    /// [`Phase::Send`].
    pub send: Option<Duration>,
    /// [`Phase::Application`], once the peer has ended its side: it may still be waiting for the
    /// answer, or be gone.
    pub abandoned: Option<Duration>,
    /// [`Phase::Linger`].
    pub linger: Option<Duration>,
    /// [`Phase::Tunnel`].
    pub tunnel: Option<Duration>,
}

/// The same in ticks: reckoned once, looked up for every request.
#[derive(Clone, Copy, Debug)]
struct Spans {
    connect: Span,
    abandoned: Span,
    phases: [Span; PHASES.len()],
}

impl From<Timeouts> for Spans {
    fn from(timeouts: Timeouts) -> Self {
        let span = |timeout: Option<Duration>| timeout.map_or(Span::ENDLESS, Span::from);
        let of = |phase| match phase {
            Phase::Handshake => span(timeouts.handshake),
            Phase::Idle => span(timeouts.idle),
            Phase::Head => span(timeouts.head),
            Phase::Body => span(timeouts.body),
            Phase::Answer => span(timeouts.answer),
            Phase::Application => Span::ENDLESS,
            Phase::Send => span(timeouts.send),
            Phase::Linger => span(timeouts.linger),
            Phase::Tunnel => span(timeouts.tunnel),
        };
        let (connect, abandoned) = (span(timeouts.connect), span(timeouts.abandoned));
        Self { connect, abandoned, phases: PHASES.map(of) }
    }
}

impl Spans {
    /// How long a link may stay as it is.
    fn of<C, T>(&self, link: &Link<C, T>) -> Span {
        match link.phase {
            None => self.connect,
            Some(Phase::Application) if link.hung => self.abandoned,
            Some(phase) => self.phases[phase as usize],
        }
    }
}

/// Connections of one kind.
#[derive(Debug)]
pub struct Links<C, T> {
    slots: Slots<Link<C, T>>,
    desk: Desk,
    scratch: Scratch,
    opened: BytesMut, // what a layer opens, on its way to the connection
    due: Vec<u32>,
}

/// Where links leave what driver and clock have to know.
#[derive(Debug)]
struct Desk {
    actions: VecDeque<Action>,
    wheel: Wheel,
    spans: Spans,
}

/// A connection, what is attached to it, and where it stands with driver and clock.
#[derive(Debug)]
pub(crate) struct Link<C, T> {
    pub(crate) connection: C,
    pub(crate) data: T,
    pub(crate) between: Option<Box<Between>>, // between the socket and the connection
    endpoint: Option<Box<Endpoint>>,          // until the driver has asked for it
    since: Instant, // when the phase began, or last began again: its deadline follows
    armed: Span,    // the wheel's entry comes due at most so long after any moment
    timer: Tick,    // of the owner
    phase: Option<Phase>, // `None` while connecting
    announced: bool, // a Transmit is with the driver until it has tried
    reading: bool,
    shut: bool,
    hung: bool,               // the peer has ended its side, and nobody has read so far
    error: Option<PeerError>, // why it is ending
}

impl<C: Connection, T> Link<C, T> {
    /// Lets the connection take its input, and tells of the events.
    pub(crate) fn feed(&mut self, input: &mut Input<'_>, lent: &mut Lent<'_, impl Handler<C, T>>) {
        loop {
            match self.connection.poll_event(input, lent.scratch) {
                Ok(Some(event)) => {
                    let link = (&mut self.connection, &mut self.data);
                    lent.on.handle(lent.now, lent.socket, link, event);
                }
                Ok(None) => break,
                Err(error) => self.error = Some(error),
            }
            if input.is_empty() && !input.has_eof() && !self.connection.has_event() {
                break;
            }
        }
    }

    /// Asks the connection for what needs no input: `Writable`.
    pub(crate) fn ask(&mut self, lent: &mut Lent<'_, impl Handler<C, T>>) {
        self.feed(&mut Input::all(&mut BytesMut::new(), false), lent);
    }

    /// What the socket may send.
    fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        match &mut self.between {
            Some(between) => between.layer.poll_transmit(),
            None => self.connection.poll_transmit(),
        }
    }

    /// Turns what is wanted now into actions and a deadline. False: the link is over.
    #[inline(always)]
    fn settle<H: Handler<C, T>>(
        &mut self,
        at: u32,
        progress: bool,
        desk: &mut Desk,
        lent: &mut Lent<'_, H>,
    ) -> bool {
        if self.between.is_some() {
            return self.settle_layer(at, progress, desk, lent);
        }
        let wishes = self.connection.wishes();
        self.satisfy(wishes, at, progress, desk, lent)
    }

    /// The same, once the layer has taken what the connection wants to send.
    #[inline(never)] // most connections have none
    fn settle_layer<H: Handler<C, T>>(
        &mut self,
        at: u32,
        progress: bool,
        desk: &mut Desk,
        lent: &mut Lent<'_, H>,
    ) -> bool {
        if let Some(mut between) = self.between.take() {
            if between.seal(self, lent) {
                desk.actions.push_back(Action::Load { socket: lent.socket });
            }
            // What the layer held back comes as if the connection had not been reading.
            self.reading &= !between.resumes(self.connection.wants_read());
            self.between = Some(between);
        }
        let wishes = self.wishes();
        self.satisfy(wishes, at, progress, desk, lent)
    }

    /// The only place where wishes become actions and a deadline.
    #[inline(always)]
    fn satisfy<H: Handler<C, T>>(
        &mut self,
        wishes: Wishes,
        at: u32,
        progress: bool,
        desk: &mut Desk,
        lent: &Lent<'_, H>,
    ) -> bool {
        let (now, socket) = (lent.now, lent.socket);
        if wishes.closed {
            return false;
        }
        if wishes.sends && !self.announced {
            self.announced = true;
            desk.actions.push_back(Action::Transmit { socket });
        }
        if wishes.finished && !wishes.sends && !self.shut {
            self.shut = true;
            desk.actions.push_back(Action::Shutdown { socket });
        }
        if wishes.reads != self.reading {
            self.reading = wishes.reads;
            desk.actions.push_back(Action::Read { socket, on: wishes.reads });
        }
        match self.phase {
            None => {}
            Some(before) if before != wishes.phase => {
                self.phase = Some(wishes.phase);
                self.start_deadline(now, at, desk);
            }
            Some(phase) if progress && begins_again(phase) => self.since = now,
            Some(_) => {}
        }
        true
    }

    /// What connection and layer together want of the socket and the clock.
    fn wishes(&mut self) -> Wishes {
        let wishes = self.connection.wishes();
        match &mut self.between {
            Some(between) => between.wishes(wishes),
            None => wishes,
        }
    }

    /// The phase begins. The wheel hears of it only if nothing wakes it early enough.
    fn start_deadline(&mut self, now: Instant, at: u32, desk: &mut Desk) {
        self.since = now;
        let span = desk.spans.of(self);
        if span < self.armed {
            self.armed = span;
            let deadline = desk.wheel.tick(now).after(span);
            desk.wheel.arm(at, deadline);
        }
    }
}

/// What is lent to a link while something happens on it.
pub(crate) struct Lent<'a, H> {
    pub(crate) now: Instant,
    pub(crate) socket: SocketId,
    pub(crate) scratch: &'a mut Scratch,
    pub(crate) on: &'a mut H,
}

impl<C: Connection, T> Links<C, T> {
    /// None yet; lane `lane` of `lanes` in the space of names.
    pub fn new(now: Instant, timeouts: Timeouts, lane: u32, lanes: u32) -> Self {
        Self {
            slots: Slots::new(lane, lanes),
            desk: Desk { actions: VecDeque::new(), wheel: Wheel::new(now), spans: timeouts.into() },
            scratch: Scratch::default(),
            opened: BytesMut::new(),
            due: Vec::new(),
        }
    }

    /// True if `socket` is one of these, alive or not.
    pub fn owns(&self, socket: SocketId) -> bool {
        self.slots.owns(socket)
    }

    /// How many connections there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The place of `socket`: small numbers, fit to index a table.
    pub fn position(&self, socket: SocketId) -> u32 {
        self.slots.position(socket)
    }

    /// The connection that has place `at` now.
    pub fn key(&self, at: u32) -> SocketId {
        self.slots.key(at)
    }

    /// All connections. Walks them: for ends and reports, not for a turn.
    pub fn sockets(&self) -> Vec<SocketId> {
        self.slots.keys().collect()
    }

    /// Takes in a connection that stands, on a layer or on the socket itself.
    pub fn insert(
        &mut self,
        now: Instant,
        layer: Option<Box<dyn Layer>>,
        connection: C,
        data: T,
        on: &mut impl Handler<C, T>,
    ) -> SocketId {
        let socket = self.admit(now, layer, connection, data);
        self.handle_connected(now, socket, on);
        socket
    }

    /// Asks the driver for a connection, on a layer or on the socket itself; what is queued on it
    /// is sent as soon as it stands.
    pub fn connect(
        &mut self,
        now: Instant,
        endpoint: Endpoint,
        layer: Option<Box<dyn Layer>>,
        connection: C,
        data: T,
    ) -> SocketId {
        let socket = self.admit(now, layer, connection, data);
        let at = self.slots.position(socket);
        if let Some(link) = self.slots.get_mut(socket) {
            link.endpoint = Some(Box::new(endpoint));
            link.start_deadline(now, at, &mut self.desk);
        }
        self.desk.actions.push_back(Action::Connect { socket });
        socket
    }

    fn admit(
        &mut self,
        now: Instant,
        layer: Option<Box<dyn Layer>>,
        connection: C,
        data: T,
    ) -> SocketId {
        self.slots.insert(Link {
            connection,
            data,
            between: layer.map(Between::new).map(Box::new),
            endpoint: None,
            since: now,
            armed: Span::ENDLESS,
            timer: Tick::NEVER,
            phase: None,
            announced: false,
            reading: true,
            shut: false,
            hung: false,
            error: None,
        })
    }

    /// Lends a connection and what is attached to it; `None` if it is gone. What was done with it
    /// becomes known to the driver with [`Links::touch`].
    pub fn get_mut(&mut self, socket: SocketId) -> Option<(&mut C, &mut T)> {
        self.slots.get_mut(socket).map(|link| (&mut link.connection, &mut link.data))
    }

    /// As [`Links::get_mut`], to look only.
    pub fn get(&self, socket: SocketId) -> Option<(&C, &T)> {
        self.slots.get(socket).map(|link| (&link.connection, &link.data))
    }

    /// What there is to know about the layer that a connection stands on.
    pub fn info(&self, socket: SocketId) -> Option<&dyn Any> {
        self.slots.get(socket)?.between.as_ref()?.layer.info()
    }

    /// [`Handler::handle_timer`] is due at `deadline`, once; `None` takes it back.
    pub fn set_timer(&mut self, socket: SocketId, deadline: Option<Instant>) {
        let timer = deadline.map_or(Tick::NEVER, |time| self.desk.wheel.tick_from(time));
        if let Some(link) = self.slots.get_mut(socket) {
            link.timer = timer;
            let at = self.slots.position(socket);
            self.desk.wheel.arm(at, timer);
        }
    }

    /// Tells the driver what was done with a connection outside of an event.
    pub fn touch(&mut self, now: Instant, socket: SocketId, on: &mut impl Handler<C, T>) {
        self.settle(now, socket, false, on);
    }

    /// Gives a connection up: nothing more is sent, and nobody hears of it.
    pub fn close(&mut self, socket: SocketId) -> Option<T> {
        let link = self.slots.remove(socket)?;
        self.desk.actions.push_back(Action::Close { socket });
        Some(link.data)
    }

    /// The socket stands; so does the connection, unless a layer has to be opened first.
    pub fn handle_connected(
        &mut self,
        now: Instant,
        socket: SocketId,
        on: &mut impl Handler<C, T>,
    ) {
        let at = self.slots.position(socket);
        let Some(link) = self.slots.get_mut(socket) else { return };
        if link.between.is_none() {
            on.handle_established(now, socket, (&mut link.connection, &mut link.data), None);
        }
        link.phase = Some(link.wishes().phase);
        link.start_deadline(now, at, &mut self.desk);
        self.settle(now, socket, false, on);
    }

    /// Bytes arrived, or the peer's end.
    pub fn handle_input(
        &mut self,
        now: Instant,
        socket: SocketId,
        input: &mut Input<'_>,
        on: &mut impl Handler<C, T>,
    ) {
        let progress = !input.is_empty();
        self.with(now, socket, progress, on, |link, opened, lent| match link.between.take() {
            Some(between) => link.between = between.open(link, input, opened, lent),
            None => link.feed(input, lent),
        });
    }

    /// A transmit was attempted.
    pub fn handle_sent(
        &mut self,
        now: Instant,
        socket: SocketId,
        bytes: u64,
        on: &mut impl Handler<C, T>,
    ) {
        self.with(now, socket, bytes > 0, on, |link, _, lent| {
            if let Some(between) = &mut link.between {
                between.handle_sent(bytes);
                link.announced = between.layer.poll_transmit().is_some();
            } else {
                link.connection.handle_sent(bytes);
                link.announced = link.connection.wishes().sends;
                if link.connection.has_event() {
                    link.ask(lent);
                }
            }
        });
    }

    /// The bytes of a file that a layer asked for.
    pub fn handle_loaded(
        &mut self,
        now: Instant,
        socket: SocketId,
        bytes: &[u8],
        on: &mut impl Handler<C, T>,
    ) {
        self.with(now, socket, true, on, |link, _, lent| {
            if let Some(between) = &mut link.between {
                between.handle_loaded(&mut link.connection, bytes);
                link.ask(lent);
            }
        });
    }

    /// The peer has ended its side while nobody was reading.
    pub fn handle_hangup(&mut self, now: Instant, socket: SocketId) {
        let at = self.slots.position(socket);
        if let Some(link) = self.slots.get_mut(socket) {
            link.hung = true;
            link.start_deadline(now, at, &mut self.desk);
        }
    }

    /// The socket failed.
    pub fn handle_failed(
        &mut self,
        now: Instant,
        socket: SocketId,
        error: io::Error,
        on: &mut impl Handler<C, T>,
    ) {
        self.end(now, socket, End::Failed(error), on);
    }

    /// Deadlines have passed.
    pub fn handle_timeout(&mut self, now: Instant, on: &mut impl Handler<C, T>) {
        let mut due = std::mem::take(&mut self.due);
        self.desk.wheel.expire(now, &mut due);
        let tick = self.desk.wheel.tick(now);
        for at in due.drain(..) {
            self.come_due(now, tick, at, on);
        }
        self.due = due;
    }

    fn come_due(&mut self, now: Instant, tick: Tick, at: u32, on: &mut impl Handler<C, T>) {
        let socket = self.slots.key(at);
        let Some(link) = self.slots.get_mut(socket) else { return };
        link.armed = Span::ENDLESS;
        let desk = &mut self.desk;
        if desk.wheel.tick(link.since).after(desk.spans.of(link)) <= tick {
            let phase = link.phase;
            return self.end(now, socket, End::TimedOut(phase), on);
        }
        if link.timer <= tick {
            link.timer = Tick::NEVER;
            on.handle_timer(now, socket, (&mut link.connection, &mut link.data));
            self.settle(now, socket, false, on);
        }
        let Some(link) = self.slots.get_mut(socket) else { return };
        let desk = &mut self.desk;
        link.armed = desk.spans.of(link);
        let deadline = desk.wheel.tick(link.since).after(link.armed);
        desk.wheel.arm(at, deadline.min(link.timer));
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.desk.actions.pop_front()
    }

    /// Where the connection that was asked for goes to.
    pub fn poll_endpoint(&mut self, socket: SocketId) -> Option<Endpoint> {
        self.slots.get_mut(socket)?.endpoint.take().map(|endpoint| *endpoint)
    }

    /// What may be sent on `socket`.
    pub fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>> {
        self.slots.get_mut(socket)?.poll_transmit()
    }

    /// The part of a file that a layer has to see.
    pub fn poll_load(&mut self, socket: SocketId) -> Option<FileRange> {
        self.slots.get_mut(socket)?.between.as_ref()?.load.clone()
    }

    /// When [`Links::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.desk.wheel.next()
    }

    fn settle(
        &mut self,
        now: Instant,
        socket: SocketId,
        progress: bool,
        on: &mut impl Handler<C, T>,
    ) {
        self.with(now, socket, progress, on, |_, _, _| {});
    }

    /// Has something happen on a link, if it is still there, and settles it.
    fn with<H: Handler<C, T>>(
        &mut self,
        now: Instant,
        socket: SocketId,
        progress: bool,
        on: &mut H,
        act: impl FnOnce(&mut Link<C, T>, &mut BytesMut, &mut Lent<'_, H>),
    ) {
        let Self { slots, desk, scratch, opened, .. } = self;
        let at = slots.position(socket);
        let Some(link) = slots.get_mut(socket) else { return };
        let mut lent = Lent { now, socket, scratch, on };
        act(link, opened, &mut lent);
        if !link.settle(at, progress, desk, &mut lent) {
            self.end(now, socket, End::Closed, on);
        }
    }

    /// What the peer did wrong counts more than how it went away afterwards.
    fn end(&mut self, now: Instant, socket: SocketId, end: End, on: &mut impl Handler<C, T>) {
        let Some(link) = self.slots.get_mut(socket) else { return };
        let end = match (link.error, link.between.take()) {
            (Some(error), _) => End::Peer(error),
            (None, Some(between)) => between.end(end),
            (None, None) => end,
        };
        if let Some(data) = self.close(socket) {
            on.handle_gone(now, socket, data, end);
        }
    }
}

/// In the order of their numbers.
const PHASES: [Phase; 9] = [
    Phase::Handshake,
    Phase::Idle,
    Phase::Head,
    Phase::Body,
    Phase::Answer,
    Phase::Application,
    Phase::Send,
    Phase::Linger,
    Phase::Tunnel,
];

/// Phases in which the peer has until the deadline for every byte, not for all of them.
fn begins_again(phase: Phase) -> bool {
    matches!(phase, Phase::Body | Phase::Send | Phase::Tunnel)
}

#[cfg(test)]
mod tests {
    use fulmar_proto::ServerConnection;

    use super::*;

    #[test]
    fn an_idle_link_is_small() {
        let size = size_of::<Link<ServerConnection, ()>>() - size_of::<ServerConnection>();
        assert!(size <= 64, "{size} bytes beside the connection");
    }
}
