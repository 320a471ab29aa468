//! The errors of transfers and of building requests.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::net::SocketAddr;

use fulmar_engine::ResolveError;
use fulmar_proto::h2::ErrorCode;
use fulmar_proto::{LayerError, PeerError, UsageError};

/// Why a transfer failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The host's name has no address.
    Resolve(ResolveError),
    /// The proxy's name cannot be resolved.
    ResolveProxy(ProxyResolveError),
    /// No address of the host accepted a connection.
    Connect(ConnectError),
    /// TLS or a proxy's tunnel failed. The source has the cause.
    Layer(LayerError),
    /// The connection to a proxy failed before its tunnel was open.
    Proxy(io::Error),
    /// The server broke the protocol.
    Peer(PeerError),
    /// HTTP/2: the stream was reset by the server (RFC 9113 §6.4). A malformed response is
    /// [`Error::Peer`].
    Reset(ErrorCode),
    /// The connection was closed before the response began.
    Closed,
    /// The connection failed.
    Io(io::Error),
    /// A deadline passed.
    TimedOut(Waiting),
    /// The transfer was slower than the request allows.
    TooSlow,
    /// The body is longer than the request allows.
    TooLarge,
    /// The request broke the contract: its body differs from its declared length, for example.
    Usage(UsageError),
    /// The body is a stream and was sent once. It cannot be sent again after a redirect, a
    /// The request needs a tunnel of the application ([`crate::Options::tunnel`]), and there is no
    /// idle connection of it.
    NoTunnel,
    /// challenge or a lost connection.
    NotReplayable,
    /// Too many redirects, or one that is not allowed.
    Redirect(fulmar_semantics::redirect::RedirectError),
    /// The request of a redirect cannot be built.
    Next(BuildError),
    /// The coding of the body is unknown, invalid, or exceeds the limits.
    Coding(fulmar_semantics::coding::CodingError),
    /// Writing the body to its file failed.
    Write(io::Error),
}

/// What a transfer waited for when its timeout expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Waiting {
    /// In the queue, for a connection.
    Queue,
    /// The name of the host.
    Name,
    /// The name of the proxy.
    ProxyName,
    /// The connection.
    Connect,
    /// TLS, or a proxy's tunnel.
    Handshake,
    /// Sending the request.
    Send,
    /// The first byte of the response.
    FirstByte,
    /// The next byte.
    Idle,
    /// The whole transfer.
    Total,
}

/// The addresses that were tried, with their errors.
#[derive(Debug)]
pub struct ConnectError {
    /// In the order in which they failed.
    pub tried: Vec<(Tried, io::Error)>,
    /// The addresses are a proxy's.
    pub is_proxy: bool,
}

/// Why the name of a proxy cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyResolveError {
    /// The name.
    pub host: Box<str>,
    /// The proxy's port.
    pub port: u16,
    /// The cause.
    pub cause: ResolveError,
}

/// An address that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// A TCP address.
    Ip(SocketAddr),
    /// A Unix socket.
    Unix(std::path::PathBuf),
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

impl Error {
    /// The kind of the error for machines, stable across versions.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Resolve(_) | Self::ResolveProxy(_) => "resolve",
            Self::Connect(_) => "connect",
            Self::Layer(error) if is_truncated(error) => "truncated",
            Self::Layer(error) if error.is::<fulmar_tls::TlsError>() => "tls",
            Self::Layer(_) | Self::Proxy(_) | Self::NoTunnel => "proxy",
            Self::Peer(PeerError::UnexpectedEof | PeerError::BodyTooShort) => "truncated",
            Self::Peer(PeerError::BodyTooLong) => "excess",
            Self::Peer(_) => "protocol",
            Self::Reset(_) => "reset",
            Self::Closed => "closed",
            Self::Io(_) => "io",
            Self::TimedOut(_) => "timeout",
            Self::TooSlow => "slow",
            Self::TooLarge => "large",
            Self::Usage(_) => "misuse",
            Self::NotReplayable => "replay",
            Self::Redirect(_) | Self::Next(_) => "redirect",
            Self::Coding(_) => "coding",
            Self::Write(_) => "write",
        }
    }
}

