//! `CURLOPT_SSL_CIPHER_LIST`, `CURLOPT_TLS13_CIPHERS` and `CURLOPT_SSL_EC_CURVES`: OpenSSL's lists
//! (openssl-ciphers(1)), reduced to what rustls has.

use crate::code::CurlCode;
use crate::failure::Failure;

/// The suites of a list for TLS 1.2, by their IANA names in the list's order; all without a list.
/// Words that are unknown have no effect, as with OpenSSL.
///
/// # Errors
/// None is left.
pub(crate) fn tls12_suites(list: Option<&str>) -> Result<Vec<&'static str>, Failure> {
    let list = list.unwrap_or("DEFAULT");
    let mut active: Vec<&TlsSuite> = Vec::new();
    let mut forbidden: Vec<&TlsSuite> = Vec::new();
    for rule in list.split([':', ',', ' ', ';']).filter(|rule| !rule.is_empty()) {
        if rule == "@STRENGTH" {
            active.sort_by_key(|suite| !suite.is_256);
            continue;
        }
        let (action, words) = match rule.split_at_checked(1) {
            Some(("!" | "-" | "+", words)) => (&rule[..1], words),
            _ => ("", rule),
        };
        let matching = |suite: &&TlsSuite| words.split('+').all(|word| suite.has(word));
        let matched: Vec<&TlsSuite> = SUITES.iter().filter(matching).collect();
        let is_matched = |suite: &&TlsSuite| matched.contains(suite);
        match action {
            "+" => active.sort_by_key(is_matched),
            "-" => active.retain(|suite| !is_matched(suite)),
            "!" => {
                active.retain(|suite| !is_matched(suite));
                forbidden.extend(&matched);
            }
            _ => {
                let is_new =
                    |suite: &&&TlsSuite| !active.contains(*suite) && !forbidden.contains(*suite);
                let added: Vec<_> = matched.iter().filter(is_new).copied().collect();
                active.extend(added);
            }
        }
    }
    match active.is_empty() {
        true => Err(refused(format!("failed setting cipher list: {list}"))),
        false => Ok(active.iter().map(|suite| suite.iana).collect()),
    }
}

/// The suites of a list for TLS 1.3; all without a list. An empty list has none.
///
/// # Errors
/// None is left.
pub(crate) fn tls13_suites(list: Option<&str>) -> Result<Vec<&'static str>, Failure> {
    let Some(list) = list else { return Ok(TLS13.to_vec()) };
    let find = |name: &str| TLS13.into_iter().find(|known| *known == name);
    let found: Vec<_> = list.split(':').filter_map(find).collect();
    match found.is_empty() && !list.is_empty() {
        true => Err(refused(format!("failed setting TLS 1.3 cipher suite: {list}"))),
        false => Ok(found),
    }
}

/// The groups of a list for key exchange, by their names in TLS.
///
/// # Errors
/// A name is unknown, or none is left.
pub(crate) fn key_exchange_groups(list: &str) -> Result<Vec<&'static str>, Failure> {
    let failed = || refused(format!("failed setting curves list: '{list}'"));
    let mut found = Vec::new();
    for name in list.split(':') {
        let known = GROUPS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let (_, group) = known.ok_or_else(failed)?;
        found.extend(*group);
    }
    if found.is_empty() { Err(failed()) } else { Ok(found) }
}

fn refused(text: String) -> Failure {
    Failure::new(CurlCode::SslCipher, text)
}

/// A suite of TLS 1.2.
#[derive(Debug, PartialEq, Eq)]
struct TlsSuite {
    openssl: &'static str,
    iana: &'static str,
    is_ecdsa: bool,
    /// AES, or ChaCha20.
    is_aes: bool,
    is_256: bool,
}

impl TlsSuite {
    /// True if the suite is one of those that a word selects.
    fn has(&self, word: &str) -> bool {
        match word {
            "ALL" | "DEFAULT" | "HIGH" | "TLSv1.2" | "ECDHE" | "EECDH" | "ECDH" | "kECDHE"
            | "kEECDH" => true,
            "aRSA" => !self.is_ecdsa,
            "aECDSA" | "ECDSA" => self.is_ecdsa,
            "AES" | "AESGCM" => self.is_aes,
            "AES128" => self.is_aes && !self.is_256,
            "AES256" => self.is_aes && self.is_256,
            "CHACHA20" => !self.is_aes,
            name => name == self.openssl || name == self.iana,
        }
    }
}

/// OpenSSL's name of a suite.
pub(crate) fn openssl_name(iana: &str) -> &str {
    SUITES.iter().find(|suite| suite.iana == iana).map_or(iana, |suite| suite.openssl)
}

