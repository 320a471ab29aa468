//! A client of HTTP/2: the machine of `fulmar_proto` on a blocking socket, or in memory.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::{Bytes, BytesMut};
use fulmar_proto::h2::{ErrorCode, H2};
use fulmar_proto::{
    BodyLen, Client, Connection, Event, HeaderBuf, Headers, Input, Request, Scratch, Segment,
    StreamId,
};

/// A response, as far as it was received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Http2Response {
    /// 0 before the head.
    pub status: u16,
    /// The bytes of the body.
    pub body: Vec<u8>,
    /// Both messages are complete.
    pub is_whole: bool,
    /// The code of RST_STREAM.
    pub reset: Option<ErrorCode>,
}

/// One connection, and the responses on it.
#[derive(Debug, Default)]
pub struct Http2Client {
    machine: H2<Client>,
    scratch: Scratch,
    block: BytesMut,
    /// The responses by stream.
    pub responses: BTreeMap<u32, Http2Response>,
    /// Body bytes are not released: the windows close.
    pub holds_windows: bool,
}

impl Http2Client {
    /// Queues a request, with a whole body or all bytes of a tunnel; returns its stream.
    ///
    /// # Panics
    /// The server accepts no more streams.
    pub fn request(&mut self, method: &str, target: &str, body: &[u8]) -> u32 {
        let len = match method {
            _ if body.is_empty() => BodyLen::Empty,
            "CONNECT" => BodyLen::Empty, // the bytes are those of the tunnel
            _ => BodyLen::Exact(body.len() as u64),
        };
        let stream = self.begin(method, target, len);
        if !body.is_empty() {
            let body = Bytes::copy_from_slice(body).into();
            self.machine.send_data(StreamId(stream), body).expect("an open stream");
        }
        self.machine.send_end(StreamId(stream), Headers::EMPTY).expect("an open stream");
        stream
    }

    /// Queues the head of a request.
    ///
    /// # Panics
    /// The server accepts no more streams.
    pub fn begin(&mut self, method: &str, target: &str, len: BodyLen) -> u32 {
        let mut headers = HeaderBuf::new();
        headers.push("Host", b"test").expect("a field");
        let stream = self.machine.open().expect("the server accepts another stream");
        let request = Request::new(method.as_bytes(), target.as_bytes(), headers.as_headers());
        self.machine.send_head(stream, request, len).expect("a valid head");
        self.responses.insert(stream.0, Http2Response::default());
        stream.0
    }

    /// Ends a request without the rest of it.
    pub fn reset(&mut self, stream: u32) {
        self.machine.reset(StreamId(stream), fulmar_proto::Reset::Cancelled);
    }

    /// The bytes to send.
    ///
    /// # Panics
    /// A file was queued.
    pub fn poll_bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(transmit) = self.machine.poll_transmit() {
            bytes.extend_from_slice(transmit.inline);
            for segment in transmit.segments {
                let Segment::Bytes(piece) = segment else { panic!("no file was queued") };
                bytes.extend_from_slice(piece);
            }
            let len = transmit.len();
            self.machine.handle_sent(len);
        }
        bytes
    }

    /// Received bytes.
    ///
    /// # Panics
    /// The server breaks the protocol.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
        let mut input = Input::all(&mut self.block, false);
        loop {
            let event = self.machine.poll_event(&mut input, &mut self.scratch);
            let Some(event) = event.expect("the server follows the protocol") else { return };
            let response = self.responses.entry(event.stream().0).or_default();
            match event {
                Event::Head { head, .. } => response.status = head.status,
                Event::Data { stream, bytes } => {
                    response.body.extend_from_slice(&bytes);
                    if !self.holds_windows {
                        self.machine.release(stream, bytes.len());
                    }
                }
                Event::End { .. } => response.is_whole = true,
                Event::Reset { code, .. } => response.reset = Some(code),
                Event::Informational { .. } | Event::Writable { .. } | Event::Upgraded { .. } => {}
            }
        }
    }

    /// True if no response is missing.
    pub fn is_done(&self) -> bool {
        self.responses.values().all(|response| response.is_whole || response.reset.is_some())
    }

    /// True once the server accepts no more streams.
    pub fn is_refused(&self) -> bool {
        self.machine.vacancy() == 0
    }
}

/// A client on a blocking socket.
#[derive(Debug)]
pub struct Http2Socket {
    /// The protocol and the responses.
    pub client: Http2Client,
    /// The connection.
    pub socket: TcpStream,
}

impl Http2Socket {
    /// Connects, without a request.
    ///
    /// # Panics
    /// There is no listener.
    pub fn connect(address: SocketAddr) -> Self {
        let socket = crate::loops::client(address);
        Self { client: Http2Client::default(), socket }
    }

    /// Sends what is queued.
    ///
    /// # Panics
    /// The server has closed the connection.
    pub fn send(&mut self) {
        let bytes = self.client.poll_bytes();
        self.socket.write_all(&bytes).expect("the server reads");
    }

    /// Reads once, and sends what follows from it: acknowledgements and windows. False at the end.
    ///
    /// # Panics
    /// The connection fails.
    pub fn read(&mut self) -> bool {
        let mut bytes = vec![0; 64 * 1024];
        let len = self.socket.read(&mut bytes).expect("the server writes in time");
        self.client.receive(&bytes[..len]);
        if len > 0 {
            self.send();
        }
        len > 0
    }

    /// Reads what has arrived at a nonblocking socket, and sends nothing.
    ///
    /// # Panics
    /// The server has closed the connection.
    pub fn read_available(&mut self) {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(len) = self.socket.read(&mut bytes) {
            assert!(len > 0, "the server has closed the connection");
            self.client.receive(&bytes[..len]);
        }
    }

    /// Sends, and reads until all responses are complete.
    ///
    /// # Panics
    /// The server closes before.
    pub fn finish(&mut self) -> &BTreeMap<u32, Http2Response> {
        self.send();
        while !self.client.is_done() {
            assert!(self.read(), "the server closed before the last response");
        }
        &self.client.responses
    }
}
