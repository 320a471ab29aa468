//! Cipher suites by name.

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::SignatureVerificationAlgorithm;
use rustls::{CipherSuite, SupportedProtocolVersion};

use crate::error::{ConfigError, ConfigErrorKind};

/// The signature algorithms that are supported in certificates.
pub(crate) type Algorithms = &'static [&'static dyn SignatureVerificationAlgorithm];

/// The default provider, restricted to the cipher suites in `names` in their order. If `names` is
/// empty, all suites are enabled.
pub(crate) fn provider(
    names: &[String],
    versions: &[&SupportedProtocolVersion],
) -> Result<CryptoProvider, ConfigError> {
    let mut provider = aws_lc_rs::default_provider();
    if names.is_empty() {
        return Ok(provider);
    }
    let all = &provider.cipher_suites;
    let find = |wanted: &String| {
        let found = all.iter().find(|suite| name(suite.suite()) == Some(wanted));
        found.copied().ok_or_else(|| {
            let known = all.iter().filter_map(|suite| name(suite.suite())).collect();
            ConfigError::of_options(ConfigErrorKind::UnknownCipher { name: wanted.clone(), known })
        })
    };
    let suites: Vec<_> = names.iter().map(find).collect::<Result<_, _>>()?;
    if !suites.iter().any(|suite| versions.contains(&suite.version())) {
        return Err(ConfigError::of_options(ConfigErrorKind::NoCipherForVersions));
    }
    provider.cipher_suites = suites;
    Ok(provider)
}

/// The name in the IANA registry. rustls adds the version to the names of TLS 1.3 suites; IANA does
/// not.
pub(crate) fn name(suite: CipherSuite) -> Option<&'static str> {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => Some("TLS_AES_128_GCM_SHA256"),
        CipherSuite::TLS13_AES_256_GCM_SHA384 => Some("TLS_AES_256_GCM_SHA384"),
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Some("TLS_CHACHA20_POLY1305_SHA256"),
        suite => suite.as_str(),
    }
}