const fn suite(openssl: &'static str, iana: &'static str, kind: [bool; 3]) -> TlsSuite {
    let [is_ecdsa, is_aes, is_256] = kind;
    TlsSuite { openssl, iana, is_ecdsa, is_aes, is_256 }
}

/// In OpenSSL's order.
static SUITES: [TlsSuite; 6] = [
    suite(
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        [true, true, true],
    ),
    suite(
        "ECDHE-RSA-AES256-GCM-SHA384",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        [false, true, true],
    ),
    suite(
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        [true, false, true],
    ),
    suite(
        "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        [false, false, true],
    ),
    suite(
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        [true, true, false],
    ),
    suite(
        "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        [false, true, false],
    ),
];

/// The suites of TLS 1.3, in OpenSSL's order.
const TLS13: [&str; 3] =
    ["TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"];

/// OpenSSL's names, and those of TLS; the others are known there, and not available here.
const GROUPS: [(&str, Option<&str>); 11] = [
    ("X25519", Some("x25519")),
    ("P-256", Some("secp256r1")),
    ("prime256v1", Some("secp256r1")),
    ("secp256r1", Some("secp256r1")),
    ("P-384", Some("secp384r1")),
    ("secp384r1", Some("secp384r1")),
    ("P-521", None),
    ("secp521r1", None),
    ("X448", None),
    ("ffdhe2048", None),
    ("ffdhe3072", None),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The suites of a list by OpenSSL's names without what they have in common.
    fn names(list: &str) -> String {
        let Ok(found) = tls12_suites(Some(list)) else { return "none".to_owned() };
        let name = |iana: &&str| {
            let suite = SUITES.iter().find(|suite| suite.iana == *iana).expect("a suite");
            suite.openssl.replace("ECDHE-", "").replace("-GCM", "").replace("-POLY1305", "")
        };
        found.iter().map(name).collect::<Vec<_>>().join(" ")
    }

    /// As `openssl ciphers -s -tls1_2` of OpenSSL 3.0 lists them, without those that rustls lacks.
    #[test]
    fn lists_select_what_they_select_in_openssl() {
        for (list, expected) in [
            (
                "DEFAULT",
                "ECDSA-AES256-SHA384 RSA-AES256-SHA384 ECDSA-CHACHA20 RSA-CHACHA20 \
                 ECDSA-AES128-SHA256 RSA-AES128-SHA256",
            ),
            (
                "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384",
                "RSA-AES128-SHA256 RSA-AES256-SHA384",
            ),
            ("ECDHE+aECDSA+AES128", "ECDSA-AES128-SHA256"),
            ("HIGH:!ECDSA:!CHACHA20", "RSA-AES256-SHA384 RSA-AES128-SHA256"),
            ("!aRSA:ALL:-AESGCM", "ECDSA-CHACHA20"),
            ("AES128:AES256:@STRENGTH:!ECDSA", "RSA-AES256-SHA384 RSA-AES128-SHA256"),
            ("aRSA:+AES256", "RSA-CHACHA20 RSA-AES128-SHA256 RSA-AES256-SHA384"),
            ("FOO:ECDHE-ECDSA-CHACHA20-POLY1305,FOO+ALL", "ECDSA-CHACHA20"),
            ("RC4-SHA:AES256-SHA", "none"),
            ("!ALL:ALL", "none"),
        ] {
            assert_eq!(names(list), expected, "{list}");
        }
        let failure = tls12_suites(Some("nothing")).expect_err("unknown");
        assert_eq!(failure.code, CurlCode::SslCipher);
        assert_eq!(failure.text, "failed setting cipher list: nothing");
    }

    #[test]
    fn names_of_tls13_and_of_groups_are_those_of_openssl() {
        let list = "TLS_CHACHA20_POLY1305_SHA256:TLS_FOO:TLS_AES_128_GCM_SHA256";
        let expected = ["TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"];
        assert_eq!(tls13_suites(Some(list)), Ok(expected.to_vec()));
        assert_eq!(tls13_suites(Some("")), Ok(Vec::new()));
        assert!(tls13_suites(Some("TLS_FOO")).is_err());
        let groups = key_exchange_groups("P-521:X25519:prime256v1");
        assert_eq!(groups, Ok(vec!["x25519", "secp256r1"]));
        assert!(key_exchange_groups("P-521").is_err());
        let failure = key_exchange_groups("X25519:foo").expect_err("unknown");
        assert_eq!(failure.text, "failed setting curves list: 'X25519:foo'");
    }
}
