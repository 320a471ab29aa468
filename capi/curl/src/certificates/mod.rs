//! The texts of `CURLINFO_CERTINFO`: a certificate as lines `name:value`, as libcurl prints them
//! with OpenSSL.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;
use x509_parser::time::ASN1Time;
use x509_parser::x509::SubjectPublicKeyInfo;

mod der;
mod extensions;
mod general_names;
mod object_names;
mod timestamps;
mod x509_names;

#[cfg(test)]
mod tests;

use der::{hex, items, magnitude, print_hex};
use extensions::extension_text;
use object_names::{long_name, oid_text};
use timestamps::date;
use x509_names::{one_line, plain_line};

/// The lines of a certificate in DER. One that is malformed has only its PEM form.
pub fn certificate_lines(der: &[u8]) -> Vec<Vec<u8>> {
    let mut lines = CertificateLines::default();
    if let Ok((_, certificate)) = X509Certificate::from_der(der) {
        lines.add_fields(&certificate);
    }
    lines.add("Cert", pem(der));
    lines.0
}

/// What verbose output prints of a certificate.
#[derive(Debug)]
pub(crate) struct CertificateFacts {
    pub(crate) subject: String,
    pub(crate) issuer: String,
    /// The time from which it is valid, and the one to which.
    pub(crate) start: String,
    pub(crate) end: String,
    /// The DNS names that it is for.
    pub(crate) names: Vec<String>,
}

/// The facts of a certificate in DER; `None` if it is malformed.
pub(crate) fn certificate_facts(der: &[u8]) -> Option<CertificateFacts> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let content = &certificate.tbs_certificate;
    let name = |der| {
        let line = plain_line(der).unwrap_or_default();
        String::from_utf8_lossy(&line).into_owned()
    };
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.into_iter().flat_map(|it| &it.value.general_names);
    Some(CertificateFacts {
        subject: name(content.subject.as_raw()),
        issuer: name(content.issuer.as_raw()),
        start: time(&content.validity.not_before),
        end: time(&content.validity.not_after),
        names: names
            .filter_map(|name| match name {
                GeneralName::DNSName(name) => Some((*name).to_owned()),
                _ => None,
            })
            .collect(),
    })
}

#[derive(Default)]
struct CertificateLines(Vec<Vec<u8>>);

impl CertificateLines {
    fn add(&mut self, name: &str, value: impl AsRef<[u8]>) {
        self.0.push([name.as_bytes(), b":", value.as_ref()].concat());
    }

    fn add_fields(&mut self, certificate: &X509Certificate<'_>) {
        let content = &certificate.tbs_certificate;
        self.add("Subject", one_line(content.subject.as_raw()).unwrap_or_default());
        self.add("Issuer", one_line(content.issuer.as_raw()).unwrap_or_default());
        self.add("Version", format!("{:x}", content.version.0));
        self.add("Serial Number", serial(content.raw_serial()));
        let key = &content.subject_pki;
        let signature = certificate.signature_algorithm.algorithm.as_bytes();
        self.add("Signature Algorithm", long_name(signature));
        self.add("Public Key Algorithm", long_name(key.algorithm.algorithm.as_bytes()));
        for extension in content.extensions() {
            let oid = extension.oid.as_bytes();
            self.add(&long_name(oid), extension_text(&oid_text(oid), extension.value));
        }
        self.add("Start date", time(&content.validity.not_before));
        self.add("Expire date", time(&content.validity.not_after));
        // Keys of other kinds have no lines.
        let _ = self.add_rsa_key(key);
        let _ = self.add_dsa_key(key);
        let signature = &certificate.signature_value.data;
        self.add("Signature", hex(signature, "", ":").to_ascii_lowercase());
    }

    /// RFC 8017 §A.1.1.
    fn add_rsa_key(&mut self, key: &SubjectPublicKeyInfo<'_>) -> Option<()> {
        if oid_text(key.algorithm.algorithm.as_bytes()) != RSA {
            return None;
        }
        let [whole] = &items(&key.subject_public_key.data)?[..] else { return None };
        let [modulus, exponent] = &items(whole.data)?[..] else { return None };
        self.add("RSA Public Key", bit_count(modulus.data).to_string());
        self.add("rsa(n)", print_hex(modulus.data));
        self.add("rsa(e)", print_hex(exponent.data));
        Some(())
    }

    /// RFC 3279 §2.3.2.
    fn add_dsa_key(&mut self, key: &SubjectPublicKeyInfo<'_>) -> Option<()> {
        if oid_text(key.algorithm.algorithm.as_bytes()) != DSA {
            return None;
        }
        let parameters = items(key.algorithm.parameters.as_ref()?.data)?;
        let [p, q, g] = &parameters[..] else { return None };
        let [public] = &items(&key.subject_public_key.data)?[..] else { return None };
        for (name, number) in [("p", p), ("q", q), ("g", g), ("pub_key", public)] {
            self.add(&format!("dsa({name})"), print_hex(number.data));
        }
        Some(())
    }
}

/// A serial number in two's complement: its sign, and its magnitude in hexadecimal.
fn serial(bytes: &[u8]) -> String {
    let (is_negative, magnitude) = magnitude(bytes);
    let sign = if is_negative { "-" } else { "" };
    format!("{sign}{}", hex(&magnitude, "", "").to_ascii_lowercase())
}

/// The bits of a number that is not negative.
fn bit_count(bytes: &[u8]) -> usize {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let significant = &bytes[zeros..];
    let unused = significant.first().map_or(0, |first| first.leading_zeros() as usize);
    significant.len() * 8 - unused
}

fn time(time: &ASN1Time) -> String {
    date(time.timestamp(), "").unwrap_or_default()
}

/// RFC 7468 §5.
fn pem(der: &[u8]) -> Vec<u8> {
    let base64 = STANDARD.encode(der);
    let mut pem = b"-----BEGIN CERTIFICATE-----\n".to_vec();
    for line in base64.as_bytes().chunks(64) {
        pem.extend_from_slice(line);
        pem.push(b'\n');
    }
    pem.extend_from_slice(b"-----END CERTIFICATE-----\n");
    pem
}

const RSA: &str = "1.2.840.113549.1.1.1";
const DSA: &str = "1.2.840.10040.4.1";
