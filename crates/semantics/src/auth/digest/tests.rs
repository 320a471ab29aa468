use super::*;
use crate::auth::challenges;

/// The challenge of RFC 7616 §3.9.1, with other parameters.
fn digest(params: &str) -> Option<Digest> {
    let field = format!(
        "Digest realm=\"http-auth@example.org\", {params}, \
         nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", \
         opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\""
    );
    let cnonce = b"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
    Digest::new(&challenges([field.as_bytes()])[0], "Mufasa", "Circle of Life", cnonce)
}

fn authorize(digest: &mut Digest, target: &str, body: Option<&[u8]>) -> String {
    let mut out = Vec::new();
    let request = AuthRequest { method: b"GET", target: target.as_bytes(), body };
    digest.authorize(request, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The value of a parameter in the output.
fn written<'a>(value: &'a str, name: &str) -> Option<&'a str> {
    let params = value.strip_prefix("Digest ").unwrap();
    params.split(", ").find_map(|param| param.strip_prefix(name)?.strip_prefix('='))
}

#[test]
fn the_example_of_rfc_7616() {
    let mut digest = digest("qop=\"auth, auth-int\", algorithm=SHA-256").unwrap();
    assert_eq!(
        authorize(&mut digest, "/dir/index.html", None),
        "Digest username=\"Mufasa\", realm=\"http-auth@example.org\", uri=\"/dir/index.html\", \
         algorithm=SHA-256, nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", nc=00000001, \
         qop=auth, cnonce=\"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ\", \
         response=\"753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1\", \
         opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\""
    );
    let second = authorize(&mut digest, "/dir/index.html", None);
    assert_eq!(written(&second, "nc"), Some("00000002"));
    assert_ne!(written(&second, "response").map(|r| r[..8].to_owned()), Some("\"753927f".into()));
}

/// The first value is the RFC's. The others were computed with another implementation of the hashes
/// and the formula.
#[test]
fn all_algorithms_and_protections() {
    for (params, response) in [
        ("qop=auth, algorithm=MD5", "8ca523f5e9506fed4657c9700eebdbec"),
        ("qop=auth", "8ca523f5e9506fed4657c9700eebdbec"),
        ("qop=AUTH, algorithm=md5-SESS", "e783283f46242139c486a698fec7211d"),
        ("qop=\"auth-int\"", "1707eaf5c6ed1a8f6ff2e49286b06bc2"),
        ("qop=\"x,auth-int\", algorithm=MD5-sess", "6a1a4afa9798b44b19c2a93b62d15219"),
        ("stale=false", "7b2cc3b30e75b4777ea31027084363fd"),
        ("algorithm=MD5-sess", "37a7f42db2090a3fcac4e26e747d4fc8"),
        (
            "qop=auth, algorithm=SHA-256-sess",
            "2fd51b3a77ad75bad6afad6003e818d767133c46d9e2749e7f5232ae1ea3efd7",
        ),
        (
            "qop=auth-int, algorithm=sha-256",
            "887bb8d7a6c4cc95528278df0ec68f641244105a1d6a3aa8769488086b20e097",
        ),
        (
            "qop=auth, algorithm=SHA-512-256",
            "430d05014cecc49cab6fbe03176d41a1da86cbfe24a16580e22aaad928d960d0",
        ),
        (
            "qop=auth-int, algorithm=SHA-512-256-sess",
            "624a95ce6eb0c4d02a07dac0bb173ab759426c02a61f702aa580f06705bd6bfd",
        ),
    ] {
        let value = authorize(&mut digest(params).unwrap(), "/dir/index.html", Some(b"hello"));
        let expected = format!("\"{response}\"");
        assert_eq!(written(&value, "response"), Some(&expected[..]), "{params}");
        assert_eq!(written(&value, "nc").is_some(), params.contains("qop"), "{params}");
        assert_eq!(written(&value, "algorithm").is_some(), params.contains("algorithm"));
    }
}

