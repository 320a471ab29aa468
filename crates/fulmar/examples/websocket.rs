//! A WebSocket echo: the connection is handed over, and `tungstenite` speaks on it.
//!
//! `cargo run --example websocket 127.0.0.1:8080`
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{self, Read, Write};

use bytes::{Buf, Bytes, BytesMut};
use fulmar::host::{Host, Listen};
use fulmar::proto::{Headers, Request, Response};
use fulmar::server::{BodyHandler, HandlerResult, Responder};
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

impl BodyHandler for Echo {
    fn data(&mut self, responder: &mut Responder<'_>, bytes: Bytes) -> HandlerResult {
        self.socket.get_mut().input.extend_from_slice(&bytes);
        let goes_on = self.converse();
        responder.send(Bytes::from(std::mem::take(&mut self.socket.get_mut().output)))?;
        if responder.room() == 0 {
            responder.pause(); // a client that does not read is not read from either
        }
        if goes_on { Ok(()) } else { responder.end() }
    }

    fn ready(&mut self, responder: &mut Responder<'_>) -> HandlerResult {
        responder.unpause();
        Ok(())
    }

    fn end(&mut self, responder: &mut Responder<'_>, _: Headers<'_>) -> HandlerResult {
        responder.end()
    }
}

fn websocket(responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
    match handshake(request) {
        Handshake::Accepted(key) => {
            let accept = derive_accept_key(key);
            let fields =
                [("Upgrade", &b"websocket"[..]), ("Sec-WebSocket-Accept", accept.as_bytes())];
            responder.upgrade(Response { added: &fields, ..head(101) }, Echo::new())
        }
        Handshake::NotAsked => {
            let fields = [("Upgrade", &b"websocket"[..])];
            responder.reply(Response { added: &fields, ..head(426) }, "connect with a WebSocket\n")
        }
        Handshake::OtherVersion => {
            let fields = [("Upgrade", &b"websocket"[..]), ("Sec-WebSocket-Version", b"13")];
            responder.reply(Response { added: &fields, ..head(426) }, "the version is 13\n")
        }
        Handshake::WrongMethod => {
            let fields = [("Allow", &b"GET"[..])];
            responder.reply(Response { added: &fields, ..head(405) }, "a handshake is a GET\n")
        }
        Handshake::BadKey => {
            responder.text(400, "Sec-WebSocket-Key has to be 16 bytes in base64\n")
        }
    }
}

fn head(status: u16) -> Response<'static> {
    Response::new(status, Headers::EMPTY)
}

/// The result of a client's opening handshake.
enum Handshake<'a> {
    /// With this key.
    Accepted(&'a [u8]),
    /// Not a GET.
    WrongMethod,
    /// The request is no WebSocket handshake.
    NotAsked,
    /// For one of another version, or of none.
    OtherVersion,
    /// Without a key, with two, or with a malformed one.
    BadKey,
}

/// Checks in the order of RFC 6455 §4.2.1. The server has checked the version of HTTP and `Host`.
fn handshake<'a>(request: &Request<'a>) -> Handshake<'a> {
    let headers = request.headers;
    let lists = |name: &str, token: &[u8]| {
        let items = headers.iter().filter(|(found, _)| found.eq_ignore_ascii_case(name.as_bytes()));
        let mut items = items.flat_map(|(_, value)| value.split(|byte| *byte == b','));
        items.any(|item| item.trim_ascii().eq_ignore_ascii_case(token))
    };
    let mut keys = headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case(b"Sec-WebSocket-Key"))
        .map(|(_, value)| value);
    let asked = lists("Upgrade", b"websocket") && lists("Connection", b"upgrade");
    match (keys.next(), keys.next()) {
        _ if request.method != b"GET" => Handshake::WrongMethod,
        _ if !asked => Handshake::NotAsked,
        _ if headers.get("Sec-WebSocket-Version") != Some(b"13") => Handshake::OtherVersion,
        (Some(key), None) if is_key(key) => Handshake::Accepted(key),
        _ => Handshake::BadKey,
    }
}

/// 16 bytes in base64 (RFC 6455 §4.1, item 7): the last of 22 digits has 4 spare bits.
fn is_key(key: &[u8]) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let [digits @ .., last, b'=', b'='] = key else { return false };
    digits.len() == 21 && digits.iter().all(is_digit) && b"AQgw".contains(last)
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let running = Host::of(|_| Ok(websocket)).listen(Listen::tcp(address.parse()?)).start()?;
    println!("listening on ws://{}/", running.addresses()[0]);
    running.join()?;
    Ok(())
}

const MESSAGE_SIZE_MAX: usize = 1 << 20;
