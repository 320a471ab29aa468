//! A file that is not complete yet: written under a temporary name, renamed when it is complete.
//! Or standard output, which has no name and takes what it is given.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::{io, mem};

use fulmar_proto::FileRange;
use fulmar_sys as sys;

use crate::journal::Key;
use crate::name::RESERVED;
use crate::store::{OutputDir, Place};

/// A file that is not complete, under a temporary name next to the one that it will have.
#[derive(Debug)]
pub(crate) struct Partial {
    target: PartialTarget,
    file: Arc<OwnedFd>,
    len: u64,
}

#[derive(Debug)]
enum PartialTarget {
    Named {
        place: Place,
        temporary: CString,
    },
    /// Standard output.
    Stream,
}

/// What happens to a file that has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// It stays, and the new one fails.
    New,
    /// It is replaced.
    Replace,
}

/// A complete file that has its name, and may not be on the disk.
#[derive(Debug)]
pub(crate) struct WrittenFile {
    pub(crate) file: Arc<OwnedFd>,
    pub(crate) dir: Arc<OutputDir>,
}

impl WrittenFile {
    /// Closes it.
    pub(crate) fn close(self) {
        close(self.file);
    }
}

impl Partial {
    /// A new one; what an earlier run left under its name is removed.
    pub(crate) fn create(place: &Place, key: Key) -> io::Result<Self> {
        let temporary = temporary(key);
        let dir = place.dir.as_fd();
        let fd = match sys::create_new(dir, &temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                sys::unlink_at(dir, &temporary)?;
                sys::create_new(dir, &temporary)?
            }
            other => other?,
        };
        let target = PartialTarget::Named { place: place.clone(), temporary };
        Ok(Self { target, file: fd.into(), len: 0 })
    }

    /// Standard output.
    pub(crate) fn stdout() -> io::Result<Self> {
        let file = sys::duplicate(io::stdout().as_raw_fd())?.into();
        Ok(Self { target: PartialTarget::Stream, file, len: 0 })
    }

    /// What was kept, if it is there, a file, and not empty.
    pub(crate) fn kept(place: &Place, key: Key) -> io::Result<Option<Self>> {
        let temporary = temporary(key);
        let fd = match sys::open_write(place.dir.as_fd(), &temporary) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let info = sys::fstat(fd.as_fd())?;
        if info.kind != sys::FileKind::Regular || info.len == 0 {
            sys::close(fd);
            return Ok(None);
        }
        let target = PartialTarget::Named { place: place.clone(), temporary };
        Ok(Some(Self { target, file: fd.into(), len: info.len }))
    }

    /// So many bytes are there.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Where the kernel may put `len` bytes by itself, if it may; [`Partial::moved`] says that it
    /// has.
    pub(crate) fn range(&self, len: u64) -> Option<FileRange> {
        let file = Arc::clone(&self.file);
        let is_file = matches!(self.target, PartialTarget::Named { .. });
        is_file.then_some(FileRange { file, offset: self.len, len })
    }

    /// The kernel has put bytes there, and `len` are there now: how many it has put.
    pub(crate) fn moved(&mut self, len: u64) -> u64 {
        len.saturating_sub(mem::replace(&mut self.len, len))
    }

    /// Writes what follows.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let file = (*self.file).as_fd();
            let written = match self.target {
                PartialTarget::Named { .. } => sys::pwrite(file, bytes, self.len),
                PartialTarget::Stream => sys::write(file, bytes),
            };
            match written? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => {
                    self.len += n as u64;
                    bytes = &bytes[n..];
                }
            }
        }
        Ok(())
    }

    /// Reads from the beginning, piece by piece.
    pub(crate) fn read(&self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let mut buffer = vec![0; READ_SIZE];
        let mut at = 0;
        while at < self.len {
            match sys::pread((*self.file).as_fd(), &mut buffer, at)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => {
                    each(&buffer[..n]);
                    at += n as u64;
                }
            }
        }
        Ok(())
    }

    /// Throws away what is there.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.len = 0;
        sys::truncate((*self.file).as_fd(), 0)
    }

    /// It is complete and gets its name. If that fails it is removed. Standard output gets none.
    pub(crate) fn commit(self, naming: Naming) -> io::Result<Option<WrittenFile>> {
        let PartialTarget::Named { place, temporary } = &self.target else {
            self.keep();
            return Ok(None);
        };
        let (dir, from, to) = (place.dir.as_fd(), temporary, &place.last);
        let result = match naming {
            Naming::Replace => sys::rename(dir, from, to),
            Naming::New => match sys::rename_new(dir, from, to) {
                // The file system cannot rename without replacing: two names, then one.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    sys::link((dir, from), (dir, to)).and_then(|()| sys::unlink_at(dir, from))
                }
                other => other,
            },
        };
        if let Err(error) = result {
            self.discard();
            return Err(error);
        }
        let dir = Arc::clone(&place.dir);
        Ok(Some(WrittenFile { file: self.file, dir }))
    }

    /// Leaves it as it is, to be gone on with.
    pub(crate) fn keep(self) {
        close(self.file);
    }

    /// Removes it.
    pub(crate) fn discard(self) {
        if let PartialTarget::Named { place, temporary } = &self.target {
            // If it cannot be removed, it still has no name that a user gave.
            let _ = sys::unlink_at(place.dir.as_fd(), temporary);
        }
        self.keep();
    }

    /// Removes what is kept under the name of a download, if something is.
    pub(crate) fn forget(place: &Place, key: Key) {
        let _ = sys::unlink_at(place.dir.as_fd(), &temporary(key)); // as above
    }
}

