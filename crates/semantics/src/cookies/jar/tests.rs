use proptest::prelude::*;

use super::*;
use crate::cookies::SameSite;

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(NOW + seconds)
}

/// The parts of a URL without a port.
fn parts(url: &str) -> UrlParts<'_> {
    let (scheme, rest) = url.split_once("://").unwrap();
    let slash = rest.find('/').unwrap_or(rest.len());
    UrlParts { is_secure: scheme == "https", host: &rest[..slash], path: &rest[slash..] }
}

fn jar() -> Jar {
    Jar::new(JarLimits::default())
}

fn store(jar: &mut Jar, url: &str, field: &str) -> Result<(), Rejected> {
    jar.store(at(0), parts(url), field.as_bytes())
}

fn header_at(jar: &Jar, seconds: u64, url: &str) -> String {
    let mut out = b"Cookie: ".to_vec();
    let found = jar.header(at(seconds), parts(url), &mut out);
    let value = String::from_utf8(out.split_off(8)).unwrap();
    assert_eq!((out.as_slice(), found), (&b"Cookie: "[..], !value.is_empty()));
    value
}

fn header(jar: &Jar, url: &str) -> String {
    header_at(jar, 0, url)
}

/// Stores a field from one URL and returns the field for another URL, or the rejection.
fn once(from: &str, field: &str, to: &str) -> Result<String, Rejected> {
    let mut jar = jar();
    store(&mut jar, from, field)?;
    Ok(header(&jar, to))
}

#[test]
fn cookies_are_sent_to_their_domain() {
    for (from, domain, to, sent) in [
        ("http://a.e.org", None, "http://a.e.org", true),
        ("http://a.e.org", None, "http://A.E.ORG", true),
        ("http://A.E.org", None, "http://a.e.org", true),
        ("http://a.e.org", None, "http://b.a.e.org", false),
        ("http://a.e.org", None, "http://e.org", false),
        ("http://a.e.org", None, "http://a.e.org.", false),
        ("http://a.e.org", Some("e.org"), "http://e.org", true),
        ("http://a.e.org", Some(".E.Org"), "http://b.c.e.org", true),
        ("http://a.e.org", Some("e.org"), "http://xe.org", false),
        ("http://a.e.org", Some("e.org"), "http://e.org.", false),
        ("http://a.e.org", Some("a.e.org"), "http://b.a.e.org", true),
        ("http://a.e.org", Some("a.e.org"), "http://e.org", false),
        ("http://a.e.org", Some(""), "http://b.a.e.org", false),
        ("http://a.e.org.", Some("e.org."), "http://b.e.org.", true),
        ("http://127.0.0.1", None, "http://127.0.0.1", true),
        ("http://127.0.0.1", Some("127.0.0.1"), "http://127.0.0.1", true),
        ("http://127.0.0.1", Some("127.0.0.1"), "http://x.127.0.0.1", false),
        ("http://[::1]", None, "http://[::1]", true),
        ("http://[::1]", Some("::1"), "http://[::1]", true),
        ("http://localhost", Some("localhost"), "http://localhost", true),
        ("http://localhost", Some("localhost"), "http://a.localhost", false),
        ("http://github.io", Some("github.io"), "http://github.io", true),
        ("http://github.io", Some("github.io"), "http://evil.github.io", false),
    ] {
        let field = domain.map_or_else(|| "n=v".into(), |domain| format!("n=v; Domain={domain}"));
        let expected = if sent { "n=v" } else { "" };
        assert_eq!(once(from, &field, to).unwrap(), expected, "{from} {domain:?} {to}");
    }
}

