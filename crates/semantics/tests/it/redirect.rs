//! Redirects: URLs, methods, and removed fields.

use fulmar_semantics::redirect::{
    Decision, Follow, Hop, LOCATION_SIZE_MAX, NextMethod, OriginChange, Policy, Post, Reach,
    RedirectError, decide, referer,
};
use proptest::prelude::*;
use url::Url;

fn url(text: &str) -> Url {
    Url::parse(text).expect("a URL")
}

fn from(base: &str, policy: Policy, location: &[u8]) -> Result<Follow, RedirectError> {
    let url = url(base);
    let hop = Hop { method: b"GET", url: &url, status: 302, location: Some(location), followed: 0 };
    decide(policy, hop).map(|decision| match decision {
        Decision::Follow(follow) => follow,
        Decision::Stop => panic!("302 is a redirect"),
    })
}

fn follow(base: &str, location: &str) -> Result<Follow, RedirectError> {
    from(base, Policy::default(), location.as_bytes())
}

#[test]
fn the_status_decides_the_method() {
    let url = url("http://a/");
    for (status, method, stays, want) in [
        (301, "POST", Post::BecomesGet, Some("GET")),
        (302, "POST", Post::BecomesGet, Some("GET")),
        (301, "POST", Post::Stays, Some("POST")),
        (302, "POST", Post::Stays, Some("POST")),
        (303, "POST", Post::Stays, Some("GET")),
        (303, "HEAD", Post::BecomesGet, Some("HEAD")),
        (303, "PUT", Post::BecomesGet, Some("GET")),
        (301, "PUT", Post::BecomesGet, Some("PUT")),
        (302, "HEAD", Post::BecomesGet, Some("HEAD")),
        (307, "POST", Post::BecomesGet, Some("POST")),
        (308, "POST", Post::BecomesGet, Some("POST")),
        (200, "GET", Post::BecomesGet, None),
        (201, "GET", Post::BecomesGet, None),
        (300, "GET", Post::BecomesGet, None),
        (304, "GET", Post::BecomesGet, None),
        (305, "GET", Post::BecomesGet, None),
        (399, "GET", Post::BecomesGet, None),
        (404, "GET", Post::BecomesGet, None),
    ] {
        let method = method.as_bytes();
        let hop = Hop { method, url: &url, status, location: Some(b"/b"), followed: 0 };
        let policy = Policy { post: stays, ..Policy::default() };
        match decide(policy, hop).expect("a valid response") {
            Decision::Stop => assert_eq!(want, None, "{status}"),
            Decision::Follow(follow) => {
                let next = follow.method(method);
                assert_eq!(Some(next), want.map(str::as_bytes), "{status}");
                let drops_body = follow.next_method == NextMethod::Retrieve;
                assert_eq!(drops_body, status == 303 || next != method, "{status}");
            }
        }
    }
    let hop = Hop { method: b"GET", url: &url, status: 302, location: None, followed: 99 };
    assert_eq!(decide(Policy::default(), hop), Ok(Decision::Stop), "nowhere to go");
}

#[test]
fn a_location_is_a_reference() {
    let base = "http://u:p@a.example/x/y?q#f";
    for (location, want) in [
        ("", "http://u:p@a.example/x/y?q#f"),
        ("z", "http://u:p@a.example/x/z#f"),
        ("/z?r#g", "http://u:p@a.example/z?r#g"),
        ("/z#", "http://u:p@a.example/z#"),
        ("../../../z", "http://u:p@a.example/z#f"),
        ("//b.example", "http://b.example/#f"),
        ("HTTPS://B.EXAMPLE:443/", "https://b.example/#f"),
        ("/a b", "http://u:p@a.example/a%20b#f"),
        ("/caf\u{e9}", "http://u:p@a.example/caf%C3%A9#f"),
        ("http://b\u{fc}cher.example/", "http://xn--bcher-kva.example/#f"),
        ("http://0x7f.1/", "http://127.0.0.1/#f"),
    ] {
        let got = follow(base, location).map(|follow| follow.url.to_string());
        assert_eq!(got.as_deref(), Ok(want), "{location:?}");
    }
    let latin1 = from("http://a/", Policy::default(), b"/caf\xe9").map(|f| f.url.to_string());
    assert_eq!(latin1.as_deref(), Ok("http://a/caf%E9"));
    let long = "x".repeat(LOCATION_SIZE_MAX + 1);
    for bad in ["http://", "http://[::1", "http://a:65536/", "http://a b/", "/a\tb", "/a\0", &long]
    {
        assert_eq!(follow(base, bad), Err(RedirectError::BadLocation), "{bad:?}");
    }
}

