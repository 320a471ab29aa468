//! Hosts as cookies compare them (RFC 6265bis §5.1.2, §5.1.3).
//!
//! A host is kept backwards, so that every parent of a name is a prefix of it, and all its
//! subdomains stand side by side in an ordered map. On the stack: asking allocates nothing.

use std::net::IpAddr;

/// A host in lower case, without brackets, last byte first.
///
/// `example.com.` is another host than `example.com`: names are compared as they are written.
#[derive(Clone, Copy)]
pub(super) struct Host {
    reversed: [u8; HOST_SIZE_MAX],
    len: usize,
    is_address: bool,
}

impl Host {
    /// `None` if it is neither an address nor a name of letters, digits and `-._~`.
    pub(super) fn parse(host: &[u8]) -> Option<Self> {
        let inner = match host {
            [b'[', inner @ .., b']'] if inner.contains(&b':') => inner,
            _ => host,
        };
        let bare = inner.strip_suffix(b".").unwrap_or(inner);
        let is_address = str::from_utf8(bare).is_ok_and(|text| text.parse::<IpAddr>().is_ok());
        if !is_address && !is_name(inner) || inner.len() > HOST_SIZE_MAX {
            return None;
        }
        let mut reversed = [0; HOST_SIZE_MAX];
        for (to, from) in reversed.iter_mut().zip(inner.iter().rev()) {
            *to = from.to_ascii_lowercase();
        }
        Some(Self { reversed, len: inner.len(), is_address })
    }

    /// The host backwards: its place in an ordered map.
    pub(super) fn key(&self) -> &[u8] {
        &self.reversed[..self.len]
    }

    /// The keys of the host and of all its parents, the host first. An address has no parents.
    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let key = self.key();
        let parents = if self.is_address { &[] } else { key };
        let dots = parents.iter().enumerate().rev().filter(|(_, byte)| **byte == b'.');
        std::iter::once(key).chain(dots.map(|(at, _)| &key[..at]).filter(|key| !key.is_empty()))
    }

    /// True if `self` is `domain` or below it.
    pub(super) fn domain_matches(&self, domain: &Self) -> bool {
        let below = |rest: &[u8]| rest.first() == Some(&b'.');
        match self.key().strip_prefix(domain.key()) {
            Some([]) => true,
            Some(rest) => below(rest) && !self.is_address && !domain.is_address,
            None => false,
        }
    }

    pub(super) fn is_address(&self) -> bool {
        self.is_address
    }

    /// True for names under which strangers register theirs. Names that the list does not know
    /// end in a suffix of one label.
    pub(super) fn is_public_suffix(&self) -> bool {
        let name = self.name();
        let bare = name.strip_suffix('.').unwrap_or(&name);
        psl::suffix(bare.as_bytes()).is_some_and(|suffix| suffix.as_bytes() == bare.as_bytes())
    }

    /// The host, in reading order.
    pub(super) fn name(&self) -> String {
        self.key().iter().rev().map(|byte| char::from(*byte)).collect()
    }
}

/// Labels that are not empty; one dot may follow the last.
fn is_name(host: &[u8]) -> bool {
    let is_label = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'~');
    let bare = host.strip_suffix(b".").unwrap_or(host);
    bare.split(|b| *b == b'.').all(|label| !label.is_empty() && label.iter().all(is_label))
}

/// The longest name of the DNS (RFC 1035 §2.3.4) as text, with its last dot.
const HOST_SIZE_MAX: usize = 254;

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> Host {
        Host::parse(name.as_bytes()).unwrap_or_else(|| panic!("{name}"))
    }

    #[test]
    fn hosts_are_names_or_addresses() {
        for (good, name) in [
            ("a", "a"),
            ("WWW.Example.COM", "www.example.com"),
            ("a_b.c-d", "a_b.c-d"),
            ("a.", "a."),
            ("127.0.0.1", "127.0.0.1"),
            ("[::1]", "::1"),
            ("::1", "::1"),
            (&"a.".repeat(127)[..], &"a.".repeat(127)[..]),
        ] {
            assert_eq!(host(good).name(), name);
        }
        let long = "a".repeat(HOST_SIZE_MAX + 1);
        for bad in ["", ".", "..", ".a", "a..", "a..b", "a b", "a\tb", "é", "[x]", "a:80", &long] {
            assert!(Host::parse(bad.as_bytes()).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_host_matches_itself_and_its_parents() {
        for (name, domain, expected) in [
            ("a.b.c", "a.b.c", true),
            ("a.b.c", "b.c", true),
            ("A.B.C", "b.c", true),
            ("a.b.c", "c", true),
            ("b.c", "a.b.c", false),
            ("ab.c", "b.c", false),
            ("a.b.c.", "b.c", false),
            ("a.b.c", "b.c.", false),
            ("a.b.c.", "b.c.", true),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "0.0.1", false),
            ("127.0.0.1.", "0.0.1.", false),
            ("x.127.0.0.1", "127.0.0.1", false),
            ("[::1]", "::1", true),
        ] {
            assert_eq!(host(name).domain_matches(&host(domain)), expected, "{name} {domain}");
        }
    }

    #[test]
    fn keys_are_those_of_the_parents() {
        let keys = |name: &str| -> Vec<String> {
            let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
            host(name).keys().map(text).collect()
        };
        assert_eq!(keys("ab.c.d"), ["d.c.ba", "d.c", "d"]);
        assert_eq!(keys("a.b."), [".b.a", ".b"]);
        assert_eq!(keys("127.0.0.1"), ["1.0.0.721"]);
    }

    #[test]
    fn the_list_knows_public_suffixes() {
        for suffix in ["com", "CO.UK", "com.", "co.uk.", "github.io", "unlisted", "xn--p1ai"] {
            assert!(host(suffix).is_public_suffix(), "{suffix}");
        }
        for name in ["example.com", "a.co.uk", "example.com.", "a.github.io", "127.0.0.1"] {
            assert!(!host(name).is_public_suffix(), "{name}");
        }
    }
}
