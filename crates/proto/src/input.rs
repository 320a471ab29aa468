//! Received bytes, borrowed by a connection for one turn.

use bytes::{Buf, Bytes, BytesMut};

/// Received bytes not yet consumed, borrowed from the driver for one turn.
///
/// Unread bytes are presented again, with more bytes after them.
/// The memory is shared: `take` cuts a piece off, mostly without copying it.
#[derive(Debug)]
pub struct Input<'a> {
    block: &'a mut BytesMut, // mutable so that a TLS layer can decrypt in place
    len: usize,              // of this input; bytes of others may follow
    eof: bool,
    shares_from: usize, // shorter pieces are copied
}

impl<'a> Input<'a> {
    /// The first `len` bytes of `block` have arrived; `eof`: nothing follows them. Consumed bytes
    /// are removed from `block`.
    ///
    /// # Panics
    /// If `block` is shorter than that.
    pub fn new(block: &'a mut BytesMut, len: usize, eof: bool) -> Self {
        assert!(len <= block.len(), "an input lies within its block");
        Self { block, len, eof, shares_from: 0 }
    }

    /// All of `block`.
    pub fn all(block: &'a mut BytesMut, eof: bool) -> Self {
        let len = block.len();
        Self { block, len, eof, shares_from: 0 }
    }

    /// Shorter pieces are copied when they are taken, so that keeping one does not keep the memory
    /// of the input.
    #[must_use]
    pub fn sharing_from(self, len: usize) -> Self {
        Self { shares_from: len, ..self }
    }

    /// The unread bytes, without consuming them.
    pub fn bytes(&self) -> &[u8] {
        &self.block[..self.len]
    }

    /// As [`Input::bytes`], to be changed in place. Changed bytes that are not consumed are
    /// presented again as changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.block[..self.len]
    }

    /// The number of unread bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if no unread bytes are left.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True once every byte is consumed and the peer has closed its side.
    pub fn at_eof(&self) -> bool {
        self.eof && self.is_empty()
    }

    /// True if the peer has closed its side, even if bytes are unread.
    pub fn has_eof(&self) -> bool {
        self.eof
    }

    /// Consumes the first `n` bytes and returns them: a share, not a copy, unless they are few
    /// (see [`Input::sharing_from`]).
    ///
    /// # Panics
    /// If there are fewer.
    #[inline]
    pub fn take(&mut self, n: usize) -> Bytes {
        assert!(n <= self.len, "only what has arrived can be taken");
        if n < self.shares_from {
            let copy = Bytes::copy_from_slice(&self.block[..n]);
            self.skip(n);
            return copy;
        }
        self.len -= n;
        self.block.split_to(n).freeze()
    }

    /// Drops the first `n` bytes.
    ///
    /// # Panics
    /// If there are fewer.
    #[inline]
    pub fn skip(&mut self, n: usize) {
        assert!(n <= self.len, "only what has arrived can be skipped");
        self.len -= n;
        self.block.advance(n);
    }

    /// Consumes everything.
    pub fn clear(&mut self) {
        self.skip(self.len);
    }
}
