//! Proxies in arguments and in the environment.

use fulmar_semantics::proxy::{Login, NoProxy, ProxyError, ProxyKind, ProxyUrl, Settings};
use proptest::prelude::*;
use url::Url;

fn login(user: &str, password: &str) -> Option<Login> {
    Some(Login { user: user.into(), password: password.into() })
}

#[test]
fn proxy_urls_are_parsed() {
    use ProxyKind::{Http, Socks5, Socks5h};
    for (text, kind, host, port, who) in [
        ("http://p.example:3128", Http, "p.example", 3128, None),
        ("http://p.example:80/", Http, "p.example", 80, None),
        ("HTTP://P.Example", Http, "p.example", 1080, None),
        ("p.example:8080", Http, "p.example", 8080, None),
        ("127.0.0.1", Http, "127.0.0.1", 1080, None),
        ("me:pw@p:1", Http, "p", 1, login("me", "pw")),
        ("socks5://[::1]:9050", Socks5, "[::1]", 9050, None),
        ("socks5h://u%40x:p%3Aq%2F@p", Socks5h, "p", 1080, login("u@x", "p:q/")),
        ("http://corp\\me:pw@p", Http, "p", 1080, login("corp\\me", "pw")),
        ("socks5://u@p", Socks5, "p", 1080, login("u", "")),
        ("http://:pw@p", Http, "p", 1080, login("", "pw")),
        ("http://b\u{fc}cher", Http, "xn--bcher-kva", 1080, None),
        ("socks5://0x7f.1", Socks5, "127.0.0.1", 1080, None),
    ] {
        let proxy = ProxyUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!((proxy.kind, &proxy.host.to_string()[..], proxy.port), (kind, host, port));
        assert_eq!(proxy.login.clone(), who, "{text}");
        let shown = format!("{proxy} {proxy:?} {:?}", proxy.login);
        assert!(!shown.contains("pw") && !shown.contains("u@x"), "{shown}");
    }
    for bad in [
        "",
        "http://",
        "http://:80",
        "http://p:0",
        "http://p:65536",
        "http://p:x",
        "http://p/path",
        "http://p?q",
        "http://p#f",
        "http://a b",
        " http://a",
        "http://a\t",
        "http://a%2fb",
        "http://[::1",
        "http://u@",
        "u:secret://p",
    ] {
        assert_eq!(ProxyUrl::parse(bad), Err(ProxyError::Malformed), "{bad:?}");
    }
    for scheme in ["https", "socks4", "socks", "file", ""] {
        let got = ProxyUrl::parse(&format!("{scheme}://p"));
        assert_eq!(got, Err(ProxyError::UnknownScheme(scheme.into())));
    }
}

