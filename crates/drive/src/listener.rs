//! Listening sockets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use fulmar_sys as sys;

/// How to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
    pub backlog: u16,
    /// Several listeners share the port, one a thread (`SO_REUSEPORT`).
    pub reuse_port: bool,
    /// A connection is told when its first bytes are there, or after a second without any
    /// (`TCP_DEFER_ACCEPT`, where there is such an option): for protocols in which the client
    /// speaks first. It saves a wait and the `epoll_ctl` of a short connection.
    pub defer_accept: bool,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self { backlog: 16_384, reuse_port: false, defer_accept: false }
    }
}

/// Listens on `address`; what is accepted inherits `TCP_NODELAY`, so no connection pays for it.
///
/// Returns the socket and the address it got (port 0 asks for a free one).
///
/// # Errors
/// As the kernel says: `EADDRINUSE`, `EADDRNOTAVAIL`, `EACCES`.
pub fn listen(address: SocketAddr, options: ListenOptions) -> io::Result<(OwnedFd, SocketAddr)> {
    let socket = sys::tcp_socket(address)?;
    sys::set_reuse_address(socket.as_fd())?;
    if options.reuse_port {
        sys::set_reuse_port(socket.as_fd())?;
    }
    if options.defer_accept {
        optional(sys::set_defer_accept(socket.as_fd(), 1))?;
    }
    sys::set_nodelay(socket.as_fd())?;
    sys::bind(socket.as_fd(), address)?;
    sys::listen(socket.as_fd(), options.backlog)?;
    let address = sys::local_address(socket.as_fd())?;
    Ok((socket, address))
}

/// What only saves calls is done where it can be.
pub(crate) fn optional(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        result => result,
    }
}

/// How to listen on a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnixListenOptions {
    /// Connections that may wait to be accepted; more are told to try again.
    pub backlog: u16,
    /// Who may connect: those who may write to the file. At no moment does it allow more; it
    /// means nothing for an abstract name, to which everybody may connect.
    pub permissions: u32,
}

impl Default for UnixListenOptions {
    fn default() -> Self {
        Self { backlog: 4_096, permissions: 0o600 }
    }
}

/// Listens on the Unix socket `path`; after an `@`, on a name in the abstract namespace.
///
/// A socket's file outlives its listener. One that nobody answers on any more is replaced; who
/// wants it gone at the end removes it.
///
/// # Errors
/// `AddrInUse` if somebody listens there already, `AlreadyExists` if the file is no socket,
/// `InvalidInput` if the path is longer than 107 bytes; otherwise as the kernel says.
pub fn listen_unix(path: &Path, options: UnixListenOptions) -> io::Result<OwnedFd> {
    let socket = sys::unix_socket()?;
    let is_file = !path.as_os_str().as_encoded_bytes().starts_with(b"@");
    if is_file {
        sys::fchmod(socket.as_fd(), options.permissions)?;
    }
    match sys::bind_unix(socket.as_fd(), path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_file => {
            remove_stale(path, error)?;
            sys::bind_unix(socket.as_fd(), path)?;
        }
        result => result?,
    }
    if is_file {
        sys::chmod(path, options.permissions)?; // what the umask took away
    }
    sys::listen(socket.as_fd(), options.backlog)?;
    Ok(socket)
}

/// Removes the file of a socket that nobody listens on: `in_use` otherwise.
fn remove_stale(path: &Path, in_use: io::Error) -> io::Result<()> {
    if !sys::is_socket(path)? {
        let text = format!("{}: there is a file of this name, and it is no socket", path.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    let probe = sys::unix_socket()?;
    match sys::connect_unix(probe.as_fd(), path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => sys::unlink(path),
        _ => Err(in_use),
    }
}

/// A listening socket of the reactor.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) fd: OwnedFd,
    /// The engine wants connections from it.
    pub(crate) wanted: bool,
    /// Descriptors ran out: it rests until then, so that its level-triggered event does not spin.
    pub(crate) resting: Option<Instant>,
    pub(crate) watching: bool,
    pub(crate) prediction: Prediction,
}

impl Listener {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        let prediction = Prediction::default();
        Self { fd, wanted: true, resting: None, watching: true, prediction }
    }
}

/// Whether the first bytes of what is accepted are likely to be there already.
///
/// If they are, receiving at once saves a turn and often the `epoll_ctl`; if not, it costs an
/// EAGAIN. So it is done while it succeeds, and tried again once in a while.
#[derive(Debug, Default)]
pub(crate) struct Prediction {
    misses: u8,
    skipped: u8,
}

impl Prediction {
    pub(crate) fn is_ready(&mut self) -> bool {
        if self.misses < MISSES_MAX {
            return true;
        }
        self.skipped = self.skipped.wrapping_add(1);
        self.skipped.is_multiple_of(TRIAL_EVERY)
    }

    pub(crate) fn learn(&mut self, ready: bool) {
        self.misses = if ready { 0 } else { (self.misses + 1).min(MISSES_MAX) };
    }
}

/// Wrong guesses in a row after which guessing stops.
const MISSES_MAX: u8 = 2;
/// One accept in so many is a trial while guessing does not pay.
const TRIAL_EVERY: u8 = 64;
/// How long a listener rests when descriptors have run out.
pub(crate) const REST: Duration = Duration::from_millis(100);