#[test]
fn foreign_domains_are_rejected() {
    for (from, domain, reason) in [
        ("http://a.e.org", "b.e.org", Rejected::ForeignDomain),
        ("http://a.e.org", "x.a.e.org", Rejected::ForeignDomain),
        ("http://a.e.org", "f.org", Rejected::ForeignDomain),
        ("http://ae.org", "e.org", Rejected::ForeignDomain),
        ("http://a.e.org", "e.org.", Rejected::ForeignDomain),
        ("http://a.e.org.", "e.org", Rejected::ForeignDomain),
        ("http://a.e.org", "org", Rejected::PublicSuffix),
        ("http://a.e.org", ".ORG", Rejected::PublicSuffix),
        ("http://a.e.org.", "org.", Rejected::PublicSuffix),
        ("http://a.co.uk", "co.uk", Rejected::PublicSuffix),
        ("http://a.github.io", "github.io", Rejected::PublicSuffix),
        ("http://printer.corp", "corp", Rejected::PublicSuffix),
        ("http://127.0.0.1", "0.0.1", Rejected::ForeignDomain),
        ("http://127.0.0.1", "1", Rejected::ForeignDomain),
        ("http://127.0.0.1.", "0.0.1.", Rejected::ForeignDomain),
        ("http://x.127.0.0.1", "127.0.0.1", Rejected::ForeignDomain),
        ("http://a.e.org", "é.org", Rejected::BadDomain),
        ("http://a.e.org", "e.org:80", Rejected::BadDomain),
        ("http://a.e.org", "..e.org", Rejected::BadDomain),
        ("http://a..org", "e.org", Rejected::BadHost),
        ("http://", "e.org", Rejected::BadHost),
        ("http://é.org", "é.org", Rejected::BadHost),
    ] {
        let field = format!("n=v; Domain={domain}");
        assert_eq!(once(from, &field, from), Err(reason), "{from} {domain}");
    }
}

#[test]
fn cookies_are_sent_for_their_path() {
    for (from, attributes, to, sent) in [
        ("/", "", "/a/b", true),
        ("", "", "/a", true),
        ("/a", "", "/b", true),
        ("/a/b", "", "/a", true),
        ("/a/b", "", "/a/", true),
        ("/a/b", "", "/ab", false),
        ("/a/b", "", "/", false),
        ("/a/b?c/d", "", "/a/c", true),
        ("/a?b/c", "", "/", true),
        ("/a/", "", "/a/b", true),
        ("/a/b", "; Path=/x", "/x/y", true),
        ("/a/b", "; Path=/x", "/x?q=/", true),
        ("/a/b", "; Path=/x", "/a", false),
        ("/a/b", "; Path=x", "/a/c", true),
        ("/a/b", "; Path=/x; Path", "/a/c", true),
    ] {
        let (from, to) = (format!("http://e.org{from}"), format!("http://e.org{to}"));
        let expected = if sent { "n=v" } else { "" };
        let field = format!("n=v{attributes}");
        assert_eq!(once(&from, &field, &to).unwrap(), expected, "{from} {field} {to}");
    }
    let long = format!("http://e.org/{}/x", "a".repeat(ATTRIBUTE_SIZE_MAX));
    assert_eq!(once(&long, "n=v", &long), Err(Rejected::PathTooLong));
    assert_eq!(once(&long, "n=v; Path=/", &long).unwrap(), "n=v");
}

#[test]
fn secure_cookies_need_secure_connections() {
    let field = "n=v; Secure";
    assert_eq!(once("https://e.org", field, "https://e.org").unwrap(), "n=v");
    assert_eq!(once("https://e.org", field, "http://e.org").unwrap(), "");
    assert_eq!(once("http://e.org", field, "http://e.org"), Err(Rejected::InsecureConnection));
    let open = "n=v; SameSite=None";
    assert_eq!(once("https://e.org", open, "https://e.org"), Err(Rejected::InsecureCrossSite));
}

