//! One engine in our own loops (epoll, with and without a ring, and poll) and in an application's
//! loop around its own epoll, which may be level-triggered, edge-triggered or one-shot.
//!
//! Both run in the thread of the test, a turn at a time, so that no wait is needed.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fulmar_drive::{
    AnySelector, Change, Driver, ExternalLoop, Interest, ListenOptions, LoopOptions, Portions,
    Reactor, Ready, Resolver, Spin, Stats, Waker, listen,
};
use fulmar_engine::{Engine, ListenerId};
use fulmar_sys::{self as sys, Call, Ledger, Operation};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::process::PATIENCE;

/// A loop that drives an engine.
pub trait Loop {
    /// What is driven.
    type Engine: Engine;

    /// The factor by which this loop moves fewer bytes at a time: tests divide their sizes by it.
    const SLOWER: usize = 1;

    /// A loop with a listener on loopback.
    fn start(engine: Self::Engine) -> (Self, SocketAddr)
    where
        Self: Sized;

    /// What is driven.
    fn engine(&mut self) -> &mut Self::Engine;

    /// Uses the engine between two turns.
    fn with<O>(&mut self, act: impl FnOnce(&mut Self::Engine, Instant) -> O) -> O;

    /// Waits for at most `max`, then handles what is ready.
    fn turn(&mut self, max: Duration);

    /// Performs the pending actions of the engine, which no event announces.
    fn kick(&mut self) {
        self.with(|_, _| ());
    }

    /// What drove it.
    fn stats(&self) -> Stats;

    /// See [`Reactor::set_portions`].
    fn set_portions(&mut self, portions: Portions);

    /// See [`Reactor::adopt`]: a connection as from the listener that `start` makes.
    fn adopt(&mut self, fd: OwnedFd, peer: SocketAddr);

    /// Gives the reactor its resolver.
    fn set_resolver(&mut self, resolver: Box<dyn Resolver>);

    /// Wakes the reactor from other threads.
    fn waker(&mut self) -> Waker;

    /// The deadline of the reactor.
    fn deadline(&self) -> Option<Instant>;

    /// The descriptors that are watched; all are open.
    fn watched(&self) -> Vec<RawFd>;

    /// Turns until `done`, for at most [`PATIENCE`].
    ///
    /// # Panics
    /// If that is not enough.
    fn turn_until(&mut self, mut done: impl FnMut(&mut Self) -> bool)
    where
        Self: Sized,
    {
        let start = sys::now();
        while !done(self) {
            assert!(sys::now() - start < PATIENCE, "nothing happens any more");
            self.turn(Duration::from_millis(20));
        }
    }
}

/// The listener that `start` makes.
pub const LISTENER: ListenerId = ListenerId(0);

/// The options from the environment (`FULMAR_DRIVER`, `FULMAR_SPIN`), so that tests which do not
/// run in every loop can run with a ring too.
///
/// # Panics
/// It wants what there is not.
pub fn requested_options() -> LoopOptions {
    LoopOptions::from_environment().expect("the environment is in order")
}

/// The number of these operations, by calls or in a ring.
pub fn done(spent: &Ledger, call: Call) -> u64 {
    let in_ring = match call {
        Call::accept4 => spent.operation(Operation::accept).calls,
        Call::recv => spent.operation(Operation::recv).calls,
        Call::send => spent.operation(Operation::send).calls,
        Call::close => spent.operation(Operation::close).calls,
        _ => 0,
    };
    spent.count(call).calls + in_ring
}

/// Polls without an event: they precede a sleep if polling is enabled.
pub fn polling(spent: &Ledger) -> u64 {
    let calls = [Call::epoll_wait_empty, Call::sched_yield, Call::getrusage];
    calls.iter().map(|call| spent.count(*call).calls).sum()
}

/// Our own loop: edge-triggered epoll, and each operation is a call, unless the environment names
/// another driver: see [`requested_options`].
#[derive(Debug)]
pub struct OwnLoop<E>(pub Reactor<E, AnySelector>);

