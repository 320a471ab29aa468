//! A server with scripted bytes, in the thread of the test; it records its requests.

use std::collections::VecDeque;
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

use crate::buffers::bounded;

/// One step of the server on a connection.
#[derive(Clone, Debug)]
pub enum ServerStep {
    /// Sends this.
    Send(Vec<u8>),
    /// Ends its side.
    Fin,
    /// Closes the connection, both sides.
    Close,
    /// Resets it.
    Reset,
}

/// A request, as it was received.
#[derive(Clone, Debug)]
pub struct ScriptedRequest {
    /// The index of the connection, in the order of their arrival.
    pub connection: usize,
    /// The index of the request on that connection.
    pub nth: usize,
    /// Request line and fields.
    pub head: String,
    /// What followed.
    pub body: Vec<u8>,
}

impl ScriptedRequest {
    /// The method.
    pub fn method(&self) -> &str {
        self.head.split(' ').next().unwrap_or_default()
    }

    /// The request target.
    pub fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    /// The first field of this name, without blanks around it.
    pub fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let mut named = fields.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value.trim())
    }
}

/// The steps of a server in response to a request.
type ResponseScript = Box<dyn FnMut(&ScriptedRequest) -> Vec<ServerStep>>;

/// The server.
pub struct Scripted {
    listener: TcpListener,
    wires: Vec<Option<ScriptedConnection>>,
    script: ResponseScript,
    /// Every request, in the order of their completion.
    pub requests: Vec<ScriptedRequest>,
    /// The steps on every new connection.
    pub greeting: Vec<ServerStep>,
    /// The script runs as soon as a head has arrived, bodies are not read, and only the script
    /// sends 100.
    pub hasty: bool,
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted").field("requests", &self.requests.len()).finish_non_exhaustive()
    }
}

struct ScriptedConnection {
    stream: TcpStream,
    input: Vec<u8>,
    steps: VecDeque<ServerStep>,
    requests: usize,
    /// A 100 was sent for the current head.
    continued: bool,
    ended: bool,
}

impl Scripted {
    /// A server on loopback.
    ///
    /// # Panics
    /// If there is no port.
    pub fn new(script: impl FnMut(&ScriptedRequest) -> Vec<ServerStep> + 'static) -> Self {
        let listener = bounded(TcpListener::bind("127.0.0.1:0").expect("a port"));
        listener.set_nonblocking(true).expect("a socket");
        Self {
            listener,
            wires: Vec::new(),
            script: Box::new(script),
            requests: Vec::new(),
            greeting: Vec::new(),
            hasty: false,
        }
    }

    /// Where it listens.
    ///
    /// # Panics
    /// Never: it does listen.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("it listens")
    }

    /// Connections that were accepted, in all.
    pub fn accepted(&self) -> usize {
        self.wires.len()
    }

    /// Connections that are open now.
    pub fn open(&self) -> usize {
        self.wires.iter().flatten().count()
    }

    /// True if nothing waits to be sent.
    pub fn is_quiet(&self) -> bool {
        self.wires.iter().flatten().all(|wire| wire.steps.is_empty())
    }

    /// The number of requests with this method.
    pub fn count(&self, method: &str) -> usize {
        self.requests.iter().filter(|heard| heard.method() == method).count()
    }

    /// Does something on a connection without a request; not if it is closed.
    pub fn act(&mut self, connection: usize, steps: impl IntoIterator<Item = ServerStep>) {
        if let Some(Some(wire)) = self.wires.get_mut(connection) {
            wire.steps.extend(steps);
        }
    }

    /// Accepts, reads and responds without blocking.
    ///
    /// # Panics
    /// If a socket cannot be used.
    pub fn turn(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true).expect("a socket");
            stream.set_nodelay(true).expect("a socket");
            let steps = self.greeting.iter().cloned().collect();
            let (input, requests, continued, ended) = (Vec::new(), 0, false, false);
            self.wires.push(Some(ScriptedConnection {
                stream,
                input,
                steps,
                requests,
                continued,
                ended,
            }));
        }
        for connection in 0..self.wires.len() {
            let Some(mut wire) = self.wires[connection].take() else { continue };
            wire.read();
            while let Some((head, body)) = wire.take_request(self.hasty) {
                let heard = ScriptedRequest { connection, nth: wire.requests, head, body };
                wire.requests += 1;
                wire.steps.extend((self.script)(&heard));
                self.requests.push(heard);
            }
            self.wires[connection] = wire.perform();
        }
    }
}

impl ScriptedConnection {
    fn read(&mut self) {
        let mut bytes = [0; 64 * 1024];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return self.ended = true,
                Ok(n) => self.input.extend_from_slice(&bytes[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => return self.ended = true,
            }
        }
    }

    fn take_request(&mut self, hasty: bool) -> Option<(String, Vec<u8>)> {
        let end = find(&self.input, b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&self.input[..end]).into_owned();
        if hasty {
            self.input.clear();
            return Some((head, Vec::new()));
        }
        let field = |name: &str| {
            let lower = head.to_ascii_lowercase();
            let line = lower.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
            line.map(|value| value.trim().to_owned())
        };
        if field("transfer-encoding:").is_some() {
            let last = find(&self.input[end..], b"0\r\n\r\n")? + 5;
            let body = self.input[end..end + last].to_vec();
            self.input.drain(..end + last);
            return Some((head, body));
        }
        let expects = field("expect:").is_some();
        if expects && !std::mem::replace(&mut self.continued, true) {
            self.steps.push_back(ServerStep::Send(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec()));
        }
        let len = field("content-length:").map_or(0, |len| len.parse().expect("a length"));
        if self.input.len() < end + len {
            return None;
        }
        let body = self.input[end..end + len].to_vec();
        self.continued = false;
        self.input.drain(..end + len);
        Some((head, body))
    }

    /// `None`: it is closed.
    fn perform(mut self) -> Option<Self> {
        while let Some(step) = self.steps.front_mut() {
            match step {
                ServerStep::Send(bytes) => {
                    while !bytes.is_empty() {
                        match self.stream.write(bytes) {
                            Ok(n) => drop(bytes.drain(..n)),
                            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                                return Some(self);
                            }
                            Err(_) => return None,
                        }
                    }
                }
                ServerStep::Fin => drop(self.stream.shutdown(std::net::Shutdown::Write)),
                ServerStep::Close => return None,
                ServerStep::Reset => {
                    set_socket_linger(&self.stream, Some(Duration::ZERO)).expect("a socket");
                    return None;
                }
            }
            self.steps.pop_front();
        }
        if self.ended { None } else { Some(self) }
    }
}

/// A response with this status, these fields (each with its line end) and this body, with its
/// Content-Length.
pub fn answer(status: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let len = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {len}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// One step: 200 with this body.
pub fn ok(body: &[u8]) -> Vec<ServerStep> {
    vec![ServerStep::Send(answer("200 OK", "", body))]
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}
