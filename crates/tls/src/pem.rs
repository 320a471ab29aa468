//! Files in PEM (RFC 7468), read once; what is wrong with one names it.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use crate::error::{ConfigError, Flaw};
use crate::options::Identity;

/// The authorities in a file.
pub(crate) fn roots(path: &Path, roots: &mut RootCertStore) -> Result<(), ConfigError> {
    for certificate in certificates(path)? {
        let unfit = |error| ConfigError::new(path, Flaw::Unfit(error));
        roots.add(certificate).map_err(unfit)?;
    }
    Ok(())
}

/// The certificates in a file, at least one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    objects(path, Flaw::NoCertificate)
}

/// The revocation lists in a file, at least one.
pub(crate) fn revocations(
    path: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, ConfigError> {
    objects(path, Flaw::NoRevocationList)
}

/// A certificate with those that vouch for it, and its key.
pub(crate) fn identity(
    identity: &Identity,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), ConfigError> {
    let chain = certificates(&identity.cert)?;
    let bytes = read(&identity.key)?;
    let key = PrivateKeyDer::from_pem_slice(&bytes);
    Ok((chain, key.map_err(|error| ConfigError::new(&identity.key, Flaw::Key(error)))?))
}

fn objects<T: PemObject>(path: &Path, none: Flaw) -> Result<Vec<T>, ConfigError> {
    let bytes = read(path)?;
    let all: Result<Vec<_>, _> = T::pem_slice_iter(&bytes).collect();
    let all = all.map_err(|error| ConfigError::new(path, Flaw::Pem(error)))?;
    if all.is_empty() { Err(ConfigError::new(path, none)) } else { Ok(all) }
}

fn read(path: &Path) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(path).map_err(|error| ConfigError::new(path, Flaw::Io(error)))
}