fn close(file: Arc<OwnedFd>) {
    if let Some(fd) = Arc::into_inner(file) {
        sys::close(fd);
    }
}

/// The same for the same download, so that the next run finds it.
fn temporary(key: Key) -> CString {
    let name = format!("{}-{:016x}", RESERVED, key.0);
    CString::new(name).expect("digits have no zero byte")
}

const READ_SIZE: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;
    use crate::store::Store;
    use std::fs;
    use std::path::Path;

    fn place(dir: &Path, name: &str) -> Place {
        Store::open(dir).unwrap().place(&Name::given(name).unwrap()).unwrap()
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(dir.path(), "a");
        let mut partial = Partial::create(&place, Key(1)).unwrap();
        partial.append(b"abc").unwrap();
        assert_eq!(names(dir.path()), [".fulmar-get-0000000000000001"]);
        partial.append(b"def").unwrap();
        partial.commit(Naming::New).unwrap().expect("a file").close();
        assert_eq!(names(dir.path()), ["a"]);
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"abcdef");
        Partial::create(&place, Key(1)).unwrap().discard();
        assert_eq!(names(dir.path()), ["a"]);
    }

    #[test]
    fn nothing_that_is_there_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(dir.path(), "a");
        let partial = Partial::create(&place, Key(1)).unwrap();
        fs::write(dir.path().join("a"), "mine").unwrap();
        assert_eq!(partial.commit(Naming::New).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(names(dir.path()), ["a"]);
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"mine");
        let mut partial = Partial::create(&place, Key(1)).unwrap();
        partial.append(b"new").unwrap();
        partial.commit(Naming::Replace).unwrap().expect("a file").close();
        assert_eq!(names(dir.path()), ["a"]);
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"new", "where it is wanted");
    }

    #[test]
    fn what_is_kept_is_gone_on_with() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(dir.path(), "a");
        assert!(Partial::kept(&place, Key(1)).unwrap().is_none());
        Partial::create(&place, Key(1)).unwrap().keep();
        assert!(Partial::kept(&place, Key(1)).unwrap().is_none(), "nothing is in it");
        let mut partial = Partial::create(&place, Key(1)).unwrap();
        partial.append(b"abc").unwrap();
        partial.keep();
        let mut partial = Partial::kept(&place, Key(1)).unwrap().unwrap();
        assert_eq!(partial.len(), 3);
        partial.append(b"def").unwrap();
        let mut read = Vec::new();
        partial.read(|bytes| read.extend_from_slice(bytes)).unwrap();
        assert_eq!(read, b"abcdef");
        partial.clear().unwrap();
        partial.append(b"x").unwrap();
        partial.commit(Naming::New).unwrap().expect("a file").close();
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"x");
    }

    #[test]
    fn a_link_under_our_name_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        fs::write(&outside, "mine").unwrap();
        let inside = dir.path().join("inside");
        let place = place(&inside, "a");
        let ours = inside.join(".fulmar-get-0000000000000001");
        std::os::unix::fs::symlink(&outside, &ours).unwrap();
        assert!(Partial::kept(&place, Key(1)).is_err());
        let mut partial = Partial::create(&place, Key(1)).unwrap();
        partial.append(b"ours").unwrap();
        partial.commit(Naming::New).unwrap().expect("a file").close();
        assert_eq!(fs::read(&outside).unwrap(), b"mine");
        assert_eq!(fs::read(inside.join("a")).unwrap(), b"ours");
    }
}
