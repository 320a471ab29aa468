//! The output directory: where names lie, and whether something is there already.
//!
//! A directory below it is opened once and stays open; links are never followed. Asking whether a
//! name is taken costs no system call as long as a filter of fixed size knows that it is not: it
//! has been told what was there at the start, and every name since.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use fastbloom::BloomFilter;
use fulmar_sys::{self as sys, FileInfo};
use lru::LruCache;

use crate::name::{Name, split};

/// The output directory.
pub(crate) struct Store {
    root: Arc<OutputDir>,
    dirs: LruCache<Box<[u8]>, Arc<OutputDir>>,
    /// Names that are or may be taken: what it does not know is free.
    taken: BloomFilter,
}

/// Where bodies go.
#[derive(Debug)]
pub(crate) enum BodyOutput {
    /// Into files of the output directory.
    Files(Store),
    /// To standard output.
    Stdout,
}

/// An open directory.
#[derive(Debug)]
pub(crate) struct OutputDir {
    fd: Option<OwnedFd>,
    device: u64,
    is_new: bool,
}

/// Where a file will be. Keeps its directory open: only what is being written has one.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) dir: Arc<OutputDir>,
    pub(crate) last: CString,
}

impl Store {
    /// Opens the directory, and makes it and its parents if need be.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let (fd, is_new) = open_or_make(path)?;
        let root = Arc::new(OutputDir::new(fd, is_new)?);
        let taken = BloomFilter::with_num_bits(TAKEN_BITS).seed(&SEED).expected_items(TAKEN_USUAL);
        let mut store = Self { root, dirs: LruCache::new(DIRS_LEN_MAX), taken };
        let root = Arc::clone(&store.root);
        store.note(&root, &[])?;
        Ok(store)
    }

    /// Where `name` is; directories are made on the way.
    pub(crate) fn place(&mut self, name: &Name) -> io::Result<Place> {
        let (dir, last) = name.split();
        Ok(Place { dir: self.dir(dir)?, last: component(last)? })
    }

    /// What has this name, if something does.
    pub(crate) fn existing(&mut self, name: &Name, place: &Place) -> io::Result<Option<FileInfo>> {
        if !self.taken.insert(name.as_bytes()) {
            return Ok(None);
        }
        match sys::stat_link(place.dir.as_fd(), &place.last) {
            Ok(info) => Ok(Some(info)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn dir(&mut self, path: &[u8]) -> io::Result<Arc<OutputDir>> {
        if path.is_empty() {
            return Ok(Arc::clone(&self.root));
        }
        if let Some(dir) = self.dirs.get(path) {
            return Ok(Arc::clone(dir));
        }
        let (above, last) = split(path);
        let (above, last) = (self.dir(above)?, component(last)?);
        let is_new = match sys::make_dir(above.as_fd(), &last) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error),
        };
        let fd = sys::open_step(above.as_fd(), &last)?;
        let dir = Arc::new(match is_new {
            true => OutputDir { fd: Some(fd), device: above.device, is_new },
            false => OutputDir::new(fd, is_new)?,
        });
        if !is_new {
            self.note(&dir, path)?;
        }
        self.dirs.put(path.into(), Arc::clone(&dir));
        Ok(dir)
    }

    /// Tells the filter what a directory holds.
    fn note(&mut self, dir: &OutputDir, path: &[u8]) -> io::Result<()> {
        let mut names = Vec::new();
        while sys::read_dir(dir.as_fd(), &mut names)? {
            for name in names.drain(..) {
                let whole = [path, if path.is_empty() { b"" } else { b"/" }, name.as_bytes()];
                self.taken.insert(&whole.concat()[..]);
            }
        }
        Ok(())
    }
}

impl OutputDir {
    fn new(fd: OwnedFd, is_new: bool) -> io::Result<Self> {
        let device = sys::fstat(fd.as_fd())?.device;
        Ok(Self { fd: Some(fd), device, is_new })
    }

    /// The file system that it is on.
    pub(crate) fn device(&self) -> u64 {
        self.device
    }

    /// True if this run has made it.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }
}

impl AsFd for OutputDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("open until dropped").as_fd()
    }
}

impl Drop for OutputDir {
    fn drop(&mut self) {
        self.fd.take().into_iter().for_each(sys::close);
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("dirs", &self.dirs.len()).finish_non_exhaustive()
    }
}

fn component(name: &[u8]) -> io::Result<CString> {
    CString::new(name).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// The directory that the user names, links and all, and whether it is new.
fn open_or_make(path: &Path) -> io::Result<(OwnedFd, bool)> {
    match sys::open_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return Ok((other?, false)),
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    let (above, _) = open_or_make(above.unwrap_or_else(|| Path::new(".")))?;
    match sys::make_dir(above.as_fd(), &component(name.as_bytes())?) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok((sys::open_dir(path)?, true)),
    }
}

/// Open directories; one more costs two calls when it is needed again.
const DIRS_LEN_MAX: NonZeroUsize = NonZeroUsize::new(32).expect("more than nothing");
/// 2 MB: of a million names one in a thousand costs a call for nothing, of 10 million every second.
const TAKEN_BITS: usize = 16 * 1024 * 1024;
const TAKEN_USUAL: usize = 1_000_000;
/// Any fixed one: a wrong yes costs a call.
const SEED: u128 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn is_taken(store: &mut Store, name: &str) -> bool {
        let name = Name::given(name).unwrap();
        let place = store.place(&name).unwrap();
        store.existing(&name, &place).unwrap().is_some()
    }

    #[test]
    fn what_is_there_is_known_and_what_is_not_costs_no_call() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("new/root");
        let mut store = Store::open(&root).unwrap();
        drop(store);
        fs::write(root.join("a"), "").unwrap();
        fs::create_dir(root.join("d")).unwrap();
        fs::write(root.join("d/b"), "").unwrap();
        symlink("nowhere", root.join("l")).unwrap();
        store = Store::open(&root).unwrap();
        for (name, there) in [("a", true), ("b", false), ("d/b", true), ("l", true), ("d", true)] {
            assert_eq!(is_taken(&mut store, name), there, "{name}");
        }
        let before = sys::Ledger::here();
        assert!((0..1_000).all(|n| !is_taken(&mut store, &n.to_string())));
        assert!((0..1_000).all(|n| !is_taken(&mut store, &format!("d/{n}"))));
        assert_eq!((sys::Ledger::here() - before).total(), 0);
        fs::write(root.join("7"), "").unwrap();
        assert!(is_taken(&mut store, "7"), "it was asked for, and is there since");
        assert!(!is_taken(&mut store, "8"), "it was asked for, and is not there");
    }

    #[test]
    fn links_to_directories_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("base");
        fs::create_dir(&root).unwrap();
        symlink(dir.path(), root.join("out")).unwrap();
        symlink(".", root.join("in")).unwrap();
        fs::write(root.join("file"), "").unwrap();
        let mut store = Store::open(&root).unwrap();
        for name in ["out/a", "in/a", "file/a", "out/base/a"] {
            assert!(store.place(&Name::given(name).unwrap()).is_err(), "{name}");
        }
        symlink(&root, dir.path().join("elsewhere")).unwrap();
        assert!(Store::open(&dir.path().join("elsewhere")).is_ok(), "the user's own word");
    }

    #[test]
    fn more_directories_than_stay_open_are_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        for _ in 0..2 {
            for n in 0..300 {
                assert!(!is_taken(&mut store, &format!("{n}/x/y")));
            }
        }
        assert!(store.dirs.len() <= DIRS_LEN_MAX.get());
    }
}
