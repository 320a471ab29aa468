//! The extra fields of version 2: a list of type, length, value (§2.2).

use super::{HeaderError, HeaderMisuse};

/// Extra fields about the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// The negotiated application protocol (RFC 7301).
    pub alpn: Option<Vec<u8>>,
    /// The requested host name, such as TLS `server_name`.
    pub authority: Option<String>,
    /// The proxy's identifier of the connection, up to 128 bytes.
    pub unique_id: Option<Vec<u8>>,
    /// The client's TLS.
    pub tls: Option<Tls>,
    /// The network namespace of the proxy's socket.
    pub namespace: Option<String>,
    /// Fields of other types, in order; types from 0xe0 are for private use.
    pub others: Vec<(u8, Vec<u8>)>,
}

/// The client's TLS parameters (§2.2.6).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Bits: 1, TLS is used; 2, the client sent a certificate on this connection; 4, in this
    /// session.
    pub client: u8,
    /// 0: the client sent a certificate, and it was verified.
    pub verify: u32,
    /// The version, such as `TLSv1.3`.
    pub version: Option<String>,
    /// The common name of the client's certificate.
    pub common_name: Option<String>,
    /// The cipher suite.
    pub cipher: Option<String>,
    /// The signature algorithm of the proxy's certificate.
    pub signature_algorithm: Option<String>,
    /// The key algorithm of the proxy's certificate.
    pub key_algorithm: Option<String>,
    /// Fields of other types, in order.
    pub others: Vec<(u8, Vec<u8>)>,
}

/// Parses the list that begins at `at` of a complete header.
pub(super) fn decode(header: &[u8], at: usize) -> Result<Extras, HeaderError> {
    let mut extras = Extras::default();
    let mut checked = false;
    let mut rest = &header[at..];
    while let Some((kind, value, next)) = split(rest)? {
        let value_at = header.len() - next.len() - value.len();
        rest = next;
        match kind {
            ALPN => set(&mut extras.alpn, kind, some(value).map(<[u8]>::to_vec))?,
            AUTHORITY => set(&mut extras.authority, kind, text(value))?,
            CRC32C if checked => return Err(HeaderError::BadExtra(kind)),
            CRC32C => {
                checked = true;
                verify(header, value_at, value)?;
            }
            NOOP => {}
            UNIQUE_ID => {
                let fits = value.len() <= UNIQUE_ID_SIZE_MAX;
                set(&mut extras.unique_id, kind, fits.then(|| value.to_vec()))?;
            }
            TLS => set(&mut extras.tls, kind, Some(tls(value)?))?,
            NAMESPACE => set(&mut extras.namespace, kind, text(value))?,
            _ => extras.others.push((kind, value.to_vec())),
        }
    }
    Ok(extras)
}

fn tls(value: &[u8]) -> Result<Tls, HeaderError> {
    let Some((&[client, a, b, c, d], mut rest)) = value.split_first_chunk() else {
        return Err(HeaderError::BadExtra(TLS));
    };
    let verify = u32::from_be_bytes([a, b, c, d]);
    let mut tls = Tls { client, verify, ..Tls::default() };
    while let Some((kind, value, next)) = split(rest)? {
        rest = next;
        match kind {
            TLS_VERSION => set(&mut tls.version, kind, text(value))?,
            TLS_COMMON_NAME => set(&mut tls.common_name, kind, text(value))?,
            TLS_CIPHER => set(&mut tls.cipher, kind, text(value))?,
            TLS_SIGNATURE => set(&mut tls.signature_algorithm, kind, text(value))?,
            TLS_KEY => set(&mut tls.key_algorithm, kind, text(value))?,
            _ => tls.others.push((kind, value.to_vec())),
        }
    }
    Ok(tls)
}

/// The first element of a list: type, value, and the rest of the list.
type TlvSplit<'a> = (u8, &'a [u8], &'a [u8]);

/// Splits off the first element.
fn split(list: &[u8]) -> Result<Option<TlvSplit<'_>>, HeaderError> {
    let Some(kind) = list.first().copied() else { return Ok(None) };
    let malformed = HeaderError::BadExtra(kind);
    let (&[_, high, low], rest) = list.split_first_chunk().ok_or(malformed)?;
    let size = usize::from(u16::from_be_bytes([high, low]));
    let (value, rest) = rest.split_at_checked(size).ok_or(malformed)?;
    Ok(Some((kind, value, rest)))
}

/// A repeated field is an error, because parsers differ in which one they use.
fn set<T>(place: &mut Option<T>, kind: u8, value: Option<T>) -> Result<(), HeaderError> {
    match value {
        Some(value) if place.is_none() => *place = Some(value),
        _ => return Err(HeaderError::BadExtra(kind)),
    }
    Ok(())
}

fn some(value: &[u8]) -> Option<&[u8]> {
    (!value.is_empty()).then_some(value)
}

/// A text without control characters, because it is used in logs and comparisons.
fn text(value: &[u8]) -> Option<String> {
    let text = str::from_utf8(some(value)?).ok()?;
    (!text.chars().any(char::is_control)).then(|| text.to_owned())
}

