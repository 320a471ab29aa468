//! Opening and closing sockets: `CURLOPT_OPENSOCKETFUNCTION`, `CURLOPT_SOCKOPTFUNCTION`,
//! `CURLOPT_CLOSESOCKETFUNCTION`.
//!
//! The reactor keeps connects and closed descriptors until its turn is over, so C runs with nothing
//! borrowed here, too.

use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use fulmar_drive::OutgoingSocket;
use fulmar_drive::{Endpoint, Peer, SocketId};
use fulmar_sys as sys;

use crate::border::CBorder;
use crate::code::CurlCode;
use crate::easy_options::EasyOptions;
use crate::handles::Multi;
use crate::local_end::{LocalEnd, resolve_local};
use crate::open_sockets::OpenSocket;
use crate::option::OptionId as Id;
use crate::refused_socket::RefusedSocket;
use crate::values::CPointer;

/// The functions of a transfer for its sockets, each with its argument.
#[derive(Clone, Copy, Debug)]
struct SocketHooks {
    open: (CPointer, CPointer),
    prepare: (CPointer, CPointer),
    close: (CPointer, CPointer),
    /// `CURLOPT_LOCALPORTRANGE`.
    ports: i64,
}

impl SocketHooks {
    fn of(options: &EasyOptions) -> Self {
        let call =
            |function, data| (options.values.pointer(function), options.values.pointer(data));
        Self {
            open: call(Id::OPENSOCKETFUNCTION, Id::OPENSOCKETDATA),
            prepare: call(Id::SOCKOPTFUNCTION, Id::SOCKOPTDATA),
            close: call(Id::CLOSESOCKETFUNCTION, Id::CLOSESOCKETDATA),
            ports: options.values.number(Id::LOCALPORTRANGE),
        }
    }
}

impl Multi {
    /// Opens the sockets that the client has requested. True if there were some.
    pub(crate) fn open_sockets(&self, border: &dyn CBorder) -> bool {
        let mut has_opened = false;
        while let Some((id, endpoint)) = self.next_connect() {
            if !has_opened && self.options.borrow().limits_connections() {
                // Those that have made room are closed before.
                self.report_changes(border);
                self.close_sockets(border);
            }
            has_opened = true;
            self.open_socket(id, endpoint, border);
        }
        has_opened
    }

    fn next_connect(&self) -> Option<(SocketId, Endpoint)> {
        self.reactor.borrow_mut().poll_connect()
    }

    fn open_socket(&self, id: SocketId, mut endpoint: Endpoint, border: &dyn CBorder) {
        // Without a transfer there is no function that could refuse it; nothing needs it either.
        let Some(easy) = self.easy_of_socket(id) else {
            let unused = io::Error::other(RefusedSocket::new(CurlCode::CouldntConnect));
            return self.reactor.borrow_mut().fail_connect(id, unused);
        };
        let (hooks, host) = easy.with_state(|state| {
            let host = match LocalEnd::of(&state.options) {
                Ok(Some(LocalEnd::Host(name))) => Some(name),
                Ok(_) | Err(_) => None,
            };
            (SocketHooks::of(&state.options), host)
        });
        let fd = match hooks.open {
            (function, _) if function.is_null() => OutgoingSocket::open(&endpoint),
            (function, user) => self
                .call(|| border.open_socket(function, user, &mut endpoint.peer))
                .ok_or_else(|| io::Error::other(RefusedSocket::new(CurlCode::CouldntConnect)))
                .inspect(|fd| OutgoingSocket::prepare(fd.as_fd(), &endpoint)),
        };
        let fd = match fd {
            Ok(fd) => fd,
            Err(error) => return self.reactor.borrow_mut().fail_connect(id, final_error(error)),
        };
        let number = fd.as_raw_fd();
        let prepared = match hooks.prepare {
            (function, _) if function.is_null() => SOCKOPT_OK,
            (function, user) => self.call(|| border.prepare_socket(function, user, number)),
        };
        let socket = match prepared {
            SOCKOPT_OK => OutgoingSocket::Unconnected(fd),
            SOCKOPT_ALREADY_CONNECTED => OutgoingSocket::Connected(fd),
            _ => {
                self.close_socket(hooks.close, fd, border);
                let refused = io::Error::other(RefusedSocket::new(CurlCode::AbortedByCallback));
                return self.reactor.borrow_mut().fail_connect(id, refused);
            }
        };
        if let OutgoingSocket::Unconnected(fd) = &socket
            && let Err(error) = bind_local(fd.as_fd(), &mut endpoint, hooks.ports, host.as_deref())
        {
            let OutgoingSocket::Unconnected(fd) = socket else { return };
            self.close_socket(hooks.close, fd, border);
            return self.reactor.borrow_mut().fail_connect(id, error);
        }
        self.report_attempt(&easy, &endpoint.peer, border);
        let (close, local) = (hooks.close, None);
        let socket_number = self.number_socket(&easy);
        self.open.borrow_mut().insert(OpenSocket {
            id,
            fd: number,
            local,
            close,
            number: socket_number,
        });
        self.label_socket(&easy, id, socket_number);
        let mut reactor = self.reactor.borrow_mut();
        reactor.connect_with(id, &endpoint, socket);
        // Without an address of its own the kernel chooses it when the connect begins.
        self.open.borrow_mut().set_local(id, reactor.local_address(id));
    }

