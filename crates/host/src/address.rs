//! Where a listener is found.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use fulmar_sys as sys;

/// Where a listener is found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// An address and a port.
    Tcp(SocketAddr),
    /// The path of a Unix socket, or a name in the abstract namespace after an `@`.
    Unix(PathBuf),
}

impl Address {
    /// Where `fd` is bound to.
    pub(crate) fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        match sys::local_address(fd)? {
            sys::UNNAMED => match sys::local_path(fd) {
                Ok(path) => Ok(Self::Unix(path)),
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    Err(io::Error::new(error.kind(), "the socket is bound to nothing"))
                }
                Err(error) => Err(error),
            },
            address => Ok(Self::Tcp(address)),
        }
    }

    /// The address, unless it is a Unix socket.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    /// The file, if there is one.
    pub(crate) fn file(&self) -> Option<&PathBuf> {
        match self {
            Self::Unix(path) if !path.as_os_str().as_encoded_bytes().starts_with(b"@") => {
                Some(path)
            }
            Self::Unix(_) | Self::Tcp(_) => None,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
