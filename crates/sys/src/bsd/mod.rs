//! FreeBSD, NetBSD and macOS: checked by the compiler, never run.
//!
//! Each system has a file for its own calls; the other files are for all three.

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
#[cfg(any(target_os = "freebsd", target_os = "macos"))]
mod vector;
mod wake;
mod watched;

#[cfg(target_os = "freebsd")]
#[path = "freebsd.rs"]
mod own;
#[cfg(target_os = "macos")]
#[path = "macos.rs"]
mod own;
#[cfg(target_os = "netbsd")]
#[path = "netbsd.rs"]
mod own;
#[cfg(not(any(target_os = "freebsd", target_os = "macos", target_os = "netbsd")))]
compile_error!("fulmar knows Linux, FreeBSD, NetBSD and macOS; see docs/platforms.md");

pub use code::release_code;
pub use environment::has_variable;
pub use epoll::{
    EpollEvent, epoll_add, epoll_create, epoll_delete, epoll_look, epoll_modify, epoll_pwait2,
    epoll_wait,
};
pub use files::{open_beneath, read_dir, rename_new, sync_file_system};
pub(crate) use own::{
    KEEP_IDLE, NO_SIGNAL, RDHUP, RECEIVE_CLOSED_ON_EXEC, REUSE_PORT, accept_into, device,
    modified_nanos, socket_of,
};
pub use own::{pipe, send_file, send_file_with_head, set_no_signal, thread_cpu};
pub use pipes::{set_pipe_size, splice_in, splice_on, splice_out};
pub use process::{
    allow_descriptors, allow_locked_memory, allowed_cpus, boot_id, locked_memory,
    raise_descriptors, resident_bytes, run_on_cpus, thread_switches, trim_memory,
};
pub use ring::{RING_LEN_MAX, Ring};
pub use sockets::{
    peer_process, peer_user, set_bind_address_no_port, set_defer_accept, set_fast_open,
    set_fast_open_connect, set_interface, set_segment_size_max, set_user_timeout, silence,
    tcp_info, waiting,
};
pub use temporary::{create_unnamed, link_unnamed, rename};
pub use trace::{
    call_stop, event_thread, interrupt_thread, interrupt_wait, leave_stopped, release_thread,
    resume, seize, spawn_traced, wait_traced,
};
pub use wake::Wakeup;
pub use watched::{adopt_orphans, end_with_parent, open_process, reap, thread_number};

/// `send(2)` has no flag for more data.
pub(crate) const MORE: libc::c_int = 0;
/// There is no epoll, so no edge-triggered mode.
pub(crate) const EDGE: u32 = 0;
/// Unix sockets need a file.
pub(crate) const ABSTRACT_NAMES: bool = false;