/// True if an established TLS session ended without close_notify.
pub(crate) fn is_truncated(error: &LayerError) -> bool {
    error.downcast_ref() == Some(&fulmar_tls::TlsError::Truncated)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve(error) => error.fmt(f),
            Self::ResolveProxy(error) => error.fmt(f),
            Self::Connect(error) => error.fmt(f),
            Self::Layer(error) => error.fmt(f),
            Self::Proxy(error) => write!(f, "the connection to the proxy failed: {error}"),
            Self::Peer(error) => error.fmt(f),
            Self::Reset(code) => write!(f, "the stream of HTTP/2 was reset: {code}"),
            Self::Closed => f.write_str("the server closed the connection without a response"),
            Self::Io(error) => write!(f, "the connection failed: {error}"),
            Self::TimedOut(waiting) => write!(f, "timed out: {waiting}"),
            Self::TooSlow => f.write_str("slower than the lowest speed allowed"),
            Self::TooLarge => f.write_str("the body is larger than allowed"),
            Self::Usage(error) => error.fmt(f),
            Self::NoTunnel => f.write_str("no tunnel to the server is open"),
            Self::NotReplayable => f.write_str("the body was a stream and cannot be sent again"),
            Self::Redirect(error) => error.fmt(f),
            Self::Next(error) => error.fmt(f),
            Self::Coding(error) => error.fmt(f),
            Self::Write(error) => write!(f, "writing the body failed: {error}"),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Resolve(error) => Some(error),
            Self::ResolveProxy(error) => Some(error),
            Self::Connect(error) => Some(error),
            Self::Layer(error) => Some(error.as_ref()),
            Self::Peer(error) => Some(error),
            Self::Io(error) | Self::Proxy(error) | Self::Write(error) => Some(error),
            Self::Usage(error) => Some(error),
            Self::Redirect(error) => Some(error),
            Self::Next(error) => Some(error),
            Self::Coding(error) => Some(error),
            Self::Closed
            | Self::Reset(_)
            | Self::TimedOut(_)
            | Self::TooSlow
            | Self::TooLarge
            | Self::NoTunnel
            | Self::NotReplayable => None,
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queue => "waiting in the queue",
            Self::Name => "the name was not resolved",
            Self::ProxyName => "the proxy's name was not resolved",
            Self::Connect => "the connection was not established",
            Self::Handshake => "the handshake did not complete",
            Self::Send => "the request could not be sent",
            Self::FirstByte => "no response began",
            Self::Idle => "no more data arrived",
            Self::Total => "the transfer took too long",
        })
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_proxy { "cannot connect to proxy" } else { "cannot connect to" })?;
        for (at, (peer, error)) in self.tried.iter().enumerate() {
            write!(f, "{} {peer}: {error}", if at == 0 { "" } else { ";" })?;
        }
        Ok(())
    }
}

impl StdError for ConnectError {}

impl fmt::Display for ProxyResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, cause } = self;
        write!(f, "cannot resolve proxy {host:?} (port {port}): {cause}")
    }
}

impl StdError for ProxyResolveError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.cause)
    }
}

/// An error of building a request. Nothing was sent.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The URL cannot be requested.
    Url(crate::UrlError),
    /// The system's certificates cannot be read.
    Tls(&'static fulmar_tls::ConfigError),
    /// The user, password or token cannot be sent.
    Credentials(fulmar_semantics::auth::BadCredentials),
    /// The method, a field's name or a value has a byte that would break the message (RFC 9110
    /// §5.5): its name.
    Field(String),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(error) => error.fmt(f),
            Self::Tls(error) => error.fmt(f),
            Self::Credentials(error) => error.fmt(f),
            Self::Field(name) => {
                write!(f, "{name:?} cannot be sent: it has bytes that are not allowed there")
            }
        }
    }
}

impl StdError for BuildError {}
