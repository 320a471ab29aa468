//! Certificate verification: the chain is verified by webpki (unless disabled), then
//! the issuer and the pins.
//!
//! A certificate that is itself a trust anchor needs no chain: see [`Trusted`].

use std::sync::Arc;

use rustls::DistinguishedName;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};
use webpki::KeyUsage;

use crate::error::PinMismatch;
use crate::issuer::RequiredIssuer;
use crate::options::Verify;
use crate::pin::Pin;
use crate::roots::Trusted;

/// Verifies server certificates for a client: the chain with `chain`, if there is one, then the key
/// with the pins. The handshake signature is always verified.
#[derive(Debug)]
pub(crate) struct Verifier {
    pub(crate) chain: Option<Arc<dyn ServerCertVerifier>>,
    /// No certificate is trusted, so that every chain is rejected.
    pub(crate) trusts_none: bool,
    pub(crate) trusted: Trusted,
    pub(crate) verify: Verify,
    pub(crate) pins: Vec<Pin>,
    pub(crate) issuer: Option<RequiredIssuer>,
    pub(crate) provider: Arc<CryptoProvider>,
}

impl Verifier {
    /// Called when the chain was rejected with `error`: accepts a certificate that is itself
    /// trusted.
    fn verify_trusted(
        &self,
        certificate: &CertificateDer<'_>,
        error: Error,
        server_name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Error> {
        let algorithms = self.provider.signature_verification_algorithms.all;
        let how = (KeyUsage::server_auth(), now, algorithms);
        match self.trusted.accepts(certificate, &error, how) {
            false => Err(error),
            true => verify_server_name(&ParsedCertificate::try_from(certificate)?, server_name),
        }
    }
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
        if self.trusts_none {
            return Err(CertificateError::UnknownIssuer.into());
        }
        if let Some(chain) = &self.chain {
            let verified = chain
                .verify_server_cert(certificate, intermediates, server_name, ocsp_response, now)
                .map(drop)
                .or_else(|error| self.verify_trusted(certificate, error, server_name, now));
            match verified {
                // webpki checks the name last: all other checks have passed.
                Err(Error::InvalidCertificate(
                    CertificateError::NotValidForName
                    | CertificateError::NotValidForNameContext { .. },
                )) if self.verify == Verify::Chain => {}
                verified => verified?,
            }
        }
        if self.verify == Verify::Name {
            verify_server_name(&ParsedCertificate::try_from(certificate)?, server_name)?;
        }
        if let Some(issuer) = &self.issuer {
            issuer.verify(certificate, self.provider.signature_verification_algorithms.all)?;
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

/// Verifies client certificates for a server.
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    pub(crate) chain: Arc<dyn ClientCertVerifier>,
    pub(crate) trusted: Trusted,
    pub(crate) provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.chain.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.chain.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.chain.verify_client_cert(certificate, intermediates, now).or_else(|error| {
            let algorithms = self.provider.signature_verification_algorithms.all;
            let how = (KeyUsage::client_auth(), now, algorithms);
            match self.trusted.accepts(certificate, &error, how) {
                false => Err(error),
                true => Ok(ClientCertVerified::assertion()),
            }
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}
