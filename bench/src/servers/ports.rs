//! Free ports for programs that cannot choose one.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use fulmar_sys as sys;

use crate::BenchError;

/// Sockets that reserve ports: they are bound and do not listen. A server that sets `SO_REUSEADDR`
/// can bind to the same port (socket(7)).
pub(crate) type HeldPorts = Vec<OwnedFd>;

/// Free ports of loopback, reserved until the second value is dropped.
pub(crate) fn free_ports<const N: usize>() -> Result<([u16; N], HeldPorts), BenchError> {
    let (mut ports, mut held) = ([0; N], HeldPorts::new());
    for place in &mut ports {
        let (port, socket) = hold_port().map_err(BenchError::io("free ports"))?;
        *place = port;
        held.push(socket);
    }
    Ok((ports, held))
}

fn hold_port() -> io::Result<(u16, OwnedFd)> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let socket = sys::tcp_socket(any)?;
    sys::set_reuse_address(socket.as_fd())?;
    sys::set_reuse_port(socket.as_fd())?;
    sys::bind(socket.as_fd(), any)?;
    Ok((sys::local_address(socket.as_fd())?.port(), socket))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn free_ports_differ_and_can_be_bound() {
        let (ports, _held) = free_ports::<64>().expect("there are some");
        let mut sorted = ports.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 64);
        // Each is checked once: children of other tests keep a listener open for a short time.
        for port in ports {
            let address = (Ipv4Addr::LOCALHOST, port);
            assert!(TcpStream::connect(address).is_err(), "the port has no listener");
            assert!(TcpListener::bind(address).is_ok(), "the port can be bound");
        }
    }
}
