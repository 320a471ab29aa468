//! A slab whose keys carry a generation: a stale key finds nothing.
//!
//! Several slabs may share one key space: a slab uses every `stride`-th index, from `offset` on.

use crate::SocketId;

/// Values by [`SocketId`].
#[derive(Debug)]
pub struct Slots<T> {
    offset: u32,
    stride: u32,
    entries: Vec<Slot<T>>,
    /// Places to be used again; some may be gone, or stand here twice.
    free: Vec<u32>,
    len: usize,
    /// The generation that a new entry begins with: no key of one that is gone has it.
    born: u32,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slots<T> {
    /// An empty slab that uses every `stride`-th index, from `offset` on.
    pub fn new(offset: u32, stride: u32) -> Self {
        assert!(offset < stride, "the offset is less than the stride");
        Self { offset, stride, entries: Vec::new(), free: Vec::new(), len: 0, born: 0 }
    }

    /// True if `key` is of this slab, alive or not.
    pub fn owns(&self, key: SocketId) -> bool {
        key.index % self.stride == self.offset
    }

    /// Takes a value in; its key is new.
    pub fn insert(&mut self, value: T) -> SocketId {
        let at = self.vacant();
        let entry = &mut self.entries[at as usize];
        entry.value = Some(value);
        self.len += 1;
        SocketId { index: at * self.stride + self.offset, generation: entry.generation }
    }

    fn vacant(&mut self) -> u32 {
        while let Some(at) = self.free.pop() {
            if self.entries.get(at as usize).is_some_and(|entry| entry.value.is_none()) {
                return at;
            }
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

    /// As [`Slots::get_mut`], to look only.
    pub fn get(&self, key: SocketId) -> Option<&T> {
        let entry = self.entries.get(self.position(key) as usize)?;
        if entry.generation != key.generation {
            return None;
        }
        entry.value.as_ref()
    }

    /// Gives the value of `key` out; the key is stale from now on.
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

    /// Vacant places at the end are given up, so that a crowd that has left keeps no memory. Each
    /// is looked at once for every time that it was made.
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
        SocketId { index: at * self.stride + self.offset, generation }
    }

    /// The position of `key` in this slab: small numbers, fit to index a table.
    pub fn position(&self, key: SocketId) -> u32 {
        key.index / self.stride
    }

    /// Positions that have been given out so far: all that have a value are below.
    pub fn places(&self) -> u32 {
        u32::try_from(self.entries.len()).expect("fewer sockets than 2^32")
    }

    /// The keys of all values. Walks the slab: for ends and reports, not for a turn.
    pub fn keys(&self) -> impl Iterator<Item = SocketId> {
        self.keys_from(0)
    }

    /// The same, from an index of a [`SocketId`] on, whosever it is: in the order of indices. Who
    /// has walked some of it can go on where they stopped.
    pub fn keys_from(&self, index: u32) -> impl Iterator<Item = SocketId> {
        let first = index.saturating_sub(self.offset).div_ceil(self.stride);
        let alive = self.entries.iter().zip(0_u32..).skip(first as usize);
        alive.filter(|(entry, _)| entry.value.is_some()).map(|(_, at)| self.key(at))
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// So many places are not worth giving back.
const KEPT_LEN: usize = 128;
/// The highest bit of a key's word stays free: drivers mark their own descriptors with it.
const GENERATION_MAX: u32 = u32::MAX >> 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory follows what is in use, and no key of a crowd that left finds anybody later.
    #[test]
    fn a_crowd_that_leaves_takes_its_memory_along() {
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
    fn a_walk_goes_on_where_it_stopped() {
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
