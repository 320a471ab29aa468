//! The errors of a run.

use std::fmt;
use std::io;

use fulmar_client::{UrlError, UrlResolveError};
use fulmar_proto::UsageError;
use fulmar_tls::{ConfigError, TlsError};

use crate::options::OptionsError;

/// Why a run did not start, or did not reach a server.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// A setting makes no sense.
    Options(OptionsError),
    /// A URL cannot be requested.
    Target {
        /// The URL.
        url: String,
        /// What is wrong with it.
        cause: UrlError,
    },
    /// A file for TLS cannot be used.
    Tls(ConfigError),
    /// TLS cannot verify this host name.
    TlsHost {
        /// The host.
        host: String,
        /// What is wrong with it.
        cause: TlsError,
    },
    /// A host has no address.
    Resolve(UrlResolveError),
    /// A host has no address of the family of the source addresses.
    Family {
        /// The host.
        host: String,
    },
    /// A header field that is not valid.
    Header {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
    },
    /// The method, the target or a field is not valid.
    Request(UsageError),
    /// A thread or its resources could not be created.
    Thread(io::Error),
    /// The event loop failed.
    Loop(io::Error),
    /// No connection was established.
    Unreachable {
        /// The destination: host and port, or the Unix socket.
        to: String,
        /// The last error of the system.
        cause: Option<io::Error>,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Options(cause) => write!(f, "{cause}"),
            Self::Target { url, cause } => write!(f, "{url}: {cause}"),
            Self::Tls(cause) => write!(f, "{cause}"),
            Self::TlsHost { host, cause } => write!(f, "{host:?}: {cause}"),
            Self::Resolve(cause) => write!(f, "{cause}"),
            Self::Family { host } => {
                write!(f, "{host:?} has no address of the family of the source addresses")
            }
            Self::Header { name, value } => {
                write!(f, "{name:?}: {value:?} is not a header field")
            }
            Self::Request(cause) => write!(f, "the request cannot be made: {cause}"),
            Self::Thread(cause) => write!(f, "a thread cannot be started: {cause}"),
            Self::Loop(cause) => write!(f, "the event loop failed: {cause}"),
            Self::Unreachable { to, cause } => {
                write!(f, "nothing could be connected to {to}")?;
                match cause {
                    None => f.write_str(": the connects timed out"),
                    Some(cause) => write!(f, ": {cause}{}", hint(cause)),
                }
            }
        }
    }
}

fn hint(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::AddrNotAvailable => {
            " (no free source port, or an address of --bind that is not on this machine)"
        }
        _ if cause.raw_os_error() == Some(libc::EMFILE) => " (see ulimit -n)",
        _ => "",
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Options(cause) => Some(cause),
            Self::Target { cause, .. } => Some(cause),
            Self::Tls(cause) => Some(cause),
            Self::TlsHost { cause, .. } => Some(cause),
            Self::Resolve(cause) => Some(cause),
            Self::Request(cause) => Some(cause),
            Self::Thread(cause) | Self::Loop(cause) => Some(cause),
            Self::Unreachable { cause, .. } => cause.as_ref().map(|cause| cause as _),
            Self::Family { .. } | Self::Header { .. } => None,
        }
    }
}
