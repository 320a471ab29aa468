//! Session keys, written for tools that decrypt traffic (NSS Key Log Format).

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex};

use rustls::KeyLog;

/// An open key log file. Cheap to clone; clones share the file, and only they are equal.
#[derive(Clone, Debug)]
pub struct KeyLogFile(Arc<Mutex<File>>);

impl KeyLogFile {
    /// Opens a file, to which lines are appended. A new one is readable by its owner only.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, OWNER_ONLY);
        let file = options.append(true).create(true).open(path)?;
        Ok(Self(Arc::new(Mutex::new(file))))
    }
}

impl PartialEq for KeyLogFile {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for KeyLogFile {}

impl Hash for KeyLogFile {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl KeyLog for KeyLogFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let mut line = label.to_owned();
        for bytes in [client_random, secret] {
            line.push(' ');
            for byte in bytes {
                write!(line, "{byte:02x}").expect("writing to a String cannot fail");
            }
        }
        line.push('\n');
        if let Ok(mut file) = self.0.lock() {
            // A write error cannot be reported here and does not affect the connection.
            let _ = file.write_all(line.as_bytes());
        }
    }
}

/// File mode (`chmod(2)`): the keys decrypt the traffic, so only the owner may read them.
#[cfg(unix)]
const OWNER_ONLY: u32 = 0o600;
