//! Readiness to inputs, actions to system calls: one turn.
//!
//! The order is the same in every loop: wait once; accept; receive from all ready sockets, and pass
//! the input to the engine; send; close; register new sockets. Nothing is sent while inputs are
//! handled. That alone joins head with body, and responses with each other.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use fulmar_engine::{
    Action, CloseKind, DriverEvent, Endpoint, Engine, ListenerId, SocketEvent, SocketId,
};
use fulmar_proto::{Abilities, Block, FileRange, Signals};
use fulmar_sys::errno::{EMFILE, ENFILE};
use fulmar_sys::{self as sys, PollEntry, Ring};

use crate::epoll::Epoll;
use crate::executor::{Accept, Executor, Op};
use crate::external_loop::{Change, ExternalLoop};
use crate::listener::{Listener, Prediction};
use crate::passing::Passing;
use crate::pipe::Pipes;
use crate::receive::BLOCK_SIZE;
use crate::registration::DeferredRegistrations;
use crate::resolver::ResolverSockets;
use crate::selector::{Interest, Ready, Selector, ShortRead, Tag, Until, Waiter};
use crate::socket::{Nagle, Registration, Socket, SocketOrigin, Sockets};
use crate::throttle::Throttle;
use crate::waker::Waker;

/// Turns readiness into the engine's inputs, and its actions into system calls. It owns
/// descriptors, not a loop.
///
/// ```
/// use fulmar_drive::{Driver, ListenOptions, LoopOptions, Reactor, Spin, listen};
/// # use fulmar_engine::{Action, DriverEvent, Engine, SocketId};
/// # use fulmar_proto::Transmit;
/// # struct Refuse;
/// # impl Engine for Refuse {
/// #     fn handle(&mut self, _: std::time::Instant, _: DriverEvent<'_>) {}
/// #     fn poll_action(&mut self) -> Option<Action> { None }
/// #     fn poll_transmit(&mut self, _: SocketId) -> Option<Transmit<'_>> { None }
/// #     fn poll_timeout(&self) -> Option<std::time::Instant> { None }
/// # }
/// # let engine = Refuse;
///
/// let options = LoopOptions { driver: Driver::Level, spin: Spin::Off };
/// let mut reactor = Reactor::with_options(engine, options)?;
/// let (listener, _) = listen("127.0.0.1:0".parse().unwrap(), ListenOptions::default())?;
/// reactor.listen(listener)?;
/// reactor.turn_within(std::time::Duration::ZERO)?; // a program calls `turn` in a loop
/// assert_eq!(reactor.driver_info().to_string(), "level");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Reactor<E, S> {
    /// The engine.
    pub engine: E,
    pub(crate) selector: S,
    pub(crate) sockets: Sockets,
    pub(crate) listeners: Vec<Option<Listener>>,
    pub(crate) waker: Option<Waker>,
    wake_pending: bool,
    pub(crate) resolver_sockets: ResolverSockets,
    pub(crate) paused_until: Option<Instant>, // end of the first pause of a listener
    trim_at: Option<Instant>,                 // when memory of a past peak is freed
    pub(crate) arrivals: Vec<ListenerId>,     // listeners with waiting connections
    pub(crate) accepts: Vec<Accept>,          // the accepts of one listener
    pub(crate) connected: Vec<SocketId>,      // sockets whose connect is complete
    hangups: Vec<SocketId>,                   // sockets of ended peers while reading was paused
    paused_input: Vec<SocketId>, // sockets with bytes that arrived while reading was paused
    failures: Vec<SocketId>,     // sockets that failed while reading was paused
    pub(crate) receive_queue: Vec<SocketId>, // sockets to be read in the next receive
    pub(crate) receive_turn: Vec<SocketId>, // and in this one
    pub(crate) redeliveries: Vec<SocketId>, // of those: input is delivered again without reading
    pub(crate) splices: Vec<SocketId>, // of those: bytes go into files or pipes
    pub(crate) send_queue: Vec<SocketId>, // sockets to be written in this turn
    pub(crate) new_transmits: Vec<SocketId>, // sockets with a new transmit
    pub(crate) pipe_sends: Vec<Passing>, // of those: bytes from pipes
    pub(crate) loads: VecDeque<(SocketId, FileRange)>, // file ranges to be read into memory
    pub(crate) new_sockets: Vec<SocketId>, // sockets that the selector does not know yet
    pub(crate) executor: Executor,
    pub(crate) deferred: DeferredRegistrations, // new sockets from which nothing is expected
    pub(crate) receives: Vec<Op>,
    pub(crate) sends: Vec<Op>,
    pub(crate) block: Block, // every receive of a turn goes here; idle sockets keep nothing
    pub(crate) buffer: Vec<u8>, // short transmits, side by side
    close_queue: Vec<OwnedFd>, // to be closed at the end of the turn, in one list
    pub(crate) pipes: Pipes, // for bytes that bypass the engine
    pub(crate) pipes_to_sweep: bool, // some may have been returned with bytes in them
    pub(crate) throttle: Option<Box<Throttle>>,
    pub(crate) abilities: Abilities,
    pub(crate) file_memory: Vec<u8>, // of files, for a layer, for frames, or without sendfile
    pub(crate) file_memory_until: Option<Instant>, // when it is freed
    pub(crate) some_took_all: bool,  // `Socket::took_all` of some sockets
    /// Connects that wait for the application, if it opens the sockets.
    pub(crate) handed_connects: Option<VecDeque<(SocketId, Endpoint)>>,
    pub(crate) connect_prediction: Prediction, // whether connects are complete at once
    clock: Instant,
    deadline: Option<Instant>, // as passed to the selector
    stats: Stats,
}

