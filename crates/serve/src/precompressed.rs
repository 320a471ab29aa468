//! What a file was compressed to beforehand: `NAME.br`, `NAME.zst` and `NAME.gz` beside `NAME`.
//!
//! One counts if it is a file, smaller than the one it is named for, and not older: who edits a
//! file and does not compress it again has it sent as it is. Tools that keep times (`gzip -k`) leave
//! both equally old.

use std::ffi::CString;
use std::os::fd::OwnedFd;

use fulmar_semantics::coding::Coding;
use fulmar_sys as sys;
use fulmar_sys::{FileInfo, FileKind};

use crate::path::Name;
use crate::root::{OpenError, Root};

/// What a file was compressed to, open.
#[derive(Debug)]
pub struct Precompressed {
    /// How.
    pub coding: Coding,
    /// For reading.
    pub fd: OwnedFd,
    /// What it is.
    pub info: FileInfo,
}

/// Looks for what the file of this name was compressed to.
///
/// # Errors
/// [`OpenError::Exhausted`]; whatever else is wrong with one, it is as if it were not there.
pub fn find(
    root: &Root,
    name: &Name,
    original: &FileInfo,
) -> Result<Vec<Precompressed>, OpenError> {
    let mut found = Vec::new();
    if EXTENSIONS.iter().any(|(extension, _)| name.bytes().ends_with(extension.as_bytes())) {
        return Ok(found); // nobody compresses twice
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

/// Closes them.
pub fn close(found: Vec<Precompressed>) {
    found.into_iter().for_each(|one| sys::close(one.fd));
}

fn counts(info: &FileInfo, original: &FileInfo) -> bool {
    info.kind == FileKind::Regular && info.len < original.len && info.modified >= original.modified
}

const EXTENSIONS: [(&str, Coding); 3] =
    [(".br", Coding::Brotli), (".zst", Coding::Zstd), (".gz", Coding::Gzip)];
