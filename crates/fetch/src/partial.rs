//! An incomplete file: written under a temporary name, and renamed when it is complete. Or standard
//! output, which has no name.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::{io, mem};

use fulmar_proto::FileRange;
use fulmar_sys as sys;

use crate::journal::DownloadKey;
use crate::name::RESERVED;
use crate::output_dir::{FilePlace, OutputDir};

/// An incomplete file, under a temporary name next to its final one.
#[derive(Debug)]
pub(crate) struct Partial {
    target: PartialTarget,
    file: Arc<OwnedFd>,
    len: u64,
}

#[derive(Debug)]
enum PartialTarget {
    Named {
        place: FilePlace,
        temporary: CString,
    },
    /// Standard output.
    Stream,
}

/// How to treat an existing file with the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// Keep it; the new file fails.
    New,
    /// Replace it.
    Replace,
}

/// A complete file with its final name, which may not be on the disk yet.
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
    /// Creates a new one, and removes a part that an earlier run kept.
    pub(crate) fn create(place: &FilePlace, key: DownloadKey) -> io::Result<Self> {
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

    /// The kept part, if it exists, is a regular file, and is not empty.
    pub(crate) fn kept(place: &FilePlace, key: DownloadKey) -> io::Result<Option<Self>> {
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

    /// The number of bytes written.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The range for `len` spliced bytes, if splicing is possible. [`Partial::moved`] follows.
    pub(crate) fn range(&self, len: u64) -> Option<FileRange> {
        let file = Arc::clone(&self.file);
        let is_file = matches!(self.target, PartialTarget::Named { .. });
        is_file.then_some(FileRange { file, offset: self.len, len })
    }

    /// The kernel has spliced bytes, so that the file now has `len`; returns how many.
    pub(crate) fn moved(&mut self, len: u64) -> u64 {
        len.saturating_sub(mem::replace(&mut self.len, len))
    }

    /// Appends bytes.
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

    /// Discards all bytes.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.len = 0;
        sys::truncate((*self.file).as_fd(), 0)
    }

    /// Renames the complete file to its final name; removes it if that fails. Standard output has
    /// none.
    pub(crate) fn commit(self, naming: Naming) -> io::Result<Option<WrittenFile>> {
        let PartialTarget::Named { place, temporary } = &self.target else {
            self.keep();
            return Ok(None);
        };
        let (dir, from, to) = (place.dir.as_fd(), temporary, &place.last);
        let result = match naming {
            Naming::Replace => sys::rename(dir, from, to),
            Naming::New => match sys::rename_new(dir, from, to) {
                // The file system cannot rename without replacing: link, then unlink.
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

    /// Keeps the part for a later run.
    pub(crate) fn keep(self) {
        close(self.file);
    }

    /// Removes it.
    pub(crate) fn discard(self) {
        if let PartialTarget::Named { place, temporary } = &self.target {
            // If it cannot be removed, it still has no final name.
            let _ = sys::unlink_at(place.dir.as_fd(), temporary);
        }
        self.keep();
    }

    /// Removes the kept part of a download, if any.
    pub(crate) fn forget(place: &FilePlace, key: DownloadKey) {
        let _ = sys::unlink_at(place.dir.as_fd(), &temporary(key)); // not important
    }
}

fn close(file: Arc<OwnedFd>) {
    if let Some(fd) = Arc::into_inner(file) {
        sys::close(fd);
    }
}

/// The temporary name: the same for the same download, so that the next run finds it.
fn temporary(key: DownloadKey) -> CString {
    let name = format!("{}-{:016x}", RESERVED, key.0);
    CString::new(name).expect("digits have no zero byte")
}

const READ_SIZE: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::OutputName;
    use crate::output_dir::Store;
    use std::fs;
    use std::path::Path;

    fn place(dir: &Path, name: &str) -> FilePlace {
        Store::open(dir).unwrap().place(&OutputName::given(name).unwrap()).unwrap()
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_when_it_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(dir.path(), "a");
        let mut partial = Partial::create(&place, DownloadKey(1)).unwrap();
        partial.append(b"abc").unwrap();
        assert_eq!(names(dir.path()), [".fulmar-get-0000000000000001"]);
        partial.append(b"def").unwrap();
        partial.commit(Naming::New).unwrap().expect("a file").close();
        assert_eq!(names(dir.path()), ["a"]);
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"abcdef");
        Partial::create(&place, DownloadKey(1)).unwrap().discard();
        assert_eq!(names(dir.path()), ["a"]);
    }

    #[test]
    fn existing_files_are_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(dir.path(), "a");
        let partial = Partial::create(&place, DownloadKey(1)).unwrap();
        fs::write(dir.path().join("a"), "mine").unwrap();
        assert_eq!(partial.commit(Naming::New).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(names(dir.path()), ["a"]);
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"mine");
        let mut partial = Partial::create(&place, DownloadKey(1)).unwrap();
        partial.append(b"new").unwrap();
        partial.commit(Naming::Replace).unwrap().expect("a file").close();
        assert_eq!(names(dir.path()), ["a"]);
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"new", "where replacing is requested");
    }

    #[test]
    fn a_kept_part_is_resumed() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(dir.path(), "a");
        assert!(Partial::kept(&place, DownloadKey(1)).unwrap().is_none());
        Partial::create(&place, DownloadKey(1)).unwrap().keep();
        assert!(Partial::kept(&place, DownloadKey(1)).unwrap().is_none(), "nothing is in it");
        let mut partial = Partial::create(&place, DownloadKey(1)).unwrap();
        partial.append(b"abc").unwrap();
        partial.keep();
        let mut partial = Partial::kept(&place, DownloadKey(1)).unwrap().unwrap();
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
    fn a_link_with_the_temporary_name_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        fs::write(&outside, "mine").unwrap();
        let inside = dir.path().join("inside");
        let place = place(&inside, "a");
        let ours = inside.join(".fulmar-get-0000000000000001");
        std::os::unix::fs::symlink(&outside, &ours).unwrap();
        assert!(Partial::kept(&place, DownloadKey(1)).is_err());
        let mut partial = Partial::create(&place, DownloadKey(1)).unwrap();
        partial.append(b"ours").unwrap();
        partial.commit(Naming::New).unwrap().expect("a file").close();
        assert_eq!(fs::read(&outside).unwrap(), b"mine");
        assert_eq!(fs::read(inside.join("a")).unwrap(), b"ours");
    }
}
