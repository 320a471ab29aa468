//! The URL API: `curl_url`, `curl_url_set`, `curl_url_get` and `curl_url_dup`.
//!
//! A URL is kept as its parts, each as it was given: libcurl cleans few of them. It is not a URL
//! of the WHATWG: up to three slashes follow a scheme, spaces may be allowed, and a host may
//! contain bytes above ASCII, which become punycode on request only. Texts are bytes without NUL.
//!
//! Five things differ from libcurl 7.88 on purpose:
//!
//! - Getting a URL with a `%` in its host does not change the handle, and a copy keeps the zone.
//! - An empty part that is encoded on request is an empty text. libcurl returns NULL without an
//!   error.
//! - A URL of a file without a path is a base for relative ones.
//! - An empty host that is to be encoded is refused. libcurl reads a NULL pointer.
//! - International names are UTF-8. libcurl reads them in the encoding of the locale. Its library
//!   for them follows IDNA 2008 with exceptions: it also accepts names of mixed direction.

mod encode;
mod host;
mod parse;
mod path;
mod port;
mod scheme;

pub use scheme::KnownScheme;

use std::borrow::Cow;
use std::ops::BitOr;

use crate::code::UrlCode;
use crate::escape::unescape_text;
use encode::{PartEncoding, encode_invalid, encode_part, lower_codes};
use host::{UrlHost, to_punycode};
use port::UrlPort;

/// A part of a URL (`CURLUPart`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum UrlPart {
    /// All of it.
    Url = 0,
    /// `https`
    Scheme = 1,
    /// The name of a user.
    User = 2,
    /// The password of that user.
    Password = 3,
    /// What follows a `;` in the user information of mail schemes.
    Options = 4,
    /// A name or an address; that of IPv6 is in brackets.
    Host = 5,
    /// The port, if one was given.
    Port = 6,
    /// The path, which is `/` if none was given.
    Path = 7,
    /// What follows a `?`.
    Query = 8,
    /// What follows a `#`.
    Fragment = 9,
    /// The zone of an address of IPv6.
    ZoneId = 10,
}

impl UrlPart {
    /// Every part, in the order of its number.
    pub const ALL: [Self; 11] = [
        Self::Url,
        Self::Scheme,
        Self::User,
        Self::Password,
        Self::Options,
        Self::Host,
        Self::Port,
        Self::Path,
        Self::Query,
        Self::Fragment,
        Self::ZoneId,
    ];

    /// The part that has this number; otherwise [`UrlCode::UnknownPart`].
    pub fn from_number(number: i32) -> Result<Self, UrlCode> {
        let found = Self::ALL.into_iter().find(|part| *part as i32 == number);
        found.ok_or(UrlCode::UnknownPart)
    }
}

/// Flags of `set` and `get` (`CURLU_*`). Unknown bits have no effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UrlFlags(pub u32);

impl UrlFlags {
    /// `get`: the scheme's port, if there is none.
    pub const DEFAULT_PORT: Self = Self(1);
    /// `get`: no port, if it is the scheme's.
    pub const NO_DEFAULT_PORT: Self = Self(1 << 1);
    /// `https`, if there is no scheme.
    pub const DEFAULT_SCHEME: Self = Self(1 << 2);
    /// `set`: any scheme.
    pub const NON_SUPPORT_SCHEME: Self = Self(1 << 3);
    /// `set`: dot segments stay.
    pub const PATH_AS_IS: Self = Self(1 << 4);
    /// `set`: a URL with user information is an error.
    pub const DISALLOW_USER: Self = Self(1 << 5);
    /// `get`: decoded.
    pub const URLDECODE: Self = Self(1 << 6);
    /// Encoded.
    pub const URLENCODE: Self = Self(1 << 7);
    /// `set`: the query is added to the present one.
    pub const APPENDQUERY: Self = Self(1 << 8);
    /// `set`: the host suggests the scheme, if there is none.
    pub const GUESS_SCHEME: Self = Self(1 << 9);
    /// `set`: the host may be empty.
    pub const NO_AUTHORITY: Self = Self(1 << 10);
    /// `set`: spaces are allowed in all parts except for scheme and host.
    pub const ALLOW_SPACE: Self = Self(1 << 11);
    /// `get`: an international host in ASCII.
    pub const PUNYCODE: Self = Self(1 << 12);

