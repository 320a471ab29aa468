//! A client that is driven by hand: it connects at once, and its peer sends the bytes of a test.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use fulmar_client::{
    Application, Client, Config, Context, Done, Error, Request, TransferEvent, TransferId,
};
use fulmar_engine::{Action, CloseKind, DriverEvent, Engine, Peer, SocketEvent, SocketId};
use fulmar_proto::{HeaderBuf, Input, Segment};

use crate::{NOW, WALL};

/// A response that leaves the connection open.
pub(crate) const OK: &[u8] = b"HTTP/1.1 200 OK\nContent-Length: 0\n\n";

/// Records the received lines and the ends, and sends a body when there is room.
#[derive(Debug, Default)]
pub(crate) struct RawRecorder {
    pub(crate) lines: String,
    pub(crate) body: Vec<u8>,
    pub(crate) ends: Vec<String>,
    pub(crate) done: Vec<Done>,
    pub(crate) pauses_at_trailers: bool,
    /// For each reported connection: whether it had been used.
    pub(crate) connected: Vec<bool>,
    pub(crate) removes_connected: bool,
    /// A field to send behind the upload.
    pub(crate) trailer: Option<(&'static str, &'static str)>,
    upload: Option<Bytes>,
}

impl Application for RawRecorder {
    fn handle(&mut self, context: &mut Context<'_>, id: TransferId, event: TransferEvent<'_>) {
        let mut add = |name: &str, bytes: &[u8]| {
            self.lines.push_str(&format!("{name} {}|", bytes.escape_ascii()));
        };
        match event {
            TransferEvent::Informational(it) => {
                add("interim", it.headers.received().expect("HTTP/1"))
            }
            TransferEvent::Head { response, .. } => {
                add("head", response.headers.received().expect("HTTP/1"));
            }
            TransferEvent::Trailers(fields) => {
                add("trailers", fields.received().expect("HTTP/1"));
                if self.pauses_at_trailers {
                    context.pause(id);
                }
            }
            TransferEvent::MalformedHead { error, received, judged } => {
                add(&format!("{error:?} after"), &received[..judged]);
            }
            TransferEvent::Data(bytes) => self.body.extend_from_slice(&bytes),
            TransferEvent::Writable => {
                if let Some(upload) = self.upload.take() {
                    context.send(id, upload);
                    match self.trailer {
                        None => context.finish(id),
                        Some((name, value)) => {
                            let mut trailers = HeaderBuf::new();
                            trailers.push(name, value.as_bytes()).expect("a valid field");
                            context.finish_with(id, trailers);
                        }
                    }
                }
            }
            TransferEvent::Done(done) => {
                self.ends.push(match &done.result {
                    Ok(()) => format!("ok {}", done.status),
                    Err(Error::Peer(error)) => format!("{error:?}"),
                    Err(Error::TimedOut(waiting)) => format!("{waiting:?}"),
                    Err(error) => error.kind().to_owned(),
                });
                self.done.push(done);
            }
            TransferEvent::Connected(facts) => {
                self.connected.push(facts.exchange.reused);
                if self.removes_connected {
                    context.remove(id);
                }
            }
            TransferEvent::Redirect { .. } | TransferEvent::Upgraded => panic!("{event:?}"),
        }
    }
}

/// A client, and what it has sent.
pub(crate) struct DrivenClient {
    pub(crate) client: Client<RawRecorder>,
    pub(crate) now: Instant,
    pub(crate) socket: Option<SocketId>,
    pub(crate) closed: usize,
    /// The peers of connections that were begun. They succeed at once, unless `refuses`.
    pub(crate) connects: Vec<Peer>,
    pub(crate) refuses: bool,
    /// Whether the last socket is watched, each time that it changes.
    pub(crate) watches: Vec<bool>,
    pub(crate) lookups: usize,
    sent: Vec<u8>,
}

impl DrivenClient {
    pub(crate) fn new(upload: Option<&'static [u8]>) -> Self {
        Self::with(upload, Config::default())
    }

    pub(crate) fn with(upload: Option<&'static [u8]>, config: Config) -> Self {
        let recorder =
            RawRecorder { upload: upload.map(Bytes::from_static), ..RawRecorder::default() };
        let client = Client::new(*NOW, WALL, recorder, config);
        Self {
            client,
            now: *NOW,
            socket: None,
            closed: 0,
            connects: Vec::new(),
            refuses: false,
            watches: Vec::new(),
            lookups: 0,
            sent: Vec::new(),
        }
    }

    pub(crate) fn start(&mut self, request: &Request) -> TransferId {
        let id = self.client.start(self.now, request);
        self.act();
        id
    }

    /// Time passes.
    pub(crate) fn wait(&mut self, span: Duration) {
        self.now += span;
        if self.client.poll_timeout().is_some_and(|due| due <= self.now) {
            self.client.handle(self.now, DriverEvent::Timeout);
        }
        self.act();
    }

    pub(crate) fn receive(&mut self, bytes: &[u8], eof: bool) {
        let mut block = BytesMut::from(bytes);
        let socket = self.socket.expect("a connection");
        self.client.handle(self.now, SocketEvent::Input(Input::all(&mut block, eof)).of(socket));
        self.act();
    }

    pub(crate) fn act(&mut self) {
        while let Some(action) = self.client.poll_action() {
            match action {
                Action::Connect { socket, endpoint } => {
                    self.socket = Some(socket);
                    self.connects.push(endpoint.peer.clone());
                    if self.refuses {
                        continue;
                    }
                    self.client.handle(self.now, SocketEvent::Connected.of(socket));
                }
                Action::Transmit { socket } => {
                    let before = self.sent.len();
                    if let Some(transmit) = self.client.poll_transmit(socket) {
                        self.sent.extend_from_slice(transmit.inline);
                        for segment in transmit.segments {
                            let Segment::Bytes(bytes) = segment else { panic!("no files") };
                            self.sent.extend_from_slice(bytes);
                        }
                    }
                    let sent = (self.sent.len() - before) as u64;
                    self.client.handle(self.now, SocketEvent::Sent(sent).of(socket));
                }
                Action::Resolve { .. } => self.lookups += 1,
                Action::Watch { on, .. } => self.watches.push(on),
                Action::Close { kind: CloseKind::Normal | CloseKind::Reset, .. } => {
                    self.closed += 1;
                }
                _ => {}
            }
        }
    }

    pub(crate) fn sent_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.sent)
    }

    pub(crate) fn sent(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.sent)).expect("text")
    }
}
