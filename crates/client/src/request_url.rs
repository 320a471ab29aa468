//! A URL, parsed into the parts of a request (RFC 9110 §4.2, RFC 9112 §3.2.1).

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use fulmar_semantics::proxy::Login;
use percent_encoding::percent_decode_str;
use url::{Host, Position, Url};

/// The destination and target of a request.
///
/// ```
/// use fulmar_client::RequestUrl;
/// let target = RequestUrl::parse("http://example.com:8080/a?b#c").unwrap();
/// assert_eq!(target.authority(), "example.com:8080");
/// assert_eq!(target.path(), "/a?b");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestUrl {
    url: Url, // without user, password and fragment
    port: u16,
}

impl RequestUrl {
    /// Parses a URL. The fragment is dropped: it is never sent.
    ///
    /// # Errors
    /// The variant is the reason.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        match Self::with_user(text)? {
            (target, None) => Ok(target),
            (_, Some(_)) => Err(UrlError::UserInfo),
        }
    }

    /// Like [`RequestUrl::parse`], but removes `user:password@` and returns it, percent-decoded.
    ///
    /// # Errors
    /// As [`RequestUrl::parse`].
    pub fn with_user(text: &str) -> Result<(Self, Option<Login>), UrlError> {
        if text.chars().any(|c| c.is_control() || c == ' ') {
            return Err(UrlError::Blank);
        }
        let parts = text.split_once("://");
        let Some((scheme, rest)) = parts.filter(|(it, _)| !it.contains([':', '@', '/'])) else {
            return Err(UrlError::NoScheme);
        };
        if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return Err(UrlError::Scheme(scheme.to_owned()));
        }
        if matches!(rest.chars().next(), None | Some('/' | '\\' | '?' | '#' | ':')) {
            return Err(UrlError::NoHost); // the parser would take the path for a host
        }
        let mut url = Url::parse(text).map_err(UrlError::Malformed)?;
        let decode = |text: &str| percent_decode_str(text).collect();
        let user = match (url.username(), url.password()) {
            ("", None) => None,
            (user, password) => Some(Login {
                user: decode(user),
                password: password.map(decode).unwrap_or_default(),
            }),
        };
        // These fail only for URLs without a host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        Ok((Self::from_url(url)?, user))
    }

    /// Converts a parsed URL. User, password and fragment are dropped.
    ///
    /// # Errors
    /// As [`RequestUrl::parse`].
    pub fn from_url(mut url: Url) -> Result<Self, UrlError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(UrlError::Scheme(url.scheme().to_owned()));
        }
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_fragment(None);
        url.host().ok_or(UrlError::NoHost)?;
        let port = url.port_or_known_default().filter(|p| *p != 0).ok_or(UrlError::PortZero)?;
        Ok(Self { url, port })
    }

    /// The URL, without user, password and fragment.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// True for `https`.
    pub fn is_tls(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The host, without brackets.
    pub fn host(&self) -> String {
        match self.url.host() {
            Some(Host::Domain(name)) => name.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            None => unreachable!("checked when it was made"),
        }
    }

    /// The port, also if it is the scheme's default.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The value of `Host`: the port only if it is not the default.
    pub fn authority(&self) -> &str {
        &self.url[Position::BeforeHost..Position::AfterPort]
    }

    /// The request target in origin form: path and query.
    pub fn path(&self) -> &str {
        &self.url[Position::BeforePath..Position::AfterQuery]
    }

    /// The request target: in absolute form for a proxy that forwards, otherwise in origin form
    /// (RFC 9112 §3.2).
    pub(crate) fn form(&self, absolute: bool) -> &str {
        if absolute { &self.url[..Position::AfterQuery] } else { self.path() }
    }

    /// The addresses of the host, in the order to try them. Blocks during the system's name
    /// resolution.
    ///
    /// # Errors
    /// The name has no address, or the resolver failed.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, UrlResolveError> {
        let addresses = match self.url.host() {
            Some(Host::Ipv4(address)) => return Ok(vec![SocketAddr::from((address, self.port))]),
            Some(Host::Ipv6(address)) => return Ok(vec![SocketAddr::from((address, self.port))]),
            Some(Host::Domain(name)) => (name, self.port).to_socket_addrs(),
            None => unreachable!("checked when it was made"),
        };
        let error = |cause| UrlResolveError { host: self.host(), cause };
        let mut found = Vec::new();
        for address in addresses.map_err(|cause| error(Some(cause)))? {
            if !found.contains(&address) {
                found.push(address);
            }
        }
        if found.is_empty() { Err(error(None)) } else { Ok(found) }
    }
}

