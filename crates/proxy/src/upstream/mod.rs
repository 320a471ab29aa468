//! Connections to servers, for both modes.

use std::io;

mod destination;
mod header;
mod tls;

pub use destination::probes;
pub(crate) use destination::{
    Destination, ForwardedClient, PreparedConnection, endpoint, is_mapped,
};
pub(crate) use tls::{client_tls, tls_server_name};

/// True if local descriptors, memory or ports are exhausted: not the server's fault.
pub(crate) fn is_exhaustion(error: &io::Error) -> bool {
    const EMFILE: i32 = 24;
    const ENFILE: i32 = 23;
    const ENOMEM: i32 = 12;
    const EADDRNOTAVAIL: i32 = 99;
    const ENOBUFS: i32 = 105;
    matches!(error.raw_os_error(), Some(EMFILE | ENFILE | ENOMEM | EADDRNOTAVAIL | ENOBUFS))
}
