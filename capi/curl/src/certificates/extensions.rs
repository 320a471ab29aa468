//! Extensions of certificates (RFC 5280 §4.2) as OpenSSL prints them.

use super::der::{
    BIT_STRING, BOOLEAN, DerItem, INTEGER, OBJECT, bit_names, hex, items, magnitude, number,
    octets, sequence, single,
};
use super::general_names::{constraint, inner_name, listed_name};
use super::object_names::{long_name, oid_text};
use super::timestamps::date;

/// The text of an extension's value. Of unknown and malformed ones it has the printable bytes.
pub(super) fn extension_text(oid: &str, value: &[u8]) -> Vec<u8> {
    known_text(oid, value).unwrap_or_else(|| {
        let printed = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\r');
        value.iter().map(|byte| if printed(byte) { *byte } else { b'.' }).collect()
    })
}

fn known_text(oid: &str, value: &[u8]) -> Option<Vec<u8>> {
    let text = match oid {
        "2.5.29.14" => hex(octets(value)?, ":", ""),
        "2.5.29.15" => bits(value, &KEY_USAGES)?,
        "2.5.29.17" | "2.5.29.18" => return listed_names(&sequence(value)?, b", "),
        "2.5.29.19" => basic_constraints(value)?,
        "2.5.29.30" => return name_constraints(value),
        "2.5.29.31" | "2.5.29.46" => return distribution_points(value),
        "2.5.29.32" => return policies(value),
        "2.5.29.35" => return authority_key(value),
        "2.5.29.36" => policy_constraints(value)?,
        "2.5.29.37" => key_purposes(value)?,
        "2.5.29.54" => number(of_tag(&single(value)?, INTEGER)?)?,
        "1.3.6.1.5.5.7.1.1" | "1.3.6.1.5.5.7.1.11" => return access_methods(value),
        "1.3.6.1.5.5.7.1.24" => tls_features(value)?,
        OCSP_NO_CHECK => String::new(),
        "2.16.840.1.113730.1.1" => bits(value, &NETSCAPE_TYPES)?,
        "2.16.840.1.113730.1.2"
        | "2.16.840.1.113730.1.3"
        | "2.16.840.1.113730.1.4"
        | "2.16.840.1.113730.1.7"
        | "2.16.840.1.113730.1.8"
        | "2.16.840.1.113730.1.12"
        | "2.16.840.1.113730.1.13" => return Some(single(value)?.data.to_vec()),
        CERTIFICATE_TIMESTAMPS => signed_timestamps(octets(value)?)?,
        _ => return None,
    };
    Some(text.into_bytes())
}

/// The content of an element with a universal tag.
fn of_tag<'a>(item: &DerItem<'a>, tag: u32) -> Option<&'a [u8]> {
    (item.universal == Some(tag)).then_some(item.data)
}

/// Values on one line.
fn joined(values: &[Vec<u8>], separator: &[u8]) -> Vec<u8> {
    match values.is_empty() {
        true => EMPTY.as_bytes().to_vec(),
        false => values.join(separator),
    }
}

fn bits(value: &[u8], names: &[&str]) -> Option<String> {
    let text = bit_names(of_tag(&single(value)?, BIT_STRING)?, names)?;
    Some(if text.is_empty() { EMPTY.to_owned() } else { text })
}

