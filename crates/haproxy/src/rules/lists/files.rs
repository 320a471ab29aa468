//! What a configuration refers to, while it is read.

use std::env;
use std::fmt;
use std::io;

use super::Lists;

/// Reads what a configuration refers to, while it is read itself.
pub trait Files: fmt::Debug {
    /// The bytes of the file with this name.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;

    /// Where lists are kept that an operator may change; nowhere, if nothing is said.
    fn lists(&self) -> Lists {
        Lists::default()
    }

    /// Where what is compiled stands: the file of the configuration, and the line.
    fn place(&self) -> (String, u32) {
        Default::default()
    }

    /// The value of an environment variable.
    fn environment(&self, name: &str) -> Option<String> {
        env::var(name).ok()
    }
}

/// There are no files.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _path: &str) -> io::Result<Vec<u8>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "no files can be read here"))
    }
}
