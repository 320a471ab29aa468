//! One engine in two worlds: our own loop, and an application's loop around `poll(2)`.
//!
//! Both run in the thread of the test, a turn at a time, so that nothing has to be waited for.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, RawFd};
use std::time::{Duration, Instant};

use fulmar_drive::{
    Change, Changes, Epoll, Interest, ListenOptions, Reactor, Ready, Stats, listen,
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

    /// Uses the engine between two turns.
    fn with<O>(&mut self, act: impl FnOnce(&mut Self::Engine, Instant) -> O) -> O;

    /// Waits for at most `max`, then handles what is ready.
    fn turn(&mut self, max: Duration);

    /// What drove it.
    fn stats(&self) -> Stats;

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

    fn with<O>(&mut self, act: impl FnOnce(&mut E, Instant) -> O) -> O {
        self.0.with(act)
    }

    fn turn(&mut self, max: Duration) {
        // One pollable descriptor and a deadline: the whole reactor as somebody else's event.
        let wait = until(self.0.deadline()).map_or(max, |left| left.min(max));
        let mut fds = [PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN)];
        poll(&mut fds, Some(&timespec(wait))).expect("poll(2)");
        self.0.try_turn().expect("a turn");
    }

    fn stats(&self) -> Stats {
        self.0.stats()
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
    deadline: Option<Instant>,
}

impl<E: Engine> AppLoop<E> {
    /// Hears of changes. A descriptor is open when it is forgotten, and known.
    fn listen_to_changes(&mut self) {
        while let Some(change) = self.reactor.poll_change() {
            self.changes.push(change);
            match change {
                Change::Watch { fd, interest } => {
                    assert!(is_open(fd), "a descriptor that is watched is open");
                    let told = self.watched.insert(fd, interest);
                    assert_ne!(told, Some(interest), "a change that changes nothing");
                }
                Change::Forget { fd } => {
                    assert!(is_open(fd), "a descriptor is forgotten before it is closed");
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
        let mut this = Self { reactor, watched, changes, deadline: None };
        this.listen_to_changes();
        (this, address)
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
        for (fd, ready) in self.ready_now(wait) {
            // Also for a descriptor that was forgotten meanwhile: applications do that.
            self.reactor.socket_action(sys::now(), fd, ready);
            self.listen_to_changes();
        }
        if until(self.deadline).is_some_and(|left| left.is_zero()) {
            self.deadline = None; // it is told once, and replaced
            self.reactor.timeout_action(sys::now());
            self.listen_to_changes();
        }
    }

    fn stats(&self) -> Stats {
        self.reactor.stats()
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

fn is_open(fd: RawFd) -> bool {
    std::fs::symlink_metadata(format!("/proc/self/fd/{fd}")).is_ok()
}
