//! `cookies.txt`: the format of Netscape's browser, as curl reads and writes it.
//!
//! One cookie a line, seven fields with one tab between: domain, whether hosts below it are meant,
//! path, whether it is `Secure`, when it expires in seconds since 1970 (0: with the session),
//! name, value. `#HttpOnly_` before the domain is an attribute, any other `#` a comment.
//! `SameSite` has no place in it and is lost.

use std::cell::Cell;
use std::fmt;
use std::io::Write as _;
use std::time::SystemTime;

use super::host::Host;
use super::jar::{cap, seconds};
use super::set_cookie::ATTRIBUTE_SIZE_MAX;
use super::{Cookie, Jar, Rejected, SameSite};

/// What is wrong with a file of cookies, and where. Nothing of it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportError {
    /// From 1.
    pub line: usize,
    /// What is wrong with it.
    pub error: LineError,
}

/// What is wrong with a line of a file of cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LineError {
    /// Not seven fields, or six if the value is empty.
    Fields,
    /// Neither `TRUE` nor `FALSE`, in the second or fourth field.
    Flag,
    /// The path does not begin with a slash.
    Path,
    /// The time is not a number.
    Expiry,
    /// No server could have set it.
    Rejected(Rejected),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match self.error {
            LineError::Fields => f.write_str("a cookie has seven fields, with one tab between"),
            LineError::Flag => f.write_str("the second and fourth field are TRUE or FALSE"),
            LineError::Path => f.write_str("the path does not begin with /"),
            LineError::Expiry => f.write_str("the fifth field is a time in seconds since 1970"),
            LineError::Rejected(reason) => reason.fmt(f),
        }
    }
}

impl std::error::Error for ImportError {}

impl From<Rejected> for LineError {
    fn from(reason: Rejected) -> Self {
        Self::Rejected(reason)
    }
}

impl Jar {
    /// Takes in the cookies of a file; those that have expired end the ones that are there.
    ///
    /// The limits hold here too: of a file with more cookies than fit, the last ones stay.
    ///
    /// # Errors
    /// The first line that is not a cookie, or is one that no server could have set. The jar is
    /// as it was.
    pub fn import(&mut self, now: SystemTime, file: &[u8]) -> Result<(), ImportError> {
        let now = seconds(now);
        let mut cookies = Vec::new();
        for (text, line) in file.split(|byte| *byte == b'\n').zip(1..) {
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            match parse(now, text) {
                Ok(cookie) => cookies.extend(cookie),
                Err(error) => return Err(ImportError { line, error }),
            }
        }
        for (domain, cookie) in cookies {
            // A crowded domain loses a cookie, as it would if servers had set them.
            let _ = self.insert(now, &domain, cookie);
        }
        Ok(())
    }

    /// Appends all cookies that have not expired as a file, the oldest first.
    pub fn export(&self, now: SystemTime, out: &mut Vec<u8>) {
        let now = seconds(now);
        out.extend_from_slice(HEADER);
        let mut cookies: Vec<_> = self.iter().filter(|cookie| !cookie.is_expired(now)).collect();
        cookies.sort_unstable_by_key(|cookie| cookie.created);
        for cookie in cookies {
            write(cookie, out);
        }
    }
}

/// `None` for comments and lines without anything.
fn parse(now: u64, line: &[u8]) -> Result<Option<(Host, Cookie)>, LineError> {
    let (line, is_http_only) = match line.strip_prefix(HTTP_ONLY) {
        Some(rest) => (rest, true),
        None => (line, false),
    };
    if line.iter().all(|byte| matches!(byte, b' ' | b'\t')) || line[0] == b'#' {
        return Ok(None);
    }
    let mut fields = line.split(|byte| *byte == b'\t');
    let mut next = || fields.next().ok_or(LineError::Fields);
    let (host, below, path, secure, expires, name) =
        (next()?, next()?, next()?, next()?, next()?, next()?);
    let value = fields.next().unwrap_or_default();
    if fields.next().is_some() {
        return Err(LineError::Fields);
    }
    let domain = Host::parse(host.strip_prefix(b".").unwrap_or(host)).ok_or(Rejected::BadDomain)?;
    let (below, is_secure) = (flag(below)?, flag(secure)?);
    let expires = number(expires).ok_or(LineError::Expiry)?;
    if !path.starts_with(b"/") {
        return Err(LineError::Path);
    }
    if path.len() > ATTRIBUTE_SIZE_MAX {
        return Err(Rejected::PathTooLong.into());
    }
    if below && domain.is_public_suffix() {
        return Err(Rejected::PublicSuffix.into());
    }
    let cookie = Cookie {
        name: name.into(),
        value: value.into(),
        domain: domain.name().into(),
        path: path.into(),
        is_host_only: !below || domain.is_address(),
        is_secure,
        is_http_only,
        same_site: SameSite::Default,
        expires: (expires > 0).then(|| cap(now, expires)),
        created: 0,
        used: Cell::new(0),
    };
    cookie.check(Some(path))?;
    Ok(Some((domain, cookie)))
}

fn flag(field: &[u8]) -> Result<bool, LineError> {
    match field {
        _ if field.eq_ignore_ascii_case(b"TRUE") => Ok(true),
        _ if field.eq_ignore_ascii_case(b"FALSE") => Ok(false),
        _ => Err(LineError::Flag),
    }
}

/// `1*DIGIT`; a time beyond all others is as good as the last.
fn number(field: &[u8]) -> Option<u64> {
    if field.is_empty() || !field.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u64, byte: &u8| sum.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
    Some(field.iter().fold(0, add))
}

fn write(cookie: &Cookie, out: &mut Vec<u8>) {
    let flag = |fact: bool| if fact { "TRUE" } else { "FALSE" };
    if cookie.is_http_only {
        out.extend_from_slice(HTTP_ONLY);
    }
    if !cookie.is_host_only {
        out.push(b'.');
    }
    out.extend_from_slice(cookie.domain.as_bytes());
    out.extend_from_slice(b"\t");
    out.extend_from_slice(flag(!cookie.is_host_only).as_bytes());
    out.extend_from_slice(b"\t");
    out.extend_from_slice(&cookie.path);
    let (secure, expires) = (flag(cookie.is_secure), cookie.expires.unwrap_or(0));
    write!(out, "\t{secure}\t{expires}\t").expect("a Vec takes all that is written");
    out.extend_from_slice(&cookie.name);
    out.push(b'\t');
    out.extend_from_slice(&cookie.value);
    out.push(b'\n');
}

/// Browsers that read such files look at the first line.
const HEADER: &[u8] = b"# Netscape HTTP Cookie File\n\n";

const HTTP_ONLY: &[u8] = b"#HttpOnly_";

#[cfg(test)]
mod tests;
