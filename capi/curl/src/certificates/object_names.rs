//! The names that OpenSSL has for object identifiers.

use std::borrow::Cow;

use x509_parser::asn1_rs::Oid;

/// The numbers of an object identifier, given as the content of its DER.
pub(super) fn oid_text(der: &[u8]) -> String {
    Oid::new(Cow::Borrowed(der)).to_id_string()
}

/// The long name of an object identifier; without one, its numbers.
pub(super) fn long_name(der: &[u8]) -> String {
    let oid = oid_text(der);
    let long = row(&oid).map(|(_, long)| long.to_owned());
    long.unwrap_or(oid)
}

/// The short name, as of attributes.
pub(super) fn short_name(der: &[u8]) -> String {
    let oid = oid_text(der);
    let short = row(&oid).map(|(short, _)| short.to_owned());
    short.unwrap_or(oid)
}

/// The short and the long name.
fn row(oid: &str) -> Option<(&'static str, &'static str)> {
    include_str!("object_names.txt").lines().find_map(|line| {
        let names = line.strip_prefix(oid)?.strip_prefix(" | ")?;
        names.split_once(" | ")
    })
}
