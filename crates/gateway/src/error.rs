//! Why a proxy did not start.

use std::error;
use std::fmt;
use std::io;

use fulmar_haproxy::Place;
use fulmar_haproxy::model::LogAddress;
use fulmar_tls::ConfigError;

/// Why a proxy did not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// There is no frontend that listens on anything.
    NoListener,
    /// It cannot listen where a `bind` line says.
    Bind {
        /// The line.
        place: Place,
        /// Its frontend.
        frontend: String,
        /// Where.
        address: String,
        /// Why not.
        error: io::Error,
    },
    /// A `bind` line's certificates cannot be used.
    Tls {
        /// The line.
        place: Place,
        /// Its frontend.
        frontend: String,
        /// Why not.
        error: Box<ConfigError>,
    },
    /// What a server's TLS needs cannot be used.
    ServerTls {
        /// Its line.
        place: Place,
        /// Its backend, and its name.
        server: (String, String),
        /// Why not.
        reason: String,
    },
    /// A log cannot be opened.
    Log {
        /// Which.
        to: LogAddress,
        /// Why not.
        error: io::Error,
    },
    /// The limit on descriptors cannot be asked for or raised at all.
    Descriptors(io::Error),
    /// There are fewer descriptors than `ulimit-n` wants.
    TooFewDescriptors {
        /// So many are wanted.
        wanted: u64,
        /// So many are allowed.
        limit: u64,
    },
    /// Not even one connection fits below the limit on descriptors.
    NoDescriptors {
        /// So many are allowed.
        limit: u64,
        /// So many are needed at least.
        needed: usize,
    },
    /// The process cannot give its privileges up as it was told.
    Privileges {
        /// What was tried.
        what: &'static str,
        /// Why not.
        error: io::Error,
    },
    /// Signals, or the end of the master, cannot be heard.
    Signals(io::Error),
    /// Threads, or the hand-over.
    Host(fulmar_host::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoListener => f.write_str(
                "there is nothing to listen on: no frontend has a 'bind' line that is not disabled",
            ),
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
                write!(f, "cannot open the log {to}: {error}")
            }
            Self::Descriptors(error) => {
                write!(f, "cannot raise the limit on open descriptors: {error}")
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
            Self::Signals(error) => write!(f, "cannot wait for signals: {error}"),
            Self::Host(error) => error.fmt(f),
        }
    }
}

/// As the C library words it, without the number.
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
