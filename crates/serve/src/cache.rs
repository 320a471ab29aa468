//! The cache of names: files ready to be sent, redirects, listings. Its only system call is
//! `close`.
//!
//! Least recently used entries are removed first; entries and bytes are bounded. An entry is fresh
//! for a while ([`FileCache::is_fresh`]). After that the owner checks the file system, and
//! confirms, replaces or removes it. Finding a fresh entry costs no system call and no allocation.
//!
//! The descriptor of a removed entry may still be in use by a transfer. It is *retired*: kept here
//! until this is the last reference, so that always the cache closes it.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fulmar_semantics::coding::ContentCoding;
use fulmar_sys as sys;
use fulmar_sys::FileInfo;
use lru::LruCache;

use crate::file::{Content, File};
use crate::options::Options;

/// What a name refers to.
#[expect(clippy::large_enum_variant, reason = "nearly all are files")]
#[derive(Debug)]
pub enum CachedName {
    /// A file, or the index file of a directory.
    File(File),
    /// A directory requested without its slash: the value of `Location`, without a query.
    Redirect(Box<str>),
    /// A directory without an index file: its listing.
    Listing(Bytes),
    /// The same if listings are disabled.
    Unlisted,
}

/// The cached names, by [`crate::path::Name::key`].
#[derive(Debug)]
pub struct FileCache {
    map: LruCache<Box<[u8]>, CacheEntry>,
    /// The sum of all entries in `map`.
    contents_size: u64,
    contents_size_max: u64,
    revalidate_after: Duration,
    retired: VecDeque<Arc<OwnedFd>>,
}

#[derive(Debug)]
struct CacheEntry {
    found: CachedName,
    checked: Instant,
}

impl FileCache {
    /// An empty cache with the limits of `options`.
    pub fn new(options: &Options) -> Self {
        Self {
            map: LruCache::new(NonZeroUsize::new(options.entries_max).unwrap_or(NonZeroUsize::MIN)),
            contents_size: 0,
            contents_size_max: options.contents_size_max,
            revalidate_after: options.revalidate_after,
            retired: VecDeque::new(),
        }
    }

    /// True if the entry of this name is fresh. It counts as used.
    pub fn is_fresh(&mut self, key: &[u8], now: Instant) -> bool {
        let known = self.map.get(key);
        known.is_some_and(|e| now.saturating_duration_since(e.checked) < self.revalidate_after)
    }

    /// The entry of this name, fresh or not.
    pub fn peek(&self, key: &[u8]) -> Option<&CachedName> {
        self.map.peek(key).map(|entry| &entry.found)
    }

    /// True if the entry is this file in this state with these compressed files. The entry is then
    /// fresh again.
    pub(crate) fn confirm(
        &mut self,
        key: &[u8],
        info: &FileInfo,
        coded: impl Iterator<Item = (ContentCoding, FileInfo)>,
        now: Instant,
    ) -> bool {
        let Some(entry) = self.map.peek_mut(key) else { return false };
        let CachedName::File(file) = &entry.found else { return false };
        let known = file.coded.iter().map(|coded| (coded.coding, coded.file.info));
        let same = file.info == *info && known.eq(coded);
        if same {
            entry.checked = now;
        }
        same
    }

    /// Inserts or replaces the entry of this name. The least recently used entries make room.
    pub fn insert(&mut self, key: &[u8], found: CachedName, now: Instant) {
        self.contents_size += found.contents_size();
        let replaced = self.map.push(key.into(), CacheEntry { found, checked: now });
        if let Some((_, entry)) = replaced {
            self.retire(entry);
        }
        while self.contents_size > self.contents_size_max && self.map.len() > 1 {
            self.forget_oldest();
        }
        self.sweep();
    }

    /// Removes the entry of this name: it does not exist any more.
    pub fn remove(&mut self, key: &[u8]) {
        if let Some(entry) = self.map.pop(key) {
            self.retire(entry);
        }
        self.sweep();
    }

