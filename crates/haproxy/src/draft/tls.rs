//! What a line has about TLS.

use crate::model::TlsVersion;

/// What is said alike on both sides of the proxy. `None`: it is not said.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsWords {
    /// `ciphers`, as rustls calls them.
    pub(crate) suites12: Option<Vec<String>>,
    /// `ciphersuites`, as rustls calls them.
    pub(crate) suites13: Option<Vec<String>>,
    /// `ssl-min-ver` and its relatives.
    pub(crate) version_min: Option<TlsVersion>,
    /// `ssl-max-ver` and its relatives.
    pub(crate) version_max: Option<TlsVersion>,
    /// `alpn`.
    pub(crate) alpn: Vec<String>,
    /// `no-tls-tickets`.
    pub(crate) no_tickets: bool,
}

impl TlsWords {
    /// What was not said here is as `others` say it.
    pub(crate) fn or(self, others: &Self) -> Self {
        Self {
            suites12: self.suites12.or_else(|| others.suites12.clone()),
            suites13: self.suites13.or_else(|| others.suites13.clone()),
            version_min: self.version_min.or(others.version_min),
            version_max: self.version_max.or(others.version_max),
            ..self
        }
    }

    /// Suites of both versions; if only those of one are said, rustls' own for the other.
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

/// What rustls has itself, for the version of which nothing is said.
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