/// What drove the loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Waits, and what each led to.
    pub turns: u64,
    /// Turns in which nothing was ready.
    pub empty: u64,
    /// Readiness events reported.
    pub events: u64,
    /// Turns in which a deadline had passed.
    pub timeouts: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Failed accepts for a reason outside of this process: a filter forbids them, or another
    /// process with the same socket has ended its listening. They are tried again soon.
    pub refused: u64,
}

impl<E: Engine, S: Selector> Reactor<E, S> {
    /// A reactor of `engine` with the readiness that `selector` reports.
    pub fn new(engine: E, selector: S) -> Self {
        Self {
            engine,
            selector,
            sockets: Sockets::default(),
            listeners: Vec::new(),
            waker: None,
            wake_pending: false,
            resolver_sockets: ResolverSockets::default(),
            paused_until: None,
            trim_at: None,
            arrivals: Vec::new(),
            accepts: Vec::new(),
            connected: Vec::new(),
            hangups: Vec::new(),
            paused_input: Vec::new(),
            failures: Vec::new(),
            receive_queue: Vec::new(),
            receive_turn: Vec::new(),
            redeliveries: Vec::new(),
            splices: Vec::new(),
            send_queue: Vec::new(),
            new_transmits: Vec::new(),
            pipe_sends: Vec::new(),
            loads: VecDeque::new(),
            new_sockets: Vec::new(),
            executor: Executor::Direct(None),
            deferred: DeferredRegistrations::default(),
            receives: Vec::new(),
            sends: Vec::new(),
            block: Block::new(BLOCK_SIZE),
            buffer: Vec::new(),
            close_queue: Vec::new(),
            pipes: Pipes::default(),
            pipes_to_sweep: false,
            throttle: None,
            abilities: Abilities::NATIVE,
            file_memory: Vec::new(),
            file_memory_until: None,
            some_took_all: false,
            handed_connects: None,
            connect_prediction: Prediction::default(),
            clock: sys::now(),
            deadline: None,
            stats: Stats::default(),
        }
    }

    /// Accepts from a listening socket from now on; see [`crate::listen`].
    ///
    /// # Errors
    /// The selector can watch no more descriptors.
    pub fn listen(&mut self, listener: OwnedFd) -> io::Result<ListenerId> {
        let number = u32::try_from(self.listeners.len()).map_err(io::Error::other)?;
        let id = ListenerId(number);
        self.selector.watch(listener.as_fd(), Tag::Listener(id), READ)?;
        self.listeners.push(Some(Listener::new(listener)));
        Ok(id)
    }

