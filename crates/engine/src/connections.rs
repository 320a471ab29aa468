//! Connections of one kind, each with what its owner attached: what every engine is made of.
//!
//! `Connections` turns inputs into events for a [`Handler`], the state of each connection into
//! actions, and its phase into a deadline. A layer between a socket and its connection is the work
//! of `transport`. The handler is an argument of each call, so two `Connections` can handle the
//! events of each other. Closing one connection while another is handled frees its slot and queues
//! its `Close`; later events of it find nothing, so nothing is re-entrant.

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::time::Instant;

use bytes::BytesMut;
use fulmar_proto::{Block, Connection, Input, IoState, Layer, Phase, Scratch, Transmit};

use crate::slots::Slots;
use crate::timeouts::{
    RateMeter, TimeoutTable, TimeoutTicks, Timeouts, TimeoutsId, is_rate_limited,
    restarts_with_bytes,
};
use crate::timers::{Tick, TickSpan, Wheel};
use crate::{Action, CloseKind, Endpoint, SocketEvent, SocketId};

mod deadlines;
mod end;
mod handler;
mod memory;

mod splice;
mod timeout_sets;
mod transport;
mod walk;

use end::Fault;
use transport::{OPENED_SIZE, Transport};

pub use end::{End, Exchange};
pub use handler::{ConnectionEvent, Handler};
pub use memory::InputMemory;

/// Connections of one kind.
#[derive(Debug)]
pub struct Connections<C, T> {
    slots: Slots<Entry<C, T>>,
    outputs: Outputs,
    scratch: Scratch,
    opened: Block, // bytes that a layer has decrypted, on their way to the connection
    due: Vec<u32>,
    swept: u32, // the slot that `close_idle` examines next
}

/// The requests of connections to the driver and the clock.
#[derive(Debug)]
struct Outputs {
    actions: VecDeque<Action>,
    wheel: Wheel,
    timeouts: TimeoutTable,
}

/// A connection, its owner's data, and its state towards driver and clock.
#[derive(Debug)]
pub(crate) struct Entry<C, T> {
    pub(crate) connection: C,
    pub(crate) data: T,
    pub(crate) transport: Option<Box<Transport>>, // the layer on the socket
    since: Tick, // when the phase began, or was restarted; the deadline counts from here
    rate: RateMeter,
    armed: TickSpan,      // the wheel's entry is due within this time
    timer: Tick,          // set by the owner
    timeouts: TimeoutsId, // which deadlines hold
    phase: Option<Phase>, // `None` while connecting
    announced: bool,      // `Transmit` is requested; ends with `Sent`
    reading: bool,
    shut: bool,
    hung: bool,           // the peer has ended its side, while reading was paused
    fault: Option<Fault>, // the reason of its end
}

impl<C: Connection, T> Entry<C, T> {
    /// Passes input to the connection, and its events to the handler.
    pub(crate) fn feed(
        &mut self,
        input: &mut Input<'_>,
        delivery: &mut Delivery<'_, impl Handler<C, T>>,
    ) {
        if !input.is_empty() {
            self.notify(delivery, ConnectionEvent::Received);
        }
        loop {
            let event = self.connection.poll_event(input, delivery.scratch);
            let entry = (&mut self.connection, &mut self.data);
            match event {
                Ok(Some(event)) => {
                    let event = ConnectionEvent::Event(event);
                    delivery.handler.handle(delivery.now, delivery.socket, entry, event);
                }
                Ok(None) => break,
                Err(error) => {
                    self.fault = Some(Fault::Broke(error));
                    let event = ConnectionEvent::Fault { message: input.bytes(), error };
                    delivery.handler.handle(delivery.now, delivery.socket, entry, event);
                }
            }
            if input.is_empty() && !input.has_eof() && !self.connection.has_event() {
                break;
            }
        }
    }

    /// Delivers an event to the handler.
    #[inline(always)]
    pub(crate) fn notify<H: Handler<C, T>>(
        &mut self,
        delivery: &mut Delivery<'_, H>,
        event: ConnectionEvent<'_, C::Role>,
    ) {
        delivery.handler.handle(
            delivery.now,
            delivery.socket,
            (&mut self.connection, &mut self.data),
            event,
        );
    }

    /// Reports input that is unread while reading is paused: the connection may never read it.
    fn note_unread(&mut self) {
        let io = self.connection.io_state();
        if !io.wants_read && !io.closed {
            self.connection.handle_unread();
        }
    }

