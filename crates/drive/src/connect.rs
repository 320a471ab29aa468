//! Outgoing connections: makes a socket for an endpoint, and connects it.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use fulmar_engine::{Endpoint, Engine, KeepAlive, Peer, SocketEvent, SocketId};
use fulmar_sys::errno::{ENODEV, EPERM};
use fulmar_sys::{self as sys, Connect};

use crate::listener::optional;
use crate::reactor::Reactor;
use crate::selector::Selector;
use crate::socket::{Nagle, Socket, SocketOrigin};

impl<E: Engine, S: Selector> Reactor<E, S> {
    /// A connect that is complete or fails at once, as with Unix sockets, is reported at once.
    pub(crate) fn connect(&mut self, now: Instant, id: SocketId, endpoint: &Endpoint) {
        let opened = match open(endpoint) {
            Err(error) if self.makes_room(&error) => open(endpoint),
            opened => opened,
        };
        self.admit_opened(now, id, opened, endpoint);
    }

    pub(crate) fn admit_opened(
        &mut self,
        now: Instant,
        id: SocketId,
        opened: io::Result<(OwnedFd, Connect)>,
        endpoint: &Endpoint,
    ) {
        if let (Some(reported), Ok((fd, _))) = (&endpoint.reports_local, &opened)
            && let Ok(local) = sys::local_address(fd.as_fd())
        {
            reported.set(local);
        }
        match opened {
            Ok((fd, Connect::InProgress)) => {
                self.admit_outgoing(id, fd, SocketOrigin::Connecting, endpoint);
                self.try_early(id);
            }
            Ok((fd, Connect::Done)) => {
                self.admit_outgoing(id, fd, SocketOrigin::Connected, endpoint);
                self.report(now, id, SocketEvent::Connected);
                self.new_transmits.push(id); // bytes queued before
            }
            Err(error) => self.report(now, id, SocketEvent::Failed(error)),
        }
    }

    /// On a machine's own network a connect is complete at once: queued bytes are sent at once, if
    /// that was right before.
    fn try_early(&mut self, id: SocketId) {
        if E::SENDS_EARLY
            && self.connect_prediction.is_ready()
            && let Some(socket) = self.sockets.get_mut(id)
        {
            socket.handle_room(); // a guess
            self.new_transmits.push(id);
        }
    }

    fn admit_outgoing(&mut self, id: SocketId, fd: OwnedFd, origin: SocketOrigin, to: &Endpoint) {
        let mut socket = Socket::new(id, fd, origin);
        if matches!(to.peer, Peer::Ip(_)) && !to.nagle {
            socket.nagle = Nagle::Idle;
        }
        self.admit(socket);
    }
}

/// A socket on its way.
fn open(endpoint: &Endpoint) -> io::Result<(OwnedFd, Connect)> {
    let fd = new_socket(endpoint)?;
    let connected = set_options(fd.as_fd(), endpoint).and_then(|()| start(fd.as_fd(), endpoint));
    match connected {
        Ok(connect) => Ok((fd, connect)),
        Err(error) => {
            sys::close(fd);
            Err(error)
        }
    }
}

/// A socket for an endpoint.
pub(crate) fn new_socket(endpoint: &Endpoint) -> io::Result<OwnedFd> {
    match &endpoint.peer {
        Peer::Ip(peer) => sys::tcp_socket(*peer),
        Peer::Unix(_) => sys::unix_socket(),
    }
}

/// The options of a new socket for an endpoint.
pub(crate) fn set_options(fd: BorrowedFd<'_>, endpoint: &Endpoint) -> io::Result<()> {
    if let Peer::Unix(_) = endpoint.peer {
        return Ok(());
    }
    if let Some(keep_alive) = endpoint.keep_alive {
        set_keep_alive(fd, keep_alive)?;
    }
    if let Some(limit) = endpoint.user_timeout {
        optional(sys::set_user_timeout(fd, millis(limit)))?;
    }
    Ok(())
}

