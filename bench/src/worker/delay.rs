//! A relay that delays bytes: the latency of a network, on loopback.
//!
//! In both directions bytes leave it a fixed time after they arrived, in order, at any rate. Only
//! the handshake of a connection is not delayed.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use fulmar_sys as sys;

use super::flags::WorkerFlags;
use crate::lab::wait;

/// Prints its port, and relays connections to the address `--to` until it is ended. `--delay-ms` is
/// the delay in each direction.
pub(super) fn run(flags: &WorkerFlags) -> Result<String, Box<dyn Error>> {
    let (to, delay) = (flags.need::<SocketAddr>("--to")?, flags.need("--delay-ms")?);
    let delay = Duration::from_millis(delay);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    writeln!(io::stdout(), "{}", listener.local_addr()?.port())?;
    loop {
        let (client, _) = listener.accept()?;
        let server = TcpStream::connect(to)?;
        relay(client.try_clone()?, server.try_clone()?, delay)?;
        relay(server, client, delay)?;
    }
}

/// One direction: a thread receives, another one sends.
fn relay(mut from: TcpStream, mut to: TcpStream, delay: Duration) -> io::Result<()> {
    to.set_nodelay(true)?;
    let (sender, receiver) = mpsc::sync_channel::<(Instant, Vec<u8>)>(CHUNKS_MAX);
    thread::Builder::new().spawn(move || {
        for (due, bytes) in receiver {
            wait(due.saturating_duration_since(sys::now()));
            if to.write_all(&bytes).is_err() {
                return; // the peer has closed
            }
        }
        let _ = to.shutdown(Shutdown::Write); // it may be closed already
    })?;
    thread::Builder::new().spawn(move || {
        let mut buffer = vec![0; CHUNK_SIZE];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let chunk = (sys::now() + delay, buffer[..count].to_vec());
            if sender.send(chunk).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

const CHUNK_SIZE: usize = 64 * 1024;
/// Chunks on their way; more wait in the socket.
const CHUNKS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_late_and_in_order_and_so_does_the_end() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let connect = || {
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (near, listener.accept().unwrap().0)
        };
        let ((mut writer, from), (to, mut reader)) = (connect(), connect());
        let delay = Duration::from_millis(20);
        relay(from, to, delay).unwrap();
        let begin = sys::now();
        writer.write_all(b"one ").unwrap();
        writer.write_all(b"two").unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one two");
        assert!(sys::now() - begin >= delay);
    }
}
