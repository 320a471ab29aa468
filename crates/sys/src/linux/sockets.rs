//! Sockets: Linux calls and options.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::ledger::syscall;
use crate::socket::{TcpInfo, len_of, set_int, switch_on};
use crate::unsupported;

/// `IP_BIND_ADDRESS_NO_PORT`: a bound source address reserves no port until `connect`, so every
/// address has its own 28,000 ports for each destination (`ip(7)`).
///
/// # Errors
/// See the manual page.
pub fn set_bind_address_no_port(fd: BorrowedFd<'_>) -> io::Result<()> {
    switch_on(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT)
}

/// `TCP_DEFER_ACCEPT`: the listener reports a connection when its first bytes have arrived, or
/// after about `seconds` without any.
///
/// # Errors
/// See the manual page.
pub fn set_defer_accept(fd: BorrowedFd<'_>, seconds: u8) -> io::Result<()> {
    set_int(fd, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, seconds.into())
}

/// `SO_NOSIGPIPE`: a send on a closed connection raises no signal.
///
/// # Errors
/// `Unsupported` on Linux, where each send sets `MSG_NOSIGNAL`.
pub fn set_no_signal(_fd: BorrowedFd<'_>) -> io::Result<()> {
    Err(unsupported("SO_NOSIGPIPE"))
}

/// Makes the next close invisible to the peer: `TCP_REPAIR`, or, without `CAP_NET_ADMIN`, a hop
/// limit of 1 (`IP_TTL`, `IPV6_UNICAST_HOPS`), so that packets end at the first router.
///
/// # Errors
/// See the manual page: it is not a TCP socket.
pub fn silence(fd: BorrowedFd<'_>) -> io::Result<()> {
    switch_on(fd, libc::IPPROTO_TCP, libc::TCP_REPAIR).or_else(|_| set_hop_limit_one(fd))
}

/// Sets both limits: an IPv6 socket also accepts the limit of IPv4, which applies only if its peer
/// has a mapped address.
fn set_hop_limit_one(fd: BorrowedFd<'_>) -> io::Result<()> {
    let mapped = switch_on(fd, libc::IPPROTO_IP, libc::IP_TTL);
    switch_on(fd, libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS).or(mapped)
}

/// `TCP_USER_TIMEOUT`: the connection fails if bytes are not acknowledged for `millis`. Accepted
/// sockets inherit it from the listener.
///
/// # Errors
/// See the manual page.
pub fn set_user_timeout(fd: BorrowedFd<'_>, millis: u32) -> io::Result<()> {
    let millis = libc::c_int::try_from(millis).unwrap_or(libc::c_int::MAX);
    set_int(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, millis)
}

/// `TCP_MAXSEG`: the maximum segment size announced to peers. Accepted sockets inherit it.
///
/// # Errors
/// See the manual page; `EINVAL` if the size is out of range.
pub fn set_segment_size_max(fd: BorrowedFd<'_>, bytes: u16) -> io::Result<()> {
    set_int(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, bytes.into())
}

/// `TCP_FASTOPEN`: the listener accepts data in the SYN packet (RFC 7413), for at most
/// `pending_max` pending connections. Both ends must enable it (`net.ipv4.tcp_fastopen`).
///
/// # Errors
/// See the manual page.
pub fn set_fast_open(fd: BorrowedFd<'_>, pending_max: u16) -> io::Result<()> {
    set_int(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, pending_max.into())
}

/// `TCP_FASTOPEN_CONNECT`: the next connect(2) is deferred, and the first bytes are sent with the
/// SYN packet if the server has permitted that before (RFC 7413). Linux 4.11 or later.
///
/// # Errors
/// See the manual page.
pub fn set_fast_open_connect(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_int(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, 1)
}

/// `SO_BINDTODEVICE`: binds the socket to this network interface.
///
/// # Errors
/// See the manual page; `ENODEV` if the interface does not exist, `EPERM` without `CAP_NET_RAW` on
/// kernels before 5.7, or to change it.
pub fn set_interface(fd: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let len = libc::socklen_t::try_from(name.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_BINDTODEVICE);
    // SAFETY: `name` is live for `len` bytes; the call only reads them.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, name.as_ptr().cast(), len) };
    syscall!(setsockopt, result).map(drop)
}

/// `sendfile(2)`: sends at most `len` bytes of `file` from `offset`; 0 at the end of the file.
///
/// # Errors
/// See the manual page; `EAGAIN` if the send buffer is full.
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

/// `sendfile` with bytes from memory before the file, in one call. An empty file is not an error.
///
/// # Errors
/// `Unsupported` on Linux: its `sendfile(2)` sends only a file.
pub fn send_file_with_head<'a>(
    _fd: BorrowedFd<'_>,
    _head: impl Iterator<Item = &'a [u8]>,
    _file: BorrowedFd<'_>,
    _offset: u64,
    _len: u64,
) -> io::Result<usize> {
    Err(unsupported("sendfile with a head"))
}

/// Maximum size of one `sendfile` (`sendfile(2)`).
const SENDFILE_SIZE_MAX: usize = 0x7fff_f000;

/// `getsockopt(2)`, `TCP_INFO`: counters of a connection (`linux/tcp.h`).
///
/// # Errors
/// See the manual page; `InvalidData` from kernels before 4.6, which return less.
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
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "TCP_INFO is too short (kernel before 4.6)",
        ));
    }
    Ok(TcpInfo {
        packets_in: info[SEGS_IN_AT],
        data_packets_in: info[DATA_SEGS_IN_AT],
        data_packets_out: info[DATA_SEGS_IN_AT + 1],
    })
}

/// `getsockopt(2)`, `TCP_INFO` of a listener: the number of connections that wait to be accepted
/// (`tcpi_unacked`).
///
/// # Errors
/// See the manual page; `EOPNOTSUPP` or `ENOPROTOOPT` if it is not a TCP socket.
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

/// `getsockopt(2)`, `SO_PEERCRED`: the user of the peer of a Unix socket, at the time it connected
/// or began to listen.
///
/// # Errors
/// See the manual page.
pub fn peer_user(fd: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(peer(fd)?.uid)
}

/// `getsockopt(2)`, `SO_PEERCRED`: the process of the peer; 0 if it is in another PID namespace.
///
/// # Errors
/// See the manual page.
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

/// Index of `tcpi_unacked` in `struct tcp_info`, in units of four bytes.
const UNACKED_AT: usize = 6;
/// Index of `tcpi_segs_in` in `struct tcp_info`, in units of four bytes.
const SEGS_IN_AT: usize = 35;
/// Index of `tcpi_data_segs_in` in `struct tcp_info`, in units of four bytes. `tcpi_data_segs_out`
/// follows; later fields are not used here.
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
    fn a_listener_reports_waiting_connections() {
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
    fn silenced_sockets_have_a_hop_limit_of_one() {
        for (address, level, option) in [
            ("127.0.0.1:0", libc::IPPROTO_IP, libc::IP_TTL),
            ("[::1]:0", libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
        ] {
            let listener = TcpListener::bind(address).unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            assert!(int(stream.as_fd(), level, option) > 1);
            set_hop_limit_one(stream.as_fd()).unwrap();
            assert_eq!(int(stream.as_fd(), level, option), 1, "{address}");
        }
    }
}
