//! epoll, edge-triggered or level-triggered.
//!
//! Edge-triggered, a connection needs one `epoll_ctl` in its life, and a second one if its peer
//! once accepts less than is sent. Level-triggered, each change of interest is one more.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use fulmar_engine::{ListenerId, SocketId};
use fulmar_sys::errno::{ENOSYS, EPERM};
use fulmar_sys::{self as sys, EpollEvent, Events};

use crate::selector::{Interest, Ready, Selector, ShortRead, Tag, Until, Waiter};
use crate::spin::{Habit, Plan, PollOutcome, Spin};

/// Edge-triggered or level-triggered epoll for connections. Listeners and foreign descriptors are
/// level-triggered in both.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
    trigger: Trigger,
    deadline: Option<Instant>,
    habit: Option<Habit>,
    /// Short waits need not be rounded to milliseconds; false if the kernel does not support that.
    is_fine: bool,
    events: Box<[EpollEvent; EVENTS_LEN]>,
}

/// How epoll reports readiness of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trigger {
    /// When it changes.
    Edge,
    /// For as long as it lasts.
    Level,
}

impl Epoll {
    /// A new epoll instance, edge-triggered: a connection is registered once, for everything.
    ///
    /// # Errors
    /// Descriptors or memory are used up; `Unsupported` on systems other than Linux, which have
    /// [`crate::Poll`].
    pub fn new() -> io::Result<Self> {
        Self::with(Trigger::Edge)
    }

    /// A new epoll instance, level-triggered: one `epoll_ctl` for each change of interest.
    ///
    /// # Errors
    /// As [`Epoll::new`].
    pub fn level_triggered() -> io::Result<Self> {
        Self::with(Trigger::Level)
    }

    fn with(trigger: Trigger) -> io::Result<Self> {
        let (fd, events) = (sys::epoll_create()?, Box::new([EpollEvent::EMPTY; EVENTS_LEN]));
        Ok(Self { fd, trigger, deadline: None, habit: None, is_fine: true, events })
    }

    /// Polls before sleeping from now on, or does not.
    pub(crate) fn set_spin(&mut self, spin: Spin) {
        self.habit = Habit::new(spin);
    }

    /// Whether it polls before it sleeps.
    pub fn spin(&self) -> Spin {
        self.habit.map_or(Spin::Off, Habit::spin)
    }

    fn events_of(&self, tag: Tag, interest: Interest) -> Events {
        match (tag, self.trigger) {
            (Tag::Socket(_), Trigger::Edge) if interest.write => Events::EDGES,
            (Tag::Socket(_), Trigger::Edge) => Events::EDGES_IN,
            (Tag::Listener(_), _) if interest == Interest::default() => Events::MUTE,
            (Tag::Socket(_), Trigger::Level)
            | (Tag::Listener(_) | Tag::Waker | Tag::Resolver(_), _) => interest.events(),
        }
    }

    fn wait_for(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        let (epoll, events) = (self.fd.as_fd(), &mut self.events[..]);
        if let Some(short) = timeout.filter(|timeout| self.is_fine && is_fine(*timeout)) {
            match sys::epoll_pwait2(epoll, events, short) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(0),
                Err(e) if matches!(e.raw_os_error(), Some(ENOSYS | EPERM)) => self.is_fine = false,
                result => return result,
            }
        }
        match sys::epoll_wait(epoll, events, timeout) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(0),
            result => result,
        }
    }

    fn look(&mut self) -> io::Result<usize> {
        match sys::epoll_look(self.fd.as_fd(), &mut self.events[..]) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(0),
            result => result,
        }
    }

    /// Sleeps at once or polls before, as the habit suggests.
    #[inline(never)] // most reactors have none
    fn wait_by_habit(&mut self, now: Instant, timeout: Option<Duration>) -> io::Result<usize> {
        let plan = match &mut self.habit {
            Some(habit) if timeout != Some(Duration::ZERO) => habit.plan(now),
            _ => Plan::Rest,
        };
        match plan {
            Plan::Rest => self.wait_for(timeout),
            Plan::Sleep => self.wait_measured(timeout),
            Plan::Poll { budget, watched } => self.wait_polling(now, budget, watched, timeout),
        }
    }

    /// As [`Epoll::wait_for`], and records its duration.
    fn wait_measured(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        let start = sys::now();
        let n = self.wait_for(timeout)?;
        let end = sys::now();
        self.learn(end, end.saturating_duration_since(start), PollOutcome::No);
        Ok(n)
    }

    /// As [`Epoll::wait_for`], but polls first and sleeps only if nothing becomes ready. If
    /// something is ready at once, the clock is not read.
    fn wait_polling(
        &mut self,
        now: Instant,
        budget: Duration,
        watched: bool,
        timeout: Option<Duration>,
    ) -> io::Result<usize> {
        let mut n = self.look()?;
        if n > 0 {
            self.learn(now, Duration::ZERO, PollOutcome::No);
            return Ok(n);
        }
        let switches = watched.then(|| sys::thread_switches().ok());
        let start = sys::now();
        let mut end;
        (n, end) = self.poll_until(start + budget.min(timeout.unwrap_or(budget)))?;
        let time = end.saturating_duration_since(start);
        let polled = match switches {
            _ if n == 0 || time > budget => PollOutcome::InVain(time),
            Some(before) if before != sys::thread_switches().ok() => PollOutcome::Ceded,
            _ => PollOutcome::Found,
        };
        if n == 0 {
            n = self.wait_for(timeout.map(|timeout| timeout.saturating_sub(time)))?;
            end = sys::now();
        }
        self.learn(end, end.saturating_duration_since(start), polled);
        Ok(n)
    }

    /// Polls until something is ready, but not beyond `limit`. Returns the time of its end.
    fn poll_until(&mut self, limit: Instant) -> io::Result<(usize, Instant)> {
        loop {
            sys::sched_yield(); // or another process on this core would have to wait
            let n = self.look()?;
            let now = sys::now();
            if n > 0 || now >= limit {
                return Ok((n, now));
            }
        }
    }

    fn learn(&mut self, now: Instant, waited: Duration, polled: PollOutcome) {
        if let Some(habit) = &mut self.habit {
            habit.learn(now, waited, polled);
        }
    }
}

