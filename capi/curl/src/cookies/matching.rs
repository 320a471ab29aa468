//! Which hosts and paths a cookie is for, and the bucket of a domain.

use std::net::{Ipv4Addr, Ipv6Addr};

/// True if `Secure` cookies may be set and sent: HTTPS, or a connection to this machine.
pub(crate) fn is_secure_context(is_tls: bool, host: &[u8]) -> bool {
    is_tls || host.eq_ignore_ascii_case(b"localhost") || matches!(host, b"127.0.0.1" | b"::1")
}

pub(super) fn is_address(host: &[u8]) -> bool {
    std::str::from_utf8(host)
        .is_ok_and(|host| host.parse::<Ipv4Addr>().is_ok() || host.parse::<Ipv6Addr>().is_ok())
}

/// True if the host is the domain, or is below it.
pub(super) fn is_within(domain: &[u8], host: &[u8]) -> bool {
    let Some(at) = host.len().checked_sub(domain.len()) else { return false };
    host[at..].eq_ignore_ascii_case(domain) && (at == 0 || host[at - 1] == b'.')
}

/// True if the path of a request is the path of a cookie, or is below it.
pub(super) fn is_path_within(cookie: &[u8], request: &[u8]) -> bool {
    if cookie.len() == 1 {
        return true; // "/"
    }
    let end = request.iter().position(|byte| *byte == b'?').unwrap_or(request.len());
    let request = Some(&request[..end]).filter(|path| path.starts_with(b"/")).unwrap_or(b"/");
    match request.strip_prefix(cookie) {
        Some(rest) => rest.is_empty() || rest[0] == b'/',
        None => false,
    }
}

/// A path for comparisons: without quotes around it and without a slash at its end, and `/` if it
/// is not absolute.
pub(super) fn match_path(path: &[u8]) -> Vec<u8> {
    let path = path.strip_prefix(b"\"").unwrap_or(path);
    let path = path.strip_suffix(b"\"").unwrap_or(path);
    if !path.starts_with(b"/") {
        return b"/".to_vec();
    }
    path.strip_suffix(b"/").unwrap_or(path).to_vec()
}

/// The bucket of a domain: a hash of its last two labels, without case. It decides the order of
/// `CURLINFO_COOKIELIST`, and which hosts get cookies without a domain: those of its bucket.
pub(super) fn bucket(domain: Option<&[u8]>) -> usize {
    let Some(domain) = domain.filter(|domain| !is_address(domain)) else { return 0 };
    let mut dots = domain.iter().enumerate().rev().filter(|(_, byte)| **byte == b'.');
    let start = dots.nth(1).map_or(0, |(at, _)| at + 1);
    let hash = domain[start..].iter().fold(5381_u64, |hash, byte| {
        hash.wrapping_add(hash << 5) ^ u64::from(byte.to_ascii_uppercase())
    });
    usize::try_from(hash % BUCKETS as u64).unwrap_or_default()
}

/// True if a host may set cookies for this domain: not for a public suffix, unless it is the host.
pub(super) fn is_acceptable(host: &[u8], domain: &[u8]) -> bool {
    if host.len() > NAME_LEN_MAX || domain.len() > NAME_LEN_MAX {
        return false;
    }
    let host = host.to_ascii_lowercase();
    let domain = domain.to_ascii_lowercase();
    let first = domain.iter().position(|byte| *byte != b'.').unwrap_or(domain.len());
    let domain = &domain[first..];
    if host == domain {
        return true;
    }
    let suffix_len = psl::suffix(&host).map_or(0, |suffix| suffix.as_bytes().len());
    is_within(domain, &host) && domain.len() > suffix_len
}

pub(super) const BUCKETS: usize = 63;

/// Longer names are not looked up in the list of public suffixes.
const NAME_LEN_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_match_whole_segments() {
        for (cookie, request, expected) in [
            ("/", "/x", true),
            ("", "/x", true),
            ("/a", "/a", true),
            ("/a", "/a/b", true),
            ("/a", "/ab", false),
            ("/a", "/a?b=/c", true),
            ("/a", "/A", false),
            ("/a/b", "/a", false),
            ("/a", "", false),
            ("", "", true),
        ] {
            let is_within = is_path_within(cookie.as_bytes(), request.as_bytes());
            assert_eq!(is_within, expected, "{cookie} {request}");
        }
    }

    #[test]
    fn paths_are_cleaned_before_they_are_compared() {
        for (path, expected) in [
            ("/", ""),
            ("\"/silly/\"", "/silly"),
            ("/a/b", "/a/b"),
            ("/a//", "/a/"),
            ("a/", "/"),
            ("", "/"),
            ("\"", "/"),
        ] {
            assert_eq!(match_path(path.as_bytes()), expected.as_bytes(), "{path}");
        }
    }

    #[test]
    fn hosts_may_not_set_cookies_for_public_suffixes() {
        for (host, domain, expected) in [
            ("www.example.co.uk", "example.co.uk", true),
            ("www.example.co.uk", "co.uk", false),
            ("www.example.co.UK", "CO.uk", false),
            ("co.uk", "co.uk", true),
            ("a.b.unknown", "b.unknown", true),
            ("a.b.unknown", "unknown", false),
            ("example.com", "www.example.com", false),
        ] {
            let accepted = is_acceptable(host.as_bytes(), domain.as_bytes());
            assert_eq!(accepted, expected, "{host} {domain}");
        }
    }

    #[test]
    fn domains_and_their_hosts_share_a_bucket() {
        let of = |name: &str| bucket(Some(name.as_bytes()));
        assert_eq!(of("a.b.example.com"), of("EXAMPLE.com"));
        assert_ne!(of("example.org"), of("example.com"));
        assert_eq!((of("127.0.0.1"), of("::1"), bucket(None)), (0, 0, 0));
    }
}
