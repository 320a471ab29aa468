//! Which proxy a request goes through: its URL, and the conventions of the environment.
//!
//! Needs the feature `url`.
//!
//! The conventions are curl's, as most programs follow them: `http_proxy` in lower case only, as
//! a web server hands a request's `Proxy` field to its programs as `HTTP_PROXY`; for `https_proxy`,
//! `all_proxy` and `no_proxy` both cases, the lower first; an empty variable is none.

use std::fmt;

use url::{Host, Url};

mod no_proxy;

pub use no_proxy::NoProxy;

/// A proxy, and who we are to it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ProxyUrl {
    /// How it is spoken to.
    pub kind: ProxyKind,
    /// Where it is; a name is normalised.
    pub host: Host<String>,
    /// Never 0.
    pub port: u16,
    /// From the userinfo, decoded.
    pub login: Option<Login>,
}

/// What a proxy speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProxyKind {
    /// `http://`: requests in absolute form, and CONNECT for what is not to be seen.
    Http,
    /// `socks5://`: SOCKS version 5; names are looked up here.
    Socks5,
    /// `socks5h://`: likewise; names are looked up there.
    Socks5h,
}

/// A user and a password: bytes, as nobody says in which charset.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Login {
    /// The user.
    pub user: Vec<u8>,
    /// The password, perhaps empty.
    pub password: Vec<u8>,
}

impl ProxyUrl {
    /// Parses `[scheme://][user[:password]@]host[:port]`: without a scheme it is `http`, without
    /// a port [`PORT_USUAL`], as with curl.
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
    /// It is none, or of a kind that we do not speak.
    pub fn parse(text: &str) -> Result<Self, ProxyError> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let kind = match &scheme.to_ascii_lowercase()[..] {
            "http" => ProxyKind::Http,
            "socks5" => ProxyKind::Socks5,
            "socks5h" => ProxyKind::Socks5h,
            name if name.bytes().all(|b| b.is_ascii_alphanumeric()) => {
                return Err(ProxyError::UnknownScheme(name.into()));
            }
            _ => return Err(ProxyError::Malformed), // and not shown: it may hold a password
        };
        // The parser would drop tabs and line ends, and blanks around the whole, unseen.
        if text.bytes().any(|b| b.is_ascii_control() || b == b' ') {
            return Err(ProxyError::Malformed);
        }
        // A scheme that the parser does not know has no usual port to hide, and no other
        // character than `/` ends its host.
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

/// Which proxy for which request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// For `http` URLs.
    pub http: Option<ProxyUrl>,
    /// For `https` URLs.
    pub https: Option<ProxyUrl>,
    /// For whom none is used.
    pub none_for: NoProxy,
}

impl Settings {
    /// What the environment says; `lookup` is given a variable's name.
    ///
    /// # Errors
    /// A variable that is used is no proxy.
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

/// Why a text is no proxy.
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
                write!(f, "a proxy of the kind {scheme:?}; use http, socks5 or socks5h")
            }
            Self::Malformed => {
                f.write_str("not a proxy; write [scheme://][user[:password]@]host[:port]")
            }
        }
    }
}

impl std::error::Error for ProxyError {}

/// A variable of the environment that is no proxy. Its value is not shown: it may hold a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableError {
    /// Its name.
    pub variable: &'static str,
    /// What is wrong.
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

/// The port of a proxy that does not say it.
pub const PORT_USUAL: u16 = 1080;