    /// Removes the oldest entries with descriptors, and closes unused ones, when descriptors are
    /// exhausted. Entries in memory stay.
    pub fn shed(&mut self) {
        let is_open = |file: &File| matches!(file.content, Content::Open(_));
        let oldest = self.map.iter().rev().filter(|(_, entry)| entry.found.files().any(is_open));
        let keys: Vec<_> = oldest.take(SHED_LEN).map(|(key, _)| key.clone()).collect();
        for entry in keys.iter().filter_map(|key| self.map.pop(key)).collect::<Vec<_>>() {
            self.retire(entry);
        }
        for _ in 0..self.retired.len().div_ceil(SWEEP_LEN) {
            self.sweep();
        }
    }

    /// Closes retired descriptors that are no longer used; examines a bounded number of them. Every
    /// insertion does this, and an idle owner may too.
    pub fn sweep(&mut self) {
        for _ in 0..SWEEP_LEN.min(self.retired.len()) {
            let Some(file) = self.retired.pop_front() else { return };
            match Arc::try_unwrap(file) {
                Ok(fd) => sys::close(fd),
                Err(file) => self.retired.push_back(file),
            }
        }
    }

    /// The number of cached names.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// True if the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Descriptors that wait for the end of a transfer.
    pub fn retired_len(&self) -> usize {
        self.retired.len()
    }

    fn forget_oldest(&mut self) {
        if let Some((_, entry)) = self.map.pop_lru() {
            self.retire(entry);
        }
    }

    fn retire(&mut self, entry: CacheEntry) {
        self.contents_size -= entry.found.contents_size();
        if let CachedName::File(mut file) = entry.found {
            let coded = std::mem::take(&mut file.coded);
            self.retire_file(file);
            coded.into_iter().for_each(|coded| self.retire_file(coded.file));
        }
    }

    fn retire_file(&mut self, file: File) {
        let Content::Open(file) = file.content else { return };
        match Arc::try_unwrap(file) {
            Ok(fd) => sys::close(fd),
            Err(file) => self.retired.push_back(file),
        }
    }
}

impl Drop for FileCache {
    /// Transfers that outlive the cache close their files themselves.
    fn drop(&mut self) {
        while !self.map.is_empty() {
            self.forget_oldest();
        }
        for file in self.retired.drain(..) {
            if let Some(fd) = Arc::into_inner(file) {
                sys::close(fd);
            }
        }
    }
}

impl CachedName {
    /// The file and its compressed versions.
    fn files(&self) -> impl Iterator<Item = &File> {
        let file = if let Self::File(file) = self { Some(file) } else { None };
        let coded = file.into_iter().flat_map(|file| &file.coded);
        file.into_iter().chain(coded.map(|coded| &coded.file))
    }

    fn contents_size(&self) -> u64 {
        let in_memory = |file: &File| match &file.content {
            Content::Memory(bytes) => bytes.len() as u64,
            Content::Open(_) => 0,
        };
        match self {
            Self::Listing(bytes) => bytes.len() as u64,
            found => found.files().map(in_memory).sum(),
        }
    }
}

