//! Access of a configuration to its machine: files and name resolution.

use std::fs;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

/// Files and name resolution. Tests have an implementation in memory.
pub trait Machine: std::fmt::Debug {
    /// The contents of a file.
    ///
    /// # Errors
    /// The file cannot be read.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The entries of a directory, unordered; `None` if it is not a directory.
    ///
    /// # Errors
    /// It does not exist, or cannot be read.
    fn list(&self, path: &Path) -> io::Result<Option<Vec<PathBuf>>>;

    /// The addresses of a host, in order of preference.
    ///
    /// # Errors
    /// The host has no address, or the lookup failed.
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The machine of this process.
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

/// The host name of this machine.
pub(crate) fn host_name(machine: &dyn Machine) -> String {
    let read = machine.read("/proc/sys/kernel/hostname".as_ref());
    let name = read.map(|name| String::from_utf8_lossy(&name).trim().to_owned());
    name.unwrap_or_else(|_| "localhost".to_owned())
}