    /// A listening socket, until the engine closes it. A duplicate keeps it open: an engine that
    /// stops listening leaves it and its queue to the application.
    pub fn listener_fd(&self, id: ListenerId) -> Option<BorrowedFd<'_>> {
        Some(self.listeners.get(id.0 as usize)?.as_ref()?.fd.as_fd())
    }

    /// The socket of a connection, while it is open. The reactor reads, writes and closes it.
    pub fn socket_fd(&self, id: SocketId) -> Option<BorrowedFd<'_>> {
        Some(self.sockets.get(id)?.fd.as_fd())
    }

    /// A way for other threads to wake this reactor.
    ///
    /// # Errors
    /// Descriptors are used up.
    pub fn waker(&mut self) -> io::Result<Waker> {
        if let Some(waker) = &self.waker {
            return Ok(waker.clone());
        }
        let waker = Waker::new()?;
        self.selector.watch(waker.as_fd(), Tag::Waker, READ)?;
        self.waker = Some(waker.clone());
        Ok(waker)
    }

    /// Hands a connected stream socket, which must not block, to the engine, as if it had been
    /// accepted from `listener`: for applications that have their connections from elsewhere, such
    /// as another process. Bytes received so far are read in the next turn, which does not wait.
    pub fn adopt(&mut self, listener: ListenerId, fd: OwnedFd, peer: SocketAddr) {
        let now = sys::now();
        self.act(now); // a place that the engine has freed is not free before its `Close`
        let known = self.listeners.get(listener.0 as usize).and_then(Option::as_ref);
        let reports_local = known.is_some_and(|known| known.reports_local);
        match self.introduce(now, listener, &fd, peer, reports_local) {
            Some(id) => {
                let mut socket = Socket::new(id, fd, SocketOrigin::Connected);
                socket.nagle = Nagle::Idle; // no listener of ours has switched it off
                socket.readable = true;
                self.admit(socket);
                self.list(id);
            }
            None => self.selector.retire(fd),
        }
        self.leave(now);
    }

    /// Lets `act` use the engine between two turns, and does what the engine wants done then. What
    /// it wants to send leaves in the next turn, which does not wait.
    pub fn with<O>(&mut self, act: impl FnOnce(&mut E, Instant) -> O) -> O {
        let now = sys::now();
        let out = act(&mut self.engine, now);
        self.leave(now);
        out
    }

    /// The engine was used between two turns.
    pub(crate) fn leave(&mut self, now: Instant) {
        self.act(now);
        self.executor.close(&mut self.close_queue);
        self.register_new(now);
        self.update_deadline(now);
    }

    /// Executes lists of at least `len_min` operations in a ring from now on: for loops that
    /// [`Reactor::with_options`] did not create.
    pub fn set_ring(&mut self, ring: Ring, len_min: usize) {
        self.executor = Executor::Ring(Box::new(ring), len_min.max(1));
    }

    /// What waits for its descriptors.
    pub fn selector(&self) -> &S {
        &self.selector
    }

    /// What drove the loop so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// What drives it: `ring`, or the name of the selector where each operation is a call.
    pub fn driver(&self) -> &'static str {
        match self.executor {
            Executor::Direct(_) => self.selector.name(),
            Executor::Ring(..) => "ring",
        }
    }

    /// When there is something to do even if no descriptor is ready.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Records readiness; [`Reactor::perform`] acts on it.
    pub(crate) fn note(&mut self, tag: Tag, ready: Ready) {
        self.stats.events += 1;
        match tag {
            Tag::Waker => self.wake_pending = true,
            Tag::Resolver(number) => self.resolver_sockets.note(number, ready),
            Tag::Listener(id) if self.arrivals.contains(&id) => {} // it is due anyhow
            Tag::Listener(id) => self.arrivals.push(id),
            Tag::Socket(socket) => self.note_socket(socket, ready),
        }
    }

    fn note_socket(&mut self, id: SocketId, ready: Ready) {
        let Some(socket) = self.sockets.get_mut(id) else { return }; // closed since the wait began
        let connecting = socket.origin == SocketOrigin::Connecting;
        let unread = !socket.reading || socket.eof; // no read would notice
        if ready.failed && (connecting || unread) {
            if !self.failures.contains(&id) {
                self.failures.push(id); // it may be there since the last turn
            }
            return;
        }
        if ready.hangup && unread && !socket.hangup {
            socket.hangup_reported = true;
            self.hangups.push(id);
        }
        socket.failed |= ready.failed;
        if ready.write && connecting {
            socket.handle_room();
            self.connected.push(id);
        } else if ready.write && socket.handle_room() {
            self.send_queue.push(id);
        }
        let was_unread = socket.is_unread();
        socket.note(ready);
        if socket.is_unread() && !was_unread {
            self.paused_input.push(id);
        }
        socket.list(&mut self.receive_queue);
    }

    /// Puts a socket on the list of those to be read, if it belongs there.
    pub(crate) fn list(&mut self, id: SocketId) {
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.list(&mut self.receive_queue);
        }
    }

    /// Acts on everything that was noted: one turn without its wait. An application's loop calls it
    /// after [`Reactor::ready`].
    pub fn perform(&mut self, now: Instant) {
        self.clock = now;
        self.stats.turns += 1;
        self.connect_prediction.begin();
        // First: a place that the engine frees in this turn is free only after `act`.
        self.accept(now);
        if std::mem::take(&mut self.wake_pending) {
            self.waker.as_ref().expect("only the waker wakes").acknowledge();
            self.engine.handle(now, DriverEvent::Wake);
        }
        self.poll_resolver(now);
        self.report_connected(now);
        self.report_ended(now);
        self.receive(now);
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.stats.timeouts += 1;
            self.engine.handle(now, DriverEvent::Timeout);
        }
        self.act(now);
        if !self.new_transmits.is_empty() {
            self.send_queue.append(&mut self.new_transmits);
        }
        if self.flush(now) {
            self.act(now); // what sending led to; what it wants sent waits for the next turn
            self.continue_partial(now); // sends more of partial transmits
        }
        self.executor.close(&mut self.close_queue);
        self.register_new(now);
        if std::mem::take(&mut self.pipes_to_sweep) {
            self.pipes.sweep();
        }
        if self.trim_at.is_some_and(|time| time <= now) {
            self.give_memory_back();
        }
        if self.file_memory_until.is_some_and(|time| time <= now) {
            (self.file_memory, self.file_memory_until) = (Vec::new(), None);
        }
        self.update_deadline(now);
    }

    /// After a peak: frees grown buffers, and returns free memory to the system.
    fn give_memory_back(&mut self) {
        self.trim_at = None;
        self.block = Block::new(BLOCK_SIZE);
        (self.buffer, self.file_memory) = (Vec::new(), Vec::new());
        sys::trim_memory();
    }

    fn report_connected(&mut self, now: Instant) {
        while let Some(id) = self.connected.pop() {
            // The engine may have closed it after the event.
            let Some(socket) = self.sockets.get_mut(id) else { continue };
            debug_assert_eq!(socket.origin, SocketOrigin::Connecting, "a socket connects once");
            // Input so early: the peer sends first, or it is an error that the application's loop
            // could not distinguish from input.
            if socket.readable
                && let Ok(Some(error)) = sys::socket_error(socket.fd.as_fd())
            {
                self.report(now, id, SocketEvent::Failed(error));
                continue;
            }
            socket.origin = SocketOrigin::Connected;
            self.report(now, id, SocketEvent::Connected);
            self.send_queue.push(id); // bytes queued before
        }
    }

    /// Reports sockets that ended, failed or received bytes while reading was paused.
    fn report_ended(&mut self, now: Instant) {
        while let Some(id) = self.hangups.pop() {
            self.report(now, id, SocketEvent::Hangup);
            self.update_interest(id);
        }
        while let Some(id) = self.paused_input.pop() {
            if self.sockets.get(id).is_some_and(Socket::is_unread) {
                self.report(now, id, SocketEvent::Unread);
                self.update_interest(id);
            }
        }
        while let Some(id) = self.failures.pop() {
            if let Some(socket) = self.sockets.get_mut(id) {
                let error = match sys::socket_error(socket.fd.as_fd()) {
                    Ok(Some(error)) | Err(error) => error,
                    // Both sides have ended, and earlier input can still be read.
                    Ok(None) if socket.shut && !socket.eof => {
                        socket.note(Ready { read: true, hangup: true, ..Ready::default() });
                        self.report(now, id, SocketEvent::Hangup);
                        self.relist(id);
                        continue;
                    }
                    Ok(None) if is_dead(socket.fd.as_fd()) => io::ErrorKind::ConnectionReset.into(),
                    Ok(None) => continue, // an event of an earlier descriptor of this number
                };
                self.report(now, id, SocketEvent::Failed(error));
            }
        }
    }

    /// Executes the engine's actions; sockets with a transmit go into a list. Each result of the
    /// resolver is reported when no action is left, so that lookups abandoned meanwhile get none.
    #[inline]
    pub(crate) fn act(&mut self, now: Instant) {
        loop {
            while let Some(action) = self.engine.poll_action() {
                self.act_once(now, action);
            }
            let Some(answer) = self.resolver_sockets.poll_resolution() else { return };
            let addresses = answer.addresses.as_deref().map_err(|error| *error);
            self.engine.handle(now, DriverEvent::Resolved(answer.lookup, addresses));
        }
    }

    #[inline(never)] // mostly there is none
    fn act_once(&mut self, now: Instant, action: Action) {
        match action {
            Action::Transmit { socket } => self.new_transmits.push(socket),
            Action::Read { socket, on } => self.set_reading(now, socket, on),
            Action::Connect { socket, endpoint } => match &mut self.handed_connects {
                Some(handed) => handed.push_back((socket, *endpoint)),
                None => self.connect(now, socket, &endpoint),
            },
            Action::Resolve { lookup, name } => self.resolve(now, lookup, &name),
            Action::Abandon { lookup } => self.abandon(now, lookup),
            Action::Shutdown { socket } => {
                if let Some(socket) = self.sockets.get_mut(socket) {
                    socket.shut = true;
                    // Fails only if the peer is gone, which a read reports.
                    let _ = sys::shutdown_write(socket.fd.as_fd());
                }
            }
            Action::Watch { socket, on } => self.set_watched(socket, on),
            Action::Splice { socket } => self.set_splicing(socket),
            Action::Load { socket, range } => self.loads.push_back((socket, range)),
            Action::Close { socket, kind } => self.close(now, socket, kind),
            Action::Accept { listener, on } => self.set_accepting(listener, on),
            Action::ReportLocal { listener } => {
                if let Some(Some(listener)) = self.listeners.get_mut(listener.0 as usize) {
                    listener.reports_local = true;
                }
            }
            Action::Unlisten { listener } => {
                let at = listener.0 as usize;
                if let Some(listener) = self.listeners.get_mut(at).and_then(Option::take) {
                    self.selector.retire_shared(listener.fd);
                }
            }
        }
    }

    fn close(&mut self, now: Instant, id: SocketId, kind: CloseKind) {
        let Some(socket) = self.sockets.remove(id) else {
            // It could not be opened, or is not opened yet.
            return self.handed_connects.iter_mut().for_each(|it| it.retain(|(of, _)| *of != id));
        };
        // Where neither can be done, the peer sees a normal close.
        let _ = match kind {
            CloseKind::Normal => Ok(()),
            CloseKind::Reset => sys::reset_on_close(socket.fd.as_fd()),
            CloseKind::Silent => sys::silence(socket.fd.as_fd()),
        };
        self.pipes_to_sweep = true;
        match &self.executor {
            Executor::Ring(..) if !S::EXTERNAL => self.close_queue.push(socket.fd),
            Executor::Ring(..) | Executor::Direct(_) => self.selector.retire(socket.fd),
        }
        if self.sockets.shrink() && self.trim_at.is_none() {
            self.trim_at = Some(now + TRIM_AFTER);
        }
    }

    /// After descriptors ran out: closes those that wait for the end of the turn. True if there
    /// were some.
    pub(crate) fn makes_room(&mut self, error: &io::Error) -> bool {
        let ran_out = matches!(error.raw_os_error(), Some(EMFILE | ENFILE));
        let helps = ran_out && !self.close_queue.is_empty();
        if helps {
            self.executor.close(&mut self.close_queue);
        }
        helps
    }

    pub(crate) fn admit(&mut self, socket: Socket) {
        if self.abilities.signals == Signals::Option {
            // If the connection is gone already, its first read reports it.
            let _ = sys::set_no_signal(socket.fd.as_fd());
        }
        self.new_sockets.push(socket.id);
        self.sockets.insert(socket);
    }

    /// Unread bytes, here and in the kernel, are delivered in the next turn.
    fn set_reading(&mut self, now: Instant, id: SocketId, on: bool) {
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.reading = on;
            socket.resumed = on;
            if socket.doubtful {
                socket.readable = on; // a receive finds out; not needed while paused
            }
            // It ended or failed right behind what was read last, and there is no other edge.
            if !on
                && socket.hangup
                && !socket.eof
                && !std::mem::replace(&mut socket.hangup_reported, true)
            {
                match socket.failed {
                    true => self.failures.push(id),
                    false => self.hangups.push(id),
                }
            }
            let is_unread = socket.is_unread();
            socket.update_interest(&mut self.selector);
            socket.list(&mut self.receive_queue);
            if is_unread {
                // The last receive left bytes in the kernel.
                self.report(now, id, SocketEvent::Unread);
            }
        }
        if on {
            self.register(id);
        }
    }

    /// The application's loop waits for this socket, or does not.
    fn set_watched(&mut self, id: SocketId, on: bool) {
        let Some(socket) = self.sockets.get_mut(id) else { return }; // it could not be opened
        match socket.registration {
            Registration::Registered => self.selector.set_watched(socket.fd.as_fd(), on),
            Registration::New | Registration::NewUnwatched => {
                socket.registration = match on {
                    true => Registration::New,
                    false => Registration::NewUnwatched,
                };
            }
            Registration::Deferred => {} // no loop of an application defers a registration
        }
    }

    pub(crate) fn update_interest(&mut self, id: SocketId) {
        if !self.selector.watches_all()
            && let Some(socket) = self.sockets.get_mut(id)
        {
            socket.update_interest(&mut self.selector);
        }
    }

    /// True if the next turn need not wait.
    fn has_work(&self) -> bool {
        !self.receive_queue.is_empty()
            || !self.new_transmits.is_empty()
            || !self.loads.is_empty()
            || !self.hangups.is_empty()
            || !self.failures.is_empty()
            || !self.arrivals.is_empty()
    }

    fn update_deadline(&mut self, now: Instant) {
        let deadline = match self.has_work() {
            true => Some(now),
            false => {
                let ours = earliest(self.paused_until, self.resolver_sockets.poll_timeout());
                let ours = earliest(self.trim_at, ours);
                let ours = earliest(self.file_memory_until, ours);
                let ours = earliest(self.deferred.poll_timeout(&self.sockets), ours);
                earliest(self.engine.poll_timeout(), ours)
            }
        };
        let news = match (self.deadline, deadline) {
            (Some(told), Some(next)) => next < told || told <= now || !S::EXTERNAL,
            (told, next) => told.is_some() != next.is_some(),
        };
        if news {
            self.deadline = deadline;
            self.selector.set_deadline(deadline);
        }
    }

    /// Reports to the engine what happened on a socket.
    #[inline]
    pub(crate) fn report(&mut self, now: Instant, id: SocketId, event: SocketEvent<'_>) {
        self.engine.handle(now, event.of(id));
    }

    pub(crate) fn stamp(&mut self) {
        self.clock = sys::now();
        self.engine.handle(self.clock, DriverEvent::Flush);
    }

    pub(crate) fn count_accepted(&mut self) {
        self.stats.accepted += 1;
    }

    pub(crate) fn count_refused(&mut self) {
        self.stats.refused += 1;
    }
}