#[test]
fn an_insecure_connection_leaves_secure_cookies_alone() {
    for (secure, field, from, is_hidden) in [
        ("n=1; Secure; Path=/", "n=2", "http://a.e.org/", true),
        ("n=1; Secure; Path=/", "n=2; Path=/x", "http://a.e.org/", true),
        ("n=1; Secure; Path=/x", "n=2; Path=/x/y", "http://a.e.org/", true),
        ("n=1; Secure; Path=/x", "n=2; Path=/", "http://a.e.org/", false),
        ("n=1; Secure; Path=/x", "n=2; Path=/xy", "http://a.e.org/", false),
        ("n=1; Secure; Path=/", "m=2", "http://a.e.org/", false),
        ("n=1; Secure; Path=/", "n=2; Domain=e.org", "http://b.e.org/", true),
        ("n=1; Secure; Path=/; Domain=e.org", "n=2", "http://b.e.org/", true),
        ("n=1; Secure; Path=/", "n=2", "http://b.e.org/", false),
        ("n=1; Secure; Path=/", "n=2", "http://xa.e.org/", false),
        ("n=1; Secure; Path=/", "n=2; Max-Age=0", "http://a.e.org/", true),
        ("n=1; Secure; Path=/", "=n=2", "http://a.e.org/", true),
        ("n=1; Secure; Path=/", "n", "http://a.e.org/", true),
        ("n=1; Secure; Path=/", "=m=n", "http://a.e.org/", false),
        ("n=1; Path=/", "n=2", "http://a.e.org/", false),
    ] {
        let mut jar = jar();
        store(&mut jar, "https://a.e.org/", secure).unwrap();
        let expected = if is_hidden { Err(Rejected::HidesSecure) } else { Ok(()) };
        assert_eq!(store(&mut jar, from, field), expected, "{secure} {field} {from}");
        let over_tls = from.replace("http:", "https:");
        assert_eq!(store(&mut jar, &over_tls, field), Ok(()), "{secure} {field} {over_tls}");
    }
    let mut jar = jar();
    store(&mut jar, "https://e.org", "n=1; Secure; Max-Age=5").unwrap();
    assert_eq!(jar.store(at(5), parts("http://e.org"), b"n=2"), Ok(()));
}

#[test]
fn name_prefixes_are_enforced() {
    for (field, is_kept) in [
        ("__Secure-a=1; Secure", true),
        ("__secure-a=1; Secure; Domain=e.org", true),
        ("__Secure-a=1", false),
        ("__SECURE-a=1", false),
        ("__Host-a=1; Secure; Path=/", true),
        ("__host-a=1; Secure; Path=/", true),
        ("__Host-a=1; Secure", false),
        ("__Host-a=1; Path=/", false),
        ("__Host-a=1; Secure; Path=/x", false),
        ("__HoSt-a=1; Secure; Path=/; Domain=a.e.org", false),
        ("__Http-a=1; Secure; HttpOnly", true),
        ("__Http-a=1; Secure", false),
        ("__http-a=1; HttpOnly", false),
        ("__Host-Http-a=1; Secure; HttpOnly; Path=/", true),
        ("__Host-Http-a=1; Secure; Path=/", false),
        ("__Host-Http-a=1; Secure; HttpOnly", false),
        ("__Host-Http-a=1; Secure; HttpOnly; Path=/; Domain=e.org", false),
        ("=__Secure-a=1; Secure", false),
        ("=__host-a=1; Secure; Path=/", false),
        ("__Http-; Secure; HttpOnly", false),
        ("_Host-a=1", true),
        ("__Hosta=1", true),
    ] {
        let expected = if is_kept { Ok(()) } else { Err(Rejected::Prefix) };
        assert_eq!(store(&mut jar(), "https://a.e.org/", field), expected, "{field}");
    }
}

#[test]
fn invalid_pairs_are_rejected() {
    let reject = |field: &str| once("http://e.org", field, "http://e.org");
    assert_eq!(reject(""), Err(Rejected::Empty));
    assert_eq!(reject("=; Path=/"), Err(Rejected::Empty));
    assert_eq!(reject("a=b\tc"), Err(Rejected::Control));
    assert_eq!(reject("a\tb=c"), Err(Rejected::Control));
    assert_eq!(reject("a=b; Path=/\tx"), Err(Rejected::Control));
    assert_eq!(reject("a=b\r\nX: y"), Err(Rejected::Control));
    assert_eq!(reject("a=b\0"), Err(Rejected::Control));
    let value = "v".repeat(4094);
    assert_eq!(reject(&format!("nn={value}")).unwrap().len(), 4097);
    assert_eq!(reject(&format!("nnn={value}")), Err(Rejected::PairTooLong));
}

