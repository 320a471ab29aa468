//! Stream sockets: `socket(2)` to `close(2)`.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

use bytes::BytesMut;

use crate::ledger::syscall;
use crate::platform::{KEEP_IDLE, MORE, NO_SIGNAL, REUSE_PORT, accept_into, socket_of};

/// `socket(2)`: a non-blocking TCP socket for the address family of `peer`.
///
/// # Errors
/// See the manual page; `EMFILE` if there are no free descriptors.
pub fn tcp_socket(peer: SocketAddr) -> io::Result<OwnedFd> {
    socket_of(family_of(peer), libc::SOCK_STREAM)
}

/// `socket(2)`: a non-blocking UDP socket for the address family of `peer`.
///
/// # Errors
/// See the manual page.
pub fn udp_socket(peer: SocketAddr) -> io::Result<OwnedFd> {
    socket_of(family_of(peer), libc::SOCK_DGRAM)
}

fn family_of(peer: SocketAddr) -> libc::c_int {
    if peer.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }
}

/// `IPV6_V6ONLY`: whether an IPv6 socket excludes IPv4. The default depends on the system
/// (`net.ipv6.bindv6only`).
///
/// # Errors
/// See the manual page.
pub fn set_v6_only(fd: BorrowedFd<'_>, only: bool) -> io::Result<()> {
    set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, only.into())
}

/// `bind(2)`.
///
/// # Errors
/// See the manual page; `EADDRINUSE`, `EADDRNOTAVAIL`, `EACCES`.
pub fn bind(fd: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()> {
    let (storage, len) = to_raw(address);
    // SAFETY: `storage` is a live socket address of `len` bytes; the call only reads it.
    let result = unsafe { libc::bind(fd.as_raw_fd(), (&raw const storage).cast(), len) };
    syscall!(bind, result).map(drop)
}

/// `listen(2)`. The kernel caps `backlog` at `net.core.somaxconn`.
///
/// # Errors
/// See the manual page.
pub fn listen(fd: BorrowedFd<'_>, backlog: u16) -> io::Result<()> {
    // SAFETY: listen(2) takes no pointers.
    let result = unsafe { libc::listen(fd.as_raw_fd(), i32::from(backlog)) };
    syscall!(listen, result).map(drop)
}

/// `accept4(2)` with `SOCK_NONBLOCK` and `SOCK_CLOEXEC`, so no `fcntl` is needed on systems that
/// have this call.
///
/// Peers on Unix sockets, and on other sockets that are not IP, have no address; [`UNNAMED`] is
/// returned.
///
/// # Errors
/// See the manual page; `EMFILE` and `ENFILE` leave the connection in the queue.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, SocketAddr)> {
    let mut storage = empty_storage();
    let fd = accept_into(listener, &mut storage)?;
    Ok((fd, peer_of(&storage)))
}

/// The address of an accepted peer.
pub(crate) fn peer_of(storage: &libc::sockaddr_storage) -> SocketAddr {
    from_raw(storage).unwrap_or(UNNAMED)
}

/// The result of a successful `connect(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connect {
    /// The connection is established.
    Done,
    /// The socket becomes writable when the connection is established or has failed
    /// (`EINPROGRESS`).
    InProgress,
}

/// `connect(2)` on a non-blocking socket.
///
/// # Errors
/// See the manual page; `EADDRNOTAVAIL` if there are no free local ports.
pub fn connect(fd: BorrowedFd<'_>, peer: SocketAddr) -> io::Result<Connect> {
    let (storage, len) = to_raw(peer);
    // SAFETY: `storage` is a live socket address of `len` bytes; the call only reads it.
    let result = unsafe { libc::connect(fd.as_raw_fd(), (&raw const storage).cast(), len) };
    connected(syscall!(connect, result))
}

