//! A certificate that must have issued the server's own, as for `CURLOPT_ISSUERCERT`.
//!
//! The name is compared and the signature is verified. Dates and constraints of the issuer are
//! those of the chain, which is verified apart.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::{CertificateError, Error, OtherError};
use webpki::EndEntityCert;

use crate::ciphers::Algorithms;
use crate::error::{ConfigError, ConfigErrorKind, IssuerMismatch};
use crate::identity::Pem;
use crate::pem;

/// The first certificate of a file, or of memory.
#[derive(Debug)]
pub(crate) struct RequiredIssuer {
    certificate: CertificateDer<'static>,
    /// Its file, for errors.
    name: String,
}

impl RequiredIssuer {
    /// Reads and parses it.
    pub(crate) fn read(pem: &Pem) -> Result<Self, ConfigError> {
        let certificate = pem::certificates(pem)?.swap_remove(0);
        EndEntityCert::try_from(&certificate).map_err(|_| {
            let error = CertificateError::BadEncoding.into();
            ConfigError::new(pem, ConfigErrorKind::Rustls(error))
        })?;
        Ok(Self { certificate, name: pem.to_string() })
    }

    /// Verifies that it has issued `certificate`.
    pub(crate) fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        algorithms: Algorithms,
    ) -> Result<(), Error> {
        match self.has_issued(certificate, algorithms) {
            Some(true) => Ok(()),
            _ => {
                let mismatch = OtherError(Arc::new(IssuerMismatch(self.name.clone())));
                Err(CertificateError::Other(mismatch).into())
            }
        }
    }

    /// `None` if the certificate is malformed.
    fn has_issued(&self, certificate: &CertificateDer<'_>, algorithms: Algorithms) -> Option<bool> {
        let issuer = EndEntityCert::try_from(&self.certificate).ok()?;
        if EndEntityCert::try_from(certificate).ok()?.issuer() != issuer.subject() {
            return Some(false);
        }
        let signed = SignedParts::of(certificate)?;
        Some(algorithms.iter().any(|algorithm| {
            algorithm.signature_alg_id().as_ref() == signed.algorithm
                && issuer.verify_signature(*algorithm, signed.message, signed.signature).is_ok()
        }))
    }
}

/// The parts of a certificate (RFC 5280 §4.1).
#[derive(Debug, PartialEq, Eq)]
struct SignedParts<'a> {
    /// `tbsCertificate`.
    message: &'a [u8],
    /// The value of `signatureAlgorithm`.
    algorithm: &'a [u8],
    signature: &'a [u8],
}

impl<'a> SignedParts<'a> {
    fn of(certificate: &'a [u8]) -> Option<Self> {
        let outer = Element::read(certificate, SEQUENCE)?;
        let message = Element::read(outer.value, SEQUENCE)?;
        let algorithm = Element::read(message.rest, SEQUENCE)?;
        // A string of bits without unused ones.
        let signature = Element::read(algorithm.rest, BIT_STRING)?.value.strip_prefix(&[0])?;
        Some(Self { message: message.whole, algorithm: algorithm.value, signature })
    }
}

/// An element of DER (X.690 §8.1), and the bytes behind it.
#[derive(Debug)]
struct Element<'a> {
    whole: &'a [u8],
    value: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Element<'a> {
    fn read(bytes: &'a [u8], tag: u8) -> Option<Self> {
        let (found, first) = (*bytes.first()?, *bytes.get(1)?);
        let digits = if first < LONG_FORM { 0 } else { usize::from(first & !LONG_FORM) };
        let head_len = 2 + digits;
        if found != tag || digits > LENGTH_DIGITS_MAX {
            return None;
        }
        let digits = bytes.get(2..head_len)?;
        let long = digits.iter().fold(0, |len, digit| len << 8 | usize::from(*digit));
        let len = if first < LONG_FORM { usize::from(first) } else { long };
        let (whole, rest) = bytes.split_at_checked(head_len + len)?;
        Some(Self { whole, value: &whole[head_len..], rest })
    }
}

const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 3;
/// The length has more bytes, as many as the other bits of the first one are.
const LONG_FORM: u8 = 0x80;
/// Certificates are smaller than 16 MB.
const LENGTH_DIGITS_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, IsCa, Issuer, KeyPair};

    use super::*;

    fn authority(name: &str) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params
    }

    #[test]
    fn the_issuer_has_the_name_and_the_key() {
        let keys = [0; 3].map(|_| KeyPair::generate().expect("a key"));
        let algorithms =
            rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms.all;
        let made = CertificateParams::new(["a.example".to_owned()]).expect("a name");
        let made = made.signed_by(&keys[0], &Issuer::from_params(&authority("one"), &keys[1]));
        let made = made.expect("a certificate");
        let verify = |name: &str, key: &KeyPair| {
            let issuer = authority(name).self_signed(key).expect("a certificate").pem();
            let issuer = RequiredIssuer::read(&Pem::Bytes(issuer.into())).expect("it is valid");
            issuer.verify(made.der(), algorithms)
        };
        assert_eq!(verify("one", &keys[1]), Ok(()));
        assert!(verify("other", &keys[1]).is_err(), "its name is another one");
        assert!(verify("one", &keys[2]).is_err(), "its key is another one");
        assert!(RequiredIssuer::read(&Pem::Bytes("none".into())).is_err());
    }

    #[test]
    fn malformed_certificates_have_no_parts() {
        let parts = [0x30, 11, 0x30, 1, 7, 0x30, 1, 8, 3, 3, 0, 1, 2];
        let expected = SignedParts { message: &[0x30, 1, 7], algorithm: &[8], signature: &[1, 2] };
        assert_eq!(SignedParts::of(&parts), Some(expected));
        for len in 0..parts.len() {
            assert_eq!(SignedParts::of(&parts[..len]), None);
        }
        for bad in [&[0x31, 0][..], &[0x30, 0x84, 0, 0, 0, 0], &[0x30, 0x83, 255, 255, 255]] {
            assert_eq!(SignedParts::of(bad), None);
        }
    }
}
