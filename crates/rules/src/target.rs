//! The parts of a target (RFC 9112 §3.2).

use std::ops::Range;

/// Where the path of a target begins, and where it ends; the query is behind it, if there is one,
/// with its question mark. A target without a path, as `*`, is a path itself.
pub(crate) fn path_of(target: &[u8]) -> Range<usize> {
    let start = authority_of(target).map_or(0, |place| place.end);
    let query = target[start..].iter().position(|byte| *byte == b'?');
    start..query.map_or(target.len(), |at| start + at)
}

/// Where the authority stands in a target in absolute form.
pub(crate) fn authority_of(target: &[u8]) -> Option<Range<usize>> {
    if target.first() == Some(&b'/') {
        return None;
    }
    let start = target.windows(3).position(|part| part == b"://")? + 3;
    let end = target[start..].iter().position(|byte| matches!(byte, b'/' | b'?'));
    Some(start..end.map_or(target.len(), |at| start + at))
}
