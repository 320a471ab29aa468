//! Addresses that the user knows better than the name servers: curl's `--resolve`.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use fulmar_engine::ResolveError;

use crate::hostname;

/// Addresses of hosts, given as `host:port:address[,address]...`; the host `*` means every one.
///
/// A lookup asks for a name and has no port. So [`Names`](crate::Names) takes an override for all
/// ports of its host; who connects to several and wants curl's exact rule asks
/// [`Overrides::find`] with the port, before it asks for the name.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    host: Box<str>, // normal, without a final dot; or `*`
    port: u16,
    addresses: Arc<[IpAddr]>,
}

impl Overrides {
    /// Adds `host:port:address[,address]...`, in place of what was said of that host and port.
    /// IPv6 addresses may stand in brackets.
    ///
    /// # Errors
    /// The variant says which part is wrong.
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
        self.entries.push(Entry { host, port, addresses });
        Ok(())
    }

    /// What was said of `host`: at `port`, or at any. What was said last counts; what was said of
    /// every host counts last.
    pub fn find(&self, host: &str, port: Option<u16>) -> Option<&Arc<[IpAddr]>> {
        let host = host.strip_suffix('.').unwrap_or(host);
        let fits = |entry: &&Entry| port.is_none_or(|port| entry.port == port);
        let mut latest = self.entries.iter().rev().filter(fits);
        let exact = latest.clone().find(|entry| entry.host.eq_ignore_ascii_case(host));
        exact.or_else(|| latest.find(|entry| &*entry.host == "*")).map(|entry| &entry.addresses)
    }
}

fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    bare.unwrap_or(text).parse().ok()
}

/// What is wrong with an override.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OverrideError {
    /// Not three parts.
    Incomplete,
    /// The first part is no name.
    Host(ResolveError),
    /// The second part is no port.
    Port,
    /// The third part is no list of addresses.
    Address,
}

impl fmt::Display for OverrideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Incomplete => "not host:port:address[,address]...",
            Self::Host(_) => "the host is neither a host name nor *",
            Self::Port => "the port is no number from 1 to 65535",
            Self::Address => "not an IP address, or several with commas between",
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
    fn what_is_said_last_counts() {
        let overrides = of(&["a:80:192.0.2.1", "a:80:192.0.2.2"]);
        assert_eq!(found(&overrides, "a", Some(80)), "192.0.2.2");
        assert_eq!(overrides.entries.len(), 1);
    }

    #[test]
    fn wrong_overrides_say_what_is_wrong() {
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
