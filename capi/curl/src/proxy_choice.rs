//! The proxies of a transfer: those of the options, or of the environment.

use std::os::unix::ffi::OsStringExt;

use fulmar_sys as sys;

use crate::auth_state::LoginPair;
use crate::code::CurlCode;
use crate::easy_options::EasyOptions;
use crate::environment::getenv;
use crate::failure::Failure;
use crate::hop_target::HopTarget;
use crate::no_proxy::is_excluded;
use crate::option::OptionId as Id;
use crate::rare::ConstDefault;
use crate::url::{CurlUrl, UrlFlags, UrlPart};

/// The proxies on the way to a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProxyRoute {
    pub(crate) http: Option<ProxyServer>,
    /// In front of the HTTP proxy, or the only one.
    pub(crate) socks: Option<ProxyServer>,
    /// Through the HTTP proxy, a tunnel leads to the server.
    pub(crate) tunnels: bool,
}

/// A proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxyServer {
    pub(crate) kind: ProxyScheme,
    /// Without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// A SOCKS proxy on a Unix socket.
    pub(crate) socket: Option<Vec<u8>>,
    pub(crate) login: LoginPair,
}

/// `CURLOPT_PROXYTYPE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyScheme {
    Http,
    Http10,
    Https,
    Socks4,
    Socks4a,
    Socks5,
    Socks5h,
}

impl ProxyScheme {
    fn of_option(number: i64) -> Self {
        match number {
            1 => Self::Http10,
            2 => Self::Https,
            4 => Self::Socks4,
            5 => Self::Socks5,
            6 => Self::Socks4a,
            7 => Self::Socks5h,
            _ => Self::Http,
        }
    }

    /// The version of SOCKS.
    pub(crate) fn socks_version(self) -> u8 {
        if matches!(self, Self::Socks4 | Self::Socks4a) { 4 } else { 5 }
    }

    /// True if the proxy resolves names.
    pub(crate) fn resolves_itself(self) -> bool {
        !matches!(self, Self::Socks4 | Self::Socks5)
    }

    fn is_socks(self) -> bool {
        !matches!(self, Self::Http | Self::Http10 | Self::Https)
    }
}

impl ConstDefault for ProxyRoute {
    const DEFAULT: &'static Self = &Self { http: None, socks: None, tunnels: false };
}

impl ProxyRoute {
    /// True if no proxy is on the way to a target, by the options and the environment of now.
    pub(crate) fn is_direct(options: &EasyOptions, target: &HopTarget) -> bool {
        let has_option = |id| options.values.bytes(id).is_some();
        if !has_option(Id::PROXY)
            && !has_option(Id::PRE_PROXY)
            && !sys::has_variable(variables(target))
        {
            return true;
        }
        let selected = Self::select(options, target, &mut LoginPair::default(), environment);
        selected.is_ok_and(|route| route == Self::default())
    }

