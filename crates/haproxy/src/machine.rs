//! What a configuration asks of the machine it is read on: files, and addresses of names.

use std::fs;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

/// Files and names. Tests have their own, in memory.
pub trait Machine: std::fmt::Debug {
    /// The bytes of a file.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Names of what is in a directory, in no order; `None` if it is no directory.
    ///
    /// # Errors
    /// It does not exist, or cannot be read.
    fn list(&self, path: &Path) -> io::Result<Option<Vec<PathBuf>>>;

    /// Addresses of a host, in the order in which they are to be used.
    ///
    /// # Errors
    /// It has none, or nobody knows.
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The machine that we are on.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisMachine;

impl Machine for ThisMachine {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn list(&self, path: &Path) -> io::Result<Option<Vec<PathBuf>>> {
        if !fs::metadata(path)?.is_dir() {
            return Ok(None);
        }
        let entries = fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path()));
        entries.collect::<io::Result<Vec<_>>>().map(Some)
    }

    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        (name, 0).to_socket_addrs().map(|found| found.map(|address| address.ip()).collect())
    }
}

/// What this machine calls itself.
pub(crate) fn host_name(machine: &dyn Machine) -> String {
    let read = machine.read("/proc/sys/kernel/hostname".as_ref());
    let name = read.map(|name| String::from_utf8_lossy(&name).trim().to_owned());
    name.unwrap_or_else(|_| "localhost".to_owned())
}
