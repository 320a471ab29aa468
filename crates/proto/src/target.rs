//! Request targets and hosts (RFC 9112 §3.2, RFC 9110 §7.2).
//!
//! Only checked, never decoded: what is routed on must be what was received. Stricter than the
//! grammar where laxness has been used to make two recipients see two different requests.

use crate::errors::PeerError;

/// The scheme of requests (RFC 9110 §4.2): HTTP/2 sends it with each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UrlScheme {
    /// `http`.
    #[default]
    Http,
    /// `https`.
    Https,
}

impl UrlScheme {
    /// As it is sent.
    pub(crate) fn as_bytes(self) -> &'static [u8] {
        match self {
            Self::Http => b"http",
            Self::Https => b"https",
        }
    }
}

/// Checks a target against its method; an absolute-form target names its authority.
pub(crate) fn check<'a>(method: &[u8], target: &'a [u8]) -> Result<Option<&'a [u8]>, PeerError> {
    if !is_target(target) {
        return Err(PeerError::BadTarget);
    }
    match target {
        _ if method == b"CONNECT" => is_authority(target, Port::Required).then_some(None),
        [b'/', ..] => Some(None),
        b"*" => (method == b"OPTIONS").then_some(None),
        _ => authority(target).filter(|host| is_authority(host, Port::Optional)).map(Some),
    }
    .ok_or(PeerError::BadTarget)
}

/// True if this target is valid in a request with this method: a server would not refuse it.
pub fn is_request_target(method: &[u8], target: &[u8]) -> bool {
    check(method, target).is_ok()
}

/// Visible ASCII without `#`. Before the query also without `\`, and every `%` is followed by two
/// hex digits, but not by `00`: C code would see a shorter path. Other escaped control
/// characters are bytes of a path like any other, as for nginx and HAProxy: files may have such
/// names. In a query browsers send a `%` and a `\` as they were typed, and line ends of texts in
/// forms; they do not change the path.
/// Other marks that URIs exclude (`|`, `"`, brackets) are accepted: browsers send them, and they do
/// not hide the end of the target.
pub(crate) fn is_target(target: &[u8]) -> bool {
    // Most targets are a path of such bytes only.
    let plain = target.iter().position(|b| !IN_PATH[usize::from(*b)]).unwrap_or(target.len());
    let (mut rest, mut in_query) = (&target[plain..], false);
    while let [first, tail @ ..] = rest {
        in_query |= *first == b'?';
        rest = match first {
            b'#' | ..=b' ' | 0x7f.. => return false,
            _ if in_query => tail,
            b'\\' => return false,
            b'%' => match tail {
                [b'0', b'0', ..] => return false,
                [high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                    tail
                }
                _ => return false,
            },
            _ => tail,
        };
    }
    !target.is_empty()
}

