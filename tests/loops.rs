//! One engine in two worlds: our own loop, and an application's loop around `poll(2)`.
//!
//! Both run in the thread of the test, a turn at a time, so that nothing has to be waited for.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fulmar_drive::{
    Change, Changes, Epoll, Interest, ListenOptions, Reactor, Ready, Resolver, Stats, listen,
};
use fulmar_engine::{Engine, ListenerId};
use fulmar_sys as sys;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A loop that drives an engine.
pub trait Loop {
    /// What is driven.
    type Engine: Engine;

    /// A loop with a listener on loopback.
    fn start(engine: Self::Engine) -> (Self, SocketAddr)
    where
        Self: Sized;

    /// What is driven.
    fn engine(&mut self) -> &mut Self::Engine;

    /// Waits for at most `max`, then handles what is ready.
    fn turn(&mut self, max: Duration);

    /// A turn for what the engine has in mind, which no event tells.
    fn kick(&mut self);

    /// What drove it.
    fn stats(&self) -> Stats;

    /// Gives the reactor its resolver.
    fn set_resolver(&mut self, resolver: Box<dyn Resolver>);

    /// The deadline of the reactor.
    fn deadline(&self) -> Option<Instant>;

    /// The descriptors that are watched; all are open.
    fn watched(&self) -> Vec<RawFd>;

    /// Turns until `done`, for at most ten seconds.
    ///
    /// # Panics
    /// If that is not enough.
    fn turn_until(&mut self, mut done: impl FnMut(&mut Self) -> bool)
    where
        Self: Sized,
    {
        let start = sys::now();
        while !done(self) {
            assert!(sys::now() - start < Duration::from_secs(10), "nothing happens any more");
            self.turn(Duration::from_millis(20));
        }
    }
}

/// The listener that `start` makes.
pub const LISTENER: ListenerId = ListenerId(0);

/// Our own loop: edge-triggered epoll.
#[derive(Debug)]
pub struct OwnLoop<E>(pub Reactor<E, Epoll>);

impl<E: Engine> Loop for OwnLoop<E> {
    type Engine = E;

    fn start(engine: E) -> (Self, SocketAddr) {
        let (listener, address) = loopback();
        let mut reactor = Reactor::new(engine, Epoll::new().expect("a descriptor"));
        reactor.listen(listener).expect("a listener");
        (Self(reactor), address)
    }

    fn engine(&mut self) -> &mut E {
        &mut self.0.engine
    }

    fn turn(&mut self, max: Duration) {
        // One pollable descriptor and a deadline: the whole reactor as somebody else's event.
        let wait = until(self.0.deadline()).map_or(max, |left| left.min(max));
        let mut fds = [PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN)];
        poll(&mut fds, Some(&timespec(wait))).expect("poll(2)");
        self.kick();
    }

    fn kick(&mut self) {
        self.0.try_turn().expect("a turn");
    }

    fn stats(&self) -> Stats {
        self.0.stats()
    }

    fn set_resolver(&mut self, resolver: Box<dyn Resolver>) {
        self.0.set_resolver(resolver);
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.deadline()
    }

    /// The kernel's own list (proc(5)).
    fn watched(&self) -> Vec<RawFd> {
        let path = format!("/proc/self/fdinfo/{}", self.0.as_fd().as_raw_fd());
        let text = std::fs::read_to_string(path).expect("there is a /proc");
        let lines = text.lines().filter_map(|line| line.strip_prefix("tfd:"));
        let number = |line: &str| line.split_whitespace().next()?.parse().ok();
        let fds: Vec<RawFd> = lines.filter_map(number).collect();
        assert!(fds.iter().all(|fd| identity(*fd).is_some()), "a registration outlives its number");
        fds
    }
}

/// An application's loop, level-triggered, which believes what it is told and checks it.
#[derive(Debug)]
pub struct AppLoop<E> {
    /// The reactor.
    pub reactor: Reactor<E, Changes>,
    /// What the application was told to wait for.
    pub watched: BTreeMap<RawFd, Interest>,
    /// Every change, in order.
    pub changes: Vec<Change>,
    identities: BTreeMap<RawFd, PathBuf>, // of what is watched
    deadline: Option<Instant>,
}

