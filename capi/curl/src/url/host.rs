//! Hosts: names, addresses of IPv4 in any form, addresses of IPv6 with a zone, and IDN.

use std::net::{Ipv4Addr, Ipv6Addr};

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};

use crate::code::UrlCode;
use crate::escape::unescape_text;

/// A host as it is stored, with the zone of an address of IPv6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UrlHost {
    pub(super) name: Vec<u8>,
    pub(super) zone_id: Option<Vec<u8>>,
}

impl UrlHost {
    /// The host of a URL: a name is decoded, an address of IPv4 is normalized.
    pub(super) fn in_url(text: &[u8]) -> Result<Self, UrlCode> {
        if text.starts_with(b"[") {
            return ipv6(text);
        }
        // In its usual form, it is normalized already.
        let is_usual = std::str::from_utf8(text).is_ok_and(|it| it.parse::<Ipv4Addr>().is_ok());
        if is_usual {
            return Ok(Self { name: text.to_vec(), zone_id: None });
        }
        if let Some(address) = ipv4(text) {
            return Ok(Self { name: address.to_string().into_bytes(), zone_id: None });
        }
        if !text.contains(&b'%') {
            return Self::checked(text);
        }
        Self::checked(&unescape_text(text).ok_or(UrlCode::BadHostname)?)
    }

    /// A host as it is; only an address of IPv6 is normalized.
    pub(super) fn checked(text: &[u8]) -> Result<Self, UrlCode> {
        if text.starts_with(b"[") {
            return ipv6(text);
        }
        if text.is_empty() {
            return Err(UrlCode::NoHost);
        }
        if text.iter().any(|byte| REFUSED.contains(byte)) {
            return Err(UrlCode::BadHostname);
        }
        Ok(Self { name: text.to_vec(), zone_id: None })
    }
}

/// Up to four numbers with dots between them, decimal, octal or hexadecimal. The last number
/// fills the remaining bytes (`inet_aton(3)`). Everything else is a name, also `256.1`.
fn ipv4(text: &[u8]) -> Option<Ipv4Addr> {
    if !text.first()?.is_ascii_digit() {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?;
    let numbers = text.split('.').map(number).collect::<Option<Vec<u32>>>()?;
    let (last, leading) = numbers.split_last()?;
    if leading.len() > 3 || leading.iter().any(|number| *number > 0xff) {
        return None;
    }
    let mut address: u32 = 0;
    for (number, shift) in leading.iter().zip([24, 16, 8]) {
        address |= number << shift;
    }
    let room = u32::MAX.checked_shr(8 * u32::try_from(leading.len()).ok()?)?;
    (*last <= room).then(|| Ipv4Addr::from(address | last))
}

/// A number of C, which begins with a digit.
fn number(text: &str) -> Option<u32> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = match hexadecimal {
        Some(digits) => (digits, 16),
        None if text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    if is_number { u32::from_str_radix(digits, radix).ok() } else { None }
}

/// An address in brackets. It is replaced by its normal form if that is shorter. Text behind the
/// brackets of an address with a zone is ignored.
fn ipv6(text: &[u8]) -> Result<UrlHost, UrlCode> {
    let inner = text.strip_prefix(b"[").ok_or(UrlCode::BadIpv6)?;
    let (address, zone_id) = match inner.iter().position(|byte| *byte == b'%') {
        Some(at) => (&inner[..at], Some(zone_id(&inner[at + 1..])?)),
        None => (inner.strip_suffix(b"]").ok_or(UrlCode::BadIpv6)?, None),
    };
    let parsed = std::str::from_utf8(address).ok().and_then(|text| text.parse::<Ipv6Addr>().ok());
    let normal = normal_form(parsed.ok_or(UrlCode::BadIpv6)?).into_bytes();
    let address = if normal.len() < address.len() { &normal } else { address };
    Ok(UrlHost { name: [b"[", address, b"]"].concat(), zone_id })
}

/// RFC 5952, and as `inet_ntop(3)` addresses that contain one of IPv4 (RFC 4291 §2.5.5.1).
fn normal_form(address: Ipv6Addr) -> String {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => {
            format!("::{}", Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
        }
        _ => address.to_string(),
    }
}

/// What is between `%`, or `%25`, its encoded form, and the bracket.
fn zone_id(text: &[u8]) -> Result<Vec<u8>, UrlCode> {
    let end = text.iter().position(|byte| *byte == b']').ok_or(UrlCode::BadIpv6)?;
    let id = text[..end].strip_prefix(b"25").filter(|id| !id.is_empty()).unwrap_or(&text[..end]);
    let is_valid = (1..=ZONE_ID_LEN_MAX).contains(&id.len());
    is_valid.then(|| id.to_vec()).ok_or(UrlCode::BadIpv6)
}

/// The name in ASCII (UTS #46), if it has other characters. With an error, libcurl claims to be
/// out of memory.
pub(super) fn to_punycode(name: &[u8]) -> Result<Vec<u8>, UrlCode> {
    if name.is_ascii() {
        return Ok(name.to_vec());
    }
    let name = std::str::from_utf8(name).map_err(|_| UrlCode::OutOfMemory)?;
    let ascii = to_ascii(name).or_else(|| to_ascii(&without_deviations(name)));
    ascii.ok_or(UrlCode::OutOfMemory)
}

/// Empty labels and `_` are accepted, other characters in labels of ASCII only.
fn to_ascii(name: &str) -> Option<Vec<u8>> {
    let deny = AsciiDenyList::EMPTY;
    let ascii = Uts46::new().to_ascii(name.as_bytes(), deny, Hyphens::Check, DnsLength::Ignore);
    let ascii = ascii.ok()?.into_owned().into_bytes();
    let is_valid = |label: &[u8]| {
        let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
        let is_encoded = label.starts_with(b"xn--");
        label.len() <= LABEL_LEN_MAX && (!is_encoded || label.iter().all(is_letter))
    };
    let len = ascii.strip_suffix(b".").unwrap_or(&ascii).len();
    let is_valid = len <= NAME_LEN_MAX && ascii.split(|byte| *byte == b'.').all(is_valid);
    is_valid.then_some(ascii)
}

/// What transitional processing makes of the four characters that IDNA 2003 read differently.
fn without_deviations(name: &str) -> String {
    name.replace('\u{df}', "ss").replace('\u{3c2}', "\u{3c3}").replace(['\u{200c}', '\u{200d}'], "")
}

/// RFC 1035 §2.3.4.
const LABEL_LEN_MAX: usize = 63;

/// What fits in 255 bytes of lengths and labels, without the last dot (RFC 1035 §3.1).
const NAME_LEN_MAX: usize = 253;

const ZONE_ID_LEN_MAX: usize = 15;

/// Characters that no host name contains. Other control characters are refused in URLs only.
const REFUSED: &[u8] = b" \r\n\t/:#?!@{}[]\\$'\"^`*<>=;,&+()";
