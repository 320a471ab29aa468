//! The memory of a reactor for input, reused even while shares of it are kept.
//!
//! A share of one byte keeps the whole block that it was cut from. So a peer that sends one byte at
//! a time to an application that keeps them would pin a block for each. The number of pinned blocks
//! is limited here: at the limit, bytes taken from an input are copies.

use std::ops::Range;
use std::sync::{PoisonError, RwLock};

use bytes::{Buf, BytesMut};

use crate::input::Input;

/// Memory for one input after the other.
#[derive(Debug)]
pub struct Block {
    place: Option<Place>, // of the memory, once there is any; dropped before it, see `Place`
    memory: BytesMut,
    size: usize,
    shared: Vec<SharedBlock>,
}

/// Memory with a share that is still in use; it is free again when the share is dropped.
#[derive(Debug)]
struct SharedBlock {
    place: Place, // dropped before the memory, see `Place`
    memory: BytesMut,
}

/// The address of a block. Dropped before its memory: afterwards another block may have it.
#[derive(Debug)]
struct Place {
    start: usize,
}

impl Place {
    fn of(memory: &BytesMut) -> Self {
        let start = memory.as_ptr().addr();
        let mut places = PLACES.write().unwrap_or_else(PoisonError::into_inner);
        places.push(start..start + memory.capacity());
        Self { start }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = PLACES.write().unwrap_or_else(PoisonError::into_inner);
        places.retain(|place| place.start != self.start);
    }
}

/// True if these bytes share a block.
pub(crate) fn is_share(bytes: &[u8]) -> bool {
    let at = bytes.as_ptr().addr();
    let places = PLACES.read().unwrap_or_else(PoisonError::into_inner);
    places.iter().any(|place| place.contains(&at))
}

/// The blocks of the process: reactors, and shares of their blocks, may move between threads.
/// Written when a block is allocated or freed. Read when a slow peer leaves bytes queued, and when
/// little is queued behind a segment; never for a response that is sent at once.
static PLACES: RwLock<Vec<Range<usize>>> = RwLock::new(Vec::new());

impl Block {
    /// Blocks of `size` bytes; nothing is allocated before it is needed.
    pub fn new(size: usize) -> Self {
        Self { place: None, memory: BytesMut::new(), size, shared: Vec::new() }
    }

    /// Empties it, and has all of it ready for what arrives next.
    #[inline]
    pub fn clear(&mut self) -> &mut BytesMut {
        if self.is_scarce() {
            self.give_back();
        }
        self.memory.clear();
        if !self.memory.try_reclaim(self.size) {
            self.replace();
        }
        &mut self.memory
    }

    /// Frees the blocks without shares.
    fn give_back(&mut self) {
        let size = self.size;
        self.shared.retain_mut(|shared| !shared.memory.try_reclaim(size));
    }

    /// Replaces a block that has shares, or allocates the first one.
    #[cold]
    fn replace(&mut self) {
        let size = self.size;
        let free = self.shared.iter_mut().position(|shared| shared.memory.try_reclaim(size));
        let next = match free.map(|free| self.shared.swap_remove(free)) {
            Some(free) => free,
            None => {
                let memory = BytesMut::with_capacity(size);
                SharedBlock { place: Place::of(&memory), memory }
            }
        };
        let memory = std::mem::replace(&mut self.memory, next.memory);
        if let Some(place) = self.place.replace(next.place) {
            self.shared.push(SharedBlock { place, memory });
        }
    }

    /// Has room for `n` bytes behind what it holds, which may be moved for it.
    ///
    /// # Panics
    /// If it is not as large as that.
    pub fn reserve(&mut self, n: usize) -> &mut BytesMut {
        if self.memory.capacity() - self.memory.len() < n && !self.memory.try_reclaim(n) {
            let rest = self.split_copy(self.memory.len());
            assert!(rest.len() + n <= self.size, "a block is larger than what is read at a time");
            if self.is_scarce() {
                self.give_back();
            }
            self.replace();
            self.memory.clear();
            self.memory.extend_from_slice(&rest);
        }
        &mut self.memory
    }

    /// What it holds.
    pub fn memory(&mut self) -> &mut BytesMut {
        &mut self.memory
    }

    /// The first `n` bytes of it as an input; what is consumed is gone from it afterwards.
    pub fn input(&mut self, n: usize, eof: bool) -> Input<'_> {
        let shares_from = if self.is_scarce() { usize::MAX } else { 0 };
        Input::new(&mut self.memory, n, eof).sharing_from(shares_from)
    }

    /// The first `n` bytes of it, as a copy.
    pub fn split_copy(&mut self, n: usize) -> BytesMut {
        let copy = BytesMut::from(&self.memory[..n]);
        self.memory.advance(n);
        copy
    }

    /// True if shares of the memory in use are kept. Its content is dropped.
    pub fn is_kept(&mut self) -> bool {
        self.memory.clear();
        self.place.is_some() && !self.memory.try_reclaim(self.size)
    }

    /// True if no further input may keep a block.
    fn is_scarce(&self) -> bool {
        self.shared.len() >= SHARED_LEN_MAX
    }
}