/// For tests.
#[cfg(feature = "testing")]
impl<E, S> Reactor<E, S> {
    /// Has every call do less than it could, from now on.
    pub fn set_portions(&mut self, portions: crate::Portions) {
        self.throttle = Some(Box::new(Throttle::new(portions)));
    }

    /// Has files sent as another platform would, from now on, as far as this kernel can.
    pub fn set_abilities(&mut self, abilities: Abilities) {
        self.abilities = abilities;
    }
}

impl<E: Engine, W: Waiter> Reactor<E, W> {
    /// Waits once, until something is ready or a deadline has come, and handles all of it.
    ///
    /// Timeouts are reckoned from the last turn's clock: call it in a loop, without long work
    /// between two turns.
    ///
    /// # Errors
    /// The wait itself failed, which no working system does.
    pub fn turn(&mut self) -> io::Result<()> {
        let until = if self.has_work() { Until::Now } else { Until::Deadline };
        self.turn_until(until)
    }

    /// As [`Reactor::turn`], for at most so long.
    ///
    /// # Errors
    /// As [`Reactor::turn`].
    pub fn turn_within(&mut self, max: Duration) -> io::Result<()> {
        let limit = || self.clock.checked_add(max).map_or(Until::Deadline, Until::Moment);
        let until = if self.has_work() { Until::Now } else { limit() };
        self.turn_until(until)
    }

