//! The connection to a server: its address, and the layers below the connection.
//!
//! This applies the configuration of connections to servers: TCP or a Unix socket, the source
//! address, a PROXY header, TLS. [`ForwardedClient`] has the properties of the client.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use bytes::Bytes;
use fulmar_engine::{Endpoint, KeepAlive, Peer};
use fulmar_haproxy::model::{ProbeTimes, ServerAddress, ServerProxy};
use fulmar_haproxy::{BackendConfig, ServerConfig};
use fulmar_proto::Layer;
use fulmar_semantics::proxy_protocol::{
    self, Addresses, Extras, ProxyProtocolHeader, ProxyTransport,
};

use super::header::ProxyHeader;
use crate::live::LiveServer;

/// The destination of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination<'a> {
    pub(crate) backend: &'a BackendConfig,
    pub(crate) server: &'a LiveServer,
    /// The server's address, if an operator changed it.
    pub(crate) address: Option<SocketAddr>,
}

/// The client for which a connection to a server is made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ForwardedClient<'a> {
    /// Its address; `None`: it has no address, or the connection is shared by several clients.
    pub(crate) source: Option<SocketAddr>,
    /// The address that it connected to.
    pub(crate) destination: Option<SocketAddr>,
    /// The name for TLS (`sni`).
    pub(crate) server_name: Option<&'a str>,
    /// Its TLS session, if it has one (`send-proxy-v2-ssl`).
    pub(crate) tls: Option<&'a proxy_protocol::Tls>,
}

/// A connection to open.
#[derive(Debug)]
pub(crate) struct PreparedConnection {
    pub(crate) endpoint: Endpoint,
    /// The PROXY header; sent before anything else, TLS included.
    pub(crate) header: Option<Bytes>,
    /// The TLS layer.
    pub(crate) tls: Option<Box<dyn Layer>>,
}

impl PreparedConnection {
    /// Joins the layers between the socket and the connection.
    pub(crate) fn split(self) -> (Endpoint, Option<Box<dyn Layer>>) {
        let layer = match self.header {
            None => self.tls,
            Some(header) => Some(Box::new(ProxyHeader::new(header, self.tls)) as Box<dyn Layer>),
        };
        (self.endpoint, layer)
    }
}

impl Destination<'_> {
    /// The connection for `client`.
    ///
    /// # Errors
    /// The server has no address, or none for this client, or its TLS settings are unusable.
    pub(crate) fn open(&self, client: ForwardedClient<'_>) -> io::Result<PreparedConnection> {
        let server: &ServerConfig = &self.server.config;
        let peer = match self.address {
            Some(moved) => Peer::Ip(moved),
            None => peer(&server.address, client.destination)?,
        };
        let options = &self.backend.options;
        let keep_alive = options.server_probes.then(|| probes(options.server_probe_times));
        let tls = match &self.server.tls {
            None => None,
            Some(Err(error)) => return Err(io::Error::other(error.to_string())),
            Some(Ok(tls)) => {
                let address = match &peer {
                    Peer::Ip(address) => address.ip().to_string(),
                    Peer::Unix(_) => UNNAMED.to_string(),
                };
                let name = client.server_name.filter(|name| !name.is_empty()).unwrap_or(&address);
                let session = tls.session(name).map_err(io::Error::other)?;
                Some(Box::new(session) as Box<dyn Layer>)
            }
        };
        Ok(PreparedConnection {
            endpoint: Endpoint { keep_alive, ..endpoint(self.backend, server, peer) },
            header: header(server.send_proxy, client),
            tls,
        })
    }
}

/// The endpoint of each socket toward a server, including those of checks.
pub(crate) fn endpoint(backend: &BackendConfig, server: &ServerConfig, peer: Peer) -> Endpoint {
    let interface = server.interface.as_ref().or(backend.interface.as_ref());
    Endpoint {
        local: server.source.or(backend.source),
        interface: interface.map(|name| name.as_str().into()),
        user_timeout: server.user_timeout,
        ..peer.into()
    }
}

