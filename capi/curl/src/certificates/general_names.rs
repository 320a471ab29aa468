//! Alternative names (RFC 5280 §4.2.1.6) as OpenSSL prints them.

use super::der::{DerItem, IA5_STRING, UTF8_STRING, items, single};
use super::object_names::{long_name, oid_text};
use super::x509_names::{one_line, slash_line};

/// An element of a list of names: `DNS:host`.
pub(super) fn listed_name(name: &DerItem<'_>) -> Option<Vec<u8>> {
    match name.context? {
        0 => other_name(name, "othername: ", ":"),
        4 => Some([b"DirName:", &slash_line(name.data)?[..]].concat()),
        _ => simple_name(name),
    }
}

/// A name within another extension.
pub(super) fn inner_name(name: &DerItem<'_>) -> Option<Vec<u8>> {
    match name.context? {
        0 => other_name(name, "othername:", ""),
        4 => Some([b"DirName:", &one_line(name.data)?[..]].concat()),
        _ => simple_name(name),
    }
}

/// A name in name constraints, where addresses have masks.
pub(super) fn constraint(name: &DerItem<'_>) -> Option<Vec<u8>> {
    if name.context != Some(7) {
        return inner_name(name);
    }
    let text = match name.data.len() {
        8 | 32 => {
            let (network, mask) = name.data.split_at(name.data.len() / 2);
            format!("IP:{}/{}", address(network), address(mask))
        }
        _ => "IP Address:<invalid>".to_owned(),
    };
    Some(text.into_bytes())
}

fn simple_name(name: &DerItem<'_>) -> Option<Vec<u8>> {
    let text = |label: &str| Some([label.as_bytes(), name.data].concat());
    let owned = |text: String| Some(text.into_bytes());
    match name.context? {
        1 => text("email:"),
        2 => text("DNS:"),
        3 => owned("X400Name:<unsupported>".to_owned()),
        5 => owned("EdiPartyName:<unsupported>".to_owned()),
        6 => text("URI:"),
        7 => owned(format!("IP Address:{}", address(name.data))),
        8 => owned(format!("Registered ID:{}", long_name(name.data))),
        _ => None,
    }
}

/// A name of a type with a number.
fn other_name(name: &DerItem<'_>, label: &str, behind: &str) -> Option<Vec<u8>> {
    let parts = items(name.data)?;
    let [kind, value] = &parts[..] else { return None };
    let value = single(value.data)?;
    let oid = oid_text(kind.data);
    let kind = match OTHER_NAMES.iter().find(|(known, _)| *known == oid) {
        Some((_, name)) => (*name).to_owned(),
        None => long_name(kind.data),
    };
    let text = match value.universal {
        Some(UTF8_STRING | IA5_STRING) => value.data,
        _ => b"<unsupported>",
    };
    Some([format!("{label}{kind}:{behind}").as_bytes(), text].concat())
}

fn address(bytes: &[u8]) -> String {
    match bytes.len() {
        4 => bytes.iter().map(u8::to_string).collect::<Vec<_>>().join("."),
        16 => {
            let groups = bytes.chunks(2).map(|pair| {
                format!("{:X}", u16::from_be_bytes(pair.try_into().expect("chunks of two")))
            });
            groups.collect::<Vec<_>>().join(":")
        }
        _ => "<invalid>".to_owned(),
    }
}

const OTHER_NAMES: [(&str, &str); 5] = [
    ("1.3.6.1.4.1.311.20.2.3", "UPN"),
    ("1.3.6.1.5.5.7.8.5", "XmppAddr"),
    ("1.3.6.1.5.5.7.8.7", "SRVName"),
    ("1.3.6.1.5.5.7.8.8", "NAIRealm"),
    ("1.3.6.1.5.5.7.8.9", "SmtpUTF8Mailbox"),
];
