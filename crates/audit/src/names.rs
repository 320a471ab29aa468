//! Names of calls and operations by number, and the meaning of their results.

use syscalls::Sysno;

use crate::operation::UNKNOWN_OPCODE;

/// The kernel's name of a call, as strace prints it.
pub(crate) fn call(number: u32) -> String {
    let known = usize::try_from(number).ok().and_then(Sysno::new);
    known.map_or_else(|| format!("syscall_{number}"), |call| call.name().to_owned())
}

/// The number of `execve`.
pub(crate) fn execve() -> u32 {
    Sysno::execve as u32
}

/// True for `rt_sigreturn`. Its result is a register of the interrupted code.
pub(crate) fn is_signal_return(number: u32) -> bool {
    number == Sysno::rt_sigreturn as u32
}

/// The `errno(3)` of a result, if it is one.
pub(crate) fn error(result: i64) -> Option<i32> {
    let failed = (ERROR_MIN..0).contains(&result);
    failed.then(|| i32::try_from(-result).expect("up to 4095"))
}

/// True if the result of the call is a number of transferred bytes.
pub(crate) fn moves_bytes(call: &str) -> bool {
    BYTE_MOVERS.contains(&call)
}

/// The name of an operation of io_uring: `IORING_OP_RECV` is `recv`.
pub(crate) fn operation(opcode: u32) -> String {
    if opcode == UNKNOWN_OPCODE {
        return REPEATED.to_owned();
    }
    let known = usize::try_from(opcode).ok().and_then(|at| OPERATIONS.get(at));
    known.map_or_else(|| format!("operation_{opcode}"), |name| (*name).to_owned())
}

/// True if the result of the operation is a number of transferred bytes.
pub(crate) fn operates_on_bytes(operation: &str) -> bool {
    OPERATIONS_ON_BYTES.contains(&operation)
}

/// Repeated (multishot) results, for which the kernel does not report the operation. The operation
/// was counted when it was submitted.
pub(crate) const REPEATED: &str = "(repeated)";

/// Results from here to -1 are errors (`syscalls(2)`); other negative ones are addresses.
const ERROR_MIN: i64 = -4095;

/// `recvmmsg` and `sendmmsg` are missing: they return a number of messages.
const BYTE_MOVERS: &[&str] = &[
    "read",
    "write",
    "readv",
    "writev",
    "pread64",
    "pwrite64",
    "preadv",
    "pwritev",
    "preadv2",
    "pwritev2",
    "recvfrom",
    "sendto",
    "recvmsg",
    "sendmsg",
    "sendfile",
    "splice",
    "tee",
    "vmsplice",
    "copy_file_range",
];

const OPERATIONS_ON_BYTES: &[&str] = &[
    "readv",
    "writev",
    "read_fixed",
    "write_fixed",
    "sendmsg",
    "recvmsg",
    "read",
    "write",
    "send",
    "recv",
    "splice",
    "tee",
    "send_zc",
    "sendmsg_zc",
    "readv_fixed",
    "writev_fixed",
];

/// `enum io_uring_op` of `<linux/io_uring.h>`. Its order never changes.
const OPERATIONS: &[&str] = &[
    "nop",
    "readv",
    "writev",
    "fsync",
    "read_fixed",
    "write_fixed",
    "poll_add",
    "poll_remove",
    "sync_file_range",
    "sendmsg",
    "recvmsg",
    "timeout",
    "timeout_remove",
    "accept",
    "async_cancel",
    "link_timeout",
    "connect",
    "fallocate",
    "openat",
    "close",
    "files_update",
    "statx",
    "read",
    "write",
    "fadvise",
    "madvise",
    "send",
    "recv",
    "openat2",
    "epoll_ctl",
    "splice",
    "provide_buffers",
    "remove_buffers",
    "tee",
    "shutdown",
    "renameat",
    "unlinkat",
    "mkdirat",
    "symlinkat",
    "linkat",
    "msg_ring",
    "fsetxattr",
    "setxattr",
    "fgetxattr",
    "getxattr",
    "socket",
    "uring_cmd",
    "send_zc",
    "sendmsg_zc",
    "read_multishot",
    "waitid",
    "futex_wait",
    "futex_wake",
    "futex_waitv",
    "fixed_fd_install",
    "ftruncate",
    "bind",
    "listen",
    "recv_zc",
    "epoll_wait",
    "readv_fixed",
    "writev_fixed",
    "pipe",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_operations_have_the_names_of_the_kernel() {
        assert_eq!(call(Sysno::epoll_pwait as u32), "epoll_pwait");
        assert_eq!(call(1023), "syscall_1023");
        assert_eq!((operation(0), operation(27)), ("nop".into(), "recv".into()));
        assert_eq!((operation(200), operation(255)), ("operation_200".into(), REPEATED.into()));
    }

    #[test]
    fn every_call_that_moves_bytes_exists() {
        let known = |name: &&&str| name.parse::<Sysno>().is_err();
        assert_eq!(BYTE_MOVERS.iter().find(known), None);
        assert!(moves_bytes("sendto") && !moves_bytes("sendmmsg"));
        assert!(OPERATIONS_ON_BYTES.iter().all(|name| OPERATIONS.contains(name)));
        assert!(operates_on_bytes("recv") && !operates_on_bytes("accept"));
    }
}
