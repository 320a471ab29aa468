//! The `Set-Cookie` field on a server (RFC 6265bis §4.1).
//!
//! Stricter than browsers: ambiguous cookies, and cookies that browsers drop silently, are errors.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::cookie::{PAIR_SIZE_MAX, PrefixAttributes, SameSite, satisfies_prefix};
use super::host::CookieHost;
use super::set_cookie::ATTRIBUTE_SIZE_MAX;
use crate::date::format_date;
use crate::token::is_tchar;

/// A cookie to set. The defaults are the safest: host-only, for all paths, over secure connections,
/// not readable by scripts, not in cross-site requests except links.
///
/// ```
/// use fulmar_semantics::cookies::NewCookie;
/// use std::time::Duration;
///
/// let day = Duration::from_secs(86_400);
/// let cookie = NewCookie { max_age: Some(day), ..NewCookie::new("__Host-id", "7") };
/// assert_eq!(
///     cookie.to_value().unwrap(),
///     b"__Host-id=7; Path=/; Max-Age=86400; Secure; HttpOnly; SameSite=Lax"
/// );
/// assert!(NewCookie::new("id", "7\r\nSet-Cookie: a=b").to_value().is_err());
/// ```
#[derive(Clone, Copy)]
pub struct NewCookie<'a> {
    /// A token; the attributes must satisfy a prefix such as `__Host-`.
    pub name: &'a str,
    /// Visible ASCII without `"`, `,`, `;` and `\`, optionally in one pair of quotes. Other content
    /// must be encoded, for example in Base64.
    pub value: &'a str,
    /// The path prefix, beginning with a slash; `None`: the directory of the request target.
    pub path: Option<&'a str>,
    /// The domain, which includes its subdomains, without a leading dot; `None`: only the host that
    /// set it.
    pub domain: Option<&'a str>,
    /// The lifetime, in whole seconds; 0 removes the cookie.
    pub max_age: Option<Duration>,
    /// The expiry time, for very old clients; `max_age` has precedence. Without both, the cookie
    /// lasts for the client's session.
    pub expires: Option<SystemTime>,
    /// Only over secure connections. On insecure ones, browsers drop the cookie.
    pub secure: bool,
    /// Not readable by scripts.
    pub http_only: bool,
    /// The cross-site requests that it is sent with.
    pub same_site: SameSite,
    /// One cookie for each site that embeds this one (CHIPS).
    pub partitioned: bool,
}

impl<'a> NewCookie<'a> {
    /// A cookie with the defaults.
    pub fn new(name: &'a str, value: &'a str) -> Self {
        Self {
            name,
            value,
            path: Some("/"),
            domain: None,
            max_age: None,
            expires: None,
            secure: true,
            http_only: true,
            same_site: SameSite::Lax,
            partitioned: false,
        }
    }

    /// A cookie that removes this one; it has the same `domain` and `path`.
    #[must_use]
    pub fn removal(self) -> Self {
        Self { value: "", max_age: Some(Duration::ZERO), expires: Some(UNIX_EPOCH), ..self }
    }

    /// The value of the field.
    ///
    /// # Errors
    /// The variant names the invalid part.
    pub fn to_value(&self) -> Result<Vec<u8>, BadCookie> {
        self.check()?;
        let mut out = format!("{}={}", self.name, self.value);
        let mut add = |name: &str, value: &str| {
            for piece in ["; ", name, if value.is_empty() { "" } else { "=" }, value] {
                out.push_str(piece);
            }
        };
        if let Some(path) = self.path {
            add("Path", path);
        }
        if let Some(domain) = self.domain {
            add("Domain", domain);
        }
        if let Some(age) = self.max_age {
            add("Max-Age", &age.as_secs().to_string());
        }
        if let Some(expires) = self.expires {
            let since_1970 = expires.duration_since(UNIX_EPOCH).unwrap_or_default();
            let date = format_date(i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX));
            add("Expires", str::from_utf8(&date).expect("a date is ASCII"));
        }
        for (_, name) in self.flags().into_iter().filter(|(is_set, _)| *is_set) {
            add(name, "");
        }
        match self.same_site {
            SameSite::Default => {}
            SameSite::Strict => add("SameSite", "Strict"),
            SameSite::Lax => add("SameSite", "Lax"),
            SameSite::None => add("SameSite", "None"),
        }
        Ok(out.into_bytes())
    }

    fn flags(&self) -> [(bool, &'static str); 3] {
        [(self.secure, "Secure"), (self.http_only, "HttpOnly"), (self.partitioned, "Partitioned")]
    }

    fn check(&self) -> Result<(), BadCookie> {
        let value = self.value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        if self.name.is_empty() || !self.name.bytes().all(is_tchar) {
            return Err(BadCookie::Name);
        }
        if !value.unwrap_or(self.value).bytes().all(is_value) {
            return Err(BadCookie::Value);
        }
        if self.name.len() + self.value.len() > PAIR_SIZE_MAX {
            return Err(BadCookie::TooLong);
        }
        if self.path.is_some_and(|path| !is_path(path)) {
            return Err(BadCookie::Path);
        }
        if self.domain.is_some_and(|domain| !is_domain(domain)) {
            return Err(BadCookie::Domain);
        }
        if (self.same_site == SameSite::None || self.partitioned) && !self.secure {
            return Err(BadCookie::Insecure);
        }
        let attributes = PrefixAttributes {
            secure: self.secure,
            http_only: self.http_only,
            host: self.domain.is_none() && self.path == Some("/"),
        };
        if satisfies_prefix(self.name.as_bytes(), attributes) {
            Ok(())
        } else {
            Err(BadCookie::Prefix)
        }
    }
}

