//! Sockets: what Linux does in its own way.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::ledger::syscall;
use crate::socket::{STORAGE_LEN, TcpInfo, len_of, set_int, switch_on};
use crate::unsupported;

/// `socket(2)`: a non-blocking socket of this family and kind.
pub(crate) fn socket_of(family: libc::c_int, kind: libc::c_int) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: socket(2) takes no pointers.
    let fd = syscall!(socket, unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: the call returned a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `accept4(2)`; the peer's address goes into `storage`.
pub(crate) fn accept_into(
    listener: BorrowedFd<'_>,
    storage: &mut libc::sockaddr_storage,
) -> io::Result<OwnedFd> {
    let mut len = STORAGE_LEN;
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let address = std::ptr::from_mut(storage).cast();
    // SAFETY: `storage` has room for `len` bytes, which is what the kernel may write.
    let result = unsafe { libc::accept4(listener.as_raw_fd(), address, &raw mut len, flags) };
    let fd = syscall!(accept4, result)?;
    // SAFETY: the call returned a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `IP_BIND_ADDRESS_NO_PORT`: a bound source address does not reserve a port until `connect`,
/// so every address has its own 28,000 ports towards every destination (`ip(7)`).
///
/// # Errors
/// As the manual page says.
pub fn set_bind_address_no_port(fd: BorrowedFd<'_>) -> io::Result<()> {
    switch_on(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT)
}

/// `TCP_DEFER_ACCEPT`: a listener tells of a connection when its first bytes are there, or after
/// about so many seconds without any.
///
/// # Errors
/// As the manual page says.
pub fn set_defer_accept(fd: BorrowedFd<'_>, seconds: u8) -> io::Result<()> {
    set_int(fd, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, seconds.into())
}

/// `SO_NOSIGPIPE`: a send to a connection that is gone raises no signal.
///
/// # Errors
/// `Unsupported` on Linux, where every send says so itself (`MSG_NOSIGNAL`).
pub fn set_no_signal(_fd: BorrowedFd<'_>) -> io::Result<()> {
    Err(unsupported("SO_NOSIGPIPE"))
}

/// What is closed next says nothing to its peer: `TCP_REPAIR`, or, without `CAP_NET_ADMIN`, a hop
/// limit of 1 (`IP_TTL`, `IPV6_UNICAST_HOPS`), so that whatever is sent ends at the first router.
///
/// # Errors
/// As the manual page says: it is no TCP socket.
pub fn silence(fd: BorrowedFd<'_>) -> io::Result<()> {
    switch_on(fd, libc::IPPROTO_TCP, libc::TCP_REPAIR).or_else(|_| go_one_hop(fd))
}

/// Both limits, as a socket for IPv6 takes that of IPv4 too, which counts only where its peer has a
/// mapped address.
fn go_one_hop(fd: BorrowedFd<'_>) -> io::Result<()> {
    let mapped = switch_on(fd, libc::IPPROTO_IP, libc::IP_TTL);
    switch_on(fd, libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS).or(mapped)
}

/// `TCP_USER_TIMEOUT`: the connection fails when bytes have not been acknowledged for so long. What
/// a listener accepts inherits it.
///
/// # Errors
/// As the manual page says.
pub fn set_user_timeout(fd: BorrowedFd<'_>, millis: u32) -> io::Result<()> {
    let millis = libc::c_int::try_from(millis).unwrap_or(libc::c_int::MAX);
    set_int(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, millis)
}

/// `TCP_MAXSEG`: the largest segment that is told to peers. What a listener accepts inherits it.
///
/// # Errors
/// As the manual page says; `EINVAL` if the size is none.
pub fn set_segment_size_max(fd: BorrowedFd<'_>, bytes: u16) -> io::Result<()> {
    set_int(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, bytes.into())
}

/// `TCP_FASTOPEN`: a listener takes bytes along with the first packet (RFC 7413), of so many
/// connections at a time that do not stand yet. Both ends must allow it (`net.ipv4.tcp_fastopen`).
///
/// # Errors
/// As the manual page says.
pub fn set_fast_open(fd: BorrowedFd<'_>, pending_max: u16) -> io::Result<()> {
    set_int(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, pending_max.into())
}

/// `SO_BINDTODEVICE`: only through this network interface.
///
/// # Errors
/// As the manual page says; `ENODEV` if there is none of this name, `EPERM` without
/// `CAP_NET_RAW` on kernels before 5.7, or to change it.
pub fn set_interface(fd: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let len = libc::socklen_t::try_from(name.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_BINDTODEVICE);
    // SAFETY: `name` is live for `len` bytes; the call only reads them.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, name.as_ptr().cast(), len) };
    syscall!(setsockopt, result).map(drop)
}

/// `sendfile(2)`: at most `len` bytes of `file` from `offset` on; 0 when the file ends there.
///
/// # Errors
/// As the manual page says; `EAGAIN` when the peer must read first.
pub fn send_file(
    fd: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    offset: u64,
    len: u64,
) -> io::Result<usize> {
    let mut offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    let count = usize::try_from(len).unwrap_or(usize::MAX).min(SENDFILE_SIZE_MAX);
    // SAFETY: `offset` is a live off_t that the kernel may read and write.
    let result =
        unsafe { libc::sendfile(fd.as_raw_fd(), file.as_raw_fd(), &raw mut offset, count) };
    Ok(syscall!(sendfile, result)?.unsigned_abs())
}

/// `sendfile` with bytes in memory before the file, in one call; 0 bytes of the file are no error.
///
/// # Errors
/// `Unsupported` on Linux, whose `sendfile(2)` sends a file and nothing else.
pub fn send_file_with_head<'a>(
    _fd: BorrowedFd<'_>,
    _head: impl Iterator<Item = &'a [u8]>,
    _file: BorrowedFd<'_>,
    _offset: u64,
    _len: u64,
) -> io::Result<usize> {
    Err(unsupported("sendfile with a head"))
}

/// What one `sendfile` takes (`sendfile(2)`).
const SENDFILE_SIZE_MAX: usize = 0x7fff_f000;

/// `getsockopt(2)`, `TCP_INFO`: what the kernel counted on a connection (`linux/tcp.h`).
///
/// # Errors
/// As the manual page says; `InvalidData` from a kernel before 4.6, which tells less.
pub fn tcp_info(fd: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    let mut info = [0_u32; INFO_LEN];
    let mut len = len_of::<[u32; INFO_LEN]>();
    let to = info.as_mut_ptr().cast();
    // SAFETY: `info` has room for `len` bytes, which is what the kernel may write.
    let result = unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut len)
    };
    syscall!(getsockopt, result)?;
    if len < len_of::<[u32; INFO_LEN]>() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "TCP_INFO is shorter than ours"));
    }
    Ok(TcpInfo {
        packets_in: info[SEGS_IN_AT],
        data_packets_in: info[DATA_SEGS_IN_AT],
        data_packets_out: info[DATA_SEGS_IN_AT + 1],
    })
}

