use proptest::prelude::*;

use super::*;
use crate::auth::challenges;

const RANDOM: [u8; 16] = [0xab; 16];

const GET: AuthRequest<'_> = AuthRequest { method: b"GET", target: b"/x", body: Some(b"") };

fn password() -> Credentials {
    Credentials::password("me", "secret").unwrap()
}

fn begin(field: &str, credentials: &Credentials, weakest: Scheme) -> Option<AuthSession> {
    AuthSession::begin(&challenges([field.as_bytes()]), credentials, weakest, RANDOM)
}

fn digest(params: &str) -> String {
    format!("Digest realm=r, qop=auth, {params}")
}

fn authorize(session: &mut AuthSession) -> (AuthAttempt, String) {
    let mut out = Vec::new();
    let attempt = session.authorize(GET, &mut out).unwrap();
    (attempt, String::from_utf8(out).unwrap())
}

fn handle(session: &mut AuthSession, attempt: AuthAttempt, field: &str) -> AuthVerdict {
    session.handle_challenges(attempt, &challenges([field.as_bytes()]), RANDOM)
}

#[test]
fn the_strongest_supported_scheme_is_selected() {
    let token = Credentials::token("t.o-k_e~n+/=").unwrap();
    let all = "Basic realm=r, Bearer realm=r, NTLM, Digest realm=r, nonce=n, \
        Digest realm=r, nonce=n, algorithm=SHA-256, Digest realm=r, nonce=n, algorithm=SHA-1, \
        Digest realm=r, nonce=n, algorithm=SHA-512-256";
    let md5 = "Digest realm=r, nonce=n, Basic realm=r";
    for (field, credentials, weakest, expected) in [
        (all, &password(), Scheme::Basic, Some(Scheme::DigestSha512)),
        (all, &token, Scheme::Basic, Some(Scheme::Bearer)),
        (md5, &password(), Scheme::Basic, Some(Scheme::DigestMd5)),
        (md5, &password(), Scheme::DigestMd5, Some(Scheme::DigestMd5)),
        (md5, &password(), Scheme::DigestSha256, None),
        (md5, &token, Scheme::Basic, None),
        ("basic", &password(), Scheme::Basic, Some(Scheme::Basic)),
        ("basic", &password(), Scheme::DigestMd5, None),
        ("Negotiate abc=", &password(), Scheme::Basic, None),
        ("", &password(), Scheme::Basic, None),
    ] {
        let session = begin(field, credentials, weakest);
        assert_eq!(session.map(|session| session.scheme()), expected, "{field}");
    }
    let two = "Digest realm=first, nonce=n, Digest realm=second, nonce=n";
    let mut session = begin(two, &password(), Scheme::Basic).unwrap();
    assert!(authorize(&mut session).1.contains("realm=\"first\""));
}