    /// As [`Reactor::turn`], without waiting: for loops that watch [`Reactor::as_fd`] and keep
    /// [`Reactor::deadline`].
    ///
    /// # Errors
    /// As [`Reactor::turn`].
    pub fn try_turn(&mut self) -> io::Result<()> {
        self.turn_until(Until::Now)
    }

    fn turn_until(&mut self, until: Until) -> io::Result<()> {
        let n = self.selector.wait(self.clock, until)?;
        let now = sys::now();
        self.stats.empty += u64::from(n == 0);
        for at in 0..n {
            let (tag, ready) = self.selector.event(at);
            self.note(tag, ready);
            self.note_short_read(tag, self.selector.short_read(at));
        }
        self.perform(now);
        Ok(())
    }

    fn note_short_read(&mut self, tag: Tag, short_read: ShortRead) {
        if let Tag::Socket(id) = tag
            && short_read != ShortRead::WouldBlock
            && let Some(socket) = self.sockets.get_mut(id)
        {
            socket.short_read = short_read;
        }
    }
}

impl<E> AsFd for Reactor<E, Epoll> {
    /// Readable whenever [`Reactor::try_turn`] has something to do, deadlines aside.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.selector.as_fd()
    }
}

impl<E: Engine> Reactor<E, ExternalLoop> {
    /// The application's loop has found `fd` to be `ready`. It is trusted, without a query to the
    /// kernel. If it is empty, one `poll(2)` finds the readiness.
    pub fn socket_action(&mut self, now: Instant, fd: RawFd, ready: Ready) {
        self.selector.close_forgotten();
        if let Some(tag) = self.selector.tag(fd) {
            let ready = if ready.is_empty() { self.poll_one(fd) } else { ready };
            if !ready.is_empty() {
                self.note(tag, ready);
            }
        }
        self.perform(now);
    }

