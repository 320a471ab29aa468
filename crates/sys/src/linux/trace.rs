//! `ptrace(2)`, as far as system calls are watched with it: from one thread, which stops others
//! where they enter the kernel and where they return.
//!
//! A traced thread is named by its number. A number that is none, or is not stopped, is `ESRCH`,
//! so no call here can touch what is not ours.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::ptr::null_mut;

use crate::ledger::{Ledger, syscall};
use crate::platform::watched::number;
use crate::traced::{CallStop, Traced, TracedState};
use crate::unsupported;

/// Starts a program that is traced by the calling thread, and stands still before its first
/// instruction.
///
/// # Errors
/// As [`Command::spawn`]; as `ptrace(2)` says of `PTRACE_TRACEME`; as [`seize`].
pub fn spawn_traced(command: &mut Command) -> io::Result<Child> {
    if ARCHITECTURE == UNKNOWN {
        return Err(unsupported("ptrace"));
    }
    let _exists = Ledger::here(); // so that the child, which may not allocate, finds it
    let begin = || {
        // SAFETY: the request ignores its other arguments.
        let result =
            unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, null_mut::<u8>(), null_mut::<u8>()) };
        syscall!(ptrace, result).map(drop)
    };
    // SAFETY: the closure makes one system call and writes to memory that exists: nothing that
    // another thread of the parent could hold locked.
    unsafe { command.pre_exec(begin) }.spawn()
}

/// `PTRACE_DETACH`: a thread that stands is traced no longer; `signal` (0 for none) reaches it.
///
/// # Errors
/// As the manual page says.
pub fn release_thread(thread: u32, signal: i32) -> io::Result<()> {
    let signal = usize::try_from(signal).map_err(io::Error::other)?;
    // SAFETY: the request takes a number as its data.
    unsafe { request(libc::PTRACE_DETACH, thread, 0, signal) }.map(drop)
}

/// `PTRACE_SEIZE`: a running thread is traced from now on, and goes on running.
///
/// # Errors
/// As the manual page says: `EPERM` if we may not, or if somebody else traces it. `Unsupported` on
/// machines whose system calls are not known.
pub fn seize(thread: u32) -> io::Result<()> {
    if ARCHITECTURE == UNKNOWN {
        return Err(unsupported("ptrace"));
    }
    // SAFETY: the request takes a number as its data.
    unsafe { request(libc::PTRACE_SEIZE, thread, 0, OPTIONS) }.map(drop)
}

/// `PTRACE_INTERRUPT`: a seized thread stops wherever it is.
///
/// # Errors
/// As the manual page says.
pub fn interrupt_thread(thread: u32) -> io::Result<()> {
    // SAFETY: the request takes no data.
    unsafe { request(libc::PTRACE_INTERRUPT, thread, 0, 0) }.map(drop)
}

/// `PTRACE_SYSCALL`: a thread that stands goes on until its next call begins or returns; `signal`
/// (0 for none) reaches it.
///
/// # Errors
/// As the manual page says: `ESRCH` if it was killed meanwhile.
pub fn resume(thread: u32, signal: i32) -> io::Result<()> {
    let signal = usize::try_from(signal).map_err(io::Error::other)?;
    // SAFETY: the request takes a number as its data.
    unsafe { request(libc::PTRACE_SYSCALL, thread, 0, signal) }.map(drop)
}

/// `PTRACE_LISTEN`: a seized thread stays stopped, and tells when somebody continues it.
///
/// # Errors
/// As the manual page says.
pub fn leave_stopped(thread: u32) -> io::Result<()> {
    // SAFETY: the request takes no data.
    unsafe { request(libc::PTRACE_LISTEN, thread, 0, 0) }.map(drop)
}

/// `PTRACE_GETEVENTMSG`: of which thread the event tells.
///
/// # Errors
/// As the manual page says.
pub fn event_thread(thread: u32) -> io::Result<u32> {
    let mut message: libc::c_ulong = 0;
    let to = (&raw mut message).expose_provenance();
    // SAFETY: `message` is live for the kernel to write one word to.
    unsafe { request(libc::PTRACE_GETEVENTMSG, thread, 0, to) }?;
    u32::try_from(message).map_err(io::Error::other)
}

