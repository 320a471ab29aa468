//! What is in PEM (RFC 7468): read, and named by what is wrong with it.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use crate::error::{ConfigError, Flaw};
use crate::options::{Identity, Pem};

/// The certificates in it, at least one.
pub(crate) fn certificates(pem: &Pem) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    objects(pem, Flaw::NoCertificate)
}

/// The revocation lists in it, at least one.
pub(crate) fn revocations(
    pem: &Pem,
) -> Result<Vec<CertificateRevocationListDer<'static>>, ConfigError> {
    objects(pem, Flaw::NoRevocationList)
}

/// A certificate with those that vouch for it, and its key.
pub(crate) fn identity(
    identity: &Identity,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), ConfigError> {
    let chain = certificates(&identity.cert)?;
    let bytes = identity.key.bytes()?;
    let key = PrivateKeyDer::from_pem_slice(&bytes);
    Ok((chain, key.map_err(|error| ConfigError::new(&identity.key, Flaw::Key(error)))?))
}

fn objects<T: PemObject>(pem: &Pem, none: Flaw) -> Result<Vec<T>, ConfigError> {
    let bytes = pem.bytes()?;
    let all: Result<Vec<_>, _> = T::pem_slice_iter(&bytes).collect();
    let all = all.map_err(|error| ConfigError::new(pem, Flaw::Pem(error)))?;
    if all.is_empty() { Err(ConfigError::new(pem, none)) } else { Ok(all) }
}
