//! Linux's `io_uring(7)`, of which there is none.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};

use bytes::BytesMut;

use crate::unsupported;

/// A ring: there is none.
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

    /// Why it must not be used any more.
    pub fn fault(&self) -> Option<&io::Error> {
        match *self {}
    }

    /// As [`fault`](Self::fault), and gives the ring up.
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

    /// False once [`accept`](Self::accept) has found that the kernel cannot do it.
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

    /// `close(2)` for all of them.
    pub fn close(&mut self, _: &mut Vec<OwnedFd>) {
        match *self {}
    }
}

/// Entries of one list.
pub const RING_LEN_MAX: usize = 64;
