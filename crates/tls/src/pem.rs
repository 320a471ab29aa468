//! PEM files (RFC 7468): parses them, and reports errors with the file.

use std::path::PathBuf;

use bytes::Bytes;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use crate::error::{ConfigError, ConfigErrorKind};
use crate::identity::{Identity, Pem};

impl Pem {
    /// Reads a file now, so that later changes or missing permissions do not matter.
    ///
    /// # Errors
    /// The file cannot be read; the error contains its path.
    pub fn read(path: impl Into<PathBuf>) -> Result<Self, ConfigError> {
        let path = path.into();
        let bytes = Self::File(path.clone()).bytes()?;
        Ok(Self::Read(path, bytes))
    }

    /// The PEM data.
    pub(crate) fn bytes(&self) -> Result<Bytes, ConfigError> {
        match self {
            Self::Bytes(bytes) | Self::Read(_, bytes) => Ok(bytes.clone()),
            Self::File(path) => match std::fs::read(path) {
                Ok(bytes) => Ok(bytes.into()),
                Err(error) => Err(ConfigError::new(self, ConfigErrorKind::Io(error))),
            },
        }
    }
}

/// The certificates in `pem`, at least one.
pub(crate) fn certificates(pem: &Pem) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    objects(pem, ConfigErrorKind::NoCertificate)
}

/// The revocation lists in `pem`, at least one.
pub(crate) fn revocations(
    pem: &Pem,
) -> Result<Vec<CertificateRevocationListDer<'static>>, ConfigError> {
    objects(pem, ConfigErrorKind::NoRevocationList)
}

/// The certificate chain and the private key of an identity.
pub(crate) fn identity(
    identity: &Identity,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), ConfigError> {
    let chain = certificates(&identity.cert)?;
    let bytes = identity.key.bytes()?;
    let key = PrivateKeyDer::from_pem_slice(&bytes);
    Ok((chain, key.map_err(|error| ConfigError::new(&identity.key, ConfigErrorKind::Key(error)))?))
}

fn objects<T: PemObject>(pem: &Pem, none: ConfigErrorKind) -> Result<Vec<T>, ConfigError> {
    let bytes = pem.bytes()?;
    let all: Result<Vec<_>, _> = T::pem_slice_iter(&bytes).collect();
    let all = all.map_err(|error| ConfigError::new(pem, ConfigErrorKind::Pem(error)))?;
    if all.is_empty() { Err(ConfigError::new(pem, none)) } else { Ok(all) }
}
