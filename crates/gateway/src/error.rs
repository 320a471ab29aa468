//! Errors at the start of a proxy.

use std::error;
use std::fmt;
use std::io;

use fulmar_haproxy::Position;
use fulmar_haproxy::model::LogAddress;
use fulmar_tls::ConfigError;

/// Why a proxy did not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// No frontend has an enabled `bind` line.
    NoListener,
    /// The address of a `bind` line cannot be bound.
    Bind {
        /// Position of the line.
        place: Position,
        /// Its frontend.
        frontend: String,
        /// The address.
        address: String,
        /// The cause.
        error: io::Error,
    },
    /// The certificates of a `bind` line cannot be used.
    Tls {
        /// Position of the line.
        place: Position,
        /// Its frontend.
        frontend: String,
        /// The cause.
        error: Box<ConfigError>,
    },
    /// The TLS settings of a server cannot be used.
    ServerTls {
        /// Position of the line.
        place: Position,
        /// Names of the backend and the server.
        server: (String, String),
        /// The cause.
        reason: String,
    },
    /// A log cannot be opened.
    Log {
        /// Its address.
        to: LogAddress,
        /// The cause.
        error: io::Error,
    },
    /// The limit on descriptors cannot be read or raised.
    Descriptors(io::Error),
    /// `ulimit-n` exceeds the possible limit on descriptors.
    TooFewDescriptors {
        /// The value of `ulimit-n`.
        wanted: u64,
        /// The limit.
        limit: u64,
    },
    /// Not even one connection fits below the limit on descriptors.
    NoDescriptors {
        /// The limit.
        limit: u64,
        /// The minimum.
        needed: usize,
    },
    /// Privileges cannot be dropped as configured.
    Privileges {
        /// The failed operation.
        what: &'static str,
        /// The cause.
        error: io::Error,
    },
    /// Signals, or the end of the master, cannot be received.
    Signals(io::Error),
    /// Threads, or the hand-over of listeners.
    Host(fulmar_host::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoListener => {
                f.write_str("no <bind> line found: no enabled frontend has a listener")
            }
            Self::Bind { place, frontend, address, error } => write!(
                f,
                "Binding [{}:{}] for frontend {frontend}: cannot bind socket ({}) for [{address}]",
                place.file,
                place.line,
                reason(error)
            ),
            Self::Tls { place, frontend, error } => {
                write!(
                    f,
                    "Binding [{}:{}] for frontend {frontend}: {error}",
                    place.file, place.line
                )
            }
            Self::ServerTls { place, server: (backend, name), reason } => {
                write!(f, "Server {backend}/{name} [{}:{}]: {reason}", place.file, place.line)
            }
            Self::Log { to, error } => {
                let to = match to {
                    LogAddress::Udp(address) => address.to_string(),
                    LogAddress::Unix(path) => path.display().to_string(),
                    LogAddress::Descriptor(number) => format!("fd@{number}"),
                };
                write!(f, "cannot open log {to}: {error}")
            }
            Self::Descriptors(error) => {
                write!(f, "cannot raise FD limit: {error}")
            }
            Self::TooFewDescriptors { wanted, limit } => {
                write!(f, "Cannot raise FD limit to {wanted}, limit is {limit}.")
            }
            Self::NoDescriptors { limit, needed } => write!(
                f,
                "too many open files: the limit is {limit} (ulimit -Hn), and at least {needed} are \
                 needed; raise the limit"
            ),
            Self::Privileges { what, error } => write!(f, "cannot {what}: {error}"),
            Self::Signals(error) => write!(f, "cannot receive signals: {error}"),
            Self::Host(error) => error.fmt(f),
        }
    }
}

/// The text of the C library, without the error number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::NoListener
            | Self::NoDescriptors { .. }
            | Self::TooFewDescriptors { .. }
            | Self::ServerTls { .. } => None,
            Self::Bind { error, .. }
            | Self::Log { error, .. }
            | Self::Descriptors(error)
            | Self::Signals(error)
            | Self::Privileges { error, .. } => Some(error),
            Self::Tls { error, .. } => Some(&**error),
            Self::Host(error) => Some(error),
        }
    }
}

impl From<fulmar_host::Error> for Error {
    fn from(error: fulmar_host::Error) -> Self {
        Self::Host(error)
    }
}
