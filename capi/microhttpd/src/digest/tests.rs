//! Proofs and the results of libmicrohttpd 0.9.75.

use super::DigestVerdict::{Invalid, InvalidNonce, Valid};
use super::*;

const TARGET: &[u8] = b"/x?a=b";

/// The parameters of a proof; each may be changed before it is sent.
struct SampleProof {
    hash: DigestFunction,
    nonce: String,
    user: &'static str,
    password: &'static str,
    realm: &'static str,
    uri: &'static str,
    method: &'static str,
    nc: &'static str,
    qop: &'static str,
    dropped: &'static str,
    extra: &'static str,
}

impl SampleProof {
    fn new(nonce: &str) -> Self {
        Self {
            hash: DigestFunction::Md5,
            nonce: nonce.to_owned(),
            user: "u",
            password: "p",
            realm: "r",
            uri: "/x?a=b",
            method: "GET",
            nc: "00000001",
            qop: "auth",
            dropped: "",
            extra: "",
        }
    }

    fn response(&self) -> String {
        let of = |parts: &[&str]| {
            let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
            self.hash.of(&parts)
        };
        let key = of(&[self.user, self.realm, self.password]);
        let target = of(&[self.method, self.uri]);
        of(&[&key, &self.nonce, self.nc, "c", self.qop, &target])
    }

    fn text(&self) -> String {
        let quoted = |text: &str| format!("\"{text}\"");
        let all = [
            ("username", quoted(self.user)),
            ("realm", quoted(self.realm)),
            ("nonce", quoted(&self.nonce)),
            ("uri", quoted(self.uri)),
            ("response", quoted(&self.response())),
            ("qop", self.qop.to_owned()),
            ("nc", self.nc.to_owned()),
            ("cnonce", quoted("c")),
            ("opaque", quoted("o")),
        ];
        let sent = all.iter().filter(|(name, _)| *name != self.dropped);
        let sent: Vec<String> = sent.map(|(name, value)| format!("{name}={value}")).collect();
        format!("Digest {}{}", sent.join(", "), self.extra)
    }
}

fn nonces() -> DigestNonces {
    DigestNonces::new(b"a secret for this test only", 4)
}

fn check(hash: DigestFunction) -> DigestCheck<'static> {
    let secret = DigestSecret::Password(b"p");
    DigestCheck { realm: b"r", user: b"u", secret, hash, nonce_timeout_s: 300 }
}

fn verdict(nonces: &DigestNonces, now_s: u64, authorization: &str) -> DigestVerdict {
    let authorization = authorization.as_bytes();
    let request = ProvenRequest { authorization, method: b"GET", target: TARGET };
    check(DigestFunction::Md5).verify(nonces, now_s, request)
}

/// The result of one proof with a nonce of its own.
fn verdict_of(change: impl FnOnce(&mut SampleProof)) -> DigestVerdict {
    let nonces = nonces();
    let mut proof = SampleProof::new(&nonces.issue(100));
    change(&mut proof);
    verdict(&nonces, 100, &proof.text())
}

/// RFC 7616 §3.9.1.
#[test]
fn response_is_that_of_the_rfc() {
    for (hash, expected) in [
        (DigestFunction::Md5, "8ca523f5e9506fed4657c9700eebdbec"),
        (
            DigestFunction::Sha256,
            "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1",
        ),
    ] {
        let key = hash.of(&[b"Mufasa", b"http-auth@example.org", b"Circle of Life"]);
        let target = hash.of(&[b"GET", b"/dir/index.html"]);
        let response = hash.of(&[
            key.as_bytes(),
            b"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v",
            b"00000001",
            b"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",
            b"auth",
            target.as_bytes(),
        ]);
        assert_eq!(response, expected);
    }
}

#[test]
fn proofs_have_the_results_of_the_original() {
    assert_eq!(verdict_of(|_| {}), Valid);
    assert_eq!(verdict_of(|p| p.password = "q"), Invalid);
    assert_eq!(verdict_of(|p| p.user = "w"), Invalid);
    assert_eq!(verdict_of(|p| p.realm = "s"), Invalid);
    assert_eq!(verdict_of(|p| p.method = "POST"), Invalid);
    assert_eq!(verdict_of(|p| p.qop = "auth-int"), Invalid);
    assert_eq!(verdict_of(|p| p.nc = "zz"), Invalid);
    assert_eq!(verdict_of(|p| p.nc = "000000051"), Valid);
    assert_eq!(verdict_of(|p| p.nc = "52"), Valid);
    assert_eq!(verdict_of(|p| p.extra = ", algorithm=MD5"), Valid);
    assert_eq!(verdict_of(|p| p.extra = ", algorithm=x"), Valid);
    for dropped in ["username", "realm", "nonce", "uri", "response", "qop", "nc", "cnonce"] {
        assert_eq!(verdict_of(|p| p.dropped = dropped), Invalid, "{dropped}");
    }
    assert_eq!(verdict_of(|p| p.dropped = "opaque"), Valid);
}

#[test]
fn target_of_the_proof_is_compared_decoded() {
    for (uri, expected) in [
        ("/y?a=b", Invalid),
        ("/x", Invalid),
        ("/x?a=c", Invalid),
        ("/x?a=b&c=d", Invalid),
        ("http://a/x?a=b", Invalid),
        ("/%78?a=b", Valid),
        ("/x?%61=b", Valid),
    ] {
        assert_eq!(verdict_of(|p| p.uri = uri), expected, "{uri}");
    }
}

