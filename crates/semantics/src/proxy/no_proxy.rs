//! Hosts that are accessed without a proxy: the list in `no_proxy`.
//!
//! Entries are separated by commas or blanks: `*` for all hosts; a domain, with or without a
//! leading dot, for itself and its subdomains; an address; a network such as `10.0.0.0/8`. All
//! except `*` may end with a port. Addresses match only addresses: names are not resolved. Other
//! entries match nothing, as in curl.

use std::net::{IpAddr, Ipv6Addr};

use url::Host;

/// A parsed list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoProxy {
    rules: Vec<NoProxyRule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct NoProxyRule {
    who: NoProxyHost,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum NoProxyHost {
    All,
    /// In lower case, without surrounding dots.
    Domain(String),
    Network {
        prefix: u128,
        bits: u32,
    },
}

impl NoProxy {
    /// Parses a list.
    pub fn parse(list: &str) -> Self {
        let entries = list.split([',', ' ', '\t']).filter(|entry| !entry.is_empty());
        Self { rules: entries.filter_map(NoProxyRule::parse).collect() }
    }

    /// True if this host is accessed without a proxy.
    pub fn matches(&self, host: Host<&str>, port: u16) -> bool {
        self.rules
            .iter()
            .any(|rule| rule.port.is_none_or(|only| only == port) && rule.who.matches(&host))
    }
}

impl NoProxyRule {
    fn parse(entry: &str) -> Option<Self> {
        if entry == "*" {
            return Some(Self { who: NoProxyHost::All, port: None });
        }
        if let Some(who) = NoProxyHost::network(entry) {
            return Some(Self { who, port: None });
        }
        let (host, port) = match entry.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok()?)),
            None => (entry, None),
        };
        let who = match NoProxyHost::network(host) {
            Some(who) if host.starts_with('[') || !host.contains(':') => who,
            Some(_) => return None, // an IPv6 address with a port needs brackets
            None => NoProxyHost::domain(host)?,
        };
        Some(Self { who, port })
    }
}

impl NoProxyHost {
    fn domain(text: &str) -> Option<Self> {
        let text = text.strip_prefix('.').unwrap_or(text);
        // Normalized like the hosts of URLs, so that both have the same form.
        match Host::parse(text.strip_suffix('.').unwrap_or(text)).ok()? {
            Host::Domain(name) => Some(Self::Domain(name)),
            Host::Ipv4(_) | Host::Ipv6(_) => None,
        }
    }

    /// An address, with or without brackets, optionally with a prefix length.
    fn network(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let inner = address.strip_prefix('[').map(|rest| rest.strip_suffix(']'));
        let address: IpAddr = match inner {
            Some(inner) => inner?.parse::<Ipv6Addr>().ok()?.into(),
            None => address.parse().ok()?,
        };
        let own = if address.is_ipv4() { u32::BITS } else { u128::BITS };
        let bits = match bits {
            Some(bits) if bits.bytes().all(|b| b.is_ascii_digit()) => bits.parse().ok()?,
            Some(_) => return None,
            None => own,
        };
        if bits > own {
            return None;
        }
        let bits = bits + u128::BITS - own;
        Some(Self::Network { prefix: number(address) & mask(bits), bits })
    }

    fn matches(&self, host: &Host<&str>) -> bool {
        let address: IpAddr = match (self, host) {
            (Self::All, _) => return true,
            (Self::Domain(domain), Host::Domain(name)) => return is_below(name, domain),
            (Self::Network { .. }, Host::Ipv4(address)) => (*address).into(),
            (Self::Network { .. }, Host::Ipv6(address)) => (*address).into(),
            _ => return false,
        };
        let Self::Network { prefix, bits } = self else { return false };
        number(address) & mask(*bits) == *prefix
    }
}

/// True for `domain` itself and names that end in a dot and `domain`.
fn is_below(name: &str, domain: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name).as_bytes();
    let Some(at) = name.len().checked_sub(domain.len()) else { return false };
    name[at..].eq_ignore_ascii_case(domain.as_bytes()) && (at == 0 || name[at - 1] == b'.')
}

/// Maps IPv4 addresses to their IPv6 form (RFC 4291 §2.5.5.2).
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn mask(bits: u32) -> u128 {
    u128::MAX.checked_shl(u128::BITS - bits).unwrap_or(0)
}
