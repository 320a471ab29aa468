//! A layer on another one: TLS to a server through a tunnel, whose connection to the proxy is TLS
//! itself.
//!
//! Both serve the connection to its end; a layer that is replaced ([`Opened::Replaced`]) can only
//! be the upper one, and only by another layer.

use std::any::Any;

use bytes::BytesMut;

use crate::input::Input;
use crate::layer::{Layer, LayerError, Opened, Sealed};
use crate::transmit::Transmit;

/// Two layers: `above` uses the bytes that `below` opens, and `below` seals those of `above`.
#[derive(Debug)]
pub struct LayerStack {
    above: Box<dyn Layer>,
    below: Box<dyn Layer>,
    /// Opened by the lower layer, and not used by the upper one; empty when idle.
    middle: BytesMut,
    /// The lower layer opens nothing more.
    ended: bool,
    /// The upper layer has queued its end: the lower one's follows it.
    finishing: bool,
    /// Why the lower layer can seal nothing more, until it is reported.
    failed: Option<LayerError>,
}

impl LayerStack {
    /// `below` is established, and `middle` are bytes that it has opened before.
    pub fn new(above: Box<dyn Layer>, below: Box<dyn Layer>, middle: BytesMut) -> Self {
        let mut stack = Self { above, below, middle, ended: false, finishing: false, failed: None };
        stack.pump();
        stack
    }

    /// Seals what the upper layer has queued, as far as the lower one takes it.
    fn pump(&mut self) {
        while let Some(transmit) = self.above.poll_transmit() {
            match self.below.seal(transmit) {
                Ok(Sealed::Bytes(0)) => return,
                Ok(Sealed::Bytes(taken)) => self.above.handle_sent(taken),
                Ok(Sealed::Load(_)) => unreachable!("a layer queues no files"),
                Err(error) => {
                    self.failed.get_or_insert(error);
                    return;
                }
            }
        }
        if std::mem::take(&mut self.finishing) {
            self.below.finish();
        }
    }

    fn take_failure(&mut self) -> Result<(), LayerError> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Opens a record of the lower layer. False if it needs more bytes.
    fn open_below(&mut self, input: &mut Input<'_>) -> Result<bool, LayerError> {
        match self.below.open(input, &mut self.middle)? {
            Opened::Some | Opened::Established => Ok(true),
            Opened::Blocked => Ok(false),
            // Whether the end was forged is up to the upper layer.
            Opened::Ended | Opened::Truncated(_) => Ok(!std::mem::replace(&mut self.ended, true)),
            Opened::Replaced(_) => unreachable!("the lower layer serves to the end"),
        }
    }
}

impl Layer for LayerStack {
    fn open(&mut self, input: &mut Input<'_>, above: &mut BytesMut) -> Result<Opened, LayerError> {
        self.take_failure()?;
        loop {
            let opened = self.above.open(&mut Input::all(&mut self.middle, self.ended), above);
            self.pump(); // also an alert
            match opened? {
                Opened::Blocked => {}
                Opened::Replaced(Some(next)) => {
                    self.above = next;
                    self.pump();
                    return Ok(Opened::Some);
                }
                Opened::Replaced(None) => unreachable!("a layer follows the upper one"),
                opened => return Ok(opened),
            }
            let has_more = self.open_below(input)?;
            self.pump(); // records of a handshake may have held it back
            if !has_more {
                if self.middle.is_empty() {
                    self.middle = BytesMut::new();
                }
                return Ok(Opened::Blocked);
            }
        }
    }

    fn seal(&mut self, transmit: Transmit<'_>) -> Result<Sealed, LayerError> {
        self.take_failure()?;
        let sealed = self.above.seal(transmit);
        self.pump();
        sealed
    }

    fn seal_loaded(&mut self, bytes: &[u8]) -> Result<(), LayerError> {
        let sealed = self.above.seal_loaded(bytes);
        self.pump();
        sealed
    }

    fn finish(&mut self) {
        self.above.finish();
        self.finishing = true;
        self.pump();
    }

    fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        self.below.poll_transmit()
    }

    fn handle_sent(&mut self, bytes: u64) {
        self.below.handle_sent(bytes);
        self.pump();
    }

    fn set_queue_max(&mut self, bytes: usize) {
        // Half each.
        self.above.set_queue_max(bytes / 2);
        self.below.set_queue_max(bytes / 2);
    }

    fn alpn(&self) -> Option<&[u8]> {
        self.above.alpn()
    }

    fn info(&self) -> Option<&dyn Any> {
        self.above.info()
    }
}