    /// The proxies for a target. `login` is that of the options; the one of the HTTP proxy's URL
    /// takes its place. `variable` reads the environment.
    pub(crate) fn select(
        options: &EasyOptions,
        target: &HopTarget,
        login: &mut LoginPair,
        variable: impl Fn(&str) -> Option<Vec<u8>>,
    ) -> Result<Self, Failure> {
        let values = &options.values;
        let own = |id| values.bytes(id).map(|text| text.to_vec());
        let (mut proxy, mut socks) = (own(Id::PROXY), own(Id::PRE_PROXY));
        if proxy.is_none() && socks.is_none() {
            proxy = of_environment(target, &variable);
        }
        if proxy.is_none() && socks.is_none() {
            return Ok(Self::default());
        }
        let excluded = own(Id::NOPROXY).or_else(|| variable("no_proxy"));
        let excluded = excluded.or_else(|| variable("NO_PROXY")).unwrap_or_default();
        if is_excluded(&target.host, &excluded) {
            (proxy, socks) = (None, None);
        }
        if values.bytes(Id::UNIX_SOCKET_PATH).is_some() {
            proxy = None;
        }
        let mut route = Self::default();
        let kind = ProxyScheme::of_option(values.number(Id::PROXYTYPE));
        let port = u16::try_from(values.number(Id::PROXYPORT)).ok().filter(|port| *port > 0);
        let parse = |text: Option<Vec<u8>>, kind| {
            let text = text.filter(|text| !text.is_empty());
            text.map(|text| ProxyServer::parse(&text, kind, port)).transpose()
        };
        if let Some(server) = parse(proxy, kind)? {
            match server.kind.is_socks() {
                true => route.socks = Some(server),
                false => route.http = Some(server),
            }
        }
        if let Some(server) = parse(socks, ProxyScheme::Socks4)? {
            if !server.kind.is_socks() {
                let text = "CURLOPT_PRE_PROXY is not a SOCKS proxy";
                return Err(Failure::new(CurlCode::CouldntConnect, text));
            }
            route.socks = Some(server);
        }
        if let Some(http) = route.http.as_ref().filter(|http| http.login.user.is_some()) {
            login.clone_from(&http.login);
        }
        if let Some(socks) = &mut route.socks
            && route.http.is_none()
            && socks.login.user.is_none()
        {
            socks.login.clone_from(login);
        }
        route.tunnels =
            route.http.is_some() && (target.is_secure || values.is_on(Id::HTTPPROXYTUNNEL));
        Ok(route)
    }
}

/// The value of an environment variable.
pub(crate) fn environment(name: &str) -> Option<Vec<u8>> {
    getenv(name.as_ref()).map(OsStringExt::into_vec)
}

/// The proxy of the environment. `HTTP_PROXY` is not read: a web server sets it from a request.
fn of_environment(
    target: &HopTarget,
    variable: impl Fn(&str) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    variables(target).iter().find_map(|name| variable(name))
}

/// The names of the variables that may hold the proxy for a target.
fn variables(target: &HopTarget) -> &'static [&'static str] {
    match (target.is_secure, target.is_websocket) {
        (true, true) => &["wss_proxy", "WSS_PROXY", "all_proxy", "ALL_PROXY"],
        (false, true) => &["ws_proxy", "WS_PROXY", "all_proxy", "ALL_PROXY"],
        (true, false) => &["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"],
        (false, false) => &["http_proxy", "all_proxy", "ALL_PROXY"],
    }
}

impl ProxyServer {
    fn parse(
        text: &[u8],
        mut kind: ProxyScheme,
        default_port: Option<u16>,
    ) -> Result<Self, Failure> {
        let shown = String::from_utf8_lossy(text);
        let syntax = || {
            Failure::new(
                CurlCode::CouldntResolveProxy,
                format!("Unsupported proxy syntax in '{shown}'"),
            )
        };
        let mut url = CurlUrl::new();
        let flags = UrlFlags::NON_SUPPORT_SCHEME | UrlFlags::GUESS_SCHEME;
        url.set(UrlPart::Url, text, flags).map_err(|_| syntax())?;
        let get = |part, flags| url.get(part, flags).ok();
        let scheme = get(UrlPart::Scheme, UrlFlags::default()).unwrap_or_default();
        kind = match &scheme.to_ascii_lowercase()[..] {
            b"http" => kind,
            b"https" => ProxyScheme::Https,
            b"socks5h" => ProxyScheme::Socks5h,
            b"socks5" => ProxyScheme::Socks5,
            b"socks4a" => ProxyScheme::Socks4a,
            b"socks4" | b"socks" => ProxyScheme::Socks4,
            _ => {
                return Err(Failure::new(
                    CurlCode::CouldntConnect,
                    format!("Unsupported proxy scheme for '{shown}'"),
                ));
            }
        };
        let user = get(UrlPart::User, UrlFlags::URLDECODE);
        let password = get(UrlPart::Password, UrlFlags::URLDECODE);
        let login = match user.is_some() || password.is_some() {
            true => LoginPair { user, password: Some(password.unwrap_or_default()) },
            false => LoginPair::default(),
        };
        let port = get(UrlPart::Port, UrlFlags::default());
        let port = port.and_then(|port| std::str::from_utf8(&port).ok()?.parse().ok());
        let host = get(UrlPart::Host, UrlFlags::URLDECODE).ok_or_else(syntax)?;
        let host = String::from_utf8(host).map_err(|_| syntax())?;
        let is_local = kind.is_socks() && host.eq_ignore_ascii_case("localhost");
        let path = get(UrlPart::Path, UrlFlags::URLDECODE);
        let socket = path.filter(|path| is_local && path != b"/");
        Ok(Self {
            kind,
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: port.or(default_port).unwrap_or(match kind {
                ProxyScheme::Https => HTTPS_PORT_DEFAULT,
                _ => PORT_DEFAULT,
            }),
            socket,
            login,
        })
    }

