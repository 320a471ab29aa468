//! Maps OpenSSL cipher lists (openssl-ciphers(1)) to cipher suites of rustls.

/// The suites of a list with rustls' names, and the ones that rustls does not support.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SupportedSuites {
    /// In the order of the list.
    pub(crate) suites: Vec<String>,
    /// With the names of the list.
    pub(crate) missing: Vec<String>,
}

/// `ciphers`: names and groups of suites for TLS 1.2 (`ECDHE+AESGCM`, `HIGH`, `!aNULL`).
pub(crate) fn tls12(list: &str) -> SupportedSuites {
    let mut chosen = SupportedSuites::default();
    let mut banned: Vec<&str> = Vec::new();
    for element in list.split([':', ',', ' ']).filter(|element| !element.is_empty()) {
        if element.starts_with('@') {
            continue;
        }
        if let Some(group) = element.strip_prefix(['!', '-']) {
            let leaves = |suite: &Suite| suite.is_in(group);
            let leaving = TLS12.iter().filter(|suite| leaves(suite)).map(|suite| suite.rustls);
            let leaving: Vec<&str> = leaving.collect();
            chosen.suites.retain(|suite| !leaving.contains(&suite.as_str()));
            if element.starts_with('!') {
                banned.extend(leaving);
            }
            continue;
        }
        let group = element.strip_prefix('+').unwrap_or(element);
        let members: Vec<&Suite> = TLS12.iter().filter(|suite| suite.is_in(group)).collect();
        if members.is_empty() {
            chosen.missing.push(element.to_owned());
        }
        for suite in members {
            let is_there = chosen.suites.iter().any(|there| there == suite.rustls);
            if !is_there && !banned.contains(&suite.rustls) {
                chosen.suites.push(suite.rustls.to_owned());
            }
        }
    }
    chosen
}

/// `ciphersuites`: names of suites for TLS 1.3.
pub(crate) fn tls13(list: &str) -> SupportedSuites {
    let mut chosen = SupportedSuites::default();
    for name in list.split(':').filter(|name| !name.is_empty()) {
        match TLS13.iter().find(|(openssl, _)| *openssl == name) {
            Some((_, rustls)) => chosen.suites.push((*rustls).to_owned()),
            None => chosen.missing.push(name.to_owned()),
        }
    }
    chosen
}

struct Suite {
    openssl: &'static str,
    rustls: &'static str,
    /// Its groups.
    groups: &'static [&'static str],
}

impl Suite {
    /// `ECDHE+AESGCM` is the intersection of both groups.
    fn is_in(&self, group: &str) -> bool {
        group == self.openssl
            || group.split('+').all(|part| self.groups.contains(&part) || COMMON.contains(&part))
    }
}

/// Groups of all TLS 1.2 suites of rustls.
const COMMON: &[&str] =
    &["ALL", "HIGH", "DEFAULT", "TLSv1.2", "ECDH", "ECDHE", "EECDH", "kECDHE", "kEECDH", "AEAD"];

const TLS12: &[Suite] = &[
    Suite {
        openssl: "ECDHE-ECDSA-AES256-GCM-SHA384",
        rustls: "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        groups: &["ECDSA", "aECDSA", "AES", "AESGCM", "AES256", "SHA384"],
    },
    Suite {
        openssl: "ECDHE-RSA-AES256-GCM-SHA384",
        rustls: "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        groups: &["RSA", "aRSA", "AES", "AESGCM", "AES256", "SHA384"],
    },
    Suite {
        openssl: "ECDHE-ECDSA-CHACHA20-POLY1305",
        rustls: "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        groups: &["ECDSA", "aECDSA", "CHACHA20"],
    },
    Suite {
        openssl: "ECDHE-RSA-CHACHA20-POLY1305",
        rustls: "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        groups: &["RSA", "aRSA", "CHACHA20"],
    },
    Suite {
        openssl: "ECDHE-ECDSA-AES128-GCM-SHA256",
        rustls: "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        groups: &["ECDSA", "aECDSA", "AES", "AESGCM", "AES128", "SHA256"],
    },
    Suite {
        openssl: "ECDHE-RSA-AES128-GCM-SHA256",
        rustls: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        groups: &["RSA", "aRSA", "AES", "AESGCM", "AES128", "SHA256"],
    },
];

const TLS13: &[(&str, &str)] = &[
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
    ("TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
    ("TLS_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_what_rustls_has_in_their_order() {
        let chosen = tls12("ECDHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES128-GCM-SHA256:!aNULL");
        assert_eq!(chosen.suites, ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]);
        assert_eq!(chosen.missing, ["DHE-RSA-AES128-GCM-SHA256"]);
        assert_eq!(tls12("HIGH:!aNULL:!MD5").suites.len(), 6);
        assert_eq!(tls12("ECDHE+AESGCM:!aRSA").suites.len(), 2);
        assert_eq!(tls12("ECDH+AESGCM:ECDH+CHACHA20:ECDH+AES256:RSA+3DES").suites.len(), 6);
        assert_eq!(tls12("!CHACHA20:ALL").suites.len(), 4);
        assert_eq!(tls12("ALL:-CHACHA20:CHACHA20:@STRENGTH").suites.len(), 6);
        assert_eq!(tls12("RC4").missing, ["RC4"]);
        let chosen = tls13("TLS_AES_128_GCM_SHA256:TLS_AES_128_CCM_SHA256");
        assert_eq!(chosen.suites, ["TLS_AES_128_GCM_SHA256"]);
        assert_eq!(chosen.missing, ["TLS_AES_128_CCM_SHA256"]);
    }
}
