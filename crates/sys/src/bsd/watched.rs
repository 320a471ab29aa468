//! Observing other processes, which Linux alone supports in this way.

use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;

use crate::unsupported;

/// Linux only.
///
/// # Errors
/// Always: `Unsupported`.
pub fn open_process(_pid: u32) -> io::Result<OwnedFd> {
    Err(unsupported("pidfd_open"))
}

/// Linux only.
///
/// # Errors
/// Always: `Unsupported`.
pub fn adopt_orphans() -> io::Result<()> {
    Err(unsupported("prctl"))
}

/// Linux only.
///
/// # Errors
/// Always: `Unsupported`.
pub fn end_with_parent() -> io::Result<()> {
    Err(unsupported("prctl"))
}

/// Linux only.
///
/// # Errors
/// Always: `Unsupported`.
pub fn reap(_pid: u32) -> io::Result<Option<ExitStatus>> {
    Err(unsupported("wait4"))
}

/// Linux only.
///
/// # Errors
/// Always: `Unsupported`.
pub fn thread_number() -> io::Result<u32> {
    Err(unsupported("gettid"))
}