    /// Polls the connection for events that need no input, such as `Writable`.
    pub(crate) fn ask(&mut self, delivery: &mut Delivery<'_, impl Handler<C, T>>) {
        self.feed(&mut Input::all(&mut BytesMut::new(), false), delivery);
    }

    /// The bytes that the socket may send. Those in front of a file that is being loaded are sent
    /// with it.
    fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        let is_last = self.sends_last();
        let transmit = match &mut self.transport {
            Some(transport) if transport.load.is_some() => return None,
            Some(transport) => transport.layer.poll_transmit()?,
            None => self.connection.poll_transmit()?,
        };
        Some(Transmit { is_last, ..transmit })
    }

    /// True if no more requests are expected, and the last bytes are queued.
    fn sends_last(&self) -> bool {
        self.connection.expects_no_more_requests()
            && match &self.transport {
                Some(transport) => transport.is_finished(),
                None => self.connection.io_state().finished,
            }
    }

    /// Turns the state of the connection into actions and a deadline. False: it is over.
    #[inline(always)]
    fn update<H: Handler<C, T>>(
        &mut self,
        at: u32,
        moved: Moved,
        outputs: &mut Outputs,
        delivery: &mut Delivery<'_, H>,
    ) -> bool {
        if self.transport.is_some() {
            return self.update_transport(at, moved, outputs, delivery);
        }
        let io = self.connection.io_state();
        self.apply_io_state(io, at, moved, outputs, delivery)
    }

    /// The same, after the layer has taken the bytes of the connection.
    #[inline(never)] // most connections have none
    fn update_transport<H: Handler<C, T>>(
        &mut self,
        at: u32,
        moved: Moved,
        outputs: &mut Outputs,
        delivery: &mut Delivery<'_, H>,
    ) -> bool {
        if let Some(mut transport) = self.transport.take() {
            if let Some(range) = transport.seal(self, delivery) {
                outputs.actions.push_back(Action::Load { socket: delivery.socket, range });
            }
            // Bytes that the layer holds arrive as if the connection had not been reading.
            self.reading &= !transport.resumes(self.connection.io_state().wants_read);
            self.transport = Some(transport);
        }
        let io = self.io_state();
        self.apply_io_state(io, at, moved, outputs, delivery)
    }

    /// The only place where an `IoState` becomes actions and a deadline.
    #[inline(always)]
    fn apply_io_state<H: Handler<C, T>>(
        &mut self,
        io: IoState,
        at: u32,
        moved: Moved,
        outputs: &mut Outputs,
        delivery: &Delivery<'_, H>,
    ) -> bool {
        let (now, socket) = (delivery.now, delivery.socket);
        self.rate.add(moved.bytes());
        if io.closed {
            return false;
        }
        if io.wants_write && !self.announced {
            self.announced = true;
            outputs.actions.push_back(Action::Transmit { socket });
        }
        if io.finished && !io.wants_write && !self.shut {
            self.shut = true;
            outputs.actions.push_back(Action::Shutdown { socket });
        }
        if io.wants_read != self.reading {
            self.reading = io.wants_read;
            if io.wants_read && outputs.timeouts.of(self.timeouts, at).receive_only {
                self.since = outputs.wheel.tick(now); // nothing was received while paused
            }
            outputs.actions.push_back(Action::Read { socket, on: io.wants_read });
        }
        match self.phase {
            None => {}
            Some(before) if before != io.phase => {
                let tick = outputs.wheel.tick(now);
                self.rate.turn(tick, self.since, before, io.phase);
                self.phase = Some(io.phase);
                self.start_deadline(tick, at, outputs);
            }
            Some(phase) if moved.restarts(phase) => {
                self.since = outputs.wheel.tick(now);
            }
            Some(_) => {}
        }
        true
    }

    /// True if bytes that the peer takes do not restart its deadline to send.
    fn counts_received_only(&self, at: u32, timeouts: &TimeoutTable) -> bool {
        self.reading
            && matches!(self.phase, Some(Phase::Body | Phase::Tunnel))
            && timeouts.of(self.timeouts, at).receive_only
    }

    /// The state of connection and layer together.
    fn io_state(&mut self) -> IoState {
        let io = self.connection.io_state();
        match &mut self.transport {
            Some(transport) => transport.io_state(io),
            None => io,
        }
    }

    /// The phase begins. The wheel is changed only if its entry is due too late.
    fn start_deadline(&mut self, now: Tick, at: u32, outputs: &mut Outputs) {
        self.since = now;
        let span = self.until_look(outputs.timeouts.of(self.timeouts, at));
        if span < self.armed {
            self.armed = span;
            outputs.wheel.arm(at, now.after(span));
        }
    }

    /// The limit of the current phase.
    fn span(&self, ticks: &TimeoutTicks) -> TickSpan {
        match self.phase {
            None => ticks.connect,
            Some(Phase::Application) if self.hung => ticks.abandoned,
            Some(phase) => ticks.of(phase),
        }
    }

    /// The time until the deadline and the rate are checked.
    fn until_look(&self, ticks: &TimeoutTicks) -> TickSpan {
        match self.phase {
            Some(phase) if is_rate_limited(phase) => ticks.until_look(phase),
            _ => self.span(ticks),
        }
    }

    /// True if the deadline has passed, or the peer is too slow.
    fn is_late(&mut self, now: Tick, ticks: &TimeoutTicks) -> bool {
        let over = self.since.after(self.span(ticks)) <= now;
        let paced = self.phase.is_some_and(is_rate_limited) && self.rate.due(ticks) <= now;
        over || (paced && !self.rate.look(now, ticks))
    }

    /// The time of the next check.
    fn deadline(&self, ticks: &TimeoutTicks) -> Tick {
        let over = self.since.after(self.span(ticks));
        match self.phase.is_some_and(is_rate_limited) {
            true => over.min(self.rate.due(ticks)),
            false => over,
        }
    }
}