impl<E: Engine> OwnLoop<E> {
    /// A loop with a listener on loopback in which each operation is a call, whatever the
    /// environment: for tests that count calls.
    pub fn by_calls(engine: E) -> (Self, SocketAddr) {
        Self::over(engine, LoopOptions { driver: Driver::Epoll, spin: Spin::Off })
    }

    fn over(engine: E, options: LoopOptions) -> (Self, SocketAddr) {
        let (listener, address) = loopback();
        let mut reactor = Reactor::with_options(engine, options).expect("descriptors");
        reactor.listen(listener).expect("a listener");
        (Self(reactor), address)
    }
}

impl<E: Engine> Loop for OwnLoop<E> {
    type Engine = E;

    fn start(engine: E) -> (Self, SocketAddr) {
        let asked = requested_options();
        let driver = match asked.driver {
            // so that counts do not depend on the number of connections
            Driver::Auto => Driver::Epoll,
            driver => driver,
        };
        Self::over(engine, LoopOptions { driver, ..asked })
    }

    fn engine(&mut self) -> &mut E {
        &mut self.0.engine
    }

    fn with<O>(&mut self, act: impl FnOnce(&mut E, Instant) -> O) -> O {
        self.0.with(act)
    }

    fn turn(&mut self, max: Duration) {
        // A turn that does not wait does not poll before sleeping either.
        let sleeps = self.0.driver_info().spin == Spin::Off;
        let Some(epoll) = self.0.selector().epoll_fd().filter(|_| sleeps) else {
            return self.0.turn_within(max).expect("a turn");
        };
        // One pollable descriptor and a deadline: the whole reactor as one event of another loop.
        let wait = until(self.0.deadline()).map_or(max, |left| left.min(max));
        let mut fds = [PollFd::from_borrowed_fd(epoll, PollFlags::IN)];
        poll(&mut fds, Some(&timespec(wait))).expect("poll(2)");
        self.0.try_turn().expect("a turn");
    }

    fn stats(&self) -> Stats {
        self.0.stats()
    }

    fn set_portions(&mut self, portions: Portions) {
        self.0.set_portions(portions);
    }

    fn adopt(&mut self, fd: OwnedFd, peer: SocketAddr) {
        self.0.adopt(LISTENER, fd, peer);
    }

    fn set_resolver(&mut self, resolver: Box<dyn Resolver>) {
        self.0.set_resolver(resolver);
    }

    fn waker(&mut self) -> Waker {
        self.0.waker().expect("a descriptor")
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.deadline()
    }

    /// With epoll, the kernel's own list (proc(5)).
    fn watched(&self) -> Vec<RawFd> {
        let selector = self.0.selector();
        let fds = selector.descriptors().unwrap_or_else(|| {
            let epoll = selector.epoll_fd().expect("it is epoll or poll");
            let path = format!("/proc/self/fdinfo/{}", epoll.as_raw_fd());
            let text = std::fs::read_to_string(path).expect("there is a /proc");
            let lines = text.lines().filter_map(|line| line.strip_prefix("tfd:"));
            lines.filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect()
        });
        assert!(fds.iter().all(|fd| identity(*fd).is_some()), "a registration outlives its number");
        fds
    }
}

/// False where io_uring is forbidden, as in many containers.
///
/// # Panics
/// The ring fails for another reason.
pub fn has_ring() -> bool {
    use std::io::ErrorKind::{PermissionDenied, Unsupported};
    let refused = sys::Ring::new().err().map(|error| error.kind());
    assert!(matches!(refused, None | Some(PermissionDenied | Unsupported)), "{refused:?}");
    refused.is_none()
}

/// The options of a [`DriverLoop`].
pub trait ChosenDriver: Debug {
    /// How the loop works.
    fn options() -> LoopOptions;
}

