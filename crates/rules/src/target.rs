//! The parts of a target (RFC 9112 §3.2).

use std::ops::Range;

/// Where the path of a target begins, and where it ends; the query is behind it, if there is one,
/// with its question mark. A target without a path, as `*`, is a path itself.
pub(crate) fn path_of(target: &[u8]) -> Range<usize> {
    let after_scheme = match target.first() {
        Some(b'/') => 0,
        _ => target.windows(3).position(|part| part == b"://").map_or(0, |at| at + 3),
    };
    let from = |start: usize, stop: fn(u8) -> bool| {
        let found = target[start..].iter().position(|byte| stop(*byte));
        found.map_or(target.len(), |at| start + at)
    };
    let start = match after_scheme {
        0 => 0,
        authority => from(authority, |byte| matches!(byte, b'/' | b'?')),
    };
    start..from(start, |byte| byte == b'?')
}