/// Bytes that the peer has moved: sent, or taken.
#[derive(Clone, Copy, Debug)]
enum Moved {
    Received(u64),
    Sent(u64),
}

impl Moved {
    fn bytes(self) -> u64 {
        match self {
            Self::Received(bytes) | Self::Sent(bytes) => bytes,
        }
    }

    /// True if the deadline of the phase counts from now: a peer that does not take its bytes does
    /// not gain time by sending some.
    fn restarts(self, phase: Phase) -> bool {
        self.bytes() > 0
            && match self {
                Self::Received(_) => matches!(phase, Phase::Body | Phase::Tunnel),
                Self::Sent(_) => restarts_with_bytes(phase),
            }
    }
}

/// What an entry needs to deliver its events.
pub(crate) struct Delivery<'a, H> {
    pub(crate) now: Instant,
    pub(crate) socket: SocketId,
    pub(crate) scratch: &'a mut Scratch,
    pub(crate) handler: &'a mut H,
}

impl<C: Connection, T> Connections<C, T> {
    /// No connections; their names have every `stride`-th index, from `offset` on. The stride is
    /// rounded up to a power of two.
    pub fn new(now: Instant, timeouts: Timeouts, offset: u32, stride: u32) -> Self {
        Self {
            slots: Slots::new(offset, stride),
            outputs: Outputs {
                actions: VecDeque::new(),
                wheel: Wheel::new(now),
                timeouts: TimeoutTable::new(timeouts),
            },
            scratch: Scratch::default(),
            opened: Block::new(OPENED_SIZE),
            due: Vec::new(),
            swept: 0,
        }
    }

    /// True if `socket` is a name of this set, open or not.
    pub fn owns(&self, socket: SocketId) -> bool {
        self.slots.owns(socket)
    }

    /// The number of connections.
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

    /// Adds an established connection, on a layer or on the socket itself.
    pub fn insert(
        &mut self,
        now: Instant,
        layer: Option<Box<dyn Layer>>,
        connection: C,
        data: T,
        handler: &mut impl Handler<C, T>,
    ) -> SocketId {
        let socket = self.admit(now, layer, connection, data);
        self.handle_connected(now, socket, handler);
        socket
    }

