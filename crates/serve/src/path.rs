//! From a request target to a name below the root (RFC 3986 §3.3, RFC 9112 §3.2).
//!
//! Pure, without file system access: no target leads out of the root. The kernel also confines
//! names to the root ([`crate::root`]), because links can lead out too.
//!
//! Rules:
//! - Escapes are decoded once, segment by segment: `%252e` is the name `%2e`.
//! - `..` is refused, written plainly or with escapes: clients resolve it themselves.
//! - `.` segments and empty ones are left out, so `//a/./b` is `a/b`.
//! - An escaped slash is a byte of a segment. No file name contains one, so nothing is found.
//! - A backslash is a byte of a name like any other.
//! - The query is no part of the name; [`query_of`] returns it.

use std::ffi::CStr;

use percent_encoding::{AsciiSet, CONTROLS, PercentEncode, percent_decode, percent_encode};

/// A name below the root: segments joined by single slashes, none of them `.`, `..` or empty. Its
/// memory is reused for the next request.
#[derive(Clone, Debug)]
pub struct Name {
    /// The segments, a slash at the end if the target had one, and NUL.
    bytes: Vec<u8>,
}

/// Why a target is not a valid name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathError {
    /// Neither origin-form nor absolute-form of http or https.
    NotAPath,
    /// A percent sign without two hexadecimal digits.
    BadEscape,
    /// A NUL byte.
    Nul,
    /// A `..` segment.
    Climbs,
    /// An encoded slash in a segment.
    EscapedSlash,
    /// A segment that begins with a dot, if these are hidden.
    Hidden,
}

impl Name {
    /// The root itself.
    pub fn new() -> Self {
        Self { bytes: vec![0] }
    }

    /// Parses a request target. After an error the name is that of the root.
    ///
    /// ```
    /// use fulmar_serve::path::Name;
    /// let mut name = Name::new();
    /// name.read(b"/caf%C3%A9/?menu", false).unwrap();
    /// assert_eq!(name.bytes(), "café".as_bytes());
    /// assert!(name.is_directory());
    /// ```
    ///
    /// # Errors
    /// The variant is the cause; see also [`PathError::is_malformed`].
    pub fn read(&mut self, target: &[u8], hidden: bool) -> Result<(), PathError> {
        self.bytes.clear();
        let result = path_of(target).and_then(|path| self.read_path(path, hidden));
        if result.is_err() {
            self.bytes.clear();
        }
        self.bytes.push(0);
        result
    }

    fn read_path(&mut self, path: &[u8], hidden: bool) -> Result<(), PathError> {
        let mut last = &b""[..];
        for segment in path.split(|byte| *byte == b'/') {
            last = segment;
            self.push_segment(segment, hidden)?;
        }
        if !last.is_empty() && last != b"." && !self.bytes.is_empty() {
            self.bytes.pop();
        }
        Ok(())
    }

    /// Appends a segment and a slash.
    fn push_segment(&mut self, segment: &[u8], hidden: bool) -> Result<(), PathError> {
        let start = self.bytes.len();
        if segment.contains(&b'%') {
            check_escapes(segment)?;
            self.bytes.extend(percent_decode(segment));
        } else {
            self.bytes.extend_from_slice(segment);
        }
        match &self.bytes[start..] {
            b"" => return Ok(()),
            b"." => {
                self.bytes.truncate(start);
                return Ok(());
            }
            b".." => return Err(PathError::Climbs),
            name if name.contains(&0) => return Err(PathError::Nul),
            name if name.contains(&b'/') => return Err(PathError::EscapedSlash),
            [b'.', ..] if !hidden => return Err(PathError::Hidden),
            _ => {}
        }
        self.bytes.push(b'/');
        Ok(())
    }

    /// The segments joined by slashes; empty for the root.
    pub fn bytes(&self) -> &[u8] {
        let key = self.key();
        key.strip_suffix(b"/").unwrap_or(key)
    }

    /// [`Name::bytes`] with the trailing slash of the target, because `a` and `a/` have different
    /// responses. The key of the root is empty.
    pub fn key(&self) -> &[u8] {
        &self.bytes[..self.bytes.len() - 1]
    }

