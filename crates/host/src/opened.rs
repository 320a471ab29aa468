//! Listening sockets that are open.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use fulmar_server::Layers;
use fulmar_sys as sys;

use crate::address::Address;
use crate::socket_file::SocketFile;

/// Listening sockets of one address. The file of a Unix socket is removed when this is dropped.
#[derive(Debug)]
pub struct OpenListener {
    /// Where they are bound; a free port is known now.
    pub address: Address,
    /// One or more: connections come to each of them, so none may be left unheard.
    pub sockets: Vec<OwnedFd>,
    /// What lies below each connection.
    pub layers: Option<Layers>,
    pub(crate) asked: Address,
    pub(crate) file: Option<SocketFile>,
}

impl OpenListener {
    /// Deals the sockets out: every thread has one at least, and every socket is some thread's.
    /// Where there are fewer sockets than threads, they share them.
    pub(crate) fn deal(&self, threads: usize) -> io::Result<Vec<Vec<OwnedFd>>> {
        let mut shares: Vec<Vec<OwnedFd>> = (0..threads).map(|_| Vec::new()).collect();
        for at in 0..threads.max(self.sockets.len()) {
            shares[at % threads].push(share(&self.sockets[at % self.sockets.len()])?);
        }
        Ok(shares)
    }
}

/// Another descriptor for the same socket.
fn share(socket: &OwnedFd) -> io::Result<OwnedFd> {
    sys::duplicate(socket.as_raw_fd())
}