#[test]
fn basic_and_bearer_are_constant() {
    // RFC 7617 §2 and §2.1.
    for (user, password, expected) in [
        ("Aladdin", "open sesame", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        ("test", "123\u{a3}", "Basic dGVzdDoxMjPCow=="),
        ("", "", "Basic Og=="),
        ("a", "b:c", "Basic YTpiOmM="),
    ] {
        let credentials = Credentials::password(user, password).unwrap();
        let mut session = AuthSession::preemptive(&credentials).unwrap();
        let (attempt, value) = authorize(&mut session);
        assert_eq!((&value, &authorize(&mut session).1), (&expected.to_owned(), &value));
        assert_eq!(handle(&mut session, attempt, "Basic realm=r"), AuthVerdict::Refused);
    }
    let mut session = AuthSession::preemptive(&Credentials::token("abc").unwrap()).unwrap();
    assert_eq!(authorize(&mut session).1, "Bearer abc");
    let colon = Credentials::password("a:b", "c").unwrap();
    assert!(AuthSession::preemptive(&colon).is_none());
    assert!(begin("Basic realm=r", &colon, Scheme::Basic).is_none());
    assert!(begin("Basic realm=r, Digest realm=r, nonce=n", &colon, Scheme::Basic).is_some());
}

#[test]
fn a_nonce_is_used_until_it_is_stale() {
    let mut session = begin(&digest("nonce=one"), &password(), Scheme::Basic).unwrap();
    let (first, value) = authorize(&mut session);
    assert!(value.contains("nonce=\"one\", nc=00000001"), "{value}");
    assert!(value.contains(&format!("cnonce=\"{}\"", "ab".repeat(16))), "{value}");
    let (second, value) = authorize(&mut session);
    assert!(value.contains("nonce=\"one\", nc=00000002"), "{value}");
    assert_eq!(handle(&mut session, first, &digest("nonce=two, stale=TRUE")), AuthVerdict::Retry);
    let (third, value) = authorize(&mut session);
    assert!(value.contains("nonce=\"two\", nc=00000001"), "{value}");
    // A request with the old nonce is sent again with the new one, whatever the challenge contains.
    assert_eq!(handle(&mut session, second, &digest("nonce=three")), AuthVerdict::Retry);
    assert!(authorize(&mut session).1.contains("nonce=\"two\", nc=00000002"));
    assert_eq!(handle(&mut session, third, &digest("nonce=three")), AuthVerdict::Refused);
}

#[test]
fn the_refusal_of_a_new_nonce_is_final() {
    let refuses = |uses: usize, field: &str| {
        let mut session = begin(&digest("nonce=one"), &password(), Scheme::Basic).unwrap();
        let attempt = (0..uses).map(|_| authorize(&mut session).0).last().unwrap();
        handle(&mut session, attempt, field) == AuthVerdict::Refused
    };
    assert!(refuses(1, &digest("nonce=two")));
    assert!(refuses(1, &digest("nonce=two, stale=false")));
    assert!(!refuses(2, &digest("nonce=two")));
    assert!(!refuses(1, &digest("nonce=two, stale=true")));
    // Refused: a nonce used twice with the same count, another realm, or a weaker scheme.
    assert!(refuses(1, &digest("nonce=one, stale=true")));
    assert!(refuses(2, &digest("nonce=one")));
    assert!(refuses(2, "Digest realm=other, qop=auth, nonce=two, stale=true"));
    assert!(refuses(2, "Digest realm=r, nonce=two, stale=true"));
    assert!(refuses(2, "Digest realm=r, qop=auth, nonce=two, algorithm=SHA-256, stale=true"));
    assert!(refuses(2, &digest("stale=true")));
    assert!(refuses(2, "Basic realm=r"));
}

#[test]
fn the_server_may_name_the_next_nonce() {
    let mut session = begin(&digest("nonce=one"), &password(), Scheme::Basic).unwrap();
    let (first, _) = authorize(&mut session);
    session.handle_info(b"qop=auth, nextnonce=\"two\", rspauth=\"x\"");
    assert!(authorize(&mut session).1.contains("nonce=\"two\", nc=00000001"));
    session.handle_info(b"nextnonce=\"two\"");
    session.handle_info(b"rspauth=\"x\"");
    assert!(authorize(&mut session).1.contains("nonce=\"two\", nc=00000002"));
    assert_eq!(handle(&mut session, first, &digest("nonce=three")), AuthVerdict::Retry);
    let mut basic = begin("Basic", &password(), Scheme::Basic).unwrap();
    basic.handle_info(b"nextnonce=x");
    assert_eq!(authorize(&mut basic).1, "Basic bWU6c2VjcmV0");
}

#[test]
fn debug_output_has_no_secrets() {
    let digest = begin(&digest("nonce=n"), &password(), Scheme::Basic).unwrap();
    let basic = AuthSession::preemptive(&password()).unwrap();
    let shown = format!("{digest:?} {basic:?}");
    assert_eq!(shown, "AuthSession { scheme: DigestMd5, .. } AuthSession { scheme: Basic, .. }");
}

proptest! {
    /// The value for any challenge is valid in a header field.
    #[test]
    fn random_challenges_give_valid_fields(
        field in prop::collection::vec(any::<u8>(), 0..64),
        realm in "[^\r\n\0]{0,8}",
        params in "(, (qop|nonce|opaque|algorithm|stale|charset|userhash)\
            =(auth|\"[ -~é]{0,8}\"|MD5|true|UTF-8)){0,6}",
    ) {
        let digest = format!("Digest realm=\"{realm}\"{params}");
        let found = challenges([&field[..], digest.as_bytes()]);
        if let Some(mut session) = AuthSession::begin(&found, &password(), Scheme::Basic, RANDOM) {
            let mut out = Vec::new();
            let attempt = session.authorize(GET, &mut out).unwrap();
            prop_assert!(out.iter().all(|byte| *byte == b'\t' || !byte.is_ascii_control()));
            session.handle_challenges(attempt, &found, RANDOM);
            session.handle_info(&field);
        }
    }
}