fn settings(environment: &[(&str, &str)]) -> Settings {
    let lookup = |name: &str| {
        let found = environment.iter().find(|(n, _)| *n == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    Settings::from_env(lookup).expect("a valid environment")
}

#[test]
fn the_environment_is_read_as_by_curl() {
    let host = |environment: &[(&str, &str)], url: &str| {
        let settings = settings(environment);
        let proxy = settings.proxy_for(&Url::parse(url).unwrap());
        proxy.map(|proxy| proxy.host.to_string())
    };
    let some = |host: &str| Some(host.to_owned());
    let (http, https) = ("http://a/", "https://a/");
    assert_eq!(host(&[], http), None);
    assert_eq!(host(&[("http_proxy", "p")], http), some("p"));
    assert_eq!(host(&[("http_proxy", "p")], https), None);
    assert_eq!(host(&[("HTTP_PROXY", "p")], http), None, "it may be a request's Proxy field");
    assert_eq!(host(&[("https_proxy", "p"), ("HTTPS_PROXY", "q")], https), some("p"));
    assert_eq!(host(&[("https_proxy", ""), ("HTTPS_PROXY", "q")], https), some("q"));
    assert_eq!(host(&[("all_proxy", "p"), ("ALL_PROXY", "q")], http), some("p"));
    assert_eq!(host(&[("ALL_PROXY", "q")], https), some("q"));
    assert_eq!(host(&[("http_proxy", "p"), ("all_proxy", "q")], http), some("p"));
    assert_eq!(host(&[("http_proxy", "p"), ("no_proxy", "a")], http), None);
    assert_eq!(host(&[("http_proxy", "p"), ("NO_PROXY", "*")], http), None);
    assert_eq!(host(&[("http_proxy", "p"), ("no_proxy", "b"), ("NO_PROXY", "a")], http), some("p"));
    assert_eq!(host(&[("http_proxy", "p"), ("no_proxy", "a:80")], http), None);
    assert_eq!(host(&[("https_proxy", "p"), ("no_proxy", "a:80")], https), some("p"));
    assert_eq!(host(&[("all_proxy", "p")], "ftp://a/"), None);

    let broken = |name: &str| (name == "HTTPS_PROXY").then(|| "https://u:secret@p".to_owned());
    let error = Settings::from_env(broken).expect_err("an unsupported scheme");
    assert_eq!(error.variable, "HTTPS_PROXY");
    assert!(!format!("{error} {error:?}").contains("secret"));
}

#[test]
fn no_proxy_entries_match_hosts() {
    for (list, url, want) in [
        ("*", "http://a/", true),
        ("b,*", "http://[::1]/", true),
        ("", "http://a/", false),
        ("example.com", "http://example.com/", true),
        ("example.com", "http://EXAMPLE.com./", true),
        ("example.com", "http://www.example.com/", true),
        ("example.com", "http://notexample.com/", false),
        ("example.com", "http://com/", false),
        (".example.com", "http://example.com/", true),
        (".example.com", "http://www.example.com/", true),
        ("EXAMPLE.com.", "http://www.example.com/", true),
        ("www.example.com", "http://example.com/", false),
        ("a b\tc , d", "http://d/", true),
        ("a b\tc , d", "http://b/", true),
        ("a,,b", "http://c/", false),
        (".", "http://a/", false),
        ("b\u{fc}cher", "http://xn--bcher-kva/", true),
        ("example.com:8080", "http://example.com:8080/", true),
        ("example.com:8080", "http://www.example.com:8080/", true),
        ("example.com:8080", "http://example.com/", false),
        ("example.com:443", "https://example.com/", true),
        ("example.com:", "http://example.com/", false),
        ("example.com:99999", "http://example.com/", false),
        ("127.0.0.1", "http://127.0.0.1/", true),
        ("127.0.0.1", "http://0x7f000001/", true),
        ("127.0.0.1", "http://[::ffff:127.0.0.1]/", true),
        ("127.0.0.1", "http://127.0.0.2/", false),
        ("127.0.0.1:81", "http://127.0.0.1:81/", true),
        ("127.0.0.1:81", "http://127.0.0.1/", false),
        ("0.0.1", "http://127.0.0.1/", false),
        ("1", "http://127.0.0.1/", false),
        ("10.0.0.0/8", "http://10.200.3.4/", true),
        ("10.1.2.3/8", "http://10.200.3.4/", true),
        ("10.0.0.0/8", "http://11.0.0.1/", false),
        ("10.0.0.0/8", "http://10.0.0.1.example/", false),
        ("0.0.0.0/0", "http://1.2.3.4/", true),
        ("0.0.0.0/0", "http://[2001:db8::1]/", false),
        ("10.0.0.0/33", "http://10.0.0.0/", false),
        ("10.0.0.0/", "http://10.0.0.0/", false),
        ("10.0.0.0/+8", "http://10.0.0.0/", false),
        ("192.168.0.16/28", "http://192.168.0.31/", true),
        ("192.168.0.16/28", "http://192.168.0.32/", false),
        ("::1", "http://[::1]/", true),
        ("[::1]", "http://[0:0:0:0:0:0:0:1]/", true),
        ("[::1]:8080", "http://[::1]:8080/", true),
        ("[::1]:8080", "http://[::1]/", false),
        ("[::1", "http://[::1]/", false),
        ("2001:db8::/32", "http://[2001:db8:1::2]/", true),
        ("2001:db8::/32", "http://[2001:db9::]/", false),
        ("[fe80::]/10", "http://[fe81::1]/", true),
        ("::/0", "http://[fe81::1]/", true),
        ("::/0", "http://example.com/", false),
    ] {
        let url = Url::parse(url).unwrap();
        let port = url.port_or_known_default().unwrap();
        assert_eq!(NoProxy::parse(list).matches(url.host().unwrap(), port), want, "{list} {url}");
    }
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in ".{0,40}", list in "[0-9a-f:./,\\[\\]* -]{0,40}") {
        if let Ok(proxy) = ProxyUrl::parse(&text) {
            prop_assert!(proxy.port != 0);
        }
        let url = Url::parse("http://127.0.0.1/").unwrap();
        for list in [&text, &list] {
            let _ = NoProxy::parse(list).matches(url.host().unwrap(), 80);
        }
    }

    #[test]
    fn an_address_matches_only_its_networks(address: u32, other: u32, bits in 0..=32_u32) {
        let network = format!("{}/{bits}", std::net::Ipv4Addr::from(address));
        let list = NoProxy::parse(&network);
        let matches = |n: u32| list.matches(url::Host::Ipv4(n.into()), 80);
        prop_assert!(matches(address));
        let same = (address ^ other).leading_zeros() >= bits;
        prop_assert_eq!(matches(other), same);
    }
}
