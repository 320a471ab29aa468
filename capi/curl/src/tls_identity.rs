//! The client certificate with its key: `CURLOPT_SSLCERT`, `CURLOPT_SSLKEY`, their blobs and types,
//! and `CURLOPT_KEYPASSWD`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use bytes::Bytes;
use fulmar_tls::{Identity, Pem};

use crate::code::CurlCode;
use crate::failure::Failure;
use crate::private_key::{PrivateKeyError, private_key};

/// The options of a client certificate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdentityOptions<'a> {
    pub(crate) cert: IdentitySource<'a>,
    pub(crate) key: IdentitySource<'a>,
    pub(crate) password: Option<&'a [u8]>,
}

/// A file, or the blob that precedes it, and its type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdentitySource<'a> {
    pub(crate) file: Option<&'a [u8]>,
    pub(crate) blob: Option<&'a [u8]>,
    pub(crate) kind: Option<&'a [u8]>,
}

/// The form of a certificate or a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileForm {
    Pem,
    Der,
}

impl IdentitySource<'_> {
    fn is_set(self) -> bool {
        self.file.is_some() || self.blob.is_some()
    }

    /// `CURLOPT_SSLCERTTYPE`; `None` if it is unknown.
    fn form(self) -> Option<FileForm> {
        match self.kind.unwrap_or_default() {
            kind if kind.is_empty() || kind.eq_ignore_ascii_case(b"PEM") => Some(FileForm::Pem),
            kind if kind.eq_ignore_ascii_case(b"DER") => Some(FileForm::Der),
            _ => None,
        }
    }

    /// The bytes; `None` if they cannot be read.
    fn read(self) -> Option<Bytes> {
        match (self.blob, self.file) {
            (Some(blob), _) => Some(Bytes::copy_from_slice(blob)),
            (None, file) => std::fs::read(OsStr::from_bytes(file?)).ok().map(Bytes::from),
        }
    }

    /// The name of its type in errors.
    fn kind_name(self) -> String {
        self.kind.map_or_else(|| "PEM".into(), |kind| String::from_utf8_lossy(kind).into_owned())
    }

    /// Its name in errors.
    fn name(self) -> String {
        self.file.map_or_else(
            || "(memory blob)".into(),
            |file| String::from_utf8_lossy(file).into_owned(),
        )
    }
}

impl IdentityOptions<'_> {
    /// The certificate with its key, which its file may hold, too. `None` if there is none.
    ///
    /// # Errors
    /// A file cannot be read or decrypted, or has another form.
    pub(crate) fn identity(self) -> Result<Option<Identity>, Failure> {
        if !self.cert.is_set() {
            return Ok(None);
        }
        let Some(form) = self.cert.form() else {
            let kind = self.cert.kind_name();
            return Err(problem(format!("not supported file type '{kind}' for certificate")));
        };
        let bytes = self.cert.read();
        let cert = match form {
            FileForm::Pem => bytes.clone().filter(|bytes| has(bytes, CERT_BEGIN)),
            FileForm::Der => bytes.clone().filter(|bytes| bytes.starts_with(&[SEQUENCE])).map(pem),
        };
        let cert = cert.ok_or_else(|| match form {
            FileForm::Pem => problem(format!("could not load PEM client certificate, {WRONG}")),
            FileForm::Der => {
                let from = self.cert.name();
                problem(format!("could not load ASN1 client certificate from {from}, {WRONG}"))
            }
        })?;
        let key_source = self.key_source();
        // The type is that of the option for the key, unless the certificate's file holds it.
        let Some(key_form) = key_source.form() else {
            let is_p12 = key_source.kind.is_some_and(|kind| kind.eq_ignore_ascii_case(b"P12"));
            return Err(problem(match is_p12 {
                true => "file type P12 for private key not supported",
                false => "not supported file type for private key",
            }));
        };
        let key = if self.key.is_set() { self.key.read() } else { bytes };
        let is_pem = key_form == FileForm::Pem;
        let key = key
            .ok_or(PrivateKeyError)
            .and_then(|key| private_key(&key, is_pem, self.password.unwrap_or_default()));
        let key = key.map_err(|PrivateKeyError| self.key_failure())?;
        let key = Pem::Read(key_source.name().into(), key.into());
        Ok(Some(Identity::new(Pem::Bytes(cert), key)))
    }

    /// The key cannot be used. Errors of the client's identity have the path of the key for this.
    pub(crate) fn key_failure(self) -> Failure {
        let (name, kind) = (self.key_source().name(), self.key.kind_name());
        problem(format!("unable to set private key file: '{name}' type {kind}"))
    }

    fn key_source(&self) -> IdentitySource<'_> {
        if self.key.is_set() { self.key } else { self.cert }
    }
}

/// A certificate in PEM.
fn pem(der: Bytes) -> Bytes {
    format!("{CERT_BEGIN}\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(der)).into()
}

fn has(bytes: &[u8], text: &str) -> bool {
    memchr::memmem::find(bytes, text.as_bytes()).is_some()
}

fn problem(text: impl Into<String>) -> Failure {
    Failure::new(CurlCode::SslCertProblem, text.into())
}

const CERT_BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const WRONG: &str = "(no key found, wrong pass phrase, or wrong file format?)";
/// The first byte of a certificate in DER.
const SEQUENCE: u8 = 0x30;