/// `PTRACE_GET_SYSCALL_INFO`: the call at which a thread stands. `None` if it stands elsewhere.
///
/// # Errors
/// As the manual page says; `EIO` before Linux 5.3.
pub fn call_stop(thread: u32) -> io::Result<Option<CallStop>> {
    // SAFETY: ptrace_syscall_info is plain data; all-zero is a valid value of it.
    let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
    let to = (&raw mut info).expose_provenance();
    // SAFETY: `info` is live for its size, which the request is given.
    unsafe { request(libc::PTRACE_GET_SYSCALL_INFO, thread, size_of_val(&info), to) }?;
    Ok(match info.op {
        libc::PTRACE_SYSCALL_INFO_ENTRY => {
            // SAFETY: the kernel filled this member of the union, as `op` says.
            let entry = unsafe { info.u.entry };
            let native = info.arch == ARCHITECTURE;
            Some(CallStop::Enter { number: entry.nr, arguments: entry.args, native })
        }
        libc::PTRACE_SYSCALL_INFO_EXIT => {
            // SAFETY: the kernel filled this member of the union, as `op` says.
            Some(CallStop::Return { result: unsafe { info.u.exit.sval } })
        }
        _ => None,
    })
}

/// `wait4(2)`: the next thread traced by the calling one, or child of it, that has something to
/// tell. `None` if there is none left.
///
/// # Errors
/// As the manual page says: `EINTR` after a signal.
pub fn wait_traced() -> io::Result<Option<Traced>> {
    let mut status = 0;
    let flags = libc::__WALL | libc::__WNOTHREAD;
    // SAFETY: `status` is live for the kernel to write to; no usage is asked for.
    let result = unsafe { libc::wait4(-1, &raw mut status, flags, null_mut()) };
    match syscall!(wait4, result) {
        Ok(thread) => Ok(Some(Traced { thread: thread.unsigned_abs(), state: state(status) })),
        Err(e) if e.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        Err(e) => Err(e),
    }
}

/// `tgkill(2)`: a [`wait_traced`] in which another thread of ours is right now ends with `EINTR`.
/// Whoever asks looks whether that was heard, and asks again.
///
/// The signal is `SIGURG`, of which nobody thinks anything who gets it by chance. It is given a
/// handler that does nothing, unless it has one.
///
/// # Errors
/// As the manual page says: `ESRCH` if there is no such thread of ours.
pub fn interrupt_wait(thread: u32) -> io::Result<()> {
    heed_interrupts()?;
    let (process, thread) = (std::process::id().cast_signed(), number(thread)?);
    // SAFETY: tgkill(2) takes no pointers.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGURG) };
    syscall!(tgkill, sent).map(drop)
}

/// `sigaction(2)`: calls are not made again after the signal (no `SA_RESTART`).
fn heed_interrupts() -> io::Result<()> {
    // SAFETY: sigaction is plain data; all-zero is a valid value of it.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: `action` is live for the kernel to write to; nothing is set.
    let told = unsafe { libc::sigaction(libc::SIGURG, null_mut(), &raw mut action) };
    syscall!(rt_sigaction, told)?;
    if !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN) {
        return Ok(());
    }
    extern "C" fn nothing(_: libc::c_int) {}
    action.sa_sigaction = (nothing as extern "C" fn(libc::c_int)) as usize;
    action.sa_flags = 0;
    // SAFETY: `action` is a whole one, with a handler that touches nothing.
    let set = unsafe { libc::sigaction(libc::SIGURG, &raw const action, null_mut()) };
    syscall!(rt_sigaction, set).map(drop)
}

fn state(status: libc::c_int) -> TracedState {
    let told = ExitStatus::from_raw(status);
    if let Some(code) = told.code() {
        return TracedState::Exited(code);
    }
    if let Some(signal) = told.signal() {
        return TracedState::Killed(signal);
    }
    let signal = told.stopped_signal().unwrap_or(0);
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
/// `address` and `data` are what the request takes.
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

/// Set in the signal of a stop at a call, so that it is no `SIGTRAP` of the program's own.
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
/// No machine has it.
const UNKNOWN: u32 = 0;
