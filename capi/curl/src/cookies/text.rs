//! Lines of files and lists.

use std::io::Write as _;

use super::StoredCookie;

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
