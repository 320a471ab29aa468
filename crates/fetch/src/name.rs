//! File names that never lead out of their directory.
//!
//! Pure: a URL or a text goes in, a relative name of valid components comes out. Escaped characters
//! of a URL stay escaped if they have a meaning in the file system (`/`, NUL, control characters).

use std::fmt;

use percent_encoding::percent_decode_str;
use url::Url;

/// A relative name: valid components joined by `/`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct OutputName(Box<[u8]>);

/// Why a name is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// It begins with a slash.
    Absolute,
    /// A component is `.` or `..`.
    Dots,
    /// A component is empty: an empty name, two slashes, or a slash at the end.
    Empty,
    /// It contains a zero byte.
    Zero,
    /// Longer than file systems permit.
    TooLong,
    /// A component begins with `.fulmar-get`.
    Reserved,
}

impl OutputName {
    /// The name in the list or on the command line, which need not be UTF-8.
    ///
    /// # Errors
    /// It leads out of the directory, or is empty.
    pub(crate) fn given(name: impl AsRef<[u8]>) -> Result<Self, NameError> {
        Self::checked(name.as_ref().into())
    }

    /// The last segment of the URL's path, with the query.
    ///
    /// # Errors
    /// It is too long, or reserved.
    pub(crate) fn of_url(url: &Url) -> Result<Self, NameError> {
        let path = url.path();
        let mut name = Vec::new();
        push_last(&mut name, path.rsplit('/').next().unwrap_or_default(), url);
        Self::checked(name.into())
    }

    /// Host and path of the URL.
    ///
    /// # Errors
    /// It is too long, or reserved.
    pub(crate) fn mirrored(url: &Url) -> Result<Self, NameError> {
        let mut name = url.host_str().unwrap_or_default().as_bytes().to_vec();
        if let Some(port) = url.port() {
            name.extend_from_slice(format!(":{port}").as_bytes());
        }
        let (dirs, last) = url.path().rsplit_once('/').unwrap_or_else(|| ("", url.path()));
        for segment in dirs.split('/').filter(|segment| !segment.is_empty()) {
            name.push(b'/');
            push_decoded(&mut name, segment);
        }
        name.push(b'/');
        push_last(&mut name, last, url);
        Self::checked(name.into())
    }

    fn checked(name: Box<[u8]>) -> Result<Self, NameError> {
        if name.len() > PATH_LEN_MAX {
            return Err(NameError::TooLong);
        }
        if name.first() == Some(&b'/') {
            return Err(NameError::Absolute);
        }
        name.split(|byte| *byte == b'/').try_for_each(check)?;
        Ok(Self(name))
    }

    /// The name as bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The directory (may be empty) and the last component.
    pub(crate) fn split(&self) -> (&[u8], &[u8]) {
        split(&self.0)
    }
}

/// The directory (may be empty) and the last component.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&[], path),
    }
}

fn check(component: &[u8]) -> Result<(), NameError> {
    match component {
        b"" => Err(NameError::Empty),
        b"." | b".." => Err(NameError::Dots),
        _ if component.contains(&0) => Err(NameError::Zero),
        _ if component.len() > COMPONENT_LEN_MAX => Err(NameError::TooLong),
        _ if component.starts_with(RESERVED.as_bytes()) => Err(NameError::Reserved),
        _ => Ok(()),
    }
}

/// Appends the last segment of a path, or [`INDEX`] if it is empty.
fn push_last(name: &mut Vec<u8>, segment: &str, url: &Url) {
    push_decoded(name, if segment.is_empty() { INDEX } else { segment });
    if let Some(query) = url.query() {
        name.push(b'?');
        name.extend_from_slice(query.replace('/', "%2F").as_bytes());
    }
}

fn push_decoded(name: &mut Vec<u8>, segment: &str) {
    for byte in percent_decode_str(segment) {
        match byte {
            b'/' | 0..=0x1f | 0x7f => name.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            byte => name.push(byte),
        }
    }
}

impl fmt::Display for OutputName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(&self.0).fmt(f)
    }
}

impl fmt::Debug for OutputName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the output name ")?;
        match self {
            Self::Absolute => f.write_str("is absolute: it must be below the output directory"),
            Self::Dots => f.write_str("contains `.` or `..`: it must stay in the output directory"),
            Self::Empty => f.write_str("has an empty component: it must be a file name"),
            Self::Zero => f.write_str("contains a zero byte"),
            Self::TooLong => write!(
                f,
                "is longer than {COMPONENT_LEN_MAX} bytes, or {PATH_LEN_MAX} with its directories: \
                 give it another in the list"
            ),
            Self::Reserved => {
                write!(f, "has a component that begins with {RESERVED}, which is reserved")
            }
        }
    }
}

impl std::error::Error for NameError {}

