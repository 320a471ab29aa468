//! The PROXY header in front of a connection, as a layer.

use bytes::{Buf, Bytes, BytesMut};
use fulmar_proto::{Input, Layer, LayerError, Opened, Sealed, Transmit};

/// Sends a header; then the layer `next` takes over, if there is one.
#[derive(Debug)]
pub(super) struct ProxyHeader {
    header: Bytes,
    next: Option<Box<dyn Layer>>,
}

impl ProxyHeader {
    pub(super) fn new(header: Bytes, next: Option<Box<dyn Layer>>) -> Self {
        Self { header, next }
    }
}

impl Layer for ProxyHeader {
    fn open(&mut self, _: &mut Input<'_>, _: &mut BytesMut) -> Result<Opened, LayerError> {
        match self.header.is_empty() {
            true => Ok(Opened::Replaced(self.next.take())),
            false => Ok(Opened::Blocked),
        }
    }

    fn seal(&mut self, _: Transmit<'_>) -> Result<Sealed, LayerError> {
        Ok(Sealed::Bytes(0))
    }

    fn seal_loaded(&mut self, _: &[u8]) -> Result<(), LayerError> {
        Ok(())
    }

    fn finish(&mut self) {}

    fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        let inline = &self.header[..];
        (!inline.is_empty()).then_some(Transmit::new(inline, &[]))
    }

    fn handle_sent(&mut self, bytes: u64) {
        self.header.advance(usize::try_from(bytes).unwrap_or(self.header.len()));
    }

    fn set_queue_max(&mut self, bytes: usize) {
        if let Some(next) = &mut self.next {
            next.set_queue_max(bytes);
        }
    }
}
