//! One function per system call, and nothing else: the only unsafe code, the only place that counts.
//!
//! Every function makes exactly the call it is named for and enters it in the [`Ledger`] of its
//! thread. Nothing here knows HTTP, an engine or a policy.

pub mod ledger;

mod clock;
mod epoll;
mod file;
mod process;
mod socket;

pub use clock::{now, wall_clock};
pub use epoll::{EpollEvent, Events, epoll_add, epoll_create, epoll_modify, epoll_wait};
pub use file::{
    FileInfo, FileKind, fstat, open_beneath, open_dir, open_log, open_read, open_step, pread,
    read_dir, stat_link, write,
};
pub use ledger::{Call, Count, Ledger};
pub use process::{
    CpuTimes, Descriptors, allowed_cpus, duplicate, eventfd, eventfd_drain, eventfd_wake,
    process_cpu, raise_descriptors, resident_bytes, run_on_cpus, thread_cpu,
};
pub use socket::{
    VECTOR_LEN_MAX, accept, bind, close, connect, listen, local_address, recv, send, send_file,
    send_vectored, set_bind_address_no_port, set_defer_accept, set_nodelay, set_reuse_address,
    set_reuse_port, shutdown_write, socket_error, tcp_socket,
};