fn listed_names(names: &[DerItem<'_>], separator: &[u8]) -> Option<Vec<u8>> {
    let names: Option<Vec<_>> = names.iter().map(listed_name).collect();
    Some(joined(&names?, separator))
}

/// Names on a line each, indented.
fn inner_names(names: &[DerItem<'_>]) -> Option<Vec<u8>> {
    let lines = names.iter().map(|name| Some([b"  ", &inner_name(name)?[..]].concat()));
    Some(lines.collect::<Option<Vec<_>>>()?.join(&b"\n"[..]))
}

fn basic_constraints(value: &[u8]) -> Option<String> {
    let parts = sequence(value)?;
    let (authority, rest) = match &parts[..] {
        [first, rest @ ..] if first.universal == Some(BOOLEAN) => (first.data != [0], rest),
        rest => (false, rest),
    };
    let mut text = format!("CA:{}", if authority { "TRUE" } else { "FALSE" });
    match rest {
        [] => {}
        [len] => {
            text += ", pathlen:";
            text += &number(of_tag(len, INTEGER)?)?;
        }
        _ => return None,
    }
    Some(text)
}

fn authority_key(value: &[u8]) -> Option<Vec<u8>> {
    let parts = sequence(value)?;
    let part = |tag| parts.iter().find(|part| part.context == Some(tag));
    let is_alone = parts.len() == 1;
    let mut lines = Vec::new();
    if let Some(key) = part(0) {
        let label = if is_alone { "" } else { "keyid:" };
        lines.push(format!("{label}{}", hex(key.data, ":", "")).into_bytes());
    }
    if let Some(issuer) = part(1) {
        lines.push(listed_names(&items(issuer.data)?, b"\n")?);
    }
    if let Some(serial) = part(2) {
        let (_, magnitude) = magnitude(serial.data); // OpenSSL omits the sign
        lines.push(format!("serial:{}", hex(&magnitude, ":", "")).into_bytes());
    }
    Some(lines.join(&b"\n"[..]))
}

fn key_purposes(value: &[u8]) -> Option<String> {
    let purposes = sequence(value)?;
    let names = purposes.iter().map(|item| of_tag(item, OBJECT).map(long_name));
    let names: Option<Vec<_>> = names.collect();
    Some(names?.join(", "))
}

fn access_methods(value: &[u8]) -> Option<Vec<u8>> {
    let lines = sequence(value)?.into_iter().map(|method| {
        let parts = items(method.data)?;
        let [kind, place] = &parts[..] else { return None };
        let name = long_name(of_tag(kind, OBJECT)?);
        Some([name.as_bytes(), b" - ", &listed_name(place)?[..]].concat())
    });
    Some(joined(&lines.collect::<Option<Vec<_>>>()?, b"\n"))
}

fn distribution_points(value: &[u8]) -> Option<Vec<u8>> {
    let points = sequence(value)?;
    let points: Option<Vec<_>> = points.iter().map(distribution_point).collect();
    Some(points?.join(&b"\n"[..]))
}

fn distribution_point(point: &DerItem<'_>) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    for part in items(point.data)? {
        match part.context? {
            0 => {
                let name = single(part.data).filter(|name| name.context == Some(0))?;
                text.extend_from_slice(b"Full Name:\n");
                text.extend(inner_names(&items(name.data)?)?);
            }
            1 => {
                let reasons = bit_names(part.data, &REVOCATION_REASONS)?;
                text.extend(format!("Reasons:\n  {reasons}\n").into_bytes());
            }
            2 => {
                text.extend_from_slice(b"CRL Issuer:\n");
                text.extend(inner_names(&items(part.data)?)?);
            }
            _ => return None,
        }
    }
    Some(text)
}

fn name_constraints(value: &[u8]) -> Option<Vec<u8>> {
    let mut lines = Vec::new();
    for part in sequence(value)? {
        lines.push(match part.context? {
            0 => b"Permitted:".to_vec(),
            1 => b"Excluded:".to_vec(),
            _ => return None,
        });
        for subtree in items(part.data)? {
            let name = constraint(items(subtree.data)?.first()?)?;
            lines.push([b"  ", &name[..]].concat());
        }
    }
    Some(lines.join(&b"\n"[..]))
}

fn policies(value: &[u8]) -> Option<Vec<u8>> {
    let mut lines = Vec::new();
    for policy in sequence(value)? {
        let parts = items(policy.data)?;
        let name = long_name(of_tag(parts.first()?, OBJECT)?);
        lines.push(format!("Policy: {name}").into_bytes());
        if let Some(qualifiers) = parts.get(1) {
            for qualifier in items(qualifiers.data)? {
                qualifier_lines(&qualifier, &mut lines)?;
            }
        }
    }
    Some(lines.join(&b"\n"[..]))
}

/// RFC 5280 §4.2.1.4.
fn qualifier_lines(qualifier: &DerItem<'_>, lines: &mut Vec<Vec<u8>>) -> Option<()> {
    let parts = items(qualifier.data)?;
    let [kind, value] = &parts[..] else { return None };
    match oid_text(kind.data).as_str() {
        "1.3.6.1.5.5.7.2.1" => lines.push([b"  CPS: ", value.data].concat()),
        "1.3.6.1.5.5.7.2.2" => {
            lines.push(b"  User Notice:".to_vec());
            for part in items(value.data)? {
                if part.universal != Some(SEQUENCE) {
                    lines.push([b"    Explicit Text: ", part.data].concat());
                    continue;
                }
                let reference = items(part.data)?;
                let [organization, numbers] = &reference[..] else { return None };
                lines.push([b"    Organization: ", organization.data].concat());
                let numbers = items(numbers.data)?;
                let ending = if numbers.len() > 1 { "s" } else { "" };
                let numbers: Option<Vec<_>> = numbers.iter().map(|it| number(it.data)).collect();
                let numbers = numbers?.join(", ");
                lines.push(format!("    Number{ending}: {numbers}").into_bytes());
            }
        }
        _ => lines.push(format!("  Unknown Qualifier: {}", long_name(kind.data)).into_bytes()),
    }
    Some(())
}

fn policy_constraints(value: &[u8]) -> Option<String> {
    let parts = sequence(value)?.into_iter().map(|part| {
        let name = match part.context? {
            0 => "Require Explicit Policy",
            1 => "Inhibit Policy Mapping",
            _ => return None,
        };
        Some(format!("{name}:{}", number(part.data)?))
    });
    Some(parts.collect::<Option<Vec<_>>>()?.join(", "))
}

/// RFC 7633.
fn tls_features(value: &[u8]) -> Option<String> {
    let features = sequence(value)?;
    let names = features.iter().map(|feature| {
        let number = number(of_tag(feature, INTEGER)?)?;
        Some(match number.as_str() {
            "5" => "status_request".to_owned(),
            "17" => "status_request_v2".to_owned(),
            _ => number,
        })
    });
    Some(names.collect::<Option<Vec<_>>>()?.join(", "))
}

/// RFC 6962 §3.3: a list in the encoding of TLS.
fn signed_timestamps(list: &[u8]) -> Option<String> {
    let (mut rest, behind) = prefixed(list)?;
    let mut texts = Vec::new();
    while !rest.is_empty() {
        let (timestamp, others) = prefixed(rest)?;
        texts.push(signed_timestamp(timestamp)?);
        rest = others;
    }
    behind.is_empty().then(|| texts.join("\n"))
}

fn signed_timestamp(timestamp: &[u8]) -> Option<String> {
    let (version, rest) = timestamp.split_first()?;
    if *version != 0 {
        let bytes = hex_lines(timestamp);
        return Some(format!("{TIMESTAMP_HEAD}unknown\n{:16}{bytes}", ""));
    }
    let (log, rest) = rest.split_at_checked(32)?;
    let (time, rest) = rest.split_at_checked(8)?;
    let (extensions, rest) = prefixed(rest)?;
    let (algorithm, rest) = rest.split_at_checked(2)?;
    let (signature, behind) = prefixed(rest)?;
    if !behind.is_empty() {
        return None;
    }
    let millis = u64::from_be_bytes(time.try_into().expect("8 bytes"));
    let time = date(i64::try_from(millis / 1000).ok()?, &format!(".{:03}", millis % 1000))?;
    let extensions = match extensions {
        [] => "none".to_owned(),
        some => hex_lines(some),
    };
    let algorithm = match algorithm {
        [4, 1] => "sha256WithRSAEncryption".to_owned(),
        [4, 3] => "ecdsa-with-SHA256".to_owned(),
        other => hex(other, "", ""),
    };
    let (log, signature) = (hex_lines(log), hex_lines(signature));
    Some(format!(
        "{TIMESTAMP_HEAD}v1 (0x0)\n    Log ID    : {log}\n    Timestamp : {time}\n    \
         Extensions: {extensions}\n    Signature : {algorithm}\n                {signature}"
    ))
}

/// Bytes behind their length of two bytes, and those that follow.
fn prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(u16::from_be_bytes(*len).into())
}

