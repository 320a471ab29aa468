//! The keys of sessions, written for tools that read traffic (NSS Key Log Format).

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Mutex;

use rustls::KeyLog;

/// A file of keys; more are appended.
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
                write!(line, "{byte:02x}").expect("a String takes everything");
            }
        }
        line.push('\n');
        if let Ok(mut file) = self.0.lock() {
            // There is nobody to tell, and the connection is none the worse for it.
            let _ = file.write_all(line.as_bytes());
        }
    }
}

/// `chmod(2)`: who has the keys has the traffic.
#[cfg(unix)]
const OWNER_ONLY: u32 = 0o600;
