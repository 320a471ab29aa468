//! `ptrace(2)` for watching system calls: one thread stops other threads when they enter and leave
//! the kernel.
//!
//! A traced thread is identified by its number. A number that does not exist, or is not stopped,
//! returns `ESRCH`, so no call here can affect other threads.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::ptr::null_mut;

use crate::ledger::{Ledger, syscall};
use crate::platform::watched::number;
use crate::traced::{CallStop, Traced, TracedState};
use crate::unsupported;

/// Starts a program traced by the calling thread. It stops before its first instruction.
///
/// # Errors
/// See [`Command::spawn`], `PTRACE_TRACEME` in `ptrace(2)`, and [`seize`].
pub fn spawn_traced(command: &mut Command) -> io::Result<Child> {
    if ARCHITECTURE == UNKNOWN {
        return Err(unsupported("ptrace"));
    }
    let _exists = Ledger::here(); // created before the fork: the child must not allocate
    let begin = || {
        // SAFETY: the request ignores its other arguments.
        let result =
            unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, null_mut::<u8>(), null_mut::<u8>()) };
        syscall!(ptrace, result).map(drop)
    };
    // SAFETY: the closure makes one system call and writes to existing memory. It takes no lock
    // that another thread of the parent could hold.
    unsafe { command.pre_exec(begin) }.spawn()
}

/// `PTRACE_DETACH`: stops tracing a stopped thread, and delivers `signal` to it (0: none).
///
/// # Errors
/// See the manual page.
pub fn release_thread(thread: u32, signal: i32) -> io::Result<()> {
    let signal = usize::try_from(signal).map_err(io::Error::other)?;
    // SAFETY: the request takes a number as its data.
    unsafe { request(libc::PTRACE_DETACH, thread, 0, signal) }.map(drop)
}

/// `PTRACE_SEIZE`: starts tracing a running thread, without stopping it.
///
/// # Errors
/// See the manual page: `EPERM` without permission, or if another process traces it. `Unsupported`
/// on machines with unknown system call numbers.
pub fn seize(thread: u32) -> io::Result<()> {
    if ARCHITECTURE == UNKNOWN {
        return Err(unsupported("ptrace"));
    }
    // SAFETY: the request takes a number as its data.
    unsafe { request(libc::PTRACE_SEIZE, thread, 0, OPTIONS) }.map(drop)
}

/// `PTRACE_INTERRUPT`: stops a seized thread.
///
/// # Errors
/// See the manual page.
pub fn interrupt_thread(thread: u32) -> io::Result<()> {
    // SAFETY: the request takes no data.
    unsafe { request(libc::PTRACE_INTERRUPT, thread, 0, 0) }.map(drop)
}

/// `PTRACE_SYSCALL`: resumes a stopped thread until its next system call begins or returns, and
/// delivers `signal` to it (0: none).
///
/// # Errors
/// See the manual page: `ESRCH` if it was killed meanwhile.
pub fn resume(thread: u32, signal: i32) -> io::Result<()> {
    let signal = usize::try_from(signal).map_err(io::Error::other)?;
    // SAFETY: the request takes a number as its data.
    unsafe { request(libc::PTRACE_SYSCALL, thread, 0, signal) }.map(drop)
}

/// `PTRACE_LISTEN`: leaves a seized thread stopped, and reports when it is continued.
///
/// # Errors
/// See the manual page.
pub fn leave_stopped(thread: u32) -> io::Result<()> {
    // SAFETY: the request takes no data.
    unsafe { request(libc::PTRACE_LISTEN, thread, 0, 0) }.map(drop)
}

/// `PTRACE_GETEVENTMSG`: the thread of the last event.
///
/// # Errors
/// See the manual page.
pub fn event_thread(thread: u32) -> io::Result<u32> {
    let mut message: libc::c_ulong = 0;
    let to = (&raw mut message).expose_provenance();
    // SAFETY: `message` is live for the kernel to write one word to.
    unsafe { request(libc::PTRACE_GETEVENTMSG, thread, 0, to) }?;
    u32::try_from(message).map_err(io::Error::other)
}

/// `PTRACE_GET_SYSCALL_INFO`: the system call at which a thread is stopped; `None` if it is stopped
/// elsewhere.
///
/// # Errors
/// See the manual page; `EIO` before Linux 5.3.
pub fn call_stop(thread: u32) -> io::Result<Option<CallStop>> {
    // SAFETY: ptrace_syscall_info is plain data; all-zero is a valid value of it.
    let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
    let to = (&raw mut info).expose_provenance();
    // SAFETY: `info` is live for its size, which the request is given.
    unsafe { request(libc::PTRACE_GET_SYSCALL_INFO, thread, size_of_val(&info), to) }?;
    Ok(match info.op {
        libc::PTRACE_SYSCALL_INFO_ENTRY => {
            // SAFETY: `op` selects the member of the union that the kernel has filled.
            let entry = unsafe { info.u.entry };
            let native = info.arch == ARCHITECTURE;
            Some(CallStop::Enter { number: entry.nr, arguments: entry.args, native })
        }
        libc::PTRACE_SYSCALL_INFO_EXIT => {
            // SAFETY: `op` selects the member of the union that the kernel has filled.
            Some(CallStop::Return { result: unsafe { info.u.exit.sval } })
        }
        _ => None,
    })
}

