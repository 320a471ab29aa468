//! Entries of a list, by version.

use super::EntrySelector;

/// A version of a list. One is current; later ones may be in preparation.
pub type ListVersion = u32;

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternEntry {
    /// Its number in the history of the list, from 1.
    pub number: u64,
    /// The line of its file.
    pub(crate) line: Option<usize>,
    /// The key that values are compared with.
    pub key: Box<[u8]>,
    /// The value of a map; empty in other lists.
    pub value: Box<[u8]>,
    version: ListVersion,
}

/// All versions of a list.
#[derive(Debug, Default)]
pub(super) struct Entries {
    all: Vec<PatternEntry>,
    last: u64, // the last assigned number
    current: ListVersion,
    latest: ListVersion,
}

impl Entries {
    /// Adds an entry from a line of a file.
    pub(super) fn push(&mut self, line: Option<usize>, key: &[u8], value: &[u8]) {
        self.last += 1;
        let (number, version) = (self.last, self.current);
        self.all.push(PatternEntry { number, line, key: key.into(), value: value.into(), version });
    }

    pub(super) fn push_to(&mut self, version: ListVersion, key: &[u8], value: &[u8]) {
        self.last += 1;
        let number = self.last;
        self.all.push(PatternEntry {
            number,
            line: None,
            key: key.into(),
            value: value.into(),
            version,
        });
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The current version, and the latest one.
    pub(super) fn versions(&self) -> (ListVersion, ListVersion) {
        (self.current, self.latest)
    }

    /// This version; the current one if it is `None`.
    pub(super) fn version(&self, said: Option<ListVersion>) -> Option<ListVersion> {
        let version = said.unwrap_or(self.current);
        (self.current..=self.latest).contains(&version).then_some(version)
    }

    pub(super) fn of(&self, version: Option<ListVersion>) -> Vec<PatternEntry> {
        let version = version.unwrap_or(self.current);
        self.all.iter().filter(|entry| entry.version == version).cloned().collect()
    }

    /// The key of the selected entries of the current version, if there are any.
    pub(super) fn key(&self, which: EntrySelector<'_>) -> Option<Box<[u8]>> {
        self.all.iter().find(|entry| self.is_meant(entry, which)).map(|entry| entry.key.clone())
    }

    pub(super) fn set(&mut self, which: EntrySelector<'_>, value: &[u8]) {
        let current = self.current;
        for entry in self.all.iter_mut().filter(|entry| entry.is(current, which)) {
            entry.value = value.into();
        }
    }

    /// False if there was none.
    pub(super) fn remove(&mut self, which: EntrySelector<'_>) -> bool {
        let (before, current) = (self.all.len(), self.current);
        self.all.retain(|entry| !entry.is(current, which));
        self.all.len() != before
    }

    pub(super) fn clear(&mut self, version: ListVersion) {
        self.all.retain(|entry| entry.version != version);
    }

    pub(super) fn prepare(&mut self) -> ListVersion {
        self.latest = self.latest.wrapping_add(1);
        self.latest
    }

    /// False if no such version is in preparation.
    pub(super) fn commit(&mut self, version: ListVersion) -> bool {
        if version <= self.current || version > self.latest {
            return false;
        }
        self.current = version;
        self.all.retain(|entry| entry.version >= version);
        true
    }

    fn is_meant(&self, entry: &PatternEntry, which: EntrySelector<'_>) -> bool {
        entry.is(self.current, which)
    }
}

impl PatternEntry {
    fn is(&self, version: ListVersion, which: EntrySelector<'_>) -> bool {
        self.version == version
            && match which {
                EntrySelector::Key(key) => *self.key == *key,
                EntrySelector::Number(number) => self.number == number,
            }
    }
}
