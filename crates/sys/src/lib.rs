//! One function per system call, and nothing else: the only unsafe code, the only place that counts.
//!
//! Every function makes exactly the call it is named for and enters it in the [`Ledger`] of its
//! thread. Nothing here knows HTTP, an engine or a policy.

pub mod ledger;

mod clock;
mod epoll;
mod file;
mod inherit;
mod pass;
mod pipe;
mod poll;
mod process;
mod socket;
mod temporary;
mod unix;

pub use clock::{now, wall_clock};
pub use epoll::{
    EpollEvent, Events, epoll_add, epoll_create, epoll_delete, epoll_modify, epoll_wait,
};
pub use file::{
    FileInfo, FileKind, create_new, fstat, link, lock, make_dir, open_beneath, open_dir, open_log,
    open_read, open_step, open_write, pread, pwrite, read, read_dir, rename_new, stat_link,
    truncate, unlink_at, write,
};
pub use inherit::{
    accepts, forget_environment, inherited, local_path, peer_user, set_nonblocking, user,
};
pub use ledger::{Call, Count, Ledger};
pub use pass::{receive_passed, send_passing};
pub use pipe::{pipe, set_pipe_size, splice_in, splice_out};
pub use poll::{PollEntry, poll, poll_now};
pub use process::{
    CpuTimes, Descriptors, allowed_cpus, duplicate, eventfd, eventfd_drain, eventfd_wake,
    process_cpu, raise_descriptors, resident_bytes, run_on_cpus, thread_cpu,
};
pub use socket::{
    Connect, UNNAMED, VECTOR_LEN_MAX, accept, bind, close, connect, listen, local_address, recv,
    send, send_file, send_file_with_head, send_vectored, set_bind_address_no_port,
    set_defer_accept, set_interface, set_keep_alive, set_keep_alive_count, set_keep_alive_idle,
    set_keep_alive_interval, set_no_signal, set_nodelay, set_reuse_address, set_reuse_port,
    shutdown_write, socket_error, tcp_socket,
};
pub use temporary::{create_unnamed, link_unnamed, rename};
pub use unix::{
    UNIX_PATH_SIZE_MAX, bind_unix, chmod, connect_unix, fchmod, is_socket, unix_socket, unlink,
};

/// There is no such call on this platform, and nothing that would do as well.
pub(crate) fn unsupported(call: &str) -> std::io::Error {
    let text = format!("{call}: not on this platform");
    std::io::Error::new(std::io::ErrorKind::Unsupported, text)
}