    /// The readiness of one descriptor; empty if the kernel is out of memory.
    fn poll_one(&self, fd: RawFd) -> Ready {
        let Some(fd) = self.watched(fd) else { return Ready::default() };
        let mut entries = [PollEntry::new(fd)];
        match sys::poll_now(&mut entries) {
            Ok(()) => entries[0].events().into(),
            Err(_) => Ready::default(),
        }
    }

    /// The deadline has passed. Also the first call, which starts everything.
    pub fn timeout_action(&mut self, now: Instant) {
        self.selector.close_forgotten();
        if self.deadline().is_some_and(|deadline| deadline > now) {
            self.deadline = None; // the application's timer is gone: it is set again
        }
        self.perform(now);
    }

    /// A watched or forgotten descriptor, as long as it is open: for ways of waiting that need a
    /// borrowed descriptor.
    pub fn descriptor(&self, fd: RawFd) -> Option<BorrowedFd<'_>> {
        self.selector.retired(fd).or_else(|| self.watched(fd))
    }

    fn watched(&self, fd: RawFd) -> Option<BorrowedFd<'_>> {
        match self.selector.tag(fd)? {
            Tag::Socket(socket) => self.socket_fd(socket),
            Tag::Listener(id) => self.listener_fd(id),
            Tag::Waker => Some(self.waker.as_ref()?.as_fd()),
            Tag::Resolver(number) => self.resolver_sockets.fd(number),
        }
    }

    /// The next change for the application's loop. Poll after every action, until there is none.
    pub fn poll_change(&mut self) -> Option<Change> {
        self.selector.poll()
    }
}

impl<E, S> Drop for Reactor<E, S> {
    fn drop(&mut self) {
        self.sockets.drain().for_each(|socket| sys::close(socket.fd));
        self.close_queue.drain(..).for_each(sys::close);
        self.listeners.drain(..).flatten().for_each(|listener| sys::close(listener.fd));
        self.pipes.close();
        self.resolver_sockets.close();
    }
}

/// Queries the kernel, because an application's event may be of an earlier descriptor of this
/// number.
fn is_dead(fd: BorrowedFd<'_>) -> bool {
    let mut entries = [PollEntry::new(fd)];
    sys::poll_now(&mut entries).is_ok() && entries[0].events().is_dead()
}

pub(crate) fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// How long after the end of a peak began its memory is freed: most connections are closed by then,
/// and it does not happen more often.
const TRIM_AFTER: Duration = Duration::from_secs(1);
pub(crate) const READ: Interest = Interest { read: true, write: false, hangup: false };
