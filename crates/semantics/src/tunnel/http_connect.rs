//! CONNECT through an HTTP proxy (RFC 9110 §9.3.6).

use std::fmt;

use bytes::BytesMut;
use fulmar_proto::h1::Leniency;
use fulmar_proto::{
    BodyLen, ClientConnection, Connection, Event, Headers, Input, Layer, LayerError, Misuse,
    Opened, PeerError, Request, Response, Scratch, Sealed, Transmit,
};
use url::Host;

/// A tunnel through an HTTP proxy. Fails with [`HttpConnectError`].
#[derive(Debug)]
pub struct HttpConnect {
    connection: ClientConnection,
    scratch: Scratch,
    next: Option<Box<dyn Layer>>,
}

impl HttpConnect {
    /// Asks the proxy to connect to `host`; `headers` go to the proxy with the request, such as
    /// `Proxy-Authorization` and `User-Agent`. `next` takes over once the tunnel stands.
    ///
    /// # Errors
    /// [`Misuse::BadHead`]: a host that cannot be sent, or a `Host` among the fields: that one
    /// is written here.
    pub fn new(
        host: &Host<&str>,
        port: u16,
        headers: Headers<'_>,
        next: Option<Box<dyn Layer>>,
    ) -> Result<Self, Misuse> {
        if headers.get("Host").is_some() {
            return Err(Misuse::BadHead);
        }
        let authority = format!("{host}:{port}");
        let added = [("Host", authority.as_bytes())];
        let request =
            Request { added: &added, ..Request::new(b"CONNECT", authority.as_bytes(), headers) };
        let mut connection = ClientConnection::default();
        let stream = connection.open().expect("nothing is outstanding");
        connection.send_head(stream, request, BodyLen::Empty)?;
        connection.send_end(stream, Headers::EMPTY)?;
        Ok(Self { connection, scratch: Scratch::default(), next })
    }

    /// Sets the deviations from the grammar that are accepted in the proxy's response.
    #[must_use]
    pub fn with_leniency(mut self, leniency: Leniency) -> Self {
        self.connection.set_leniency(leniency);
        self
    }

    fn read(&mut self, input: &mut Input<'_>) -> Result<Opened, HttpConnectError> {
        let event = self.connection.poll_event(input, &mut self.scratch);
        match event.map_err(HttpConnectError::Peer)? {
            None => Ok(Opened::Blocked),
            Some(Event::Head { head, .. }) if !(200..300).contains(&head.status) => {
                Err(HttpConnectError::refused(&head))
            }
            // After it comes what the proxy only passes on: the connection must not be asked again.
            Some(Event::Upgraded { .. }) if self.connection.poll_transmit().is_none() => {
                Ok(Opened::Replaced(self.next.take()))
            }
            Some(Event::Upgraded { .. }) => Err(HttpConnectError::Peer(PeerError::Unsolicited)),
            // An interim answer; or the final one, which `Upgraded` follows.
            Some(_) => Ok(Opened::Some),
        }
    }
}

impl Layer for HttpConnect {
    fn open(&mut self, input: &mut Input<'_>, _: &mut BytesMut) -> Result<Opened, LayerError> {
        Ok(self.read(input)?)
    }

    fn seal(&mut self, _: Transmit<'_>) -> Result<Sealed, LayerError> {
        Ok(Sealed::Bytes(0))
    }

    fn seal_loaded(&mut self, _: &[u8]) -> Result<(), LayerError> {
        Ok(())
    }

    fn finish(&mut self) {}

    fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        self.connection.poll_transmit()
    }

    fn handle_sent(&mut self, bytes: u64) {
        self.connection.handle_sent(bytes);
    }
}

/// Why the proxy opened no tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpConnectError {
    /// It answered with something else than 2xx.
    Refused {
        /// What it answered with.
        status: u16,
        /// The values of `Proxy-Authenticate`, in order: what a 407 asks for.
        challenges: Vec<Box<[u8]>>,
    },
    /// It broke the protocol.
    Peer(PeerError),
}

impl HttpConnectError {
    fn refused(head: &Response<'_>) -> Self {
        let challenges = head.headers.get_all("Proxy-Authenticate").map(Box::from).collect();
        Self::Refused { status: head.status, challenges }
    }
}

impl fmt::Display for HttpConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { status: 407, .. } => f.write_str("the proxy wants a login (407)"),
            Self::Refused { status, .. } => write!(f, "the proxy refused the tunnel ({status})"),
            Self::Peer(error) => write!(f, "the proxy: {error}"),
        }
    }
}

impl std::error::Error for HttpConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Peer(error) => Some(error),
            Self::Refused { .. } => None,
        }
    }
}
