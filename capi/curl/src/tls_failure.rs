//! Why TLS failed, in the words that libcurl has with OpenSSL.

use fulmar_tls::TlsError;

use crate::code::CurlCode;

/// Code and text of a failure of TLS, and the result of the verification of the certificate
/// (`CURLINFO_SSL_VERIFYRESULT`: `X509_V_ERR_*`).
pub(crate) fn tls_failure(error: &TlsError, host: &str) -> (CurlCode, String, i64) {
    match error {
        // Mostly an authority of the same name with another key, which OpenSSL takes for no issuer.
        TlsError::UnknownIssuer | TlsError::BadSignature => {
            of_chain("unable to get local issuer certificate", 20)
        }
        TlsError::Expired => of_chain("certificate has expired", 10),
        TlsError::NotYetValid => of_chain("certificate is not yet valid", 9),
        TlsError::Revoked => of_chain("certificate revoked", 23),
        TlsError::WrongPurpose => of_chain("unsuitable certificate purpose", 26),
        TlsError::WrongHost { .. } => {
            let text = "SSL: no alternative certificate subject name matches target host name";
            (CurlCode::PeerFailedVerification, format!("{text} '{host}'"), UNSPECIFIED)
        }
        TlsError::AuthorityAsServer
        | TlsError::CertificateVersion
        | TlsError::NameConstraint
        | TlsError::BadCertificate(_) => {
            (CurlCode::PeerFailedVerification, error.to_string(), UNSPECIFIED)
        }
        TlsError::WrongIssuer { expected } => {
            let text = format!("SSL: Certificate issuer check failed ({expected})");
            (CurlCode::SslIssuerError, text, 0)
        }
        TlsError::PinMismatch => {
            let text = "SSL: public key does not match pinned public key";
            (CurlCode::SslPinnedPubKeyNotMatch, text.to_owned(), 0)
        }
        _ => (CurlCode::SslConnectError, error.to_string(), UNSPECIFIED),
    }
}

/// The chain of certificates is not accepted.
fn of_chain(reason: &str, result: i64) -> (CurlCode, String, i64) {
    (CurlCode::PeerFailedVerification, format!("SSL certificate problem: {reason}"), result)
}

/// `X509_V_ERR_UNSPECIFIED`.
pub(crate) const UNSPECIFIED: i64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_results_are_those_of_libcurl() {
        for (error, code, text, result) in [
            (
                TlsError::UnknownIssuer,
                CurlCode::PeerFailedVerification,
                "SSL certificate problem: unable to get local issuer certificate",
                20,
            ),
            (
                TlsError::Expired,
                CurlCode::PeerFailedVerification,
                "SSL certificate problem: certificate has expired",
                10,
            ),
            (
                TlsError::PinMismatch,
                CurlCode::SslPinnedPubKeyNotMatch,
                "SSL: public key does not match pinned public key",
                0,
            ),
        ] {
            assert_eq!(tls_failure(&error, "h"), (code, text.to_owned(), result));
        }
        let (code, _, _) = tls_failure(&TlsError::Truncated, "h");
        assert_eq!(code, CurlCode::SslConnectError);
    }
}