    /// True if the target ended in a slash.
    pub fn is_directory(&self) -> bool {
        matches!(self.key(), [] | [.., b'/'])
    }

    /// The name for a system call; `.` for the root.
    pub fn as_c_str(&self) -> &CStr {
        if self.key().is_empty() {
            return c".";
        }
        CStr::from_bytes_with_nul(&self.bytes).expect("one NUL, at the end")
    }

    /// Appends `child`, a name in this directory.
    ///
    /// # Panics
    /// If `child` is not the name of a file, or this is not the name of a directory.
    pub fn enter(&mut self, child: &str) {
        assert!(self.is_directory() && !child.is_empty() && !child.contains(['/', '\0']));
        assert!(child != "." && child != "..");
        self.bytes.pop();
        self.bytes.extend_from_slice(child.as_bytes());
        self.bytes.push(0);
    }
}

impl Default for Name {
    fn default() -> Self {
        Self::new()
    }
}

impl PathError {
    /// True if the target is malformed. False if it just cannot exist.
    pub fn is_malformed(self) -> bool {
        match self {
            Self::NotAPath | Self::BadEscape | Self::Nul | Self::Climbs => true,
            Self::EscapedSlash | Self::Hidden => false,
        }
    }
}

/// The path of a target in origin-form or absolute-form, without the query.
fn path_of(target: &[u8]) -> Result<&[u8], PathError> {
    let end = target.iter().position(|b| matches!(b, b'?' | b'#')).unwrap_or(target.len());
    let target = &target[..end];
    if target.starts_with(b"/") {
        return Ok(target);
    }
    let rest = strip_scheme(target, b"http://").or_else(|| strip_scheme(target, b"https://"));
    let rest = rest.ok_or(PathError::NotAPath)?;
    let slash = rest.iter().position(|b| *b == b'/');
    Ok(slash.map_or(b"/", |at| &rest[at..]))
}

/// The query of a target with its `?`, percent-encoded where a byte is not visible ASCII; without
/// the fragment. Empty if there is none.
///
/// ```
/// use fulmar_serve::path::query_of;
/// assert_eq!(query_of(b"/menu?day=1").to_string(), "?day=1");
/// ```
pub fn query_of(target: &[u8]) -> PercentEncode<'_> {
    let target = target.split(|b| *b == b'#').next().unwrap_or_default();
    let start = target.iter().position(|b| *b == b'?').unwrap_or(target.len());
    percent_encode(&target[start..], UNSAFE_IN_QUERY)
}

/// Schemes are compared without case (RFC 3986 §3.1).
fn strip_scheme<'a>(target: &'a [u8], scheme: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = target.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

