//! Sockets: Linux's options, and calls that are the same on all three systems.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::ledger::syscall;
use crate::socket::TcpInfo;
use crate::unsupported;

/// Linux's `IP_BIND_ADDRESS_NO_PORT`.
///
/// # Errors
/// `Unsupported`: a bound source address has a port immediately.
pub fn set_bind_address_no_port(_: BorrowedFd<'_>) -> io::Result<()> {
    Err(unsupported("IP_BIND_ADDRESS_NO_PORT"))
}

/// Linux's `TCP_DEFER_ACCEPT`. FreeBSD's accept filters are modules of its kernel.
///
/// # Errors
/// `Unsupported`: a connection is reported when it is established.
pub fn set_defer_accept(_: BorrowedFd<'_>, _: u8) -> io::Result<()> {
    Err(unsupported("TCP_DEFER_ACCEPT"))
}

/// Linux's `TCP_REPAIR`.
///
/// # Errors
/// `Unsupported`.
pub fn silence(_: BorrowedFd<'_>) -> io::Result<()> {
    Err(unsupported("TCP_REPAIR"))
}

/// Linux's `TCP_USER_TIMEOUT`.
///
/// # Errors
/// `Unsupported`.
pub fn set_user_timeout(_: BorrowedFd<'_>, _: u32) -> io::Result<()> {
    Err(unsupported("TCP_USER_TIMEOUT"))
}

/// Linux's `TCP_MAXSEG` of listeners.
///
/// # Errors
/// `Unsupported`.
pub fn set_segment_size_max(_: BorrowedFd<'_>, _: u16) -> io::Result<()> {
    Err(unsupported("TCP_MAXSEG"))
}

/// Linux's `TCP_INFO` of a listener.
///
/// # Errors
/// `Unsupported`.
pub fn waiting(_: BorrowedFd<'_>) -> io::Result<u32> {
    Err(unsupported("TCP_INFO"))
}

/// Linux's `TCP_FASTOPEN`.
///
/// # Errors
/// `Unsupported`.
pub fn set_fast_open(_: BorrowedFd<'_>, _: u16) -> io::Result<()> {
    Err(unsupported("TCP_FASTOPEN"))
}

/// Linux's `TCP_FASTOPEN_CONNECT`.
///
/// # Errors
/// `Unsupported`.
pub fn set_fast_open_connect(_: BorrowedFd<'_>) -> io::Result<()> {
    Err(unsupported("TCP_FASTOPEN_CONNECT"))
}

/// Linux's `SO_BINDTODEVICE`.
///
/// # Errors
/// `Unsupported`.
pub fn set_interface(_: BorrowedFd<'_>, _: &str) -> io::Result<()> {
    Err(unsupported("SO_BINDTODEVICE"))
}

/// Linux's `TCP_INFO`.
///
/// # Errors
/// `Unsupported`.
pub fn tcp_info(_: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    Err(unsupported("TCP_INFO"))
}

/// `getpeereid(3)`: the user of the peer of a Unix socket, at the time of the connection.
///
/// # Errors
/// See the manual page.
pub fn peer_user(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let (mut user, mut group) = (0, 0);
    // SAFETY: both numbers are live for the call to write.
    let result = unsafe { libc::getpeereid(fd.as_raw_fd(), &raw mut user, &raw mut group) };
    syscall!(getsockopt, result)?;
    Ok(user)
}

/// The process of Linux's `SO_PEERCRED`.
///
/// # Errors
/// `Unsupported`.
pub fn peer_process(_: BorrowedFd<'_>) -> io::Result<u32> {
    Err(unsupported("SO_PEERCRED"))
}
