//! Files of a configuration, read while it is parsed.

use std::env;
use std::fmt;
use std::io;

use super::Lists;

/// Reads files of a configuration while it is parsed.
pub trait ConfigFiles: fmt::Debug {
    /// The contents of a file.
    ///
    /// # Errors
    /// The file cannot be read.
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;

    /// The store of lists that can be changed at run time; by default a temporary one.
    fn lists(&self) -> Lists {
        Lists::default()
    }

    /// The current configuration file and line.
    fn place(&self) -> (String, u32) {
        Default::default()
    }

    /// The value of an environment variable.
    fn environment(&self, name: &str) -> Option<String> {
        env::var(name).ok()
    }
}

/// No files.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl ConfigFiles for NoFiles {
    fn read(&self, _path: &str) -> io::Result<Vec<u8>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "files are not supported here"))
    }
}
