//! `CURLOPT_RESOLVE` and `CURLOPT_CONNECT_TO`: names and addresses that the application gives.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use crate::code::CurlCode;
use crate::failure::Failure;

/// The addresses of names, kept by a multi handle.
#[derive(Debug, Default)]
pub(crate) struct StaticHosts {
    entries: Vec<HostEntry>,
}

#[derive(Debug)]
struct HostEntry {
    /// In lower case; `*` for every name.
    host: String,
    port: u16,
    addresses: Vec<IpAddr>,
    /// `None`: it does not expire.
    expires: Option<Instant>,
}

impl StaticHosts {
    /// Applies an entry of `CURLOPT_RESOLVE`: `[+]HOST:PORT:ADDRESS[,ADDRESS]...` or `-HOST:PORT`.
    /// `age_max`: `CURLOPT_DNS_CACHE_TIMEOUT`. Messages for verbose output are appended.
    ///
    /// # Errors
    /// It has another form.
    pub(crate) fn apply(
        &mut self,
        text: &str,
        now: Instant,
        age_max: Option<Duration>,
        messages: &mut Vec<String>,
    ) -> Result<(), Failure> {
        if let Some(removed) = text.strip_prefix('-') {
            match removed.split_once(':').and_then(|(host, port)| Some((host, number(port)?))) {
                Some((host, port)) => self.remove(&host.to_ascii_lowercase(), port),
                None => {
                    messages.push(format!("Couldn't parse CURLOPT_RESOLVE removal entry '{text}'"))
                }
            }
            return Ok(());
        }
        let entry = text.strip_prefix('+').unwrap_or(text);
        let is_permanent = entry.len() == text.len();
        let parsed = parse(entry, messages).ok_or_else(|| {
            let text = format!("Couldn't parse CURLOPT_RESOLVE entry '{text}'");
            Failure::new(CurlCode::SetoptOptionSyntax, text)
        })?;
        let (host, port, list) = (parsed.host, parsed.port, parsed.list);
        let key = host.to_ascii_lowercase();
        if self.entries.iter().any(|entry| entry.host == key && entry.port == port) {
            messages.push(format!("RESOLVE {host}:{port} is - old addresses discarded"));
        }
        self.remove(&key, port);
        let expires = age_max.filter(|_| !is_permanent).map(|age| now + age);
        self.entries.push(HostEntry { host: key, port, addresses: parsed.addresses, expires });
        let kind = if is_permanent { "" } else { " (non-permanent)" };
        messages.push(format!("Added {host}:{port}:{list} to DNS cache{kind}"));
        if host == "*" {
            messages.push(format!("RESOLVE *:{port} is wildcard, enabling wildcard checks"));
        }
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn remove(&mut self, host: &str, port: u16) {
        self.entries.retain(|entry| entry.host != host || entry.port != port);
    }

    /// The addresses of a host, if there is an entry.
    pub(crate) fn find(&self, host: &str, port: u16, now: Instant) -> Option<Vec<SocketAddr>> {
        if self.is_empty() {
            return None;
        }
        let find = |host: &str| {
            self.entries.iter().find(|entry| {
                let is_alive = entry.expires.is_none_or(|expires| expires > now);
                entry.host == host && entry.port == port && is_alive
            })
        };
        let entry = find(&host.to_ascii_lowercase()).or_else(|| find("*"))?;
        Some(entry.addresses.iter().map(|address| (*address, port).into()).collect())
    }
}

struct ParsedEntry<'a> {
    host: &'a str,
    port: u16,
    list: &'a str,
    addresses: Vec<IpAddr>,
}

fn parse<'a>(entry: &'a str, messages: &mut Vec<String>) -> Option<ParsedEntry<'a>> {
    let (host, rest) = entry.split_once(':').filter(|(host, _)| host.len() < HOST_SIZE_MAX)?;
    let (port, list) = rest.split_once(':')?;
    let port = port.trim_start().parse().ok()?;
    let mut addresses = Vec::new();
    for text in list.split(',') {
        let address = match text.strip_prefix('[') {
            Some(inner) => inner.strip_suffix(']')?,
            None => text,
        };
        if address.is_empty() {
            continue;
        }
        let Ok(address) = address.parse() else {
            messages.push(format!("Resolve address '{address}' found illegal"));
            return None;
        };
        addresses.push(address);
    }
    (!addresses.is_empty()).then_some(ParsedEntry { host, port, list, addresses })
}

/// The number that a text begins with.
fn number(text: &str) -> Option<u16> {
    let len = text.bytes().take_while(u8::is_ascii_digit).count();
    text[..len].parse().ok()
}

/// Where to connect instead of the host and the port of a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConnectTo {
    pub(crate) host: Option<String>,
    pub(crate) port: Option<u16>,
}