/// A ring for every list, if there is one, and polling before sleeping.
#[derive(Debug)]
pub struct EveryListInRing;

/// Level-triggered epoll.
#[derive(Debug)]
pub struct OwnLevel;

/// `poll(2)`.
#[derive(Debug)]
pub struct OwnPoll;

impl ChosenDriver for EveryListInRing {
    fn options() -> LoopOptions {
        let driver = if has_ring() { Driver::Ring { len_min: 1 } } else { Driver::Epoll };
        LoopOptions { driver, spin: Spin::Auto }
    }
}

impl ChosenDriver for OwnLevel {
    fn options() -> LoopOptions {
        LoopOptions { driver: Driver::Level, spin: Spin::Off }
    }
}

impl ChosenDriver for OwnPoll {
    fn options() -> LoopOptions {
        LoopOptions { driver: Driver::Poll, spin: Spin::Off }
    }
}

/// Our own loop with a driver of its own, whatever the environment names.
#[derive(Debug)]
pub struct DriverLoop<E, D>(OwnLoop<E>, PhantomData<D>);

/// See [`EveryListInRing`].
pub type RingLoop<E> = DriverLoop<E, EveryListInRing>;
/// See [`OwnLevel`].
pub type LevelLoop<E> = DriverLoop<E, OwnLevel>;
/// See [`OwnPoll`].
pub type PollLoop<E> = DriverLoop<E, OwnPoll>;

impl<E: Engine, D: ChosenDriver> Loop for DriverLoop<E, D> {
    type Engine = E;

    fn start(engine: E) -> (Self, SocketAddr) {
        let (own, address) = OwnLoop::over(engine, D::options());
        (Self(own, PhantomData), address)
    }

    fn engine(&mut self) -> &mut E {
        self.0.engine()
    }

    fn with<O>(&mut self, act: impl FnOnce(&mut E, Instant) -> O) -> O {
        self.0.with(act)
    }

    fn turn(&mut self, max: Duration) {
        self.0.0.turn_within(max).expect("a turn");
    }

    fn stats(&self) -> Stats {
        self.0.stats()
    }

    fn set_portions(&mut self, portions: Portions) {
        self.0.set_portions(portions);
    }

    fn adopt(&mut self, fd: OwnedFd, peer: SocketAddr) {
        self.0.adopt(fd, peer);
    }

    fn set_resolver(&mut self, resolver: Box<dyn Resolver>) {
        self.0.set_resolver(resolver);
    }

    fn waker(&mut self) -> Waker {
        self.0.waker()
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.deadline()
    }

    fn watched(&self) -> Vec<RawFd> {
        self.0.watched()
    }
}

/// A loop that moves one byte at a time, and sometimes none.
#[derive(Debug)]
pub struct Bytewise<L>(L);

impl<L: Loop> Loop for Bytewise<L> {
    type Engine = L::Engine;

    const SLOWER: usize = 1_000;

    fn start(engine: L::Engine) -> (Self, SocketAddr) {
        let (mut inner, address) = L::start(engine);
        inner.set_portions(Portions { receive: 1, send: 1, again: 100, seed: 60 });
        (Self(inner), address)
    }

    fn engine(&mut self) -> &mut L::Engine {
        self.0.engine()
    }

    fn with<O>(&mut self, act: impl FnOnce(&mut L::Engine, Instant) -> O) -> O {
        self.0.with(act)
    }

    fn turn(&mut self, max: Duration) {
        self.0.turn(max);
    }

    fn stats(&self) -> Stats {
        self.0.stats()
    }

    fn set_portions(&mut self, portions: Portions) {
        self.0.set_portions(portions);
    }

    fn adopt(&mut self, fd: OwnedFd, peer: SocketAddr) {
        self.0.adopt(fd, peer);
    }

    fn set_resolver(&mut self, resolver: Box<dyn Resolver>) {
        self.0.set_resolver(resolver);
    }

