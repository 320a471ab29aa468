//! The parts of a target (RFC 9112 §3.2).

use std::ops::Range;

/// The path of a target with its query: what a target in origin form is as a whole, and what stands
/// behind the authority of one in absolute form. `None`: it has no path, as `*`, an authority
/// alone, or `http://host?query` (RFC 3986 §3.3: a path begins with a slash).
pub fn path_and_query_of(target: &[u8]) -> Option<&[u8]> {
    let start = authority_of(target).map_or(0, |place| place.end);
    Some(&target[start..]).filter(|rest| rest.first() == Some(&b'/'))
}

/// Where the path of a target begins, and where it ends; the query is behind it, if there is one,
/// with its question mark. A target without a path, as `*`, is a path itself.
pub(crate) fn path_of(target: &[u8]) -> Range<usize> {
    let start = authority_of(target).map_or(0, |place| place.end);
    let query = target[start..].iter().position(|byte| *byte == b'?');
    start..query.map_or(target.len(), |at| start + at)
}

/// Where the authority stands in a target in absolute form: behind a scheme (RFC 3986 §3.1), up to
/// the path or the query, whichever comes first.
pub fn authority_of(target: &[u8]) -> Option<Range<usize>> {
    let of_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let colon = target.iter().position(|byte| !of_scheme(byte)).filter(|len| *len > 0)?;
    if !target[colon..].starts_with(b"://") {
        return None;
    }
    let start = colon + 3;
    let end = target[start..].iter().position(|byte| matches!(byte, b'/' | b'?'));
    Some(start..end.map_or(target.len(), |at| start + at))
}
