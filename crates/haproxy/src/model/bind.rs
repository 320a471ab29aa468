//! `bind` lines: listen addresses and their options.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::Position;

/// A listen address. A line with several addresses or a port range becomes several of these.
#[derive(Clone, Debug)]
pub struct Bind {
    /// Its position.
    pub place: Position,
    /// `name`: the name in statistics; default: `sock-` and the number.
    pub name: String,
    /// `id`; default: the number in the frontend, from 1.
    pub id: u32,
    /// The address.
    pub address: BindAddress,
    /// `maxconn` of this listener.
    pub connections_max: Option<usize>,
    /// `backlog`.
    pub backlog: Option<u16>,
    /// `accept-proxy`: a PROXY header is required on every connection.
    pub accepts_proxy: bool,
    /// `defer-accept`.
    pub defer_accept: bool,
    /// `v6only` (`Some(true)`), `v4v6` (`Some(false)`).
    pub v6only: Option<bool>,
    /// `interface`: only connections that arrive on it are accepted.
    pub interface: Option<String>,
    /// `mode` of a Unix socket.
    pub permissions: Option<u32>,
    /// `user` and `group` of a Unix socket, as numbers.
    pub owner: (Option<u32>, Option<u32>),
    /// `tcp-ut`: TCP user timeout, the maximum time that data may stay unacknowledged.
    pub user_timeout: Option<Duration>,
    /// `mss`: the maximum segment size announced to clients.
    pub segment_size_max: Option<u16>,
    /// `tfo`: TCP Fast Open.
    pub fast_open: bool,
    /// `ssl`.
    pub tls: Option<BindTls>,
}

/// A listen address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindAddress {
    /// An address and a port.
    Tcp(SocketAddr),
    /// A Unix socket (`unix@/path`, `/path`).
    Unix(PathBuf),
    /// A name in the abstract namespace (`abns@name`).
    Abstract(String),
    /// An inherited descriptor (`fd@N`).
    Inherited(i32),
}

/// TLS for clients.
#[derive(Clone, Debug, Default)]
pub struct BindTls {
    /// `crt` and `crt-list`, with directories and base paths resolved.
    pub certificates: Vec<BindCertificate>,
    /// `strict-sni`: handshakes without a known server name are rejected.
    pub strict_sni: bool,
    /// `verify`.
    pub verify: ClientVerify,
    /// `ca-file`: CAs of client certificates.
    pub ca_file: Option<PathBuf>,
    /// `crl-file`: revoked certificates.
    pub crl_file: Option<PathBuf>,
    /// `alpn`: protocols. `h2` is removed with a warning until HTTP/2 is supported.
    pub alpn: Vec<String>,
    /// `ssl-min-ver`.
    pub version_min: Option<TlsVersion>,
    /// `ssl-max-ver`.
    pub version_max: Option<TlsVersion>,
    /// `ciphers` and `ciphersuites` that rustls supports, with its names; empty: the defaults of
    /// rustls.
    pub suites: Vec<String>,
    /// `no-tls-tickets`.
    pub no_tickets: bool,
}

/// A server certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindCertificate {
    /// The file with the chain and its key; the key may be in a separate file (`.key`).
    pub file: PathBuf,
    /// The server names it is used for (`crt-list`), in lower case; default: the names in it. `*.`
    /// matches any label; `!` before a name excludes it.
    pub names: Vec<String>,
}

/// Whether client certificates are requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientVerify {
    /// Not requested.
    #[default]
    None,
    /// Requested.
    Optional,
    /// Required.
    Required,
}

/// A TLS version. Older ones are an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}
