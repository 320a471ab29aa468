//! What the application knows of the descriptors.

use std::os::fd::RawFd;
use std::time::Instant;

use crate::values::CPointer;

/// The descriptors that are waited for, and what the application knows of them.
#[derive(Debug, Default)]
pub(crate) struct WatchedSockets {
    pub(crate) watched: Vec<WatchedSocket>,
    /// The timer that was reported; `None`: none is set.
    pub(crate) timer: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchedSocket {
    pub(crate) fd: RawFd,
    pub(crate) what: i32,
    /// What `curl_multi_assign` has attached.
    pub(crate) assigned: CPointer,
    pub(crate) easy: CPointer,
}

impl WatchedSockets {
    pub(crate) fn find(&mut self, fd: RawFd) -> Option<&mut WatchedSocket> {
        self.watched.iter_mut().find(|socket| socket.fd == fd)
    }
}
