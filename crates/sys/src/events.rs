//! Readiness of descriptors.

use std::ops::BitOr;

use crate::platform::{EDGE, RDHUP};

/// Which readiness to report, or which was reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events(u32);

impl Events {
    /// Nothing: the descriptor stays registered and is not reported, but for errors.
    pub const NONE: Self = Self(0);
    /// The same, and errors are reported once, where they can be (`EPOLLET`): for what rests, whose
    /// errors nobody ends by hearing of them.
    pub const MUTE: Self = Self(EDGE);
    /// Level-triggered readability: for listeners and foreign descriptors.
    pub const READABLE: Self = Self(libc::POLLIN as u32);
    /// Level-triggered room to write: for foreign descriptors.
    pub const WRITABLE: Self = Self(libc::POLLOUT as u32);
    /// Everything about a stream socket, edge-triggered.
    pub const EDGES: Self =
        Self((libc::POLLIN | libc::POLLPRI | libc::POLLOUT | RDHUP) as u32 | EDGE);
    /// The same without room to write, which a new connection has: it would be told at once.
    pub const EDGES_IN: Self = Self((libc::POLLIN | libc::POLLPRI | RDHUP) as u32 | EDGE);
    /// The peer's end of its side, also while nothing is read; nothing where `poll(2)` cannot
    /// tell that.
    pub const HANGUP: Self = Self(RDHUP as u32);

    /// True if nothing was reported.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// There is something to read: bytes, a connection, the peer's end, or an error.
    pub fn is_readable(self) -> bool {
        self.has(libc::POLLIN) || self.is_hangup()
    }

    /// There is room to write.
    pub fn is_writable(self) -> bool {
        self.has(libc::POLLOUT)
    }

    /// The peer has closed its side, or the socket failed.
    pub fn is_hangup(self) -> bool {
        self.has(RDHUP | libc::POLLHUP | libc::POLLERR)
    }

    /// Urgent data have arrived; a receive stops in front of them (tcp(7)).
    pub fn is_urgent(self) -> bool {
        self.has(libc::POLLPRI)
    }

    /// The peer has closed its side, and nothing else is special: all that it said before has
    /// arrived, and a receive that falls short has all of it.
    pub fn is_ended(self) -> bool {
        let special = libc::POLLPRI | libc::POLLHUP | libc::POLLERR;
        RDHUP != 0 && self.has(RDHUP) && !self.has(special)
    }

    /// Both directions are gone.
    pub fn is_dead(self) -> bool {
        self.has(libc::POLLHUP | libc::POLLERR)
    }

    /// Of `poll(2)`, or of `epoll(7)`, whose bits are the same.
    pub(crate) fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    fn has(self, bits: libc::c_short) -> bool {
        self.0 & u32::from(bits.cast_unsigned()) != 0
    }
}

impl BitOr for Events {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
