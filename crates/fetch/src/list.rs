//! Parses lines of a list of URLs.
//!
//! A line is `URL [NAME [CHECKSUM]]`. Fields are separated by tabs, or by spaces in a line without
//! a tab. An empty NAME or `-` means no name. Empty lines and lines that begin with `#` are
//! ignored. A line may end with CR LF. Pure: bytes go in, an entry comes out.

use std::fmt;

use crate::checksum::{ChecksumError, FileChecksum};

/// An entry: URL, name, checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListEntry {
    pub(crate) url: Box<str>,
    pub(crate) name: Option<Box<[u8]>>,
    pub(crate) checksum: Option<FileChecksum>,
}

/// Why a line is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListLineError {
    /// Longer than [`LINE_LEN_MAX`].
    TooLong,
    /// Not UTF-8.
    NotText,
    /// More than three fields.
    Fields,
    /// The third field is no checksum.
    Checksum(ChecksumError),
}

/// Parses a line without its line end. `None` if it is empty or a comment.
///
/// # Errors
/// The variant is the cause.
pub(crate) fn parse(line: &[u8]) -> Result<Option<ListEntry>, ListLineError> {
    if line.len() > LINE_LEN_MAX {
        return Err(ListLineError::TooLong);
    }
    let text = std::str::from_utf8(line).map_err(|_| ListLineError::NotText)?;
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.trim_ascii().is_empty() || text.starts_with('#') {
        return Ok(None);
    }
    match text.contains('\t') {
        true => of_fields(text.split('\t').map(str::trim_ascii)),
        false => of_fields(text.split_ascii_whitespace()),
    }
}

fn of_fields<'a>(
    mut fields: impl Iterator<Item = &'a str>,
) -> Result<Option<ListEntry>, ListLineError> {
    let url = fields.next().unwrap_or_default().into();
    let mut given = || fields.next().filter(|field| !matches!(*field, "" | "-"));
    let name = given().map(|name| name.as_bytes().into());
    let checksum = given().map(FileChecksum::parse).transpose().map_err(ListLineError::Checksum)?;
    if fields.any(|field| !field.is_empty()) {
        return Err(ListLineError::Fields);
    }
    Ok(Some(ListEntry { url, name, checksum }))
}

impl fmt::Display for ListLineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "the line is longer than {LINE_LEN_MAX} bytes"),
            Self::NotText => f.write_str("the line is not UTF-8"),
            Self::Fields => f.write_str(
                "the line has more than the fields URL, name and checksum: \
                 separate them by tabs if the name has blanks",
            ),
            Self::Checksum(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ListLineError {}

/// The longest line. Servers accept URLs of some 8 KB.
pub const LINE_LEN_MAX: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MD5: &str = "md5:d41d8cd98f00b204e9800998ecf8427e";

    fn entry(url: &str, name: Option<&str>, sum: bool) -> Result<Option<ListEntry>, ListLineError> {
        let checksum = sum.then(|| FileChecksum::parse(MD5).unwrap());
        Ok(Some(ListEntry { url: url.into(), name: name.map(|it| it.as_bytes().into()), checksum }))
    }

    #[test]
    fn lines_have_up_to_three_fields() {
        let of = |line: &str| parse(line.as_bytes());
        for nothing in ["", "\r", "   ", "\t", "#", "# http://h/ x", "#http://h/"] {
            assert_eq!(of(nothing), Ok(None), "{nothing:?}");
        }
        for line in ["http://h/", " http://h/ ", "http://h/\r", "http://h/\t", "http://h/\t\t\t"] {
            assert_eq!(of(line), entry("http://h/", None, false), "{line:?}");
        }
        assert_eq!(of("http://h/ -"), entry("http://h/", None, false));
        assert_eq!(of("http://h/   a/b"), entry("http://h/", Some("a/b"), false));
        assert_eq!(of("http://h/\ta b\r"), entry("http://h/", Some("a b"), false));
        assert_eq!(of(&format!("u n {MD5}")), entry("u", Some("n"), true));
        assert_eq!(of(&format!("u - {MD5}")), entry("u", None, true));
        assert_eq!(of(&format!("u\t\t{MD5}")), entry("u", None, true));
        assert_eq!(of(&format!("u\tn m\t{MD5}\r")), entry("u", Some("n m"), true));
        assert_eq!(of("u n - x"), Err(ListLineError::Fields));
        assert_eq!(of("u\tn\t\tx"), Err(ListLineError::Fields));
        assert_eq!(of("u n x"), Err(ListLineError::Checksum(ChecksumError::Algorithm)));
        assert_eq!(parse(b"http://h/\xff"), Err(ListLineError::NotText));
        assert_eq!(parse(&vec![b'x'; LINE_LEN_MAX + 1]), Err(ListLineError::TooLong));
        assert!(matches!(parse(&vec![b'x'; LINE_LEN_MAX]), Ok(Some(_))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_entry_or_an_error(
            line in proptest::collection::vec(any::<u8>(), 0..80)
        ) {
            if let Ok(Some(entry)) = parse(&line) {
                prop_assert!(!entry.url.contains('\t'));
                prop_assert_ne!(entry.name.as_deref(), Some(&b""[..]));
            }
        }

        #[test]
        fn what_is_written_is_read(url in "[!-~]{1,30}", name in "[!-~]([ -~]{0,20}[!-~])?") {
            prop_assume!(!url.starts_with('#') && name != "-");
            let line = format!("{url}\t{name}");
            prop_assert_eq!(parse(line.as_bytes()), entry(&url, Some(&name), false));
        }
    }
}
