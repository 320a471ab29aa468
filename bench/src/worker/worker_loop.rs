//! The loops in which workers drive fulmar's client: its own, with any driver, and one of an
//! application, as programs around `curl_multi_socket_action` have it.

use std::error::Error;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use fulmar_client::{Application, Client};
use fulmar_drive::{
    AnySelector, Change, Driver, ExternalLoop, Interest, LoopOptions, Reactor, Ready, Spin,
};
use fulmar_sys::{self as sys, EpollEvent, Events};

use super::flags::WorkerFlags;

/// A client in the loop that `--loop` names.
#[derive(Debug)]
pub(crate) enum WorkerLoop<A: Application> {
    /// The reactor waits.
    Own(Box<Reactor<Client<A>, AnySelector>>),
    /// The application waits.
    Application(Box<ApplicationLoop<A>>),
}

impl<A: Application> WorkerLoop<A> {
    /// `--loop`: a driver (default: `epoll`), `application` or `no-mask`.
    pub(crate) fn new(flags: &WorkerFlags, client: Client<A>) -> Result<Self, Box<dyn Error>> {
        let name = flags.get::<String>("--loop")?;
        Ok(match name.as_deref().unwrap_or("epoll") {
            "application" => Self::Application(ApplicationLoop::new(client, true)?.into()),
            "no-mask" => Self::Application(ApplicationLoop::new(client, false)?.into()),
            driver => {
                let driver: Driver = driver.parse().map_err(|error| format!("--loop: {error}"))?;
                let options = LoopOptions { driver, spin: Spin::Off };
                Self::Own(Reactor::with_options(client, options)?.into())
            }
        })
    }

    pub(crate) fn client(&self) -> &Client<A> {
        match self {
            Self::Own(reactor) => &reactor.engine,
            Self::Application(application) => &application.reactor.engine,
        }
    }

    pub(crate) fn client_mut(&mut self) -> &mut Client<A> {
        match self {
            Self::Own(reactor) => &mut reactor.engine,
            Self::Application(application) => &mut application.reactor.engine,
        }
    }

    /// Uses the client between two turns.
    pub(crate) fn with<O>(&mut self, act: impl FnOnce(&mut Client<A>, Instant) -> O) -> O {
        match self {
            Self::Own(reactor) => reactor.with(act),
            Self::Application(application) => application.reactor.with(act),
        }
    }

    /// One wait, and all that is ready.
    pub(crate) fn turn(&mut self) -> io::Result<()> {
        match self {
            Self::Own(reactor) => reactor.turn(),
            Self::Application(application) => application.turn(None),
        }
    }

    /// As [`WorkerLoop::turn`], for at most so long.
    pub(crate) fn turn_within(&mut self, most: Duration) -> io::Result<()> {
        match self {
            Self::Own(reactor) => reactor.turn_within(most),
            Self::Application(application) => application.turn(Some(most)),
        }
    }

    /// The number of waits.
    pub(crate) fn turns(&self) -> u64 {
        match self {
            Self::Own(reactor) => reactor.stats().turns,
            Self::Application(application) => application.turns,
        }
    }

    /// How often the client was called: in the application's loop for each descriptor.
    pub(crate) fn actions(&self) -> u64 {
        match self {
            Self::Own(reactor) => reactor.stats().turns,
            Self::Application(application) => application.reactor.stats().turns,
        }
    }
}

/// A level-triggered epoll of an application, and a reactor in it: one action for each descriptor.
#[derive(Debug)]
pub(crate) struct ApplicationLoop<A: Application> {
    reactor: Reactor<Client<A>, ExternalLoop>,
    epoll: OwnedFd,
    /// By descriptor.
    watches: Vec<EpollWatch>,
    deadline: Option<Instant>,
    /// The reactor is passed what a descriptor is ready for.
    passes_mask: bool,
    events: Box<[EpollEvent; EVENTS_LEN]>,
    turns: u64,
}

/// A descriptor in the application's epoll.
#[derive(Clone, Copy, Debug, Default)]
struct EpollWatch {
    is_watched: bool,
    /// How many descriptors had this number: an event may be of an earlier one.
    generation: u32,
}

impl<A: Application> ApplicationLoop<A> {
    fn new(client: Client<A>, passes_mask: bool) -> io::Result<Self> {
        Ok(Self {
            reactor: Reactor::new(client, ExternalLoop::level_triggered()),
            epoll: sys::epoll_create()?,
            watches: Vec::new(),
            deadline: None,
            passes_mask,
            events: Box::new([EpollEvent::EMPTY; EVENTS_LEN]),
            turns: 0,
        })
    }

    fn turn(&mut self, most: Option<Duration>) -> io::Result<()> {
        self.apply_changes()?;
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(sys::now()));
        let timeout = left.into_iter().chain(most).min();
        let count = match sys::epoll_wait(self.epoll.as_fd(), &mut self.events[..], timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            result => result?,
        };
        self.turns += 1;
        let now = sys::now();
        for at in 0..count {
            let event = self.events[at];
            let (number, generation) = from_bits(event.tag());
            let watch = self.watches[number];
            if watch.is_watched && watch.generation == generation {
                let fd = RawFd::try_from(number).map_err(io::Error::other)?;
                let ready = if self.passes_mask { event.events().into() } else { Ready::default() };
                self.reactor.socket_action(now, fd, ready);
                self.apply_changes()?;
            }
        }
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.deadline = None;
            self.reactor.timeout_action(now);
            self.apply_changes()?;
        }
        Ok(())
    }

    fn apply_changes(&mut self) -> io::Result<()> {
        while let Some(change) = self.reactor.poll_change() {
            match change {
                Change::Watch { fd, interest, .. } => self.watch(fd, interest)?,
                // It is closed next, which removes it from epoll.
                Change::Forget { fd, .. } => {
                    let watch = &mut self.watches[index(fd)];
                    watch.is_watched = false;
                    watch.generation = watch.generation.wrapping_add(1);
                }
                Change::Timer { deadline } => self.deadline = deadline,
            }
        }
        Ok(())
    }

    fn watch(&mut self, fd: RawFd, interest: Interest) -> io::Result<()> {
        let number = index(fd);
        if self.watches.len() <= number {
            self.watches.resize(number + 1, EpollWatch::default());
        }
        let watch = &mut self.watches[number];
        let open = self.reactor.descriptor(fd).expect("a watched descriptor is open");
        let tag = to_bits(fd, watch.generation);
        let (epoll, events) = (self.epoll.as_fd(), events_of(interest));
        match std::mem::replace(&mut watch.is_watched, true) {
            true => sys::epoll_modify(epoll, open, events, tag),
            false => sys::epoll_add(epoll, open, events, tag),
        }
    }
}

fn events_of(interest: Interest) -> Events {
    let when = |wanted, events| if wanted { events } else { Events::NONE };
    when(interest.read, Events::READABLE)
        | when(interest.write, Events::WRITABLE)
        | when(interest.hangup, Events::HANGUP)
}

fn index(fd: RawFd) -> usize {
    usize::try_from(fd).expect("open descriptors are not negative")
}

fn to_bits(fd: RawFd, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(fd.cast_unsigned())
}

#[expect(clippy::cast_possible_truncation, reason = "the halves of the word")]
fn from_bits(bits: u64) -> (usize, u32) {
    (bits as u32 as usize, (bits >> 32) as u32)
}

/// Events of one wait: as in `multi.h`.
const EVENTS_LEN: usize = 1024;
