//! What to listen on, and the sockets that come of it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use fulmar_drive::{ListenOptions, UnixListenOptions, listen, listen_unix};
use fulmar_server::Layers;
use fulmar_sys as sys;

use crate::address::Address;
use crate::error::Error;
use crate::handover::Taken;
use crate::opened::OpenListener;
use crate::socket_file::SocketFile;

/// What to listen on.
///
/// ```
/// use fulmar_host::Listen;
/// let public = Listen::tcp("[::]:8080".parse().unwrap()).backlog(4_096);
/// let local = Listen::unix("/run/example.sock").permissions(0o660);
/// ```
#[derive(Debug)]
pub struct Listen {
    source: Source,
    pub(crate) layers: Option<Layers>,
    backlog: Option<u16>,
    permissions: Option<u32>,
    owner: (Option<u32>, Option<u32>),
    /// Of a TCP socket; its backlog is above.
    tcp: ListenOptions,
}

#[derive(Debug)]
enum Source {
    Tcp(SocketAddr),
    Unix(PathBuf),
    Inherited(Vec<OwnedFd>),
}

impl Listen {
    /// On an address; port 0 requests a free one.
    pub fn tcp(address: SocketAddr) -> Self {
        Self::new(Source::Tcp(address))
    }

    /// On a Unix socket; after an `@`, on a name in the abstract namespace. A file without
    /// a listener is replaced, and it is removed at the end.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::new(Source::Unix(path.into()))
    }

    /// On a socket that listens already. Every process that has it has to agree that calls on it
    /// do not wait.
    pub fn inherited(socket: OwnedFd) -> Self {
        Self::new(Source::Inherited(vec![socket]))
    }

    /// On all of these, which are bound to one address.
    pub(crate) fn inherited_all(sockets: Vec<OwnedFd>) -> Self {
        Self::new(Source::Inherited(sockets))
    }

    fn new(source: Source) -> Self {
        let permissions = UnixListenOptions::default().permissions;
        let tcp = ListenOptions { defer_accept: true, ..ListenOptions::default() };
        Self { source, layers: None, backlog: None, permissions, owner: (None, None), tcp }
    }

    /// With a layer below each connection, such as TLS.
    #[must_use]
    pub fn layers(self, layers: Layers) -> Self {
        Self { layers: Some(layers), ..self }
    }

    /// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
    #[must_use]
    pub fn backlog(self, backlog: u16) -> Self {
        Self { backlog: Some(backlog), ..self }
    }

    /// The permissions of the file of a Unix socket: write permission allows to connect (default:
    /// only the owner).
    #[must_use]
    pub fn permissions(self, permissions: u32) -> Self {
        Self { permissions: Some(permissions), ..self }
    }

    /// The permissions of any new file: all without those of the umask.
    #[must_use]
    pub fn usual_permissions(self) -> Self {
        Self { permissions: None, ..self }
    }

    /// The owner of the file of a Unix socket: numbers of a user and a group (default: those of the
    /// process).
    #[must_use]
    pub fn owner(self, user: Option<u32>, group: Option<u32>) -> Self {
        Self { owner: (user, group), ..self }
    }

    /// How to listen on an address, if not as usual for HTTP, where the kernel waits for the first
    /// bytes (`defer_accept`). [`Listen::backlog`] counts besides; with several threads a port is
    /// shared in any case.
    #[must_use]
    pub fn tcp_options(self, tcp: ListenOptions) -> Self {
        Self { tcp, ..self }
    }

    /// Listens, for one thread: for an engine in a loop of the application's. Each socket goes to
    /// [`fulmar_drive::Reactor::listen`], and what that returns, with the layers, to
    /// [`fulmar_server::ServerEngine::add_listener`].
    ///
    /// # Errors
    /// [`Error::Listen`].
    pub fn open(self) -> Result<OpenListener, Error> {
        self.open_for(1, &mut Taken::default())
    }

    /// Takes over what a process before us has listened on, or listens.
    pub(crate) fn open_for(self, threads: usize, taken: &mut Taken) -> Result<OpenListener, Error> {
        let asked = match &self.source {
            Source::Tcp(address) => Some(Address::Tcp(*address)),
            Source::Unix(path) => Some(Address::Unix(path.clone())),
            Source::Inherited(_) => None,
        };
        if let Some(asked) = &asked
            && let Some(mut opened) = taken.take(asked)
        {
            opened.layers = self.layers;
            return Ok(opened);
        }
        let layers = self.layers.clone();
        match self.sockets(threads) {
            Ok((address, sockets)) => {
                let file = asked.as_ref().and_then(Address::file).cloned();
                let (file, asked) =
                    (file.map(SocketFile::armed), asked.unwrap_or_else(|| address.clone()));
                Ok(OpenListener { address, sockets, layers, asked, file })
            }
            Err(error) => Err(Error::Listen { address: asked, error }),
        }
    }

    fn sockets(self, threads: usize) -> io::Result<(Address, Vec<OwnedFd>)> {
        match self.source {
            Source::Tcp(address) => {
                let backlog = self.backlog.unwrap_or(self.tcp.backlog);
                let (address, sockets) =
                    group(address, threads, ListenOptions { backlog, ..self.tcp })?;
                Ok((Address::Tcp(address), sockets))
            }
            Source::Unix(path) => {
                let defaults = UnixListenOptions::default();
                let backlog = self.backlog.unwrap_or(defaults.backlog);
                let options = UnixListenOptions { backlog, permissions: self.permissions };
                let socket = listen_unix(&path, options)?;
                let address = Address::Unix(path);
                if let Some(file) = address.file()
                    && self.owner != (None, None)
                {
                    std::os::unix::fs::chown(file, self.owner.0, self.owner.1)?;
                }
                Ok((address, vec![socket]))
            }
            Source::Inherited(sockets) => {
                let mut address = None;
                for socket in &sockets {
                    let found = adopt(socket, self.tcp.defer_accept)?;
                    if address.get_or_insert_with(|| found.clone()) != &found {
                        let why = "sockets of one name are bound to several addresses";
                        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
                    }
                }
                let address = address.ok_or(io::ErrorKind::NotFound)?;
                Ok((address, sockets))
            }
        }
    }
}