/// Blocks with kept shares, besides the one in use.
const SHARED_LEN_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::outbox::Outbox;
    use crate::transmit::Segment;

    const SIZE: usize = 4096;

    /// Fills the block as a receive does, and takes one byte of it.
    fn receive(block: &mut Block) -> Bytes {
        block.clear().extend_from_slice(&[b'x'; SIZE]);
        let mut input = block.input(SIZE, false);
        let share = input.take(1);
        input.clear();
        share
    }

    #[test]
    fn memory_without_shares_is_reused() {
        let mut block = Block::new(SIZE);
        let place = block.clear().as_ptr();
        for _ in 0..100 {
            drop(receive(&mut block));
            assert_eq!(block.clear().as_ptr(), place);
        }
        assert!(!block.is_kept());
        let kept = receive(&mut block);
        assert!(block.is_kept());
        drop(receive(&mut block));
        drop(kept);
        assert!(!block.is_kept());
        for _ in 0..100 {
            drop(receive(&mut block));
        }
        assert_eq!(block.shared.len(), 1, "two blocks take turns for ever");
    }

    /// Bytes are taken at once, in pieces, or dropped.
    #[test]
    fn inputs_are_at_the_front_without_shares() {
        let mut block = Block::new(SIZE);
        let place = block.clear().as_ptr();
        for len in 1..=SIZE {
            block.clear().extend_from_slice(&[b'x'; SIZE][..len]);
            assert_eq!(block.memory().as_ptr(), place, "{len} bytes");
            let mut input = block.input(len, false);
            drop(input.take(len / 2));
            input.skip(len / 4);
            drop(input.take(input.len()));
        }
        assert!(block.shared.is_empty());
    }

    /// A reactor may move to another thread, with its block. There too, bytes that are queued for a
    /// slow peer are copied and pin no block.
    #[test]
    fn shares_of_a_block_that_moved_to_another_thread_are_known_there() {
        let mut block = Block::new(2 * SIZE);
        drop(receive(&mut block));
        let moved = std::thread::spawn(move || {
            block.clear().extend_from_slice(&[b'x'; 2 * SIZE]);
            let share = block.input(2 * SIZE, false).take(2 * SIZE);
            assert!(is_share(&share));
            let mut outbox = Outbox::default();
            outbox.push(Segment::Bytes(share));
            assert!(block.is_kept(), "the queued bytes are a share");
            outbox.sent(1);
            assert!(!block.is_kept(), "the unsent bytes are a copy");
        });
        moved.join().expect("the assertions hold");
    }

    #[test]
    fn a_block_that_another_thread_drops_is_forgotten_here() {
        let mut block = Block::new(SIZE);
        let share = receive(&mut block); // keeps the memory: no other block can lie there
        assert!(is_share(&share));
        std::thread::spawn(move || drop(block)).join().expect("dropping does not panic");
        assert!(!is_share(&share));
    }

    #[test]
    fn kept_shares_are_never_overwritten() {
        let mut block = Block::new(SIZE);
        let mut kept: Vec<(u8, Bytes)> = Vec::new();
        for round in 0..=u8::MAX {
            block.clear().extend_from_slice(&[round; SIZE]);
            let mut input = block.input(SIZE, false);
            input.skip(usize::from(round));
            let share = input.take(SIZE / 2);
            input.clear();
            match round % 3 {
                0 => kept.push((round, share)),
                1 => kept.truncate(usize::from(round % 7)), // some are given back, latest first
                _ => drop(share),
            }
            assert!(kept.iter().all(|(byte, share)| share.iter().all(|it| it == byte)));
        }
    }

    /// The number of kept blocks is limited; beyond it, only copies are kept.
    #[test]
    fn keeping_a_byte_of_each_input_pins_few_blocks() {
        let mut block = Block::new(SIZE);
        let mut kept: Vec<Bytes> = (0..1_000).map(|_| receive(&mut block)).collect();
        assert_eq!(block.shared.len(), SHARED_LEN_MAX);
        let place = block.clear().as_ptr();
        kept.extend((0..1_000).map(|_| receive(&mut block)));
        assert_eq!(block.clear().as_ptr(), place, "none of these is a share");
        assert!(kept.iter().all(|share| share[..] == b"x"[..]));
        drop(kept);
        drop(receive(&mut block));
        assert!(block.shared.is_empty(), "what is free again is given back");
        let share = receive(&mut block);
        let place = share.as_ptr();
        assert_eq!(block.memory.as_ptr().wrapping_sub(place as usize) as usize, SIZE, "a share");
    }
}