    /// Requests a connection from the driver, on a layer or on the socket itself. Queued bytes are
    /// sent once it is established.
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
        if let Some(entry) = self.slots.get_mut(socket) {
            let tick = self.outputs.wheel.tick(now);
            entry.start_deadline(tick, at, &mut self.outputs);
        }
        let endpoint = Box::new(endpoint);
        self.outputs.actions.push_back(Action::Connect { socket, endpoint });
        socket
    }

    /// Begins anew on the socket of a connection that has left its protocol: with another
    /// connection, on a layer or on the socket itself. A layer that the socket has stays below.
    pub fn restart(
        &mut self,
        now: Instant,
        socket: SocketId,
        layer: Option<Box<dyn Layer>>,
        connection: C,
        handler: &mut impl Handler<C, T>,
    ) {
        let Some(entry) = self.slots.get_mut(socket) else { return };
        entry.connection = connection;
        entry.transport = match entry.transport.take() {
            Some(below) => Some(Box::new(below.restart(layer))),
            None => layer.map(Transport::new).map(Box::new),
        };
        self.handle_connected(now, socket, handler);
    }

    fn admit(
        &mut self,
        now: Instant,
        layer: Option<Box<dyn Layer>>,
        connection: C,
        data: T,
    ) -> SocketId {
        let now = self.outputs.wheel.tick(now);
        self.slots.insert(Entry {
            connection,
            data,
            transport: layer.map(Transport::new).map(Box::new),
            since: now,
            rate: RateMeter::new(now),
            armed: TickSpan::ENDLESS,
            timer: Tick::NEVER,
            timeouts: TimeoutsId::default(),
            phase: None,
            announced: false,
            reading: true,
            shut: false,
            hung: false,
            fault: None,
        })
    }

    /// A connection and its data; `None` if it is closed. After a change, call
    /// [`Connections::touch`].
    pub fn get_mut(&mut self, socket: SocketId) -> Option<(&mut C, &mut T)> {
        self.slots.get_mut(socket).map(|entry| (&mut entry.connection, &mut entry.data))
    }

    /// As [`Connections::get_mut`], read-only.
    pub fn get(&self, socket: SocketId) -> Option<(&C, &T)> {
        self.slots.get(socket).map(|entry| (&entry.connection, &entry.data))
    }

    /// The description of the layer below a connection.
    pub fn info(&self, socket: SocketId) -> Option<&dyn Any> {
        self.slots.get(socket)?.transport.as_ref()?.layer.info()
    }

    /// True while bytes are unsent, here or in the layer below.
    pub fn is_sending(&self, socket: SocketId) -> bool {
        self.slots.get(socket).is_some_and(|entry| entry.announced)
    }

    /// The reason of the end of a connection after a fault of its peer, while the response to it
    /// is being sent.
    pub fn fault(&self, socket: SocketId) -> Option<End> {
        self.slots.get(socket)?.fault.map(Fault::end)
    }

    /// [`ConnectionEvent::Timer`] is due at `deadline`, once; `None` cancels it.
    pub fn set_timer(&mut self, socket: SocketId, deadline: Option<Instant>) {
        let timer = deadline.map_or(Tick::NEVER, |time| self.outputs.wheel.tick_from(time));
        if let Some(entry) = self.slots.get_mut(socket) {
            entry.timer = timer;
            let at = self.slots.position(socket);
            self.outputs.wheel.arm(at, timer);
        }
    }

    /// Applies changes that were made to a connection outside of an event.
    pub fn touch(&mut self, now: Instant, socket: SocketId, handler: &mut impl Handler<C, T>) {
        self.note_moved(now, socket, 0, handler);
    }

    /// Closes a connection, without its unsent bytes. The handler receives no event.
    pub fn close(&mut self, socket: SocketId) -> Option<T> {
        self.close_as(socket, CloseKind::Normal)
    }

    fn close_as(&mut self, socket: SocketId, kind: CloseKind) -> Option<T> {
        let entry = self.slots.remove(socket)?;
        self.outputs.timeouts.release(entry.timeouts, self.slots.position(socket));
        self.outputs.wheel.keep(self.slots.places());
        self.outputs.actions.push_back(Action::Close { socket, kind });
        Some(entry.data)
    }

    /// As [`Connections::close`], with [`Handler::handle_closed`].
    pub fn cut(&mut self, now: Instant, socket: SocketId, handler: &mut impl Handler<C, T>) {
        self.cut_as(now, socket, CloseKind::Normal, handler);
    }

    /// As [`Connections::cut`]; `kind` is what the peer sees.
    pub fn cut_as(
        &mut self,
        now: Instant,
        socket: SocketId,
        kind: CloseKind,
        handler: &mut impl Handler<C, T>,
    ) {
        self.end(now, socket, End::Cut, kind, handler);
    }

    /// Handles what the driver reports of a socket.
    #[inline]
    pub fn handle(
        &mut self,
        now: Instant,
        socket: SocketId,
        event: SocketEvent<'_>,
        handler: &mut impl Handler<C, T>,
    ) {
        match event {
            SocketEvent::Connected => self.handle_connected(now, socket, handler),
            SocketEvent::Input(mut input) => {
                self.handle_input(now, socket, &mut input, handler);
                if input.has_eof() {
                    self.handle_hangup(now, socket);
                }
            }
            SocketEvent::Sent(bytes) => self.handle_sent(now, socket, bytes, handler),
            SocketEvent::Hangup => self.handle_hangup(now, socket),
            SocketEvent::Unread => self.handle_unread(now, socket, handler),
            SocketEvent::Loaded(bytes) => self.handle_loaded(now, socket, bytes, handler),
            SocketEvent::Spliced(bytes) => self.handle_spliced(now, socket, bytes, handler),
            SocketEvent::Piped(piped) => self.handle_piped(now, socket, piped, handler),
            SocketEvent::Failed(error) => self.handle_failed(now, socket, error, handler),
            SocketEvent::FileFailed(error) => self.handle_file_failed(now, socket, error, handler),
        }
    }

    /// The socket is connected. So is the connection, unless a layer has to be opened first.
    fn handle_connected(
        &mut self,
        now: Instant,
        socket: SocketId,
        handler: &mut impl Handler<C, T>,
    ) {
        let at = self.slots.position(socket);
        let Some(entry) = self.slots.get_mut(socket) else { return };
        if entry.transport.as_ref().is_none_or(|transport| !transport.is_opening()) {
            let event = ConnectionEvent::Established { info: None };
            handler.handle(now, socket, (&mut entry.connection, &mut entry.data), event);
        }
        entry.phase = Some(entry.io_state().phase);
        let tick = self.outputs.wheel.tick(now);
        entry.rate = RateMeter::new(tick);
        entry.start_deadline(tick, at, &mut self.outputs);
        self.note_moved(now, socket, 0, handler);
    }

    /// Bytes arrived, or the peer's end. For engines that count the bytes that were read.
    pub fn handle_input(
        &mut self,
        now: Instant,
        socket: SocketId,
        input: &mut Input<'_>,
        handler: &mut impl Handler<C, T>,
    ) {
        self.with_entry(now, socket, handler, |entry, opened, delivery| {
            let arrived = entry.rate.fresh(input.len());
            match entry.transport.take() {
                Some(transport) => entry.transport = transport.open(entry, input, opened, delivery),
                None => entry.feed(input, delivery),
            }
            entry.notify(delivery, ConnectionEvent::InputUsed);
            if !input.is_empty() {
                entry.note_unread();
            }
            entry.rate.leave(input.len());
            Moved::Received(arrived)
        });
    }

    /// The maximum of received bytes of `socket` that may be unread.
    pub fn unread_max(&self, socket: SocketId) -> usize {
        let Some(entry) = self.slots.get(socket) else { return usize::MAX };
        let above = entry.connection.unread_max();
        entry.transport.as_ref().map_or(above, |transport| transport.unread_max(above))
    }

    /// A transmit was attempted.
    fn handle_sent(
        &mut self,
        now: Instant,
        socket: SocketId,
        bytes: u64,
        handler: &mut impl Handler<C, T>,
    ) {
        self.with_entry(now, socket, handler, |entry, opened, delivery| {
            if let Some(mut transport) = entry.transport.take() {
                transport.handle_sent(&mut entry.connection, bytes);
                entry.announced = transport.layer.poll_transmit().is_some();
                // A layer that only sends has done its work when its bytes are sent.
                entry.transport = match transport.is_opening() && !entry.announced {
                    true => {
                        let nothing = &mut BytesMut::new();
                        transport.open(entry, &mut Input::all(nothing, false), opened, delivery)
                    }
                    false => Some(transport),
                };
            } else {
                entry.connection.handle_sent(bytes);
                entry.announced = entry.connection.has_unsent();
                if entry.connection.has_event() {
                    entry.ask(delivery);
                }
            }
            entry.notify(delivery, ConnectionEvent::Sent);
            Moved::Sent(bytes)
        });
    }

    /// The bytes of a file that a layer requested.
    fn handle_loaded(
        &mut self,
        now: Instant,
        socket: SocketId,
        bytes: &[u8],
        handler: &mut impl Handler<C, T>,
    ) {
        self.with_entry(now, socket, handler, |entry, _, delivery| {
            if let Some(transport) = &mut entry.transport {
                transport.handle_loaded(&mut entry.connection, bytes);
                entry.announced = false;
                entry.ask(delivery);
            }
            Moved::Received(0)
        });
    }

    /// The peer has ended its side while reading was paused.
    fn handle_hangup(&mut self, now: Instant, socket: SocketId) {
        let at = self.slots.position(socket);
        if let Some(entry) = self.slots.get_mut(socket) {
            entry.hung = true;
            let tick = self.outputs.wheel.tick(now);
            entry.start_deadline(tick, at, &mut self.outputs);
        }
    }

    /// Bytes arrived while reading was paused.
    fn handle_unread(&mut self, now: Instant, socket: SocketId, handler: &mut impl Handler<C, T>) {
        self.with_entry(now, socket, handler, |entry, _, _| {
            entry.connection.handle_unread();
            Moved::Received(0)
        });
    }

    /// The socket failed.
    fn handle_failed(
        &mut self,
        now: Instant,
        socket: SocketId,
        error: io::Error,
        handler: &mut impl Handler<C, T>,
    ) {
        self.end(now, socket, End::Failed(error), CloseKind::Normal, handler);
    }

    /// Deadlines have passed.
    pub fn handle_timeout(&mut self, now: Instant, handler: &mut impl Handler<C, T>) {
        let mut due = std::mem::take(&mut self.due);
        self.outputs.wheel.expire(now, &mut due);
        let tick = self.outputs.wheel.tick(now);
        for at in due.drain(..) {
            self.come_due(now, tick, at, handler);
        }
        self.due = due;
    }

    /// The next action for the driver.
    pub fn poll_action(&mut self) -> Option<Action> {
        let action = self.outputs.actions.pop_front();
        if action.is_none() && self.outputs.actions.capacity() > ACTIONS_CAPACITY_MAX {
            self.outputs.actions = VecDeque::new(); // many ended at once
        }
        action
    }

    /// The bytes that may be sent on `socket`.
    pub fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>> {
        self.slots.get_mut(socket)?.poll_transmit()
    }

    /// When [`Connections::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.outputs.wheel.next()
    }

    fn note_moved(
        &mut self,
        now: Instant,
        socket: SocketId,
        moved: u64,
        handler: &mut impl Handler<C, T>,
    ) {
        self.with_entry(now, socket, handler, |entry, _, delivery| {
            if entry.connection.has_event() {
                entry.ask(delivery);
            }
            Moved::Received(moved)
        });
    }

    /// Calls `act` on an entry, if it still exists, and applies the result. `act` returns what the
    /// peer has moved.
    fn with_entry<H: Handler<C, T>>(
        &mut self,
        now: Instant,
        socket: SocketId,
        handler: &mut H,
        act: impl FnOnce(&mut Entry<C, T>, &mut Block, &mut Delivery<'_, H>) -> Moved,
    ) {
        let Self { slots, outputs, scratch, opened, .. } = self;
        let at = slots.position(socket);
        let Some(entry) = slots.get_mut(socket) else { return };
        let mut delivery = Delivery { now, socket, scratch, handler };
        let moved = match act(entry, opened, &mut delivery) {
            Moved::Sent(_) if entry.counts_received_only(at, &outputs.timeouts) => Moved::Sent(0),
            moved => moved,
        };
        if !entry.update(at, moved, outputs, &mut delivery) {
            self.end(now, socket, End::Closed, CloseKind::Normal, handler);
        }
    }

    /// A fault of the peer takes precedence over the way in which it closed afterwards.
    fn end(
        &mut self,
        now: Instant,
        socket: SocketId,
        end: End,
        kind: CloseKind,
        handler: &mut impl Handler<C, T>,
    ) {
        let Some(entry) = self.slots.get_mut(socket) else { return };
        let end = match (entry.fault, entry.transport.take()) {
            (Some(fault), _) => fault.end(),
            (None, Some(transport)) => transport.end(end),
            (None, None) => end,
        };
        let last = (&mut entry.connection, &mut entry.data);
        handler.handle(now, socket, last, ConnectionEvent::Ending);
        if let Some(data) = self.close_as(socket, kind) {
            handler.handle_closed(now, socket, data, end);
        }
    }
}

/// Capacity for actions that is kept.
const ACTIONS_CAPACITY_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use fulmar_proto::ServerConnection;

    use super::*;

    #[test]
    fn idle_entry_is_small() {
        let size = size_of::<Entry<ServerConnection, ()>>() - size_of::<ServerConnection>();
        assert!(size <= 64, "{size} bytes beside the connection");
    }
}
