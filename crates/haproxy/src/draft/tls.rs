//! TLS settings of a line.

use crate::model::TlsVersion;

/// TLS settings of both sides of the proxy. `None`: unset.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsWords {
    /// `ciphers`, with rustls' names.
    pub(crate) suites12: Option<Vec<String>>,
    /// `ciphersuites`, with rustls' names.
    pub(crate) suites13: Option<Vec<String>>,
    /// `ssl-min-ver` and so on.
    pub(crate) version_min: Option<TlsVersion>,
    /// `ssl-max-ver` and so on.
    pub(crate) version_max: Option<TlsVersion>,
    /// `alpn`.
    pub(crate) alpn: Vec<String>,
    /// `no-tls-tickets`.
    pub(crate) no_tickets: bool,
}

impl TlsWords {
    /// Unset settings are taken from `others`.
    pub(crate) fn or(self, others: &Self) -> Self {
        Self {
            suites12: self.suites12.or_else(|| others.suites12.clone()),
            suites13: self.suites13.or_else(|| others.suites13.clone()),
            version_min: self.version_min.or(others.version_min),
            version_max: self.version_max.or(others.version_max),
            ..self
        }
    }

    /// Cipher suites of both versions; for a version without settings, those of rustls.
    pub(crate) fn suites(&self) -> Vec<String> {
        if self.suites12.is_none() && self.suites13.is_none() {
            return Vec::new();
        }
        let said = |said: &Option<Vec<String>>, own: &[&str]| match said {
            Some(suites) => suites.clone(),
            None => own.iter().map(|name| (*name).to_owned()).collect(),
        };
        let mut suites = said(&self.suites13, OWN13);
        suites.extend(said(&self.suites12, OWN12));
        suites
    }
}

/// rustls' own suites, for a version without settings.
const OWN13: &[&str] =
    &["TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"];

const OWN12: &[&str] = &[
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];
