//! The receiving end, between a socket and what follows the header on it.

use std::any::Any;

use bytes::BytesMut;
use fulmar_proto::{Input, Layer, LayerError, Opened, Sealed, Transmit};

use super::{Header, HeaderError, decode};

/// Takes a header, which must be there, off a connection from a trusted source. Fails with
/// [`HeaderError`].
///
/// What it has read is its [`Layer::info`], a [`Header`]: told when it is replaced, by `next`
/// (such as TLS) or by nothing. Not one byte behind the header is touched.
///
/// ```
/// use fulmar_proto::Layer;
/// use fulmar_semantics::proxy_protocol::{ProxyProtocol, TrustedSources};
/// use std::net::SocketAddr;
///
/// // What makes the layers of a listener: whoever else connects is closed.
/// let trusted: TrustedSources = "192.0.2.0/24".parse().unwrap();
/// let make = move |peer: SocketAddr| -> Option<Box<dyn Layer>> {
///     trusted.allows(peer.ip()).then(|| Box::new(ProxyProtocol::new(None)) as _)
/// };
/// assert!(make("198.51.100.1:4711".parse().unwrap()).is_none());
/// ```
#[derive(Debug)]
pub struct ProxyProtocol {
    header: Option<Header>,
    next: Option<Box<dyn Layer>>,
}

impl ProxyProtocol {
    /// A header has to come, and then `next` takes over.
    pub fn new(next: Option<Box<dyn Layer>>) -> Self {
        Self { header: None, next }
    }

    fn read(&mut self, input: &mut Input<'_>) -> Result<Opened, HeaderError> {
        match decode(input.bytes())? {
            Some((header, size)) => {
                input.skip(size);
                self.header = Some(header);
                Ok(Opened::Replaced(self.next.take()))
            }
            None if input.at_eof() => Err(HeaderError::Nothing),
            None if input.has_eof() => Err(HeaderError::UnexpectedEof),
            None => Ok(Opened::Blocked),
        }
    }
}

impl Layer for ProxyProtocol {
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
        None
    }

    fn handle_sent(&mut self, _: u64) {}

    /// It queues nothing itself.
    fn set_queue_max(&mut self, bytes: usize) {
        if let Some(next) = &mut self.next {
            next.set_queue_max(bytes);
        }
    }

    fn info(&self) -> Option<&dyn Any> {
        self.header.as_ref().map(|header| header as &dyn Any)
    }
}
