//! Why a run cannot begin, or cannot continue.

use std::fmt;
use std::io;
use std::path::PathBuf;

use fulmar_client::BuildError;
use fulmar_names::OverrideError;
use fulmar_semantics::proxy::{ProxyError, VariableError};
use fulmar_tls::ConfigError;

/// Why a run cannot start or continue.
#[derive(Debug)]
#[non_exhaustive]
pub enum FetchError {
    /// An invalid header field.
    Header(BuildError),
    /// Invalid addresses of a host.
    Resolve(String, OverrideError),
    /// An invalid proxy.
    Proxy(ProxyError),
    /// An invalid proxy in the environment.
    ProxyVariable(VariableError),
    /// Unusable certificates.
    Tls(ConfigError),
    /// The output directory cannot be used.
    Dir(PathBuf, io::Error),
    /// The journal cannot be used.
    Journal(PathBuf, io::Error),
    /// The list cannot be read.
    List(PathBuf, io::Error),
    /// Records cannot be written.
    Records(PathBuf, io::Error),
    /// Threads, memory or descriptors are exhausted.
    Loop(io::Error),
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(error) => error.fmt(f),
            Self::Resolve(text, error) => write!(f, "addresses {text:?}: {error}"),
            Self::Proxy(error) => write!(f, "proxy: {error}"),
            Self::ProxyVariable(error) => error.fmt(f),
            Self::Tls(error) => error.fmt(f),
            Self::Dir(path, error) => {
                write!(f, "the output directory {}: {error}", path.display())
            }
            Self::Journal(path, error) if error.kind() == io::ErrorKind::WouldBlock => {
                write!(
                    f,
                    "the journal {}: locked by another 'fulmar get'; wait until it ends, or choose \
                     another file with --journal",
                    path.display()
                )
            }
            Self::Journal(path, error) => write!(f, "the journal {}: {error}", path.display()),
            Self::List(path, error) => write!(f, "the list {}: {error}", path.display()),
            Self::Records(path, error) => write!(f, "the records {}: {error}", path.display()),
            Self::Loop(error) => write!(f, "cannot run: {error}"),
        }
    }
}

impl std::error::Error for FetchError {}
