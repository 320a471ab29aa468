//! Selection of the proxy for a request: proxy URLs, and the environment variables.
//!
//! Needs the feature `url`.
//!
//! The conventions are curl's, like in most programs: `http_proxy` in lower case only, because web
//! servers pass a request's `Proxy` field to programs as `HTTP_PROXY`; `https_proxy`, `all_proxy`
//! and `no_proxy` in both cases, lower case first. An empty variable counts as unset.

use std::fmt;

use url::{Host, Url};

mod no_proxy;

pub use no_proxy::NoProxy;

/// A proxy, with our login.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ProxyUrl {
    /// The protocol of the proxy.
    pub kind: ProxyKind,
    /// The host; names are normalized.
    pub host: Host<String>,
    /// Never 0.
    pub port: u16,
    /// From the userinfo, decoded.
    pub login: Option<Login>,
}

/// The protocol of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProxyKind {
    /// `http://`: absolute-form requests, and CONNECT for `https`.
    Http,
    /// SOCKS version 4: the client resolves names. A proxy of this kind has no URL here.
    Socks4,
    /// SOCKS version 4A: the proxy resolves names.
    Socks4a,
    /// `socks5://`: SOCKS version 5; the client resolves names.
    Socks5,
    /// `socks5h://`: SOCKS version 5; the proxy resolves names.
    Socks5h,
}

/// A user and a password: bytes without a defined charset.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Login {
    /// The user.
    pub user: Vec<u8>,
    /// The password; may be empty.
    pub password: Vec<u8>,
}

impl ProxyUrl {
    /// Parses `[scheme://][user[:password]@]host[:port]`. As in curl, the default scheme is `http`,
    /// and the default port [`PORT_USUAL`].
    ///
    /// ```
    /// use fulmar_semantics::proxy::{ProxyKind, ProxyUrl};
    ///
    /// let proxy = ProxyUrl::parse("socks5h://me:secret@proxy.example:9050")?;
    /// assert_eq!((proxy.kind, proxy.port), (ProxyKind::Socks5h, 9050));
    /// # Ok::<(), fulmar_semantics::proxy::ProxyError>(())
    /// ```
    ///
    /// # Errors
    /// The text is not a proxy, or the scheme is not supported.
    pub fn parse(text: &str) -> Result<Self, ProxyError> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let kind = match &scheme.to_ascii_lowercase()[..] {
            "http" => ProxyKind::Http,
            "socks5" => ProxyKind::Socks5,
            "socks5h" => ProxyKind::Socks5h,
            name if name.bytes().all(|b| b.is_ascii_alphanumeric()) => {
                return Err(ProxyError::UnknownScheme(name.into()));
            }
            // Without the text, which may contain a password.
            _ => return Err(ProxyError::Malformed),
        };
        // The URL parser would remove tabs, line ends and surrounding blanks silently.
        if text.bytes().any(|b| b.is_ascii_control() || b == b' ') {
            return Err(ProxyError::Malformed);
        }
        // With an unknown scheme the URL parser hides no default port, and only `/` ends the host.
        let url = Url::parse(&format!("proxy://{rest}")).map_err(|_| ProxyError::Malformed)?;
        let more =
            !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some();
        let host = url.host_str().filter(|_| !more).ok_or(ProxyError::Malformed)?;
        let host = Host::parse(host).map_err(|_| ProxyError::Malformed)?;
        let port = url.port().unwrap_or(PORT_USUAL);
        if port == 0 {
            return Err(ProxyError::Malformed);
        }
        Ok(Self { kind, host, port, login: Login::of(&url) })
    }
}

impl Login {
    fn of(url: &Url) -> Option<Self> {
        let decode = |text: &str| percent_encoding::percent_decode_str(text).collect();
        let user = url.username();
        let some = !user.is_empty() || url.password().is_some();
        let password = url.password().unwrap_or_default();
        some.then(|| Self { user: decode(user), password: decode(password) })
    }
}

impl fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// For messages: without the login.
impl fmt::Display for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.kind {
            ProxyKind::Http => "http",
            ProxyKind::Socks4 => "socks4",
            ProxyKind::Socks4a => "socks4a",
            ProxyKind::Socks5 => "socks5",
            ProxyKind::Socks5h => "socks5h",
        };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(..)")
    }
}

/// The proxies for requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// For `http` URLs.
    pub http: Option<ProxyUrl>,
    /// For `https` URLs.
    pub https: Option<ProxyUrl>,
    /// The hosts without a proxy.
    pub none_for: NoProxy,
}

impl Settings {
    /// Reads the environment; `lookup` returns the value of a variable.
    ///
    /// # Errors
    /// The value of a used variable is not a proxy.
    pub fn from_env(
        lookup: impl Fn(&'static str) -> Option<String>,
    ) -> Result<Self, VariableError> {
        let first = |names: &[&'static str]| {
            names.iter().find_map(|name| {
                lookup(name).filter(|value| !value.is_empty()).map(|value| (*name, value))
            })
        };
        let proxy = |names| match first(names) {
            Some((variable, value)) => {
                ProxyUrl::parse(&value).map(Some).map_err(|error| VariableError { variable, error })
            }
            None => Ok(None),
        };
        let none_for = first(&["no_proxy", "NO_PROXY"]);
        Ok(Self {
            http: proxy(&["http_proxy", "all_proxy", "ALL_PROXY"])?,
            https: proxy(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"])?,
            none_for: none_for.map_or_else(NoProxy::default, |(_, list)| NoProxy::parse(&list)),
        })
    }

    /// The proxy for this URL, if there is one.
    pub fn proxy_for(&self, url: &Url) -> Option<&ProxyUrl> {
        let proxy = match url.scheme() {
            "http" => self.http.as_ref(),
            "https" => self.https.as_ref(),
            _ => None,
        }?;
        let direct = self.none_for.matches(url.host()?, url.port_or_known_default()?);
        (!direct).then_some(proxy)
    }
}

/// Why a text is not a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyError {
    /// A scheme other than `http`, `socks5` and `socks5h`.
    UnknownScheme(Box<str>),
    /// Not `[scheme://][user[:password]@]host[:port]`.
    Malformed,
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownScheme(scheme) => {
                write!(f, "unsupported proxy scheme {scheme:?}; use http, socks5 or socks5h")
            }
            Self::Malformed => {
                f.write_str("invalid proxy: expected [scheme://][user[:password]@]host[:port]")
            }
        }
    }
}

impl std::error::Error for ProxyError {}

/// An environment variable with an invalid proxy. The value is not shown: it may contain a
/// password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableError {
    /// The name of the variable.
    pub variable: &'static str,
    /// The error.
    pub error: ProxyError,
}

impl fmt::Display for VariableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the environment variable {}: {}", self.variable, self.error)
    }
}

impl std::error::Error for VariableError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// The default port of a proxy.
pub const PORT_USUAL: u16 = 1080;