impl<E: Engine> AppLoop<E> {
    /// Hears of changes. A descriptor is open when it is forgotten, and still what it was.
    pub fn listen_to_changes(&mut self) {
        while let Some(change) = self.reactor.poll_change() {
            self.changes.push(change);
            match change {
                Change::Watch { fd, interest } => {
                    let identity = identity(fd).expect("a descriptor that is watched is open");
                    let before = self.identities.insert(fd, identity.clone());
                    assert!(before.is_none_or(|before| before == identity), "it was forgotten");
                    let told = self.watched.insert(fd, interest);
                    assert_ne!(told, Some(interest), "a change that changes nothing");
                }
                Change::Forget { fd } => {
                    let identity = identity(fd);
                    assert!(identity.is_some(), "a descriptor is forgotten before it is closed");
                    assert_eq!(self.identities.remove(&fd), identity, "and before it is another");
                    assert!(self.watched.remove(&fd).is_some(), "only what was told is forgotten");
                }
                Change::Timer { deadline } => self.deadline = deadline,
            }
        }
    }

    fn ready_now(&self, max: Duration) -> Vec<(RawFd, Ready)> {
        let entry = |(fd, interest): (&RawFd, &Interest)| {
            let fd = self.reactor.descriptor(*fd).expect("what is watched is known");
            PollFd::from_borrowed_fd(fd, flags(*interest))
        };
        let mut polled: Vec<_> = self.watched.iter().map(entry).collect();
        poll(&mut polled, Some(&timespec(max))).expect("poll(2)");
        let ready = |(fd, flags): (RawFd, PollFlags)| {
            let hangup = flags.intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR);
            let failed = flags.intersects(PollFlags::HUP | PollFlags::ERR);
            let read = flags.contains(PollFlags::IN) || hangup;
            (fd, Ready { read, write: flags.contains(PollFlags::OUT), hangup, failed })
        };
        let events = self.watched.keys().zip(&polled).map(|(fd, entry)| (*fd, entry.revents()));
        events.filter(|(_, flags)| !flags.is_empty()).map(ready).collect()
    }
}

impl<E: Engine> Loop for AppLoop<E> {
    type Engine = E;

    fn start(engine: E) -> (Self, SocketAddr) {
        let (listener, address) = loopback();
        let mut reactor = Reactor::new(engine, Changes::new());
        reactor.listen(listener).expect("a listener");
        let (watched, changes) = (BTreeMap::new(), Vec::new());
        let identities = BTreeMap::new();
        let mut this = Self { reactor, watched, changes, identities, deadline: None };
        this.listen_to_changes();
        (this, address)
    }

    fn engine(&mut self) -> &mut E {
        &mut self.reactor.engine
    }

    fn turn(&mut self, max: Duration) {
        let wait = until(self.deadline).map_or(max, |left| left.min(max));
        for (fd, ready) in self.ready_now(wait) {
            // Also for a descriptor that was forgotten meanwhile: applications do that.
            self.reactor.socket_action(sys::now(), fd, ready);
            self.listen_to_changes();
        }
        if until(self.deadline).is_some_and(|left| left.is_zero()) {
            self.deadline = None; // it is told once, and replaced
            self.kick();
        }
    }

    fn kick(&mut self) {
        self.reactor.timeout_action(sys::now());
        self.listen_to_changes();
    }

    fn stats(&self) -> Stats {
        self.reactor.stats()
    }

    fn set_resolver(&mut self, resolver: Box<dyn Resolver>) {
        self.reactor.set_resolver(resolver);
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn watched(&self) -> Vec<RawFd> {
        self.watched.keys().copied().collect()
    }
}

/// A client's socket: blocking, with a limit to every wait.
///
/// # Panics
/// If nobody listens.
pub fn client(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("somebody listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    stream
}

fn loopback() -> (std::os::fd::OwnedFd, SocketAddr) {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    listen(any, ListenOptions::default()).expect("a port on loopback")
}

fn until(deadline: Option<Instant>) -> Option<Duration> {
    deadline.map(|time| time.saturating_duration_since(sys::now()))
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs().cast_signed(), tv_nsec: duration.subsec_nanos().into() }
}

fn flags(interest: Interest) -> PollFlags {
    let mut flags = PollFlags::RDHUP;
    flags.set(PollFlags::IN, interest.read);
    flags.set(PollFlags::OUT, interest.write);
    if !interest.read {
        flags.remove(PollFlags::RDHUP); // level-triggered: it would never be quiet
    }
    flags
}

/// What an open descriptor is: a socket's text has its inode (proc(5)).
fn identity(fd: RawFd) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()
}