/// Without the value, which is usually secret.
impl fmt::Debug for NewCookie<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewCookie").field("name", &self.name).finish_non_exhaustive()
    }
}

/// `cookie-octet` (RFC 6265bis §4.1.1).
fn is_value(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';' | b'\\')
}

fn is_path(path: &str) -> bool {
    path.starts_with('/')
        && path.len() <= ATTRIBUTE_SIZE_MAX
        && path.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b';')
        && !path.ends_with(' ')
}

/// True for a valid host name without leading or repeated dots.
fn is_domain(domain: &str) -> bool {
    CookieHost::parse(domain.as_bytes()).is_some()
        && domain.split('.').all(|label| !label.is_empty())
}

/// Why a cookie cannot be set. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadCookie {
    /// The name is not a token.
    Name,
    /// The value has an invalid byte.
    Value,
    /// Name and value together are longer than 4,096 bytes.
    TooLong,
    /// The path does not begin with a slash, is longer than 1,024 bytes, or has an invalid byte.
    Path,
    /// The domain is not a host name.
    Domain,
    /// `SameSite=None` and `Partitioned` need `Secure`.
    Insecure,
    /// The attributes do not satisfy the name's prefix: `__Secure-`, `__Host-`, `__Http-`.
    Prefix,
}

impl fmt::Display for BadCookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "cookie name must be a token",
            Self::Value => "cookie value must be visible ASCII without \",;\\",
            Self::TooLong => "cookie name and value are longer than 4096 bytes",
            Self::Path => {
                "cookie path must begin with a slash and have no control characters or semicolons"
            }
            Self::Domain => "cookie domain must be a host name",
            Self::Insecure => "SameSite=None and Partitioned need Secure",
            Self::Prefix => "cookie attributes do not satisfy the name prefix",
        })
    }
}

impl std::error::Error for BadCookie {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cookies::{Jar, JarLimits, UrlParts};
    use proptest::prelude::*;

    fn text(cookie: &NewCookie<'_>) -> String {
        String::from_utf8(cookie.to_value().unwrap()).unwrap()
    }

    #[test]
    fn attributes_are_written() {
        let plain = NewCookie {
            path: None,
            secure: false,
            http_only: false,
            same_site: SameSite::Default,
            ..NewCookie::new("a", "b")
        };
        assert_eq!(text(&plain), "a=b");
        let full = NewCookie {
            path: Some("/x y"),
            domain: Some("example.com"),
            max_age: Some(Duration::from_millis(61_900)),
            expires: Some(UNIX_EPOCH + Duration::from_secs(784_111_777)),
            same_site: SameSite::None,
            partitioned: true,
            ..NewCookie::new("a", "\"b\"")
        };
        assert_eq!(
            text(&full),
            "a=\"b\"; Path=/x y; Domain=example.com; Max-Age=61; \
             Expires=Sun, 06 Nov 1994 08:49:37 GMT; Secure; HttpOnly; Partitioned; SameSite=None"
        );
        let strict = NewCookie { same_site: SameSite::Strict, ..plain };
        assert_eq!(text(&strict), "a=b; SameSite=Strict");
        let gone = "a=; Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT";
        assert_eq!(text(&plain.removal()), gone);
        assert_eq!(format!("{plain:?}"), "NewCookie { name: \"a\", .. }");
    }