#[test]
fn cookies_expire() {
    for (attributes, lives, ends) in [
        ("; Max-Age=10", 9, 10),
        ("; Max-Age=10; Expires=Thu, 01 Jan 1970 00:00:00 GMT", 9, 10),
        ("; Max-Age=x; Expires=Tue, 14 Nov 2023 22:13:30 GMT", 9, 10),
        ("; Expires=Tue, 14 Nov 2023 22:13:30 GMT", 9, 10),
        ("; Max-Age=99999999999", 400 * DAY - 1, 400 * DAY),
        ("; Expires=Fri, 31 Dec 9999 23:59:59 GMT", 400 * DAY - 1, 400 * DAY),
    ] {
        let mut jar = jar();
        store(&mut jar, "http://e.org", &format!("n=v{attributes}")).unwrap();
        assert_eq!(header_at(&jar, lives, "http://e.org"), "n=v", "{attributes}");
        assert_eq!(header_at(&jar, ends, "http://e.org"), "", "{attributes}");
    }
    for attributes in ["Max-Age=0", "Max-Age=-1", "Expires=Thu, 01 Jan 1970 00:00:00 GMT"] {
        let mut jar = jar();
        store(&mut jar, "http://e.org", "n=v; Max-Age=10").unwrap();
        store(&mut jar, "http://e.org", &format!("n=; {attributes}")).unwrap();
        assert!(jar.is_empty(), "{attributes}");
    }
    let mut jar = jar();
    store(&mut jar, "http://e.org", "n=v").unwrap();
    assert_eq!(header_at(&jar, 9000 * DAY, "http://e.org"), "n=v");
}

#[test]
fn cookies_are_sorted_by_path_length_and_age() {
    let mut jar = jar();
    let url = "http://a.e.org/x/y";
    for field in ["a=1; Path=/", "b=2; Path=/x/y", "c=3; Path=/; Domain=e.org", "d=4; Path=/x"] {
        store(&mut jar, url, field).unwrap();
    }
    assert_eq!(header(&jar, url), "b=2; d=4; a=1; c=3");
    // A replaced cookie keeps its age.
    store(&mut jar, url, "a=5; Path=/").unwrap();
    store(&mut jar, url, "alone; Path=/x").unwrap();
    assert_eq!(header(&jar, url), "b=2; d=4; alone; a=5; c=3");
    // A host-only cookie differs from one for the domain.
    store(&mut jar, url, "a=6; Path=/; Domain=a.e.org").unwrap();
    assert_eq!(header(&jar, "http://a.e.org/"), "a=5; c=3; a=6");
    assert_eq!(jar.len(), 6);
}

#[test]
fn a_full_domain_drops_cookies_in_the_order_of_the_rfc() {
    let url = "https://e.org/";
    let mut jar = Jar::new(JarLimits { domain_cookies_max: 3, ..JarLimits::default() });
    store(&mut jar, url, "old=1; Secure").unwrap();
    store(&mut jar, url, "plain=2").unwrap();
    store(&mut jar, url, "short=3; Secure; Max-Age=5").unwrap();
    // Expired cookies first.
    jar.store(at(5), parts(url), b"new=4; Secure").unwrap();
    assert_eq!(header_at(&jar, 5, url), "old=1; plain=2; new=4");
    // Then those that are not secure, even the newest.
    store(&mut jar, url, "more=5; Secure").unwrap();
    assert_eq!(header(&jar, url), "old=1; new=4; more=5");
    assert_eq!(store(&mut jar, url, "late=6"), Err(Rejected::DomainFull));
    assert_eq!(header(&jar, url), "old=1; new=4; more=5");
    // Then the least recently used; other domains do not count.
    store(&mut jar, url, "deep=7; Secure; Path=/x").unwrap();
    assert_eq!(header(&jar, url), "new=4; more=5");
    store(&mut jar, "https://f.org/", "f=1").unwrap();
    store(&mut jar, url, "last=8; Secure").unwrap();
    assert_eq!(header(&jar, "https://e.org/x"), "new=4; more=5; last=8");
    assert_eq!(jar.len(), 4);
}