/// Verifies the checksum: that of the complete header, with zeros in its place (§2.2.3).
fn verify(header: &[u8], at: usize, value: &[u8]) -> Result<(), HeaderError> {
    let expected: [u8; 4] = value.try_into().map_err(|_| HeaderError::BadExtra(CRC32C))?;
    let sum = checksum(&header[..at], &header[at + expected.len()..]);
    if sum == u32::from_be_bytes(expected) { Ok(()) } else { Err(HeaderError::BadChecksum) }
}

fn checksum(before: &[u8], after: &[u8]) -> u32 {
    let mut digest = CASTAGNOLI.digest();
    digest.update(before);
    digest.update(&[0; 4]);
    digest.update(after);
    digest.finalize()
}

/// Appends the list.
pub(super) fn encode(extras: &Extras, out: &mut Vec<u8>) -> Result<(), HeaderMisuse> {
    let Extras { alpn, authority, unique_id, tls, namespace, others } = extras;
    push_bytes(out, ALPN, alpn.as_deref())?;
    push_text(out, AUTHORITY, authority.as_deref())?;
    if let Some(id) = unique_id {
        if id.len() > UNIQUE_ID_SIZE_MAX {
            return Err(HeaderMisuse::BadExtra(UNIQUE_ID));
        }
        push(out, UNIQUE_ID, id)?;
    }
    if let Some(tls) = tls {
        let mut value = vec![tls.client];
        value.extend_from_slice(&tls.verify.to_be_bytes());
        push_text(&mut value, TLS_VERSION, tls.version.as_deref())?;
        push_text(&mut value, TLS_COMMON_NAME, tls.common_name.as_deref())?;
        push_text(&mut value, TLS_CIPHER, tls.cipher.as_deref())?;
        push_text(&mut value, TLS_SIGNATURE, tls.signature_algorithm.as_deref())?;
        push_text(&mut value, TLS_KEY, tls.key_algorithm.as_deref())?;
        push_others(&mut value, &tls.others, IN_TLS)?;
        push(out, TLS, &value)?;
    }
    push_text(out, NAMESPACE, namespace.as_deref())?;
    push_others(out, others, KNOWN)
}

/// Appends the fields without a member of their own, which must not be in `known`.
fn push_others(
    out: &mut Vec<u8>,
    others: &[(u8, Vec<u8>)],
    known: &[u8],
) -> Result<(), HeaderMisuse> {
    for (kind, value) in others {
        if known.contains(kind) {
            return Err(HeaderMisuse::BadExtra(*kind));
        }
        push(out, *kind, value)?;
    }
    Ok(())
}

fn push_text(out: &mut Vec<u8>, kind: u8, value: Option<&str>) -> Result<(), HeaderMisuse> {
    if value.is_some_and(|value| text(value.as_bytes()).is_none()) {
        return Err(HeaderMisuse::BadExtra(kind));
    }
    push_bytes(out, kind, value.map(str::as_bytes))
}

fn push_bytes(out: &mut Vec<u8>, kind: u8, value: Option<&[u8]>) -> Result<(), HeaderMisuse> {
    match value {
        None => Ok(()),
        Some([]) => Err(HeaderMisuse::BadExtra(kind)),
        Some(value) => push(out, kind, value),
    }
}

fn push(out: &mut Vec<u8>, kind: u8, value: &[u8]) -> Result<(), HeaderMisuse> {
    let size = u16::try_from(value.len()).map_err(|_| HeaderMisuse::BadExtra(kind))?;
    out.push(kind);
    out.extend_from_slice(&size.to_be_bytes());
    out.extend_from_slice(value);
    Ok(())
}

/// The position of the checksum in a header that is being encoded.
pub(super) struct ChecksumField(usize);

impl ChecksumField {
    /// Reserves space for it at the end.
    pub(super) fn reserve(out: &mut Vec<u8>) -> Self {
        out.extend([CRC32C, 0, 4]);
        let at = out.len();
        out.extend([0; 4]);
        Self(at)
    }

    /// Called when everything else was written.
    pub(super) fn write(self, out: &mut [u8]) {
        let (before, rest) = out.split_at_mut(self.0);
        let (place, after) = rest.split_at_mut(4);
        place.copy_from_slice(&checksum(before, after).to_be_bytes());
    }
}

const ALPN: u8 = 0x01;
const AUTHORITY: u8 = 0x02;
const CRC32C: u8 = 0x03;
const NOOP: u8 = 0x04;
const UNIQUE_ID: u8 = 0x05;
const TLS: u8 = 0x20;
const TLS_VERSION: u8 = 0x21;
const TLS_COMMON_NAME: u8 = 0x22;
const TLS_CIPHER: u8 = 0x23;
const TLS_SIGNATURE: u8 = 0x24;
const TLS_KEY: u8 = 0x25;
const NAMESPACE: u8 = 0x30;
const KNOWN: &[u8] = &[ALPN, AUTHORITY, CRC32C, NOOP, UNIQUE_ID, TLS, NAMESPACE];
const IN_TLS: &[u8] = &[TLS_VERSION, TLS_COMMON_NAME, TLS_CIPHER, TLS_SIGNATURE, TLS_KEY];
const UNIQUE_ID_SIZE_MAX: usize = 128;
/// CRC-32C (RFC 4960 appendix B).
const CASTAGNOLI: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI);
