//! The output directory: opens directories and checks whether names exist.
//!
//! A subdirectory is opened once and stays open. Links are never followed. A Bloom filter of fixed
//! size knows the existing names and all new ones, so most checks for a free name need no system
//! call.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastbloom::BloomFilter;
use fulmar_sys::{self as sys, FileInfo};
use lru::LruCache;

use crate::name::{OutputName, split};

/// The output directory.
pub(crate) struct Store {
    root: Arc<OutputDir>,
    dirs: LruCache<Box<[u8]>, Arc<OutputDir>>,
    /// The directories that this run has made, the first [`MADE_LEN_MAX`], each after its parent.
    made: Vec<Box<[u8]>>,
    /// The same for the output directory and its parents.
    made_roots: Vec<PathBuf>,
    /// Names that are or may be taken. A name that is not in it is free.
    taken: BloomFilter,
}

/// The destination of bodies.
#[derive(Debug)]
pub(crate) enum BodyOutput {
    /// Files of the output directory.
    Files(Box<Store>),
    /// Standard output.
    Stdout,
}

/// An open directory.
#[derive(Debug)]
pub(crate) struct OutputDir {
    fd: Option<OwnedFd>,
    device: u64,
    is_new: bool,
}

/// The place of a file. It keeps its directory open; only files being written have one.
#[derive(Clone, Debug)]
pub(crate) struct FilePlace {
    pub(crate) dir: Arc<OutputDir>,
    pub(crate) last: CString,
}

impl Store {
    /// Opens the directory, and creates it and its parents if necessary.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut made_roots = Vec::new();
        let fd = open_or_make(path, &mut made_roots)?;
        let root = Arc::new(OutputDir::new(fd, !made_roots.is_empty())?);
        let taken = BloomFilter::with_num_bits(TAKEN_BITS).seed(&SEED).expected_items(TAKEN_USUAL);
        let dirs = LruCache::new(DIRS_LEN_MAX);
        let mut store = Self { root, dirs, made: Vec::new(), made_roots, taken };
        let root = Arc::clone(&store.root);
        store.note(&root, &[])?;
        Ok(store)
    }

    /// The place of `name`; creates its directories.
    pub(crate) fn place(&mut self, name: &OutputName) -> io::Result<FilePlace> {
        let (dir, last) = name.split();
        Ok(FilePlace { dir: self.dir(dir)?, last: component(last)? })
    }

    /// The existing file with this name, if any.
    pub(crate) fn existing(
        &mut self,
        name: &OutputName,
        place: &FilePlace,
    ) -> io::Result<Option<FileInfo>> {
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
            Ok(()) => {
                if self.made.len() < MADE_LEN_MAX {
                    self.made.push(path.into());
                }
                true
            }
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

    /// Removes the directories that this run has made, as far as they are empty.
    pub(crate) fn remove_made(&mut self) {
        for path in std::mem::take(&mut self.made).into_iter().rev() {
            let (above, last) = split(&path);
            if let (Ok(above), Ok(last)) = (self.dir(above), component(last)) {
                let _ = sys::remove_dir(above.as_fd(), &last); // it stays if it is not empty
            }
        }
        for path in std::mem::take(&mut self.made_roots).into_iter().rev() {
            if let Ok((above, last)) = parent(&path)
                && let Ok(above) = sys::open_dir(above)
            {
                let _ = sys::remove_dir(above.as_fd(), &last); // as above
            }
        }
    }

    /// Adds the names in a directory to the filter.
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

    /// The device number of the file system.
    pub(crate) fn device(&self) -> u64 {
        self.device
    }

    /// True if this run has created it.
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

/// The directory that the user gave, following links. Those that had to be made are added to
/// `made`, each after its parent.
fn open_or_make(path: &Path, made: &mut Vec<PathBuf>) -> io::Result<OwnedFd> {
    match sys::open_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    let (above, last) = parent(path)?;
    let above = open_or_make(above, made)?;
    match sys::make_dir(above.as_fd(), &last) {
        Ok(()) => made.push(path.to_owned()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    sys::open_dir(path)
}

/// The parent of a directory, and its last component.
fn parent(path: &Path) -> io::Result<(&Path, CString)> {
    let last = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    Ok((above.unwrap_or_else(|| Path::new(".")), component(last.as_bytes())?))
}

/// Open directories. Opening one again costs two calls.
const DIRS_LEN_MAX: NonZeroUsize = NonZeroUsize::new(32).expect("32 is not 0");
/// Directories that are removed again if no file was received; some hundred KB of names.
const MADE_LEN_MAX: usize = 4_096;
/// 2 MB: with a million names, one check in a thousand costs an unnecessary call; with 10 million,
/// every second one.
const TAKEN_BITS: usize = 16 * 1024 * 1024;
const TAKEN_USUAL: usize = 1_000_000;
/// Any constant: a false positive costs one call.
const SEED: u128 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn is_taken(store: &mut Store, name: &str) -> bool {
        let name = OutputName::given(name).unwrap();
        let place = store.place(&name).unwrap();
        store.existing(&name, &place).unwrap().is_some()
    }

    #[test]
    fn free_names_cost_no_call() {
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
        assert!(is_taken(&mut store, "7"), "it was checked, and exists since");
        assert!(!is_taken(&mut store, "8"), "it was checked, and does not exist");
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
            assert!(store.place(&OutputName::given(name).unwrap()).is_err(), "{name}");
        }
        symlink(&root, dir.path().join("elsewhere")).unwrap();
        assert!(Store::open(&dir.path().join("elsewhere")).is_ok(), "the root may be a link");
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