#[test]
fn only_schemes_of_the_policy_are_followed() {
    for scheme in ["file:///etc/passwd", "ftp://a/", "data:,x", "javascript:1", "gopher://a/"] {
        let name = scheme.split(':').next().unwrap();
        assert_eq!(follow("http://a/", scheme), Err(RedirectError::BadScheme(name.into())));
    }
    for (reach, from_scheme, to, ok) in [
        (Reach::HttpsOnly, "http", "http", false),
        (Reach::HttpsOnly, "http", "https", true),
        (Reach::NoDowngrade, "http", "http", true),
        (Reach::NoDowngrade, "http", "https", true),
        (Reach::NoDowngrade, "https", "http", false),
        (Reach::NoDowngrade, "https", "https", true),
        (Reach::HttpAndHttps, "https", "http", true),
    ] {
        let policy = Policy { reach, ..Policy::default() };
        let got = from(&format!("{from_scheme}://a/"), policy, format!("{to}://a/").as_bytes());
        assert_eq!(got.is_ok(), ok, "{reach:?} {from_scheme} {to}");
        assert!(ok || got == Err(RedirectError::Downgrade));
    }
}

#[test]
fn a_loop_ends_at_the_limit() {
    let policy = Policy { hops_max: 5, ..Policy::default() };
    let mut url = url("http://a/");
    let mut followed = 0;
    let error = loop {
        let hop = Hop { method: b"GET", url: &url, status: 307, location: Some(b"/"), followed };
        match decide(policy, hop) {
            Ok(Decision::Follow(follow)) => url = follow.url,
            Ok(Decision::Stop) => panic!("307 is a redirect"),
            Err(error) => break error,
        }
        followed += 1;
    };
    assert_eq!((error, followed), (RedirectError::TooMany { max: 5 }, 5));
}

#[test]
fn credentials_are_removed_on_any_change_of_origin() {
    let base = "https://a.example/";
    for (location, want) in [
        ("/x", OriginChange::Same),
        ("https://A.example:443/x", OriginChange::Same),
        ("https://u:p@a.example/x", OriginChange::Same),
        ("https://a.example:444/", OriginChange::Other),
        ("https://b.a.example/", OriginChange::Other),
        ("https://example/", OriginChange::Other),
        ("https://a.example./", OriginChange::Other),
        ("https://a.example@b/", OriginChange::Other),
        ("https://b\\@a.example/", OriginChange::Other),
        ("https://b#@a.example/", OriginChange::Other),
    ] {
        assert_eq!(follow(base, location).map(|follow| follow.origin), Ok(want), "{location}");
    }
    assert_eq!(
        follow("http://a.example/", base).map(|f| f.origin),
        Ok(OriginChange::Other),
        "scheme"
    );

    let private = ["X-Api-Key"];
    let same = follow(base, "/x").unwrap();
    let other = follow(base, "https://b/").unwrap();
    for name in ["Authorization", "cookie", "PROXY-AUTHORIZATION", "Host", "x-api-KEY"] {
        assert!(same.keeps(name.as_bytes(), &private), "{name}");
        assert!(!other.keeps(name.as_bytes(), &private), "{name}");
    }
    for name in ["Accept", "User-Agent", "Content-Type", "X-Api-Keys", ""] {
        assert!(other.keeps(name.as_bytes(), &private), "{name}");
    }
    let retrieve = Follow { next_method: NextMethod::Retrieve, ..same };
    for name in ["Content-Type", "content-encoding", "Content-MD5", "Expect", "Transfer-Encoding"] {
        assert!(!retrieve.keeps(name.as_bytes(), &private), "{name}");
    }
    assert!(retrieve.keeps(b"Accept", &private) && retrieve.keeps(b"Authorization", &private));
}

#[test]
fn a_referer_has_no_userinfo_no_fragment_and_no_secrets() {
    let of = |from: &str, to: &str| referer(&url(from), &url(to));
    let want = Some("http://a:81/x?q".to_owned());
    assert_eq!(of("http://u:p@a:81/x?q#f", "http://b/"), want);
    assert_eq!(of("http://u@a:81/x?q", "https://b/"), want);
    assert_eq!(of("https://a/x", "http://a/"), None);
    assert_eq!(of("https://a/x#", "https://b/").as_deref(), Some("https://a/x"));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic_nor_leave_http(
        location in proptest::collection::vec(any::<u8>(), 0..60),
        prefix in prop_oneof!["", "http:", "https://", "//", "\\\\"],
    ) {
        let location = [prefix.as_bytes(), &location].concat();
        let policy = Policy { reach: Reach::HttpAndHttps, ..Policy::default() };
        if let Ok(follow) = from("https://a.example:8443/x#f", policy, &location) {
            prop_assert!(matches!(follow.url.scheme(), "http" | "https"));
            prop_assert!(follow.url.host().is_some());
            let same = follow.url.host_str() == Some("a.example")
                && follow.url.scheme() == "https"
                && follow.url.port() == Some(8443);
            prop_assert_eq!(same, follow.origin == OriginChange::Same);
        }
    }
}