    /// True if all bits of `flag` are set.
    #[must_use]
    pub const fn contains(self, flag: Self) -> bool {
        self.0 & flag.0 == flag.0
    }

    /// True if a URL needs no scheme.
    fn guesses(self) -> bool {
        self.contains(Self::DEFAULT_SCHEME) || self.contains(Self::GUESS_SCHEME)
    }
}

impl BitOr for UrlFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A URL in parts: what a `CURLU` handle holds. `clone` is `curl_url_dup`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CurlUrl {
    scheme: Option<Vec<u8>>,
    user: Option<Vec<u8>>,
    password: Option<Vec<u8>>,
    options: Option<Vec<u8>>,
    host: Option<Vec<u8>>,
    zone_id: Option<Vec<u8>>,
    port: Option<UrlPort>,
    path: Option<Vec<u8>>,
    query: Option<Vec<u8>>,
    fragment: Option<Vec<u8>>,
}

impl CurlUrl {
    /// A URL without any part.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a part. With an error, the parts are unchanged, except that a refused host removes the
    /// zone.
    pub fn set(&mut self, part: UrlPart, text: &[u8], flags: UrlFlags) -> Result<(), UrlCode> {
        if text.len() > PART_LEN_MAX && part != UrlPart::Scheme {
            return Err(UrlCode::MalformedInput);
        }
        let plain = PartEncoding::default();
        match part {
            UrlPart::Url => self.set_url(text, flags)?,
            UrlPart::Scheme => self.set_scheme(text, flags)?,
            UrlPart::Port => self.port = Some(UrlPort::set(text)?),
            UrlPart::Host => {
                if text.iter().any(|byte| b" \r\n".contains(byte)) {
                    return Err(UrlCode::BadHostname);
                }
                self.zone_id = None; // also if the host is refused
                self.set_host(&encode_set(text, plain, flags).unwrap_or_default(), flags)?;
            }
            UrlPart::Query => {
                let appends = flags.contains(UrlFlags::APPENDQUERY);
                let encoding = PartEncoding { plus: true, keeps_equals_sign: appends, ..plain };
                let added = encode_set(text, encoding, flags);
                self.query = match self.query.take().filter(|_| appends) {
                    Some(query) => Some(append_query(query, &added.unwrap_or_default())),
                    None => added,
                };
            }
            UrlPart::Path => {
                let encoding = PartEncoding { keeps_slashes: true, ..plain };
                self.path = encode_set(text, encoding, flags);
            }
            UrlPart::User
            | UrlPart::Password
            | UrlPart::Options
            | UrlPart::Fragment
            | UrlPart::ZoneId => *self.text_mut(part) = encode_set(text, plain, flags),
        }
        Ok(())
    }

    /// Removes a part: what `curl_url_set` does with NULL.
    pub fn clear(&mut self, part: UrlPart) {
        match part {
            UrlPart::Url => *self = Self::new(),
            UrlPart::Port => self.port = None,
            part => *self.text_mut(part) = None,
        }
    }

    /// Returns a part, or the code that it is missing.
    pub fn get(&self, part: UrlPart, flags: UrlFlags) -> Result<Vec<u8>, UrlCode> {
        let decodes =
            flags.contains(UrlFlags::URLDECODE) && !matches!(part, UrlPart::Scheme | UrlPart::Port);
        let port = match part {
            UrlPart::Port => self.port_text(self.scheme.as_deref(), flags),
            _ => None,
        };
        let (text, missing) = match part {
            UrlPart::Url => return self.full(flags),
            UrlPart::Scheme => (self.scheme.as_deref(), UrlCode::NoScheme),
            UrlPart::Port => (port.as_deref(), UrlCode::NoPort),
            // It is never missing.
            UrlPart::Path => (self.path.as_deref().or(Some(b"/")), UrlCode::BadPath),
            UrlPart::User => (self.user.as_deref(), UrlCode::NoUser),
            UrlPart::Password => (self.password.as_deref(), UrlCode::NoPassword),
            UrlPart::Options => (self.options.as_deref(), UrlCode::NoOptions),
            UrlPart::Host => (self.host.as_deref(), UrlCode::NoHost),
            UrlPart::Query => (self.query.as_deref(), UrlCode::NoQuery),
            UrlPart::Fragment => (self.fragment.as_deref(), UrlCode::NoFragment),
            UrlPart::ZoneId => (self.zone_id.as_deref(), UrlCode::NoZoneId),
        };
        let mut text = text.ok_or(missing)?.to_vec();
        if decodes {
            if part == UrlPart::Query {
                text.iter_mut().filter(|byte| **byte == b'+').for_each(|byte| *byte = b' ');
            }
            text = unescape_text(&text).ok_or(UrlCode::UrlDecode)?;
        }
        if flags.contains(UrlFlags::URLENCODE) {
            text = encode_invalid(&text, part == UrlPart::Query);
        } else if part == UrlPart::Host && flags.contains(UrlFlags::PUNYCODE) {
            let is_ascii = self.host.as_ref().is_none_or(|host| host.is_ascii());
            text = if is_ascii { text } else { to_punycode(&text)? };
        }
        Ok(text)
    }

