//! Sockets with receive buffers of a fixed size.
//!
//! By default they grow up to `tcp_rmem`, which is 6 MB on some machines and 32 MB on others: the
//! kernel of a peer that does not read would still buffer a whole long message.

use std::os::fd::AsFd;

use rustix::net::sockopt::set_socket_recv_buffer_size;

/// Fixes the receive buffer of a socket, or of the connections that a listener will accept.
///
/// # Panics
/// It is no socket.
pub fn bounded<S: AsFd>(socket: S) -> S {
    set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER).expect("a socket");
    socket
}

/// Any kernel allows this (`net.core.rmem_max`).
const RECEIVE_BUFFER: usize = 128 * 1024;
