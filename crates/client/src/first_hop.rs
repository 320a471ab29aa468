//! Where a connection is connected to, and which names have to be resolved for that.
//!
//! A SOCKS proxy of version 4, or of version 5 with addresses, gets the address of the host. So up
//! to two names are resolved, one after the other: the proxy's, then the host's.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use fulmar_semantics::proxy::ProxyKind;
use url::Host;

use crate::connection_key::{Key, Route};
use crate::options::host_text;

/// Where a connection is connected to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FirstHop<'a> {
    /// A Unix socket, or nowhere: the application opens the connection.
    Local,
    /// An address.
    Address(SocketAddr),
    /// The addresses of a name, and a port.
    Name(Cow<'a, str>, u16),
}

/// Where connections with this key are connected to, if the key has no addresses for it.
pub(crate) fn first_hop(key: &Key) -> FirstHop<'_> {
    let (host, port): (Cow<'_, str>, u16) = match &key.route {
        Route::Unix(_) | Route::TunnelUnix(..) | Route::Opened(_) => return FirstHop::Local,
        Route::Tunnel(proxy) => match &proxy.host {
            Host::Domain(name) => (name.into(), proxy.port),
            other => (host_text(other).into(), proxy.port),
        },
        Route::Forward => (key.host.as_ref().into(), key.port),
        Route::Direct => {
            let (host, port) = target(key);
            (host.into(), port)
        }
    };
    match host.parse::<IpAddr>() {
        Ok(address) => FirstHop::Address((address, port).into()),
        Err(_) => FirstHop::Name(host, port),
    }
}

/// Host and port that the route ends at.
pub(crate) fn target(key: &Key) -> (&str, u16) {
    match &key.connect_to {
        Some((host, port)) => (host, *port),
        None => (&key.host, key.port),
    }
}

/// The name that is resolved for the first hop.
pub(crate) fn first_name(key: &Key) -> Option<Cow<'_, str>> {
    match first_hop(key) {
        FirstHop::Name(name, _) if key.addresses.is_none() => Some(name),
        _ => None,
    }
}

/// The name that is resolved for the proxy, which gets an address.
pub(crate) fn target_name(key: &Key) -> Option<&str> {
    let needs_address = match key.route.proxy()?.kind {
        ProxyKind::Socks4 | ProxyKind::Socks5 => key.target_addresses.is_none(),
        ProxyKind::Http | ProxyKind::Socks4a | ProxyKind::Socks5h => false,
    };
    let (host, _) = target(key);
    Some(host).filter(|host| needs_address && host.parse::<IpAddr>().is_err())
}

/// True if the name of the first hop is a proxy's.
pub(crate) fn leads_to_proxy(key: &Key) -> bool {
    match &key.route {
        Route::Forward | Route::Tunnel(_) | Route::TunnelUnix(..) => true,
        Route::Direct | Route::Unix(_) | Route::Opened(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fulmar_semantics::proxy::{ProxyUrl, Settings};

    use super::*;
    use crate::{Options, Request};

    /// First hop, name to resolve for it, and name of the host, of a request with these options.
    fn way(url: &str, proxy: Option<(ProxyKind, &str)>, options: Options) -> String {
        let proxy = proxy.map(|(kind, text)| {
            let proxy = ProxyUrl { kind, ..ProxyUrl::parse(text).expect("a proxy") };
            let (http, https) = (Some(proxy.clone()), Some(proxy));
            Arc::new(Settings { http, https, ..Settings::default() })
        });
        let options = Options { proxies: proxy, ..options };
        let request = Request::get(url).options(Arc::new(options)).build().expect("valid");
        let key = request.key();
        let hop = match first_hop(key) {
            FirstHop::Local => "local".to_owned(),
            FirstHop::Address(address) => address.to_string(),
            FirstHop::Name(name, port) => format!("{name}:{port}"),
        };
        format!("{hop} {:?} {:?}", first_name(key).as_deref(), target_name(key))
    }

    #[test]
    fn names_are_those_of_the_route() {
        let none = Options::default;
        let named = |kind| Some((kind, "socks5://proxy.test:9"));
        let literal = |kind| Some((kind, "socks5://127.0.0.1:9"));
        for (url, proxy, expected) in [
            ("http://a.test/", None, "a.test:80 Some(\"a.test\") None"),
            ("http://127.0.0.1:8/", None, "127.0.0.1:8 None None"),
            (
                "http://a.test/",
                named(ProxyKind::Socks5),
                "proxy.test:9 Some(\"proxy.test\") Some(\"a.test\")",
            ),
            ("http://a.test/", named(ProxyKind::Socks5h), "proxy.test:9 Some(\"proxy.test\") None"),
            ("http://a.test/", literal(ProxyKind::Socks4), "127.0.0.1:9 None Some(\"a.test\")"),
            ("http://127.0.0.2/", literal(ProxyKind::Socks5), "127.0.0.1:9 None None"),
            ("http://a.test/", named(ProxyKind::Http), "proxy.test:9 Some(\"proxy.test\") None"),
        ] {
            assert_eq!(way(url, proxy, none()), expected, "{url} {proxy:?}");
        }
    }

    #[test]
    fn given_hosts_and_addresses_replace_names() {
        let connect_to = Some(("b.test".into(), 81));
        let to = || Options { connect_to: connect_to.clone(), ..Options::default() };
        let socks = Some((ProxyKind::Socks5, "socks5://proxy.test:9"));
        assert_eq!(way("http://a.test/", None, to()), "b.test:81 Some(\"b.test\") None");
        assert_eq!(
            way("http://a.test/", socks, to()),
            "proxy.test:9 Some(\"proxy.test\") Some(\"b.test\")"
        );
        let given = || Options {
            addresses: Some(Arc::from([([127, 0, 0, 1], 9).into()])),
            target_addresses: Some(Arc::from([[127, 0, 0, 2].into()])),
            ..Options::default()
        };
        assert_eq!(way("http://a.test/", socks, given()), "proxy.test:9 None None");
        let local = Options { proxy_socket: Some("/s".into()), ..Options::default() };
        assert_eq!(way("http://a.test/", socks, local), "local None Some(\"a.test\")");
    }
}