#[test]
fn the_example_of_rfc_2617() {
    let field = b"Digest realm=\"testrealm@host.com\", qop=\"auth,auth-int\", \
        nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", opaque=\"5ccc069c403ebaf9f0171e9517f40e41\"";
    let found = challenges([&field[..]]);
    let mut digest = Digest::new(&found[0], "Mufasa", "Circle Of Life", b"0a4f113b").unwrap();
    let value = authorize(&mut digest, "/dir/index.html", None);
    assert_eq!(written(&value, "response"), Some("\"6629fae49393a05397450978507c4ef1\""));
}

/// RFC 7616 §3.9.2 with the values of erratum 4897: those of the RFC are not SHA-512/256.
#[test]
fn utf_8_user_names_are_hashed_or_encoded() {
    for (params, user, is_hashed) in [
        (
            "charset=UTF-8, userhash=true",
            "username=\"793263caabb707a56211940d90411ea4a575adeccb7e360aeb624ed06ece9b0b\"",
            true,
        ),
        ("charset=utf-8, userhash=false", "username*=UTF-8''J%C3%A4s%C3%B8n%20Doe", false),
        ("stale=false", "username=\"Jäsøn Doe\"", false),
    ] {
        let field = format!(
            "Digest realm=\"api@example.org\", qop=\"auth\", algorithm=SHA-512-256, \
             nonce=\"5TsQWLVdgBdmrQ0XsxbDODV+57QdFR34I9HAbC/RVvkK\", {params}"
        );
        let found = challenges([field.as_bytes()]);
        let cnonce = b"NTg6RKcb9boFIAS3KrFK9BGeh+iDa/sm6jUMp2wds69v";
        let mut digest = Digest::new(&found[0], "Jäsøn Doe", "Secret, or not?", cnonce).unwrap();
        let value = authorize(&mut digest, "/doe.json", None);
        assert!(value.starts_with(&format!("Digest {user}, realm=")), "{value}");
        assert_eq!(value.ends_with(", userhash=true"), is_hashed, "{value}");
        assert_eq!(
            written(&value, "response"),
            Some("\"3798d4131c277846293534c3edc11bd8a5e4cdcbff78b05db9d95eeb1cec68a5\"")
        );
    }
}

#[test]
fn quoted_values_are_preserved() {
    let field = br#"Digest realm="a\"b\\c", nonce="n\"", opaque="\"""#;
    let found = challenges([&field[..]]);
    let mut digest = Digest::new(&found[0], "u\"\\", "p", b"c").unwrap();
    let value = authorize(&mut digest, "/\"", None);
    let start = r#"Digest username="u\"\\", realm="a\"b\\c", uri="/\"", nonce="n\"", response=""#;
    assert!(value.starts_with(start) && value.ends_with(r#", opaque="\"""#), "{value}");
}

#[test]
fn unsupported_challenges_are_ignored() {
    assert!(digest("qop=auth").is_some());
    for params in ["qop=token", "qop=\"\"", "algorithm=SHA-512", "algorithm=\"\""] {
        assert!(digest(params).is_none(), "{params}");
    }
    for field in ["Digest realm=x", "Digest nonce=x", "Basic realm=x, nonce=y", "Digest abc="] {
        let found = challenges([field.as_bytes()]);
        assert!(Digest::new(&found[0], "u", "p", b"c").is_none(), "{field}");
    }
    let request = AuthRequest { method: b"GET", target: b"/", body: None };
    let mut out = b"x".to_vec();
    let mut whole = digest("qop=auth-int").unwrap();
    assert_eq!(whole.authorize(request, &mut out), Err(Unsigned::BodyUnknown));
    let mut spent = digest("qop=auth").unwrap();
    spent.count = u32::MAX - 1;
    assert_eq!(spent.authorize(request, &mut Vec::new()), Ok(()));
    assert_eq!(spent.authorize(request, &mut out), Err(Unsigned::NonceExhausted));
    assert_eq!(out, b"x");
}

#[test]
fn a_session_key_is_kept_for_new_nonces() {
    let mut digest = digest("qop=auth, algorithm=MD5-sess").unwrap();
    let key = digest.key;
    digest.follow(b"next");
    assert_eq!(digest.key.as_bytes(), key.as_bytes());
    let field: &[u8] = b"Digest realm=x, nonce=other";
    assert!(digest.renew(&challenges([field])[0], b"c"));
    assert_ne!(digest.key.as_bytes(), key.as_bytes());
}