#[test]
fn forged_nonces_are_invalid() {
    let nonces = nonces();
    let nonce = nonces.issue(100);
    let other = |digit: &str| if digit == "0" { "1" } else { "0" };
    let last = nonce.len() - 1;
    let forged = [
        [other(&nonce[..1]), &nonce[1..]].concat(),
        [&nonce[..last], other(&nonce[last..])].concat(),
        nonce[..last - 1].to_owned(),
        DigestNonces::new(b"another secret", 4).issue(100),
    ];
    for nonce in forged {
        assert_eq!(
            verdict(&nonces, 100, &SampleProof::new(&nonce).text()),
            InvalidNonce,
            "{nonce}"
        );
    }
    assert_eq!(verdict(&nonces, 100, &SampleProof::new("").text()), Invalid);
    assert_eq!(verdict(&nonces, 100, &SampleProof::new(&nonce).text()), Valid);
}

#[test]
fn nonces_are_stale_after_the_timeout() {
    for (now_s, expected) in [(100, Valid), (400, Valid), (401, InvalidNonce), (99, InvalidNonce)] {
        let nonces = nonces();
        let proof = SampleProof::new(&nonces.issue(100));
        assert_eq!(verdict(&nonces, now_s, &proof.text()), expected, "{now_s}");
    }
}

#[test]
fn counts_are_used_once_within_a_window() {
    let nonces = nonces();
    let nonce = nonces.issue(100);
    for (nc, expected) in [
        ("00000001", Valid),
        ("00000001", Invalid),
        ("00000002", Valid),
        ("00000005", Valid),
        ("00000004", Valid),
        ("00000004", Invalid),
        ("00000050", Valid),
        ("0000000f", Invalid),
        ("00000011", Valid),
        ("00000011", Invalid),
        // The original accepts this one.
        ("00000000", Invalid),
    ] {
        let proof = SampleProof { nc, ..SampleProof::new(&nonce) };
        assert_eq!(verdict(&nonces, 100, &proof.text()), expected, "{nc}");
    }
}

#[test]
fn wrong_proof_uses_no_count() {
    let nonces = nonces();
    let nonce = nonces.issue(100);
    let wrong = SampleProof { password: "q", ..SampleProof::new(&nonce) };
    assert_eq!(verdict(&nonces, 100, &wrong.text()), Invalid);
    assert_eq!(verdict(&nonces, 100, &SampleProof::new(&nonce).text()), Valid);
}

#[test]
fn table_of_nonces_forgets_the_oldest() {
    let nonces = nonces();
    let issued: Vec<String> = (0..5).map(|_| nonces.issue(100)).collect();
    for nonce in &issued {
        assert_eq!(verdict(&nonces, 100, &SampleProof::new(nonce).text()), Valid);
    }
    let second = |nonce: &str| SampleProof { nc: "00000002", ..SampleProof::new(nonce) }.text();
    assert_eq!(verdict(&nonces, 100, &second(&issued[0])), InvalidNonce);
    assert_eq!(verdict(&nonces, 100, &second(&issued[1])), Valid);
}

#[test]
fn precalculated_hash_replaces_the_password() {
    let nonces = nonces();
    let hash = Md5::digest(b"u:r:p");
    let results = [&hash[..], &hash[..15], &[0; 16]].map(|hash| {
        let text = SampleProof::new(&nonces.issue(100)).text();
        let authorization = text.as_bytes();
        let request = ProvenRequest { authorization, method: b"GET", target: TARGET };
        let secret = DigestSecret::Hashed(hash);
        DigestCheck { secret, ..check(DigestFunction::Md5) }.verify(&nonces, 100, request)
    });
    assert_eq!(results, [Valid, Invalid, Invalid]);
}

#[test]
fn algorithms_do_not_mix() {
    let nonces = nonces();
    for (proof, expected) in [(DigestFunction::Sha256, Valid), (DigestFunction::Md5, Invalid)] {
        let text = SampleProof { hash: proof, ..SampleProof::new(&nonces.issue(100)) }.text();
        let authorization = text.as_bytes();
        let request = ProvenRequest { authorization, method: b"GET", target: TARGET };
        assert_eq!(check(DigestFunction::Sha256).verify(&nonces, 100, request), expected);
    }
}

#[test]
fn user_is_the_one_of_the_proof() {
    assert_eq!(digest_user(b"Digest username=\"u\", realm=\"r\""), Some(b"u".to_vec()));
    // The original returns the part before the escaped quote.
    assert_eq!(digest_user(b"Digest username=\"a\\\"b\""), Some(b"a\"b".to_vec()));
    assert_eq!(digest_user(b"Digest realm=\"r\""), None);
    assert_eq!(digest_user(b"Basic dTpw"), None);
}

#[test]
fn challenges_are_those_of_the_original() {
    let challenge = digest_challenge(b"r", Some(b"o"), "n", DigestFunction::Md5, false);
    assert_eq!(
        challenge,
        b"Digest realm=\"r\",qop=\"auth\",nonce=\"n\",opaque=\"o\",algorithm=md5"
    );
    let challenge = digest_challenge(b"r", Some(b"o"), "n", DigestFunction::Sha256, true);
    let expected = b"Digest realm=\"r\",qop=\"auth\",nonce=\"n\",opaque=\"o\",algorithm=sha-256,\
                     stale=\"true\"";
    assert_eq!(challenge, expected);
    // The original sends `opaque="(null)"` and no backslashes.
    let challenge = digest_challenge(b"q\"r", None, "n", DigestFunction::Md5, false);
    assert_eq!(challenge, b"Digest realm=\"q\\\"r\",qop=\"auth\",nonce=\"n\",algorithm=md5");
}

#[test]
fn secrets_are_not_printed() {
    let shown = format!("{:?} {:?}", check(DigestFunction::Md5), nonces());
    assert!(
        shown.contains("secret: Password,") && shown.ends_with("{ nonces_max: 4, .. }"),
        "{shown}"
    );
}
