//! Trust anchors: the trusted certificates and their sources.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest;
use bytes::Bytes;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CertificateError, Error, RootCertStore};
use webpki::{EndEntityCert, KeyUsage};

use crate::ciphers::Algorithms;
use crate::error::{ConfigError, ConfigErrorKind};
use crate::identity::Pem;
use crate::pem;

/// The certificates that a client trusts: those of the platform, additional ones, or both.
///
/// A server's certificate is accepted if a trusted certificate issued it, directly or through
/// intermediates that the server sends. It is accepted too if it is itself a trusted certificate,
/// whatever its basicConstraints: `openssl req -x509` creates such certificates. Names and dates
/// are always checked.
///
/// ```
/// use fulmar_tls::{ClientOptions, ClientTls, Roots};
///
/// # let made = rcgen::generate_simple_self_signed(["example.com".to_owned()])?;
/// # let (pem, der) = (made.cert.pem(), made.cert.der().to_vec());
/// let own_only = Roots::empty().pem(pem.clone());
/// let both = Roots::platform().pem(pem).der(der);
/// ClientTls::new(ClientOptions { roots: own_only, ..ClientOptions::default() })?;
/// ClientTls::new(ClientOptions { roots: both, ..ClientOptions::default() })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Roots {
    platform: bool,
    own: Vec<RootSource>,
    self_signed_only: bool,
}

/// A source of one or more certificates.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum RootSource {
    Pem(Pem),
    Der(Bytes),
    Folder(PathBuf),
}

impl Roots {
    /// The certificates that the system trusts (`SSL_CERT_FILE` and `SSL_CERT_DIR` replace them).
    /// If the system has none, as in small containers, Mozilla's list from the time of the build.
    pub fn platform() -> Self {
        Self { platform: true, own: Vec::new(), self_signed_only: false }
    }

    /// No certificates yet.
    pub fn empty() -> Self {
        Self { platform: false, own: Vec::new(), self_signed_only: false }
    }

    /// Adds the certificates in a PEM file.
    #[must_use]
    pub fn file(self, path: impl Into<PathBuf>) -> Self {
        self.and(RootSource::Pem(Pem::File(path.into())))
    }

    /// Adds certificates in PEM from memory.
    #[must_use]
    pub fn pem(self, bytes: impl Into<Bytes>) -> Self {
        self.and(RootSource::Pem(Pem::Bytes(bytes.into())))
    }

    /// Adds one certificate in DER from memory.
    #[must_use]
    pub fn der(self, bytes: impl Into<Bytes>) -> Self {
        self.and(RootSource::Der(bytes.into()))
    }

    /// Adds the certificates of a folder as OpenSSL has them: each in a PEM file that is named for
    /// the hash of its subject, such as `9d66eef0.0`. Other files are ignored, as are those that
    /// cannot be read, and a folder that does not exist.
    #[must_use]
    pub fn hashed_folder(self, path: impl Into<PathBuf>) -> Self {
        self.and(RootSource::Folder(path.into()))
    }

    /// Leaves out the certificates that others have issued: a chain has to end at a self-signed
    /// one, as in OpenSSL without `X509_V_FLAG_PARTIAL_CHAIN`.
    #[must_use]
    pub fn self_signed_only(mut self) -> Self {
        self.self_signed_only = true;
        self
    }

    /// True if all certificates may have been left out: no server is accepted then. Otherwise that
    /// there are none is an error of the configuration.
    pub(crate) fn may_be_empty(&self) -> bool {
        self.self_signed_only || self.own.iter().any(|root| matches!(root, RootSource::Folder(_)))
    }

    fn and(mut self, root: RootSource) -> Self {
        self.own.push(root);
        self
    }

    /// Reads and parses all of them.
    ///
    /// # Errors
    /// An additional certificate cannot be read or parsed. Unusable certificates of the platform
    /// are skipped, as in other TLS libraries: such lists are long.
    pub(crate) fn read(&self) -> Result<Anchors, ConfigError> {
        let mut anchors = Anchors { self_signed_only: self.self_signed_only, ..Anchors::default() };
        if self.platform {
            anchors.add_platform();
        }
        for root in &self.own {
            match root {
                RootSource::Pem(pem) => anchors.add_pem(pem)?,
                RootSource::Folder(path) => anchors.add_folder(path),
                RootSource::Der(der) => {
                    let added = anchors.add(CertificateDer::from(der.to_vec()));
                    added.map_err(|_| ConfigError::of_options(ConfigErrorKind::RootDer))?;
                }
            }
        }
        Ok(anchors)
    }
}

impl Default for Roots {
    fn default() -> Self {
        Self::platform()
    }
}

/// Trust anchors, read and parsed.
#[derive(Debug)]
pub(crate) struct Anchors {
    /// The names and keys that webpki needs.
    pub(crate) store: RootCertStore,
    /// SHA-256 of each certificate.
    trusted: Trusted,
    self_signed_only: bool,
}

impl Default for Anchors {
    fn default() -> Self {
        let (store, trusted) = (RootCertStore::empty(), Trusted::default());
        Self { store, trusted, self_signed_only: false }
    }
}

