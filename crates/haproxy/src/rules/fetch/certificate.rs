//! Fetches of the client certificate (RFC 5280 §4.1), in OpenSSL's notation.

use sha1::{Digest, Sha1};
use x509_parser::prelude::{ASN1Time, AttributeTypeAndValue, FromDer, X509Certificate, X509Name};

use super::{FetchMethod, Take};
use crate::rules::args::{ArgKind, Args, Takes};
use crate::rules::eval_context::{EvalContext, Fact};
use crate::rules::sample::{Sample, Type};
use crate::rules::sample_phase::SamplePhase;

pub(super) const TABLE: &[FetchMethod] = &[
    of_name(&["ssl_c_s_dn"], |a, s| of(s, |certificate| name(certificate.subject(), a))),
    of_name(&["ssl_c_i_dn"], |a, s| of(s, |certificate| name(certificate.issuer(), a))),
    field(&["ssl_c_serial"], Type::Binary, |_, s| of(s, |it| Some(serial(it)))),
    field(&["ssl_c_notafter"], Type::Text, |_, s| of(s, |it| time(it.validity().not_after))),
    field(&["ssl_c_notbefore"], Type::Text, |_, s| of(s, |it| time(it.validity().not_before))),
    field(&["ssl_c_key_alg"], Type::Text, |_, s| {
        of(s, |it| Some(named(&it.public_key().algorithm.algorithm.to_id_string(), ALGORITHMS)))
    }),
    field(&["ssl_c_sig_alg"], Type::Text, |_, s| {
        of(s, |it| Some(named(&it.signature_algorithm.algorithm.to_id_string(), ALGORITHMS)))
    }),
    field(&["ssl_c_version"], Type::Int, |_, s| {
        of(s, |it| Some(Sample::Int(i64::from(it.version().0) + 1)))
    }),
    field(&["ssl_c_sha1"], Type::Binary, |_, s| {
        Some(Sample::Binary(Sha1::digest(der(s)?).to_vec().into()))
    }),
];

/// The common name of the subject of a DER certificate.
pub fn common_name(der: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let name = entry(certificate.subject(), b"CN", 1)?;
    String::from_utf8(name).ok()
}

type One = for<'a> fn(&'a Args, &'a dyn EvalContext) -> Option<Sample<'a>>;

const fn field(names: &'static [&'static str], kind: Type, take: One) -> FetchMethod {
    FetchMethod::new(names, Takes::NONE, kind, SamplePhase::Session, Take::One(take))
}

const fn of_name(names: &'static [&'static str], take: One) -> FetchMethod {
    let takes = Takes::from(0, &[ArgKind::Text, ArgKind::Int, ArgKind::OneOf(&["rfc2253"])]);
    FetchMethod::new(names, takes, Type::Text, SamplePhase::Session, Take::One(take))
}

fn der(subject: &dyn EvalContext) -> Option<std::borrow::Cow<'_, [u8]>> {
    subject.fact(&Fact::ClientCertificateDer)?.into_binary()
}

fn of<'a>(
    subject: &dyn EvalContext,
    take: impl FnOnce(&X509Certificate<'_>) -> Option<Sample<'static>>,
) -> Option<Sample<'a>> {
    let der = der(subject)?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    take(&certificate)
}

fn serial(certificate: &X509Certificate<'_>) -> Sample<'static> {
    let bytes = certificate.raw_serial();
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    Sample::Binary(bytes[zeros..].to_vec().into())
}

/// `YYMMDDhhmmssZ`.
fn time(time: ASN1Time) -> Option<Sample<'static>> {
    let time = time.to_datetime();
    let text = format!(
        "{:02}{:02}{:02}{:02}{:02}{:02}Z",
        time.year().rem_euclid(100),
        u8::from(time.month()),
        time.day(),
        time.hour(),
        time.minute(),
        time.second()
    );
    (1950..2100).contains(&time.year()).then(|| Sample::Text(text.into_bytes().into()))
}