    /// The descriptor of a socket that is open.
    pub(crate) fn descriptor_of(&self, id: SocketId) -> Option<RawFd> {
        self.open.borrow().get(id).map(|socket| socket.fd)
    }

    /// Closes the descriptors that nothing waits for any more.
    pub(crate) fn close_sockets(&self, border: &dyn CBorder) {
        while let Some(fd) = self.next_closed() {
            self.close_known(fd, border);
        }
    }

    fn next_closed(&self) -> Option<OwnedFd> {
        self.reactor.borrow_mut().poll_closed()
    }

    /// Closes a descriptor in the way that its transfer had chosen when it was opened.
    pub(crate) fn close_known(&self, fd: OwnedFd, border: &dyn CBorder) {
        let known = self.open.borrow_mut().remove(fd.as_raw_fd());
        self.close_socket(known.map_or(NO_CALL, |socket| socket.close), fd, border);
    }

    fn close_socket(
        &self,
        (function, user): (CPointer, CPointer),
        fd: OwnedFd,
        border: &dyn CBorder,
    ) {
        match function.is_null() {
            true => sys::close(fd),
            false => self.call(|| border.close_socket(function, user, fd)),
        }
    }
}

/// Binds a socket to its local address, and to the first free one of its ports, in the family of
/// its peer. The endpoint has no local address any more. `host`: its name, if that is resolved now.
fn bind_local(
    fd: BorrowedFd<'_>,
    endpoint: &mut Endpoint,
    ports: i64,
    host: Option<&str>,
) -> io::Result<()> {
    let Peer::Ip(peer) = endpoint.peer else { return Ok(()) };
    let Some(mut local) = endpoint.local.take() else { return Ok(()) };
    if let Some(host) = host {
        local.set_ip(resolve_local(host, peer.ip())?);
    }
    if local.ip().is_unspecified() && peer.is_ipv6() {
        local.set_ip(Ipv6Addr::UNSPECIFIED.into());
    }
    if local.is_ipv6() != peer.is_ipv6() {
        return Err(io::ErrorKind::AddrNotAvailable.into()); // another address of the host may do
    }
    let _is_old_kernel = sys::set_bind_address_no_port(fd);
    let last = i64::from(local.port()).saturating_add(ports.max(1) - 1);
    loop {
        let Err(error) = sys::bind(fd, local) else { return Ok(()) };
        match local.port().checked_add(1) {
            Some(next) if i64::from(next) <= last => local.set_port(next),
            _ => return Err(io::Error::other(RefusedSocket::unbound(&error))),
        }
    }
}

/// Without descriptors a transfer fails, as in libcurl; the client alone would wait for one.
fn final_error(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(sys::errno::EMFILE | sys::errno::ENFILE) => {
            io::Error::other(RefusedSocket::new(CurlCode::CouldntConnect))
        }
        _ => error,
    }
}

const NO_CALL: (CPointer, CPointer) = (CPointer::NULL, CPointer::NULL);
/// `CURL_SOCKOPT_OK`.
const SOCKOPT_OK: i32 = 0;
/// `CURL_SOCKOPT_ALREADY_CONNECTED`.
const SOCKOPT_ALREADY_CONNECTED: i32 = 2;
