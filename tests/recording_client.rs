//! A client engine that sends one request after the other and records the events: for tests of the
//! layers below it.

use std::net::SocketAddr;
use std::time::Instant;

use fulmar_engine::{
    Action, ConnectionEvent, Connections, DriverEvent, End, Endpoint, Engine, Handler, SocketId,
    Timeouts,
};
use fulmar_proto::h1::H1Client;
use fulmar_proto::{
    BodyLen, Client, Connection, Event, HeaderBuf, Headers, Layer, Request, Reset, Transmit,
};
use fulmar_sys as sys;
use fulmar_tls::{Info, Version};

use crate::process::PATIENCE;

/// The client.
#[derive(Debug)]
pub struct RecordingClient {
    connections: Connections<H1Client, ()>,
    /// The recorded events.
    pub book: ClientRecord,
}

/// The recorded events.
#[derive(Debug, Default)]
pub struct ClientRecord {
    /// Complete bodies, with their statuses.
    pub answers: Vec<(u16, Vec<u8>)>,
    /// Of connections.
    pub ends: Vec<End>,
    /// The result of each handshake: the version, the cipher suite, whether it resumed.
    pub agreed: Vec<(Version, &'static str, bool)>,
    /// Established connections.
    pub established: u32,
    /// The number of receives with bytes above the layer.
    pub heard: u32,
    status: u16,
    body: Vec<u8>,
    /// Body bytes are not released: the peer has to wait.
    pub holding: bool,
    held: usize,
}

impl Default for RecordingClient {
    fn default() -> Self {
        let limit = Some(PATIENCE);
        let timeouts = Timeouts { connect: limit, handshake: limit, ..Timeouts::default() };
        Self {
            connections: Connections::new(sys::now(), timeouts, 0, 1),
            book: ClientRecord::default(),
        }
    }
}

impl RecordingClient {
    /// Opens a connection.
    pub fn connect(&mut self, peer: SocketAddr, layer: Option<Box<dyn Layer>>) -> SocketId {
        let connection = H1Client::default();
        self.connections.connect(sys::now(), Endpoint::to(peer), layer, connection, ())
    }

    /// Requests `target`.
    ///
    /// # Panics
    /// The connection is gone or busy.
    pub fn get(&mut self, socket: SocketId, target: &str) {
        let (connection, ()) = self.connections.get_mut(socket).expect("it stands");
        let stream = connection.open().expect("nothing else is asked");
        let mut fields = HeaderBuf::new();
        fields.push("Host", b"test").expect("a field");
        let head = Request::new(b"GET", target.as_bytes(), fields.as_headers());
        connection.send_head(stream, head, BodyLen::Empty).expect("it is open");
        connection.send_end(stream, Headers::EMPTY).expect("no body");
        self.connections.touch(sys::now(), socket, &mut self.book);
    }

    /// Begins to send a body, and aborts it.
    ///
    /// # Panics
    /// The connection is gone or busy.
    pub fn abandon(&mut self, socket: SocketId) {
        let (connection, ()) = self.connections.get_mut(socket).expect("it stands");
        let stream = connection.open().expect("nothing else is asked");
        let mut fields = HeaderBuf::new();
        fields.push("Host", b"test").expect("a field");
        let head = Request::new(b"POST", b"/", fields.as_headers());
        connection.send_head(stream, head, BodyLen::Unknown).expect("it is open");
        self.connections.touch(sys::now(), socket, &mut self.book);
        let (connection, ()) = self.connections.get_mut(socket).expect("it stands");
        connection.reset(stream, Reset::Cancelled);
        self.connections.touch(sys::now(), socket, &mut self.book);
    }

    /// Ends a connection properly.
    ///
    /// # Panics
    /// It is gone.
    pub fn leave(&mut self, socket: SocketId) {
        self.connections.get_mut(socket).expect("it stands").0.close_after();
        self.connections.touch(sys::now(), socket, &mut self.book);
    }

    /// Releases the held bytes of the current exchange.
    ///
    /// # Panics
    /// The connection is gone.
    pub fn release(&mut self, socket: SocketId) {
        self.book.holding = false;
        let (connection, ()) = self.connections.get_mut(socket).expect("it stands");
        let held = std::mem::take(&mut self.book.held);
        connection.release(fulmar_proto::StreamId::default(), held);
        self.connections.touch(sys::now(), socket, &mut self.book);
    }

    /// True if the connection exists.
    pub fn holds(&self, socket: SocketId) -> bool {
        self.connections.get(socket).is_some()
    }

    /// The number of received body bytes of the current response.
    pub fn received(&self) -> usize {
        self.book.body.len()
    }
}

impl Handler<H1Client, ()> for ClientRecord {
    fn handle(
        &mut self,
        _: Instant,
        _: SocketId,
        (connection, ()): (&mut H1Client, &mut ()),
        event: ConnectionEvent<'_, Client>,
    ) {
        match event {
            ConnectionEvent::Received => self.heard += 1,
            ConnectionEvent::Established { info } => {
                self.established += 1;
                if let Some(info) = info.and_then(Info::of) {
                    self.agreed.push((info.version, info.cipher, info.resumed));
                }
            }
            ConnectionEvent::Event(event) => self.handle_event(connection, event),
            ConnectionEvent::InputUsed
            | ConnectionEvent::Sent
            | ConnectionEvent::Ending
            | ConnectionEvent::DeadlinePassed { .. }
            | ConnectionEvent::Fault { .. } => {}
            event => panic!("{event:?}"),
        }
    }

    fn handle_closed(&mut self, _: Instant, _: SocketId, (): (), end: End) {
        self.ends.push(end);
    }
}

impl ClientRecord {
    fn handle_event(&mut self, connection: &mut H1Client, event: Event<'_, Client>) {
        match event {
            Event::Head { head, .. } => self.status = head.status,
            Event::Data { stream, bytes } => {
                self.body.extend_from_slice(&bytes);
                match self.holding {
                    true => self.held += bytes.len(),
                    false => connection.release(stream, bytes.len()),
                }
            }
            Event::End { .. } => self.answers.push((self.status, std::mem::take(&mut self.body))),
            event => panic!("{event:?}"),
        }
    }
}

impl Engine for RecordingClient {
    fn handle(&mut self, now: Instant, event: DriverEvent<'_>) {
        match event {
            DriverEvent::Socket(socket, event) => {
                self.connections.handle(now, socket, event, &mut self.book);
            }
            DriverEvent::Timeout => self.connections.handle_timeout(now, &mut self.book),
            event => panic!("unexpected: {event:?}"),
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.connections.poll_action()
    }

    fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>> {
        self.connections.poll_transmit(socket)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.connections.poll_timeout()
    }
}
