//! Version 2: a signature, version and command, family, a length, addresses, extra fields.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use super::tlv::{self, ChecksumField};
use super::{
    Addresses, Extras, HeaderError, HeaderMisuse, ProxyProtocolHeader, ProxyTransport, SIZE_MAX,
};

/// Parses the header at the beginning of `bytes`.
pub(super) fn decode(bytes: &[u8]) -> Result<Option<(ProxyProtocolHeader, usize)>, HeaderError> {
    let seen = bytes.len().min(SIGNATURE.len());
    if bytes[..seen] != SIGNATURE[..seen] {
        return Err(HeaderError::Absent);
    }
    let rest = &bytes[seen..];
    if let Some(byte) = rest.first()
        && !matches!(*byte, LOCAL | PROXY)
    {
        return Err(HeaderError::BadVersion(*byte));
    }
    let Some((&[command, family, high, low], _)) = rest.split_first_chunk() else {
        return Ok(None);
    };
    let size = FIXED_SIZE + usize::from(u16::from_be_bytes([high, low]));
    if size > SIZE_MAX {
        return Err(HeaderError::TooLong);
    }
    if command == PROXY {
        check_family(family)?;
    }
    let Some(header) = bytes.get(..size) else { return Ok(None) };
    // The rest of a `LOCAL` header is ignored. With an unknown family the size of the addresses is
    // unknown, so nothing after them can be parsed.
    if command == LOCAL || family >> 4 == UNSPEC || family & 15 == UNSPEC {
        return Ok(Some((ProxyProtocolHeader::default(), size)));
    }
    let (addresses, at) = addresses(family >> 4, header).ok_or(HeaderError::ShortAddresses)?;
    let transport =
        if family & 15 == STREAM { ProxyTransport::Stream } else { ProxyTransport::Datagram };
    let extras = tlv::decode(header, at)?;
    Ok(Some((ProxyProtocolHeader { addresses: Some(addresses), transport, extras }, size)))
}

fn check_family(family: u8) -> Result<(), HeaderError> {
    let known = matches!(family >> 4, UNSPEC..=UNIX) && matches!(family & 15, UNSPEC..=DATAGRAM);
    if known { Ok(()) } else { Err(HeaderError::BadFamily(family)) }
}

/// The addresses and their end; `None` if they do not fit.
fn addresses(family: u8, header: &[u8]) -> Option<(Addresses, usize)> {
    let rest = &header[FIXED_SIZE..];
    let addresses = match family {
        INET => {
            let (from, rest) = rest.split_first_chunk::<4>()?;
            let (to, rest) = rest.split_first_chunk::<4>()?;
            let (from_port, to_port) = ports(rest)?;
            let source = SocketAddrV4::new(Ipv4Addr::from(*from), from_port);
            Addresses::V4 { source, destination: SocketAddrV4::new(Ipv4Addr::from(*to), to_port) }
        }
        INET6 => {
            let (from, rest) = rest.split_first_chunk::<16>()?;
            let (to, rest) = rest.split_first_chunk::<16>()?;
            let (from_port, to_port) = ports(rest)?;
            let source = SocketAddrV6::new(Ipv6Addr::from(*from), from_port, 0, 0);
            let destination = SocketAddrV6::new(Ipv6Addr::from(*to), to_port, 0, 0);
            Addresses::V6 { source, destination }
        }
        _ => {
            let (from, rest) = rest.split_first_chunk::<NAME_SIZE>()?;
            let (to, _) = rest.split_first_chunk::<NAME_SIZE>()?;
            Addresses::Unix { source: name(from), destination: name(to) }
        }
    };
    Some((addresses, FIXED_SIZE + addresses_size(family)))
}

fn addresses_size(family: u8) -> usize {
    match family {
        UNSPEC => 0,
        INET => 2 * 4 + 2 * 2,
        INET6 => 2 * 16 + 2 * 2,
        _ => 2 * NAME_SIZE,
    }
}

fn ports(bytes: &[u8]) -> Option<(u16, u16)> {
    let [a, b, c, d] = *bytes.first_chunk()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// A name without trailing NULs; a leading NUL means the abstract namespace.
fn name(bytes: &[u8]) -> Vec<u8> {
    let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes[..len].to_vec()
}

/// Appends a header of version 2, with a checksum. Without addresses it is `LOCAL`.
///
/// # Errors
/// Version 2 cannot represent `header`; nothing was written.
pub fn encode_v2(header: &ProxyProtocolHeader, out: &mut Vec<u8>) -> Result<(), HeaderMisuse> {
    let mut wire = SIGNATURE.to_vec();
    let transport = if header.transport == ProxyTransport::Stream { STREAM } else { DATAGRAM };
    let family = match header.addresses {
        None if header.extras != Extras::default() => return Err(HeaderMisuse::NeedsAddresses),
        None => UNSPEC,
        Some(Addresses::V4 { .. }) => INET << 4 | transport,
        Some(Addresses::V6 { .. }) => INET6 << 4 | transport,
        Some(Addresses::Unix { .. }) => UNIX << 4 | transport,
    };
    let command = if header.addresses.is_some() { PROXY } else { LOCAL };
    wire.extend([command, family, 0, 0]);
    match &header.addresses {
        None => {}
        Some(Addresses::V4 { source, destination }) => {
            wire.extend_from_slice(&source.ip().octets());
            wire.extend_from_slice(&destination.ip().octets());
            push_ports(&mut wire, source.port(), destination.port());
        }
        Some(Addresses::V6 { source, destination }) => {
            wire.extend_from_slice(&source.ip().octets());
            wire.extend_from_slice(&destination.ip().octets());
            push_ports(&mut wire, source.port(), destination.port());
        }
        Some(Addresses::Unix { source, destination }) => {
            for name in [source, destination] {
                let padding = NAME_SIZE.checked_sub(name.len()).ok_or(HeaderMisuse::NameTooLong)?;
                wire.extend_from_slice(name);
                wire.resize(wire.len() + padding, 0);
            }
        }
    }
    tlv::encode(&header.extras, &mut wire)?;
    let checksum = ChecksumField::reserve(&mut wire);
    let size = u16::try_from(wire.len() - FIXED_SIZE).map_err(|_| HeaderMisuse::TooLong)?;
    if wire.len() > SIZE_MAX {
        return Err(HeaderMisuse::TooLong);
    }
    wire[SIZE_AT..FIXED_SIZE].copy_from_slice(&size.to_be_bytes());
    checksum.write(&mut wire);
    out.extend_from_slice(&wire);
    Ok(())
}

fn push_ports(wire: &mut Vec<u8>, source: u16, destination: u16) {
    wire.extend_from_slice(&source.to_be_bytes());
    wire.extend_from_slice(&destination.to_be_bytes());
}

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Offset of the length, which counts the bytes after it.
const SIZE_AT: usize = SIGNATURE.len() + 2;
const FIXED_SIZE: usize = SIZE_AT + 2;
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
const UNSPEC: u8 = 0;
const INET: u8 = 1;
const INET6: u8 = 2;
const UNIX: u8 = 3;
const STREAM: u8 = 1;
const DATAGRAM: u8 = 2;
/// The size of `sun_path` (unix(7)).
const NAME_SIZE: usize = 108;