    fn waker(&mut self) -> Waker {
        self.0.waker()
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.deadline()
    }

    fn watched(&self) -> Vec<RawFd> {
        self.0.watched()
    }
}

/// The notification mode of an application's epoll.
pub trait TriggerMode: Debug {
    /// Flags of every registration.
    const FLAGS: EventFlags;
    /// Whether a descriptor is registered again after each of its events.
    const REARMS: bool = false;
    /// Whether changes of interest are applied; otherwise every event is always enabled.
    const CHANGES: bool = true;

    /// The collector of changes for such a loop.
    fn changes() -> ExternalLoop {
        let is_edge = Self::FLAGS.contains(EventFlags::ET);
        if is_edge { ExternalLoop::new() } else { ExternalLoop::level_triggered() }
    }
}

/// As `poll(2)`: while the condition holds.
#[derive(Debug)]
pub struct LevelTriggered;

/// `EPOLLET`.
#[derive(Debug)]
pub struct Edge;

/// `EPOLLONESHOT`.
#[derive(Debug)]
pub struct OneShot;

/// `EPOLLET`, registered once for everything.
#[derive(Debug)]
pub struct Once;

impl TriggerMode for LevelTriggered {
    const FLAGS: EventFlags = EventFlags::empty();
}

impl TriggerMode for Edge {
    const FLAGS: EventFlags = EventFlags::ET;
}

impl TriggerMode for OneShot {
    const FLAGS: EventFlags = EventFlags::ONESHOT;
    const REARMS: bool = true;
}

impl TriggerMode for Once {
    const FLAGS: EventFlags = EventFlags::ET;
    const CHANGES: bool = false;
}

/// An application's loop, which applies and checks every change: each becomes a call for its own
/// epoll, which refuses a wrong one.
#[derive(Debug)]
pub struct AppLoop<E, T = LevelTriggered> {
    /// The reactor.
    pub reactor: Reactor<E, ExternalLoop>,
    /// The interests that were reported to the application.
    pub watched: BTreeMap<RawFd, Interest>,
    /// Every change, in order.
    pub changes: Vec<Change>,
    epoll: OwnedFd,
    identities: BTreeMap<RawFd, PathBuf>, // of what is watched
    deadline: Option<Instant>,
    portioned: bool,
    trigger: PhantomData<T>,
}

impl<E: Engine, T: TriggerMode> AppLoop<E, T> {
    /// Drives a reactor.
    ///
    /// # Panics
    /// If there are no more descriptors.
    pub fn new(reactor: Reactor<E, ExternalLoop>) -> Self {
        let mut this = Self {
            reactor,
            watched: BTreeMap::new(),
            identities: BTreeMap::new(),
            changes: Vec::new(),
            epoll: epoll::create(CreateFlags::CLOEXEC).expect("a descriptor"),
            deadline: None,
            portioned: false,
            trigger: PhantomData,
        };
        this.listen_to_changes();
        this
    }

    /// Receives changes.
    ///
    /// # Panics
    /// A change is out of order: a descriptor is watched, changed, and forgotten once, all of this
    /// while it is open.
    pub fn listen_to_changes(&mut self) {
        while let Some(change) = self.reactor.poll_change() {
            self.changes.push(change);
            match change {
                Change::Watch { fd, interest, .. } => self.watch(fd, interest),
                Change::Forget { fd, .. } => {
                    let identity = identity(fd);
                    assert!(identity.is_some(), "a descriptor is forgotten before it is closed");
                    assert_eq!(self.identities.remove(&fd), identity, "and before it is another");
                    assert!(self.watched.remove(&fd).is_some(), "only what was told is forgotten");
                    let fd = self.reactor.descriptor(fd).expect("it is forgotten while it is open");
                    epoll::delete(&self.epoll, fd).expect("it was registered");
                }
                Change::Timer { deadline } => self.deadline = deadline,
            }
        }
    }