pub(crate) fn connected(result: io::Result<libc::c_int>) -> io::Result<Connect> {
    match result {
        Ok(_) => Ok(Connect::Done),
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => Ok(Connect::InProgress),
        Err(e) => Err(e),
    }
}

/// `getsockname(2)`.
///
/// # Errors
/// See the manual page.
pub fn local_address(fd: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let mut storage = empty_storage();
    let mut len = STORAGE_LEN;
    // SAFETY: `storage` has room for `len` bytes, which is what the kernel may write.
    let result =
        unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut storage).cast(), &raw mut len) };
    syscall!(getsockname, result)?;
    from_raw(&storage)
}

/// `getsockopt(2)`, `SO_ERROR`: the pending error of a socket, if any.
///
/// # Errors
/// See the manual page.
pub fn socket_error(fd: BorrowedFd<'_>) -> io::Result<Option<io::Error>> {
    let mut error: libc::c_int = 0;
    let mut len = INT_LEN;
    // SAFETY: `error` has room for `len` bytes, which is what the kernel may write.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            (&raw mut error).cast(),
            &raw mut len,
        )
    };
    syscall!(getsockopt, result)?;
    Ok((error != 0).then(|| io::Error::from_raw_os_error(error)))
}

/// Kernel counters of a TCP connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Received packets, with or without data.
    pub packets_in: u32,
    /// Received packets with data.
    pub data_packets_in: u32,
    /// Sent packets with data.
    pub data_packets_out: u32,
}

/// `TCP_NODELAY`: disables Nagle's algorithm. Accepted sockets inherit it from the listener.
///
/// # Errors
/// See the manual page.
pub fn set_nodelay(fd: BorrowedFd<'_>) -> io::Result<()> {
    switch_on(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY)
}

/// `SO_REUSEADDR`: permits a listener while old connections are in `TIME_WAIT`.
///
/// # Errors
/// See the manual page.
pub fn set_reuse_address(fd: BorrowedFd<'_>) -> io::Result<()> {
    switch_on(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR)
}

/// A listening socket may begin to share its port ([`set_reuse_port`]). FreeBSD distributes
/// connections only among sockets that shared it before `bind(2)`.
pub const REUSE_PORT_AFTER_BIND: bool = cfg!(target_os = "linux");

/// `SO_REUSEPORT`: several listeners share a port, and the kernel distributes connections. NetBSD
/// and macOS do not distribute them.
///
/// # Errors
/// See the manual page.
pub fn set_reuse_port(fd: BorrowedFd<'_>) -> io::Result<()> {
    switch_on(fd, libc::SOL_SOCKET, REUSE_PORT)
}

/// `SO_KEEPALIVE`: sends probes on an idle connection, which fails if they are not acknowledged.
///
/// # Errors
/// See the manual page.
pub fn set_keep_alive(fd: BorrowedFd<'_>) -> io::Result<()> {
    switch_on(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE)
}

/// `TCP_KEEPIDLE`: idle seconds before the first probe.
///
/// # Errors
/// See the manual page; `EINVAL` outside of 1 to 32,767.
pub fn set_keep_alive_idle(fd: BorrowedFd<'_>, seconds: u16) -> io::Result<()> {
    set_int(fd, libc::IPPROTO_TCP, KEEP_IDLE, seconds.into())
}

/// `TCP_KEEPINTVL`: seconds between two probes.
///
/// # Errors
/// See the manual page; `EINVAL` outside of 1 to 32,767.
pub fn set_keep_alive_interval(fd: BorrowedFd<'_>, seconds: u16) -> io::Result<()> {
    set_int(fd, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, seconds.into())
}

/// `TCP_KEEPCNT`: number of unacknowledged probes before the connection fails.
///
/// # Errors
/// See the manual page; `EINVAL` outside of 1 to 127.
pub fn set_keep_alive_count(fd: BorrowedFd<'_>, probes: u8) -> io::Result<()> {
    set_int(fd, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, probes.into())
}

