//! Cookies from the two kinds of lines: the value of `Set-Cookie`, and a line of Netscape's format.

use super::matching::{is_address, is_within, match_path};
use super::{CookieOrigin, StoredCookie};
use crate::number::{NumberError, leading_number};
use crate::stamp::parse_date;

/// How a line is read.
#[derive(Clone, Copy)]
pub(super) struct CookieContext<'a> {
    /// `None` for lines that come from no response.
    pub(super) origin: Option<CookieOrigin<'a>>,
    /// False while a file is read.
    pub(super) is_running: bool,
    pub(super) now: i64,
}

impl CookieContext<'_> {
    /// Lines of the application may set `Secure` cookies.
    pub(super) fn is_secure(&self) -> bool {
        self.origin.is_none_or(|origin| origin.is_secure)
    }
}

/// Parses the value of a `Set-Cookie` field. `None` if libcurl refuses the cookie.
pub(super) fn header_line(line: &[u8], context: &CookieContext<'_>) -> Option<StoredCookie> {
    if line.len() > LINE_LEN_MAX {
        return None;
    }
    let mut cookie: Option<StoredCookie> = None;
    let mut promises = Promises::default();
    let mut lifetime = Lifetime::default();
    for part in line.split(|byte| *byte == b';').map(<[u8]>::trim_blanks_start) {
        let name_len = until(part, b"\t\r\n=");
        if name_len == 0 {
            continue;
        }
        let attribute = Attribute::read(part, name_len)?;
        promises.add(attribute.name);
        match &mut cookie {
            Some(cookie) => {
                apply(cookie, &attribute, context)?;
                lifetime.add(&attribute);
            }
            None => cookie = Some(first_pair(&attribute)?),
        }
    }
    let mut cookie = cookie?;
    cookie.expires = lifetime.end(context);
    if let Some(origin) = context.origin {
        cookie.domain.get_or_insert_with(|| origin.host.to_vec());
        if cookie.path.is_none() {
            let path = default_path(origin.path);
            cookie.match_path = path.map(match_path);
            cookie.path = path.map(Into::into);
        }
    }
    promises.hold(&cookie).then_some(cookie)
}

/// A part of the field between semicolons.
struct Attribute<'a> {
    name: &'a [u8],
    value: &'a [u8],
    has_equals: bool,
}

impl<'a> Attribute<'a> {
    /// Splits a part behind its name. `None` if it cannot be stored.
    fn read(part: &'a [u8], name_len: usize) -> Option<Self> {
        let (name, rest) = part.split_at(name_len);
        let has_equals = rest.starts_with(b"=");
        let value = rest.trim_ascii_start().strip_prefix(b"=").unwrap_or_default();
        let value = &value[..until(value, b"\r\n")];
        let is_long = name.len() >= NAME_LEN_MAX - 1 || value.len() >= NAME_LEN_MAX - 1;
        let is_long = is_long || name.len() + value.len() > NAME_LEN_MAX;
        let (name, value) = (name.trim_blanks_end(), value.trim_blanks_end().trim_blanks_start());
        (!is_long && !value.contains(&b'\t')).then_some(Self { name, value, has_equals })
    }

    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

/// The cookie itself. `None` without `=`, and with control characters.
fn first_pair(pair: &Attribute<'_>) -> Option<StoredCookie> {
    let is_control = |byte: &u8| matches!(byte, 1..=8 | 10..=31 | 127);
    if !pair.has_equals || pair.name.iter().chain(pair.value).any(is_control) {
        return None;
    }
    Some(StoredCookie { name: pair.name.to_vec(), value: pair.value.to_vec(), ..empty() })
}

/// Applies an attribute; the last one of a name counts. `None` if the cookie is refused.
fn apply(
    cookie: &mut StoredCookie,
    attribute: &Attribute<'_>,
    context: &CookieContext<'_>,
) -> Option<()> {
    let value = attribute.value;
    if value.is_empty() {
        if attribute.is("secure") {
            if !context.is_secure() && context.is_running {
                return None;
            }
            cookie.is_secure = true;
            return Some(());
        }
        if attribute.is("httponly") {
            cookie.is_http_only = true;
            return Some(());
        }
        if !attribute.has_equals {
            return Some(());
        }
    }
    if attribute.is("path") {
        set_path(cookie, value.to_vec());
    } else if attribute.is("domain") && !value.is_empty() {
        set_domain(cookie, value, context.origin.map(|origin| origin.host))?;
    }
    Some(())
}

/// The last attributes about the lifetime.
#[derive(Default)]
struct Lifetime<'a> {
    max_age: Option<&'a [u8]>,
    expires: Option<&'a [u8]>,
}

impl<'a> Lifetime<'a> {
    fn add(&mut self, attribute: &Attribute<'a>) {
        let has_value = attribute.has_equals || !attribute.value.is_empty();
        if has_value && attribute.is("max-age") {
            self.max_age = Some(attribute.value);
        } else if has_value && attribute.is("expires") {
            self.expires = Some(attribute.value);
        }
    }

