//! One function for each system call. This crate has the only unsafe code, and the only place that
//! counts calls.
//!
//! Every function makes the call in the first line of its documentation, and documents others. All
//! calls are counted in the [`Ledger`] of their thread. This crate contains no HTTP, no engine and
//! no policy.
//!
//! The modules of this folder are the same on all systems. The folders `linux` and `bsd` (FreeBSD,
//! NetBSD, macOS) have the same names for what differs; one of them is compiled as `platform`. A
//! call that a system lacks returns `Unsupported`.

pub mod ledger;

mod clock;
mod daemon;
mod events;
mod file;
mod inherit;
#[cfg(not(target_os = "macos"))]
mod opened;
mod pass;
mod poll;
mod process;
mod socket;
mod traced;
mod unix;

#[cfg_attr(target_os = "linux", path = "linux/mod.rs")]
#[cfg_attr(not(target_os = "linux"), path = "bsd/mod.rs")]
mod platform;

pub use clock::{now, wall_clock};
pub use daemon::{
    Fork, StandardStream, Target, fork, redirect, send_signal, set_group, set_groups, set_session,
    set_user,
};
pub use events::Events;
pub use file::{
    FileInfo, FileKind, create_new, fstat, fsync, link, lock, make_dir, open_dir, open_log,
    open_read, open_step, open_write, pread, pwrite, read, remove_dir, stat_link, truncate,
    unlink_at, write,
};
pub use inherit::{accepts, forget_environment, inherited, local_path, set_nonblocking, user};
pub use ledger::{Call, Count, Ledger, Operation, ThreadLedger};
pub use pass::{receive_passed, send_passing};
pub use platform::{
    EpollEvent, RING_LEN_MAX, Ring, Wakeup, adopt_orphans, allow_descriptors, allow_locked_memory,
    allowed_cpus, boot_id, call_stop, create_unnamed, end_with_parent, epoll_add, epoll_create,
    epoll_delete, epoll_look, epoll_modify, epoll_pwait2, epoll_wait, event_thread, has_variable,
    interrupt_thread, interrupt_wait, leave_stopped, link_unnamed, locked_memory, open_beneath,
    open_process, peer_process, peer_user, pipe, raise_descriptors, read_dir, reap, release_code,
    release_thread, rename, rename_new, resident_bytes, resume, run_on_cpus, seize, send_file,
    send_file_with_head, set_bind_address_no_port, set_defer_accept, set_fast_open,
    set_fast_open_connect, set_interface, set_no_signal, set_pipe_size, set_segment_size_max,
    set_user_timeout, silence, spawn_traced, splice_in, splice_on, splice_out, sync_file_system,
    tcp_info, thread_cpu, thread_number, thread_switches, trim_memory, wait_traced, waiting,
};
pub use poll::{PollEntry, PollSet, poll, poll_now};
pub use process::{
    CpuTimes, Descriptors, block_write_signals, duplicate, process_cpu, sched_yield,
};
pub use socket::{
    Connect, REUSE_PORT_AFTER_BIND, TcpInfo, UNNAMED, VECTOR_LEN_MAX, accept, bind, close, connect,
    listen, local_address, recv, reset_on_close, send, send_vectored, set_keep_alive,
    set_keep_alive_count, set_keep_alive_idle, set_keep_alive_interval, set_nodelay,
    set_reuse_address, set_reuse_port, set_v6_only, shutdown_write, socket_error, tcp_socket,
    udp_socket,
};
pub use traced::{CallStop, Traced, TracedState};
pub use unix::{
    UNIX_PATH_SIZE_MAX, bind_unix, chmod, connect_unix, fchmod, is_socket, unix_datagram_socket,
    unix_socket, unlink,
};

/// The error numbers that callers distinguish (`errno(3)`); they differ between systems.
pub mod errno {
    pub use libc::{
        EAGAIN, ECHILD, ECONNABORTED, ECONNRESET, EHOSTDOWN, EHOSTUNREACH, EINTR, EIO, EMFILE,
        ENETDOWN, ENETUNREACH, ENFILE, ENOBUFS, ENODEV, ENOMEM, ENOPROTOOPT, ENOSYS, EPERM, EPROTO,
        ESRCH, ETIMEDOUT,
    };
}

/// The signal numbers that are sent (`signal(7)`).
pub mod signals {
    pub use libc::{SIGCONT, SIGSTOP, SIGTERM};
}

/// The error of a call that this platform lacks, without a replacement.
pub(crate) fn unsupported(call: &str) -> std::io::Error {
    let text = format!("{call} is not supported on this platform");
    std::io::Error::new(std::io::ErrorKind::Unsupported, text)
}
