//! Parses the first message of a TLS client (RFC 8446 §4.1.2, RFC 6066 §3, RFC 7301 §3.1).
//!
//! The input is the bytes received so far. The message must be in one record, as it is in practice.

/// The first bytes of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HelloResult<'a> {
    /// A complete ClientHello.
    Hello(ClientHello<'a>),
    /// An incomplete ClientHello, possibly.
    Partial,
    /// Not TLS, or malformed.
    SomethingElse,
}

/// A ClientHello.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientHello<'a> {
    /// The legacy version: major and minor.
    pub(crate) version: [u8; 2],
    extensions: &'a [u8],
}

/// Examines the first bytes of a connection.
pub(crate) fn see(bytes: &[u8]) -> HelloResult<'_> {
    let known = [HANDSHAKE, 3];
    if !bytes.iter().zip(known).all(|(have, want)| *have == want) {
        return HelloResult::SomethingElse;
    }
    let Some((header, rest)) = bytes.split_first_chunk::<RECORD_HEADER_LEN>() else {
        return HelloResult::Partial;
    };
    let record_len = usize::from(u16::from_be_bytes([header[3], header[4]]));
    if record_len > RECORD_LEN_MAX {
        return HelloResult::SomethingElse;
    }
    let record = &rest[..rest.len().min(record_len)];
    match record.first() {
        None if record_len > 0 => return HelloResult::Partial,
        Some(&CLIENT_HELLO) => {}
        _ => return HelloResult::SomethingElse,
    }
    let Some((header, body)) = record.split_first_chunk::<4>() else {
        return if record_len < 4 { HelloResult::SomethingElse } else { HelloResult::Partial };
    };
    let len = u32::from_be_bytes([0, header[1], header[2], header[3]]) as usize;
    if len + header.len() > record_len {
        return HelloResult::SomethingElse;
    }
    match body.get(..len) {
        None => HelloResult::Partial,
        Some(message) => parse(message).map_or(HelloResult::SomethingElse, HelloResult::Hello),
    }
}

/// Parses a message without its header.
fn parse(message: &[u8]) -> Option<ClientHello<'_>> {
    let (version, rest) = message.split_first_chunk::<2>()?;
    let rest = rest.get(RANDOM_LEN..)?;
    let (_, rest) = short_block(rest)?; // session ID
    let (suites, rest) = block(rest)?;
    let (compressions, rest) = short_block(rest)?;
    if version[0] != 3 || suites.len() % 2 != 0 || suites.is_empty() || compressions.is_empty() {
        return None;
    }
    let extensions = match rest {
        [] => rest,
        _ => match block(rest)? {
            (extensions, []) => extensions,
            _ => return None,
        },
    };
    let mut left = extensions;
    while !left.is_empty() {
        (_, left) = extension(left)?;
    }
    Some(ClientHello { version: *version, extensions })
}

impl<'a> ClientHello<'a> {
    /// The content of an extension.
    pub(crate) fn extension(&self, wanted: u16) -> Option<&'a [u8]> {
        let mut left = self.extensions;
        loop {
            let ((kind, content), rest) = extension(left)?;
            if kind == wanted {
                return Some(content);
            }
            left = rest;
        }
    }

    /// The requested host name.
    pub(crate) fn server_name(&self) -> Option<&'a [u8]> {
        let (names, _) = block(self.extension(SERVER_NAME)?)?;
        let (kind, rest) = names.split_first()?;
        let (name, _) = block(rest)?;
        (*kind == HOST_NAME && !name.is_empty()).then_some(name)
    }

    /// The offered protocols, separated by commas.
    pub(crate) fn protocols(&self) -> Option<Vec<u8>> {
        let (mut names, _) = block(self.extension(PROTOCOLS)?)?;
        let mut text = Vec::new();
        while !names.is_empty() {
            let (name, rest) = short_block(names)?;
            if !text.is_empty() {
                text.push(b',');
            }
            text.extend_from_slice(name);
            names = rest;
        }
        Some(text)
    }
}

/// The type and the content of an extension.
type HelloExtension<'a> = (u16, &'a [u8]);

/// The first extension, and the rest.
fn extension(bytes: &[u8]) -> Option<(HelloExtension<'_>, &[u8])> {
    let (kind, rest) = bytes.split_first_chunk::<2>()?;
    let (content, rest) = block(rest)?;
    Some(((u16::from_be_bytes(*kind), content), rest))
}

/// Data after a length of two bytes, and the rest.
fn block(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(u16::from_be_bytes(*len).into())
}

/// Data after a length of one byte, and the rest.
fn short_block(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first()?;
    rest.split_at_checked((*len).into())
}

/// Handshake type of a ClientHello.
pub(crate) const CLIENT_HELLO: u8 = 1;
/// The extension `supported_groups`, formerly `elliptic_curves` (RFC 8422 §5.1.1).
pub(crate) const SUPPORTED_GROUPS: u16 = 10;
/// The extension `session_ticket` (RFC 5077 §3.2).
pub(crate) const SESSION_TICKET: u16 = 35;
/// The extension `server_name`.
const SERVER_NAME: u16 = 0;
/// The name type in `server_name`.
const HOST_NAME: u8 = 0;
/// The extension `application_layer_protocol_negotiation`.
const PROTOCOLS: u16 = 16;
/// The record type of handshake messages.
const HANDSHAKE: u8 = 22;
/// Type, version, length.
const RECORD_HEADER_LEN: usize = 5;
/// Limit of a plaintext record (RFC 8446 §5.1).
const RECORD_LEN_MAX: usize = 1 << 14;
/// The client's random bytes.
const RANDOM_LEN: usize = 32;
