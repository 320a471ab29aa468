//! Why a run cannot begin, or cannot continue.

use std::fmt;
use std::io;
use std::path::PathBuf;

use fulmar_client::BuildError;
use fulmar_names::OverrideError;
use fulmar_semantics::proxy::{ProxyError, VariableError};
use fulmar_tls::ConfigError;

/// Why a run cannot begin, or go on.
#[derive(Debug)]
#[non_exhaustive]
pub enum FetchError {
    /// A field cannot be sent.
    Header(BuildError),
    /// What was given as addresses of a host is not of their form.
    Resolve(String, OverrideError),
    /// The proxy that was given is none.
    Proxy(ProxyError),
    /// A proxy that the environment names is none.
    ProxyVariable(VariableError),
    /// The certificates that were given cannot be used.
    Tls(ConfigError),
    /// The output directory cannot be used.
    Dir(PathBuf, io::Error),
    /// The journal cannot be used.
    Journal(PathBuf, io::Error),
    /// The list cannot be read.
    List(PathBuf, io::Error),
    /// Records cannot be written.
    Records(PathBuf, io::Error),
    /// The system lacks threads, memory or descriptors.
    Loop(io::Error),
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(error) => error.fmt(f),
            Self::Resolve(text, error) => write!(f, "addresses of a host, {text:?}: {error}"),
            Self::Proxy(error) => write!(f, "the proxy: {error}"),
            Self::ProxyVariable(error) => error.fmt(f),
            Self::Tls(error) => error.fmt(f),
            Self::Dir(path, error) => {
                write!(f, "the output directory {}: {error}", path.display())
            }
            Self::Journal(path, error) if error.kind() == io::ErrorKind::WouldBlock => {
                write!(f, "the journal {}: another run uses it", path.display())
            }
            Self::Journal(path, error) => write!(f, "the journal {}: {error}", path.display()),
            Self::List(path, error) => write!(f, "the list {}: {error}", path.display()),
            Self::Records(path, error) => write!(f, "the records {}: {error}", path.display()),
            Self::Loop(error) => write!(f, "cannot run: {error}"),
        }
    }
}

impl std::error::Error for FetchError {}
