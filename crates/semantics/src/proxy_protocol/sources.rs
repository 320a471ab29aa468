//! The sources of trusted headers.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// Networks with trusted PROXY headers; empty by default.
///
/// ```
/// use fulmar_semantics::proxy_protocol::TrustedSources;
/// let trusted: TrustedSources = "10.0.0.0/8, ::1".parse().unwrap();
/// assert!(trusted.allows("10.1.2.3".parse().unwrap()));
/// assert!(!trusted.allows("192.0.2.1".parse().unwrap()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedSources(Vec<IpNet>);

impl TrustedSources {
    /// Trusts these networks.
    pub fn new(networks: impl IntoIterator<Item = IpNet>) -> Self {
        Self(networks.into_iter().collect())
    }

    /// True if `peer` is in one of the networks. IPv4-mapped IPv6 addresses, as reported by
    /// dual-stack sockets, match their IPv4 address. Peers on Unix sockets have the address
    /// `0.0.0.0`, which must be listed to be trusted.
    pub fn allows(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.0.iter().any(|network| network.contains(&peer))
    }
}

/// Parses networks or addresses, separated by commas.
impl FromStr for TrustedSources {
    type Err = BadNetwork;

    fn from_str(text: &str) -> Result<Self, BadNetwork> {
        text.split(',').map(|part| network(part.trim())).collect::<Result<_, _>>().map(Self)
    }
}

fn network(text: &str) -> Result<IpNet, BadNetwork> {
    let alone = |_| text.parse::<IpAddr>().map(IpNet::from);
    text.parse().or_else(alone).map_err(|_| BadNetwork(text.to_owned()))
}

/// The text is not a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadNetwork(String);

impl fmt::Display for BadNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid network {:?}: expected 10.0.0.0/8 or 192.0.2.1", self.0)
    }
}

impl std::error::Error for BadNetwork {}
