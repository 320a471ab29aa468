//! Where a connection goes to, and how the socket for it is made.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Where a connection goes to, and how the socket for it is made.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The other end.
    pub peer: Peer,
    /// Our address; its port is usually 0. Means nothing for Unix sockets, as all that follows.
    pub local: Option<SocketAddr>,
    /// The network interface to leave by (`SO_BINDTODEVICE`, socket(7)).
    pub interface: Option<Box<str>>,
    /// Probes on a silent connection (`SO_KEEPALIVE`, tcp(7)).
    pub keep_alive: Option<KeepAlive>,
    /// The connection fails when bytes have not been acknowledged for so long (`TCP_USER_TIMEOUT`,
    /// tcp(7); where there is such an option).
    pub user_timeout: Option<Duration>,
    /// Small packets wait for acknowledgements of earlier ones (Nagle's algorithm). Otherwise
    /// `TCP_NODELAY` is set where it matters.
    pub nagle: bool,
    /// The first bytes may be sent with the SYN (TCP Fast Open, RFC 7413), where the system
    /// supports it.
    pub fast_open: bool,
    /// Receives our address before the connection is reported as connected.
    pub reports_local: Option<LocalAddress>,
}

/// The local address of a connection that is being opened, as soon as the kernel has chosen it.
/// Clones share it.
#[derive(Clone, Debug, Default)]
pub struct LocalAddress(Arc<OnceLock<SocketAddr>>);

impl LocalAddress {
    /// The address, if it is known.
    pub fn get(&self) -> Option<SocketAddr> {
        self.0.get().copied()
    }

    /// Sets the address. The first one holds.
    pub fn set(&self, address: SocketAddr) {
        let _: Result<(), SocketAddr> = self.0.set(address);
    }
}

impl From<SocketAddr> for LocalAddress {
    fn from(address: SocketAddr) -> Self {
        Self(Arc::new(address.into()))
    }
}

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// TCP.
    Ip(SocketAddr),
    /// A Unix stream socket (unix(7)): a path of at most 107 bytes, or after an `@` a name in
    /// the abstract namespace. A file whose name begins with `@` is written `./@name`.
    Unix(PathBuf),
}

/// When a silent connection is probed, and when it is given up (tcp(7)). Whole seconds, rounded
/// up; at most 32,767 seconds and 127 probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeepAlive {
    /// Silence before the first probe (`TCP_KEEPIDLE`).
    pub idle: Duration,
    /// Between two probes (`TCP_KEEPINTVL`).
    pub interval: Duration,
    /// Probes without an answer before the connection fails (`TCP_KEEPCNT`); 0: as many as the
    /// system has for all connections.
    pub count: u8,
}

impl Endpoint {
    /// To `peer`, from whatever address the kernel chooses.
    pub fn to(peer: SocketAddr) -> Self {
        Peer::Ip(peer).into()
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl From<Peer> for Endpoint {
    fn from(peer: Peer) -> Self {
        Self {
            peer,
            local: None,
            interface: None,
            keep_alive: None,
            user_timeout: None,
            nagle: false,
            fast_open: false,
            reports_local: None,
        }
    }
}
