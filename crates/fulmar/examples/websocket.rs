//! A WebSocket echo: the connection is handed over, and `tungstenite` speaks on it.
//!
//! `cargo run --example websocket 127.0.0.1:8080`
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{self, Read, Write};

use bytes::{Buf, Bytes, BytesMut};
use fulmar::host::{Host, Listen};
use fulmar::proto::{HeaderBuf, Headers, Misuse, Request, Response};
use fulmar::server::{Call, Outcome, Work};
use tungstenite::handshake::derive_accept_key;
use tungstenite::protocol::{Role, WebSocket, WebSocketConfig};

/// What `tungstenite` takes for a socket: bytes that have come, and bytes that are to leave.
#[derive(Default)]
struct Wire {
    input: BytesMut,
    output: Vec<u8>,
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.input.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let len = into.len().min(self.input.len());
        self.input.copy_to_slice(&mut into[..len]);
        Ok(len)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends back every message.
struct Echo {
    socket: WebSocket<Wire>,
}

impl Echo {
    fn new() -> Self {
        let config = WebSocketConfig::default().max_message_size(Some(MESSAGE_SIZE_MAX));
        Self { socket: WebSocket::from_raw_socket(Wire::default(), Role::Server, Some(config)) }
    }

    /// Echoes what is complete; false if the conversation is over.
    fn converse(&mut self) -> bool {
        loop {
            let result = match self.socket.read() {
                Ok(message) if message.is_text() || message.is_binary() => {
                    self.socket.send(message)
                }
                Ok(_) => self.socket.flush(), // pings and closes are answered for us
                Err(error) => Err(error),
            };
            match result {
                Ok(()) => {}
                Err(tungstenite::Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    return true;
                }
                Err(_) => return false,
            }
        }
    }
}

impl Work for Echo {
    fn data(&mut self, call: &mut Call<'_>, bytes: Bytes) -> Outcome {
        self.socket.get_mut().input.extend_from_slice(&bytes);
        let goes_on = self.converse();
        call.send(Bytes::from(std::mem::take(&mut self.socket.get_mut().output)))?;
        if call.room() == 0 {
            call.pause(); // who does not read what we send is not read from either
        }
        if goes_on { Ok(()) } else { call.end() }
    }

    fn ready(&mut self, call: &mut Call<'_>) -> Outcome {
        call.unpause();
        Ok(())
    }

    fn end(&mut self, call: &mut Call<'_>, _: Headers<'_>) -> Outcome {
        call.end()
    }
}

fn websocket(call: &mut Call<'_>, request: &Request<'_>) -> Outcome {
    let key = request.headers.get("Sec-WebSocket-Key");
    let version = request.headers.get("Sec-WebSocket-Version");
    match (key, version) {
        (Some(key), Some(b"13")) => {
            let headers = handshake(key)?;
            call.upgrade(Response::new(101, headers.as_headers()), Echo::new())
        }
        _ => call.text(426, "this is a WebSocket, version 13\n"),
    }
}

/// RFC 6455 §4.2.2.
fn handshake(key: &[u8]) -> Result<HeaderBuf, Misuse> {
    let mut headers = HeaderBuf::new();
    headers.push("Upgrade", b"websocket")?;
    headers.push("Sec-WebSocket-Accept", derive_accept_key(key).as_bytes())?;
    Ok(headers)
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let running = Host::of(|_| Ok(websocket)).listen(Listen::tcp(address.parse()?)).start()?;
    println!("listening on ws://{}/", running.addresses()[0]);
    running.join()?;
    Ok(())
}

const MESSAGE_SIZE_MAX: usize = 1 << 20;
