//! Elements of DER (X.690), and numbers in hexadecimal.

use x509_parser::asn1_rs::{Any, Class, FromDer as _};

/// An element.
#[derive(Clone, Copy, Debug)]
pub(super) struct DerItem<'a> {
    /// The tag of a class that the context determines; `None` for universal tags.
    pub(super) context: Option<u32>,
    /// The tag of the universal class.
    pub(super) universal: Option<u32>,
    pub(super) data: &'a [u8],
    /// With tag and length.
    pub(super) whole: &'a [u8],
}

/// The elements that follow each other in `rest`; `None` if they are malformed.
pub(super) fn items(mut rest: &[u8]) -> Option<Vec<DerItem<'_>>> {
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (behind, any) = Any::from_der(rest).ok()?;
        let tag = any.tag().0;
        found.push(DerItem {
            context: (any.class() == Class::ContextSpecific).then_some(tag),
            universal: (any.class() == Class::Universal).then_some(tag),
            data: any.data,
            whole: &rest[..rest.len() - behind.len()],
        });
        rest = behind;
    }
    Some(found)
}

/// The only element of `data`.
pub(super) fn single(data: &[u8]) -> Option<DerItem<'_>> {
    match items(data)?[..] {
        [item] => Some(item),
        _ => None,
    }
}

/// The elements of the sequence that `data` is.
pub(super) fn sequence(data: &[u8]) -> Option<Vec<DerItem<'_>>> {
    let item = single(data)?;
    if item.universal != Some(SEQUENCE) {
        return None;
    }
    items(item.data)
}

/// The octet string that `data` is.
pub(super) fn octets(data: &[u8]) -> Option<&[u8]> {
    let item = single(data)?;
    (item.universal == Some(OCTET_STRING)).then_some(item.data)
}

/// The names of the bits that are set in a bit string.
pub(super) fn bit_names(data: &[u8], names: &[&str]) -> Option<String> {
    let (unused, bytes) = data.split_first()?;
    let len = (bytes.len() * 8).checked_sub((*unused).into())?;
    let is_set = |at: usize| at < len && bytes[at / 8] & (0x80 >> (at % 8)) != 0;
    let set: Vec<_> = names.iter().enumerate().filter(|(at, _)| is_set(*at)).collect();
    Some(set.iter().map(|(_, name)| **name).collect::<Vec<_>>().join(", "))
}

/// Each byte in hexadecimal, between the separator, and an end behind each.
pub(super) fn hex(bytes: &[u8], between: &str, end: &str) -> String {
    let bytes: Vec<_> = bytes.iter().map(|byte| format!("{byte:02X}{end}")).collect();
    bytes.join(between)
}

/// A number that is not negative, without leading zeros.
pub(super) fn print_hex(bytes: &[u8]) -> String {
    let digits = hex(bytes, "", "");
    match digits.trim_start_matches('0') {
        "" => "0".to_owned(),
        digits => digits.to_owned(),
    }
}

/// A number in two's complement: whether it is negative, and its magnitude of at least a byte.
pub(super) fn magnitude(bytes: &[u8]) -> (bool, Vec<u8>) {
    let is_negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    let mut magnitude = bytes.to_vec();
    if is_negative {
        let mut carry = true;
        for byte in magnitude.iter_mut().rev() {
            (*byte, carry) = (!*byte).overflowing_add(carry.into());
        }
    }
    let zeros = magnitude.iter().take_while(|byte| **byte == 0).count();
    magnitude.drain(..zeros.min(magnitude.len().saturating_sub(1)));
    (is_negative, magnitude)
}

/// A number as OpenSSL prints it: a large one in hexadecimal.
pub(super) fn number(bytes: &[u8]) -> Option<String> {
    if bytes.first()? & 0x80 != 0 {
        return None;
    }
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let significant = &bytes[zeros..];
    Some(match significant.len() < 16 {
        true => {
            let value =
                significant.iter().fold(0_u128, |value, byte| value << 8 | u128::from(*byte));
            value.to_string()
        }
        false => format!("0x{}", hex(significant, "", "")),
    })
}

const OCTET_STRING: u32 = 4;
const SEQUENCE: u32 = 16;
pub(super) const BOOLEAN: u32 = 1;
pub(super) const INTEGER: u32 = 2;
pub(super) const BIT_STRING: u32 = 3;
pub(super) const OBJECT: u32 = 6;
pub(super) const UTF8_STRING: u32 = 12;
pub(super) const IA5_STRING: u32 = 22;