/// 16 bytes a line, the further lines indented.
fn hex_lines(bytes: &[u8]) -> String {
    let lines = bytes.chunks(16).map(|line| hex(line, ":", ""));
    lines.collect::<Vec<_>>().join(&format!(":\n{:16}", ""))
}

const SEQUENCE: u32 = 16;
const EMPTY: &str = "<EMPTY>\n";
const OCSP_NO_CHECK: &str = "1.3.6.1.5.5.7.48.1.5";
const CERTIFICATE_TIMESTAMPS: &str = "1.3.6.1.4.1.11129.2.4.2";
const TIMESTAMP_HEAD: &str = "Signed Certificate Timestamp:\n    Version   : ";
const KEY_USAGES: [&str; 9] = [
    "Digital Signature",
    "Non Repudiation",
    "Key Encipherment",
    "Data Encipherment",
    "Key Agreement",
    "Certificate Sign",
    "CRL Sign",
    "Encipher Only",
    "Decipher Only",
];
const NETSCAPE_TYPES: [&str; 8] = [
    "SSL Client",
    "SSL Server",
    "S/MIME",
    "Object Signing",
    "Unused",
    "SSL CA",
    "S/MIME CA",
    "Object Signing CA",
];
const REVOCATION_REASONS: [&str; 9] = [
    "Unused",
    "Key Compromise",
    "CA Compromise",
    "Affiliation Changed",
    "Superseded",
    "Cessation Of Operation",
    "Certificate Hold",
    "Privilege Withdrawn",
    "AA Compromise",
];