    /// The scheme.
    pub(crate) fn scheme(&self) -> Option<&[u8]> {
        self.scheme.as_deref()
    }

    /// The number of the port: the scheme's, if there is none.
    pub(crate) fn port_number(&self) -> Option<u16> {
        let known = || self.scheme.as_deref().and_then(KnownScheme::find);
        let port = self.port.as_ref().map(|port| port.number);
        port.or_else(|| known().map(|known| known.default_port))
    }

    /// True if a port was given.
    pub(crate) fn has_port(&self) -> bool {
        self.port.is_some()
    }

    fn set_url(&mut self, url: &[u8], flags: UrlFlags) -> Result<(), UrlCode> {
        let is_absolute = scheme::is_absolute(url, flags.guesses());
        let base = if is_absolute { None } else { self.get(UrlPart::Url, flags).ok() };
        *self = match base {
            Some(base) => parse::parse(&path::resolve(&base, url), flags)?,
            None => parse::parse(url, flags)?,
        };
        Ok(())
    }

    fn set_scheme(&mut self, text: &[u8], flags: UrlFlags) -> Result<(), UrlCode> {
        if text.len() > scheme::SCHEME_LEN_MAX {
            return Err(UrlCode::BadScheme);
        }
        let is_known = KnownScheme::find(text).is_some();
        if !is_known && !flags.contains(UrlFlags::NON_SUPPORT_SCHEME) {
            return Err(UrlCode::UnsupportedScheme);
        }
        self.scheme = Some(lower_codes(text.to_vec()));
        Ok(())
    }

    fn set_host(&mut self, text: &[u8], flags: UrlFlags) -> Result<(), UrlCode> {
        if text.is_empty() && flags.contains(UrlFlags::NO_AUTHORITY) {
            (self.host, self.zone_id) = (Some(Vec::new()), None);
            return Ok(());
        }
        let host = UrlHost::checked(text).map_err(|_| UrlCode::BadHostname)?;
        (self.host, self.zone_id) = (Some(host.name), host.zone_id);
        Ok(())
    }

    fn text_mut(&mut self, part: UrlPart) -> &mut Option<Vec<u8>> {
        match part {
            UrlPart::Scheme => &mut self.scheme,
            UrlPart::User => &mut self.user,
            UrlPart::Password => &mut self.password,
            UrlPart::Options => &mut self.options,
            UrlPart::Host => &mut self.host,
            UrlPart::Path => &mut self.path,
            UrlPart::Query => &mut self.query,
            UrlPart::Fragment => &mut self.fragment,
            UrlPart::ZoneId => &mut self.zone_id,
            UrlPart::Url | UrlPart::Port => unreachable!("they are no texts"),
        }
    }