/// A socket for each thread, all of which share the address (`SO_REUSEPORT`).
///
/// On Linux the first one listens alone before it shares: if another process or host listens there,
/// also with `SO_REUSEPORT`, the kernel refuses it (`EADDRINUSE`). No time is between check and
/// claim. Other systems allow sharing only before the address is bound
/// ([`sys::REUSE_PORT_AFTER_BIND`]). There an address is refused only if its owner does not share.
/// [`ListenOptions::reuse_port`] skips that, for a process that listens beside another one.
fn group(
    address: SocketAddr,
    threads: usize,
    options: ListenOptions,
) -> io::Result<(SocketAddr, Vec<OwnedFd>)> {
    let shared = ListenOptions { reuse_port: options.reuse_port || threads > 1, ..options.clone() };
    let is_alone = sys::REUSE_PORT_AFTER_BIND && !options.reuse_port;
    let (first, address) = listen(address, if is_alone { options } else { shared.clone() })?;
    if is_alone && shared.reuse_port {
        sys::set_reuse_port(first.as_fd())?;
    }
    let mut sockets = vec![first];
    for _ in 1..threads {
        sockets.push(listen(address, shared.clone())?.0);
    }
    Ok((address, sockets))
}

/// Sets the options of an inherited socket.
fn adopt(socket: &OwnedFd, defer_accept: bool) -> io::Result<Address> {
    if !sys::accepts(socket.as_fd())? {
        let why = "the socket is not listening: call listen(2) before it is passed";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let address = Address::of(socket.as_fd())?;
    sys::set_nonblocking(socket.as_fd())?; // an accept that loses a race must not wait
    if address.tcp().is_some() {
        sys::set_nodelay(socket.as_fd())?;
        if defer_accept {
            sys::set_defer_accept(socket.as_fd(), 1)?;
        }
    }
    Ok(address)
}
