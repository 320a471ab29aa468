//! From whom a header is believed.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// Networks whose PROXY headers are believed; by default there are none.
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
    /// These networks.
    pub fn new(networks: impl IntoIterator<Item = IpNet>) -> Self {
        Self(networks.into_iter().collect())
    }

    /// True if `peer` is in one of them. An IPv4 address is the same in its IPv6 clothes, as a
    /// socket for both tells it. Who comes over a Unix socket is told as `0.0.0.0`, which has to
    /// be named to be trusted.
    pub fn allows(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.0.iter().any(|network| network.contains(&peer))
    }
}

/// Networks or single addresses, with commas between them.
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

/// This is no network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadNetwork(String);

impl fmt::Display for BadNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no network; write it as 10.0.0.0/8, or an address as 192.0.2.1", self.0)
    }
}

impl std::error::Error for BadNetwork {}
