//! Static addresses that replace the results of name servers: curl's `--resolve`.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use fulmar_engine::ResolveError;

use crate::hostname;

/// Addresses of hosts, as `host:port:address[,address]...`; the host `*` matches every host.
///
/// A lookup has no port, so [`Names`](crate::Names) applies an override to all ports of its host.
/// For curl's exact rule, call [`Overrides::find`] with the port before the lookup.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    entries: Vec<OverrideEntry>,
}

#[derive(Clone, Debug)]
struct OverrideEntry {
    host: Box<str>, // normalized, without a final dot; or `*`
    port: u16,
    addresses: Arc<[IpAddr]>,
}

impl Overrides {
    /// Adds `host:port:address[,address]...`, replacing an earlier entry for the same host and
    /// port. IPv6 addresses may be in brackets.
    ///
    /// # Errors
    /// The variant names the invalid part.
    pub fn add(&mut self, text: &str) -> Result<(), OverrideError> {
        let mut parts = text.splitn(3, ':');
        let (Some(host), Some(port), Some(addresses)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(OverrideError::Incomplete);
        };
        let mut name = String::new();
        match host {
            "*" => name.push('*'),
            host => hostname::normalize(host, &mut name).map_err(OverrideError::Host)?,
        }
        let port = port.parse().ok().filter(|port| *port != 0).ok_or(OverrideError::Port)?;
        let parsed: Option<Vec<IpAddr>> = addresses.split(',').map(address).collect();
        let addresses: Arc<[IpAddr]> = parsed.ok_or(OverrideError::Address)?.into();
        let host: Box<str> = name.strip_suffix('.').unwrap_or(&name).into();
        self.entries.retain(|entry| entry.host != host || entry.port != port);
        self.entries.push(OverrideEntry { host, port, addresses });
        Ok(())
    }

    /// The addresses for `host` at `port`, or at any port. The entry added last wins; entries for
    /// `*` are used only if the host has none.
    pub fn find(&self, host: &str, port: Option<u16>) -> Option<&Arc<[IpAddr]>> {
        let host = host.strip_suffix('.').unwrap_or(host);
        let fits = |entry: &&OverrideEntry| port.is_none_or(|port| entry.port == port);
        let mut latest = self.entries.iter().rev().filter(fits);
        let exact = latest.clone().find(|entry| entry.host.eq_ignore_ascii_case(host));
        exact.or_else(|| latest.find(|entry| &*entry.host == "*")).map(|entry| &entry.addresses)
    }
}

fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    bare.unwrap_or(text).parse().ok()
}

/// The invalid part of an override.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OverrideError {
    /// Not three parts.
    Incomplete,
    /// The host is invalid.
    Host(ResolveError),
    /// The port is invalid.
    Port,
    /// The address list is invalid.
    Address,
}

impl fmt::Display for OverrideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Incomplete => "expected host:port:address[,address]...",
            Self::Host(_) => "invalid host: neither a host name nor '*'",
            Self::Port => "invalid port: not a number from 1 to 65535",
            Self::Address => "invalid address: expected IP addresses separated by commas",
        })
    }
}

impl std::error::Error for OverrideError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> Overrides {
        let mut overrides = Overrides::default();
        texts.iter().for_each(|text| overrides.add(text).unwrap());
        overrides
    }

    fn found(overrides: &Overrides, host: &str, port: Option<u16>) -> String {
        let addresses = overrides.find(host, port).map_or(&[][..], |addresses| addresses);
        addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn hosts_are_found_with_and_without_their_port() {
        let overrides =
            of(&["a.example:80:192.0.2.1,[2001:db8::1]", "A.Example.:443:192.0.2.2", "*:80:::1"]);
        for (host, port, expected) in [
            ("a.example", Some(80), "192.0.2.1 2001:db8::1"),
            ("A.EXAMPLE.", Some(443), "192.0.2.2"),
            ("a.example", None, "192.0.2.2"),
            ("a.example", Some(81), ""),
            ("b.example", Some(80), "::1"),
            ("b.example", Some(443), ""),
            ("b.example", None, "::1"),
        ] {
            assert_eq!(found(&overrides, host, port), expected, "{host} {port:?}");
        }
    }

    #[test]
    fn the_last_override_wins() {
        let overrides = of(&["a:80:192.0.2.1", "a:80:192.0.2.2"]);
        assert_eq!(found(&overrides, "a", Some(80)), "192.0.2.2");
        assert_eq!(overrides.entries.len(), 1);
    }

    #[test]
    fn invalid_overrides_name_the_invalid_part() {
        for (text, error) in [
            ("", OverrideError::Incomplete),
            ("a:80", OverrideError::Incomplete),
            ("a b:80:::1", OverrideError::Host(ResolveError::BadName)),
            (":80:::1", OverrideError::Host(ResolveError::BadName)),
            ("a:x:::1", OverrideError::Port),
            ("a:0:::1", OverrideError::Port),
            ("a:65536:::1", OverrideError::Port),
            ("a:80:", OverrideError::Address),
            ("a:80:b.example", OverrideError::Address),
            ("a:80:::1,", OverrideError::Address),
            ("a:80:[::1", OverrideError::Address),
        ] {
            assert_eq!(Overrides::default().add(text), Err(error), "{text}");
        }
    }
}