impl Waiter for Epoll {
    fn wait(&mut self, now: Instant, until: Until) -> io::Result<usize> {
        let timeout = until.timeout(now, self.deadline);
        match &self.habit {
            None => self.wait_for(timeout),
            Some(_) => self.wait_by_habit(now, timeout),
        }
    }

    fn event(&self, at: usize) -> (Tag, Ready) {
        let event = &self.events[at];
        (from_bits(event.tag()), event.events().into())
    }

    fn short_read(&self, at: usize) -> ShortRead {
        match self.events[at].events() {
            _ if self.trigger == Trigger::Level => ShortRead::WouldBlock, // and is reported again
            events if events.is_urgent() => ShortRead::UrgentMark,
            events if events.is_ended() => ShortRead::Eof,
            _ => ShortRead::WouldBlock,
        }
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Selector for Epoll {
    const EXTERNAL: bool = false;

    fn name(&self) -> &'static str {
        match self.trigger {
            Trigger::Edge => "epoll",
            Trigger::Level => "level",
        }
    }

    fn watches_all(&self) -> bool {
        self.trigger == Trigger::Edge // every edge is reported
    }

    fn watching_costs(&self) -> bool {
        true
    }

    fn trusts_short_reads(&self) -> bool {
        true // an edge reports the end or the urgent data that a receive stops at; a level lasts
    }

    fn watch(&mut self, fd: BorrowedFd<'_>, tag: Tag, interest: Interest) -> io::Result<()> {
        sys::epoll_add(self.fd.as_fd(), fd, self.events_of(tag, interest), to_bits(tag))
    }

    fn set_interest(&mut self, fd: BorrowedFd<'_>, tag: Tag, interest: Interest) -> io::Result<()> {
        match (self.trigger, tag) {
            // Every edge of arrival is reported anyway. A socket that has waited for room once
            // continues to receive the edges of room.
            (Trigger::Edge, Tag::Socket(_)) => Ok(()),
            (Trigger::Level, Tag::Socket(_))
            | (_, Tag::Listener(_) | Tag::Waker | Tag::Resolver(_)) => {
                self.rearm(fd, tag, interest)
            }
        }
    }

    fn rearm(&mut self, fd: BorrowedFd<'_>, tag: Tag, interest: Interest) -> io::Result<()> {
        sys::epoll_modify(self.fd.as_fd(), fd, self.events_of(tag, interest), to_bits(tag))
    }

    fn retire(&mut self, fd: OwnedFd) {
        sys::close(fd); // which also removes it from the set
    }

    fn retire_shared(&mut self, fd: OwnedFd) {
        // Fails only if it is not in the set.
        let _ = sys::epoll_delete(self.fd.as_fd(), fd.as_fd());
        sys::close(fd);
    }

    fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }
}

fn to_bits(tag: Tag) -> u64 {
    match tag {
        Tag::Socket(socket) => {
            let bits = socket.to_bits();
            assert!(bits & OURS == 0, "generations of sockets have 31 bits");
            bits
        }
        Tag::Listener(ListenerId(number)) => OURS | u64::from(number),
        Tag::Waker => OURS | WAKER,
        Tag::Resolver(number) => OURS | RESOLVER | u64::from(number),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half of the word")]
fn from_bits(bits: u64) -> Tag {
    match bits {
        bits if bits & OURS == 0 => Tag::Socket(SocketId::from_bits(bits)),
        bits if bits & WAKER != 0 => Tag::Waker,
        bits if bits & RESOLVER != 0 => Tag::Resolver(bits as u32),
        bits => Tag::Listener(ListenerId(bits as u32)),
    }
}

/// True if a timeout needs a better precision than a millisecond.
fn is_fine(timeout: Duration) -> bool {
    timeout < FINE_BELOW && !timeout.subsec_nanos().is_multiple_of(1_000_000)
}

/// In longer waits, a millisecond is a small part.
const FINE_BELOW: Duration = Duration::from_millis(20);
/// Marks what is not an engine's socket: generations of sockets have 31 bits.
const OURS: u64 = 1 << 63;
const WAKER: u64 = 1 << 62;
const RESOLVER: u64 = 1 << 61;
/// Events of one turn: no response waits for a thousand reads.
const EVENTS_LEN: usize = 64;
