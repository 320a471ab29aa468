//! Host comparison for cookies (RFC 6265bis §5.1.2, §5.1.3).
//!
//! A host is stored in reverse, so every parent domain is a prefix of it, and all subdomains are
//! adjacent in an ordered map. It is stored inline: lookups do not allocate.

use std::net::IpAddr;

/// A host in lower case, without brackets, in reverse byte order.
///
/// `example.com.` and `example.com` are different hosts: names are compared as written.
#[derive(Clone, Copy)]
pub(super) struct CookieHost {
    reversed: [u8; HOST_SIZE_MAX],
    len: usize,
    is_address: bool,
}

impl CookieHost {
    /// `None` if it is neither an address nor a name of letters, digits and `-._~`.
    pub(super) fn parse(host: &[u8]) -> Option<Self> {
        let inner = match host {
            [b'[', inner @ .., b']'] if inner.contains(&b':') => inner,
            _ => host,
        };
        let bare = inner.strip_suffix(b".").unwrap_or(inner);
        let may_be = bare.last().is_some_and(u8::is_ascii_digit) || bare.contains(&b':');
        let is_address =
            may_be && str::from_utf8(bare).is_ok_and(|text| text.parse::<IpAddr>().is_ok());
        if !is_address && !is_name(inner) || inner.len() > HOST_SIZE_MAX {
            return None;
        }
        let mut reversed = [0; HOST_SIZE_MAX];
        for (to, from) in reversed.iter_mut().zip(inner.iter().rev()) {
            *to = from.to_ascii_lowercase();
        }
        Some(Self { reversed, len: inner.len(), is_address })
    }

    /// The reversed host: its key in an ordered map.
    pub(super) fn key(&self) -> &[u8] {
        &self.reversed[..self.len]
    }

    /// The longest key of the host and its parents that has at most `len` bytes. An address has no
    /// parents.
    pub(super) fn key_within(&self, len: usize) -> Option<&[u8]> {
        let key = self.key();
        if len >= key.len() {
            return Some(key);
        }
        let dot = key[..=len].iter().rposition(|byte| *byte == b'.');
        dot.filter(|dot| *dot > 0 && !self.is_address).map(|dot| &key[..dot])
    }

    /// True if `self` is `domain` or a subdomain of it.
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

    /// True for domains under which different owners register names. The suffix of unknown names is
    /// their last label.
    pub(super) fn is_public_suffix(&self) -> bool {
        let name = self.name();
        let bare = name.strip_suffix('.').unwrap_or(&name);
        psl::suffix(bare.as_bytes()).is_some_and(|suffix| suffix.as_bytes() == bare.as_bytes())
    }

    /// The host in normal order.
    pub(super) fn name(&self) -> String {
        self.key().iter().rev().map(|byte| char::from(*byte)).collect()
    }
}

/// True for non-empty labels; a final dot is allowed.
fn is_name(host: &[u8]) -> bool {
    let is_label = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'~');
    let bare = host.strip_suffix(b".").unwrap_or(host);
    bare.split(|b| *b == b'.').all(|label| !label.is_empty() && label.iter().all(is_label))
}

/// Maximum length of a DNS name as text (RFC 1035 §2.3.4), with a final dot.
const HOST_SIZE_MAX: usize = 254;

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> CookieHost {
        CookieHost::parse(name.as_bytes()).unwrap_or_else(|| panic!("{name}"))
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
            assert!(CookieHost::parse(bad.as_bytes()).is_none(), "{bad}");
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
        let keys = |name: &str| {
            let host = host(name);
            let within = |len| host.key_within(len).map(|key| String::from_utf8_lossy(key).into());
            (0..=host.len).rev().map(within).collect::<Vec<Option<String>>>()
        };
        let some = |key: &str| Some(key.to_owned());
        assert_eq!(
            keys("ab.c.d"),
            [some("d.c.ba"), some("d.c"), some("d.c"), some("d.c"), some("d"), some("d"), None]
        );
        assert_eq!(keys("a.b."), [some(".b.a"), some(".b"), some(".b"), None, None]);
        assert_eq!(keys("1.1.1.1").iter().flatten().count(), 1);
    }

    #[test]
    fn public_suffixes_are_recognized() {
        for suffix in ["com", "CO.UK", "com.", "co.uk.", "github.io", "unlisted", "xn--p1ai"] {
            assert!(host(suffix).is_public_suffix(), "{suffix}");
        }
        for name in ["example.com", "a.co.uk", "example.com.", "a.github.io", "127.0.0.1"] {
            assert!(!host(name).is_public_suffix(), "{name}");
        }
    }
}
