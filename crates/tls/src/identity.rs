//! A certificate with its key, and where they are.

use std::fmt;
use std::path::{Path, PathBuf};

use bytes::Bytes;

/// A certificate and its private key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The certificate, followed by the intermediate certificates.
    pub cert: Pem,
    /// The private key, not encrypted.
    pub key: Pem,
    /// Server names that select this certificate, in lower case; empty: the names in the
    /// certificate. `*.` matches any one label. A name with the prefix `!` is excluded.
    pub names: Vec<String>,
}

impl Identity {
    /// From two files.
    pub fn files(cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self::new(Pem::File(cert.into()), Pem::File(key.into()))
    }

    /// For the names in the certificate.
    pub fn new(cert: Pem, key: Pem) -> Self {
        Self { cert, key, names: Vec::new() }
    }
}

/// The location of PEM data (RFC 7468).
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Pem {
    /// A file. It is read when TLS is configured, and again on reload.
    File(PathBuf),
    /// A file that was already read, with its content. It is not read again.
    Read(PathBuf, Bytes),
    /// Data in memory.
    Bytes(Bytes),
}

impl Pem {
    /// The path of the file, if it is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) | Self::Read(path, _) => Some(path),
            Self::Bytes(_) => None,
        }
    }
}

impl From<PathBuf> for Pem {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

impl From<&Path> for Pem {
    fn from(path: &Path) -> Self {
        Self::File(path.to_owned())
    }
}

/// For messages: without the content, which may be a key.
impl fmt::Display for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) | Self::Read(path, _) => write!(f, "{}", path.display()),
            Self::Bytes(bytes) => write!(f, "{} bytes of PEM", bytes.len()),
        }
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pem({self})")
    }
}
