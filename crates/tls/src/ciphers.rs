//! Cipher suites by name.

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::SignatureVerificationAlgorithm;
use rustls::{CipherSuite, NamedGroup, SupportedProtocolVersion};

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

/// Restricts the provider to the groups for key exchange in `names` in their order. If `names` is
/// empty, all groups stay enabled.
pub(crate) fn select_groups(
    provider: &mut CryptoProvider,
    names: &[String],
) -> Result<(), ConfigError> {
    if names.is_empty() {
        return Ok(());
    }
    let name = |group: NamedGroup| group.as_str().unwrap_or_default();
    let find = |wanted: &String| {
        let all = aws_lc_rs::ALL_KX_GROUPS;
        let found = all.iter().find(|group| name(group.name()).eq_ignore_ascii_case(wanted));
        found.copied().ok_or_else(|| {
            let known = all.iter().map(|group| name(group.name())).collect();
            ConfigError::of_options(ConfigErrorKind::UnknownGroup { name: wanted.clone(), known })
        })
    };
    provider.kx_groups = names.iter().map(find).collect::<Result<_, _>>()?;
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_selected_by_name() {
        let mut provider = aws_lc_rs::default_provider();
        let groups = |provider: &CryptoProvider| -> Vec<_> {
            provider.kx_groups.iter().map(|group| group.name()).collect()
        };
        let all = groups(&provider);
        select_groups(&mut provider, &[]).expect("all");
        assert_eq!(groups(&provider), all);
        let names = ["secp384r1".to_owned(), "x25519".to_owned()];
        select_groups(&mut provider, &names).expect("both are known");
        assert_eq!(groups(&provider), [NamedGroup::secp384r1, NamedGroup::X25519]);
        let error = select_groups(&mut provider, &["x448".to_owned()]).expect_err("unknown");
        let text = error.to_string();
        assert!(text.starts_with("TLS: unknown key exchange group x448; known: "), "{text}");
    }
}