    /// As a URL, which selects the connection.
    pub(crate) fn origin(&self) -> String {
        self.url(if self.kind == ProxyScheme::Https { "https" } else { "http" })
    }

    /// The same with another scheme.
    pub(crate) fn url(&self, scheme: &str) -> String {
        match self.host.contains(':') {
            true => format!("{scheme}://[{}]:{}/", self.host, self.port),
            false => format!("{scheme}://{}:{}/", self.host, self.port),
        }
    }
}

/// `CURL_DEFAULT_PROXY_PORT`.
const PORT_DEFAULT: u16 = 1080;
/// `CURL_DEFAULT_HTTPS_PROXY_PORT`.
const HTTPS_PORT_DEFAULT: u16 = 443;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::easy_options::Argument;

    fn select(url: &str, options: &EasyOptions, variables: &[(&str, &str)]) -> ProxyRoute {
        let target = HopTarget::parse(url.as_bytes(), options).expect("a URL");
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.as_bytes().to_vec())
        };
        let login = &mut LoginPair::default();
        ProxyRoute::select(options, &target, login, variable).expect("a proxy")
    }

    fn name(server: &ProxyServer) -> String {
        format!("{:?} {}:{}", server.kind, server.host, server.port)
    }

    #[test]
    fn environment_is_read_unless_options_exclude_it() {
        let variables = [
            ("http_proxy", "a:1"),
            ("HTTP_PROXY", "never"),
            ("HTTPS_PROXY", "socks5h://b"),
            ("no_proxy", "excluded.org"),
        ];
        let mut options = EasyOptions::default();
        let found = |options: &EasyOptions, url| {
            let route = select(url, options, &variables);
            route.http.or(route.socks).map(|server| name(&server))
        };
        assert_eq!(found(&options, "http://x/").as_deref(), Some("Http a:1"));
        assert_eq!(found(&options, "https://x/").as_deref(), Some("Socks5h b:1080"));
        assert_eq!(found(&options, "http://www.excluded.org/"), None);
        options.set(Id::PROXY, Argument::Bytes(Some(b""))).expect("accepted");
        assert_eq!(found(&options, "http://x/"), None, "an empty option means none");
    }

    #[test]
    fn scheme_port_and_login_are_those_of_the_option() {
        let mut options = EasyOptions::default();
        options.set(Id::PROXYPORT, Argument::Number(8080)).expect("accepted");
        options.set(Id::PROXYTYPE, Argument::Number(4)).expect("accepted");
        options.set(Id::PROXY, Argument::Bytes(Some(b"u%40:p@h"))).expect("accepted");
        let route = select("https://x/", &options, &[]);
        let server = route.socks.expect("a SOCKS proxy");
        assert_eq!(name(&server), "Socks4 h:8080");
        assert_eq!(server.login.user.as_deref(), Some(&b"u@"[..]));
        assert!(!route.tunnels, "only HTTP proxies have tunnels");
        options.set(Id::PROXY, Argument::Bytes(Some(b"socks9://h"))).expect("accepted");
        let target = HopTarget::parse(b"http://x/", &options).expect("a URL");
        let refused = ProxyRoute::select(&options, &target, &mut LoginPair::default(), |_| None);
        assert_eq!(refused.map_err(|it| it.code), Err(CurlCode::CouldntConnect));
    }
}
