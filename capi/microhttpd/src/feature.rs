//! `MHD_is_feature_supported`.

/// True if the feature with this number (`enum MHD_FEATURE`) is supported; false for unknown
/// numbers. `has_tls` is true in a build with TLS.
#[must_use]
pub fn is_feature_supported(number: u32, has_tls: bool) -> bool {
    match number {
        TLS | HTTPS_CERT_CALLBACK | HTTPS_KEY_PASSWORD | HTTPS_CERT_CALLBACK2 => has_tls,
        // A waker is an eventfd.
        SOCKETPAIR => false,
        _ => (MESSAGES..=HTTPS_CERT_CALLBACK2).contains(&number),
    }
}

const MESSAGES: u32 = 1;
const TLS: u32 = 2;
const HTTPS_CERT_CALLBACK: u32 = 3;
const SOCKETPAIR: u32 = 9;
const HTTPS_KEY_PASSWORD: u32 = 14;
const HTTPS_CERT_CALLBACK2: u32 = 23;

#[cfg(test)]
mod tests {
    use super::is_feature_supported;

    #[test]
    fn build_with_tls_has_the_features_of_debians_build() {
        let missing: Vec<u32> = (0..30).filter(|n| !is_feature_supported(*n, true)).collect();
        assert_eq!(missing, [0, 9, 24, 25, 26, 27, 28, 29]);
        assert!(!is_feature_supported(u32::MAX, true));
    }

    #[test]
    fn build_without_tls_reports_that() {
        let differing = |n: &u32| is_feature_supported(*n, true) != is_feature_supported(*n, false);
        assert_eq!((0..30).filter(differing).collect::<Vec<u32>>(), [2, 3, 14, 23]);
    }
}
