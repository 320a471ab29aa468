//! Addresses as HAProxy writes them (configuration manual, §4.2 `bind` and §5.2 `server`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use crate::machine::Machine;

/// A parsed address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ParsedAddress {
    /// A host and its ports.
    Ip(AddressHost, Ports),
    /// A Unix socket.
    Unix(PathBuf),
    /// A name in the abstract namespace.
    Abstract(String),
    /// A descriptor.
    Descriptor(i32),
}

/// The host of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AddressHost {
    /// An IP address.
    Known(IpAddr),
    /// A host name.
    Name(String, Option<AddressFamily>),
}

/// Address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The ports of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ports {
    /// None.
    None,
    /// An inclusive range.
    Range(u16, u16),
    /// Relative to another port: `:+8000`, `:-10`.
    Offset(i32),
}

impl ParsedAddress {
    /// Parses `text`, in which variables are already expanded.
    ///
    /// # Errors
    /// The text is not a valid address.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with('/') {
            return Self::unix(text);
        }
        let Some((prefix, rest)) = text.split_once('@') else { return Self::ip(text, None) };
        match prefix {
            "unix" => Self::unix(rest),
            "abns" if rest.is_empty() => Err(format!("'{text}': missing name")),
            "abns" if rest.len() > ABSTRACT_MAX => {
                Err(format!("'{text}': the name is longer than {ABSTRACT_MAX} bytes"))
            }
            "abns" => Ok(Self::Abstract(rest.to_owned())),
            "fd" => match rest.parse() {
                Ok(descriptor @ 0..) => Ok(Self::Descriptor(descriptor)),
                _ => Err(format!("'{text}': missing or invalid descriptor number after 'fd@'")),
            },
            "ipv4" | "tcp4" | "udp4" => Self::ip(rest, Some(AddressFamily::V4)),
            "ipv6" | "tcp6" | "udp6" => Self::ip(rest, Some(AddressFamily::V6)),
            "tcp" | "udp" => Self::ip(rest, None),
            _ => Err(format!(
                "'{text}': unsupported prefix '{prefix}@', expected ipv4@, ipv6@, unix@, abns@ or \
                 fd@"
            )),
        }
    }

    fn unix(path: &str) -> Result<Self, String> {
        if path.is_empty() {
            return Err("missing path of a Unix socket".to_owned());
        }
        if path.len() > UNIX_MAX {
            return Err(format!("'{path}': the socket path is longer than {UNIX_MAX} bytes"));
        }
        Ok(Self::Unix(path.into()))
    }

    fn ip(text: &str, family: Option<AddressFamily>) -> Result<Self, String> {
        let split = text.rfind([']', ':']).filter(|&at| text.as_bytes()[at] == b':');
        let (host, ports) = match split {
            Some(at) => (&text[..at], Ports::parse(&text[at + 1..])?),
            None => (text, Ports::None),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match (bare.unwrap_or(host), family) {
            ("" | "*", None | Some(AddressFamily::V4)) => {
                AddressHost::Known(Ipv4Addr::UNSPECIFIED.into())
            }
            ("" | "*", Some(AddressFamily::V6)) => AddressHost::Known(Ipv6Addr::UNSPECIFIED.into()),
            (host, family) => match host.parse::<IpAddr>() {
                Ok(ip) => match (ip, family) {
                    (IpAddr::V4(_), Some(AddressFamily::V6))
                    | (IpAddr::V6(_), Some(AddressFamily::V4)) => {
                        return Err(format!(
                            "'{text}': the address is of the other address family"
                        ));
                    }
                    _ => AddressHost::Known(ip),
                },
                Err(_) => AddressHost::name(host, family)?,
            },
        };
        Ok(Self::Ip(host, ports))
    }
}

impl AddressHost {
    fn name(name: &str, family: Option<AddressFamily>) -> Result<Self, String> {
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.len() > NAME_MAX || !name.chars().all(is_of_name) {
            return Err(format!("invalid address or host name '{name}'"));
        }
        Ok(Self::Name(name.to_owned(), family))
    }

