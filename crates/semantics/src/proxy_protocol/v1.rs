//! Version 1: one line of text, `PROXY TCP4 source destination port port CRLF`.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::str::{FromStr, Split};

use super::{Addresses, Extras, HeaderError, HeaderMisuse, ProxyProtocolHeader, ProxyTransport};

/// Parses the line at the beginning of `bytes`.
pub(super) fn decode(bytes: &[u8]) -> Result<Option<(ProxyProtocolHeader, usize)>, HeaderError> {
    let seen = bytes.len().min(LEAD.len());
    if bytes[..seen] != LEAD[..seen] {
        return Err(HeaderError::Absent);
    }
    let seen = &bytes[..bytes.len().min(LINE_SIZE_MAX)];
    let Some(end) = memchr::memchr(b'\n', seen) else {
        return if seen.len() < LINE_SIZE_MAX { Ok(None) } else { Err(HeaderError::TooLong) };
    };
    let line = seen[LEAD.len()..end].strip_suffix(b"\r").ok_or(HeaderError::BadLine)?;
    let addresses = addresses(line).ok_or(HeaderError::BadLine)?;
    Ok(Some((ProxyProtocolHeader { addresses, ..ProxyProtocolHeader::default() }, end + 1)))
}

/// Parses the text after `PROXY `; the outer `None` means malformed.
fn addresses(line: &[u8]) -> Option<Option<Addresses>> {
    // The rest of the line after `UNKNOWN` is ignored.
    if line == b"UNKNOWN" || line.starts_with(b"UNKNOWN ") {
        return (!line.contains(&b'\r')).then_some(None);
    }
    let mut words = str::from_utf8(line).ok()?.split(' ');
    let addresses = match words.next()? {
        "TCP4" => {
            let (from, to, from_port, to_port) = ends::<Ipv4Addr>(&mut words)?;
            let source = SocketAddrV4::new(from, from_port);
            Addresses::V4 { source, destination: SocketAddrV4::new(to, to_port) }
        }
        "TCP6" => {
            let (from, to, from_port, to_port) = ends::<Ipv6Addr>(&mut words)?;
            let source = SocketAddrV6::new(from, from_port, 0, 0);
            Addresses::V6 { source, destination: SocketAddrV6::new(to, to_port, 0, 0) }
        }
        _ => return None,
    };
    words.next().is_none().then_some(Some(addresses))
}

/// `source destination port port`.
fn ends<A: FromStr>(words: &mut Split<'_, char>) -> Option<(A, A, u16, u16)> {
    let mut address = || words.next()?.parse().ok();
    let (source, destination) = (address()?, address()?);
    Some((source, destination, port(words.next()?)?, port(words.next()?)?))
}

/// Digits without leading zeros, as the protocol requires.
fn port(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let short = text == "0" || !text.starts_with('0');
    (digits && short).then(|| text.parse().ok())?
}

/// Appends a header of version 1.
///
/// # Errors
/// Version 1 cannot represent `header`; nothing was written.
pub fn encode_v1(header: &ProxyProtocolHeader, out: &mut Vec<u8>) -> Result<(), HeaderMisuse> {
    if header.extras != Extras::default() || header.transport != ProxyTransport::Stream {
        return Err(HeaderMisuse::NeedsVersion2);
    }
    let line = match &header.addresses {
        None => "PROXY UNKNOWN\r\n".to_owned(),
        Some(Addresses::V4 { source, destination }) => {
            let (from, to) = (source.ip(), destination.ip());
            format!("PROXY TCP4 {from} {to} {} {}\r\n", source.port(), destination.port())
        }
        Some(Addresses::V6 { source, destination }) => {
            let (from, to) = (source.ip(), destination.ip());
            format!("PROXY TCP6 {from} {to} {} {}\r\n", source.port(), destination.port())
        }
        Some(Addresses::Unix { .. }) => return Err(HeaderMisuse::NeedsVersion2),
    };
    out.extend_from_slice(line.as_bytes());
    Ok(())
}

const LEAD: &[u8] = b"PROXY ";
/// Maximum length including the line end: two full IPv6 addresses, or as much after `UNKNOWN`.
const LINE_SIZE_MAX: usize = 107;