/// `getsockopt(2)`, `TCP_INFO` of a listener: how many connections wait to be accepted
/// (`tcpi_unacked`).
///
/// # Errors
/// As the manual page says; `EOPNOTSUPP` or `ENOPROTOOPT` if it is not of TCP.
pub fn waiting(listener: BorrowedFd<'_>) -> io::Result<u32> {
    let mut info = [0_u32; UNACKED_AT + 1];
    let mut len = len_of::<[u32; UNACKED_AT + 1]>();
    let to = info.as_mut_ptr().cast();
    // SAFETY: `info` has room for `len` bytes, which is what the kernel may write.
    let result = unsafe {
        libc::getsockopt(listener.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut len)
    };
    syscall!(getsockopt, result)?;
    Ok(info[UNACKED_AT])
}

/// `getsockopt(2)`, `SO_PEERCRED`: the user at the other end of a Unix socket, as of when it
/// connected or began to listen.
///
/// # Errors
/// As the manual page says.
pub fn peer_user(fd: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(peer(fd)?.uid)
}

/// The same of the process; 0 if it is in another namespace of processes.
///
/// # Errors
/// As the manual page says.
pub fn peer_process(fd: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(peer(fd)?.pid.unsigned_abs())
}

fn peer(fd: BorrowedFd<'_>) -> io::Result<libc::ucred> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = len_of::<libc::ucred>();
    // SAFETY: `peer` has room for `len` bytes, which is what the kernel may write.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut len,
        )
    };
    syscall!(getsockopt, result)?;
    Ok(peer)
}

/// Where `tcpi_unacked` stands in `struct tcp_info`, in words of four bytes.
const UNACKED_AT: usize = 6;
/// Where `tcpi_segs_in` stands in `struct tcp_info`, in words of four bytes.
const SEGS_IN_AT: usize = 35;
/// Where `tcpi_data_segs_in` stands in `struct tcp_info`, in words of four bytes:
/// `tcpi_data_segs_out` follows, and more that is of no use here.
const DATA_SEGS_IN_AT: usize = 38;
const INFO_LEN: usize = DATA_SEGS_IN_AT + 2;

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;
    use crate::socket::INT_LEN;

    fn int(fd: BorrowedFd<'_>, level: libc::c_int, option: libc::c_int) -> libc::c_int {
        let (mut value, mut len) = (0, INT_LEN);
        let to = (&raw mut value).cast();
        // SAFETY: the call writes at most `INT_LEN` bytes to a live int.
        let result = unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, to, &raw mut len) };
        assert_eq!(result, 0);
        value
    }

    #[test]
    fn a_listener_tells_how_many_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut clients = Vec::new();
        for count in 0..5 {
            assert_eq!(waiting(listener.as_fd()).unwrap(), count);
            clients.push(TcpStream::connect(address).unwrap());
        }
        listener.accept().unwrap();
        assert_eq!(waiting(listener.as_fd()).unwrap(), 4);
        let (unix, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(waiting(unix.as_fd()).is_err());
    }

    #[test]
    fn what_is_silent_goes_one_hop_by_either_version_of_ip() {
        for (address, level, option) in [
            ("127.0.0.1:0", libc::IPPROTO_IP, libc::IP_TTL),
            ("[::1]:0", libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
        ] {
            let listener = TcpListener::bind(address).unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            assert!(int(stream.as_fd(), level, option) > 1);
            go_one_hop(stream.as_fd()).unwrap();
            assert_eq!(int(stream.as_fd(), level, option), 1, "{address}");
        }
    }
}
