//! Compressed versions of files: `NAME.br`, `NAME.zst` and `NAME.gz` next to `NAME`.
//!
//! A version is used if it is a regular file and smaller than the original. Modification times do
//! not matter, as with nginx's `gzip_static`: `cp` and container images do not keep them, and
//! `brotli -k` keeps whole seconds only. A version that is older by whole seconds is reported
//! ([`OutdatedHook`]): the original may have been edited since.

use std::ffi::CString;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use fulmar_semantics::coding::ContentCoding;
use fulmar_sys as sys;
use fulmar_sys::{FileInfo, FileKind};

use crate::path::Name;
use crate::root::{OpenError, Root};

/// A compressed version of a file, open.
#[derive(Debug)]
pub struct Precompressed {
    /// Its coding.
    pub coding: ContentCoding,
    /// The open file.
    pub fd: OwnedFd,
    /// Its state.
    pub info: FileInfo,
}

impl Precompressed {
    /// True if it is at least a whole second older than the original. Tools that copy times may
    /// drop fractions.
    pub(crate) fn is_outdated(&self, original: &FileInfo) -> bool {
        self.info.modified.0 < original.modified.0
    }

    /// The name of the file.
    pub(crate) fn name(&self, original: &Name) -> Vec<u8> {
        let of_coding = EXTENSIONS.iter().find(|(_, coding)| *coding == self.coding);
        let extension = of_coding.map_or("", |(extension, _)| extension);
        [original.bytes(), extension.as_bytes()].concat()
    }
}

/// Called with the name of a compressed file that is older than its original, each time such a file
/// is loaded.
#[derive(Clone)]
pub struct OutdatedHook(Arc<OutdatedReport>);

type OutdatedReport = dyn Fn(&[u8]) + Send + Sync;

impl OutdatedHook {
    /// Calls `report` with the name below the root.
    pub fn new(report: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        Self(Arc::new(report))
    }

    pub(crate) fn call(&self, name: &[u8]) {
        (self.0)(name);
    }
}

impl fmt::Debug for OutdatedHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OutdatedHook")
    }
}

/// Finds the compressed versions of the file with this name.
///
/// # Errors
/// [`OpenError::Exhausted`]. A version with any other error is ignored.
pub fn find(
    root: &Root,
    name: &Name,
    original: &FileInfo,
) -> Result<Vec<Precompressed>, OpenError> {
    let mut found = Vec::new();
    if EXTENSIONS.iter().any(|(extension, _)| name.bytes().ends_with(extension.as_bytes())) {
        return Ok(found); // compressed files have no compressed versions
    }
    for (extension, coding) in EXTENSIONS {
        let path = CString::new([name.bytes(), extension.as_bytes()].concat());
        match root.find(&path.expect("a name has no NUL")) {
            Ok((fd, info)) if counts(&info, original) => {
                found.push(Precompressed { coding, fd, info });
            }
            Ok((fd, _)) => sys::close(fd),
            Err(OpenError::Exhausted) => {
                close(found);
                return Err(OpenError::Exhausted);
            }
            Err(_) => {}
        }
    }
    Ok(found)
}

/// Closes the files.
pub fn close(found: Vec<Precompressed>) {
    found.into_iter().for_each(|one| sys::close(one.fd));
}

fn counts(info: &FileInfo, original: &FileInfo) -> bool {
    info.kind == FileKind::Regular && info.len < original.len
}

const EXTENSIONS: [(&str, ContentCoding); 3] =
    [(".br", ContentCoding::Brotli), (".zst", ContentCoding::Zstd), (".gz", ContentCoding::Gzip)];