/// Why a URL cannot be requested.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UrlError {
    /// It has no scheme, such as `http://`.
    NoScheme,
    /// Another scheme.
    Scheme(String),
    /// There is no host.
    NoHost,
    /// Port 0 is not valid.
    PortZero,
    /// `user:password@` would not be sent.
    UserInfo,
    /// Blanks or control characters.
    Blank,
    /// The URL's syntax is invalid.
    Malformed(url::ParseError),
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoScheme => f.write_str("the URL does not begin with http:// or https://"),
            Self::Scheme(scheme) => {
                write!(f, "the scheme {scheme:?} is not spoken: use http:// or https://")
            }
            Self::NoHost => f.write_str("the URL has no host"),
            Self::PortZero => f.write_str("port 0 cannot be connected to"),
            Self::UserInfo => {
                f.write_str("user names in URLs are not sent: use an Authorization field")
            }
            Self::Blank => f.write_str("the URL has blanks or control characters: encode them"),
            Self::Malformed(cause) => write!(f, "the URL is malformed: {cause}"),
        }
    }
}

impl std::error::Error for UrlError {}

/// A host without an address.
#[derive(Debug)]
pub struct UrlResolveError {
    host: String,
    cause: Option<io::Error>,
}

impl fmt::Display for UrlResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Some(cause) => write!(f, "the host {:?} cannot be resolved: {cause}", self.host),
            None => write!(f, "the host {:?} has no address", self.host),
        }
    }
}

