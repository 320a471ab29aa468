//! Readiness of descriptors.

use std::ops::BitOr;

use crate::platform::{EDGE, RDHUP};

/// A set of events: those to report, or those reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events(u32);

impl Events {
    /// No events: the descriptor stays registered, and only errors are reported.
    pub const NONE: Self = Self(0);
    /// No events, and errors are reported only once where possible (`EPOLLET`): for descriptors
    /// that are not read until later.
    pub const MUTE: Self = Self(EDGE);
    /// Level-triggered readability: for listeners and descriptors of other libraries.
    pub const READABLE: Self = Self(libc::POLLIN as u32);
    /// Level-triggered writability: for descriptors of other libraries.
    pub const WRITABLE: Self = Self(libc::POLLOUT as u32);
    /// Level-triggered urgent data: for descriptors of other libraries.
    pub const URGENT: Self = Self(libc::POLLPRI as u32);
    /// An error, which is reported always.
    pub const ERROR: Self = Self(libc::POLLERR as u32);
    /// All events of a stream socket, edge-triggered.
    pub const EDGES: Self =
        Self((libc::POLLIN | libc::POLLPRI | libc::POLLOUT | RDHUP) as u32 | EDGE);
    /// All events without writability, which a new connection would report at once.
    pub const EDGES_IN: Self = Self((libc::POLLIN | libc::POLLPRI | RDHUP) as u32 | EDGE);
    /// The peer has shut down its side; reported also while nothing is read. Empty if `poll(2)`
    /// does not support it.
    pub const HANGUP: Self = Self(RDHUP as u32);

    /// True if nothing was reported.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True for data, a connection to accept, the peer's end of stream, or an error.
    pub fn is_readable(self) -> bool {
        self.has(libc::POLLIN) || self.is_hangup()
    }

    /// True if the send buffer has room.
    pub fn is_writable(self) -> bool {
        self.has(libc::POLLOUT)
    }

    /// True if the peer has shut down its side, or the socket failed.
    pub fn is_hangup(self) -> bool {
        self.has(RDHUP | libc::POLLHUP | libc::POLLERR)
    }

    /// True for urgent data; a receive stops before them (tcp(7)).
    pub fn is_urgent(self) -> bool {
        self.has(libc::POLLPRI)
    }

    /// True if the peer has shut down its side and no other event is set: all its data have
    /// arrived, so a short receive returns the rest.
    pub fn is_ended(self) -> bool {
        let special = libc::POLLPRI | libc::POLLHUP | libc::POLLERR;
        RDHUP != 0 && self.has(RDHUP) && !self.has(special)
    }

    /// True if both directions are closed.
    pub fn is_dead(self) -> bool {
        self.has(libc::POLLHUP | libc::POLLERR)
    }

    /// From the bits of `poll(2)` or `epoll(7)`, which are the same.
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