fn check_escapes(segment: &[u8]) -> Result<(), PathError> {
    let mut rest = segment;
    while let Some(at) = rest.iter().position(|b| *b == b'%') {
        match &rest[at + 1..] {
            [a, b, later @ ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => rest = later,
            _ => return Err(PathError::BadEscape),
        }
    }
    Ok(())
}

/// In addition to bytes of 128 and above, which are always encoded.
const UNSAFE_IN_QUERY: &AsciiSet = &CONTROLS.add(b' ');

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(target: &str) -> Result<String, PathError> {
        let mut name = Name::new();
        name.read(target.as_bytes(), false)?;
        Ok(String::from_utf8_lossy(name.key()).into_owned())
    }

    #[test]
    fn targets_become_names() {
        for (target, key) in [
            ("/", ""),
            ("/a", "a"),
            ("/a/", "a/"),
            ("/a/b.txt", "a/b.txt"),
            ("/a/b?c/../d", "a/b"),
            ("/?x", ""),
            ("/a#b", "a"),
            ("//a", "a"),
            ("//", ""),
            ("//a///b//", "a/b/"),
            ("/./a/./b", "a/b"),
            ("/a/.", "a/"),
            ("/a/./", "a/"),
            ("/.", ""),
            ("/%2e/a", "a"),
            ("/a%20b", "a b"),
            ("/%252e%252e", "%2e%2e"),
            ("/a%5Cb", "a\\b"),
            ("/a\\..\\b", "a\\..\\b"),
            ("/caf%C3%A9", "café"),
            ("/a..b/c..", "a..b/c.."),
            ("http://h", ""),
            ("http://h?q", ""),
            ("http://h/a/", "a/"),
            ("HTTPS://h:8080/a", "a"),
            ("http://h//a", "a"),
        ] {
            assert_eq!(read(target).as_deref(), Ok(key), "{target}");
        }
    }

    #[test]
    fn query_is_cut_out_and_made_of_visible_ascii() {
        for (target, query) in [
            (&b"/a"[..], ""),
            (b"/a#b?c", ""),
            (b"/a?", "?"),
            (b"/a?b?c=%20&d#e?f", "?b?c=%20&d"),
            (b"http://h?q", "?q"),
            (b"/a?b c\r\n\xff", "?b%20c%0D%0A%FF"),
        ] {
            assert_eq!(query_of(target).to_string(), query, "{}", target.escape_ascii());
        }
    }

    #[test]
    fn invalid_names_are_refused() {
        for (target, error) in [
            ("", PathError::NotAPath),
            ("*", PathError::NotAPath),
            ("a", PathError::NotAPath),
            ("h:80", PathError::NotAPath),
            ("ftp://h/a", PathError::NotAPath),
            ("http:/a", PathError::NotAPath),
            ("/%", PathError::BadEscape),
            ("/%2", PathError::BadEscape),
            ("/%zz", PathError::BadEscape),
            ("/a/%%32e", PathError::BadEscape),
            ("/a%00", PathError::Nul),
            ("/..", PathError::Climbs),
            ("/a/../b", PathError::Climbs),
            ("/a/..", PathError::Climbs),
            ("/%2e%2e/a", PathError::Climbs),
            ("/%2E./a", PathError::Climbs),
            ("http://h/..", PathError::Climbs),
            ("/a%2fb", PathError::EscapedSlash),
            ("/..%2f..%2fetc", PathError::EscapedSlash),
            ("/%2F", PathError::EscapedSlash),
            ("/.git/config", PathError::Hidden),
            ("/a/%2Egit", PathError::Hidden),
            ("/...", PathError::Hidden),
        ] {
            assert_eq!(read(target), Err(error), "{target}");
        }
    }

    #[test]
    fn dot_files_are_found_if_enabled() {
        let mut name = Name::new();
        name.read(b"/.git/config", true).unwrap();
        assert_eq!(name.bytes(), b".git/config");
        assert_eq!(name.read(b"/../a", true), Err(PathError::Climbs));
        assert_eq!(name.as_c_str(), c".");
    }

    #[test]
    fn a_directory_is_entered() {
        let mut name = Name::new();
        assert_eq!(name.as_c_str(), c".");
        name.enter("index.html");
        assert_eq!(name.as_c_str(), c"index.html");
        name.read(b"/a/b/", false).unwrap();
        assert_eq!(name.as_c_str(), c"a/b/");
        name.enter("index.html");
        assert_eq!(name.as_c_str(), c"a/b/index.html");
        assert!(!name.is_directory());
    }

    fn assert_stays_below(target: &[u8], hidden: bool) {
        let mut name = Name::new();
        let result = name.read(target, hidden);
        let bytes = name.bytes();
        assert!(!bytes.contains(&0) && !bytes.starts_with(b"/"));
        if !bytes.is_empty() {
            for segment in bytes.split(|b| *b == b'/') {
                assert!(!matches!(segment, b"" | b"." | b".."), "{bytes:?}");
                assert!(hidden || segment[0] != b'.');
            }
        }
        assert!(result.is_ok() || bytes.is_empty());
        assert!(name.as_c_str().to_bytes().starts_with(bytes) || bytes.is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_stay_below_the_root(target: Vec<u8>, hidden: bool) {
            assert_stays_below(&target, hidden);
        }

        #[test]
        fn any_dots_and_slashes_stay_below_the_root(
            parts in proptest::collection::vec(
                proptest::sample::select(vec![
                    "/", ".", "..", "%2e", "%2E", "%2f", "%5c", "\\", "a", "%", "25", "%00", "?",
                    "http://", "%c0%ae", "%252e",
                ]), 0..12),
            hidden: bool,
        ) {
            assert_stays_below(parts.concat().as_bytes(), hidden);
            assert_stays_below(format!("/{}", parts.concat()).as_bytes(), hidden);
        }
    }
}
