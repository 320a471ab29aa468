//! The properties that two requests must have in common to share a connection.

use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use fulmar_engine::KeepAlive;
use fulmar_proto::h1::{Leniency, ResponseProfile, StatusAliases};
use fulmar_semantics::proxy::ProxyUrl;
use fulmar_tls::ClientTls;

/// All properties of a connection. Two requests share connections if, and only if, their keys are
/// equal: any field that differs prevents reuse. The only exception is a different host whose name
/// the connection's certificate has: see [`crate::Config::coalescing`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The host that HTTP is exchanged with: the URL's, or the proxy's if it forwards. As the URL
    /// parser normalised it.
    pub host: Box<str>,
    /// Its port.
    pub port: u16,
    /// The route to the host.
    pub route: Route,
    /// Host and port that the route ends at, if they are not those above.
    pub connect_to: Option<(Box<str>, u16)>,
    /// TLS with everything that it depends on; `None`: plain HTTP.
    pub tls: Option<ClientTls>,
    /// Credentials that bind the connection itself, not the request.
    pub credentials: Option<Arc<[u8]>>,
    /// The addresses to connect to, if they are not those of the name.
    pub addresses: Option<Arc<[SocketAddr]>>,
    /// Those of the host, for a SOCKS proxy that gets an address instead of the name.
    pub target_addresses: Option<Arc<[IpAddr]>>,
    /// The addresses of the name that are used; `None`: all.
    pub family: Option<IpVersion>,
    /// The local address.
    pub local: Option<SocketAddr>,
    /// The network interface.
    pub interface: Option<Box<str>>,
    /// Keep-alive probes.
    pub keep_alive: Option<KeepAlive>,
    /// A header of the PROXY protocol is sent first.
    pub proxy_header: bool,
    /// Nagle's algorithm is on.
    pub nagle: bool,
    /// TCP Fast Open is requested.
    pub fast_open: bool,
    /// The zone of IPv6 addresses.
    pub address_scope: u32,
    /// The protocols that it may use.
    pub protocol: Protocol,
    /// The deviations from the grammar that are accepted in responses.
    pub leniency: Leniency,
    /// The rules by which responses are read.
    pub profile: ResponseProfile,
    /// Lines that count as status lines.
    pub status_aliases: StatusAliases,
}

impl Key {
    /// True if the other key has at most another host.
    pub(crate) fn equals_without_host(&self, other: &Self) -> bool {
        self.without_host() == other.without_host()
    }

    /// A hash of everything but the host, and of an address.
    pub(crate) fn hash_without_host(&self, peer: IpAddr) -> u64 {
        SEED.hash_one((self.without_host(), peer))
    }

    fn without_host(&self) -> impl Eq + Hash + '_ {
        let Self {
            host: _,
            port,
            route,
            connect_to,
            tls,
            credentials,
            addresses,
            target_addresses,
            family,
            local,
            interface,
            keep_alive,
            proxy_header,
            nagle,
            fast_open,
            address_scope,
            protocol,
            leniency,
            profile,
            status_aliases,
        } = self;
        let peer = (port, route, connect_to, addresses, target_addresses, family, address_scope);
        let socket = (local, interface, keep_alive, nagle, fast_open);
        let reading = (protocol, leniency, profile, status_aliases);
        (peer, tls, credentials, socket, proxy_header, reading)
    }
}

/// A version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl IpVersion {
    /// True if the address is of this family.
    pub fn has(self, address: IpAddr) -> bool {
        address.is_ipv4() == (self == Self::V4)
    }
}

/// The route of a connection to its host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Route {
    /// Directly to the host's address.
    #[default]
    Direct,
    /// Over a Unix stream socket, for any host.
    Unix(PathBuf),
    /// To a proxy that forwards requests in absolute form; the key's host is the proxy.
    Forward,
    /// Through a tunnel that a proxy opens.
    Tunnel(Arc<ProxyUrl>),
    /// The same, to a proxy on a Unix stream socket.
    TunnelUnix(PathBuf, Arc<ProxyUrl>),
    /// Through a tunnel that the application has opened.
    Opened(OpenedTunnel),
}

/// A tunnel that the application has opened ([`crate::Client::start_in_tunnel`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OpenedTunnel {
    /// Its name: tunnels with different names are never exchanged for each other.
    pub name: Arc<[u8]>,
    /// TLS of the connection that it leads through.
    pub tls: Option<ClientTls>,
}

impl Route {
    /// The proxy that opens a tunnel.
    pub(crate) fn proxy(&self) -> Option<&ProxyUrl> {
        match self {
            Self::Tunnel(proxy) | Self::TunnelUnix(_, proxy) => Some(proxy),
            Self::Direct | Self::Unix(_) | Self::Forward | Self::Opened(_) => None,
        }
    }

    /// The Unix socket to connect to.
    pub(crate) fn unix_path(&self) -> Option<&Path> {
        match self {
            Self::Unix(path) | Self::TunnelUnix(path, _) => Some(path),
            Self::Direct | Self::Forward | Self::Tunnel(_) | Self::Opened(_) => None,
        }
    }
}

/// The protocols that a connection may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// HTTP/2 if TLS is used and the server chooses it by ALPN (RFC 9113 §3.2), otherwise HTTP/1.1.
    #[default]
    Negotiated,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 without TLS: the server is known to speak it (RFC 9113 §3.3). Over TLS, as
    /// [`Protocol::Negotiated`].
    Http2,
}

/// A key that was hashed once, when its request was compiled.
#[derive(Clone, Debug)]
pub(crate) struct Hashed {
    key: Arc<Key>,
    hash: u64,
}

impl Hashed {
    pub(crate) fn new(key: Key) -> Self {
        let hash = SEED.hash_one(&key);
        Self { key: Arc::new(key), hash }
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }
}

impl PartialEq for Hashed {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.key, &other.key) || (self.hash == other.hash && self.key == other.key)
    }
}

impl Eq for Hashed {}

impl Hash for Hashed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// A map by hashed keys, which uses their hash.
pub(crate) type ByKey<T> = std::collections::HashMap<Hashed, T, BuildHasherDefault<AsHashed>>;

/// Returns a hash unchanged.
#[derive(Debug, Default)]
pub(crate) struct AsHashed(u64);

impl Hasher for AsHashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a hashed key writes one u64");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
