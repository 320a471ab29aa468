//! A server of HTTP/2 and HTTP/1.1 with scripted responses, in clear text or over TLS. It runs in
//! the thread of the test.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use bytes::{Bytes, BytesMut};
use fulmar_proto::h2::ErrorCode;
use fulmar_proto::{
    BodyLen, Connection, Event, Headers, Input, Response, Scratch, Segment, ServerConnection,
    StreamId,
};

use fulmar_tls::ServerTls;

use crate::buffers::bounded;
use crate::tls_end::TlsEnd;

/// One step of the server in response to a request.
#[derive(Clone, Debug)]
pub enum Http2Step {
    /// 200 with this body.
    Respond(Vec<u8>),
    /// This status, without a body.
    Status(u16),
    /// 200 with the begin of a body.
    Begin(Vec<u8>),
    /// RST_STREAM with this code.
    Reset(ErrorCode),
    /// GOAWAY: the last stream that is processed.
    GoAway(u32),
    /// SETTINGS: the streams that a client may have open at a time.
    StreamsMax(u32),
    /// A frame that breaks the protocol: DATA without a stream.
    Violate,
    /// A frame of the stream: its type, flags and payload.
    Frame(u8, u8, Vec<u8>),
    /// Closes the connection.
    Close,
}

/// A request, as it was received.
#[derive(Clone, Debug)]
pub struct Http2Request {
    /// The index of the connection, in the order of their arrival.
    pub connection: usize,
    /// Its stream.
    pub stream: u32,
    /// The turn of the server in which it was complete.
    pub turn: usize,
    /// It came over HTTP/2.
    pub is_http2: bool,
    /// The method.
    pub method: String,
    /// The request target.
    pub path: String,
    /// The host and port that were requested.
    pub authority: String,
    /// The body.
    pub body: Vec<u8>,
}

type Http2Script = Box<dyn FnMut(&Http2Request) -> Vec<Http2Step>>;

/// The server.
pub struct ScriptedHttp2 {
    listener: TcpListener,
    connections: Vec<Option<Http2Connection>>,
    script: Http2Script,
    turns: usize,
    /// The TLS of further connections.
    pub tls: Option<ServerTls>,
    /// The steps at the begin of each connection of HTTP/2, behind the first SETTINGS.
    pub greeting: Vec<Http2Step>,
    /// Every request, in the order of their completion.
    pub requests: Vec<Http2Request>,
    /// Resets by the client: connection, stream and code.
    pub resets: Vec<(usize, u32, ErrorCode)>,
}

impl fmt::Debug for ScriptedHttp2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedHttp2").field("requests", &self.requests).finish_non_exhaustive()
    }
}

struct Http2Connection {
    stream: TcpStream,
    tls: Option<TlsEnd>,
    machine: ServerConnection,
    input: BytesMut,
    scratch: Scratch,
    /// Unsent bytes, above TLS.
    output: Vec<u8>,
    /// Unsent bytes for the socket.
    wire: Vec<u8>,
    open: BTreeMap<u32, Http2Request>,
    greeted: bool,
    /// The peer has ended its side.
    eof: bool,
    /// Closed as soon as the output is sent.
    closes: bool,
}

impl ScriptedHttp2 {
    /// A server on loopback.
    ///
    /// # Panics
    /// If there is no port.
    pub fn new(script: impl FnMut(&Http2Request) -> Vec<Http2Step> + 'static) -> Self {
        Self::with(None, script)
    }

    /// The same over TLS.
    ///
    /// # Panics
    /// If there is no port.
    pub fn over_tls(
        tls: ServerTls,
        script: impl FnMut(&Http2Request) -> Vec<Http2Step> + 'static,
    ) -> Self {
        Self::with(Some(tls), script)
    }

    fn with(
        tls: Option<ServerTls>,
        script: impl FnMut(&Http2Request) -> Vec<Http2Step> + 'static,
    ) -> Self {
        let listener = bounded(TcpListener::bind("127.0.0.1:0").expect("a port"));
        listener.set_nonblocking(true).expect("a socket");
        let (connections, requests, resets) = (Vec::new(), Vec::new(), Vec::new());
        let (script, greeting) = (Box::new(script), Vec::new());
        Self { listener, tls, connections, script, turns: 0, greeting, requests, resets }
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
        self.connections.len()
    }