impl std::error::Error for UrlResolveError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (url, host, port, authority, path) in [
            ("http://a", "a", 80, "a", "/"),
            ("HTTP://A.Example/x", "a.example", 80, "a.example", "/x"),
            ("http://a:80/", "a", 80, "a", "/"),
            ("http://a:8080?q=1#f", "a", 8080, "a:8080", "/?q=1"),
            ("http://127.0.0.1:9/b/../c", "127.0.0.1", 9, "127.0.0.1:9", "/c"),
            ("http://[::1]:81/%20?a%2Fb", "::1", 81, "[::1]:81", "/%20?a%2Fb"),
            ("http://a/?", "a", 80, "a", "/?"),
            ("https://a/", "a", 443, "a", "/"),
            ("https://a:80/", "a", 80, "a:80", "/"),
            (
                "http://b\u{fc}cher.example/",
                "xn--bcher-kva.example",
                80,
                "xn--bcher-kva.example",
                "/",
            ),
        ] {
            let target = RequestUrl::parse(url).unwrap_or_else(|e| panic!("{url}: {e}"));
            assert_eq!(
                (target.host().as_str(), target.port(), target.authority(), target.path()),
                (host, port, authority, path),
                "{url}"
            );
        }
    }

    #[test]
    fn wrong_urls_say_what_is_wrong() {
        for (url, error) in [
            ("", UrlError::NoScheme),
            ("localhost:8080/", UrlError::NoScheme),
            ("ftp://a/", UrlError::Scheme("ftp".to_owned())),
            ("http://", UrlError::NoHost),
            ("http:///x", UrlError::NoHost),
            ("http://:80/", UrlError::NoHost),
            ("http://a:0/", UrlError::PortZero),
            ("http://u@a/", UrlError::UserInfo),
            ("http://u:p@a/", UrlError::UserInfo),
            ("http://a/\r\nX: y", UrlError::Blank),
            ("http://a/b c", UrlError::Blank),
            ("http://a:99999/", UrlError::Malformed(url::ParseError::InvalidPort)),
            ("http://[::1/", UrlError::Malformed(url::ParseError::InvalidIpv6Address)),
        ] {
            assert_eq!(RequestUrl::parse(url), Err(error), "{url}");
        }
    }

    /// The checked host is the connected one: one parser serves for both.
    #[test]
    fn ambiguous_hosts_have_one_meaning_or_are_refused() {
        for (url, host, port, path) in [
            ("http://a#@b/", "a", 80, "/"),
            ("http://a/#@b", "a", 80, "/"),
            ("http://a?@b/", "a", 80, "/?@b/"),
            ("http://a\\@b/", "a", 80, "/@b/"),
            ("http://a:/", "a", 80, "/"),
            ("http://a:00080/", "a", 80, "/"),
            ("http://a:65535/", "a", 65535, "/"),
            ("http://a./", "a.", 80, "/"),
            ("http://%61.b/", "a.b", 80, "/"),
            ("http://127.1/", "127.0.0.1", 80, "/"),
            ("http://0177.0.0.1/", "127.0.0.1", 80, "/"),
            ("http://0x7f.0.0.1/", "127.0.0.1", 80, "/"),
            ("http://2130706433/", "127.0.0.1", 80, "/"),
            ("http://\u{ff11}27.0.0.1/", "127.0.0.1", 80, "/"),
            ("http://[::ffff:127.0.0.1]/", "::ffff:127.0.0.1", 80, "/"),
            ("http://[0:0:0:0:0:0:0:1]/", "::1", 80, "/"),
            ("http://a/..//../%2e%2e/b", "a", 80, "/b"),
        ] {
            let target = RequestUrl::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            let host_text = target.host();
            let found = (&host_text[..], target.port(), target.path());
            assert_eq!(found, (host, port, path), "{url}");
            assert!(!target.authority().contains(['@', '\\', '#', '?']), "{url}");
        }
        for url in [
            "http://a%2fb/",
            "http://a%2Fb/",
            "http://a%00b/",
            "http://a%0d%0ab/",
            "http://a%20b/",
            "http://a%40b/",
            "http://a%5cb/",
            "http://a%25/",
            "http://a<b/",
            "http://a^b/",
            "http://a|b/",
            "http://[::1%25eth0]/",
            "http://[fe80::1%eth0]/",
            "http://[::1]x/",
            "http://[::1/",
            "http://::1/",
            "http://1.2.3.256/",
            "http://0x100000000/",
            "http://1.2.3.4.5/",
            "http://a:65536/",
            "http://a:99999999999/",
            "http://a:-1/",
            "http://a:8o/",
            "http://a:0/",
            "http://a:+80/",
            "http://a b/",
            "http://a\tb/",
            "http://a\n/",
            "http:///a",
            "http://\\a",
            "http:a",
            "http:/a",
            "//a/",
            "javascript://a/%0aalert(1)",
            "file:///etc/passwd",
        ] {
            assert!(RequestUrl::parse(url).is_err(), "{url}: {:?}", RequestUrl::parse(url));
        }
        // A user is never taken for a host, and never sent as part of one.
        for url in ["http://a@b/", "http://a:b@c/", "http://a%40b@c/", "http://@b/x"] {
            let (target, _) = RequestUrl::with_user(url).unwrap_or_else(|e| panic!("{url}: {e}"));
            assert!(!target.authority().contains('@'), "{url}");
            assert!(["b", "c"].contains(&&target.host()[..]), "{url}");
        }
    }

    #[test]
    fn addresses_need_no_resolver_and_errors_name_the_host() {
        let address = |url| RequestUrl::parse(url).unwrap().resolve().unwrap()[0].to_string();
        assert_eq!(address("http://127.0.0.1:9/"), "127.0.0.1:9");
        assert_eq!(address("http://[::1]/"), "[::1]:80");
        let error = RequestUrl::parse("http://missing.invalid/").unwrap().resolve().unwrap_err();
        assert!(error.to_string().contains("missing.invalid"), "{error}");
    }
}
