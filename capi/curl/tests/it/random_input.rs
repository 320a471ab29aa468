//! Bytes of peers and files in random order: they are parsed or refused, and nothing panics.

use fulmar_curl::altsvc::{AltCache, AltEndpoint, AltProtocol};
use fulmar_curl::auth::{AuthChoice, DigestRequest, DigestState, NtlmChallenge, NtlmLogin, method};
use fulmar_curl::cookies::{CookieEngine, CookieOrigin};
use fulmar_curl::hsts::HstsCache;
use fulmar_curl::netrc::find_netrc;

/// Words of all formats, so that random texts reach beyond the first check.
const WORDS: &[&str] = &[
    "=",
    ";",
    ",",
    " ",
    "\t",
    "\n",
    "\r",
    "\"",
    "\\",
    ":",
    "/",
    ".",
    "#",
    "0",
    "-1",
    "a",
    "x.com",
    "99999999999999999999",
    "TRUE",
    "FALSE",
    "Set-Cookie:",
    "#HttpOnly_",
    "domain",
    "path",
    "secure",
    "max-age",
    "expires",
    "__Host-",
    "includeSubDomains",
    "h2",
    "h3",
    "clear",
    "ma",
    "persist",
    "Digest",
    "NTLM",
    "Basic",
    "realm",
    "nonce",
    "qop",
    "auth-int",
    "algorithm",
    "MD5-sess",
    "machine",
    "login",
    "password",
    "macdef",
    "default",
    "TlRMTVNTUAACAAAA",
    "\0",
    "\u{e4}",
];

#[test]
fn random_bytes_of_peers_and_files_never_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    let mut cookies = CookieEngine::new(|text| (text.len() % 2 == 0).then_some(5));
    let mut hsts = HstsCache::new(|text| (text.len() % 2 == 0).then_some(i64::MIN));
    let mut alternatives = AltCache::new(|text| (text.len() % 2 == 0).then_some(i64::MAX));
    let mut stored = 0;
    for _ in 0..5_000 {
        let text: String = (0..random(12)).map(|_| WORDS[random(WORDS.len())]).collect();
        let text = text.as_bytes();
        let origin = CookieOrigin { host: b"x.com", path: text, is_secure: random(2) == 0 };
        cookies.add_header(text, origin, 7);
        cookies.add_line(text, 7);
        cookies.load(text, 7);
        stored += usize::from(!cookies.sent(origin, 7).is_empty());
        let _ = hsts.add_header(b"x.com", text, i64::MAX);
        hsts.load(text, 7);
        hsts.lookup(text, 7);
        let origin = AltEndpoint { protocol: AltProtocol::H1, host: text.to_vec(), port: 1 };
        alternatives.add_header(text, &origin, i64::MAX);
        alternatives.load(text);
        let mut digest = DigestState::default();
        let mut choice = AuthChoice::new(method::DIGEST | method::NTLM);
        choice.handle_challenge(text, &mut digest);
        let request = DigestRequest { method: b"GET", target: text, omits_query: true };
        digest.authorize(text, text, request, text);
        if let Ok(challenge) = NtlmChallenge::parse(text) {
            let login = NtlmLogin { user: text, password: text, entropy: [0; 8], now: i64::MAX };
            challenge.authorize(login);
        }
        let _ = find_netrc(text, b"a", Some(b"a"));
    }
    assert!(stored > 0 && !cookies.jar(7).is_empty());
    assert!(!hsts.file().is_empty() && !alternatives.file().is_empty());
}
