//! One end of TLS without a driver, moved by hand.

use bytes::BytesMut;
use fulmar_proto::{Input, Layer, LayerError, Opened, Sealed, Segment, Transmit};
use fulmar_tls::{ClientTls, Info, ServerTls};

/// One end, and the wire that leads to it.
#[derive(Debug)]
pub struct TlsEnd {
    /// The session.
    pub layer: Box<dyn Layer>,
    /// What has arrived and is not consumed.
    pub wire: BytesMut,
    /// Nothing more comes after it.
    pub eof: bool,
    /// What was opened.
    pub above: BytesMut,
    /// It was told.
    pub established: bool,
    /// The peer's word was told.
    pub ended: bool,
    /// An end without it was told.
    pub truncated: bool,
}

impl TlsEnd {
    /// An end that has seen nothing.
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
    /// As the layer says.
    ///
    /// # Panics
    /// It is told twice that the layer stands.
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
    /// It does not stand.
    pub fn say(&mut self, bytes: &[u8]) {
        let transmit = Transmit { inline: bytes, segments: &[] };
        let sealed = self.layer.seal(transmit).expect("it stands");
        assert!(matches!(sealed, Sealed::Bytes(n) if n == bytes.len() as u64), "{sealed:?}");
    }

    /// What was agreed.
    ///
    /// # Panics
    /// It does not stand.
    pub fn info(&self) -> Info<'_> {
        Info::of(self.layer.info().expect("TLS tells")).expect("it stands")
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

/// Carries bytes from one end to the other, in pieces as `cut` says, until nobody says anything.
///
/// # Errors
/// The first that one of them says.
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

/// A client and a server that have agreed, on `localhost`.
///
/// # Panics
/// They do not.
pub fn stand(client: &ClientTls, server: &ServerTls) -> (TlsEnd, TlsEnd) {
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