impl ConnectTo {
    /// The target of the first entry of `CURLOPT_CONNECT_TO` that is for this host and port:
    /// `HOST:PORT:OTHER-HOST:OTHER-PORT`, of which each may be empty.
    ///
    /// # Errors
    /// The other port is no number.
    pub(crate) fn find(list: &[Vec<u8>], host: &str, port: u16) -> Result<Self, Failure> {
        for entry in list {
            let entry = String::from_utf8_lossy(entry);
            let found = match after_match(&entry, host, port) {
                Some(other) => Self::parse(other)?,
                None => Self::default(),
            };
            if found != Self::default() {
                return Ok(found);
            }
        }
        Ok(Self::default())
    }

    fn parse(text: &str) -> Result<Self, Failure> {
        let (host, rest) = match text.strip_prefix('[') {
            Some(inner) => inner.split_once(']').unwrap_or((inner, "")),
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let port = rest.strip_prefix(':').filter(|port| !port.is_empty());
        let port = port.map(|port| {
            port.parse().map_err(|_| {
                let text = format!("No valid port number in connect to host string ({port})");
                Failure::new(CurlCode::SetoptOptionSyntax, text)
            })
        });
        let host = Some(host).filter(|host| !host.is_empty()).map(str::to_owned);
        Ok(Self { host, port: port.transpose()? })
    }
}

/// The part of an entry behind a host and a port that match.
fn after_match<'a>(entry: &'a str, host: &str, port: u16) -> Option<&'a str> {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let rest = match entry.strip_prefix(':') {
        Some(rest) => rest,
        None => {
            let (start, rest) = entry.split_at_checked(host.len())?;
            rest.strip_prefix(':').filter(|_| start.eq_ignore_ascii_case(&host))?
        }
    };
    match rest.strip_prefix(':') {
        Some(other) => Some(other),
        None => rest.split_once(':').filter(|(of, _)| of.parse() == Ok(port)).map(|(_, it)| it),
    }
}

const HOST_SIZE_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn found(hosts: &StaticHosts, host: &str, port: u16, now: Instant) -> String {
        let addresses = hosts.find(host, port, now).unwrap_or_default();
        addresses.iter().map(|it| format!("{it} ")).collect()
    }

    #[test]
    fn entries_replace_remove_and_expire() {
        let (mut hosts, mut messages) = (StaticHosts::default(), Vec::new());
        let now = fulmar_sys::now();
        let age = Some(Duration::from_secs(60));
        let mut apply = |text: &str, hosts: &mut StaticHosts| {
            hosts.apply(text, now, age, &mut messages).map_err(|it| it.text.into_owned())
        };
        apply("A.test:80:127.0.0.1,[::1]", &mut hosts).expect("valid");
        assert_eq!(found(&hosts, "a.TEST", 80, now), "127.0.0.1:80 [::1]:80 ");
        assert_eq!(found(&hosts, "a.test", 81, now), "");
        apply("+a.test:80:127.0.0.2", &mut hosts).expect("valid");
        assert_eq!(found(&hosts, "a.test", 80, now), "127.0.0.2:80 ");
        assert_eq!(found(&hosts, "a.test", 80, now + Duration::from_secs(60)), "");
        apply("*:80:127.0.0.3", &mut hosts).expect("valid");
        assert_eq!(found(&hosts, "b.test", 80, now), "127.0.0.3:80 ");
        apply("-a.test:80", &mut hosts).expect("valid");
        assert_eq!(found(&hosts, "a.test", 80, now), "127.0.0.3:80 ");
        let refused = apply("80:a.test:127.0.0.1", &mut hosts);
        let text = "Couldn't parse CURLOPT_RESOLVE entry '80:a.test:127.0.0.1'";
        assert_eq!(refused, Err(text.to_owned()));
        assert!(apply("a.test:80:", &mut hosts).is_err());
        assert!(apply("a.test:80:x", &mut hosts).is_err());
        assert_eq!(messages[0], "Added A.test:80:127.0.0.1,[::1] to DNS cache");
    }

    #[test]
    fn first_matching_entry_decides_where_to_connect() {
        let find = |entries: &[&str], host: &str, port| {
            let list: Vec<_> = entries.iter().map(|entry| entry.as_bytes().to_vec()).collect();
            let found = ConnectTo::find(&list, host, port).map_err(|it| it.text.into_owned())?;
            Ok((found.host.unwrap_or_default(), found.port))
        };
        let to = |host: &str, port| Ok::<_, String>((host.to_owned(), port));
        assert_eq!(find(&["::b:81"], "a", 80), to("b", Some(81)));
        assert_eq!(find(&[":82:b:81"], "a", 80), to("", None));
        assert_eq!(find(&["x::b:", "a:80:[::1]:9"], "A", 80), to("::1", Some(9)));
        assert_eq!(find(&[":::", "[fc00::1]:80::9"], "fc00::1", 80), to("", Some(9)));
        let text = "No valid port number in connect to host string (x)";
        assert_eq!(find(&["::b:x"], "a", 80), Err(text.to_owned()));
    }
}
