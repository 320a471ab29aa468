//! The connection of a check: address, PROXY header, TLS.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use bytes::Bytes;
use fulmar_engine::{Endpoint, Peer};
use fulmar_haproxy::model::{ServerAddress, ServerCheck, ServerProxy};
use fulmar_proto::Layer;
use fulmar_semantics::proxy_protocol::{self, ProxyProtocolHeader};
use fulmar_tls::{ClientOptions, ClientTls, ConfigError, Verify};

use super::check_context::Checked;
use super::step::ConnectSettings;
use crate::upstream::{PreparedConnection, endpoint};

/// The connection of a check.
#[derive(Debug)]
pub(super) struct CheckConnection {
    pub(super) endpoint: Endpoint,
    pub(super) layer: Option<Box<dyn Layer>>,
    pub(super) tls: bool,
}

/// TLS for checks of servers without TLS of their own (`check-ssl`), without verification.
///
/// # Errors
/// TLS is not available on this system.
pub(super) fn plain_tls() -> Result<ClientTls, ConfigError> {
    ClientTls::new(ClientOptions {
        verify: Verify::Nothing,
        alpn: Vec::new(),
        ..ClientOptions::default()
    })
}

impl CheckConnection {
    /// The connection to a server, by its settings or by a step of the check. `plain`: TLS for
    /// servers without TLS of their own.
    ///
    /// # Errors
    /// The server has no address, or its TLS settings are unusable.
    pub(super) fn to(
        checked: &Checked<'_>,
        check: &ServerCheck,
        way: ConnectSettings,
        plain: &Result<ClientTls, ConfigError>,
    ) -> io::Result<Self> {
        let live = &checked.backend.servers[checked.server];
        let (port, tls) = match way {
            ConnectSettings::OfServer => (None, check.tls),
            ConnectSettings::OfStep { port, tls } => (port, tls),
        };
        let peer = peer(checked, port)?;
        let own = live.tls.as_ref().unwrap_or(plain);
        let session = match (tls, own) {
            (false, _) => None,
            (true, Err(error)) => return Err(io::Error::other(error.to_string())),
            (true, Ok(own)) => {
                let name = match (&check.sni, &peer) {
                    (Some(name), _) => name.clone(),
                    (None, Peer::Ip(address)) => address.ip().to_string(),
                    (None, Peer::Unix(_)) => UNNAMED.to_string(),
                };
                let session = own.session(&name).map_err(io::Error::other)?;
                Some(Box::new(session) as Box<dyn Layer>)
            }
        };
        let endpoint = endpoint(&checked.backend.config, &live.config, peer);
        let header = (check.send_proxy && way == ConnectSettings::OfServer)
            .then(|| header(live.config.send_proxy));
        let (endpoint, layer) =
            PreparedConnection { endpoint, header: header.flatten(), tls: session }.split();
        Ok(Self { endpoint, layer, tls })
    }
}

fn peer(checked: &Checked<'_>, port: Option<u16>) -> io::Result<Peer> {
    let (ip, own_port) = checked.backend.servers[checked.server].check_address.get();
    let port = port.or(own_port);
    let place = |address: SocketAddr| {
        let ip = ip.unwrap_or_else(|| address.ip());
        Peer::Ip(SocketAddr::new(ip, port.unwrap_or_else(|| address.port())))
    };
    if let Some(address) = checked.address() {
        return Ok(place(address));
    }
    Ok(match &checked.backend.config.servers[checked.server].address {
        ServerAddress::Tcp(address) => place(*address),
        ServerAddress::Unix(path) => Peer::Unix(path.clone()),
        ServerAddress::Abstract(name) => Peer::Unix(PathBuf::from(format!("@{name}"))),
        ServerAddress::Mapped { address, .. } => {
            let ip = ip.unwrap_or(*address);
            let port = port.filter(|_| !ip.is_unspecified());
            let port = port.ok_or_else(|| io::Error::other("the check has no address and port"))?;
            Peer::Ip(SocketAddr::new(ip, port))
        }
        ServerAddress::Unresolved(name) => {
            return Err(io::Error::other(format!("host name {name} has no address")));
        }
    })
}

/// The PROXY header of a check, without addresses (`LOCAL` or `UNKNOWN`).
fn header(how: ServerProxy) -> Option<Bytes> {
    let (mut out, no_server) = (Vec::new(), ProxyProtocolHeader::default());
    let encoded = match how {
        ServerProxy::V2 { .. } => proxy_protocol::encode_v2(&no_server, &mut out),
        ServerProxy::None | ServerProxy::V1 => proxy_protocol::encode_v1(&no_server, &mut out),
    };
    encoded.ok().map(|()| out.into())
}

/// The name of a TLS server at a Unix socket: an address, which is not sent as SNI.
const UNNAMED: &str = "127.0.0.1";
