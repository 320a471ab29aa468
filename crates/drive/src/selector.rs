//! Who waits for descriptors: our epoll, our `poll(2)`, or the application's own loop.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use fulmar_engine::{ListenerId, SocketId};
use fulmar_sys::Events;

use crate::reactor::earliest;

/// What a watched descriptor is to the reactor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// A connection.
    Socket(SocketId),
    /// A listening socket.
    Listener(ListenerId),
    /// What other threads wake us with.
    Waker,
    /// A resolver's socket, by a number that is never given again.
    Foreign(u32),
}

/// Readiness that is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Bytes, a connection, or the peer's end. Of a socket that is not read from, the first bytes.
    pub read: bool,
    /// Room to send, or that a connection stands.
    pub write: bool,
    /// The peer's end of its side, also while nothing is read (`EPOLLRDHUP`, where there is such a
    /// thing). Not any more once it has been told: waiting for a level that stays would never be
    /// quiet.
    pub hangup: bool,
}

impl Interest {
    /// As the kernel is told.
    pub(crate) fn events(self) -> Events {
        let when = |wanted, events| if wanted { events } else { Events::NONE };
        when(self.read, Events::READABLE)
            | when(self.write, Events::WRITABLE)
            | when(self.hangup, Events::HANGUP)
    }
}

/// Readiness that was reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// There is something to read.
    pub read: bool,
    /// There is room to write.
    pub write: bool,
    /// The peer has closed its side or the socket failed: a short read is not the end of what
    /// there is to read.
    pub hangup: bool,
    /// Both directions are gone (`POLLHUP`, `POLLERR`). Enough by itself: the socket is read to its
    /// end and then to its error, whatever the other fields are.
    pub failed: bool,
}

impl Ready {
    /// True if nothing was reported.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

impl From<Events> for Ready {
    fn from(events: Events) -> Self {
        Self {
            read: events.is_readable(),
            write: events.is_writable(),
            hangup: events.is_hangup(),
            failed: events.is_dead(),
        }
    }
}

/// Waits for descriptors, or passes them to a loop that does.
pub trait Selector {
    /// True if the application's loop waits. It may be edge-triggered, so a listener is tried until
    /// it has no more connections. A retired descriptor is closed only after the application has
    /// been notified. Its timer has a cost, so a deadline that moves later is not reported.
    ///
    /// False if the selector waits itself: a listener that has more connections is reported again,
    /// and a retired descriptor is closed at once, so that the end of a connection may leave in one
    /// packet with its last bytes.
    const EXTERNAL: bool;

    /// The name of the selector, for reports.
    fn name(&self) -> &'static str;

    /// True if a socket is registered once, for everything: a change of interest has no effect.
    fn watches_all(&self) -> bool;

    /// True if registration is a system call: a new socket without any interest is then registered
    /// only if it still exists after a while.
    fn watching_costs(&self) -> bool;

    /// True if a short receive empties the socket, or the rest is reported: again (level-triggered)
    /// or with the event ([`Waiter::tail`]). Otherwise every socket is read to `EAGAIN`.
    fn trusts_short_reads(&self) -> bool;

    /// A descriptor is new, and wanted for longer than this turn.
    ///
    /// # Errors
    /// The kernel can watch no more descriptors.
    fn watch(&mut self, fd: BorrowedFd<'_>, tag: Tag, interest: Interest) -> io::Result<()>;

    /// What is waited for has changed.
    ///
    /// # Errors
    /// As the kernel says.
    fn set_interest(&mut self, fd: BorrowedFd<'_>, tag: Tag, interest: Interest) -> io::Result<()>;

    /// What is waited for is to be told although it may be there already and nothing has changed:
    /// needed where we stop before the kernel does, as tests have it.
    ///
    /// # Errors
    /// As the kernel says.
    fn rearm(&mut self, fd: BorrowedFd<'_>, tag: Tag, interest: Interest) -> io::Result<()>;

    /// A descriptor is done with. The selector closes it, once nobody waits for it any more.
    fn retire(&mut self, fd: OwnedFd);

    /// As [`Selector::retire`], for what others may have open too, in this process or another:
    /// closing it alone would not end the wait for it.
    fn retire_shared(&mut self, fd: OwnedFd) {
        self.retire(fd);
    }

    /// The next moment `handle_timeout` is due. Called when it moves earlier, is gone, or the one
    /// told last has passed; also when it moves later, unless
    /// the loop is [`Selector::EXTERNAL`].
    fn set_deadline(&mut self, deadline: Option<Instant>);
}

/// A selector that waits for itself: [`crate::Reactor::turn`] is for these.
pub trait Waiter: Selector {
    /// Waits from `now` until something is ready or the time has come; a signal ends the wait with
    /// no event. How many events there are.
    ///
    /// # Errors
    /// As the kernel says.
    fn wait(&mut self, now: Instant, until: Until) -> io::Result<usize>;

    /// One event of the last wait.
    fn event(&self, at: usize) -> (Tag, Ready);

    /// What that event says about the end of what the kernel holds.
    fn tail(&self, _at: usize) -> Tail {
        Tail::Open
    }
}

/// What stands behind a receive that falls short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tail {
    /// Nothing yet: an event tells when there is more. Or it is not known.
    #[default]
    Open,
    /// The mark of urgent data, in front of which a receive stops (tcp(7)): more may be behind it
    /// that no event tells of.
    Marked,
    /// The peer's end, in order, and this is not about an earlier tenant of a descriptor: no
    /// receive is needed that finds it.
    Ended,
}

impl Tail {
    /// A receive has fallen short. True if that was at a mark: the next one goes on behind it.
    pub(crate) fn pass_mark(&mut self) -> bool {
        let is_mark = *self == Self::Marked;
        if is_mark {
            *self = Self::Open;
        }
        is_mark
    }
}

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Not at all.
    Now,
    /// Until the deadline that was told last, and for ever if there is none.
    Deadline,
    /// Until the deadline, but no longer than this moment.
    Moment(Instant),
}

impl Until {
    /// How long that is from `now` on.
    pub(crate) fn timeout(self, now: Instant, deadline: Option<Instant>) -> Option<Duration> {
        let until = match self {
            Self::Now => return Some(Duration::ZERO),
            Self::Deadline => deadline,
            Self::Moment(moment) => earliest(deadline, Some(moment)),
        };
        until.map(|time| time.saturating_duration_since(now))
    }
}
