//! A slab with a generation in each key: a stale key finds nothing.
//!
//! Several slabs may share one key space: a slab uses every `stride`-th index, from `offset` on.
//! The stride is a power of two, so that a lookup needs no division.

use crate::SocketId;

/// Values by [`SocketId`].
#[derive(Debug)]
pub struct Slots<T> {
    offset: u32,
    /// The stride is 2 to the power of this.
    shift: u32,
    entries: Vec<Slot<T>>,
    /// Positions to be used again; some may be freed, or listed twice.
    free: Vec<u32>,
    len: usize,
    /// The generation of a new slot: no key of a freed slot has it.
    born: u32,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slots<T> {
    /// An empty slab that uses every `stride`-th index, from `offset` on. The stride is rounded up
    /// to a power of two.
    pub fn new(offset: u32, stride: u32) -> Self {
        assert!(offset < stride, "the offset is less than the stride");
        let shift = stride.next_power_of_two().trailing_zeros();
        Self { offset, shift, entries: Vec::new(), free: Vec::new(), len: 0, born: 0 }
    }

    /// True if `key` is of this slab, alive or not.
    pub fn owns(&self, key: SocketId) -> bool {
        key.index - (self.position(key) << self.shift) == self.offset
    }

    /// Adds a value; its key is new.
    pub fn insert(&mut self, value: T) -> SocketId {
        let at = self.vacant();
        let entry = &mut self.entries[at as usize];
        entry.value = Some(value);
        self.len += 1;
        let generation = entry.generation;
        SocketId { index: (at << self.shift) + self.offset, generation }
    }

    fn vacant(&mut self) -> u32 {
        while let Some(at) = self.free.pop() {
            if self.entries.get(at as usize).is_some_and(|entry| entry.value.is_none()) {
                return at;
            }
        }
        if self.entries.capacity() == 0 {
            self.entries.reserve_exact(1); // clients of one transfer are many
        }
        self.entries.push(Slot { generation: self.born, value: None });
        self.places() - 1
    }

    /// The value of `key`, if it is still there.
    pub fn get_mut(&mut self, key: SocketId) -> Option<&mut T> {
        let at = self.position(key);
        let entry = self.entries.get_mut(at as usize)?;
        if entry.generation != key.generation {
            return None;
        }
        entry.value.as_mut()
    }

    /// As [`Slots::get_mut`], read-only.
    pub fn get(&self, key: SocketId) -> Option<&T> {
        let entry = self.entries.get(self.position(key) as usize)?;
        if entry.generation != key.generation {
            return None;
        }
        entry.value.as_ref()
    }

    /// Removes the value of `key`; the key is stale from now on.
    #[inline] // so that a long value is moved once
    pub fn remove(&mut self, key: SocketId) -> Option<T> {
        let at = self.position(key);
        let entry = self.entries.get_mut(at as usize)?;
        if entry.generation != key.generation {
            return None;
        }
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1) & GENERATION_MAX;
        self.len -= 1;
        self.free.push(at);
        if at as usize + 1 == self.entries.len() {
            self.give_up_the_end();
        }
        Some(value)
    }

    /// Frees vacant slots at the end, so that memory follows use. Each slot is examined once for
    /// each time that it was created.
    #[inline(never)]
    fn give_up_the_end(&mut self) {
        while self.entries.len() > KEPT_LEN
            && let Some(entry) = self.entries.pop_if(|entry| entry.value.is_none())
        {
            self.born = self.born.max(entry.generation);
        }
        if self.entries.capacity() > 4 * self.entries.len().max(KEPT_LEN) {
            let end = self.entries.len();
            self.entries.shrink_to(2 * end);
            self.free.retain(|at| (*at as usize) < end);
            self.free.shrink_to(2 * end);
        }
    }

    /// The key that position `at` of this slab has now.
    pub fn key(&self, at: u32) -> SocketId {
        let generation = self.entries.get(at as usize).map_or(self.born, |entry| entry.generation);
        SocketId { index: (at << self.shift) + self.offset, generation }
    }

    /// The position of `key` in this slab: small numbers, fit to index a table.
    pub fn position(&self, key: SocketId) -> u32 {
        key.index >> self.shift
    }

    /// The number of slots; all positions with a value are below it.
    pub fn places(&self) -> u32 {
        u32::try_from(self.entries.len()).expect("fewer sockets than 2^32")
    }

    /// The keys of all values. Walks the slab: for shutdown and reports, not for each turn.
    pub fn keys(&self) -> impl Iterator<Item = SocketId> {
        self.keys_from(0)
    }

    /// The same, from an index of a [`SocketId`] of any slab on, in the order of indices. So a walk
    /// can be done in parts.
    pub(crate) fn keys_from(&self, index: u32) -> impl Iterator<Item = SocketId> {
        let first = index.saturating_sub(self.offset).div_ceil(1 << self.shift);
        let alive = self.entries.iter().zip(0_u32..).skip(first as usize);
        alive.filter(|(entry, _)| entry.value.is_some()).map(|(_, at)| self.key(at))
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Slots that are never freed.
const KEPT_LEN: usize = 128;
/// The highest bit of a key's word is 0: drivers mark their own descriptors with it.
const GENERATION_MAX: u32 = u32::MAX >> 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory follows use, and no key of a removed value finds a later one.
    #[test]
    fn memory_of_removed_values_is_freed() {
        let mut slots = Slots::new(0, 1);
        let first = slots.insert(0);
        let mut gone: Vec<SocketId> = Vec::new();
        for _ in 0..3 {
            let crowd: Vec<_> = (0..10_000).map(|n| slots.insert(n)).collect();
            for key in &crowd {
                assert!(slots.remove(*key).is_some());
            }
            gone.extend(crowd);
            assert!(slots.entries.capacity() <= 4 * KEPT_LEN, "{}", slots.entries.capacity());
            assert_eq!(slots.len(), 1);
        }
        let late: Vec<_> = (0..10_000).map(|n| slots.insert(n)).collect();
        assert!(gone.iter().all(|key| slots.get(*key).is_none()));
        assert!(late.iter().all(|key| slots.get(*key).is_some()));
        assert_eq!(slots.get(first), Some(&0));
        assert!(slots.get(slots.key(1_000_000)).is_none());
    }

    #[test]
    fn a_walk_continues_from_any_index() {
        let mut slots = Slots::new(1, 4);
        let keys: Vec<_> = (0..100).map(|n| slots.insert(n)).collect();
        slots.remove(keys[50]);
        for from in 0..=402 {
            let expected = keys.iter().filter(|key| key.index >= from && **key != keys[50]);
            assert!(slots.keys_from(from).eq(expected.copied()), "{from}");
        }
    }

    #[test]
    fn a_stale_key_finds_nothing_and_key_spaces_are_disjoint() {
        let (mut even, mut odd) = (Slots::new(0, 2), Slots::new(1, 2));
        let (a, b) = (even.insert('a'), odd.insert('b'));
        assert!(even.owns(a) && !even.owns(b) && odd.owns(b));
        assert_eq!(even.remove(a), Some('a'));
        let again = even.insert('c');
        assert_eq!((again.index, again == a), (a.index, false));
        assert!(even.get_mut(a).is_none() && even.get_mut(again).is_some());
        assert_eq!((even.remove(a), even.len()), (None, 1));
        assert_eq!(SocketId::from_bits(again.to_bits()), again);
    }
}
