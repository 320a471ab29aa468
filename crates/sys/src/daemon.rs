//! What a process does to become a service: a child in the background, another user, signals.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::inherit::is_alone;
use crate::ledger::syscall;

/// Which of both processes this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// The one that asked; the other's number.
    Parent(u32),
    /// The other one.
    Child,
}

/// `fork(2)`, while no other thread runs: a lock that one holds would be held for ever in the
/// child.
///
/// # Errors
/// `Unsupported` if there is another thread, or `/proc` does not tell; otherwise as the manual page
/// says.
pub fn fork() -> io::Result<Fork> {
    if !is_alone() {
        let why = "a process with several threads, or without /proc, cannot be doubled";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    // SAFETY: this is the only thread, so the child finds everything as it would be here.
    let pid = syscall!(fork, unsafe { libc::fork() })?;
    Ok(if pid == 0 { Fork::Child } else { Fork::Parent(pid.unsigned_abs()) })
}

/// `setsid(2)`: no terminal, and signals of its own.
///
/// # Errors
/// As the manual page says.
pub fn set_session() -> io::Result<()> {
    // SAFETY: setsid(2) takes nothing.
    syscall!(setsid, unsafe { libc::setsid() }).map(drop)
}

/// `dup2(2)`: a standard stream leads somewhere else from now on.
///
/// # Errors
/// As the manual page says.
pub fn redirect(stream: StandardStream, to: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the call takes no pointers; nobody owns the number of a standard stream.
    syscall!(dup2, unsafe { libc::dup2(to.as_raw_fd(), stream as libc::c_int) }).map(drop)
}

/// What every process is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandardStream {
    /// Standard input.
    In = libc::STDIN_FILENO as isize,
    /// Standard output.
    Out = libc::STDOUT_FILENO as isize,
    /// Standard error.
    Error = libc::STDERR_FILENO as isize,
}

/// `setuid(2)`: another user, for all threads and for good.
///
/// # Errors
/// As the manual page says; `EPERM` without privileges.
pub fn set_user(user: u32) -> io::Result<()> {
    // SAFETY: setuid(2) takes no pointers.
    syscall!(setuid, unsafe { libc::setuid(user) }).map(drop)
}

/// `setgid(2)`: another group, for all threads and for good.
///
/// # Errors
/// As the manual page says; `EPERM` without privileges.
pub fn set_group(group: u32) -> io::Result<()> {
    // SAFETY: setgid(2) takes no pointers.
    syscall!(setgid, unsafe { libc::setgid(group) }).map(drop)
}

/// `setgroups(2)`: the groups besides.
///
/// # Errors
/// As the manual page says; `EPERM` without privileges.
#[allow(clippy::useless_conversion, reason = "the length is an int elsewhere")]
pub fn set_groups(groups: &[u32]) -> io::Result<()> {
    let len = groups.len().try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: `groups` is live for its length; the call only reads it.
    syscall!(setgroups, unsafe { libc::setgroups(len, groups.as_ptr()) }).map(drop)
}

/// Whom a signal is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target(libc::pid_t);

impl Target {
    /// One process. `None` for 0, which means others to the kernel, and for numbers that none has.
    pub fn process(pid: u32) -> Option<Self> {
        libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0).map(Self)
    }

    /// Every process of the group that this one leads. `None` as for [`Target::process`], and for
    /// 1, whose group means everybody to the kernel.
    pub fn group(leader: u32) -> Option<Self> {
        libc::pid_t::try_from(leader).ok().filter(|leader| *leader > 1).map(|leader| Self(-leader))
    }
}

/// `kill(2)`; signal 0 only asks whether it is there.
///
/// # Errors
/// As the manual page says: `ESRCH` if there is none, `EPERM` if it is not ours.
pub fn send_signal(to: Target, signal: i32) -> io::Result<()> {
    // SAFETY: kill(2) takes no pointers.
    syscall!(kill, unsafe { libc::kill(to.0, signal) }).map(drop)
}