    /// The first address of the requested family.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn resolve(&self, machine: &dyn Machine) -> Result<IpAddr, String> {
        let first = self.resolve_nth(machine, 0)?;
        Ok(first.expect("there is a first one, or an error"))
    }

    /// The `nth` distinct address of a name, from 0; `None` if there are fewer. A literal address
    /// is returned for every index.
    ///
    /// # Errors
    /// There is no address at all.
    pub(crate) fn resolve_nth(
        &self,
        machine: &dyn Machine,
        nth: usize,
    ) -> Result<Option<IpAddr>, String> {
        let (name, family) = match self {
            Self::Known(ip) => return Ok(Some(*ip)),
            Self::Name(name, family) => (name, family),
        };
        let wanted = |ip: &IpAddr| match family {
            None => true,
            Some(AddressFamily::V4) => ip.is_ipv4(),
            Some(AddressFamily::V6) => ip.is_ipv6(),
        };
        let found = machine.resolve(name);
        let found =
            found.map_err(|error| format!("could not resolve address '{name}': {error}"))?;
        let mut all: Vec<IpAddr> = Vec::new();
        for ip in found.into_iter().filter(wanted) {
            if !all.contains(&ip) {
                all.push(ip);
            }
        }
        match all.is_empty() {
            true => Err(format!("'{name}' has no address of this family")),
            false => Ok(all.get(nth).copied()),
        }
    }
}

impl Ports {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("invalid port '{text}'");
        let port = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse::<u16>().map_err(|_| wrong()),
            false => Err(wrong()),
        };
        match text.as_bytes().first() {
            None => Ok(Self::None),
            Some(b'+') => Ok(Self::Offset(i32::from(port(&text[1..])?))),
            Some(b'-') => Ok(Self::Offset(-i32::from(port(&text[1..])?))),
            Some(_) => match text.split_once('-') {
                None => port(text).map(|port| Self::Range(port, port)),
                Some((first, last)) => match (port(first)?, port(last)?) {
                    (first, last) if first <= last => Ok(Self::Range(first, last)),
                    _ => Err(format!("'{text}': the port range is reversed")),
                },
            },
        }
    }
}

/// The kernel's limit (unix(7)), including the zero after a path or before an abstract name.
const UNIX_MAX: usize = 107;
const ABSTRACT_MAX: usize = 107;

/// RFC 1035, §2.3.4.
const NAME_MAX: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str, ports: Ports) -> ParsedAddress {
        ParsedAddress::Ip(AddressHost::Known(text.parse().expect("an address")), ports)
    }

    #[test]
    fn addresses_come_in_many_forms() {
        let at = |port| Ports::Range(port, port);
        for (text, expected) in [
            (":80", ip("0.0.0.0", at(80))),
            ("*:80", ip("0.0.0.0", at(80))),
            ("*", ip("0.0.0.0", Ports::None)),
            ("ipv4@:80", ip("0.0.0.0", at(80))),
            ("ipv6@:80", ip("::", at(80))),
            ("ipv6@*:80", ip("::", at(80))),
            ("[::]:443", ip("::", at(443))),
            (":::443", ip("::", at(443))),
            ("::1:80", ip("::1", at(80))),
            ("[::1]", ip("::1", Ports::None)),
            ("ipv6@::1:80", ip("::1", at(80))),
            ("127.0.0.1", ip("127.0.0.1", Ports::None)),
            ("127.0.0.1:", ip("127.0.0.1", Ports::None)),
            ("127.0.0.1:8000-8010", ip("127.0.0.1", Ports::Range(8000, 8010))),
            ("0.0.0.0:+8000", ip("0.0.0.0", Ports::Offset(8000))),
            ("127.0.0.1:-10", ip("127.0.0.1", Ports::Offset(-10))),
            (
                "a-b.example:80",
                ParsedAddress::Ip(AddressHost::Name("a-b.example".into(), None), at(80)),
            ),
            (
                "ipv4@a:80",
                ParsedAddress::Ip(AddressHost::Name("a".into(), Some(AddressFamily::V4)), at(80)),
            ),
            ("/run/a.sock", ParsedAddress::Unix("/run/a.sock".into())),
            ("unix@/run/a.sock", ParsedAddress::Unix("/run/a.sock".into())),
            ("unix@a.sock", ParsedAddress::Unix("a.sock".into())),
            ("abns@a", ParsedAddress::Abstract("a".into())),
            ("fd@3", ParsedAddress::Descriptor(3)),
        ] {
            assert_eq!(ParsedAddress::parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn invalid_addresses_are_reported() {
        for text in [
            ":x",
            ":80-70",
            ":99999",
            ":80-",
            "fd@x",
            "fd@-1",
            "abns@",
            "unix@",
            "ipv4@::1:80",
            "ipv6@1.2.3.4:80",
            "quic4@:443",
            "a b:80",
            ":+",
            "host!:80",
        ] {
            assert!(ParsedAddress::parse(text).is_err(), "{text}");
        }
        assert!(ParsedAddress::parse(&"/".repeat(200)).is_err());
    }
}
