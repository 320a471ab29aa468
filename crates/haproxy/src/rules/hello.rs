//! The first message of a TLS client, looked at without taking part (RFC 8446 §4.1.2, RFC 6066 §3,
//! RFC 7301 §3.1).
//!
//! Bytes go in as they have arrived; out comes a view of the message, or that more is needed, or
//! that it is something else. The message has to stand in one record, as everybody sends it.

/// What the first bytes of a connection are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seen<'a> {
    /// A whole ClientHello.
    Hello(Hello<'a>),
    /// The beginning of one, perhaps.
    Partial,
    /// Not TLS, or not as it must be.
    SomethingElse,
}

/// A ClientHello.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hello<'a> {
    /// The version that old servers look at: major and minor.
    pub(crate) version: [u8; 2],
    extensions: &'a [u8],
}

/// Looks at the first bytes of a connection.
pub(crate) fn see(bytes: &[u8]) -> Seen<'_> {
    let known = [HANDSHAKE, 3];
    if !bytes.iter().zip(known).all(|(have, want)| *have == want) {
        return Seen::SomethingElse;
    }
    let Some((header, rest)) = bytes.split_first_chunk::<RECORD_HEADER_LEN>() else {
        return Seen::Partial;
    };
    let record_len = usize::from(u16::from_be_bytes([header[3], header[4]]));
    if record_len > RECORD_LEN_MAX {
        return Seen::SomethingElse;
    }
    let record = &rest[..rest.len().min(record_len)];
    match record.first() {
        None if record_len > 0 => return Seen::Partial,
        Some(&CLIENT_HELLO) => {}
        _ => return Seen::SomethingElse,
    }
    let Some((header, body)) = record.split_first_chunk::<4>() else {
        return if record_len < 4 { Seen::SomethingElse } else { Seen::Partial };
    };
    let len = u32::from_be_bytes([0, header[1], header[2], header[3]]) as usize;
    if len + header.len() > record_len {
        return Seen::SomethingElse;
    }
    match body.get(..len) {
        None => Seen::Partial,
        Some(message) => parse(message).map_or(Seen::SomethingElse, Seen::Hello),
    }
}

/// A message without its header.
fn parse(message: &[u8]) -> Option<Hello<'_>> {
    let (version, rest) = message.split_first_chunk::<2>()?;
    let rest = rest.get(RANDOM_LEN..)?;
    let (_, rest) = short_block(rest)?; // the session's name
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
    Some(Hello { version: *version, extensions })
}

impl<'a> Hello<'a> {
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

    /// The host that the client wants to talk to.
    pub(crate) fn server_name(&self) -> Option<&'a [u8]> {
        let (names, _) = block(self.extension(SERVER_NAME)?)?;
        let (kind, rest) = names.split_first()?;
        let (name, _) = block(rest)?;
        (*kind == HOST_NAME && !name.is_empty()).then_some(name)
    }

    /// The protocols that it offers, with commas between them.
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
type Extension<'a> = (u16, &'a [u8]);

/// The first extension of several, and the others.
fn extension(bytes: &[u8]) -> Option<(Extension<'_>, &[u8])> {
    let (kind, rest) = bytes.split_first_chunk::<2>()?;
    let (content, rest) = block(rest)?;
    Some(((u16::from_be_bytes(*kind), content), rest))
}

/// What a length of two bytes precedes, and what follows it.
fn block(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(u16::from_be_bytes(*len).into())
}

/// What a length of one byte precedes, and what follows it.
fn short_block(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first()?;
    rest.split_at_checked((*len).into())
}

/// The type of a ClientHello among handshake messages.
pub(crate) const CLIENT_HELLO: u8 = 1;
/// The extension `supported_groups`, once `elliptic_curves` (RFC 8422 §5.1.1).
pub(crate) const SUPPORTED_GROUPS: u16 = 10;
/// The extension `session_ticket` (RFC 5077 §3.2).
pub(crate) const SESSION_TICKET: u16 = 35;
/// The extension `server_name`.
const SERVER_NAME: u16 = 0;
/// The kind of name that `server_name` has.
const HOST_NAME: u8 = 0;
/// The extension `application_layer_protocol_negotiation`.
const PROTOCOLS: u16 = 16;
/// The type of a record with handshake messages.
const HANDSHAKE: u8 = 22;
/// Type, version, length.
const RECORD_HEADER_LEN: usize = 5;
/// What a record of plain text may have (RFC 8446 §5.1).
const RECORD_LEN_MAX: usize = 1 << 14;
/// The client's random bytes.
const RANDOM_LEN: usize = 32;
