//! A `bind` line: what is listened on, and how.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::Place;

/// A listening address. A line with several addresses or a range of ports is several of these.
#[derive(Clone, Debug)]
pub struct Bind {
    /// Where it stands.
    pub place: Place,
    /// `name`: as statistics show it; `sock-N` if it is not said.
    pub name: String,
    /// `id`, or the number within the frontend, from 1.
    pub id: u32,
    /// What to listen on.
    pub address: BindAddress,
    /// `maxconn` of this listener.
    pub connections_max: Option<usize>,
    /// `backlog`.
    pub backlog: Option<u16>,
    /// `accept-proxy`: every connection begins with a PROXY header.
    pub accepts_proxy: bool,
    /// `defer-accept`.
    pub defer_accept: bool,
    /// `transparent`, `v4v6`, `v6only`: `Some(true)` is `v6only`, `Some(false)` is `v4v6`.
    pub v6only: Option<bool>,
    /// `interface`: only what arrives there.
    pub interface: Option<String>,
    /// `mode`, `user`, `group` of a Unix socket: permissions and numbers of the owner.
    pub permissions: Option<u32>,
    /// See above.
    pub owner: (Option<u32>, Option<u32>),
    /// `ssl`.
    pub tls: Option<BindTls>,
}

/// What to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindAddress {
    /// An address and a port.
    Tcp(SocketAddr),
    /// A Unix socket (`unix@/path`, `/path`).
    Unix(PathBuf),
    /// A name in the abstract namespace (`abns@name`).
    Abstract(String),
    /// A descriptor that was inherited (`fd@N`).
    Inherited(i32),
}

/// TLS toward clients.
#[derive(Clone, Debug, Default)]
pub struct BindTls {
    /// `crt` and `crt-list`. Directories and bases have been looked up.
    pub certificates: Vec<BindCertificate>,
    /// `strict-sni`: who names no known name, or none, gets no connection.
    pub strict_sni: bool,
    /// `verify`.
    pub verify: ClientVerify,
    /// `ca-file`: who signs the certificates of clients.
    pub ca_file: Option<PathBuf>,
    /// `crl-file`: whose certificates have been revoked.
    pub crl_file: Option<PathBuf>,
    /// `alpn`: protocols; `h2` is left out with a warning as long as it is not spoken.
    pub alpn: Vec<String>,
    /// `ssl-min-ver`.
    pub version_min: Option<TlsVersion>,
    /// `ssl-max-ver`.
    pub version_max: Option<TlsVersion>,
    /// `ciphers` and `ciphersuites`, as rustls names what is left of them; empty: its defaults.
    pub suites: Vec<String>,
    /// `no-tls-tickets`.
    pub no_tickets: bool,
}

/// A certificate that clients are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindCertificate {
    /// The file with the chain and its key; a key that stands in a file of its own (`.key`) is found
    /// beside it.
    pub file: PathBuf,
    /// The names it is shown for, in lower case, if not those in it (`crt-list`): `*.` stands for
    /// any label, and `!` before a name makes it one that it is not shown for.
    pub names: Vec<String>,
}

/// Whether clients show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientVerify {
    /// It is not asked for.
    #[default]
    None,
    /// It is asked for.
    Optional,
    /// There is no connection without.
    Required,
}

/// A version of TLS. Older ones are an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// 1.2.
    Tls12,
    /// 1.3.
    Tls13,
}
