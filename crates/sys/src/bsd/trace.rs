//! Tracing: `ptrace(2)` is a different call here, which does not stop at system calls.

use std::io;
use std::process::{Child, Command};

use crate::traced::{CallStop, Traced};
use crate::unsupported;

/// Linux only.
///
/// # Errors
/// Always: `Unsupported`.
pub fn spawn_traced(_command: &mut Command) -> io::Result<Child> {
    Err(unsupported("ptrace"))
}

/// Linux only.
///
/// # Errors
/// Always: `Unsupported`.
pub fn release_thread(_thread: u32, _signal: i32) -> io::Result<()> {
    Err(unsupported("ptrace"))
}

/// Linux only.
///
/// # Errors
/// Always: `Unsupported`.
pub fn seize(_thread: u32) -> io::Result<()> {
    Err(unsupported("ptrace"))
}

/// Linux only.
///
/// # Errors
/// Always: `Unsupported`.
pub fn interrupt_thread(_thread: u32) -> io::Result<()> {
    Err(unsupported("ptrace"))
}

/// Linux only.
///
/// # Errors
/// Always: `Unsupported`.
pub fn resume(_thread: u32, _signal: i32) -> io::Result<()> {
    Err(unsupported("ptrace"))
}

/// Linux only.
///
/// # Errors
/// Always: `Unsupported`.
pub fn leave_stopped(_thread: u32) -> io::Result<()> {
    Err(unsupported("ptrace"))
}

/// Linux only.
///
/// # Errors
/// Always: `Unsupported`.
pub fn event_thread(_thread: u32) -> io::Result<u32> {
    Err(unsupported("ptrace"))
}

/// Linux only.
///
/// # Errors
/// Always: `Unsupported`.
pub fn call_stop(_thread: u32) -> io::Result<Option<CallStop>> {
    Err(unsupported("ptrace"))
}

/// Linux only.
///
/// # Errors
/// Always: `Unsupported`.
pub fn wait_traced() -> io::Result<Option<Traced>> {
    Err(unsupported("ptrace"))
}

/// Linux only.
///
/// # Errors
/// Always: `Unsupported`.
pub fn interrupt_wait(_thread: u32) -> io::Result<()> {
    Err(unsupported("ptrace"))
}
