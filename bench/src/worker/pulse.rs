//! A server that sends small pieces at a steady pace.
//!
//! Each piece is one write of [`EVENT_SIZE`] bytes, and the pause between two of them is longer
//! than the client needs for one, so that all events of the client carry the same bytes. With a
//! server that writes as fast as it can, their size would vary.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use super::flags::WorkerFlags;
use crate::lab::wait;

/// Prints its port, and serves one connection after the other until it is ended. `--framing`:
/// `chunked` or `length`.
pub(super) fn run(flags: &WorkerFlags) -> Result<String, Box<dyn Error>> {
    let is_chunked = flags.need::<String>("--framing")? == "chunked";
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    writeln!(io::stdout(), "{}", listener.local_addr()?.port())?;
    loop {
        let (stream, _) = listener.accept()?;
        let _ = serve(stream, is_chunked); // until its client closes
    }
}

fn serve(mut stream: TcpStream, is_chunked: bool) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (field, event) = match is_chunked {
        true => {
            let body = "x".repeat(EVENT_SIZE - "5e\r\n\r\n".len());
            ("Transfer-Encoding: chunked", format!("{:02x}\r\n{body}\r\n", body.len()))
        }
        false => ("Content-Length: 1000000000000", "x".repeat(EVENT_SIZE)),
    };
    let _ = stream.read(&mut [0; 4096])?;
    stream.write_all(format!("HTTP/1.1 200 OK\r\n{field}\r\n\r\n").as_bytes())?;
    loop {
        wait(PAUSE);
        stream.write_all(event.as_bytes())?;
    }
}

const EVENT_SIZE: usize = 100;
const PAUSE: Duration = Duration::from_micros(500);