/// `SO_LINGER` with a timeout of 0: the next close resets the connection, and unsent data is
/// discarded.
///
/// # Errors
/// See the manual page.
pub fn reset_on_close(fd: BorrowedFd<'_>) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, libc::SO_LINGER, &libc::linger { l_onoff: 1, l_linger: 0 })
}

pub(crate) fn switch_on(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
) -> io::Result<()> {
    set_int(fd, level, option, 1)
}

pub(crate) fn set_int(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    set(fd, level, option, &value)
}

fn set<T>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let len = len_of::<T>();
    // SAFETY: `value` is alive, and the call reads its `len` bytes.
    let result = unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), len)
    };
    syscall!(setsockopt, result).map(drop)
}

/// `recv(2)`: appends at most `max` bytes to `block`, within its spare capacity; 0 at the end of
/// the stream.
///
/// # Errors
/// See the manual page; `EAGAIN` if there is no data.
pub fn recv(fd: BorrowedFd<'_>, block: &mut BytesMut, max: usize) -> io::Result<usize> {
    let spare = block.spare_capacity_mut();
    let room = spare.len().min(max);
    // SAFETY: `spare` has at least `room` bytes, which is what the kernel may write.
    let result =
        unsafe { libc::recv(fd.as_raw_fd(), spare.as_mut_ptr().cast(), room, libc::MSG_DONTWAIT) };
    let n = syscall!(recv, result)?.unsigned_abs();
    // SAFETY: recv(2) has written the first `n` bytes of the spare capacity.
    unsafe { block.set_len(block.len() + n) };
    Ok(n)
}

/// `send(2)` with `MSG_NOSIGNAL`, and `MSG_MORE` if more data follows.
///
/// # Errors
/// See the manual page; `EAGAIN` if the send buffer is full.
pub fn send(fd: BorrowedFd<'_>, bytes: &[u8], more: bool) -> io::Result<usize> {
    // SAFETY: `bytes` is live for its length; the call only reads it.
    let result =
        unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags(more)) };
    Ok(syscall!(send, result)?.unsigned_abs())
}

/// `sendmsg(2)` with `MSG_NOSIGNAL`: several slices in one call, and `MSG_MORE` if more data
/// follows. Slices beyond [`VECTOR_LEN_MAX`] are not sent.
///
/// # Errors
/// See the manual page; `EAGAIN` if the send buffer is full.
pub fn send_vectored<'a>(
    fd: BorrowedFd<'_>,
    runs: impl Iterator<Item = &'a [u8]>,
    more: bool,
) -> io::Result<usize> {
    let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let mut vector = [empty; VECTOR_LEN_MAX];
    let mut len = 0;
    for (entry, run) in vector.iter_mut().zip(runs.filter(|run| !run.is_empty())) {
        *entry = libc::iovec { iov_base: run.as_ptr().cast_mut().cast(), iov_len: run.len() };
        len += 1;
    }
    // SAFETY: msghdr is plain data; all-zero is a valid value of it.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = vector.as_mut_ptr();
    message.msg_iovlen = len;
    // SAFETY: the first `len` entries of `vector` name live bytes; the call only reads them.
    let result = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const message, flags(more)) };
    Ok(syscall!(sendmsg, result)?.unsigned_abs())
}

/// `shutdown(2)`, `SHUT_WR`: sends a FIN after the queued data.
///
/// # Errors
/// See the manual page; `ENOTCONN` if the connection is closed.
pub fn shutdown_write(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: shutdown(2) takes no pointers.
    let result = unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_WR) };
    syscall!(shutdown, result).map(drop)
}

/// `close(2)`. Errors are ignored: the descriptor is closed in any case.
pub fn close(fd: OwnedFd) {
    // SAFETY: the descriptor was owned, and ownership ends here.
    let result = unsafe { libc::close(fd.into_raw_fd()) };
    let _ = syscall!(close, result);
}