    fn watch(&mut self, fd: RawFd, interest: Interest) {
        let identity = identity(fd).expect("a descriptor that is watched is open");
        let before = self.identities.insert(fd, identity.clone());
        assert!(before.is_none_or(|before| before == identity), "it was forgotten");
        let told = self.watched.insert(fd, interest);
        let open = self.reactor.descriptor(fd).expect("what is watched is known and open");
        let (data, flags) = (data(fd), flags::<T>(interest));
        match told {
            None => epoll::add(&self.epoll, open, data, flags).expect("it is new"),
            Some(told) => {
                assert!(self.portioned || told != interest, "a change that changes nothing");
                if T::CHANGES {
                    epoll::modify(&self.epoll, open, data, flags).expect("it is registered");
                }
            }
        }
    }

    /// The ready descriptors after at most `max`.
    ///
    /// # Panics
    /// If the wait fails.
    pub fn wait(&self, max: Duration) -> Vec<(RawFd, Ready)> {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 64];
        let n = match epoll::wait(&self.epoll, &mut events, Some(&timespec(max))) {
            Err(Errno::INTR) => 0, // a stop and a continue are enough (signal(7))
            n => n.expect("epoll_wait(2)"),
        };
        events[..n].iter().map(ready).collect()
    }

    /// Passes one event on, and applies the changes that follow.
    pub fn notify(&mut self, fd: RawFd, ready: Ready) {
        self.reactor.socket_action(sys::now(), fd, ready);
        self.listen_to_changes();
        if T::REARMS
            && let Some(interest) = self.watched.get(&fd)
        {
            let open = self.reactor.descriptor(fd).expect("what is watched is known and open");
            epoll::modify(&self.epoll, open, data(fd), flags::<T>(*interest)).expect("registered");
        }
    }
}

impl<E: Engine, T: TriggerMode> Loop for AppLoop<E, T> {
    type Engine = E;

    fn start(engine: E) -> (Self, SocketAddr) {
        let (listener, address) = loopback();
        let mut reactor = Reactor::new(engine, T::changes());
        reactor.listen(listener).expect("a listener");
        (Self::new(reactor), address)
    }

    fn engine(&mut self) -> &mut E {
        &mut self.reactor.engine
    }

    fn with<O>(&mut self, act: impl FnOnce(&mut E, Instant) -> O) -> O {
        let out = self.reactor.with(act);
        self.listen_to_changes();
        out
    }

    fn turn(&mut self, max: Duration) {
        let wait = until(self.deadline).map_or(max, |left| left.min(max));
        for (fd, ready) in self.wait(wait) {
            // Also for a descriptor that was forgotten meanwhile, as applications do.
            self.notify(fd, ready);
        }
        if until(self.deadline).is_some_and(|left| left.is_zero()) {
            self.deadline = None; // it is reported once, and replaced
            self.reactor.timeout_action(sys::now());
            self.listen_to_changes();
        }
    }

    fn stats(&self) -> Stats {
        self.reactor.stats()
    }

    fn set_portions(&mut self, portions: Portions) {
        self.portioned = true;
        self.reactor.set_portions(portions);
    }

    fn adopt(&mut self, fd: OwnedFd, peer: SocketAddr) {
        self.reactor.adopt(LISTENER, fd, peer);
        self.listen_to_changes();
    }

    fn set_resolver(&mut self, resolver: Box<dyn Resolver>) {
        self.reactor.set_resolver(resolver);
    }

    fn waker(&mut self) -> Waker {
        let waker = self.reactor.waker().expect("a descriptor");
        self.listen_to_changes();
        waker
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn watched(&self) -> Vec<RawFd> {
        self.watched.keys().copied().collect()
    }
}

/// Turns `driver` in this thread while `peer` runs in another.
///
/// # Panics
/// `peer` panics, or it does not end in time.
pub fn turn_while<L: Loop, T: Send>(driver: &mut L, peer: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let peer = scope.spawn(peer);
        driver.turn_until(|_| peer.is_finished());
        peer.join().expect("the peer's assertions hold")
    })
}

