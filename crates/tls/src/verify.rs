//! Who is at the other end: what webpki says, or nothing, and then the pins.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};

use crate::error::PinMismatch;
use crate::pin::Pin;

/// Asks `chain`, if anybody, then compares the key with the pins. Whoever signs the handshake
/// holds the key of the certificate in any case.
#[derive(Debug)]
pub(crate) struct Verifier {
    pub(crate) chain: Option<Arc<dyn ServerCertVerifier>>,
    /// Whose name is in the certificate does not matter.
    pub(crate) any_name: bool,
    pub(crate) pins: Vec<Pin>,
    pub(crate) provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(chain) = &self.chain {
            let verified = chain.verify_server_cert(
                certificate,
                intermediates,
                server_name,
                ocsp_response,
                now,
            );
            match verified {
                // The name is looked at last: everything else is as it should be.
                Err(Error::InvalidCertificate(
                    CertificateError::NotValidForName
                    | CertificateError::NotValidForNameContext { .. },
                )) if self.any_name => {}
                verified => {
                    verified?;
                }
            }
        }
        if !self.pins.is_empty() {
            let key = ParsedCertificate::try_from(certificate)?.subject_public_key_info();
            if !self.pins.contains(&Pin::of(&key)) {
                let mismatch = OtherError(Arc::new(PinMismatch));
                return Err(CertificateError::Other(mismatch).into());
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
