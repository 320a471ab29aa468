//! Files to be served.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use tempfile::TempDir;

/// A directory with a neighbour that must not be served; removed when dropped.
#[derive(Debug)]
pub struct Tree {
    dir: TempDir,
}

impl Tree {
    /// Empty, except for the neighbour: `../secret.txt`, relative to the root.
    ///
    /// # Panics
    /// The disk is full.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::write(dir.path().join("secret.txt"), SECRET).expect("a file");
        fs::create_dir(dir.path().join("root")).expect("a directory");
        Self { dir }
    }

    /// The directory to serve.
    pub fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// A place beside it.
    pub fn turn_while(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file with an old modification time, so that the time identifies its content.
    ///
    /// # Panics
    /// The disk is full.
    pub fn file(&self, name: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root().join(Path::new(OsStr::from_bytes(name.as_ref())));
        fs::create_dir_all(path.parent().expect("it is below the root")).expect("a directory");
        fs::write(&path, bytes).expect("a file");
        let file = fs::File::options().write(true).open(&path).expect("it was just written");
        file.set_modified(UNIX_EPOCH + Duration::from_secs(MODIFIED)).expect("it is ours");
        path
    }
}

impl Default for Tree {
    fn default() -> Self {
        Self::new()
    }
}

/// Bytes without a pattern, the same every time.
pub fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ len as u64;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        state.to_be_bytes()[0]
    };
    (0..len).map(|_| next()).collect()
}

/// A name as it is in a URL: every byte with a special meaning is escaped.
pub fn encode(name: impl AsRef<[u8]>) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let encode = |byte: &u8| match *byte {
        byte if plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    name.as_ref().iter().map(encode).collect()
}

/// The name behind an escaped one.
///
/// # Panics
/// It is not well escaped.
pub fn decode(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            out.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(&rest[..2]).expect("two digits");
        out.push(u8::from_str_radix(digits, 16).expect("two digits"));
        rest = &rest[2..];
    }
    out
}

/// The content of a file that must never be served.
pub const SECRET: &str = "the neighbour's secret\n";
/// When files were last changed: Sun, 06 Nov 1994 08:49:37 GMT.
pub const MODIFIED: u64 = 784_111_777;
/// The same, as HTTP writes it.
pub const MODIFIED_TEXT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
