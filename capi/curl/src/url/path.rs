//! Paths: dot segments, and URLs relative to others.

use super::encode::encode_invalid;

/// Removes the segments `.` and `..` (RFC 3986 §5.2.4); percent-encoded dots are other characters.
pub(super) fn remove_dot_segments(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<u8> = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some(after) = rest.strip_prefix(b"../").or_else(|| rest.strip_prefix(b"./")) {
        rest = after;
    }
    if matches!(rest, b"." | b"..") {
        rest = b"";
    }
    while !rest.is_empty() {
        let start = usize::from(rest[0] == b'/');
        let len = rest[start..].iter().position(|byte| *byte == b'/');
        let len = len.map_or(rest.len(), |len| start + len);
        let is_last = len == rest.len();
        match &rest[start..len] {
            b"." => {}
            b".." => kept.truncate(kept.iter().rposition(|byte| *byte == b'/').unwrap_or(0)),
            _ => kept.extend(&rest[..len]),
        }
        if is_last && matches!(&rest[start..len], b"." | b"..") {
            kept.push(b'/');
        }
        rest = &rest[len..];
    }
    kept
}

/// The URL that `reference` means in a document at `base`, which is absolute. It is not cleaned
/// yet: only leading `./` and `../` have been applied.
pub(super) fn resolve(base: &[u8], reference: &[u8]) -> Vec<u8> {
    let host = behind_slashes(base);
    let before = |ends: &[u8]| {
        let len = base[host..].iter().position(|byte| ends.contains(byte));
        &base[..len.map_or(base.len(), |len| host + len)]
    };
    match reference {
        [b'/', b'/', reference @ ..] => [&base[..host], &encode_behind_host(reference)].concat(),
        [b'/', ..] => joined(before(b"/?"), reference),
        [b'?', ..] => joined(before(b"?"), reference),
        _ => beside(before(b"?"), host, reference),
    }
}

/// Replaces the last segment of `base`, whose host begins at `host`.
fn beside(base: &[u8], host: usize, reference: &[u8]) -> Vec<u8> {
    let slash = base[host..].iter().rposition(|byte| *byte == b'/');
    let mut kept = &base[..slash.map_or(base.len(), |at| host + at)];
    let first_slash = kept[host..].iter().position(|byte| *byte == b'/');
    let path = first_slash.map(|at| host + at + 1);
    let mut reference = reference.strip_prefix(b"./").unwrap_or(reference);
    while let Some(rest) = reference.strip_prefix(b"../") {
        reference = rest;
        if let Some(path) = path {
            let slash = kept[path..].iter().rposition(|byte| *byte == b'/');
            kept = &kept[..slash.map_or(path, |at| path + at)];
        }
    }
    let has_slash = path == Some(kept.len()) || matches!(reference, [b'/' | b'?', ..]);
    let separator: &[u8] = if has_slash { b"" } else { b"/" };
    joined(&[kept, separator].concat(), reference)
}

fn joined(start: &[u8], reference: &[u8]) -> Vec<u8> {
    let mut url = start.to_vec();
    url.extend(encode_invalid(reference, false));
    url
}

/// A host is not encoded: it may be an international name. libcurl looks for it behind the first
/// two slashes, if there are any.
fn encode_behind_host(reference: &[u8]) -> Vec<u8> {
    let start = behind_slashes(reference);
    let host = reference[start..].iter().position(|byte| matches!(byte, b'/' | b'?'));
    let host = host.map(|len| start + len);
    let (host, rest) = reference.split_at(host.unwrap_or(reference.len()));
    joined(host, rest)
}

fn behind_slashes(text: &[u8]) -> usize {
    text.windows(2).position(|window| window == b"//").map_or(0, |at| at + 2)
}
