//! Normalization of targets (HAProxy's manual, §4.2, `http-request normalize-uri`; RFC 3986
//! §6.2.2). Fragments and invalid escapes do not occur: the parser rejects them.

use super::target_part::TargetPart;
use crate::rules::hex::hex_digit;

/// A normalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalizer {
    /// `path-merge-slashes`: merges consecutive slashes.
    MergeSlashes,
    /// `path-strip-dot`: removes `/./`.
    StripDot,
    /// `path-strip-dotdot`: resolves `/../`, except at the start; with `full` also there.
    StripDotDot {
        /// `full`.
        full: bool,
    },
    /// `percent-decode-unreserved`: decodes escapes of unreserved characters (RFC 3986 §2.3).
    DecodeUnreserved,
    /// `percent-to-uppercase`: converts escapes to upper case.
    UppercaseEscapes,
    /// `query-sort-by-name`.
    SortQuery,
    /// `fragment-strip`, `fragment-encode`: targets have no fragments.
    Fragment,
}

impl Normalizer {
    /// The part that it changes, and its text; a query includes the question mark.
    pub(super) fn reads<'t>(self, path: &'t [u8], query: &'t [u8]) -> (TargetPart, &'t [u8]) {
        match self {
            Self::SortQuery => (TargetPart::Query, query.strip_prefix(b"?").unwrap_or_default()),
            _ => (TargetPart::Path, path),
        }
    }
}

/// Normalizes a part.
pub(super) fn normalized(normalizer: Normalizer, old: &[u8]) -> Vec<u8> {
    match normalizer {
        Normalizer::MergeSlashes => merge_slashes(old),
        Normalizer::StripDot => strip_dot(old),
        Normalizer::StripDotDot { full } => strip_dot_dot(old, full),
        Normalizer::DecodeUnreserved => map_escapes(old, |byte, triplet, out| match byte {
            b'-' | b'.' | b'_' | b'~' => out.push(byte),
            _ if byte.is_ascii_alphanumeric() => out.push(byte),
            _ => out.extend_from_slice(triplet),
        }),
        Normalizer::UppercaseEscapes => map_escapes(old, |_, triplet, out| {
            out.extend(triplet.iter().map(u8::to_ascii_uppercase));
        }),
        Normalizer::SortQuery => sort(old),
        Normalizer::Fragment => old.to_vec(),
    }
}

fn merge_slashes(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for byte in path {
        if *byte != b'/' || out.last() != Some(&b'/') {
            out.push(*byte);
        }
    }
    out
}

fn strip_dot(path: &[u8]) -> Vec<u8> {
    let mut segments: Vec<_> = path.split(|byte| *byte == b'/').collect();
    let ends_so = segments.len() > 1 && segments.last() == Some(&&b"."[..]);
    segments.retain(|segment| *segment != b".");
    if ends_so {
        segments.push(b""); // `/a/.` is the directory `/a/`
    }
    segments.join(&b'/')
}

fn strip_dot_dot(path: &[u8], full: bool) -> Vec<u8> {
    let Some(relative) = path.strip_prefix(b"/") else { return path.to_vec() };
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut ends_so = false;
    for segment in relative.split(|byte| *byte == b'/') {
        ends_so = false;
        match kept.last() {
            _ if segment != b".." => kept.push(segment),
            Some(last) if *last != b".." => {
                kept.pop();
                ends_so = true;
            }
            _ if full => ends_so = true,
            _ => kept.push(segment),
        }
    }
    if ends_so {
        kept.push(b""); // `/a/b/..` is the directory `/a/`
    }
    [b"/", &kept.join(&b'/')[..]].concat()
}

fn map_escapes(path: &[u8], mut write: impl FnMut(u8, &[u8], &mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [first, tail @ ..] = rest {
        rest = match tail {
            [high, low, after @ ..]
                if *first == b'%' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                write(hex_digit(*high) << 4 | hex_digit(*low), &rest[..3], &mut out);
                after
            }
            _ => {
                out.push(*first);
                tail
            }
        };
    }
    out
}

fn sort(query: &[u8]) -> Vec<u8> {
    let mut parameters: Vec<_> = query.split(|byte| *byte == b'&').collect();
    parameters.sort_by_key(|parameter| parameter.split(|byte| *byte == b'=').next());
    parameters.join(&b'&')
}
