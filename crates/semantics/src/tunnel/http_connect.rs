//! CONNECT through an HTTP proxy (RFC 9110 §9.3.6).

use std::fmt;

use bytes::BytesMut;
use fulmar_proto::h1::H1Client;
use fulmar_proto::h1::Leniency;
use fulmar_proto::{
    BodyLen, Connection, Event, Headers, Input, Layer, LayerError, Opened, PeerError, Request,
    Response, Scratch, Sealed, Transmit, UsageError,
};
use url::Host;

/// A tunnel through an HTTP proxy. Fails with [`HttpConnectError`].
#[derive(Debug)]
pub struct HttpConnect {
    connection: H1Client,
    scratch: Scratch,
    next: Option<Box<dyn Layer>>,
}

impl HttpConnect {
    /// Requests a tunnel to `host`. `headers` are sent to the proxy, such as `Proxy-Authorization`
    /// and `User-Agent`. `next` takes over when the tunnel is open.
    ///
    /// # Errors
    /// [`UsageError::BadHead`]: the host is invalid, or `headers` contain `Host`, which is added
    /// here.
    pub fn new(
        host: &Host<&str>,
        port: u16,
        headers: Headers<'_>,
        next: Option<Box<dyn Layer>>,
    ) -> Result<Self, UsageError> {
        if headers.get("Host").is_some() {
            return Err(UsageError::BadHead);
        }
        let authority = format!("{host}:{port}");
        let added = [("Host", authority.as_bytes())];
        let request =
            Request { added: &added, ..Request::new(b"CONNECT", authority.as_bytes(), headers) };
        let mut connection = H1Client::default();
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
            // The following bytes come from the destination: the connection must not parse them.
            Some(Event::Upgraded { .. }) if self.connection.poll_transmit().is_none() => {
                Ok(Opened::Replaced(self.next.take()))
            }
            Some(Event::Upgraded { .. }) => Err(HttpConnectError::Peer(PeerError::Unsolicited)),
            // An interim response, or the final one, followed by `Upgraded`.
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
    /// The response has a status other than 2xx.
    Refused {
        /// The status.
        status: u16,
        /// The values of `Proxy-Authenticate` (407), in order.
        challenges: Vec<Box<[u8]>>,
    },
    /// The proxy violated the protocol.
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
            Self::Refused { status: 407, .. } => f.write_str("proxy requires authentication (407)"),
            Self::Refused { status, .. } => write!(f, "proxy refused the tunnel ({status})"),
            Self::Peer(error) => write!(f, "proxy: {error}"),
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
