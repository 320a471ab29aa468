//! Files that are invisible until they are complete.
//!
//! A [`Temporary`] has no name (`O_TMPFILE`), so nothing is left behind, even after a crash. If the
//! file system does not support it, the file has a name that begins with `.fulmar-` until it is
//! complete; the name is removed on drop. A file that replaces another has such a name between its
//! last two calls.
//!
//! Files are not synced (`fsync(2)`), because that would block all exchanges of the thread. After a
//! power failure, recent files may be lost.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use fulmar_sys as sys;

/// A directory for temporary files. Clones share it.
#[derive(Clone, Debug)]
pub struct TemporaryDir {
    dir: Arc<Dir>,
}

/// The open directory.
#[derive(Debug)]
struct Dir(Option<OwnedFd>);

impl TemporaryDir {
    /// Opens the directory.
    ///
    /// # Errors
    /// See `openat(2)`: the directory does not exist, or cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self::of(sys::open_dir(path)?))
    }

    /// Uses an open directory.
    pub fn of(dir: OwnedFd) -> Self {
        Self { dir: Arc::new(Dir(Some(dir))) }
    }

    /// Creates a file.
    ///
    /// # Errors
    /// See `openat(2)`: no free descriptor, or no write permission.
    pub fn create(&self) -> io::Result<Temporary> {
        let (file, hidden) = match sys::create_unnamed(self.as_fd()) {
            Err(error) if is_unsupported(&error) => {
                let name = hidden_name()?;
                (sys::create_new(self.as_fd(), &name)?, Some(name))
            }
            result => (result?, None),
        };
        Ok(Temporary { place: self.clone(), file: Some(file), hidden, len: 0 })
    }
}

impl AsFd for TemporaryDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.0.as_ref().expect("open until drop").as_fd()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        if let Some(dir) = self.0.take() {
            sys::close(dir);
        }
    }
}

/// A file that is being written. It is deleted on drop.
#[derive(Debug)]
pub struct Temporary {
    place: TemporaryDir,
    /// `Some` until drop.
    file: Option<OwnedFd>,
    /// The hidden name, if the file system needs one.
    hidden: Option<CString>,
    len: u64,
}

impl Temporary {
    /// The number of bytes written.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if no byte was written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends all bytes.
    ///
    /// # Errors
    /// See `write(2)`: `ENOSPC` on a full disk. Some of the bytes may have been written.
    pub fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match sys::pwrite(self.file().as_fd(), bytes, self.len) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    bytes = &bytes[n..];
                    self.len += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Gives the file a name in `dir`, on the same file system. The name must not exist.
    ///
    /// # Errors
    /// `EEXIST` if the name exists; otherwise see `linkat(2)` or `renameat2(2)`. The file is
    /// deleted.
    pub fn keep_new(self, dir: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        self.link(dir, name)
    }

    /// Gives the file a name in `dir`, on the same file system. An existing file is replaced
    /// atomically: readers get the complete old or the complete new content.
    ///
    /// # Errors
    /// `EISDIR` if the name is a directory; otherwise see `linkat(2)` or `renameat2(2)`. The new
    /// file is deleted, and an existing one stays.
    pub fn keep(self, dir: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        match self.link(dir, name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => return result,
        }
        let beside = hidden_name()?;
        self.link(dir, &beside)?;
        sys::rename(dir, &beside, name).inspect_err(|_| {
            let _ = sys::unlink_at(dir, &beside);
        })
    }

    fn link(&self, dir: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        match &self.hidden {
            None => sys::link_unnamed(self.file().as_fd(), dir, name),
            Some(hidden) => sys::link((self.place.as_fd(), hidden), (dir, name)),
        }
    }

    fn file(&self) -> &OwnedFd {
        self.file.as_ref().expect("open until drop")
    }
}

impl AsFd for Temporary {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file().as_fd()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            sys::close(file);
        }
        if let Some(hidden) = &self.hidden {
            let _ = sys::unlink_at(self.place.as_fd(), hidden); // errors cannot be reported in drop
        }
    }
}

/// A name with a leading dot and random digits.
fn hidden_name() -> io::Result<CString> {
    let random = getrandom::u64().map_err(io::Error::other)?;
    Ok(CString::new(format!(".fulmar-{random:016x}")).expect("a number has no NUL"))
}