    fn port_text(&self, scheme: Option<&[u8]>, flags: UrlFlags) -> Option<Cow<'_, [u8]>> {
        let known = scheme.and_then(KnownScheme::find);
        match (&self.port, known) {
            (None, Some(known)) if flags.contains(UrlFlags::DEFAULT_PORT) => {
                Some(known.default_port.to_string().into_bytes().into())
            }
            (Some(port), Some(known))
                if port.number == known.default_port
                    && flags.contains(UrlFlags::NO_DEFAULT_PORT) =>
            {
                None
            }
            (port, _) => port.as_ref().map(|port| Cow::Borrowed(&port.text[..])),
        }
    }

    /// The URL from its parts.
    fn full(&self, flags: UrlFlags) -> Result<Vec<u8>, UrlCode> {
        if self.scheme.as_ref().is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"file")) {
            let mut url = b"file://".to_vec();
            url.extend(self.path.as_deref().unwrap_or(b"/"));
            push_part(&mut url, b"#", self.fragment.as_deref());
            return Ok(url);
        }
        let host = self.host.as_deref().ok_or(UrlCode::NoHost)?;
        let default = flags.contains(UrlFlags::DEFAULT_SCHEME).then_some(&b"https"[..]);
        let scheme = self.scheme.as_deref().or(default).ok_or(UrlCode::NoScheme)?;
        let known = KnownScheme::find(scheme);
        let options =
            self.options.as_deref().filter(|_| known.is_none_or(|known| known.has_login_options));
        let path = self.path.as_deref().unwrap_or(b"/");
        let mut url = Vec::with_capacity(scheme.len() + host.len() + path.len() + URL_ROOM);
        url.extend(scheme);
        url.extend(b"://");
        url.extend(self.user.as_deref().unwrap_or_default());
        push_part(&mut url, b":", self.password.as_deref());
        push_part(&mut url, b";", options);
        if self.user.is_some() || self.password.is_some() || options.is_some() {
            url.push(b'@');
        }
        match is_plain(host, flags) {
            true => url.extend(host),
            false => url.extend(self.host_in_url(host, flags)?),
        }
        push_part(&mut url, b":", self.port_text(Some(scheme), flags).as_deref());
        if !path.starts_with(b"/") {
            url.push(b'/');
        }
        url.extend(path);
        push_part(&mut url, b"?", self.query.as_deref().filter(|query| !query.is_empty()));
        push_part(&mut url, b"#", self.fragment.as_deref());
        Ok(url)
    }

    fn host_in_url(&self, host: &[u8], flags: UrlFlags) -> Result<Vec<u8>, UrlCode> {
        if let Some(address) = host.strip_prefix(b"[") {
            let mut text = host.to_vec();
            if let Some(zone_id) = &self.zone_id {
                let address = address.strip_suffix(b"]").unwrap_or(address);
                text = [b"[", address, b"%25", zone_id, b"]"].concat();
            }
            return Ok(text);
        }
        if flags.contains(UrlFlags::URLENCODE) {
            return crate::escape::escape(host).ok_or(UrlCode::OutOfMemory);
        }
        if flags.contains(UrlFlags::PUNYCODE) {
            return to_punycode(host);
        }
        let mut text = Vec::with_capacity(host.len());
        for &byte in host {
            text.extend(if byte == b'%' { &b"%25"[..] } else { std::slice::from_ref(&byte) });
        }
        Ok(text)
    }
}

/// A part that is set is encoded on request; otherwise only its percent codes are converted. An
/// empty part that is encoded is none.
fn encode_set(text: &[u8], encoding: PartEncoding, flags: UrlFlags) -> Option<Vec<u8>> {
    match flags.contains(UrlFlags::URLENCODE) {
        true => (!text.is_empty()).then(|| encode_part(text, encoding)),
        false => Some(lower_codes(text.to_vec())),
    }
}

fn append_query(mut query: Vec<u8>, added: &[u8]) -> Vec<u8> {
    if !query.is_empty() && !query.ends_with(b"&") {
        query.push(b'&');
    }
    query.extend(added);
    query
}

fn push_part(url: &mut Vec<u8>, sign: &[u8], part: Option<&[u8]>) {
    if let Some(part) = part {
        url.extend(sign);
        url.extend(part);
    }
}

/// True if a host is the same in a URL, whatever the flags are.
fn is_plain(host: &[u8], flags: UrlFlags) -> bool {
    let is_unchanged = |byte: &u8| byte.is_ascii_alphanumeric() || b"-.".contains(byte);
    !flags.contains(UrlFlags::URLENCODE) && host.iter().all(is_unchanged)
}

/// Room for the signs between the parts of a URL, and for a port.
const URL_ROOM: usize = 16;
/// The longest text of a part, and of a URL.
pub const PART_LEN_MAX: usize = 8_000_000;
