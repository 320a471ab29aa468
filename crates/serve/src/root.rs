//! The directory that is served: opens names below it, and nothing else.
//!
//! Two ways, chosen once: `openat2` with `RESOLVE_BENEATH`, where the kernel follows symbolic
//! links as long as they stay inside; or, where it cannot (Linux before 5.6, some seccomp
//! profiles), one `openat` per segment with `O_NOFOLLOW`, where every symbolic link is refused.
//! An absolute link is refused in both, even if it points back inside. The walk also needs read
//! permission on every directory on the way, not only on the last.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use fulmar_sys as sys;
use fulmar_sys::{FileInfo, FileKind};

/// How names are kept below the root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lookup {
    /// By the kernel if it can, otherwise by the walk.
    #[default]
    Probe,
    /// By the walk.
    Walk,
}

/// An open directory, below which names are looked up.
#[derive(Debug)]
pub struct Root {
    dir: OwnedFd,
    method: Method,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Kernel,
    Walk,
}

/// Why a name could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no such file or directory, or none that may be reached by this name: a link
    /// leads out of the root, or to itself, or the name is too long.
    NotFound,
    /// We may not read it.
    Forbidden,
    /// Neither this process nor the machine has a descriptor or memory left.
    Exhausted,
    /// The disk, or the file system on it.
    Broken,
}

impl Root {
    /// Opens the directory and, with [`Lookup::Probe`], asks the kernel what it can do: from here
    /// on `EPERM` is about a file.
    ///
    /// # Errors
    /// Those of `openat(2)`: there is no such directory, or we may not read it.
    pub fn open(path: &Path, lookup: Lookup) -> io::Result<Self> {
        let dir = sys::open_dir(path)?;
        let method = match lookup {
            Lookup::Probe => probe(&dir)?,
            Lookup::Walk => Method::Walk,
        };
        Ok(Self { dir, method })
    }

    /// True if the kernel holds names below the root, and links inside it work.
    pub fn follows_links(&self) -> bool {
        self.method == Method::Kernel
    }

    /// Opens a file or directory for reading and says what it is. A name with a slash at the end
    /// is that of a directory. Never blocks on a pipe, and finds none.
    ///
    /// # Errors
    /// The variant says why.
    pub fn find(&self, name: &CStr) -> Result<(OwnedFd, FileInfo), OpenError> {
        let fd = match self.method {
            Method::Kernel => self.open_beneath(name),
            Method::Walk => self.walk(name),
        }?;
        match sys::fstat(fd.as_fd()) {
            Ok(info) if is_servable(name, info.kind) => Ok((fd, info)),
            Ok(_) => {
                sys::close(fd);
                Err(OpenError::NotFound)
            }
            Err(e) => {
                sys::close(fd);
                Err(OpenError::from(&e))
            }
        }
    }

    /// `EAGAIN`: something was renamed while a link with `..` in it was followed, and the kernel
    /// could not be sure (`openat2(2)`). Once more is usually enough.
    fn open_beneath(&self, name: &CStr) -> Result<OwnedFd, OpenError> {
        for _ in 0..ATTEMPTS_MAX {
            match sys::open_beneath(self.dir.as_fd(), name) {
                Err(e) if is_worth_repeating(&e) => {}
                result => return result.map_err(|e| OpenError::from(&e)),
            }
        }
        Err(OpenError::NotFound)
    }

    fn walk(&self, name: &CStr) -> Result<OwnedFd, OpenError> {
        let mut here: Option<OwnedFd> = None;
        for segment in name.to_bytes().split(|b| *b == b'/').filter(|s| !s.is_empty()) {
            let next = open_segment(here.as_ref().unwrap_or(&self.dir), segment);
            if let Some(dir) = here.take() {
                sys::close(dir);
            }
            here = Some(next?);
        }
        here.ok_or(OpenError::NotFound)
    }
}

fn is_servable(name: &CStr, kind: FileKind) -> bool {
    match kind {
        FileKind::Directory => true,
        FileKind::Regular => !name.to_bytes().ends_with(b"/"),
        FileKind::Link | FileKind::Other => false,
    }
}

fn open_segment(dir: &OwnedFd, segment: &[u8]) -> Result<OwnedFd, OpenError> {
    if segment == b".." {
        return Err(OpenError::NotFound);
    }
    let segment = CString::new(segment).expect("a piece of a C string has no NUL");
    sys::open_step(dir.as_fd(), &segment).map_err(|e| OpenError::from(&e))
}

/// `ENOSYS` is an old kernel, `EPERM` a sandbox: opening the root itself in itself, which is
/// open already, has no other reason to be forbidden.
fn probe(dir: &OwnedFd) -> io::Result<Method> {
    match sys::open_beneath(dir.as_fd(), c".") {
        Ok(fd) => {
            sys::close(fd);
            Ok(Method::Kernel)
        }
        Err(e) if is_refused(&e) => Ok(Method::Walk),
        Err(e) => Err(e),
    }
}

fn is_refused(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(ENOSYS | EPERM))
}

fn is_worth_repeating(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl From<&io::Error> for OpenError {
    fn from(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(ENOENT | ENOTDIR | ENAMETOOLONG | ELOOP | EXDEV | ENXIO | ENODEV | EINVAL) => {
                Self::NotFound
            }
            Some(EACCES | EPERM) => Self::Forbidden,
            Some(EMFILE | ENFILE | ENOMEM) => Self::Exhausted,
            _ => Self::Broken,
        }
    }
}

const ATTEMPTS_MAX: usize = 4;

/// The numbers of Linux (`asm-generic/errno-base.h`, `asm-generic/errno.h`). The last three that
/// are not about names: a socket or a device without a driver cannot be opened.
const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const ENXIO: i32 = 6;
const ENOMEM: i32 = 12;
const EACCES: i32 = 13;
const EXDEV: i32 = 18;
const ENODEV: i32 = 19;
const ENOTDIR: i32 = 20;
const EINVAL: i32 = 22;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ENAMETOOLONG: i32 = 36;
const ENOSYS: i32 = 38;
const ELOOP: i32 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_apart() {
        for (number, error) in [
            (ENOENT, OpenError::NotFound),
            (EXDEV, OpenError::NotFound),
            (ELOOP, OpenError::NotFound),
            (ENXIO, OpenError::NotFound),
            (EACCES, OpenError::Forbidden),
            (EMFILE, OpenError::Exhausted),
            (5, OpenError::Broken),
        ] {
            assert_eq!(OpenError::from(&io::Error::from_raw_os_error(number)), error);
        }
    }

    #[test]
    fn only_an_old_kernel_or_a_sandbox_makes_us_walk() {
        assert!(is_refused(&io::Error::from_raw_os_error(ENOSYS)));
        assert!(is_refused(&io::Error::from_raw_os_error(EPERM)));
        assert!(!is_refused(&io::Error::from_raw_os_error(EACCES)));
        assert!(is_worth_repeating(&io::Error::from_raw_os_error(11)));
    }
}