    /// True once the client has sent GOAWAY on an open connection.
    pub fn has_goaway(&self, connection: usize) -> bool {
        let it = self.connections.get(connection).and_then(Option::as_ref);
        it.is_some_and(|it| it.machine.expects_no_more_requests())
    }

    /// The number of requests for this target.
    pub fn count(&self, path: &str) -> usize {
        self.requests.iter().filter(|request| request.path == path).count()
    }

    /// Performs a step on a connection without a request. It is sent in the next turn.
    ///
    /// # Panics
    /// If there is no such connection, or it is closed.
    pub fn perform(&mut self, connection: usize, step: Http2Step) {
        let it = self.connections[connection].as_mut().expect("an open connection");
        it.perform(StreamId::default(), step);
    }

    /// Accepts, reads and responds without blocking.
    ///
    /// # Panics
    /// If a socket cannot be used, or a client breaks the protocol.
    pub fn turn(&mut self) {
        self.turns += 1;
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true).expect("a socket");
            let tls = self.tls.as_ref().map(|tls| tls.session().expect("a session"));
            self.connections.push(Some(Http2Connection::new(stream, tls.map(TlsEnd::new))));
        }
        for at in 0..self.connections.len() {
            let Some(mut connection) = self.connections[at].take() else { continue };
            connection.read();
            while let Some(event) = connection.poll_request(at, &self.greeting) {
                match event {
                    Ok(mut request) => {
                        request.turn = self.turns;
                        let steps = (self.script)(&request);
                        let stream = StreamId(request.stream);
                        steps.into_iter().for_each(|step| connection.perform(stream, step));
                        self.requests.push(request);
                    }
                    Err((stream, code)) => self.resets.push((at, stream, code)),
                }
            }
            self.connections[at] = connection.flush();
        }
    }
}

impl Http2Connection {
    fn new(stream: TcpStream, tls: Option<TlsEnd>) -> Self {
        stream.set_nodelay(true).expect("a socket");
        Self {
            stream,
            tls,
            machine: ServerConnection::default(),
            input: BytesMut::new(),
            scratch: Scratch::default(),
            output: Vec::new(),
            wire: Vec::new(),
            open: BTreeMap::new(),
            greeted: false,
            eof: false,
            closes: false,
        }
    }