    /// `Max-Age` precedes `Expires`. A date that cannot be parsed makes a session cookie.
    fn end(&self, context: &CookieContext<'_>) -> i64 {
        match (self.max_age, self.expires) {
            (Some(text), _) => match leading_number(text.strip_prefix(b"\"").unwrap_or(text)) {
                Err(NumberError::Missing) | Ok(0) => EXPIRED,
                Err(NumberError::Overflow) => i64::MAX,
                Ok(seconds) => seconds.saturating_add(context.now),
            },
            (None, Some(date)) => match parse_date(date) {
                Some(0) => EXPIRED,
                date => date.unwrap_or(0).max(0),
            },
            (None, None) => 0,
        }
    }
}

fn set_path(cookie: &mut StoredCookie, path: Vec<u8>) {
    cookie.match_path = Some(match_path(&path));
    cookie.path = Some(path);
}

/// `None` if the host may not set cookies for this domain.
fn set_domain(cookie: &mut StoredCookie, value: &[u8], host: Option<&[u8]>) -> Option<()> {
    let value = value.strip_prefix(b".").unwrap_or(value);
    let is_ip = is_address(host.unwrap_or(value));
    let is_allowed = host.is_none_or(|host| match is_ip {
        true => value == host,
        false => is_within(value, host),
    });
    if !is_allowed {
        return None;
    }
    cookie.domain = Some(value.to_vec());
    cookie.includes_subdomains |= !is_ip;
    Some(())
}

/// Up to the last slash before the query. `None` without a slash.
fn default_path(path: &[u8]) -> Option<&[u8]> {
    let path = &path[..until(path, b"?")];
    path.iter().rposition(|byte| *byte == b'/').map(|slash| &path[..=slash])
}

/// Parses a line of Netscape's format: seven fields with tabs between them. `None` if it is a
/// comment, or libcurl refuses it.
pub(super) fn netscape_line(line: &[u8]) -> Option<StoredCookie> {
    let mut cookie = empty();
    let line = match line.strip_prefix(b"#HttpOnly_") {
        Some(line) => {
            cookie.is_http_only = true;
            line
        }
        None => line,
    };
    if line.starts_with(b"#") {
        return None;
    }
    let line = &line[..until(line, b"\r\n")];
    // Adjacent tabs are one separator.
    let mut fields = line.split(|byte| *byte == b'\t').filter(|field| !field.is_empty()).peekable();
    let domain = fields.next()?;
    cookie.domain = Some(domain.strip_prefix(b".").unwrap_or(domain).to_vec());
    cookie.includes_subdomains = fields.next()?.eq_ignore_ascii_case(b"TRUE");
    // The path may be missing.
    let has_no_path = matches!(fields.peek(), Some(&b"TRUE" | &b"FALSE"));
    let path = if has_no_path { &b"/"[..] } else { fields.next()? };
    set_path(&mut cookie, path.to_vec());
    if has_no_path {
        cookie.match_path = Some(b"/".to_vec());
    }
    cookie.is_secure = fields.next()?.eq_ignore_ascii_case(b"TRUE");
    cookie.expires = leading_number(fields.next()?).ok()?;
    cookie.name = fields.next()?.to_vec();
    cookie.value = fields.next().unwrap_or_default().to_vec();
    let mut promises = Promises::default();
    promises.add(&cookie.name);
    (fields.next().is_none() && promises.hold(&cookie)).then_some(cookie)
}

/// What the prefixes of names promise. In a header, the names of attributes count too.
#[derive(Default)]
struct Promises {
    secure: bool,
    host: bool,
}

impl Promises {
    fn add(&mut self, name: &[u8]) {
        let starts = |prefix: &[u8]| {
            name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        };
        self.secure |= starts(b"__Secure-");
        self.host |= starts(b"__Host-");
    }

    fn hold(&self, cookie: &StoredCookie) -> bool {
        let is_for_host = cookie.path.as_deref() == Some(b"/") && !cookie.includes_subdomains;
        (!self.secure || cookie.is_secure) && (!self.host || (cookie.is_secure && is_for_host))
    }
}

fn empty() -> StoredCookie {
    StoredCookie {
        name: Vec::new(),
        value: Vec::new(),
        path: None,
        match_path: None,
        domain: None,
        includes_subdomains: false,
        is_secure: false,
        is_http_only: false,
        expires: 0,
        is_live: false,
        serial: 0,
    }
}

/// The bytes before the first of `ends`.
fn until(bytes: &[u8], ends: &[u8]) -> usize {
    bytes.iter().position(|byte| ends.contains(byte)).unwrap_or(bytes.len())
}

/// Blanks are spaces and tabs.
pub(super) trait TrimBlanks {
    fn trim_blanks_start(&self) -> &Self;
    fn trim_blanks_end(&self) -> &Self;
}

impl TrimBlanks for [u8] {
    fn trim_blanks_start(&self) -> &Self {
        let first = self.iter().position(|byte| !matches!(byte, b' ' | b'\t'));
        &self[first.unwrap_or(self.len())..]
    }

    fn trim_blanks_end(&self) -> &Self {
        let last = self.iter().rposition(|byte| !matches!(byte, b' ' | b'\t'));
        &self[..last.map_or(0, |last| last + 1)]
    }
}

/// A time in the past that is not 0, which would be a session cookie.
const EXPIRED: i64 = 1;

/// Longer lines are ignored, in headers and in files.
pub(super) const LINE_LEN_MAX: usize = 5000;

const NAME_LEN_MAX: usize = 4096;
