//! Lines of files and lists.

use std::io::Write as _;

use super::StoredCookie;
use super::parse::LINE_LEN_MAX;

/// The lines of a file; longer ones than libcurl's buffer are omitted. A line ends at a NUL.
pub(super) fn file_lines(file: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = file.split_inclusive(|byte| *byte == b'\n');
    let lines = lines.filter(|line| line.len() < LINE_LEN_MAX);
    lines.map(|line| line.split(|byte| *byte == 0).next().unwrap_or_default())
}

/// The value after `Set-Cookie:`. `None` if the line does not begin so.
pub(super) fn strip_field_name(line: &[u8]) -> Option<&[u8]> {
    let (name, value) = line.split_at_checked(FIELD_NAME.len())?;
    name.eq_ignore_ascii_case(FIELD_NAME).then_some(value)
}

/// A cookie as a line of Netscape's format. `None` without a domain, which the format needs.
pub(super) fn netscape_format(cookie: &StoredCookie) -> Option<Vec<u8>> {
    let domain = cookie.domain.as_deref()?;
    let flag = |is_set: bool| if is_set { &b"TRUE"[..] } else { b"FALSE" };
    let has_dot = cookie.includes_subdomains && !domain.starts_with(b".");
    let mut line = Vec::new();
    line.extend_from_slice(if cookie.is_http_only { b"#HttpOnly_" } else { b"" });
    line.extend_from_slice(if has_dot { b"." } else { b"" });
    let path = cookie.path.as_deref().unwrap_or(b"/");
    for field in [domain, flag(cookie.includes_subdomains), path, flag(cookie.is_secure)] {
        line.extend_from_slice(field);
        line.push(b'\t');
    }
    write!(line, "{}\t", cookie.expires).expect("writing to a Vec cannot fail");
    line.extend_from_slice(&cookie.name);
    line.push(b'\t');
    line.extend_from_slice(&cookie.value);
    Some(line)
}

const FIELD_NAME: &[u8] = b"Set-Cookie:";
