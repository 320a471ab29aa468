//! Why a transfer did not come to its end, or was refused before it began.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::net::SocketAddr;

use fulmar_engine::ResolveError;
use fulmar_proto::{LayerError, PeerError, UsageError};

/// Why a transfer failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The name of the host has no address for us.
    Resolve(ResolveError),
    /// The name of the proxy cannot be resolved.
    ResolveProxy(ProxyResolveError),
    /// No address of the host could be connected to.
    Connect(ConnectError),
    /// TLS or a proxy's tunnel failed; the source says which, and how.
    Layer(LayerError),
    /// The connection to a proxy failed before its tunnel stood.
    Proxy(io::Error),
    /// The server broke the protocol.
    Peer(PeerError),
    /// The connection was closed before the answer began.
    Closed,
    /// The connection failed.
    Io(io::Error),
    /// A deadline passed.
    TimedOut(Waiting),
    /// Fewer bytes a second than the request allows.
    TooSlow,
    /// The body is longer than the request allows.
    TooLarge,
    /// Our own part of the exchange was not what it said it would be.
    Usage(UsageError),
    /// The body is a stream and has been sent once: it cannot be sent again, as the server asks
    /// by a redirect, a challenge or its silence.
    NotReplayable,
    /// Too many redirects, or one that may not be followed.
    Redirect(fulmar_semantics::redirect::RedirectError),
    /// The request that a redirect leads to cannot be made.
    Next(BuildError),
    /// The coding of the body is unknown, broken, or grows too large.
    Coding(fulmar_semantics::coding::CodingError),
    /// Writing the body to its file failed.
    Write(io::Error),
}

/// What a transfer waited for when its time was up.
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
    /// The server, to take the request.
    Send,
    /// The first byte of the answer.
    FirstByte,
    /// The next byte.
    Idle,
    /// The whole transfer.
    Total,
}

/// Which addresses were tried, and what each said.
#[derive(Debug)]
pub struct ConnectError {
    /// In the order in which they failed.
    pub tried: Vec<(Tried, io::Error)>,
    /// They are a proxy's.
    pub is_proxy: bool,
}

/// Why the name of a proxy cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyResolveError {
    /// The name.
    pub host: Box<str>,
    /// The proxy's port.
    pub port: u16,
    /// What is wrong.
    pub cause: ResolveError,
}

/// What was connected to.
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
    /// A word for machines: the kind of the error, stable across versions.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Resolve(_) | Self::ResolveProxy(_) => "resolve",
            Self::Connect(_) => "connect",
            Self::Layer(error) if error.is::<fulmar_tls::TlsError>() => "tls",
            Self::Layer(_) | Self::Proxy(_) => "proxy",
            Self::Peer(PeerError::UnexpectedEof) => "truncated",
            Self::Peer(_) => "protocol",
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve(error) => error.fmt(f),
            Self::ResolveProxy(error) => error.fmt(f),
            Self::Connect(error) => error.fmt(f),
            Self::Layer(error) => error.fmt(f),
            Self::Proxy(error) => write!(f, "the connection to the proxy failed: {error}"),
            Self::Peer(error) => error.fmt(f),
            Self::Closed => f.write_str("the server closed the connection without an answer"),
            Self::Io(error) => write!(f, "the connection failed: {error}"),
            Self::TimedOut(waiting) => write!(f, "timed out: {waiting}"),
            Self::TooSlow => f.write_str("slower than the lowest speed allowed"),
            Self::TooLarge => f.write_str("the body is larger than allowed"),
            Self::Usage(error) => error.fmt(f),
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
            _ => None,
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queue => "waiting in the queue",
            Self::Name => "the name was not resolved",
            Self::ProxyName => "the proxy's name was not resolved",
            Self::Connect => "the connection did not stand",
            Self::Handshake => "the handshake did not end",
            Self::Send => "the server did not take the request",
            Self::FirstByte => "the answer did not begin",
            Self::Idle => "nothing more came",
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

/// Why a request cannot be made: nothing was sent.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The URL is not one that can be asked for.
    Url(crate::UrlError),
    /// What the system trusts cannot be read.
    Tls(&'static fulmar_tls::ConfigError),
    /// User, password or token cannot be sent.
    Credentials(fulmar_semantics::auth::BadCredentials),
    /// The method, a field's name or a value has a byte that would break the message (RFC 9110
    /// §5.5): what was being set.
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