    #[test]
    fn bad_bytes_are_errors() {
        let of = |name, value| NewCookie::new(name, value).to_value().map(drop);
        for name in ["", "a b", "a=", "a;", "a\r\n", "a\0", "ä", "a,b", "\"a\"", "a\t"] {
            assert_eq!(of(name, "b"), Err(BadCookie::Name), "{name:?}");
        }
        for value in
            ["a b", "a;b", "a,b", "a\\b", "a\"b", "\"", "\"a", "a\r\nb", "a\0", "ä", "\x7f"]
        {
            assert_eq!(of("a", value), Err(BadCookie::Value), "{value:?}");
        }
        for value in ["", "\"\"", "a=b", "!#$%&'()*+-./:<=>?@[]^_`{|}~"] {
            assert_eq!(of("a", value), Ok(()), "{value:?}");
        }
        let long = "x".repeat(PAIR_SIZE_MAX);
        assert_eq!(of("a", &long), Err(BadCookie::TooLong));
        assert_eq!(of("a", &long[1..]), Ok(()));
        let long = format!("/{}", "x".repeat(ATTRIBUTE_SIZE_MAX));
        for path in ["", "a", "/;", "/\r\n", "/\0", "/ä", "/ ", &long] {
            let cookie = NewCookie { path: Some(path), ..NewCookie::new("a", "b") };
            assert_eq!(cookie.to_value(), Err(BadCookie::Path), "{path:?}");
        }
        for domain in ["", ".a", "a..b", "a.", "a b", "a;b", "a:1", "ä.org", "a\r\n", "."] {
            let cookie = NewCookie { domain: Some(domain), ..NewCookie::new("a", "b") };
            assert_eq!(cookie.to_value(), Err(BadCookie::Domain), "{domain:?}");
        }
    }

    #[test]
    fn name_prefixes_are_enforced() {
        let usual = |name| NewCookie::new(name, "b");
        let open = |name| NewCookie { secure: false, ..usual(name) };
        let scripted = |name| NewCookie { http_only: false, ..usual(name) };
        let below = |name| NewCookie { path: Some("/x"), ..usual(name) };
        let wide = |name| NewCookie { domain: Some("a.org"), ..usual(name) };
        for (cookie, is_kept) in [
            (usual("__Host-a"), true),
            (scripted("__Host-a"), true),
            (below("__Host-a"), false),
            (wide("__Host-a"), false),
            (NewCookie { path: None, ..usual("__Host-a") }, false),
            (open("__HOST-a"), false),
            (wide("__Secure-a"), true),
            (open("__Secure-a"), false),
            (scripted("__Http-a"), false),
            (below("__Http-a"), true),
            (scripted("__Host-Http-a"), false),
        ] {
            let expected = if is_kept { Ok(()) } else { Err(BadCookie::Prefix) };
            assert_eq!(cookie.to_value().map(drop), expected, "{cookie:?}");
        }
        let embedded = NewCookie { same_site: SameSite::None, ..open("a") };
        assert_eq!(embedded.to_value(), Err(BadCookie::Insecure));
        let partitioned = NewCookie { partitioned: true, ..open("a") };
        assert_eq!(partitioned.to_value(), Err(BadCookie::Insecure));
    }

    proptest! {
        /// Every value is valid in a field, and a client parses the same cookie. A path with `?` or
        /// `#` is valid, but no URL has such a path: the client never returns the cookie.
        #[test]
        fn cookies_round_trip(name in ".{1,8}", value in ".{0,8}", path in "(/[^?#]{0,6})?") {
            let path = Some(&path[..]).filter(|path| !path.is_empty());
            let cookie = NewCookie { path, ..NewCookie::new(&name, &value) };
            if let Ok(field) = cookie.to_value() {
                prop_assert!(field.iter().all(|byte| matches!(byte, b' '..=b'~')));
                let url = UrlParts { is_secure: true, host: "a.org", path: path.unwrap_or("/") };
                let now = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
                let mut jar = Jar::new(JarLimits::default());
                jar.store(now, url, &field).unwrap();
                let mut sent = Vec::new();
                prop_assert!(jar.header(now, url, &mut sent));
                prop_assert_eq!(sent, format!("{name}={value}").into_bytes());
            }
        }
    }
}
