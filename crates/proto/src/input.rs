//! Received bytes, lent to a connection for one turn.

use bytes::{Bytes, BytesMut};

/// Received bytes not yet consumed, lent by the driver for one turn.
///
/// What a connection leaves unread is presented again, with more bytes after it.
/// The memory is shared: `take` cuts a piece off without copying it.
#[derive(Debug, Default)]
pub struct Input {
    block: BytesMut, // mutable so that a TLS layer can decrypt in place
    eof: bool,
}

impl Input {
    /// `block` is what has arrived; after it comes nothing more if `eof`.
    pub fn new(block: BytesMut, eof: bool) -> Self {
        Self { block, eof }
    }

    /// The unread bytes, without consuming them.
    pub fn bytes(&self) -> &[u8] {
        &self.block
    }

    /// True if nothing is left to read.
    pub fn is_empty(&self) -> bool {
        self.block.is_empty()
    }

    /// True once every byte is consumed and the peer has closed its side.
    pub fn at_eof(&self) -> bool {
        self.eof && self.block.is_empty()
    }

    /// True if the peer has closed its side, whatever is still to be read.
    pub fn has_eof(&self) -> bool {
        self.eof
    }

    /// Consumes the first `n` bytes and returns them: a share, not a copy.
    pub fn take(&mut self, n: usize) -> Bytes {
        self.block.split_to(n).freeze()
    }

    /// Consumes the first `n` bytes unseen.
    pub fn skip(&mut self, n: usize) {
        bytes::Buf::advance(&mut self.block, n);
    }

    /// Consumes everything.
    pub fn clear(&mut self) {
        self.block.clear();
    }

    /// What was left unread.
    pub fn into_rest(self) -> BytesMut {
        self.block
    }
}
