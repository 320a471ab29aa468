//! Runs a command without io_uring, as in many containers:
//!
//! ```sh
//! without_ring COMMAND [ARGUMENT...]
//! without_ring --beyond ENTRIES COMMAND [ARGUMENT...]
//! ```
//!
//! A system call filter (`seccomp(2)`) makes `io_uring_setup(2)` fail with `EPERM`, in this process
//! and in the program it executes. With `--beyond`, `io_uring_enter(2)` fails instead if it submits
//! more than ENTRIES entries: the ring works first and fails later. `epoll_pwait2(2)` always fails,
//! as under filters that are older than this call.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1).peekable();
    let entries = words.next_if(|word| word == "--beyond").and_then(|_| words.next());
    let entries = entries.map(|entries| entries.to_string_lossy().parse().expect("a number"));
    let Some(program) = words.next() else {
        eprintln!("without_ring [--beyond ENTRIES] COMMAND [ARGUMENT...]");
        return ExitCode::from(2);
    };
    if let Err(error) = forbid(entries) {
        eprintln!("system call filter cannot be installed: {error}");
        return ExitCode::FAILURE;
    }
    let error = Command::new(&program).args(words).exec();
    eprintln!("{}: {error}", program.display());
    ExitCode::FAILURE
}

fn forbid(beyond: Option<u32>) -> std::io::Result<()> {
    let (call, entries_max) = match beyond {
        None => (libc::SYS_io_uring_setup, None),
        Some(entries) => (libc::SYS_io_uring_enter, Some(entries)),
    };
    let call = u32::try_from(call).expect("a small number");
    let exact = u32::try_from(libc::SYS_epoll_pwait2).expect("a small number");
    let denied = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
    let step = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
        code: u16::try_from(code).expect("BPF codes have 16 bits"),
        jt,
        jf,
        k,
    };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let mut steps = [
        step(load, NUMBER, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, exact, 3, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call, 0, 3),
        step(load, SECOND_ARGUMENT, 0, 0), // of io_uring_enter: the number of entries
        step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, entries_max.map_or(0, |n| n + 1), 0, 1),
        step(libc::BPF_RET | libc::BPF_K, denied, 0, 0),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let filter = libc::sock_fprog { len: 7, filter: steps.as_mut_ptr() };
    // SAFETY: the option takes numbers.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: `filter` and its seven steps are live; the kernel copies them.
    match unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Offset of the system call number in `seccomp_data`.
const NUMBER: u32 = 0;
/// Offset of the lower half of the second argument in `seccomp_data`.
const SECOND_ARGUMENT: u32 = if cfg!(target_endian = "little") { 24 } else { 28 };
