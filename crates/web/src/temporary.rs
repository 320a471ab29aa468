//! Files that nobody sees until they are complete.
//!
//! A [`Temporary`] has no name (`O_TMPFILE`), so that nothing is left behind, whatever happens: not
//! even a crash has anything to clear away. Where the file system cannot do that, it has a name that
//! begins with `.fulmar-` until it is complete, which is removed when it is dropped; so has one that
//! replaces another, between its last two calls.
//!
//! Nothing is asked to be on the disk (`fsync(2)`): that would hold up every exchange of the
//! thread. A machine that loses its power may lose what it took a moment ago.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use fulmar_sys as sys;

/// A directory in which temporary files are made. Clones share it.
#[derive(Clone, Debug)]
pub struct Place {
    dir: Arc<Dir>,
}

/// Open until it is dropped.
#[derive(Debug)]
struct Dir(Option<OwnedFd>);

impl Place {
    /// Opens it.
    ///
    /// # Errors
    /// Those of `openat(2)`: there is no such directory, or we may not read it.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self::of(sys::open_dir(path)?))
    }

    /// This open directory.
    pub fn of(dir: OwnedFd) -> Self {
        Self { dir: Arc::new(Dir(Some(dir))) }
    }

    /// Makes a file.
    ///
    /// # Errors
    /// Those of `openat(2)`: no descriptor is left, or we may not write there.
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

impl AsFd for Place {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.0.as_ref().expect("it is there until it is dropped").as_fd()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        if let Some(dir) = self.0.take() {
            sys::close(dir);
        }
    }
}

/// A file that is being written. Dropped, it is gone.
#[derive(Debug)]
pub struct Temporary {
    place: Place,
    /// There until it is dropped.
    file: Option<OwnedFd>,
    /// Its name where it has to have one.
    hidden: Option<CString>,
    len: u64,
}

impl Temporary {
    /// How many bytes were written.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if none were.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends all of these.
    ///
    /// # Errors
    /// Those of `write(2)`: `ENOSPC` on a full disk. Part of them may have been written.
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

    /// Gives it a name in `dir`, which is on the same file system, unless there is one already.
    ///
    /// # Errors
    /// `EEXIST` when the name is taken; otherwise those of `linkat(2)` or `renameat2(2)`. The file
    /// is gone then.
    pub fn keep_new(self, dir: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        self.link(dir, name)
    }

    /// Gives it a name in `dir`, which is on the same file system. A file that has it already is
    /// replaced at once: whoever opens it finds all of the one or all of the other.
    ///
    /// # Errors
    /// `EISDIR` when it is the name of a directory; otherwise those of `linkat(2)` or
    /// `renameat2(2)`. The file is gone then, and what had the name still has it.
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
        self.file.as_ref().expect("it is there until it is dropped")
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
            let _ = sys::unlink_at(self.place.as_fd(), hidden); // nobody is there to be told
        }
    }
}

/// Begins with a dot, and with what nobody can foretell.
fn hidden_name() -> io::Result<CString> {
    let random = getrandom::u64().map_err(io::Error::other)?;
    Ok(CString::new(format!(".fulmar-{random:016x}")).expect("a number has no NUL"))
}

/// A file system says `EOPNOTSUPP`, a kernel that does not know the flag `EISDIR` or `EINVAL`
/// (`openat(2)`, "BUGS"); other systems have no such call.
fn is_unsupported(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, IsADirectory, Unsupported};
    matches!(error.kind(), Unsupported | IsADirectory | InvalidInput)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_sys::{Call, Ledger};
    use std::fs;

    struct Bench {
        folder: tempfile::TempDir,
        place: Place,
    }

    fn bench() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::open(folder.path()).unwrap();
        Bench { folder, place }
    }

    impl Bench {
        /// A file with `text`, nameless, or as where the file system cannot do that.
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
    fn a_file_is_seen_when_it_is_kept_and_not_before() {
        for is_nameless in [true, false] {
            let bench = bench();
            let file = bench.file(b"one", is_nameless);
            assert_eq!(bench.names().len(), usize::from(!is_nameless));
            file.keep_new(bench.place.as_fd(), c"a").unwrap();
            assert_eq!((bench.names(), bench.text("a")), (vec!["a".to_owned()], "one".to_owned()));
            let other = bench.file(b"two", is_nameless);
            let error = other.keep_new(bench.place.as_fd(), c"a").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!((bench.names(), bench.text("a")), (vec!["a".to_owned()], "one".to_owned()));
            bench.file(b"three", is_nameless).keep(bench.place.as_fd(), c"a").unwrap();
            assert_eq!(
                (bench.names(), bench.text("a")),
                (vec!["a".to_owned()], "three".to_owned())
            );
            bench.file(b"", is_nameless).keep(bench.place.as_fd(), c"b").unwrap();
            assert_eq!((bench.names().len(), bench.text("b")), (2, String::new()));
        }
    }

    #[test]
    fn a_file_system_without_nameless_files_is_known() {
        for (number, is_one) in [(95, true), (21, true), (22, true), (13, false), (28, false)] {
            let error = io::Error::from_raw_os_error(number);
            assert_eq!(is_unsupported(&error), is_one, "{error}");
        }
        assert!(is_unsupported(&io::ErrorKind::Unsupported.into()));
    }

    #[test]
    fn what_is_not_kept_is_gone() {
        for is_nameless in [true, false] {
            let bench = bench();
            drop(bench.file(b"x", is_nameless));
            fs::create_dir(bench.folder.path().join("d")).unwrap();
            let error = bench.file(b"x", is_nameless).keep(bench.place.as_fd(), c"d").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
            assert_eq!(bench.names(), ["d"]);
        }
    }

    #[test]
    fn a_new_file_costs_four_calls_and_another_two_more() {
        let bench = bench();
        for (linked, renamed) in [(1, 0), (2, 1)] {
            let before = Ledger::here();
            bench.file(b"x", true).keep(bench.place.as_fd(), c"a").unwrap();
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
        let place = Place::of(sys::open_dir(Path::new("/dev")).unwrap());
        let file = sys::open_write(place.as_fd(), c"full").unwrap();
        let mut file = Temporary { place, file: Some(file), hidden: None, len: 0 };
        let error = file.write_all(b"x").unwrap_err();
        assert_eq!((error.kind(), file.len()), (io::ErrorKind::StorageFull, 0));
    }
}