/// TCP keep-alive probes; defaults are those of the kernel (tcp(7)).
pub fn probes(times: ProbeTimes) -> KeepAlive {
    KeepAlive {
        idle: times.idle.unwrap_or(PROBES.idle),
        interval: times.interval.unwrap_or(PROBES.interval),
        count: times.count.unwrap_or(PROBES.count),
    }
}

/// True if the server's address depends on the address that the client connected to.
pub(crate) fn is_mapped(address: &ServerAddress) -> bool {
    match address {
        ServerAddress::Mapped { .. } => true,
        ServerAddress::Tcp(address) => address.ip().is_unspecified(),
        ServerAddress::Unix(_) | ServerAddress::Abstract(_) | ServerAddress::Unresolved(_) => false,
    }
}

fn peer(address: &ServerAddress, destination: Option<SocketAddr>) -> io::Result<Peer> {
    let unknown = || io::Error::other("the destination address of the client is unknown");
    Ok(match address {
        ServerAddress::Tcp(address) if address.ip().is_unspecified() => {
            let client = destination.ok_or_else(unknown)?;
            Peer::Ip(SocketAddr::new(client.ip(), address.port()))
        }
        ServerAddress::Tcp(address) => Peer::Ip(*address),
        ServerAddress::Unix(path) => Peer::Unix(path.clone()),
        ServerAddress::Abstract(name) => Peer::Unix(PathBuf::from(format!("@{name}"))),
        ServerAddress::Mapped { address, offset } => {
            let client = destination.ok_or_else(unknown)?;
            let port = i32::from(client.port()) + offset;
            let port = u16::try_from(port).map_err(|_| {
                io::Error::other(format!("the server's port {port} is out of range"))
            })?;
            let address = if address.is_unspecified() { client.ip() } else { *address };
            Peer::Ip(SocketAddr::new(address, port))
        }
        ServerAddress::Unresolved(name) => {
            return Err(io::Error::other(format!("host name {name} has no address")));
        }
    })
}

/// The PROXY header for the server, if it is configured.
fn header(how: ServerProxy, client: ForwardedClient<'_>) -> Option<Bytes> {
    let addresses = addresses(client);
    let mut out = Vec::new();
    let encoded = match how {
        ServerProxy::None => return None,
        ServerProxy::V1 => {
            let header = ProxyProtocolHeader { addresses, ..ProxyProtocolHeader::default() };
            proxy_protocol::encode_v1(&header, &mut out)
        }
        ServerProxy::V2 { tls, common_name } => {
            let told = client.tls.filter(|_| tls && addresses.is_some()).cloned();
            let told = told.map(|it| proxy_protocol::Tls {
                common_name: it.common_name.filter(|_| common_name),
                ..it
            });
            let extras = Extras { tls: told, ..Extras::default() };
            let header =
                ProxyProtocolHeader { addresses, transport: ProxyTransport::Stream, extras };
            proxy_protocol::encode_v2(&header, &mut out)
        }
    };
    encoded.ok().map(|()| out.into())
}

/// Both addresses of the client's connection, if they are of one family.
fn addresses(client: ForwardedClient<'_>) -> Option<Addresses> {
    let (source, destination) = (client.source?, client.destination?);
    Some(match (canonical(source), canonical(destination)) {
        (SocketAddr::V4(source), SocketAddr::V4(destination)) => {
            Addresses::V4 { source, destination }
        }
        (SocketAddr::V6(source), SocketAddr::V6(destination)) => {
            Addresses::V6 { source, destination }
        }
        _ => return None,
    })
}

/// Converts an IPv4-mapped address to IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The kernel's defaults (tcp(7)).
const PROBES: KeepAlive = KeepAlive {
    idle: std::time::Duration::from_secs(7_200),
    interval: std::time::Duration::from_secs(75),
    count: 9,
};
/// The default name of a TLS server at a Unix socket: an address, which is not sent as SNI.
const UNNAMED: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