/// Prefix of the tool's own files: the journal, and incomplete files.
pub(crate) const RESERVED: &str = ".fulmar-get";
/// The file name of a URL without a last segment.
const INDEX: &str = "index.html";
/// `NAME_MAX` of Linux's file systems.
const COMPONENT_LEN_MAX: usize = 255;
/// Less than `PATH_MAX`. Directories are opened one by one, so the kernel sees components only.
const PATH_LEN_MAX: usize = 4_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of_url(url: &str) -> String {
        OutputName::of_url(&Url::parse(url).unwrap()).unwrap().to_string()
    }

    fn mirrored(url: &str) -> String {
        OutputName::mirrored(&Url::parse(url).unwrap()).unwrap().to_string()
    }

    #[test]
    fn a_url_names_its_file() {
        for (url, name) in [
            ("http://h/a", "a"),
            ("http://h/d/e/a.tar.gz", "a.tar.gz"),
            ("http://h", "index.html"),
            ("http://h/d/", "index.html"),
            ("http://h/d/?a=1", "index.html?a=1"),
            ("http://h/a?x=1&y=/z", "a?x=1&y=%2Fz"),
            ("http://h/a#b", "a"),
            ("http://h/a%20b%C3%A9", "a bé"),
            ("http://h/..", "index.html"),
            ("http://h/%2e%2E", "index.html"),
            ("http://h/x/../../y", "y"),
            ("http://h/..%2f..%2fetc%2fpasswd", "..%2F..%2Fetc%2Fpasswd"),
            ("http://h/..\\..\\y", "y"),
            ("http://h/..%5c..%5cy", "..\\..\\y"),
            ("http://h/a%00b%0A%7f%1b", "a%00b%0A%7F%1B"),
        ] {
            assert_eq!(of_url(url), name, "{url}");
        }
    }

    #[test]
    fn a_mirror_has_hosts_and_paths() {
        for (url, name) in [
            ("http://h/a", "h/a"),
            ("http://H:80/d/e/", "h/d/e/index.html"),
            ("http://h:8080/d//e", "h:8080/d/e"),
            ("http://[::1]/", "[::1]/index.html"),
            ("http://h/../../a%2f/..%2fb", "h/a%2F/..%2Fb"),
            ("http://h/a?b/../c", "h/a?b%2F..%2Fc"),
        ] {
            assert_eq!(mirrored(url), name, "{url}");
        }
    }

    #[test]
    fn names_stay_in_their_directory() {
        for good in ["a", "a/b", "...", ".a", "a b", "..a/b..", "C:", "con", "~", "-rf"] {
            assert_eq!(OutputName::given(good).unwrap().to_string(), good);
        }
        let long = "x".repeat(256);
        let deep = "abc/".repeat(1_000) + "d";
        for (bad, error) in [
            ("", NameError::Empty),
            ("/etc/passwd", NameError::Absolute),
            ("//a", NameError::Absolute),
            ("..", NameError::Dots),
            (".", NameError::Dots),
            ("../a", NameError::Dots),
            ("a/../../b", NameError::Dots),
            ("a/./b", NameError::Dots),
            ("a/..", NameError::Dots),
            ("a//b", NameError::Empty),
            ("a/", NameError::Empty),
            ("a\0b", NameError::Zero),
            (&long, NameError::TooLong),
            (&deep, NameError::TooLong),
            (".fulmar-get.journal", NameError::Reserved),
            ("d/.fulmar-get-0", NameError::Reserved),
        ] {
            assert_eq!(OutputName::given(bad), Err(error), "{bad:?}");
            assert!(error.to_string().starts_with("the output name "));
        }
        assert!(OutputName::of_url(&Url::parse(&format!("http://h/{long}")).unwrap()).is_err());
        assert_eq!(OutputName::given("a/b/c").unwrap().split(), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(OutputName::given("c").unwrap().split(), (&b""[..], &b"c"[..]));
    }

    fn is_sound(name: &OutputName) -> bool {
        !name.as_bytes().contains(&0)
            && name
                .as_bytes()
                .split(|b| *b == b'/')
                .all(|part| !matches!(part, b"" | b"." | b"..") && part.len() <= COMPONENT_LEN_MAX)
    }

    proptest! {
        #[test]
        fn any_url_gives_a_sound_name_or_none(
            path in "[ -~]{0,60}",
            escaped in "(%[0-9a-fA-F]{2}){0,8}",
        ) {
            if let Ok(url) = Url::parse(&format!("http://h/{path}{escaped}")) {
                let names = [OutputName::of_url(&url), OutputName::mirrored(&url)];
                for name in names.into_iter().flatten() {
                    prop_assert!(is_sound(&name), "{:?}", name);
                    prop_assert!(!name.as_bytes().iter().any(|b| b.is_ascii_control()));
                }
            }
        }

        #[test]
        fn any_text_is_a_sound_name_or_none(text in "[a./\0é-]{0,12}") {
            if let Ok(name) = OutputName::given(&text) {
                prop_assert!(is_sound(&name), "{:?}", name);
            }
        }
    }
}
