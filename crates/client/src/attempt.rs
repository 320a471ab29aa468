//! A connection that is being opened.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use fulmar_engine::SocketId;

use crate::error::Tried;
use crate::pool::Candidates;

/// A connection to open, and the addresses to try for it.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) origin: usize,
    pub(crate) candidates: Candidates,
    /// The index of the next address.
    pub(crate) next: usize,
    /// Sockets that are connecting.
    pub(crate) racing: Vec<SocketId>,
    pub(crate) tried: Vec<(Tried, io::Error)>,
    pub(crate) began: Instant,
    /// Addresses of the host, for a proxy that needs one.
    pub(crate) beyond: Option<Arc<[IpAddr]>>,
    /// The time that name resolution took, in microseconds.
    pub(crate) name: u32,
}
