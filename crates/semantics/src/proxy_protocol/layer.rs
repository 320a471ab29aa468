//! The receiving side: a layer between the socket and the next layer.

use std::any::Any;

use bytes::BytesMut;
use fulmar_proto::{Input, Layer, LayerError, Opened, Sealed, Transmit};

use super::{HeaderError, ProxyProtocolHeader, decode};

/// Reads a required header from a connection of a trusted source. Fails with [`HeaderError`].
///
/// [`Layer::info`] returns the [`ProxyProtocolHeader`] that was read. It is reported when the layer
/// is replaced by `next` (such as TLS) or by nothing. Bytes after the header are not touched.
///
/// ```
/// use fulmar_proto::Layer;
/// use fulmar_semantics::proxy_protocol::{ProxyProtocol, TrustedSources};
/// use std::net::SocketAddr;
///
/// // Creates the layers of a listener; connections from other sources are closed.
/// let trusted: TrustedSources = "192.0.2.0/24".parse().unwrap();
/// let make = move |peer: SocketAddr| -> Option<Box<dyn Layer>> {
///     trusted.allows(peer.ip()).then(|| Box::new(ProxyProtocol::new(None)) as _)
/// };
/// assert!(make("198.51.100.1:4711".parse().unwrap()).is_none());
/// ```
#[derive(Debug)]
pub struct ProxyProtocol {
    header: Option<ProxyProtocolHeader>,
    next: Option<Box<dyn Layer>>,
}

impl ProxyProtocol {
    /// Expects a header; then `next` takes over.
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

    /// This layer queues nothing.
    fn set_queue_max(&mut self, bytes: usize) {
        if let Some(next) = &mut self.next {
            next.set_queue_max(bytes);
        }
    }

    fn info(&self) -> Option<&dyn Any> {
        self.header.as_ref().map(|header| header as &dyn Any)
    }
}
