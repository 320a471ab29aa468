//! Session keys, written for tools that decrypt traffic (NSS Key Log Format).

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Mutex;

use rustls::KeyLog;

/// A key log file; lines are appended.
#[derive(Debug)]
pub(crate) struct KeyLogFile(Mutex<File>);

impl KeyLogFile {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, OWNER_ONLY);
        options.append(true).create(true).open(path).map(|file| Self(Mutex::new(file)))
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
