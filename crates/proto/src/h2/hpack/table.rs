//! The dynamic table (RFC 7541 §2.3.2, §4).
//!
//! Its memory is that of its content: one buffer of texts, and twelve bytes for each entry. It
//! grows with the entries and is freed with the last one.

/// Entries of one direction of a connection.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct DynamicTable {
    /// The texts of the entries, the newest last, behind those of evicted entries.
    texts: Vec<u8>,
    /// The newest last.
    entries: Vec<TableEntry>,
    /// The position of the first byte of `texts`, counted from the first insertion; it wraps.
    origin: u32,
    /// The size of the entries (§4.1).
    size: usize,
    size_max: usize,
}

/// A name and its value, one after the other in the texts.
#[derive(Clone, Copy, Debug)]
struct TableEntry {
    /// By which an encoder finds it.
    tag: u32,
    /// Counted as [`DynamicTable::origin`] is.
    position: u32,
    name_len: u16,
    value_len: u16,
}

impl DynamicTable {
    /// An empty table.
    ///
    /// # Panics
    /// The size is more than [`SIZE_LIMIT`].
    pub(super) fn new(size_max: usize) -> Self {
        assert!(size_max <= SIZE_LIMIT, "lengths of entries have 16 bits");
        Self { texts: Vec::new(), entries: Vec::new(), origin: 0, size: 0, size_max }
    }

    pub(super) fn size_max(&self) -> usize {
        self.size_max
    }

    /// Bytes of memory beside the struct.
    pub(super) fn memory(&self) -> usize {
        self.texts.capacity() + self.entries.capacity() * size_of::<TableEntry>()
    }

    /// Name and value of an entry, one after the other, and the length of the name; 0 is the newest
    /// entry.
    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<(&[u8], usize)> {
        let entry = self.entries.get(self.entries.len().checked_sub(at + 1)?)?;
        Some((self.text(entry), entry.name_len.into()))
    }

    /// The newest entry with the tag, in the bits of `mask`, that `is_wanted`.
    #[inline]
    pub(super) fn find(
        &self,
        tag: u32,
        mask: u32,
        is_wanted: impl Fn((&[u8], &[u8])) -> bool,
    ) -> Option<usize> {
        let has_tag = |entry: &TableEntry| (entry.tag ^ tag) & mask == 0;
        let mut place = self.entries.iter().rposition(has_tag)?;
        while !is_wanted(self.field(&self.entries[place])) {
            place = self.entries[..place].iter().rposition(has_tag)?;
        }
        Some(self.entries.len() - 1 - place)
    }

    /// Evicts entries until the new one has room, and inserts it. One that is larger than the table
    /// empties it and is not inserted (§4.4): false.
    pub(super) fn insert(&mut self, tag: u32, name: &[u8], value: &[u8]) -> bool {
        let text_len = name.len() + value.len();
        let Some(room) = self.size_max.checked_sub(text_len + ENTRY_OVERHEAD) else {
            self.clear();
            return false;
        };
        self.evict(room);
        self.reserve(text_len);
        let position = self.origin.wrapping_add(short(self.texts.len()));
        self.texts.extend_from_slice(name);
        self.texts.extend_from_slice(value);
        let (name_len, value_len) = (short(name.len()), short(value.len()));
        self.entries.push(TableEntry { tag, position, name_len, value_len });
        self.size += text_len + ENTRY_OVERHEAD;
        true
    }

    /// The name of the newest entry, if there is one.
    pub(super) fn newest_name_mut(&mut self) -> &mut [u8] {
        let Some(entry) = self.entries.last() else { return &mut [] };
        let start = self.offset(entry);
        &mut self.texts[start..][..entry.name_len.into()]
    }

    /// Sets the maximum size (§4.3).
    ///
    /// # Panics
    /// The size is more than [`SIZE_LIMIT`].
    pub(super) fn resize(&mut self, size_max: usize) {
        assert!(size_max <= SIZE_LIMIT, "lengths of entries have 16 bits");
        self.size_max = size_max;
        self.evict(size_max);
        if self.entries.is_empty() {
            self.clear();
        } else if self.texts.capacity() > size_max {
            self.remove_evicted();
            self.texts.shrink_to_fit();
        }
    }

