//! Readiness to inputs, actions to system calls: one turn.
//!
//! Always in this order, whoever owns the loop: wait once; accept; receive for all that are ready,
//! and let the engine think; send; close; watch what is new, still there, and waited for. Nothing is
//! sent while inputs are handled: that alone joins head with body and reply with reply.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use fulmar_engine::{Action, CloseKind, DriverEvent, Engine, ListenerId, SocketEvent, SocketId};
use fulmar_proto::{Abilities, Block, FileRange, Signals};
use fulmar_sys::errno::{EMFILE, ENFILE};
use fulmar_sys::{self as sys, PollEntry, Ring};

use crate::changes::{Change, Changes};
use crate::epoll::Epoll;
use crate::executor::{Accept, Executor, Op};
use crate::listener::{Listener, Prediction};
use crate::passing::Passing;
use crate::pipe::Pipes;
use crate::quiet::Quiet;
use crate::receive::BLOCK_SIZE;
use crate::selector::{Interest, Ready, Selector, Tag, Tail, Until, Waiter};
use crate::socket::{Birth, Nagle, Socket, Sockets};
use crate::throttle::Throttle;
use crate::waker::Waker;
use crate::watch::Foreign;

/// Turns readiness into the engine's inputs. Owns descriptors, not a loop.
#[derive(Debug)]
pub struct Reactor<E, S> {
    /// What is driven.
    pub engine: E,
    pub(crate) selector: S,
    pub(crate) sockets: Sockets,
    pub(crate) listeners: Vec<Option<Listener>>,
    pub(crate) waker: Option<Waker>,
    woken: bool,
    pub(crate) foreign: Foreign,
    pub(crate) rest_until: Option<Instant>, // when the first resting listener wakes
    trim_at: Option<Instant>, // when memory goes back to the system that a crowd has left
    pub(crate) arrivals: Vec<ListenerId>, // listeners with somebody waiting
    pub(crate) accepts: Vec<Accept>, // of those: whoever is to be asked for
    stood: Vec<SocketId>,     // connections that stand now
    hung: Vec<SocketId>,      // sockets whose peer ended with nobody reading
    unread: Vec<SocketId>,    // sockets with bytes that arrived while reading was paused
    failed: Vec<SocketId>,    // sockets that failed with nobody reading
    pub(crate) due: Vec<SocketId>, // sockets to be read in the next receive
    pub(crate) reading: Vec<SocketId>, // and in this one
    pub(crate) resumed: Vec<SocketId>, // of those: to be asked again without reading
    pub(crate) splices: Vec<SocketId>, // of those: whose bytes go into files
    pub(crate) sending: Vec<SocketId>, // sockets to be written in this turn
    pub(crate) later: Vec<SocketId>, // sockets with a new transmit
    pub(crate) passing: Vec<Passing>, // of those: what goes through pipes
    pub(crate) loads: VecDeque<(SocketId, FileRange)>, // file ranges to be read into memory
    pub(crate) fresh: Vec<SocketId>, // sockets that the selector does not know yet
    pub(crate) executor: Executor,
    pub(crate) quiet: Quiet, // of those: that nobody waits for
    pub(crate) receives: Vec<Op>,
    pub(crate) sends: Vec<Op>,
    pub(crate) block: Block, // every receive of a turn goes here; idle sockets keep nothing
    pub(crate) buffer: Vec<u8>, // short transmits, side by side
    closing: Vec<OwnedFd>,   // to be closed at the end of the turn, in one list
    pub(crate) pipes: Pipes, // for bytes that the engine does not want to see
    pub(crate) pipes_to_sweep: bool, // some may have come back with bytes in them
    pub(crate) throttle: Option<Box<Throttle>>,
    pub(crate) abilities: Abilities,
    pub(crate) loaded: Vec<u8>, // of a file, for a layer or where there is no sendfile
    pub(crate) early: Prediction, // whether what we connect stands at once
    clock: Instant,
    deadline: Option<Instant>, // as the selector was told
    stats: Stats,
}

/// What drove the loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Waits, and what each led to.
    pub turns: u64,
    /// Turns in which nothing was ready.
    pub empty: u64,
    /// Readiness events told.
    pub events: u64,
    /// Turns in which a deadline had passed.
    pub timeouts: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Times that nobody could be accepted for a reason outside of this process: a filter forbids
    /// it, or somebody who has the same socket has ended its listening. It is tried again soon.
    pub refused: u64,
}

