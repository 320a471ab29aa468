//! Waiting for descriptors: by our epoll, our `poll(2)`, or the application's own loop.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use fulmar_engine::{ListenerId, SocketId};
use fulmar_sys::Events;

use crate::reactor::earliest;

/// What a registered descriptor belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// A connection.
    Socket(SocketId),
    /// A listening socket.
    Listener(ListenerId),
    /// Other threads wake the reactor with it.
    Waker,
    /// A resolver's socket, by a number that is never reused.
    Resolver(u32),
}

/// Readiness that is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Bytes, a connection, or the peer's end. While reading is paused: the first bytes.
    pub read: bool,
    /// Room to send, or an established connection.
    pub write: bool,
    /// The peer's shutdown of its side, also while nothing is read (`EPOLLRDHUP`, where it exists).
    /// False once it has been reported, because a level-triggered loop would report it forever.
    pub hangup: bool,
}

impl Interest {
    /// The events for the kernel.
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
    /// Input is available.
    pub read: bool,
    /// There is room to write.
    pub write: bool,
    /// The peer has shut down its side, or the socket failed: a short read is not the last one.
    pub hangup: bool,
    /// Both directions are closed (`POLLHUP`, `POLLERR`). It is sufficient alone: the socket is
    /// read to its end, and then to its error, whatever the other fields are.
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
    /// or with the event ([`Waiter::short_read`]). Otherwise every socket is read to `EAGAIN`.
    fn trusts_short_reads(&self) -> bool;

    /// Registers a new descriptor.
    ///
    /// # Errors
    /// The kernel can watch no more descriptors.
    fn watch(&mut self, fd: BorrowedFd<'_>, tag: Tag, interest: Interest) -> io::Result<()>;

    /// Changes what a registered descriptor is waited for.
    ///
    /// # Errors
    /// Those of the kernel.
    fn set_interest(&mut self, fd: BorrowedFd<'_>, tag: Tag, interest: Interest) -> io::Result<()>;

    /// Stops or resumes waiting for a registered descriptor, whatever its interest. Only for an
    /// application's loop.
    fn set_watched(&mut self, _fd: BorrowedFd<'_>, _on: bool) {}

    /// Requests a report of the current readiness, also if nothing has changed. Needed if a read or
    /// write stopped before the kernel returned `EAGAIN`, as tests do.
    ///
    /// # Errors
    /// Those of the kernel.
    fn rearm(&mut self, fd: BorrowedFd<'_>, tag: Tag, interest: Interest) -> io::Result<()>;

    /// Removes a descriptor. The selector closes it, once nothing waits for it any more.
    fn retire(&mut self, fd: OwnedFd);

    /// As [`Selector::retire`], for a socket that may also be open elsewhere, in this process or
    /// another: closing the descriptor alone would not end the registration.
    fn retire_shared(&mut self, fd: OwnedFd) {
        self.retire(fd);
    }

    /// The time of the next [`fulmar_engine::DriverEvent::Timeout`]. Called when it moves earlier,
    /// is gone, or the last one has passed; also when it moves later, unless the loop is
    /// [`Selector::EXTERNAL`].
    fn set_deadline(&mut self, deadline: Option<Instant>);
}

/// A selector that waits itself: [`crate::Reactor::turn`] is for these.
pub trait Waiter: Selector {
    /// Waits from `now` until a descriptor is ready or the time is over; a signal ends the wait
    /// without events. Returns the number of events.
    ///
    /// # Errors
    /// Those of the kernel.
    fn wait(&mut self, now: Instant, until: Until) -> io::Result<usize>;

    /// One event of the last wait.
    fn event(&self, at: usize) -> (Tag, Ready);

    /// The meaning of a short receive after that event.
    fn short_read(&self, _at: usize) -> ShortRead {
        ShortRead::WouldBlock
    }
}

/// The meaning of a receive that returns fewer bytes than requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShortRead {
    /// No more bytes yet: an event reports when there are. Or it is not known.
    #[default]
    WouldBlock,
    /// A receive stops before the mark of urgent data (tcp(7)). More bytes may follow, which no
    /// event reports.
    UrgentMark,
    /// The peer has shut down its side in order, on this connection and not on an earlier one with
    /// the same descriptor. No receive is needed to find the end.
    Eof,
}

impl ShortRead {
    /// After a short receive: true if it stopped at a mark. The next receive continues after it.
    pub(crate) fn pass_mark(&mut self) -> bool {
        let is_mark = *self == Self::UrgentMark;
        if is_mark {
            *self = Self::WouldBlock;
        }
        is_mark
    }
}

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Not at all.
    Now,
    /// Until the last deadline that was set, and forever if there is none.
    Deadline,
    /// Until the deadline, but no longer than this time.
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
