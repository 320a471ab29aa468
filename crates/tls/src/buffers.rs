//! Memory of the thread, lent to one session at a time: an idle session has none.

use std::cell::RefCell;

use bytes::{Bytes, BytesMut};
use fulmar_proto::{Block, Segment, Transmit};

/// What a thread's sessions share.
#[derive(Debug)]
pub(crate) struct Buffers {
    /// Plaintext on its way into a record.
    plain: Vec<u8>,
    /// Ciphertext is written here and cut off.
    pub(crate) sealed: Block,
}

/// Lends them.
pub(crate) fn with<R>(use_it: impl FnOnce(&mut Buffers) -> R) -> R {
    BUFFERS.with_borrow_mut(use_it)
}

/// The first bytes of a transmit as one run, at most `max`, and none of a file.
pub(crate) fn flatten(transmit: Transmit<'_>, max: usize) -> Vec<u8> {
    let mut plain = with(|buffers| std::mem::take(&mut buffers.plain));
    plain.clear();
    plain.extend_from_slice(&transmit.inline[..transmit.inline.len().min(max)]);
    for segment in transmit.segments {
        let Segment::Bytes(bytes) = segment else { break };
        plain.extend_from_slice(&bytes[..bytes.len().min(max - plain.len())]);
    }
    plain
}

/// Gives back what [`flatten`] lent.
pub(crate) fn give(plain: Vec<u8>) {
    with(|buffers| buffers.plain = plain);
}

/// Cuts off what `write` produces, about `guess` bytes; with too little room it says how much it
/// needs, or that it cannot.
pub(crate) fn append(
    block: &mut Block,
    guess: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>,
) -> Option<Bytes> {
    let mut room = guess;
    loop {
        let mut long = BytesMut::new();
        let out = match room <= SEALED_BLOCK_SIZE {
            true => block.reserve(room),
            false => &mut long,
        };
        out.resize(room, 0);
        match write(out) {
            Ok(n) => {
                let written = out.split_to(n).freeze();
                out.clear();
                return Some(written);
            }
            Err(needed) => {
                out.clear();
                room = needed?;
            }
        }
    }
}

thread_local!(static BUFFERS: RefCell<Buffers> = RefCell::new(Buffers {
    plain: Vec::new(),
    sealed: Block::new(SEALED_BLOCK_SIZE),
}));

/// Many small records, or all that may be sealed ahead, share one allocation.
const SEALED_BLOCK_SIZE: usize = 256 * 1024;
