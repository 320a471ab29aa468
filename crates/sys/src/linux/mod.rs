//! Linux: calls that other systems lack or implement differently.

mod code;
mod environment;
mod epoll;
mod files;
mod pipes;
mod process;
mod ring;
mod sockets;
mod temporary;
mod trace;
mod wake;
mod watched;

pub use crate::opened::pipe;
pub(crate) use crate::opened::{accept_into, socket_of};
pub use code::release_code;
pub use environment::has_variable;
pub use epoll::{
    EpollEvent, epoll_add, epoll_create, epoll_delete, epoll_look, epoll_modify, epoll_pwait2,
    epoll_wait,
};
pub(crate) use files::{device, modified_nanos};
pub use files::{open_beneath, read_dir, rename_new, sync_file_system};
pub use pipes::{set_pipe_size, splice_in, splice_on, splice_out};
pub use process::{
    allow_descriptors, allow_locked_memory, allowed_cpus, boot_id, locked_memory,
    raise_descriptors, resident_bytes, run_on_cpus, thread_cpu, thread_switches, trim_memory,
};
pub use ring::{RING_LEN_MAX, Ring};
pub use sockets::{
    peer_process, peer_user, send_file, send_file_with_head, set_bind_address_no_port,
    set_defer_accept, set_fast_open, set_fast_open_connect, set_interface, set_no_signal,
    set_segment_size_max, set_user_timeout, silence, tcp_info, waiting,
};
pub use temporary::{create_unnamed, link_unnamed, rename};
pub use trace::{
    call_stop, event_thread, interrupt_thread, interrupt_wait, leave_stopped, release_thread,
    resume, seize, spawn_traced, wait_traced,
};
pub use wake::Wakeup;
pub use watched::{adopt_orphans, end_with_parent, open_process, reap, thread_number};

/// A flag of `send(2)`: more data follows in another call.
pub(crate) const MORE: libc::c_int = libc::MSG_MORE;
/// A flag of `recvmsg(2)`: received descriptors are closed on `execve(2)`.
pub(crate) const RECEIVE_CLOSED_ON_EXEC: libc::c_int = libc::MSG_CMSG_CLOEXEC;
/// A flag of `send(2)`: no `SIGPIPE`.
pub(crate) const NO_SIGNAL: libc::c_int = libc::MSG_NOSIGNAL;
/// The event of `poll(2)` when the peer has shut down its side.
pub(crate) const RDHUP: libc::c_short = libc::POLLRDHUP;
/// The flag of `epoll(7)` for edge-triggered events.
pub(crate) const EDGE: u32 = libc::EPOLLET as u32;
/// Several listeners share a port, and the kernel distributes connections.
pub(crate) const REUSE_PORT: libc::c_int = libc::SO_REUSEPORT;
/// Idle seconds before the first probe.
pub(crate) const KEEP_IDLE: libc::c_int = libc::TCP_KEEPIDLE;
/// Unix sockets may have an abstract name without a file.
pub(crate) const ABSTRACT_NAMES: bool = true;
