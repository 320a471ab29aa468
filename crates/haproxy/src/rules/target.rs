//! The parts of a target (RFC 9112 §3.2).

use std::ops::Range;

/// The path and query of a target: a whole target in origin form, or the text after the authority
/// in absolute form. `None` without a path, as for `*`, an authority, or `http://host?query` (RFC
/// 3986 §3.3: a path begins with a slash).
pub fn path_and_query_of(target: &[u8]) -> Option<&[u8]> {
    let start = authority_of(target).map_or(0, |place| place.end);
    Some(&target[start..]).filter(|rest| rest.first() == Some(&b'/'))
}

/// The range of the path; a query with its question mark follows. A target such as `*` is a path as
/// a whole.
pub(crate) fn path_of(target: &[u8]) -> Range<usize> {
    let start = authority_of(target).map_or(0, |place| place.end);
    let query = target[start..].iter().position(|byte| *byte == b'?');
    start..query.map_or(target.len(), |at| start + at)
}

/// The range of the authority of a target in absolute form: after the scheme (RFC 3986 §3.1), up to
/// the path or the query.
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