/// The whole name, or the entry that the arguments select.
fn name(name: &X509Name<'_>, args: &Args) -> Option<Sample<'static>> {
    let text = match (args.text(0), args.text(2)) {
        (Some(wanted), _) => entry(name, wanted, args.int(1).unwrap_or(1))?,
        (None, None) => in_order(name),
        (None, Some(_)) => backwards(name),
    };
    Some(Sample::Text(text.into()))
}

/// The entry of this type at an index, from the first (1) or the last (-1).
fn entry(name: &X509Name<'_>, wanted: &[u8], place: i64) -> Option<Vec<u8>> {
    let is_wanted = |attribute: &&AttributeTypeAndValue<'_>| {
        kind(attribute).as_bytes().eq_ignore_ascii_case(wanted)
    };
    let found: Vec<_> = name.iter_attributes().filter(is_wanted).collect();
    let skipped = usize::try_from(place.unsigned_abs().max(1) - 1).ok()?;
    let attribute = match place {
        0.. => found.get(skipped),
        _ => found.iter().rev().nth(skipped),
    };
    attribute.map(|attribute| attribute.as_slice().to_vec())
}

/// `/C=FR/O=Example/CN=client`.
fn in_order(name: &X509Name<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    for attribute in name.iter_attributes() {
        text.push(b'/');
        text.extend_from_slice(kind(attribute).as_bytes());
        text.push(b'=');
        text.extend_from_slice(attribute.as_slice());
    }
    text
}

/// `CN=client,O=Example,C=FR` (RFC 2253 §2).
fn backwards(name: &X509Name<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    let sets: Vec<_> = name.iter_rdn().collect();
    for set in sets.into_iter().rev() {
        for (at, attribute) in set.iter().enumerate() {
            if at > 0 {
                text.push(b'+');
            } else if !text.is_empty() {
                text.push(b',');
            }
            text.extend_from_slice(kind(attribute).as_bytes());
            text.push(b'=');
            escape(&mut text, attribute.as_slice());
        }
    }
    text
}

/// Escapes special characters with a backslash (RFC 2253 §2.4).
fn escape(out: &mut Vec<u8>, value: &[u8]) {
    for (at, byte) in value.iter().enumerate() {
        let is_last = at + 1 == value.len();
        match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => out.extend([b'\\', *byte]),
            b'#' | b' ' if at == 0 => out.extend([b'\\', *byte]),
            b' ' if is_last => out.extend([b'\\', *byte]),
            0x00..=0x1f | 0x7f.. => out.extend(format!("\\{byte:02X}").into_bytes()),
            _ => out.push(*byte),
        }
    }
}

/// The short name of an attribute type, or its OID.
fn kind(attribute: &AttributeTypeAndValue<'_>) -> String {
    let numbers = attribute.attr_type().to_id_string();
    let known = KINDS.iter().find(|(known, _)| *known == numbers);
    known.map_or(numbers, |(_, name)| (*name).to_owned())
}

fn named(numbers: &str, names: &[(&str, &'static str)]) -> Sample<'static> {
    match names.iter().find(|(known, _)| *known == numbers) {
        Some((_, name)) => Sample::text(name.as_bytes()),
        None => Sample::Text(numbers.as_bytes().to_vec().into()),
    }
}

const KINDS: &[(&str, &str)] = &[
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.41", "name"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.44", "generationQualifier"),
    ("2.5.4.46", "dnQualifier"),
    ("2.5.4.65", "pseudonym"),
    ("2.5.4.97", "organizationIdentifier"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
];

const ALGORITHMS: &[(&str, &str)] = &[
    ("1.2.840.113549.1.1.1", "rsaEncryption"),
    ("1.2.840.113549.1.1.5", "RSA-SHA1"),
    ("1.2.840.113549.1.1.10", "RSASSA-PSS"),
    ("1.2.840.113549.1.1.11", "RSA-SHA256"),
    ("1.2.840.113549.1.1.12", "RSA-SHA384"),
    ("1.2.840.113549.1.1.13", "RSA-SHA512"),
    ("1.2.840.10045.2.1", "id-ecPublicKey"),
    ("1.2.840.10045.4.3.2", "ecdsa-with-SHA256"),
    ("1.2.840.10045.4.3.3", "ecdsa-with-SHA384"),
    ("1.2.840.10045.4.3.4", "ecdsa-with-SHA512"),
    ("1.3.101.112", "ED25519"),
    ("1.3.101.113", "ED448"),
];