/// Lets time pass; returns the number of wake-ups, and of all system calls.
pub fn idle<L: Loop>(driver: &mut L, wall: Duration) -> (u32, u64) {
    let (before, start) = (Ledger::here(), sys::now());
    let mut turns = 0;
    while let Some(left) = wall.checked_sub(sys::now() - start).filter(|left| !left.is_zero()) {
        driver.turn(left);
        turns += 1;
    }
    (turns, (Ledger::here() - before).total())
}

/// Turns until nothing happens for a while.
///
/// # Panics
/// It never ends.
pub fn settle<L: Loop>(driver: &mut L) {
    for _ in 0..100 {
        // One turn proves nothing: on a busy machine it may take all of the time.
        let before = driver.stats().events;
        let (turns, _) = idle(driver, Duration::from_millis(100));
        if turns <= 1 && driver.stats().events == before {
            return;
        }
    }
    panic!("it never settles");
}

/// No event but the end of the wait itself: a loop that wakes again and again does so in every
/// period, whereas pending work of the kernel on a busy machine ends.
///
/// # Panics
/// There are events in each of several periods.
pub fn assert_quiet<L: Loop>(driver: &mut L, wall: Duration) {
    let mut stretches = (0..10).map(|_| idle(driver, wall));
    let is_quiet = |(turns, calls): &(u32, u64)| *turns <= 2 && *calls <= 2;
    assert!(stretches.any(|it| is_quiet(&it)), "something happens in every {wall:?} of waiting");
}

/// Runs checks at the same time, each in a thread of its name.
///
/// # Panics
/// One of them panics, or no thread can be started.
pub fn side_by_side(checks: &[(&str, fn())]) {
    std::thread::scope(|scope| {
        for (name, check) in checks {
            let thread = std::thread::Builder::new().name((*name).to_owned());
            thread.spawn_scoped(scope, check).expect("a thread");
        }
    });
}

/// Prints the case and the loop that come next: the context of a failure.
pub fn print_case(case: impl std::fmt::Display) {
    let thread = std::thread::current();
    eprintln!("{}: {case}", thread.name().unwrap_or_default());
}

/// A client's socket: blocking, with a limit to every wait.
///
/// # Panics
/// Connection refused.
pub fn client(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("somebody listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

fn loopback() -> (OwnedFd, SocketAddr) {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    listen(any, ListenOptions::default()).expect("a port on loopback")
}

fn until(deadline: Option<Instant>) -> Option<Duration> {
    deadline.map(|time| time.saturating_duration_since(sys::now()))
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs().cast_signed(), tv_nsec: duration.subsec_nanos().into() }
}

fn data(fd: RawFd) -> EventData {
    EventData::new_u64(u64::try_from(fd).expect("descriptors are not negative"))
}

fn flags<T: TriggerMode>(interest: Interest) -> EventFlags {
    let everything = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP;
    let mut flags = if T::CHANGES { EventFlags::empty() } else { everything };
    if interest.read {
        flags |= EventFlags::IN;
    }
    if interest.write {
        flags |= EventFlags::OUT;
    }
    if interest.hangup {
        flags |= EventFlags::RDHUP;
    }
    flags | T::FLAGS
}

fn ready(event: &Event) -> (RawFd, Ready) {
    let (flags, data) = (event.flags, event.data);
    let failed = flags.intersects(EventFlags::HUP | EventFlags::ERR);
    let hangup = failed || flags.contains(EventFlags::RDHUP);
    let read = hangup || flags.contains(EventFlags::IN);
    let fd = RawFd::try_from(data.u64()).expect("as it was registered");
    (fd, Ready { read, write: flags.contains(EventFlags::OUT), hangup, failed })
}

/// The identity of an open descriptor: the text of a socket contains its inode (proc(5)).
fn identity(fd: RawFd) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()
}
