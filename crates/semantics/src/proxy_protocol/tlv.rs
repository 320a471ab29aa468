//! What version 2 says besides addresses: a list of type, length, value (§2.2).

use super::{HeaderError, HeaderMisuse};

/// What a proxy knows of its client besides addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// The protocol that was agreed on (RFC 7301).
    pub alpn: Option<Vec<u8>>,
    /// The name that the client asked for, as in TLS's `server_name`.
    pub authority: Option<String>,
    /// What the proxy calls the connection, of up to 128 bytes.
    pub unique_id: Option<Vec<u8>>,
    /// The client's TLS.
    pub tls: Option<Tls>,
    /// The network namespace of the proxy's socket.
    pub namespace: Option<String>,
    /// What has another type, in order: types from 0xe0 on are everybody's own.
    pub others: Vec<(u8, Vec<u8>)>,
}

/// The client's TLS, as its proxy tells of it (§2.2.6).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Its bits: 1, TLS is used; 2, a certificate came over this connection; 4, one came over
    /// this session.
    pub client: u8,
    /// 0: the client showed a certificate, and it was verified.
    pub verify: u32,
    /// As `TLSv1.3`.
    pub version: Option<String>,
    /// The common name of the client's certificate.
    pub common_name: Option<String>,
    /// The cipher.
    pub cipher: Option<String>,
    /// How the proxy's certificate is signed.
    pub signature_algorithm: Option<String>,
    /// What its key is.
    pub key_algorithm: Option<String>,
    /// What has another type, in order.
    pub others: Vec<(u8, Vec<u8>)>,
}

/// Reads the list that begins at `at` of a whole header.
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

/// Of a list: the type of the first, its value, and what follows it.
type Split<'a> = (u8, &'a [u8], &'a [u8]);

/// Takes the first off a list.
fn split(list: &[u8]) -> Result<Option<Split<'_>>, HeaderError> {
    let Some(kind) = list.first().copied() else { return Ok(None) };
    let malformed = HeaderError::BadExtra(kind);
    let (&[_, high, low], rest) = list.split_first_chunk().ok_or(malformed)?;
    let size = usize::from(u16::from_be_bytes([high, low]));
    let (value, rest) = rest.split_at_checked(size).ok_or(malformed)?;
    Ok(Some((kind, value, rest)))
}

/// Which of two a reader believes is its own choice: so neither is.
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

/// A name: it ends up in logs and comparisons, so no control characters.
fn text(value: &[u8]) -> Option<String> {
    let text = str::from_utf8(some(value)?).ok()?;
    (!text.chars().any(char::is_control)).then(|| text.to_owned())
}

/// The checksum is that of the whole header, with zeroes in its own place (§2.2.3).
fn verify(header: &[u8], at: usize, value: &[u8]) -> Result<(), HeaderError> {
    let told: [u8; 4] = value.try_into().map_err(|_| HeaderError::BadExtra(CRC32C))?;
    let sum = checksum(&header[..at], &header[at + told.len()..]);
    if sum == u32::from_be_bytes(told) { Ok(()) } else { Err(HeaderError::BadChecksum) }
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

/// Those that have no place of their own, which are `known`.
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

/// The place of a checksum in a header that is being written.
pub(super) struct Checksum(usize);

impl Checksum {
    /// Makes room for it at the end.
    pub(super) fn reserve(out: &mut Vec<u8>) -> Self {
        out.extend([CRC32C, 0, 4]);
        let at = out.len();
        out.extend([0; 4]);
        Self(at)
    }

    /// Everything else is written.
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
