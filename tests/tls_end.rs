//! One end of a TLS session, without a driver or on a socket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::BytesMut;
use fulmar_proto::{Input, Layer, LayerError, Opened, Sealed, Segment, Transmit};
use fulmar_tls::{ClientTls, Info, ServerTls};

use crate::loops::client;

/// One end, and its input.
#[derive(Debug)]
pub struct TlsEnd {
    /// The session.
    pub layer: Box<dyn Layer>,
    /// Received bytes that are not consumed.
    pub wire: BytesMut,
    /// Nothing more comes after it.
    pub eof: bool,
    /// What was opened.
    pub above: BytesMut,
    /// The end of the handshake was reported.
    pub established: bool,
    /// A close_notify was reported.
    pub ended: bool,
    /// An end without close_notify was reported.
    pub truncated: bool,
}

impl TlsEnd {
    /// An end without input so far.
    pub fn new(layer: impl Layer + 'static) -> Self {
        Self {
            layer: Box::new(layer),
            wire: BytesMut::new(),
            eof: false,
            above: BytesMut::new(),
            established: false,
            ended: false,
            truncated: false,
        }
    }

    /// Opens what there is.
    ///
    /// # Errors
    /// Those of the layer.
    ///
    /// # Panics
    /// The end of the handshake is reported twice.
    pub fn open(&mut self) -> Result<(), LayerError> {
        loop {
            let mut input = Input::all(&mut self.wire, self.eof);
            match self.layer.open(&mut input, &mut self.above)? {
                Opened::Some => {}
                Opened::Blocked => return Ok(()),
                Opened::Established => {
                    assert!(!std::mem::replace(&mut self.established, true), "told once");
                }
                Opened::Ended => self.ended = true,
                Opened::Truncated(_) => {
                    self.truncated = true;
                    return Ok(());
                }
                Opened::Replaced(_) => panic!("TLS stays"),
            }
        }
    }

    /// What the socket would send.
    pub fn take(&mut self) -> Vec<u8> {
        let bytes = self.layer.poll_transmit().map_or_else(Vec::new, flatten);
        self.layer.handle_sent(bytes.len() as u64);
        bytes
    }

    /// Sends a few bytes.
    ///
    /// # Panics
    /// The handshake is not complete.
    pub fn send(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let transmit = Transmit::new(rest, &[]);
            let sealed = self.layer.seal(transmit).expect("the session is established");
            let Sealed::Bytes(n @ 1..) = sealed else { panic!("{sealed:?}") };
            rest = &rest[usize::try_from(n).expect("no more than was given")..];
        }
    }

    /// What was agreed.
    ///
    /// # Panics
    /// The handshake is not complete.
    pub fn info(&self) -> Info<'_> {
        Info::of(self.layer.info().expect("TLS tells")).expect("it stands")
    }
}

/// A TLS client on a socket, which the test turns: none of its calls is in the ledger.
#[derive(Debug)]
pub struct TlsPeer {
    /// The session.
    pub end: TlsEnd,
    /// The socket, which does not block.
    pub stream: TcpStream,
    block: Vec<u8>,
}

impl TlsPeer {
    /// Connects; nothing is sent yet.
    ///
    /// # Panics
    /// Connection refused.
    pub fn connect(tls: &ClientTls, address: SocketAddr) -> Self {
        let stream = client(address);
        stream.set_nonblocking(true).expect("a socket");
        Self::on(tls, stream)
    }

    /// On a connected socket; nothing was sent yet.
    ///
    /// # Panics
    /// Never: `localhost` is a name.
    pub fn on(tls: &ClientTls, stream: TcpStream) -> Self {
        let end = TlsEnd::new(tls.session("localhost").expect("a name"));
        Self { end, stream, block: vec![0; 1 << 20] }
    }

    /// Sends pending bytes, and receives the available ones.
    ///
    /// # Panics
    /// The server sends something wrong.
    pub fn turn(&mut self) {
        self.stream.write_all(&self.end.take()).expect("room");
        while !self.end.eof
            && let Ok(n) = self.stream.read(&mut self.block)
        {
            self.end.eof = n == 0;
            self.end.wire.extend_from_slice(&self.block[..n]);
            self.end.open().expect("nothing is wrong");
        }
    }

    /// Connects, and completes the handshake; from then on the socket blocks.
    ///
    /// # Panics
    /// Connection refused, or the server is not trusted.
    pub fn establish(tls: &ClientTls, address: SocketAddr) -> Self {
        let mut this = Self::connect(tls, address);
        this.stream.set_nonblocking(false).expect("a socket");
        while !this.end.established {
            this.stream.write_all(&this.end.take()).expect("room");
            this.receive();
        }
        this.stream.write_all(&this.end.take()).expect("room");
        this
    }

    /// Opens what comes next.
    ///
    /// # Panics
    /// Nothing arrives, or it is wrong.
    pub fn receive(&mut self) {
        let n = self.stream.read(&mut self.block).expect("something");
        assert!(n > 0, "it is not the end");
        self.end.wire.extend_from_slice(&self.block[..n]);
        self.end.open().expect("nothing is wrong");
    }

    /// As records.
    pub fn seal(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.end.send(bytes);
        self.end.take()
    }

    /// Sends a GET.
    pub fn get(&mut self, target: &str) {
        self.end.send(format!("GET {target} HTTP/1.1\r\nHost: t\r\n\r\n").as_bytes());
    }

    /// The number of received heads with status 200.
    pub fn answers(&self) -> usize {
        String::from_utf8_lossy(&self.end.above).matches("HTTP/1.1 200 OK").count()
    }
}

/// A client and a server.
///
/// # Panics
/// The host is no name.
pub fn pair(client: &ClientTls, server: &ServerTls, host: &str) -> (TlsEnd, TlsEnd) {
    let client = client.session(host).expect("a session");
    (TlsEnd::new(client), TlsEnd::new(server.session().expect("a session")))
}

/// Transfers bytes between the two ends, in pieces as `cut` decides, until both are quiet.
///
/// # Errors
/// The first one of either end.
pub fn carry(
    client: &mut TlsEnd,
    server: &mut TlsEnd,
    mut cut: impl FnMut(usize) -> usize,
) -> Result<(), LayerError> {
    let mut waiting = [Vec::new(), Vec::new()];
    loop {
        for at in [0, 1] {
            let (from, to) =
                if at == 0 { (&mut *client, &mut *server) } else { (&mut *server, &mut *client) };
            waiting[at].extend(from.take());
            if waiting[at].is_empty() {
                continue;
            }
            let n = cut(waiting[at].len());
            to.wire.extend(waiting[at].drain(..n));
            to.open()?;
        }
        let quiet = |end: &mut TlsEnd| end.layer.poll_transmit().is_none();
        if waiting.iter().all(Vec::is_empty) && quiet(client) && quiet(server) {
            return Ok(());
        }
    }
}

/// A client and a server after their handshake, on `localhost`.
///
/// # Panics
/// They do not.
pub fn established_pair(client: &ClientTls, server: &ServerTls) -> (TlsEnd, TlsEnd) {
    let (mut client, mut server) = pair(client, server, "localhost");
    carry(&mut client, &mut server, |n| n).expect("they agree");
    assert!(client.established && server.established);
    (client, server)
}

/// The bytes of a transmit.
///
/// # Panics
/// Some are in a file.
pub fn flatten(transmit: Transmit<'_>) -> Vec<u8> {
    let mut bytes = transmit.inline.to_vec();
    for segment in transmit.segments {
        let Segment::Bytes(run) = segment else { panic!("they are in memory") };
        bytes.extend_from_slice(run);
    }
    bytes
}
