//! A client engine for tests: fetches targets into memory or straight into a file, and records the
//! events.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

use fulmar_engine::{
    Action, ConnectionEvent, Connections, DriverEvent, End, Endpoint, Engine, Handler, Passage,
    SocketEvent, SocketId, Timeouts,
};
use fulmar_proto::h1::H1Client;
use fulmar_proto::{
    BodyLen, Client, Connection, Event, FileRange, HeaderBuf, Headers, Request, SpliceTarget,
    Transmit,
};
use fulmar_sys as sys;

/// Many fetches.
#[derive(Debug)]
pub struct FetchEngine {
    connections: Connections<H1Client, FetchJob>,
    /// What happened.
    pub book: FetchRecord,
    /// Bytes that went straight into files.
    pub spliced: u64,
}

/// What happened.
#[derive(Debug, Default)]
pub struct FetchRecord {
    /// Established connections.
    pub connected: Vec<SocketId>,
    /// Complete bodies; empty for those that went into files.
    pub done: HashMap<SocketId, Vec<u8>>,
    /// Closed connections, and the cause.
    pub gone: HashMap<SocketId, End>,
}

/// What a connection is doing.
#[derive(Debug)]
struct FetchJob {
    into: Option<Arc<OwnedFd>>,
    body: Vec<u8>,
    received: u64,
}

impl FetchJob {
    fn into(file: Option<File>) -> Self {
        Self { into: file.map(|file| Arc::new(file.into())), body: Vec::new(), received: 0 }
    }
}

impl Default for FetchEngine {
    fn default() -> Self {
        Self::new(Timeouts::default())
    }
}

impl FetchEngine {
    /// Nothing yet.
    pub fn new(timeouts: Timeouts) -> Self {
        let connections = Connections::new(sys::now(), timeouts, 0, 1);
        Self { connections, book: FetchRecord::default(), spliced: 0 }
    }

    /// Connects and requests `target`; its body goes into `file`, if there is one.
    pub fn start(
        &mut self,
        now: Instant,
        endpoint: Endpoint,
        target: &str,
        file: Option<File>,
    ) -> SocketId {
        let mut connection = H1Client::default();
        send_request(&mut connection, target);
        let socket =
            self.connections.connect(now, endpoint, None, connection, FetchJob::into(file));
        self.connections.touch(now, socket, &mut self.book);
        socket
    }

    /// Requests `target` on an idle connection.
    ///
    /// # Panics
    /// If it is gone or busy.
    pub fn again(&mut self, now: Instant, socket: SocketId, target: &str, file: Option<File>) {
        self.book.done.remove(&socket);
        let (connection, job) = self.connections.get_mut(socket).expect("it is still there");
        send_request(connection, target);
        *job = FetchJob::into(file);
        self.connections.touch(now, socket, &mut self.book);
    }

    /// Gives a connection up.
    pub fn close(&mut self, socket: SocketId) {
        self.connections.close(socket);
    }

    /// True if the rest of the current body may be spliced into its file.
    pub fn is_receiving(&self, socket: SocketId) -> bool {
        self.connections.splice_len(socket, SpliceTarget::File) > 0
    }

    /// Bytes received so far of the current body; 0 if the connection is gone.
    pub fn received(&self, socket: SocketId) -> u64 {
        self.connections.get(socket).map_or(0, |(_, job)| job.received)
    }

    /// Connections that are there.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    fn want_splice(&mut self, socket: SocketId) {
        if self.connections.get(socket).is_some_and(|(_, job)| job.into.is_some()) {
            self.connections.splice(socket, SpliceTarget::File);
        }
    }
}

fn send_request(connection: &mut H1Client, target: &str) {
    let mut fields = HeaderBuf::new();
    fields.push("Host", b"test").expect("a field");
    let stream = connection.open().expect("there is a vacancy");
    let head = Request::new(b"GET", target.as_bytes(), fields.as_headers());
    connection.send_head(stream, head, BodyLen::Empty).expect("a request");
    connection.send_end(stream, Headers::EMPTY).expect("it has no body");
}

impl Handler<H1Client, FetchJob> for FetchRecord {
    fn handle(
        &mut self,
        _: Instant,
        socket: SocketId,
        (connection, job): (&mut H1Client, &mut FetchJob),
        event: ConnectionEvent<'_, Client>,
    ) {
        let ConnectionEvent::Event(event) = event else { return };
        match event {
            Event::Data { stream, bytes } => {
                connection.release(stream, bytes.len());
                match &job.into {
                    Some(file) => write_at(file, job.received, &bytes).expect("a working file"),
                    None => job.body.extend_from_slice(&bytes),
                }
                job.received += bytes.len() as u64;
            }
            Event::End { .. } => {
                let earlier = self.done.insert(socket, std::mem::take(&mut job.body));
                assert!(earlier.is_none(), "it ends once");
                job.into = None;
            }
            _ => {}
        }
    }

    fn handle_closed(&mut self, _: Instant, socket: SocketId, _: FetchJob, end: End) {
        assert!(self.gone.insert(socket, end).is_none(), "it is gone once");
    }
}

fn write_at(file: &OwnedFd, offset: u64, bytes: &[u8]) -> io::Result<()> {
    File::from(file.try_clone()?).write_all_at(bytes, offset)
}

impl Engine for FetchEngine {
    fn handle(&mut self, now: Instant, event: DriverEvent<'_>) {
        let (socket, event) = match event {
            DriverEvent::Socket(socket, event) => (socket, event),
            DriverEvent::Timeout => return self.connections.handle_timeout(now, &mut self.book),
            event => panic!("unexpected: {event:?}"),
        };
        match event {
            SocketEvent::Connected => self.book.connected.push(socket),
            SocketEvent::Spliced(bytes) => {
                self.spliced += bytes;
                if let Some((_, job)) = self.connections.get_mut(socket) {
                    job.received += bytes;
                }
            }
            _ => {}
        }
        let arrives = matches!(event, SocketEvent::Input(_));
        self.connections.handle(now, socket, event, &mut self.book);
        if arrives {
            self.want_splice(socket);
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.connections.poll_action()
    }

    fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>> {
        self.connections.poll_transmit(socket)
    }

    fn poll_passage(&mut self, socket: SocketId) -> Option<Passage> {
        let len = self.connections.splice_len(socket, SpliceTarget::File);
        let (_, job) = self.connections.get(socket)?;
        let file = job.into.clone()?;
        (len > 0).then(|| Passage::File(FileRange { file, offset: job.received, len }))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.connections.poll_timeout()
    }
}
