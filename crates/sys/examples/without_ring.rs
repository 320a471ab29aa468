//! Runs a command where io_uring is forbidden, as many containers have it:
//!
//! ```sh
//! without_ring COMMAND [ARGUMENT...]
//! ```
//!
//! A filter of system calls (`seccomp(2)`) answers `io_uring_setup(2)` with `EPERM`, in this process
//! and in what it becomes; also `epoll_pwait2(2)`, as one that is older than that call.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let Some(program) = words.next() else {
        eprintln!("without_ring COMMAND [ARGUMENT...]");
        return ExitCode::from(2);
    };
    if let Err(error) = forbid() {
        eprintln!("no filter of system calls: {error}");
        return ExitCode::FAILURE;
    }
    let error = Command::new(&program).args(words).exec();
    eprintln!("{}: {error}", program.display());
    ExitCode::FAILURE
}

fn forbid() -> std::io::Result<()> {
    let setup = u32::try_from(libc::SYS_io_uring_setup).expect("a small number");
    let exact = u32::try_from(libc::SYS_epoll_pwait2).expect("a small number");
    let denied = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
    let step = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
        code: u16::try_from(code).expect("a code has 16 bits"),
        jt,
        jf,
        k,
    };
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0), // seccomp_data.nr
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, setup, 2, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, exact, 1, 0),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
        step(libc::BPF_RET | libc::BPF_K, denied, 0, 0),
    ];
    let filter = libc::sock_fprog { len: 5, filter: steps.as_mut_ptr() };
    // SAFETY: the option takes numbers.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: `filter` and its five steps are live; the kernel copies them.
    match unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