fn flags(more: bool) -> libc::c_int {
    NO_SIGNAL | libc::MSG_DONTWAIT | if more { MORE } else { 0 }
}

pub(crate) fn empty_storage() -> libc::sockaddr_storage {
    // SAFETY: sockaddr_storage is plain data; all-zero is a valid value of it.
    unsafe { std::mem::zeroed() }
}

/// Converts to the kernel's format. On the BSDs addresses begin with a length, which the kernel
/// fills from the length argument of the call.
fn to_raw(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    let mut storage = empty_storage();
    let len = match address {
        SocketAddr::V4(v4) => {
            // SAFETY: sockaddr_in is plain data; all-zero is a valid value of it.
            let mut raw: libc::sockaddr_in = unsafe { std::mem::zeroed() };
            raw.sin_family = FAMILY_V4;
            raw.sin_port = v4.port().to_be();
            raw.sin_addr = libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) };
            // SAFETY: a sockaddr_storage is at least as large and as aligned as any address.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(raw) };
            len_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            // SAFETY: as above.
            let mut raw: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
            raw.sin6_family = FAMILY_V6;
            raw.sin6_port = v6.port().to_be();
            raw.sin6_flowinfo = v6.flowinfo();
            raw.sin6_addr = libc::in6_addr { s6_addr: v6.ip().octets() };
            raw.sin6_scope_id = v6.scope_id();
            // SAFETY: as above.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(raw) };
            len_of::<libc::sockaddr_in6>()
        }
    };
    (storage, len)
}

pub(crate) fn from_raw(storage: &libc::sockaddr_storage) -> io::Result<SocketAddr> {
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: with this family the kernel wrote a sockaddr_in here.
            let raw = unsafe { (&raw const *storage).cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
            Ok(SocketAddrV4::new(ip, u16::from_be(raw.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: with this family the kernel wrote a sockaddr_in6 here.
            let raw = unsafe { (&raw const *storage).cast::<libc::sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
            let port = u16::from_be(raw.sin6_port);
            Ok(SocketAddrV6::new(ip, port, raw.sin6_flowinfo, raw.sin6_scope_id).into())
        }
        libc::AF_UNIX => Ok(UNNAMED),
        _ => Err(io::Error::new(io::ErrorKind::Unsupported, "not an IP address")),
    }
}

/// Placeholder for the address of a peer without one, such as a peer on a Unix socket.
pub const UNNAMED: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
/// Maximum number of slices in one `sendmsg`.
pub const VECTOR_LEN_MAX: usize = 64;
pub(crate) const STORAGE_LEN: libc::socklen_t = len_of::<libc::sockaddr_storage>();
pub(crate) const INT_LEN: libc::socklen_t = len_of::<libc::c_int>();
const FAMILY_V4: libc::sa_family_t = family(libc::AF_INET);
const FAMILY_V6: libc::sa_family_t = family(libc::AF_INET6);

#[expect(clippy::cast_possible_truncation, reason = "all sizes are small")]
pub(crate) const fn len_of<T>() -> libc::socklen_t {
    size_of::<T>() as libc::socklen_t
}

#[expect(clippy::cast_possible_truncation, reason = "families are small numbers")]
const fn family(number: libc::c_int) -> libc::sa_family_t {
    number as libc::sa_family_t
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_kernel_form() {
        for text in ["127.0.0.1:8080", "[::1]:1", "[fe80::1%7]:65535", "0.0.0.0:0"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(from_raw(&to_raw(address).0).unwrap(), address);
        }
    }

    /// For example, peers on sockets of virtual machines (vsock).
    #[test]
    fn peers_without_ip_address_are_accepted() {
        let mut storage = empty_storage();
        for family in [libc::AF_UNSPEC, libc::AF_UNIX, 40] {
            storage.ss_family = libc::sa_family_t::try_from(family).unwrap();
            assert_eq!(peer_of(&storage), UNNAMED, "{family}");
        }
    }
}