/// `wait4(2)`: the next event of a thread traced by the calling one, or of a child. `None` if there
/// is none left.
///
/// # Errors
/// See the manual page: `EINTR` after a signal.
pub fn wait_traced() -> io::Result<Option<Traced>> {
    let mut status = 0;
    let flags = libc::__WALL | libc::__WNOTHREAD;
    // SAFETY: `status` is live for the kernel to write to; no usage is requested.
    let result = unsafe { libc::wait4(-1, &raw mut status, flags, null_mut()) };
    match syscall!(wait4, result) {
        Ok(thread) => Ok(Some(Traced { thread: thread.unsigned_abs(), state: state(status) })),
        Err(e) if e.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        Err(e) => Err(e),
    }
}

/// `tgkill(2)`: interrupts a [`wait_traced`] in another thread of this process, which returns
/// `EINTR`. The caller checks whether the interrupt arrived, and repeats it if not.
///
/// The signal is `SIGURG`, which is ignored by default. If it has no handler, one that does nothing
/// is installed.
///
/// # Errors
/// See the manual page: `ESRCH` if this process has no such thread.
pub fn interrupt_wait(thread: u32) -> io::Result<()> {
    install_interrupt_handler()?;
    let (process, thread) = (std::process::id().cast_signed(), number(thread)?);
    // SAFETY: tgkill(2) takes no pointers.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGURG) };
    syscall!(tgkill, sent).map(drop)
}

/// `sigaction(2)`: system calls are not restarted after the signal (no `SA_RESTART`).
fn install_interrupt_handler() -> io::Result<()> {
    // SAFETY: sigaction is plain data; all-zero is a valid value of it.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: `action` is live for the kernel to write to; nothing is set.
    let result = unsafe { libc::sigaction(libc::SIGURG, null_mut(), &raw mut action) };
    syscall!(rt_sigaction, result)?;
    if !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN) {
        return Ok(());
    }
    extern "C" fn nothing(_: libc::c_int) {}
    action.sa_sigaction = (nothing as extern "C" fn(libc::c_int)) as usize;
    action.sa_flags = 0;
    // SAFETY: `action` is complete, and its handler does nothing.
    let set = unsafe { libc::sigaction(libc::SIGURG, &raw const action, null_mut()) };
    syscall!(rt_sigaction, set).map(drop)
}

fn state(status: libc::c_int) -> TracedState {
    let result = ExitStatus::from_raw(status);
    if let Some(code) = result.code() {
        return TracedState::Exited(code);
    }
    if let Some(signal) = result.signal() {
        return TracedState::Killed(signal);
    }
    let signal = result.stopped_signal().unwrap_or(0);
    match status >> 16 {
        0 if signal == libc::SIGTRAP | CALL_BIT => TracedState::Call,
        0 => TracedState::Signal(signal),
        libc::PTRACE_EVENT_CLONE => TracedState::MadeThread,
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => TracedState::MadeProcess,
        libc::PTRACE_EVENT_EXEC => TracedState::Executed,
        libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => TracedState::Paused,
        libc::PTRACE_EVENT_STOP => TracedState::Stopped(signal),
        _ => TracedState::Paused,
    }
}

/// # Safety
/// `address` and `data` must be valid for the request.
unsafe fn request(
    request: libc::c_uint,
    thread: u32,
    address: usize,
    data: usize,
) -> io::Result<libc::c_long> {
    let thread = number(thread)?;
    let [address, data] = [address, data].map(std::ptr::with_exposed_provenance_mut::<u8>);
    // SAFETY: the caller's promise.
    syscall!(ptrace, unsafe { libc::ptrace(request, thread, address, data) })
}

/// Set in the signal of a stop at a system call, to distinguish it from a `SIGTRAP` of the program.
const CALL_BIT: libc::c_int = 0x80;
const OPTIONS: usize = (libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEEXEC) as usize;

/// `AUDIT_ARCH_*` of `<linux/audit.h>`: the ELF machine, 64 bits, little-endian.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;
#[cfg(target_arch = "riscv64")]
const ARCHITECTURE: u32 = 0xc000_00f3;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
const ARCHITECTURE: u32 = UNKNOWN;
/// No machine has this value.
const UNKNOWN: u32 = 0;
