//! Cookie files (`cookies.txt`): Netscape's format, as curl reads and writes it.
//!
//! One cookie per line, with seven fields separated by tabs: domain, whether it includes
//! subdomains, path, whether it is `Secure`, expiry in seconds since 1970 (0: session), name,
//! value. The prefix `#HttpOnly_` of the domain is an attribute; other lines with `#` are comments.
//! The format has no field for `SameSite`, which is lost.

use std::cell::Cell;
use std::fmt;
use std::io::Write as _;
use std::time::SystemTime;

use super::host::CookieHost;
use super::jar::{cap, seconds};
use super::set_cookie::ATTRIBUTE_SIZE_MAX;
use super::{Cookie, Jar, Rejected, SameSite};

/// An error in a cookie file. Nothing was imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportError {
    /// The line number, from 1.
    pub line: usize,
    /// The error.
    pub error: CookieLineError,
}

/// An error in a line of a cookie file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CookieLineError {
    /// The number of fields is not seven (or six with an empty value).
    Fields,
    /// The second or fourth field is neither `TRUE` nor `FALSE`.
    Flag,
    /// The path does not begin with a slash.
    Path,
    /// The time is not a number.
    Expiry,
    /// The cookie is invalid.
    Rejected(Rejected),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match self.error {
            CookieLineError::Fields => f.write_str("expected seven fields separated by tabs"),
            CookieLineError::Flag => f.write_str("second and fourth field must be TRUE or FALSE"),
            CookieLineError::Path => f.write_str("path does not begin with /"),
            CookieLineError::Expiry => {
                f.write_str("fifth field must be a time in seconds since 1970")
            }
            CookieLineError::Rejected(reason) => reason.fmt(f),
        }
    }
}

impl std::error::Error for ImportError {}

impl From<Rejected> for CookieLineError {
    fn from(reason: Rejected) -> Self {
        Self::Rejected(reason)
    }
}

impl Jar {
    /// Imports the cookies of a file; expired ones remove existing cookies.
    ///
    /// The limits apply: of too many cookies, the last ones stay.
    ///
    /// # Errors
    /// The first invalid line. The jar is unchanged.
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
            // A domain over its limit loses a cookie, as with `Set-Cookie`.
            let _ = self.insert(now, &domain, cookie);
        }
        Ok(())
    }

    /// Appends all cookies that have not expired in the file format, oldest first.
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

/// `None` for comments and empty lines.
fn parse(now: u64, line: &[u8]) -> Result<Option<(CookieHost, Cookie)>, CookieLineError> {
    let (line, is_http_only) = match line.strip_prefix(HTTP_ONLY) {
        Some(rest) => (rest, true),
        None => (line, false),
    };
    if line.iter().all(|byte| matches!(byte, b' ' | b'\t')) || line[0] == b'#' {
        return Ok(None);
    }
    let mut fields = line.split(|byte| *byte == b'\t');
    let mut next = || fields.next().ok_or(CookieLineError::Fields);
    let (host, below, path, secure, expires, name) =
        (next()?, next()?, next()?, next()?, next()?, next()?);
    let value = fields.next().unwrap_or_default();
    if fields.next().is_some() {
        return Err(CookieLineError::Fields);
    }
    let domain =
        CookieHost::parse(host.strip_prefix(b".").unwrap_or(host)).ok_or(Rejected::BadDomain)?;
    let (below, is_secure) = (flag(below)?, flag(secure)?);
    let expires = number(expires).ok_or(CookieLineError::Expiry)?;
    if !path.starts_with(b"/") {
        return Err(CookieLineError::Path);
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

fn flag(field: &[u8]) -> Result<bool, CookieLineError> {
    match field {
        _ if field.eq_ignore_ascii_case(b"TRUE") => Ok(true),
        _ if field.eq_ignore_ascii_case(b"FALSE") => Ok(false),
        _ => Err(CookieLineError::Flag),
    }
}

/// `1*DIGIT`; larger times are capped.
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
    write!(out, "\t{secure}\t{expires}\t").expect("writing to a Vec cannot fail");
    out.extend_from_slice(&cookie.name);
    out.push(b'\t');
    out.extend_from_slice(&cookie.value);
    out.push(b'\n');
}

/// Browsers check the first line of such files.
const HEADER: &[u8] = b"# Netscape HTTP Cookie File\n\n";

const HTTP_ONLY: &[u8] = b"#HttpOnly_";

#[cfg(test)]
mod tests;