/// Binds a socket to the local address of an endpoint, and begins to connect it.
pub(crate) fn start(fd: BorrowedFd<'_>, endpoint: &Endpoint) -> io::Result<Connect> {
    match &endpoint.peer {
        Peer::Ip(peer) => connect_ip(fd, *peer, endpoint),
        Peer::Unix(path) => connect_unix(fd, path),
    }
}

fn connect_ip(fd: BorrowedFd<'_>, peer: SocketAddr, endpoint: &Endpoint) -> io::Result<Connect> {
    if let Some(name) = &endpoint.interface {
        sys::set_interface(fd, name).map_err(|error| of_interface(error, name))?;
    }
    if let Some(local) = endpoint.local {
        optional(sys::set_bind_address_no_port(fd))?;
        sys::bind(fd, local).map_err(|error| with(error, format_args!("local address {local}")))?;
    }
    if endpoint.fast_open {
        optional(sys::set_fast_open_connect(fd))?;
    }
    sys::connect(fd, peer)
}

/// `EAGAIN` is a full backlog here, and nothing like "in progress": no event follows.
fn connect_unix(fd: BorrowedFd<'_>, path: &Path) -> io::Result<Connect> {
    sys::connect_unix(fd, path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(error.kind(), BACKLOG_FULL),
        _ => error,
    })
}

pub(crate) fn set_keep_alive(fd: BorrowedFd<'_>, wanted: KeepAlive) -> io::Result<()> {
    sys::set_keep_alive(fd)?;
    sys::set_keep_alive_idle(fd, seconds(wanted.idle))?;
    sys::set_keep_alive_interval(fd, seconds(wanted.interval))?;
    match wanted.count {
        0 => Ok(()),
        count => sys::set_keep_alive_count(fd, count.min(PROBES_MAX)),
    }
}

/// As tcp(7) takes it: at least one, as 0 is no limit.
pub(crate) fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX).max(1)
}

/// Rounded up, and within what tcp(7) takes.
fn seconds(duration: Duration) -> u16 {
    let whole = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    u16::try_from(whole.clamp(1, SECONDS_MAX.into())).unwrap_or(SECONDS_MAX)
}

fn of_interface(error: io::Error, name: &str) -> io::Error {
    let why = match error.raw_os_error() {
        Some(EPERM) => "binding to it needs CAP_NET_RAW on this kernel",
        Some(ENODEV) => "there is no such network interface",
        _ => return with(error, format_args!("interface {name}")),
    };
    io::Error::new(error.kind(), format!("interface {name}: {why}"))
}

/// The same error, and what it is about.
fn with(error: io::Error, what: impl Display) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

const BACKLOG_FULL: &str =
    "the Unix socket's listener has too many connections waiting already; try again later";
/// `MAX_TCP_KEEPIDLE`, `MAX_TCP_KEEPINTVL` and `MAX_TCP_KEEPCNT` of Linux.
const SECONDS_MAX: u16 = 32_767;
const PROBES_MAX: u8 = 127;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_whole_rounded_up_and_within_what_the_kernel_takes() {
        assert_eq!(seconds(Duration::ZERO), 1);
        assert_eq!(seconds(Duration::from_millis(1_001)), 2);
        assert_eq!(seconds(Duration::from_secs(60)), 60);
        assert_eq!(seconds(Duration::MAX), SECONDS_MAX);
    }

    #[test]
    fn an_interface_that_cannot_be_used_is_named() {
        for (number, why) in [(EPERM, "CAP_NET_RAW"), (ENODEV, "no such"), (22, "Invalid")] {
            let error = of_interface(io::Error::from_raw_os_error(number), "eth7");
            assert_eq!(error.kind(), io::Error::from_raw_os_error(number).kind());
            let text = error.to_string();
            assert!(text.contains("eth7") && text.contains(why), "{text}");
        }
    }
}