impl<E: Engine, S: Selector> Reactor<E, S> {
    /// Drives `engine` with what `selector` tells.
    pub fn new(engine: E, selector: S) -> Self {
        Self {
            engine,
            selector,
            sockets: Sockets::default(),
            listeners: Vec::new(),
            waker: None,
            woken: false,
            foreign: Foreign::default(),
            rest_until: None,
            trim_at: None,
            arrivals: Vec::new(),
            accepts: Vec::new(),
            stood: Vec::new(),
            hung: Vec::new(),
            unread: Vec::new(),
            failed: Vec::new(),
            due: Vec::new(),
            reading: Vec::new(),
            resumed: Vec::new(),
            splices: Vec::new(),
            sending: Vec::new(),
            later: Vec::new(),
            passing: Vec::new(),
            loads: VecDeque::new(),
            fresh: Vec::new(),
            executor: Executor::Direct(None),
            quiet: Quiet::default(),
            receives: Vec::new(),
            sends: Vec::new(),
            block: Block::new(BLOCK_SIZE),
            buffer: Vec::new(),
            closing: Vec::new(),
            pipes: Pipes::default(),
            pipes_to_sweep: false,
            throttle: None,
            abilities: Abilities::NATIVE,
            loaded: Vec::new(),
            early: Prediction::default(),
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
    /// as another process. What it has said so far is read in the next turn, which does not wait.
    pub fn adopt(&mut self, listener: ListenerId, fd: OwnedFd, peer: SocketAddr) {
        let now = sys::now();
        self.act(now); // a place that the engine has freed is not free before its `Close`
        let known = self.listeners.get(listener.0 as usize).and_then(Option::as_ref);
        let reports_local = known.is_some_and(|known| known.reports_local);
        match self.introduce(now, listener, &fd, peer, reports_local) {
            Some(id) => {
                let mut socket = Socket::new(id, fd, Birth::Standing);
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
    fn leave(&mut self, now: Instant) {
        self.act(now);
        self.executor.close(&mut self.closing);
        self.watch_fresh(now);
        self.tell_deadline(now);
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

    /// Notes what the world says; [`Reactor::perform`] acts on it.
    pub(crate) fn note(&mut self, tag: Tag, ready: Ready) {
        self.stats.events += 1;
        match tag {
            Tag::Waker => self.woken = true,
            Tag::Foreign(number) => self.foreign.note(number, ready),
            Tag::Listener(id) if self.arrivals.contains(&id) => {} // it is due anyhow
            Tag::Listener(id) => self.arrivals.push(id),
            Tag::Socket(socket) => self.note_socket(socket, ready),
        }
    }

    fn note_socket(&mut self, id: SocketId, ready: Ready) {
        let Some(socket) = self.sockets.get_mut(id) else { return }; // closed since the wait began
        let connecting = socket.birth == Birth::Connecting;
        let unread = !socket.reading || socket.eof; // nobody would notice
        if ready.failed && (connecting || unread) {
            if !self.failed.contains(&id) {
                self.failed.push(id); // it may be there since the last turn
            }
            return;
        }
        if ready.hangup && unread && !socket.hangup {
            socket.parted = true;
            self.hung.push(id);
        }
        socket.dead |= ready.failed;
        if ready.write && connecting {
            socket.handle_room();
            self.stood.push(id);
        } else if ready.write && socket.handle_room() {
            self.sending.push(id);
        }
        let was_unread = socket.is_unread();
        socket.note(ready);
        if socket.is_unread() && !was_unread {
            self.unread.push(id);
        }
        socket.list(&mut self.due);
    }

    /// Puts a socket on the list of those to be read, if it belongs there.
    pub(crate) fn list(&mut self, id: SocketId) {
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.list(&mut self.due);
        }
    }

    /// Acts on everything that was noted: one turn without its wait.
    pub(crate) fn perform(&mut self, now: Instant) {
        self.clock = now;
        self.stats.turns += 1;
        self.early.begin();
        // First of all: what the engine closes in this turn leaves its place when `act` says so.
        self.accept(now);
        if std::mem::take(&mut self.woken) {
            self.waker.as_ref().expect("only the waker wakes").answer();
            self.engine.handle(now, DriverEvent::Wake);
        }
        self.consult(now);
        self.tell_connected(now);
        self.tell_ended(now);
        self.receive(now);
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.stats.timeouts += 1;
            self.engine.handle(now, DriverEvent::Timeout);
        }
        self.act(now);
        if !self.later.is_empty() {
            self.sending.append(&mut self.later);
        }
        if self.flush(now) {
            self.act(now); // what sending led to; what it wants sent waits for the next turn
        }
        self.executor.close(&mut self.closing);
        self.watch_fresh(now);
        if std::mem::take(&mut self.pipes_to_sweep) {
            self.pipes.sweep();
        }
        if self.trim_at.is_some_and(|time| time <= now) {
            self.give_memory_back();
        }
        self.tell_deadline(now);
    }

    /// A crowd has left: buffers that it has filled go, and what is free goes back to the system.
    fn give_memory_back(&mut self) {
        self.trim_at = None;
        self.block = Block::new(BLOCK_SIZE);
        (self.buffer, self.loaded) = (Vec::new(), Vec::new());
        sys::trim_memory();
    }

    fn tell_connected(&mut self, now: Instant) {
        while let Some(id) = self.stood.pop() {
            // The engine may have closed it after the event.
            let Some(socket) = self.sockets.get_mut(id) else { continue };
            debug_assert_eq!(socket.birth, Birth::Connecting, "a socket connects once");
            // Something to read so early: a peer that speaks first, or an error that the
            // application's loop could not tell from it.
            if socket.readable
                && let Ok(Some(error)) = sys::socket_error(socket.fd.as_fd())
            {
                self.report(now, id, SocketEvent::Failed(error));
                continue;
            }
            socket.birth = Birth::Standing;
            self.report(now, id, SocketEvent::Connected);
            self.sending.push(id); // what was queued before it stood
        }
    }

    /// Reports sockets that ended, failed or received bytes while reading was paused.
    fn tell_ended(&mut self, now: Instant) {
        while let Some(id) = self.hung.pop() {
            self.report(now, id, SocketEvent::Hangup);
            self.update_interest(id);
        }
        while let Some(id) = self.unread.pop() {
            if self.sockets.get(id).is_some_and(Socket::is_unread) {
                self.report(now, id, SocketEvent::Unread);
                self.update_interest(id);
            }
        }
        while let Some(id) = self.failed.pop() {
            if let Some(socket) = self.sockets.get_mut(id) {
                let error = match sys::socket_error(socket.fd.as_fd()) {
                    Ok(Some(error)) | Err(error) => error,
                    // Both have ended, and what the peer said before can still be read.
                    Ok(None) if socket.shut && !socket.eof => {
                        socket.note(Ready { read: true, hangup: true, ..Ready::default() });
                        self.report(now, id, SocketEvent::Hangup);
                        self.relist(id);
                        continue;
                    }
                    Ok(None) if is_dead(socket.fd.as_fd()) => io::ErrorKind::ConnectionReset.into(),
                    Ok(None) => continue, // news of who had the number before
                };
                self.report(now, id, SocketEvent::Failed(error));
            }
        }
    }

    /// Does what the engine asks for; what it wants to send goes on a list. Each answer of the
    /// resolver is told when nothing is left to be done, so that what is given up meanwhile is
    /// not answered.
    #[inline]
    pub(crate) fn act(&mut self, now: Instant) {
        loop {
            while let Some(action) = self.engine.poll_action() {
                self.act_once(now, action);
            }
            let Some(answer) = self.foreign.poll_answer() else { return };
            let addresses = answer.addresses.as_deref().map_err(|error| *error);
            self.engine.handle(now, DriverEvent::Resolved(answer.lookup, addresses));
        }
    }

    #[inline(never)] // mostly there is none
    fn act_once(&mut self, now: Instant, action: Action) {
        match action {
            Action::Transmit { socket } => self.later.push(socket),
            Action::Read { socket, on } => self.set_reading(now, socket, on),
            Action::Connect { socket, endpoint } => self.connect(now, socket, &endpoint),
            Action::Resolve { lookup, name } => self.resolve(now, lookup, &name),
            Action::Abandon { lookup } => self.abandon(now, lookup),
            Action::Shutdown { socket } => {
                if let Some(socket) = self.sockets.get_mut(socket) {
                    socket.shut = true;
                    // Fails only if the peer is gone, which a read tells.
                    let _ = sys::shutdown_write(socket.fd.as_fd());
                }
            }
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
        let Some(socket) = self.sockets.remove(id) else { return }; // it could not be opened
        // Where neither can be done, the peer sees a normal close.
        let _ = match kind {
            CloseKind::Normal => Ok(()),
            CloseKind::Reset => sys::reset_on_close(socket.fd.as_fd()),
            CloseKind::Silent => sys::silence(socket.fd.as_fd()),
        };
        self.pipes_to_sweep = true;
        match &self.executor {
            Executor::Ring(..) if !S::EXTERNAL => self.closing.push(socket.fd),
            Executor::Ring(..) | Executor::Direct(_) => self.selector.retire(socket.fd),
        }
        if self.sockets.shrink() && self.trim_at.is_none() {
            self.trim_at = Some(now + TRIM_AFTER);
        }
    }

    /// Descriptors have run out, but some wait for the end of the turn to be closed: they are now.
    /// True if that may help.
    pub(crate) fn makes_room(&mut self, error: &io::Error) -> bool {
        let ran_out = matches!(error.raw_os_error(), Some(EMFILE | ENFILE));
        let helps = ran_out && !self.closing.is_empty();
        if helps {
            self.executor.close(&mut self.closing);
        }
        helps
    }

    pub(crate) fn admit(&mut self, socket: Socket) {
        if self.abilities.signals == Signals::Option {
            // A connection that is gone already is told by its first read.
            let _ = sys::set_no_signal(socket.fd.as_fd());
        }
        self.fresh.push(socket.id);
        self.sockets.insert(socket);
    }

    /// What was left unread, and what the kernel holds, comes in the next turn.
    fn set_reading(&mut self, now: Instant, id: SocketId, on: bool) {
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.reading = on;
            socket.resumed = on;
            if socket.doubtful {
                socket.readable = on; // a receive finds out; not needed while paused
            }
            // It ended or failed right behind what was read last, and there is no other edge.
            if !on && socket.hangup && !socket.eof && !std::mem::replace(&mut socket.parted, true) {
                match socket.dead {
                    true => self.failed.push(id),
                    false => self.hung.push(id),
                }
            }
            let is_unread = socket.is_unread();
            socket.update_interest(&mut self.selector);
            socket.list(&mut self.due);
            if is_unread {
                // The last receive left bytes in the kernel.
                self.report(now, id, SocketEvent::Unread);
            }
        }
        if on {
            self.rouse(id);
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
        !self.due.is_empty()
            || !self.later.is_empty()
            || !self.loads.is_empty()
            || !self.hung.is_empty()
            || !self.failed.is_empty()
            || !self.arrivals.is_empty()
    }

    fn tell_deadline(&mut self, now: Instant) {
        let deadline = match self.has_work() {
            true => Some(now),
            false => {
                let ours = earliest(self.rest_until, self.foreign.poll_timeout());
                let ours = earliest(self.trim_at, ours);
                let ours = earliest(self.quiet.poll_timeout(&self.sockets), ours);
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
            self.note_tail(tag, self.selector.tail(at));
        }
        self.perform(now);
        Ok(())
    }

    fn note_tail(&mut self, tag: Tag, tail: Tail) {
        if let Tag::Socket(id) = tag
            && tail != Tail::Open
            && let Some(socket) = self.sockets.get_mut(id)
        {
            socket.tail = tail;
        }
    }
}

impl<E> AsFd for Reactor<E, Epoll> {
    /// Readable whenever [`Reactor::try_turn`] has something to do, deadlines aside.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.selector.as_fd()
    }
}

impl<E: Engine> Reactor<E, Changes> {
    /// The application's loop saw `ready` on `fd`. It is trusted, and no call asks the kernel
    /// again. If it is empty, one `poll(2)` finds the readiness.
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

    /// The deadline that was told has come; also the first call, which starts everything.
    pub fn timeout_action(&mut self, now: Instant) {
        self.selector.close_forgotten();
        if self.deadline().is_some_and(|deadline| deadline > now) {
            self.deadline = None; // the application's timer is gone: it is told again
        }
        self.perform(now);
    }

    /// A descriptor that was told, as long as it is open, lent with its lifetime: for ways of
    /// waiting that ask for more than a number, also in order to forget it.
    pub fn descriptor(&self, fd: RawFd) -> Option<BorrowedFd<'_>> {
        self.selector.retired(fd).or_else(|| self.watched(fd))
    }

    fn watched(&self, fd: RawFd) -> Option<BorrowedFd<'_>> {
        match self.selector.tag(fd)? {
            Tag::Socket(socket) => Some(self.sockets.get(socket)?.fd.as_fd()),
            Tag::Listener(ListenerId(number)) => {
                Some(self.listeners.get(number as usize)?.as_ref()?.fd.as_fd())
            }
            Tag::Waker => Some(self.waker.as_ref()?.as_fd()),
            Tag::Foreign(number) => self.foreign.fd(number),
        }
    }

    /// The next thing that the application's loop has to know; asked after every action until
    /// there is none.
    pub fn poll_change(&mut self) -> Option<Change> {
        self.selector.poll()
    }
}

impl<E, S> Drop for Reactor<E, S> {
    fn drop(&mut self) {
        self.sockets.drain().for_each(|socket| sys::close(socket.fd));
        self.closing.drain(..).for_each(sys::close);
        self.listeners.drain(..).flatten().for_each(|listener| sys::close(listener.fd));
        self.pipes.close();
        self.foreign.close();
    }
}

/// Asks again, where an application's event may be about an earlier tenant of the descriptor.
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

/// How long after a crowd began to leave its memory is given back: most of it is gone by then, and
/// it does not happen more often.
const TRIM_AFTER: Duration = Duration::from_secs(1);
pub(crate) const READ: Interest = Interest { read: true, write: false, hangup: false };
