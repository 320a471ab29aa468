//! Linux's `io_uring(7)`, which does not exist here.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};

use bytes::BytesMut;

use crate::unsupported;

/// A ring; never created here.
#[derive(Debug)]
pub enum Ring {}

impl Ring {
    /// `io_uring_setup(2)`.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn new() -> io::Result<Self> {
        Err(unsupported("io_uring"))
    }

    /// The error after which the ring must not be used.
    pub fn fault(&self) -> Option<&io::Error> {
        match *self {}
    }

    /// Like [`fault`](Self::fault); consumes the ring.
    pub fn into_fault(self) -> Option<io::Error> {
        match self {}
    }

    /// `recv(2)` for each entry of a list.
    pub fn receive<'f, T>(
        &mut self,
        _: &mut [T],
        _: usize,
        _: &mut BytesMut,
        _: impl Fn(&T) -> (BorrowedFd<'f>, usize),
        _: impl FnMut(&mut T, io::Result<usize>),
    ) {
        match *self {}
    }

    /// `send(2)` for each entry of a list.
    pub fn send<'f, T>(
        &mut self,
        _: &mut [T],
        _: impl Fn(&T) -> (BorrowedFd<'f>, &'f [u8], bool),
        _: impl FnMut(&mut T, io::Result<usize>),
    ) {
        match *self {}
    }

    /// False after [`accept`](Self::accept) found that the kernel does not support it.
    pub fn accepts(&self) -> bool {
        match *self {}
    }

    /// [`crate::accept`] for each entry of a list of listeners.
    pub fn accept<'f, T>(
        &mut self,
        _: &mut [T],
        _: impl Fn(&T) -> BorrowedFd<'f>,
        _: impl FnMut(&mut T, io::Result<(OwnedFd, SocketAddr)>),
    ) {
        match *self {}
    }

    /// `close(2)` for each descriptor of a list.
    pub fn close(&mut self, _: &mut Vec<OwnedFd>) {
        match *self {}
    }
}

/// Maximum number of entries in a list.
pub const RING_LEN_MAX: usize = 64;