const SHED_LEN: usize = 64;
const SWEEP_LEN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::SMALL_SIZE_MAX;
    use fulmar_proto::Segment;
    use fulmar_sys::{Call, FileKind, Ledger};

    fn options() -> Options {
        Options { entries_max: 3, contents_size_max: 100, ..Options::default() }
    }

    fn info(inode: u64, len: u64) -> FileInfo {
        FileInfo { kind: FileKind::Regular, len, modified: (1, 2), inode, device: 3 }
    }

    /// An open file with a large length: its contents are not read.
    fn open_file(inode: u64) -> CachedName {
        let fd = sys::open_read(std::path::Path::new("/dev/null")).unwrap();
        CachedName::File(File::load((fd, info(inode, SMALL_SIZE_MAX + 1)), b"a", None, 10).unwrap())
    }

    fn listing(len: usize) -> CachedName {
        CachedName::Listing(Bytes::from(vec![b'x'; len]))
    }

    fn closed(work: impl FnOnce()) -> u64 {
        let before = Ledger::here();
        work();
        (Ledger::here() - before).count(Call::close).calls
    }

    #[test]
    fn an_entry_is_fresh_for_a_while() {
        let (mut cache, now) = (FileCache::new(&options()), sys::now());
        assert!(!cache.is_fresh(b"a", now));
        cache.insert(b"a", open_file(1), now);
        assert!(cache.is_fresh(b"a", now + Duration::from_millis(999)));
        let later = now + Duration::from_secs(1);
        assert!(!cache.is_fresh(b"a", later));
        assert!(cache.peek(b"a").is_some());
        assert!(!cache.confirm(b"a", &info(2, SMALL_SIZE_MAX + 1), [].into_iter(), later));
        assert!(!cache.is_fresh(b"a", later));
        assert!(cache.confirm(b"a", &info(1, SMALL_SIZE_MAX + 1), [].into_iter(), later));
        assert!(cache.is_fresh(b"a", later));
        assert!(!cache.confirm(b"b", &info(1, 1), [].into_iter(), later));
        cache.remove(b"a");
        assert!(cache.is_empty());
    }

    #[test]
    fn the_least_recently_used_entry_is_removed() {
        let (mut cache, now) = (FileCache::new(&options()), sys::now());
        for key in [b"a", b"b", b"c"] {
            cache.insert(key, open_file(1), now);
        }
        cache.is_fresh(b"a", now);
        assert_eq!(closed(|| cache.insert(b"d", listing(1), now)), 1);
        assert_eq!(cache.len(), 3);
        assert!(cache.peek(b"a").is_some() && cache.peek(b"b").is_none());
    }

    #[test]
    fn contents_are_bounded() {
        let (mut cache, now) = (FileCache::new(&options()), sys::now());
        cache.insert(b"a", listing(60), now);
        cache.insert(b"b", listing(40), now);
        assert_eq!((cache.len(), cache.contents_size), (2, 100));
        cache.insert(b"c", listing(1), now);
        assert_eq!((cache.len(), cache.contents_size), (2, 41));
        cache.insert(b"c", listing(2), now);
        assert_eq!((cache.len(), cache.contents_size), (2, 42));
        cache.insert(b"d", listing(1000), now);
        assert_eq!((cache.len(), cache.contents_size), (1, 1000));
        cache.remove(b"d");
        assert_eq!((cache.len(), cache.contents_size), (0, 0));
    }

    #[test]
    fn a_descriptor_in_use_is_closed_later_by_the_cache() {
        let (mut cache, now) = (FileCache::new(&options()), sys::now());
        cache.insert(b"a", open_file(1), now);
        let Some(CachedName::File(file)) = cache.peek(b"a") else { panic!("a file was inserted") };
        let Segment::File(transfer) = file.whole() else { panic!("it is large") };
        assert_eq!(closed(|| cache.insert(b"a", open_file(2), now)), 0);
        assert_eq!(cache.retired_len(), 1);
        assert_eq!(closed(|| cache.insert(b"b", CachedName::Unlisted, now)), 0);
        drop(transfer);
        assert_eq!(closed(|| cache.insert(b"b", CachedName::Unlisted, now)), 1);
        assert_eq!(cache.retired_len(), 0);
    }

    #[test]
    fn exhausted_descriptors_are_released() {
        let (mut cache, now) = (FileCache::new(&options()), sys::now());
        cache.insert(b"a", open_file(1), now);
        cache.insert(b"b", open_file(2), now);
        cache.insert(b"c", listing(1), now);
        assert_eq!(closed(|| cache.shed()), 2);
        assert!(cache.len() == 1 && cache.peek(b"c").is_some());
        cache.insert(b"a", open_file(1), now);
        assert_eq!(closed(|| drop(cache)), 1);
    }
}
