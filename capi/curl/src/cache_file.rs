//! The files of cookies, HSTS and alternative services: read as a whole, and rewritten so that a
//! reader sees the old or the new content.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// The content of a file; `-` is the standard input.
pub(crate) fn read_cache(name: &[u8]) -> io::Result<Vec<u8>> {
    if name == b"-" {
        let mut text = Vec::new();
        io::stdin().lock().read_to_end(&mut text)?;
        return Ok(text);
    }
    fs::read(OsStr::from_bytes(name))
}

/// Replaces a file. A regular one is replaced by renaming a new one, which has the same permissions
/// if it has the same owner; anything else, such as a device, is written to.
pub(crate) fn write_cache(name: &[u8], text: &[u8]) -> io::Result<()> {
    let path = Path::new(OsStr::from_bytes(name));
    let Some(known) = fs::metadata(path).ok().filter(fs::Metadata::is_file) else {
        return File::create(path)?.write_all(text);
    };
    let suffix = RandomState::new().hash_one(name) & 0xffff_ffff;
    let temporary = [name, format!(".{suffix:08x}.tmp").as_bytes()].concat();
    let temporary = Path::new(OsStr::from_bytes(&temporary));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(temporary)?;
    let written = (|| {
        let made = file.metadata()?;
        if (made.uid(), made.gid()) == (known.uid(), known.gid()) {
            file.set_permissions(Permissions::from_mode(known.mode() & 0o7777))?;
        }
        file.write_all(text)?;
        fs::rename(temporary, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(temporary); // the first error counts
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that ends with the test.
    struct TestFolder(std::path::PathBuf);

    impl TestFolder {
        fn new() -> Self {
            let name = format!("fulmar-cache-{:x}", RandomState::new().hash_one(0));
            let path = std::env::temp_dir().join(name);
            fs::create_dir(&path).expect("a new directory");
            Self(path)
        }

        fn names(&self) -> usize {
            fs::read_dir(&self.0).expect("readable").count()
        }
    }

    impl Drop for TestFolder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn files_are_replaced_and_keep_their_permissions() {
        let folder = TestFolder::new();
        let path = folder.0.join("jar");
        let name = path.as_os_str().as_bytes();
        write_cache(name, b"first").expect("a new file");
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("ours");
        let inode = fs::metadata(&path).expect("it exists").ino();
        write_cache(name, b"second").expect("written");
        assert_eq!(read_cache(name).expect("readable"), b"second");
        let metadata = fs::metadata(&path).expect("it exists");
        assert_eq!(metadata.mode() & 0o7777, 0o640);
        assert_ne!(metadata.ino(), inode, "another file took its place");
        assert_eq!(folder.names(), 1);
    }

    #[test]
    fn what_is_no_file_is_written_to() {
        let folder = TestFolder::new();
        write_cache(b"/dev/null", b"text").expect("a device");
        assert!(write_cache(folder.0.as_os_str().as_bytes(), b"text").is_err(), "a directory");
        assert!(write_cache(b"", b"text").is_err());
        assert_eq!(folder.names(), 0);
    }
}