/// The authority of `scheme "://" authority path`.
fn authority(target: &[u8]) -> Option<&[u8]> {
    let colon = memchr::memchr(b':', target)?;
    let (scheme, rest) = target.split_at(colon);
    let is_mark = |b: &u8| matches!(b, b'+' | b'-' | b'.');
    let is_scheme = scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(|b| b.is_ascii_alphanumeric() || is_mark(b));
    let rest = rest.strip_prefix(b"://").filter(|_| is_scheme)?;
    let end = rest.iter().position(|b| matches!(b, b'/' | b'?')).unwrap_or(rest.len());
    Some(&rest[..end])
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Port {
    Required,
    Optional,
}

/// A `Host` value: one host, perhaps a port; no userinfo, no list, not empty.
pub(crate) fn is_host(value: &[u8]) -> bool {
    is_authority(value, Port::Optional)
}

/// Names are of letters, digits and `-._~`: the sub-delimiters and escapes that `reg-name` also
/// allows have no use in names that exist.
fn is_authority(value: &[u8], port: Port) -> bool {
    let is_address = |b: &u8| b.is_ascii_hexdigit() || matches!(b, b':' | b'.');
    let (host, rest) = match value {
        [b'[', inner @ ..] => {
            let Some(end) = memchr::memchr(b']', inner) else { return false };
            if !inner[..end].contains(&b':') || !inner[..end].iter().all(is_address) {
                return false;
            }
            (&inner[..end], &inner[end + 1..])
        }
        _ => {
            let end = value.iter().position(|b| !IN_NAME[usize::from(*b)]).unwrap_or(value.len());
            value.split_at(end)
        }
    };
    let has_port = match rest {
        [] => port == Port::Optional,
        [b':', digits @ ..] => is_port(digits),
        _ => false,
    };
    !host.is_empty() && has_port
}

fn is_port(digits: &[u8]) -> bool {
    let number = digits.iter().try_fold(0u32, |number, byte| {
        byte.is_ascii_digit().then(|| (number * 10 + u32::from(byte - b'0')).min(PORT_MAX + 1))
    });
    !digits.is_empty() && number.is_some_and(|number| (1..=PORT_MAX).contains(&number))
}

const PORT_MAX: u32 = 65_535;
/// Bytes that are valid everywhere in a target, and do not change the meaning of others.
const IN_PATH: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = b'!';
    while byte < 0x7f {
        table[byte as usize] = !matches!(byte, b'#' | b'?' | b'%' | b'\\');
        byte += 1;
    }
    table
};
/// Bytes of a name: looked up, as every request has one.
const IN_NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0u8;
    while byte < 128 {
        let is_mark = matches!(byte, b'-' | b'.' | b'_' | b'~');
        table[byte as usize] = is_mark || byte.is_ascii_alphanumeric();
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_forms_each_with_its_methods() {
        let ok = |method: &str, target: &str| {
            check(method.as_bytes(), target.as_bytes()).is_ok_and(|authority| authority.is_none())
        };
        assert!(ok("GET", "/a?b=%20|[1]"));
        assert!(ok("GET", "/a?text=one%0D%0Atwo%00"));
        assert!(ok("GET", "/a?d=50%&u=%u0041&p=C:\\x%2"));
        assert!(ok("GET", "/%09%0a%0D%1b%1F%7f"));
        assert!(ok("OPTIONS", "*"));
        assert!(ok("CONNECT", "example.com:443"));
        assert!(ok("CONNECT", "[::1]:443"));
        assert_eq!(check(b"GET", b"http://a:80?x"), Ok(Some(&b"a:80"[..])));
        for (method, target) in [
            ("GET", ""),
            ("GET", "*"),
            ("GET", "a:80"),
            ("GET", "a"),
            ("GET", "http:///x"),
            ("GET", "http://u@a/"),
            ("GET", "1http://a/"),
            ("GET", "/a#b"),
            ("GET", "/a\\b"),
            ("GET", "/a b"),
            ("GET", "/%00"),
            ("GET", "/a%00b"),
            ("GET", "http://a/%0a%00"),
            ("GET", "/%"),
            ("GET", "/%2"),
            ("GET", "/%zz"),
            ("GET", "/%?%"),
            ("GET", "/\\?\\"),
            ("GET", "/?a b"),
            ("GET", "/?a\t"),
            ("GET", "/?%#"),
            ("GET", "/?\u{e9}"),
            ("GET", "http://a\\?@b/"),
            ("GET", "/\u{e9}"),
            ("CONNECT", "/"),
            ("CONNECT", "a"),
            ("CONNECT", "a:"),
            ("CONNECT", "a:0"),
            ("CONNECT", "a:65536"),
            ("CONNECT", "http://a:80"),
        ] {
            let result = check(method.as_bytes(), target.as_bytes());
            assert_eq!(result, Err(PeerError::BadTarget), "{method} {target}");
        }
    }

    #[test]
    fn a_host_is_one_name_and_perhaps_a_port() {
        for good in ["a", "a.b-c_d", "127.0.0.1:8080", "[::1]", "[fe80::1]:1"] {
            assert!(is_host(good.as_bytes()), "{good}");
        }
        for bad in ["", "a,b", "u@a", "a/b", "a:", "a:x", "[::1", "[]", "[a]", ":80", "a b", "a%41"]
        {
            assert!(!is_host(bad.as_bytes()), "{bad}");
        }
    }
}