#[test]
fn a_full_jar_drops_the_least_recently_used() {
    let mut jar = Jar::new(JarLimits { cookies_max: 3, ..JarLimits::default() });
    for host in ["a.org", "b.org", "c.org"] {
        store(&mut jar, &format!("https://{host}/"), "n=1; Secure; Max-Age=9").unwrap();
    }
    assert_eq!(header(&jar, "https://a.org/"), "n=1");
    store(&mut jar, "http://d.org/", "n=1").unwrap();
    assert_eq!(header(&jar, "https://b.org/"), "");
    assert_eq!(header(&jar, "https://c.org/"), "n=1");
    // Two cookies that were sent together have the same age: only one of them is removed.
    store(&mut jar, "http://d.org/", "m=1").unwrap();
    assert_eq!((jar.len(), header(&jar, "http://d.org/")), (3, "n=1; m=1".into()));
    store(&mut jar, "http://e.org/", "m=1").unwrap();
    store(&mut jar, "http://f.org/", "m=1").unwrap();
    assert_eq!((jar.len(), header(&jar, "http://d.org/")), (3, "m=1".into()));
    // Expired cookies are removed at once.
    store(&mut jar, "http://g.org/", "m=1; Max-Age=9").unwrap();
    jar.store(at(9), parts("http://h.org/"), b"m=1").unwrap();
    assert!(jar.iter().all(|cookie| cookie.domain() != "g.org"));
}

#[test]
fn floods_do_not_fill_memory() {
    let mut jar = jar();
    for at in 0..4000 {
        let host = format!("https://h{}.e.org/", at / 100);
        store(&mut jar, &host, &format!("n{at}=v")).unwrap();
    }
    assert_eq!(jar.len(), 40 * 50);
    for at in 0..4000 {
        store(&mut jar, &format!("https://i{at}.e.org/"), "n=v").unwrap();
        assert!(at < 1300 || (3000..=3300).contains(&jar.len()), "{}", jar.len());
    }
    assert_eq!(jar.iter().count(), jar.len());
    assert!(jar.iter().all(|cookie| cookie.domain().starts_with('i')));
}

#[test]
fn a_header_allocates_nothing() {
    let mut jar = jar();
    for at in 0..3000 {
        store(&mut jar, &format!("https://h{at}.e.org/"), "n=v").unwrap();
    }
    for at in 0..8 {
        store(&mut jar, "https://a.e.org/", &format!("n{at}=v; Path=/{at}")).unwrap();
        store(&mut jar, "https://a.e.org/", &format!("n{at}=v; Path=/; Domain=e.org")).unwrap();
    }
    let mut out = Vec::with_capacity(128);
    let none = allocation_counter::measure(|| {
        assert!(!jar.header(at(0), parts("https://b.c.d.org/x"), &mut out));
        assert!(!jar.header(at(0), parts("https://none.org/"), &mut out));
    });
    assert_eq!(none.count_total, 0);
    let some = allocation_counter::measure(|| {
        assert!(jar.header(at(0), parts("https://A.e.org/7/x"), &mut out));
    });
    assert_eq!((some.count_total, out.len()), (0, 9 * 4 + 8 * 2));
}

