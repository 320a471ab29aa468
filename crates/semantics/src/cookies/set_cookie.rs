//! Parses the `Set-Cookie` field (RFC 6265bis §5.6).
//!
//! Only the syntax; `jar` applies it to a URL. Bytes are not decoded, and need not be UTF-8: a
//! cookie is sent back as received.

use super::{Rejected, SameSite, date};

/// A parsed field.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SetCookie<'a> {
    pub(super) name: &'a [u8],
    pub(super) value: &'a [u8],
    /// In seconds since 1970.
    pub(super) expires: Option<i64>,
    /// In seconds.
    pub(super) max_age: Option<i64>,
    /// Without the leading dot.
    pub(super) domain: Option<&'a [u8]>,
    /// Begins with a slash.
    pub(super) path: Option<&'a [u8]>,
    pub(super) is_secure: bool,
    pub(super) is_http_only: bool,
    pub(super) same_site: SameSite,
}

impl<'a> SetCookie<'a> {
    pub(super) fn parse(field: &'a [u8]) -> Result<Self, Rejected> {
        if field.iter().any(|byte| *byte != b'\t' && byte.is_ascii_control()) {
            return Err(Rejected::Control);
        }
        let mut parts = field.split(|byte| *byte == b';');
        let pair = parts.next().unwrap_or_default();
        // Without `=` the whole pair is the value: servers mean it so, and it is sent back so.
        let (name, value) = split(pair).unwrap_or_else(|| (b"", trim(pair)));
        let mut cookie = Self { name, value, ..Self::default() };
        for part in parts {
            let (name, value) = split(part).unwrap_or_else(|| (trim(part), b""));
            if value.len() <= ATTRIBUTE_SIZE_MAX {
                cookie.take(name, value);
            }
        }
        Ok(cookie)
    }

    /// Applies an attribute. The last of several with the same name counts; invalid `Expires` and
    /// `Max-Age` are ignored.
    fn take(&mut self, name: &[u8], value: &'a [u8]) {
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        if is(b"expires") {
            self.expires = date::parse(value).or(self.expires);
        } else if is(b"max-age") {
            self.max_age = seconds(value).or(self.max_age);
        } else if is(b"domain") {
            let domain = value.strip_prefix(b".").unwrap_or(value);
            self.domain = Some(domain).filter(|domain| !domain.is_empty());
        } else if is(b"path") {
            self.path = Some(value).filter(|path| path.starts_with(b"/"));
        } else if is(b"secure") {
            self.is_secure = true;
        } else if is(b"httponly") {
            self.is_http_only = true;
        } else if is(b"samesite") {
            self.same_site = SameSite::parse(value);
        }
    }
}

/// The trimmed name and value around the first `=`.
fn split(pair: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = pair.iter().position(|byte| *byte == b'=')?;
    Some((trim(&pair[..at]), trim(&pair[at + 1..])))
}

fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// `["-"] 1*DIGIT`; larger numbers are capped.
fn seconds(value: &[u8]) -> Option<i64> {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: i64, byte: &u8| sum.saturating_mul(10).saturating_add(i64::from(byte - b'0'));
    let number = digits.iter().fold(0, add);
    Some(if digits.len() < value.len() { -number } else { number })
}

/// Maximum size of an attribute; longer ones are ignored (§5.6).
pub(super) const ATTRIBUTE_SIZE_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(field: &str) -> SetCookie<'_> {
        SetCookie::parse(field.as_bytes()).unwrap()
    }

    #[test]
    fn pairs() {
        for (field, name, value) in [
            ("a=b", "a", "b"),
            (" a\t = \tb c ; x", "a", "b c"),
            ("a=b=c", "a", "b=c"),
            ("a=\"b\"", "a", "\"b\""),
            ("a=", "a", ""),
            ("a", "", "a"),
            ("=a", "", "a"),
            ("=", "", ""),
            ("", "", ""),
            (";a=b", "", ""),
            ("é=ü", "é", "ü"),
        ] {
            let cookie = parse(field);
            assert_eq!((cookie.name, cookie.value), (name.as_bytes(), value.as_bytes()), "{field}");
        }
    }

    #[test]
    fn attributes_are_case_insensitive_and_the_last_counts() {
        let cookie = parse("a=b; PATH=/x; path=/y ;Domain = .E.org;SECURE;httponly=;sameSITE=lax");
        assert_eq!(cookie.path, Some(&b"/y"[..]));
        assert_eq!(cookie.domain, Some(&b"E.org"[..]));
        assert!(cookie.is_secure && cookie.is_http_only);
        assert_eq!(cookie.same_site, SameSite::Lax);

        let cookie = parse("a=b; Path=/x; Path=y; Domain=e.org; Domain=; SameSite=None; SameSite");
        let plain = SetCookie { name: b"a", value: b"b", ..SetCookie::default() };
        assert_eq!(cookie, plain);
        assert_eq!(parse("a=b; unknown=1; ; =; =x; Secur"), plain);
    }

    #[test]
    fn ages() {
        for (value, expected) in [
            ("0", Some(0)),
            ("12", Some(12)),
            ("-5", Some(-5)),
            ("99999999999999999999", Some(i64::MAX)),
            ("", None),
            ("-", None),
            ("+1", None),
            ("1.5", None),
            ("1 2", None),
            ("--1", None),
        ] {
            assert_eq!(parse(&format!("a=b; Max-Age={value}")).max_age, expected, "{value}");
        }
        let cookie = parse("a=b; Max-Age=5; Max-Age=x; Expires=1 Jan 1970 0:0:1; Expires=never");
        assert_eq!((cookie.max_age, cookie.expires), (Some(5), Some(1)));
    }

    #[test]
    fn attributes_over_1024_bytes_are_ignored() {
        let path = format!("/{}", "x".repeat(ATTRIBUTE_SIZE_MAX - 1));
        assert_eq!(parse(&format!("a=b; Path={path}")).path, Some(path.as_bytes()));
        assert_eq!(parse(&format!("a=b; Path=/y; Path={path}x")).path, Some(&b"/y"[..]));
    }

    #[test]
    fn control_characters_reject_the_field() {
        for byte in (0..=0x1f).chain([0x7f]).filter(|byte| *byte != b'\t') {
            for field in
                [[b'a', byte, b'=', b'b'], [b'a', b'=', b'b', byte], [b'a', b';', byte, b'b']]
            {
                assert_eq!(SetCookie::parse(&field), Err(Rejected::Control));
            }
        }
    }

    proptest! {
        #[test]
        fn random_bytes_are_a_cookie_or_rejected(
            field in prop::collection::vec(any::<u8>(), 0..256),
        ) {
            if let Ok(cookie) = SetCookie::parse(&field) {
                prop_assert!(cookie.name.len() + cookie.value.len() <= field.len());
            }
        }
    }
}