/// File systems return `EOPNOTSUPP`, kernels without the flag `EISDIR` or `EINVAL` (`openat(2)`,
/// "BUGS"); other systems have no such call.
fn is_unsupported(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, IsADirectory, Unsupported};
    matches!(error.kind(), Unsupported | IsADirectory | InvalidInput)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_sys::{Call, Ledger};
    use std::fs;

    struct TestDir {
        folder: tempfile::TempDir,
        place: TemporaryDir,
    }

    fn test_dir() -> TestDir {
        let folder = tempfile::tempdir().unwrap();
        let place = TemporaryDir::open(folder.path()).unwrap();
        TestDir { folder, place }
    }

    impl TestDir {
        /// A file with `text`, unnamed, or as on a file system without support.
        fn file(&self, text: &[u8], is_nameless: bool) -> Temporary {
            let mut file = self.place.create().unwrap();
            if !is_nameless {
                let name = hidden_name().unwrap();
                let named = sys::create_new(self.place.as_fd(), &name).unwrap();
                let nameless = file.file.replace(named);
                drop(nameless);
                file.hidden = Some(name);
            }
            file.write_all(text).unwrap();
            assert_eq!((file.len(), file.is_empty()), (text.len() as u64, text.is_empty()));
            file
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(self.folder.path()).unwrap();
            let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
            let mut names: Vec<_> = entries.map(|entry| name(entry.unwrap())).collect();
            names.sort();
            names
        }

        fn text(&self, name: &str) -> String {
            fs::read_to_string(self.folder.path().join(name)).unwrap()
        }
    }

    #[test]
    fn a_file_is_visible_only_after_keep() {
        for is_nameless in [true, false] {
            let test_dir = test_dir();
            let file = test_dir.file(b"one", is_nameless);
            assert_eq!(test_dir.names().len(), usize::from(!is_nameless));
            file.keep_new(test_dir.place.as_fd(), c"a").unwrap();
            assert_eq!(
                (test_dir.names(), test_dir.text("a")),
                (vec!["a".to_owned()], "one".to_owned())
            );
            let other = test_dir.file(b"two", is_nameless);
            let error = other.keep_new(test_dir.place.as_fd(), c"a").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(
                (test_dir.names(), test_dir.text("a")),
                (vec!["a".to_owned()], "one".to_owned())
            );
            test_dir.file(b"three", is_nameless).keep(test_dir.place.as_fd(), c"a").unwrap();
            assert_eq!(
                (test_dir.names(), test_dir.text("a")),
                (vec!["a".to_owned()], "three".to_owned())
            );
            test_dir.file(b"", is_nameless).keep(test_dir.place.as_fd(), c"b").unwrap();
            assert_eq!((test_dir.names().len(), test_dir.text("b")), (2, String::new()));
        }
    }

    #[test]
    fn missing_support_for_unnamed_files_is_detected() {
        for (number, is_one) in [(95, true), (21, true), (22, true), (13, false), (28, false)] {
            let error = io::Error::from_raw_os_error(number);
            assert_eq!(is_unsupported(&error), is_one, "{error}");
        }
        assert!(is_unsupported(&io::ErrorKind::Unsupported.into()));
    }

    #[test]
    fn a_dropped_file_is_deleted() {
        for is_nameless in [true, false] {
            let test_dir = test_dir();
            drop(test_dir.file(b"x", is_nameless));
            fs::create_dir(test_dir.folder.path().join("d")).unwrap();
            let error =
                test_dir.file(b"x", is_nameless).keep(test_dir.place.as_fd(), c"d").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
            assert_eq!(test_dir.names(), ["d"]);
        }
    }

    #[test]
    fn system_calls_of_a_file_are_counted() {
        let test_dir = test_dir();
        for (linked, renamed) in [(1, 0), (2, 1)] {
            let before = Ledger::here();
            test_dir.file(b"x", true).keep(test_dir.place.as_fd(), c"a").unwrap();
            let made = Ledger::here() - before;
            for (call, times) in [
                (Call::openat, 1),
                (Call::pwrite64, 1),
                (Call::linkat, linked),
                (Call::renameat2, renamed),
                (Call::close, 1),
            ] {
                assert_eq!(made.count(call).calls, times, "{}", call.name());
            }
            assert_eq!(made.total(), 3 + linked + renamed);
        }
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let place = TemporaryDir::of(sys::open_dir(Path::new("/dev")).unwrap());
        let file = sys::open_write(place.as_fd(), c"full").unwrap();
        let mut file = Temporary { place, file: Some(file), hidden: None, len: 0 };
        let error = file.write_all(b"x").unwrap_err();
        assert_eq!((error.kind(), file.len()), (io::ErrorKind::StorageFull, 0));
    }
}