#[test]
fn a_header_is_bounded_and_omits_the_shortest_paths() {
    let mut jar = Jar::new(JarLimits { header_size_max: 12, ..JarLimits::default() });
    let url = "http://e.org/x/y";
    store(&mut jar, url, "a=12345; Path=/").unwrap();
    store(&mut jar, url, "b=678; Path=/x").unwrap();
    assert_eq!(header(&jar, url), "b=678");
    store(&mut jar, url, "c=9; Path=/").unwrap();
    assert_eq!(header(&jar, url), "b=678; c=9");
    store(&mut jar, url, "c=901; Path=/").unwrap();
    assert_eq!(header(&jar, url), "b=678; c=901");
    store(&mut jar, url, "c=9012; Path=/").unwrap();
    assert_eq!(header(&jar, url), "b=678");
}

#[test]
fn stored_cookies_can_be_read_and_removed() {
    let mut jar = jar();
    let field = "n=v; Secure; HttpOnly; SameSite=Strict; Max-Age=5; Path=/p; Domain=e.org";
    store(&mut jar, "https://a.e.org", field).unwrap();
    let cookie = jar.iter().next().unwrap();
    assert_eq!((cookie.name(), cookie.value()), (&b"n"[..], &b"v"[..]));
    assert_eq!((cookie.domain(), cookie.path()), ("e.org", &b"/p"[..]));
    assert!(cookie.is_secure() && cookie.is_http_only() && !cookie.is_host_only());
    assert_eq!((cookie.same_site(), cookie.expires()), (SameSite::Strict, Some(at(5))));
    assert_eq!(format!("{cookie:?}"), r#"Cookie { name: "n", domain: "e.org", path: "/p", .. }"#);
    store(&mut jar, "https://a.e.org", "session=1").unwrap();
    jar.retain(|cookie| cookie.expires().is_some());
    assert_eq!((jar.len(), header(&jar, "https://a.e.org/p")), (1, "n=v".into()));
}

proptest! {
    #[test]
    fn random_bytes_are_stored_or_rejected(
        field in prop::collection::vec(any::<u8>(), 0..128),
        host in "[a-z.0-9:\\[\\]-]{0,20}",
        path in "[/a?#%]{0,20}",
    ) {
        let mut jar = jar();
        let url = UrlParts { is_secure: true, host: &host, path: &path };
        let _ = jar.store(at(0), url, &field);
        let mut out = Vec::new();
        jar.header(at(0), url, &mut out);
        prop_assert!(!out.iter().any(u8::is_ascii_control));
    }

    /// Compares the map lookup with a direct implementation of §5.8.3.
    #[test]
    fn the_header_matches_the_rule_of_the_rfc(
        fields in prop::collection::vec(
            ("[ab](\\.[ab]){0,2}", "[ab.]{0,5}", "(/[xy]){0,2}/?"),
            0..12,
        ),
        host in "[ab](\\.[ab]){0,2}",
        path in "/([xy]/){0,2}[xy]?",
    ) {
        let mut jar = jar();
        for (at, (host, domain, path)) in fields.iter().enumerate() {
            let field = format!("n{at}=v; Domain={domain}.e.org; Path={path}");
            let _ = store(&mut jar, &format!("http://{host}.e.org/"), &field);
        }
        let host = format!("{host}.e.org");
        let mut out = Vec::new();
        jar.header(at(0), UrlParts { is_secure: true, host: &host, path: &path }, &mut out);
        let goes = |cookie: &&Cookie| {
            let below = host.ends_with(&format!(".{}", cookie.domain())) && !cookie.is_host_only();
            (host == cookie.domain() || below) && path_matches(path.as_bytes(), cookie.path())
        };
        let mut cookies: Vec<_> = jar.iter().filter(goes).collect();
        cookies.sort_by_key(|cookie| (Reverse(cookie.path().len()), cookie.created));
        let names = cookies.iter().map(|c| format!("{}=v", String::from_utf8_lossy(c.name())));
        prop_assert_eq!(String::from_utf8(out).unwrap(), names.collect::<Vec<_>>().join("; "));
    }
}

/// 2023-11-14 22:13:20.
const NOW: u64 = 1_700_000_000;

const DAY: u64 = 24 * 60 * 60;