    /// Evicts all entries and frees their memory.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.size_max);
    }

    /// Evicts the oldest entries until the size is at most this.
    fn evict(&mut self, size: usize) {
        if self.size <= size {
            return;
        }
        let mut count = 0;
        while self.size > size {
            self.size -= self.entries[count].text_len() + ENTRY_OVERHEAD;
            count += 1;
        }
        self.entries.drain(..count);
    }

    /// Makes room in the texts: at the cost of those of evicted entries if that is enough.
    fn reserve(&mut self, len: usize) {
        if self.texts.capacity() - self.texts.len() >= len {
            return;
        }
        self.remove_evicted();
        let needed = self.texts.len() + len;
        if self.texts.capacity() < needed {
            // A quarter more: bounds what is copied for each insertion into a full table.
            let capacity = (needed + needed / 4).min(self.size_max);
            self.texts.reserve_exact(capacity - self.texts.len());
        }
    }

    /// Removes the texts of evicted entries.
    fn remove_evicted(&mut self) {
        let len = self.entries.first().map_or(self.texts.len(), |oldest| self.offset(oldest));
        self.texts.drain(..len);
        self.origin = self.origin.wrapping_add(short(len));
    }

    #[inline]
    fn text(&self, entry: &TableEntry) -> &[u8] {
        let start = self.offset(entry);
        &self.texts[start..start + entry.text_len()]
    }

    #[inline]
    fn field(&self, entry: &TableEntry) -> (&[u8], &[u8]) {
        self.text(entry).split_at(entry.name_len.into())
    }

    fn offset(&self, entry: &TableEntry) -> usize {
        entry.position.wrapping_sub(self.origin) as usize
    }
}

impl TableEntry {
    fn text_len(self) -> usize {
        usize::from(self.name_len) + usize::from(self.value_len)
    }
}

/// A length or an offset in the texts, which fits because of [`SIZE_LIMIT`].
fn short<T: TryFrom<usize>>(len: usize) -> T {
    T::try_from(len).ok().expect("bounded by the size of the table")
}

/// What an entry counts beside its text (§4.1).
pub(super) const ENTRY_OVERHEAD: usize = 32;

/// The largest table.
pub(super) const SIZE_LIMIT: usize = u16::MAX as usize;

#[cfg(test)]
impl DynamicTable {
    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The size of the entries (§4.1).
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// True if both have the same entries and limits.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.size_max == other.size_max && (0..=self.len()).all(|at| self.get(at) == other.get(at))
    }

    /// Checks what binds the fields to each other.
    pub(super) fn assert_sound(&self) {
        let sizes = self.entries.iter().map(|entry| entry.text_len() + ENTRY_OVERHEAD);
        assert_eq!(self.size, sizes.sum());
        assert!(self.size <= self.size_max);
        let mut end = self.texts.len();
        for entry in self.entries.iter().rev() {
            assert_eq!(self.offset(entry) + entry.text_len(), end);
            end = self.offset(entry);
        }
        assert!(self.texts.capacity() <= self.size_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entries_are_evicted() {
        let mut table = DynamicTable::new(3 * (ENTRY_OVERHEAD + 10));
        for n in 0..1000u32 {
            let text = format!("{n:010}");
            let (name, value) = text.as_bytes().split_at(n as usize % 11);
            assert!(table.insert(0, name, value));
            table.assert_sound();
            assert_eq!(table.len(), 3.min(n as usize + 1));
            for (at, n) in (0..=n).rev().take(3).enumerate() {
                let text = format!("{n:010}");
                assert_eq!(table.get(at), Some((text.as_bytes(), n as usize % 11)));
            }
            assert_eq!(table.get(3), None);
        }
    }

    #[test]
    fn an_entry_larger_than_the_table_empties_it() {
        let mut table = DynamicTable::new(100);
        assert!(table.insert(0, b"name", &[b'v'; 64]));
        assert!(table.insert(0, b"name", b"value"));
        assert!(!table.insert(0, b"name", &[b'v'; 65]));
        assert_eq!((table.len(), table.size, table.texts.capacity()), (0, 0, 0));
        assert!(table.insert(0, b"", b""));
        assert_eq!(table.get(0), Some((&b""[..], 0)));
    }

    #[test]
    fn an_emptied_table_has_no_memory() {
        let mut table = DynamicTable::new(4096);
        assert!(table.insert(0, b"name", b"value"));
        table.resize(40);
        assert_eq!((table.len(), table.size), (0, 0));
        assert_eq!((table.texts.capacity(), table.entries.capacity()), (0, 0));
        table.resize(4096);
        assert!(table.insert(0, b"name", b"value"));
        assert!(table.texts.capacity() < 16, "{}", table.texts.capacity());
    }

    #[test]
    fn positions_wrap() {
        let mut table = DynamicTable::new(200);
        table.origin = u32::MAX - 500;
        for n in 0..200u8 {
            assert!(table.insert(0, &[n; 7], &[n; 13]));
            table.assert_sound();
            assert_eq!(table.get(0), Some((&[n; 20][..], 7)));
        }
        assert!(table.origin < 5000);
    }
}
