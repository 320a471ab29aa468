//! Normalizes host names (RFC 1035 §2.3.4), and recognizes special ones.

use fulmar_engine::ResolveError;

/// Writes `name` in lower case to `out`.
///
/// Allowed are letters, digits, hyphens and underscores. A final dot disables the search list.
/// Names in other scripts must be in ASCII form (RFC 5890).
pub(crate) fn normalize(name: &str, out: &mut String) -> Result<(), ResolveError> {
    out.clear();
    let labels = name.strip_suffix('.').unwrap_or(name);
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let fits = |label: &str| (1..=LABEL_LEN_MAX).contains(&label.len());
    if labels.len() > NAME_LEN_MAX
        || !labels.split('.').all(|label| fits(label) && label.bytes().all(legal))
    {
        return Err(ResolveError::BadName);
    }
    out.push_str(name);
    out.make_ascii_lowercase();
    Ok(())
}

/// `localhost` and its subdomains resolve to loopback, without a query (RFC 6761 §6.3).
pub(crate) fn is_localhost(normal: &str) -> bool {
    is_below(normal, "localhost")
}

/// `onion` names are not in DNS, and a query would reveal them (RFC 7686 §2).
pub(crate) fn is_onion(normal: &str) -> bool {
    is_below(normal, "onion")
}

fn is_below(normal: &str, domain: &str) -> bool {
    let name = normal.strip_suffix('.').unwrap_or(normal);
    name.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// RFC 1035 §2.3.4.
const LABEL_LEN_MAX: usize = 63;
/// 255 octets, minus the first length octet and the root.
const NAME_LEN_MAX: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(name: &str) -> Result<String, ResolveError> {
        let mut out = "left over".to_owned();
        normalize(name, &mut out).map(|()| out)
    }

    #[test]
    fn names_are_normalized_to_lower_case() {
        for (name, expected) in [
            ("a", "a"),
            ("WWW.Example.COM", "www.example.com"),
            ("example.com.", "example.com."),
            ("_srv.x-1.example", "_srv.x-1.example"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ] {
            assert_eq!(normal(name).as_deref(), Ok(expected));
        }
        let longest =
            format!("{}.{}.{}.{}", "a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(61));
        assert_eq!(longest.len(), 253);
        assert_eq!(normal(&longest).as_deref(), Ok(&longest[..]));
    }

    #[test]
    fn invalid_names_are_rejected() {
        let long_label = "a".repeat(64);
        let long_name = "ab.".repeat(84) + "ab";
        for name in [
            "",
            ".",
            "..",
            "a..b",
            ".a",
            "a b",
            "a\0b",
            "a\n",
            "b\u{fc}cher",
            "fe80::1%eth0",
            "a/b",
            "a:80",
            "*.a",
            &long_label,
            &long_name,
        ] {
            assert_eq!(normal(name), Err(ResolveError::BadName), "{name:?}");
        }
    }

    #[test]
    fn special_domains_end_at_a_dot() {
        for name in ["localhost", "localhost.", "a.localhost", "a.b.localhost."] {
            assert!(is_localhost(name), "{name}");
        }
        for name in ["notlocalhost", "localhost.example", "local"] {
            assert!(!is_localhost(name), "{name}");
        }
        assert!(is_onion("abc.onion") && !is_onion("onion.example"));
    }
}
