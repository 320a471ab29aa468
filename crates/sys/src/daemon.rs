//! Calls for services: forking into the background, changing the user, signals.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::inherit::is_single_threaded;
use crate::ledger::syscall;

/// The result of [`fork`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// The calling process, with the process number of the child.
    Parent(u32),
    /// The child process.
    Child,
}

/// `fork(2)`, in a process with a single thread: in the child, a lock of another thread would never
/// be released.
///
/// # Errors
/// `Unsupported` if there is another thread, or no `/proc`; otherwise see the manual page.
pub fn fork() -> io::Result<Fork> {
    if !is_single_threaded() {
        let why = "fork needs a single-threaded process and /proc";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    // SAFETY: this is the only thread, so no lock is held in the child.
    let pid = syscall!(fork, unsafe { libc::fork() })?;
    Ok(if pid == 0 { Fork::Child } else { Fork::Parent(pid.unsigned_abs()) })
}

/// `setsid(2)`: a new session without a controlling terminal.
///
/// # Errors
/// See the manual page.
pub fn set_session() -> io::Result<()> {
    // SAFETY: setsid(2) takes nothing.
    syscall!(setsid, unsafe { libc::setsid() }).map(drop)
}

/// `dup2(2)`: redirects a standard stream to another file.
///
/// # Errors
/// See the manual page.
pub fn redirect(stream: StandardStream, to: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the call takes no pointers, and standard streams have no `OwnedFd`.
    syscall!(dup2, unsafe { libc::dup2(to.as_raw_fd(), stream as libc::c_int) }).map(drop)
}

/// The standard streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandardStream {
    /// Standard input.
    In = libc::STDIN_FILENO as isize,
    /// Standard output.
    Out = libc::STDOUT_FILENO as isize,
    /// Standard error.
    Error = libc::STDERR_FILENO as isize,
}

/// `setuid(2)`: changes the user, permanently and for all threads.
///
/// # Errors
/// See the manual page; `EPERM` without privileges.
pub fn set_user(user: u32) -> io::Result<()> {
    // SAFETY: setuid(2) takes no pointers.
    syscall!(setuid, unsafe { libc::setuid(user) }).map(drop)
}

/// `setgid(2)`: changes the group, permanently and for all threads.
///
/// # Errors
/// See the manual page; `EPERM` without privileges.
pub fn set_group(group: u32) -> io::Result<()> {
    // SAFETY: setgid(2) takes no pointers.
    syscall!(setgid, unsafe { libc::setgid(group) }).map(drop)
}

/// `setgroups(2)`: sets the supplementary groups.
///
/// # Errors
/// See the manual page; `EPERM` without privileges.
#[allow(clippy::useless_conversion, reason = "the length is an int elsewhere")]
pub fn set_groups(groups: &[u32]) -> io::Result<()> {
    let len = groups.len().try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: `groups` is live for its length; the call only reads it.
    syscall!(setgroups, unsafe { libc::setgroups(len, groups.as_ptr()) }).map(drop)
}

/// The receiver of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target(libc::pid_t);

impl Target {
    /// One process. `None` for 0, which the kernel interprets as a group, and for invalid numbers.
    pub fn process(pid: u32) -> Option<Self> {
        libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0).map(Self)
    }

    /// All processes of the group with this leader. `None` as for [`Target::process`], and for 1,
    /// which the kernel interprets as all processes.
    pub fn group(leader: u32) -> Option<Self> {
        libc::pid_t::try_from(leader).ok().filter(|leader| *leader > 1).map(|leader| Self(-leader))
    }
}

/// `kill(2)`; signal 0 only checks that the receiver exists.
///
/// # Errors
/// See the manual page: `ESRCH` if it does not exist, `EPERM` without permission.
pub fn send_signal(to: Target, signal: i32) -> io::Result<()> {
    // SAFETY: kill(2) takes no pointers.
    syscall!(kill, unsafe { libc::kill(to.0, signal) }).map(drop)
}
