//! `epoll(7)`.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::events::Events;
use crate::ledger::syscall;
use crate::poll::millis;

/// An event of `epoll_wait`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct EpollEvent(libc::epoll_event);

impl EpollEvent {
    /// No event.
    pub const EMPTY: Self = Self(libc::epoll_event { events: 0, u64: 0 });

    /// The tag given at registration.
    pub fn tag(&self) -> u64 {
        self.0.u64
    }

    /// The readiness.
    pub fn events(&self) -> Events {
        Events::from_bits(self.0.events)
    }
}

impl fmt::Debug for EpollEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EpollEvent({:#x}, {:?})", self.tag(), self.events())
    }
}

/// `epoll_create1(2)` with `EPOLL_CLOEXEC`.
///
/// # Errors
/// See the manual page: no free descriptors or memory.
pub fn epoll_create() -> io::Result<OwnedFd> {
    // SAFETY: epoll_create1(2) takes no pointers.
    let fd = syscall!(epoll_create1, unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    // SAFETY: the call returned a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `epoll_ctl(2)`, `EPOLL_CTL_ADD`. Closing `fd` removes it, unless the open file has another
/// descriptor.
///
/// # Errors
/// See the manual page; `ENOSPC` at the user's limit of watches.
pub fn epoll_add(
    epoll: BorrowedFd<'_>,
    fd: BorrowedFd<'_>,
    events: Events,
    tag: u64,
) -> io::Result<()> {
    control(epoll, libc::EPOLL_CTL_ADD, fd, events, tag)
}

/// `epoll_ctl(2)`, `EPOLL_CTL_MOD`.
///
/// # Errors
/// See the manual page.
pub fn epoll_modify(
    epoll: BorrowedFd<'_>,
    fd: BorrowedFd<'_>,
    events: Events,
    tag: u64,
) -> io::Result<()> {
    control(epoll, libc::EPOLL_CTL_MOD, fd, events, tag)
}

/// `epoll_ctl(2)`, `EPOLL_CTL_DEL`. Closing `fd` removes a registration only if no other
/// descriptor, in any process, has the same open file.
///
/// # Errors
/// See the manual page; `ENOENT` if it is not registered.
pub fn epoll_delete(epoll: BorrowedFd<'_>, fd: BorrowedFd<'_>) -> io::Result<()> {
    control(epoll, libc::EPOLL_CTL_DEL, fd, Events::NONE, 0)
}

fn control(
    epoll: BorrowedFd<'_>,
    operation: libc::c_int,
    fd: BorrowedFd<'_>,
    events: Events,
    tag: u64,
) -> io::Result<()> {
    let mut event = libc::epoll_event { events: events.bits(), u64: tag };
    // SAFETY: `event` is a live epoll_event; the call reads it and keeps no pointer.
    let result =
        unsafe { libc::epoll_ctl(epoll.as_raw_fd(), operation, fd.as_raw_fd(), &raw mut event) };
    syscall!(epoll_ctl, result).map(drop)
}

/// `epoll_wait(2)`; without `timeout` it waits indefinitely.
///
/// A timeout is rounded up to milliseconds.
///
/// # Errors
/// See the manual page; `EINTR` after a signal.
pub fn epoll_wait(
    epoll: BorrowedFd<'_>,
    events: &mut [EpollEvent],
    timeout: Option<Duration>,
) -> io::Result<usize> {
    let ms = timeout.map_or(-1, millis);
    let len = i32::try_from(events.len()).unwrap_or(i32::MAX);
    let events = events.as_mut_ptr().cast();
    // SAFETY: `EpollEvent` is a transparent epoll_event, and the kernel writes at most `len`.
    let result = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events, len, ms) };
    let n = syscall!(epoll_wait, result)?;
    Ok(n.unsigned_abs() as usize)
}

/// `epoll_wait(2)` with a timeout of 0, for busy polling. If nothing is ready, the ledger counts it
/// as `epoll_wait_empty`.
///
/// # Errors
/// See the manual page.
pub fn epoll_look(epoll: BorrowedFd<'_>, events: &mut [EpollEvent]) -> io::Result<usize> {
    let len = i32::try_from(events.len()).unwrap_or(i32::MAX);
    let events = events.as_mut_ptr().cast();
    // SAFETY: `EpollEvent` is a transparent epoll_event, and the kernel writes at most `len`.
    let n = match unsafe { libc::epoll_wait(epoll.as_raw_fd(), events, len, 0) } {
        0 => syscall!(epoll_wait_empty, 0)?,
        result => syscall!(epoll_wait, result)?,
    };
    Ok(n.unsigned_abs() as usize)
}

/// `epoll_pwait2(2)`: waits at most `timeout`, with nanosecond precision.
///
/// # Errors
/// See the manual page; `EINTR` after a signal. `ENOSYS` on kernels before 5.11, and `EPERM` under
/// system call filters older than the call.
pub fn epoll_pwait2(
    epoll: BorrowedFd<'_>,
    events: &mut [EpollEvent],
    timeout: Duration,
) -> io::Result<usize> {
    let len = i32::try_from(events.len()).unwrap_or(i32::MAX);
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs().cast_signed(),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    // SAFETY: `EpollEvent` is a transparent epoll_event, the kernel writes at most `len` of
    // them and reads the live `timeout`; a null signal mask leaves the mask alone.
    let result = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            events.as_mut_ptr(),
            len,
            &raw const timeout,
            std::ptr::null::<libc::sigset_t>(),
            0_usize,
        )
    };
    let n = syscall!(epoll_pwait2, result)?;
    Ok(usize::try_from(n).expect("a count of events"))
}