    fn read(&mut self) {
        let mut bytes = [0; 64 * 1024];
        let received = match &mut self.tls {
            Some(tls) => &mut tls.wire,
            None => &mut self.input,
        };
        loop {
            match self.stream.read(&mut bytes) {
                Ok(n @ 1..) => received.extend_from_slice(&bytes[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Ok(0) | Err(_) => {
                    self.eof = true;
                    break;
                }
            }
        }
        if let Some(tls) = &mut self.tls {
            tls.eof = self.eof;
            self.eof |= tls.open().is_err() || tls.ended;
            self.input.extend_from_slice(&tls.above.split());
        }
    }

    /// The next complete request, or the stream and code of a reset by the client.
    fn poll_request(
        &mut self,
        connection: usize,
        greeting: &[Http2Step],
    ) -> Option<Result<Http2Request, (u32, ErrorCode)>> {
        let complete = self.poll_complete(connection);
        if self.machine.is_http2() && !std::mem::replace(&mut self.greeted, true) {
            greeting.iter().for_each(|step| self.perform(StreamId::default(), step.clone()));
        }
        complete
    }

    fn poll_complete(
        &mut self,
        connection: usize,
    ) -> Option<Result<Http2Request, (u32, ErrorCode)>> {
        let mut input = Input::all(&mut self.input, self.eof);
        while let Ok(Some(event)) = self.machine.poll_event(&mut input, &mut self.scratch) {
            let stream = event.stream();
            match event {
                Event::Head { head, .. } => {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    let request = Http2Request {
                        connection,
                        stream: stream.0,
                        turn: 0, // set when it is complete
                        is_http2: self.machine.is_http2(),
                        method: text(head.method),
                        path: text(head.target),
                        authority: text(head.headers.get("host").unwrap_or_default()),
                        body: Vec::new(),
                    };
                    self.open.insert(stream.0, request);
                }
                Event::Data { bytes, .. } => {
                    if let Some(request) = self.open.get_mut(&stream.0) {
                        request.body.extend_from_slice(&bytes);
                    }
                    self.machine.release(stream, bytes.len());
                }
                Event::End { .. } => {
                    if let Some(request) = self.open.remove(&stream.0) {
                        return Some(Ok(request));
                    }
                }
                Event::Reset { code, .. } => {
                    self.open.remove(&stream.0);
                    return Some(Err((stream.0, code)));
                }
                Event::Informational { .. } | Event::Writable { .. } | Event::Upgraded { .. } => {}
            }
        }
        None
    }

    fn perform(&mut self, stream: StreamId, step: Http2Step) {
        let number = stream.0.to_be_bytes();
        match step {
            Http2Step::Respond(body) => {
                let len = BodyLen::Exact(body.len() as u64);
                self.begin(stream, len, body);
                self.machine.send_end(stream, Headers::EMPTY).expect("a whole body");
            }
            Http2Step::Status(status) => {
                let head = Response::new(status, Headers::EMPTY);
                self.machine.send_head(stream, head, BodyLen::Empty).expect("an open stream");
                self.machine.send_end(stream, Headers::EMPTY).expect("no body");
            }
            Http2Step::Begin(body) => self.begin(stream, BodyLen::Unknown, body),
            Http2Step::Reset(code) => {
                self.poll_bytes();
                self.output.extend([0, 0, 4, RST_STREAM, 0]);
                self.output.extend(number);
                self.output.extend(code.code().to_be_bytes());
            }
            Http2Step::GoAway(last) => {
                self.poll_bytes();
                self.output.extend([0, 0, 8, GOAWAY, 0, 0, 0, 0, 0]);
                self.output.extend(last.to_be_bytes());
                self.output.extend([0; 4]);
            }
            Http2Step::StreamsMax(max) => {
                self.poll_bytes();
                self.output.extend([0, 0, 6, SETTINGS, 0, 0, 0, 0, 0]);
                self.output.extend([0, MAX_CONCURRENT_STREAMS]);
                self.output.extend(max.to_be_bytes());
            }
            Http2Step::Violate => {
                self.poll_bytes();
                self.output.extend([0; 9]);
            }
            Http2Step::Frame(kind, flags, payload) => {
                self.poll_bytes();
                let len = u8::try_from(payload.len()).expect("a short frame");
                self.output.extend([0, 0, len, kind, flags]);
                self.output.extend(number);
                self.output.extend(payload);
            }
            Http2Step::Close => self.closes = true,
        }
        self.poll_bytes();
    }

    fn begin(&mut self, stream: StreamId, len: BodyLen, body: Vec<u8>) {
        let head = Response::new(200, Headers::EMPTY);
        self.machine.send_head(stream, head, len).expect("an open stream");
        self.machine.send_data(stream, Bytes::from(body).into()).expect("an open stream");
    }

    fn poll_bytes(&mut self) {
        while let Some(transmit) = self.machine.poll_transmit() {
            self.output.extend_from_slice(transmit.inline);
            for segment in transmit.segments {
                let Segment::Bytes(piece) = segment else { panic!("no file was queued") };
                self.output.extend_from_slice(piece);
            }
            let len = transmit.len();
            self.machine.handle_sent(len);
        }
    }

    /// `None`: it is closed.
    fn flush(mut self) -> Option<Self> {
        self.poll_bytes();
        match &mut self.tls {
            None => self.wire.append(&mut self.output),
            Some(tls) => {
                if tls.established {
                    tls.send(&std::mem::take(&mut self.output));
                }
                self.wire.extend(tls.take());
            }
        }
        while !self.wire.is_empty() {
            match self.stream.write(&self.wire) {
                Ok(n) => drop(self.wire.drain(..n)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(self),
                Err(_) => return None,
            }
        }
        (!self.eof && !self.closes).then_some(self)
    }
}

const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const MAX_CONCURRENT_STREAMS: u8 = 3;