impl Anchors {
    /// Adds the certificates of a file or of memory.
    pub(crate) fn add_pem(&mut self, pem: &Pem) -> Result<(), ConfigError> {
        for certificate in pem::certificates(pem)? {
            self.add(certificate)
                .map_err(|error| ConfigError::new(pem, ConfigErrorKind::Rustls(error)))?;
        }
        Ok(())
    }

    fn add_folder(&mut self, path: &Path) {
        let Ok(entries) = std::fs::read_dir(path) else { return };
        let is_hashed = |entry: &DirEntry| is_hashed_name(&entry.file_name());
        for entry in entries.flatten().filter(is_hashed) {
            let _unusable = self.add_pem(&Pem::File(entry.path()));
        }
    }

    fn add(&mut self, certificate: CertificateDer<'_>) -> Result<(), Error> {
        if self.self_signed_only && is_issued(&certificate) {
            return Ok(());
        }
        let digest = sha256(&certificate);
        self.store.add(certificate)?;
        self.trusted.0.insert(digest);
        Ok(())
    }

    fn add_platform(&mut self) {
        for certificate in rustls_native_certs::load_native_certs().certs {
            let _unusable = self.add(certificate);
        }
        if self.store.is_empty() {
            self.store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
    }

    /// Splits into both parts.
    pub(crate) fn into_parts(self) -> (RootCertStore, Trusted) {
        (self.store, self.trusted)
    }
}

/// The certificates that are trust anchors themselves: SHA-256 of each.
#[derive(Debug, Default)]
pub(crate) struct Trusted(HashSet<[u8; 32]>);

impl Trusted {
    /// True if `certificate` may be accepted although its chain was rejected with `error`: it is a
    /// trust anchor itself and valid now. The caller still has to check the name.
    ///
    /// webpki rejects such a certificate if its issuer is unknown or if it is a CA's
    /// (basicConstraints). OpenSSL (`X509_V_FLAG_PARTIAL_CHAIN`) and curl accept it.
    pub(crate) fn accepts(
        &self,
        certificate: &CertificateDer<'_>,
        error: &Error,
        (usage, now, algorithms): (KeyUsage, UnixTime, Algorithms),
    ) -> bool {
        let revoked = matches!(error, Error::InvalidCertificate(CertificateError::Revoked));
        if revoked || !self.0.contains(&sha256(certificate)) {
            return false;
        }
        let Ok(parsed) = EndEntityCert::try_from(certificate) else { return false };
        // Verified without any anchor: webpki checks the dates first, then basicConstraints, then
        // the issuer. So with these two errors the dates are valid.
        let alone = parsed.verify_for_usage(algorithms, &[], &[], now, usage, None, None);
        matches!(
            alone,
            Err(webpki::Error::CaUsedAsEndEntity | webpki::Error::UnknownIssuer) | Ok(_)
        )
    }
}

/// True if the certificate names another one as its issuer.
fn is_issued(certificate: &CertificateDer<'_>) -> bool {
    EndEntityCert::try_from(certificate)
        .is_ok_and(|certificate| certificate.issuer() != certificate.subject())
}

/// True for eight hexadecimal digits, a dot and a number.
fn is_hashed_name(name: &OsStr) -> bool {
    let parts = name.to_str().and_then(|name| name.split_once('.'));
    parts.is_some_and(|(hash, number)| {
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) && is_number
    })
}

fn sha256(certificate: &CertificateDer<'_>) -> [u8; 32] {
    let hash = digest::digest(&digest::SHA256, certificate);
    hash.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issued_certificates_may_be_left_out() {
        let keys = [0; 2].map(|_| rcgen::KeyPair::generate().expect("a key"));
        let mut authority = rcgen::CertificateParams::default();
        authority.distinguished_name.push(rcgen::DnType::CommonName, "an authority");
        let issuer = rcgen::Issuer::from_params(&authority, &keys[0]);
        let issued = rcgen::CertificateParams::new(["a.example".to_owned()]).expect("a name");
        let issued = issued.signed_by(&keys[1], &issuer).expect("made").pem();
        let own = authority.self_signed(&keys[0]).expect("made").pem();
        let roots = Roots::empty().pem(own).pem(issued);
        let count = |roots: Roots| roots.read().expect("valid").store.len();
        assert_eq!(count(roots.clone()), 2);
        assert_eq!(count(roots.self_signed_only()), 1);
    }

    #[test]
    fn folders_have_the_certificates_with_hashed_names() {
        let folder = std::env::temp_dir().join(format!("fulmar-roots-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).expect("made");
        let add =
            |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("written");
        add("9d66eef0.0", &made.cert.pem());
        add("9d66eef1.12", "no certificate");
        add("README", "not one either");
        add("other.pem", &made.cert.pem());
        let read = |path: &Path| {
            let anchors = Roots::empty().hashed_folder(path).read().expect("nothing is refused");
            anchors.store.len()
        };
        assert_eq!(read(&folder), 1);
        assert_eq!(read(&folder.join("absent")), 0);
        std::fs::remove_dir_all(&folder).expect("removed");
        let name = |name: &str| is_hashed_name(OsStr::new(name));
        assert!(name("00aaFF99.10"));
        for other in ["00aaFF99", "00aaFF99.", "00aaFF9g.0", "0aaFF99.0", "00aaFF99.r0"] {
            assert!(!name(other), "{other}");
        }
    }
}
