//! Per-thread buffers. Sessions of a thread borrow them one at a time, so an idle session holds no
//! buffer.

use std::cell::RefCell;

use bytes::{Bytes, BytesMut};
use fulmar_proto::{Block, Segment, Transmit};

/// Buffers shared by all sessions of a thread.
#[derive(Debug)]
pub(crate) struct Buffers {
    /// Plaintext that is about to be encrypted.
    plain: Vec<u8>,
    /// Ciphertext is written here and split off.
    pub(crate) sealed: Block,
}

/// Calls `use_it` with the thread's buffers.
pub(crate) fn with<R>(use_it: impl FnOnce(&mut Buffers) -> R) -> R {
    BUFFERS.with_borrow_mut(use_it)
}

/// The first bytes of a transmit in one buffer, at most `max` bytes, without those of files.
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

/// Returns the buffer of [`flatten`] to the thread.
pub(crate) fn give(plain: Vec<u8>) {
    with(|buffers| buffers.plain = plain);
}

/// Lets `write` write into the block and splits off the result. `guess` is the expected size in
/// bytes. If the buffer is too small, `write` returns the size it needs, or `None` if it cannot
/// write at all.
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

/// Size of a block: many small records, or all records that may be sealed ahead, share one
/// allocation.
const SEALED_BLOCK_SIZE: usize = 256 * 1024;
