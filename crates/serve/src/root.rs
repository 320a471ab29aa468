//! The served directory: opens names below it, and nothing else.
//!
//! There are two methods, selected once. With `openat2` and `RESOLVE_BENEATH` the kernel follows
//! symbolic links inside the root. Where that is unavailable (Linux before 5.6, some seccomp
//! profiles), the walk makes one `openat` per segment with `O_NOFOLLOW` and refuses every symbolic
//! link. Both refuse absolute links, even if they point back inside. The walk also needs read
//! permission on every directory on the way, not only on the last.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use fulmar_sys as sys;
use fulmar_sys::{FileInfo, FileKind};

/// How names are confined to the root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lookup {
    /// By the kernel if possible, otherwise by the walk.
    #[default]
    Probe,
    /// By the walk.
    Walk,
}

/// An open directory, below which names are looked up.
#[derive(Debug)]
pub struct Root {
    dir: OwnedFd,
    method: LookupMethod,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LookupMethod {
    Kernel,
    Walk,
}

/// Why a name could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// No such file or directory, or the name cannot be resolved: a link leads out of the root or
    /// to itself, or the name is too long.
    NotFound,
    /// The process has no read permission.
    Forbidden,
    /// Descriptors or memory of the process or of the machine are exhausted.
    Exhausted,
    /// An error of the disk or of its file system.
    Broken,
}

impl Root {
    /// Opens the directory and, with [`Lookup::Probe`], checks the kernel's abilities. From then
    /// on `EPERM` concerns a file.
    ///
    /// # Errors
    /// Those of `openat(2)`: the directory does not exist or is not readable.
    pub fn open(path: &Path, lookup: Lookup) -> io::Result<Self> {
        let dir = sys::open_dir(path)?;
        let method = match lookup {
            Lookup::Probe => probe(&dir)?,
            Lookup::Walk => LookupMethod::Walk,
        };
        Ok(Self { dir, method })
    }

    /// True if the kernel confines names to the root, so that links inside it work.
    pub fn follows_links(&self) -> bool {
        self.method == LookupMethod::Kernel
    }

    /// Opens a file or directory for reading, and returns its state. A name with a slash at the end
    /// is that of a directory. Pipes are never found, and never block.
    ///
    /// # Errors
    /// The variant is the cause.
    pub fn find(&self, name: &CStr) -> Result<(OwnedFd, FileInfo), OpenError> {
        let fd = match self.method {
            LookupMethod::Kernel => self.open_beneath(name),
            LookupMethod::Walk => self.walk(name),
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

    /// `EAGAIN`: a file was renamed while a link with `..` was followed, and the kernel could not
    /// verify the path (`openat2(2)`). A retry usually succeeds.
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

/// `ENOSYS` means an old kernel, `EPERM` a sandbox: opening the root relative to itself cannot fail
/// with `EPERM` otherwise, because it is open already.
fn probe(dir: &OwnedFd) -> io::Result<LookupMethod> {
    match sys::open_beneath(dir.as_fd(), c".") {
        Ok(fd) => {
            sys::close(fd);
            Ok(LookupMethod::Kernel)
        }
        Err(e) if is_refused(&e) => Ok(LookupMethod::Walk),
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

/// Error numbers of Linux (`asm-generic/errno-base.h`, `asm-generic/errno.h`). The last three do
/// not concern names: a socket or a device without a driver cannot be opened.
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
    fn errors_are_distinguished() {
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
    fn the_walk_is_used_with_an_old_kernel_or_a_sandbox() {
        assert!(is_refused(&io::Error::from_raw_os_error(ENOSYS)));
        assert!(is_refused(&io::Error::from_raw_os_error(EPERM)));
        assert!(!is_refused(&io::Error::from_raw_os_error(EACCES)));
        assert!(is_worth_repeating(&io::Error::from_raw_os_error(11)));
    }
}
