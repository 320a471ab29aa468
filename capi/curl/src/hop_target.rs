//! Where a request of a transfer goes: the parts of its URL that the head and the connection need.

use std::sync::Arc;

use crate::code::{CurlCode, UrlCode};
use crate::easy_options::EasyOptions;
use crate::escape::unescape;
use crate::failure::Failure;
use crate::option::OptionId as Id;
use crate::protocols::allows;
use crate::url::{CurlUrl, UrlFlags, UrlPart};

/// A URL of HTTP, taken apart.
#[derive(Clone, Debug)]
pub(crate) struct HopTarget {
    pub(crate) is_secure: bool,
    /// `ws` or `wss`.
    pub(crate) is_websocket: bool,
    /// A local file: there is no host.
    pub(crate) is_file: bool,
    /// Without brackets; a name beyond ASCII in punycode.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The zone of an IPv6 address, which is not sent.
    pub(crate) zone: Option<Box<[u8]>>,
    /// Path and query.
    pub(crate) path: Vec<u8>,
    pub(crate) user: Option<Vec<u8>>,
    pub(crate) password: Option<Vec<u8>>,
    /// The whole URL (`CURLINFO_EFFECTIVE_URL`).
    pub(crate) url: Arc<[u8]>,
    /// The parts of a `CURLU` handle, from which another URL may follow than from the text.
    given: Option<Box<CurlUrl>>,
}

impl HopTarget {
    /// Takes the URL of an option apart.
    pub(crate) fn parse(text: &[u8], options: &EasyOptions) -> Result<Self, Failure> {
        let mut flags = UrlFlags::GUESS_SCHEME | UrlFlags::NON_SUPPORT_SCHEME;
        if options.values.is_on(Id::DISALLOW_USERNAME_IN_URL) {
            flags = flags | UrlFlags::DISALLOW_USER;
        }
        if options.values.is_on(Id::PATH_AS_IS) {
            flags = flags | UrlFlags::PATH_AS_IS;
        }
        let scheme = options.values.bytes(Id::DEFAULT_PROTOCOL);
        let scheme = scheme.filter(|_| memchr::memmem::find(text, b"://").is_none());
        let mut parsed = CurlUrl::new();
        match scheme {
            Some(scheme) => parsed.set(UrlPart::Url, &[&scheme[..], b"://", text].concat(), flags),
            None => parsed.set(UrlPart::Url, text, flags),
        }
        .map_err(rejected)?;
        Self::first(&parsed, options)
    }

    /// The target of a `CURLU` handle.
    pub(crate) fn given(parsed: CurlUrl, options: &EasyOptions) -> Result<Self, Failure> {
        let target = Self::first(&parsed, options)?;
        Ok(Self { given: Some(Box::new(parsed)), ..target })
    }

    fn first(parsed: &CurlUrl, options: &EasyOptions) -> Result<Self, Failure> {
        let mut target = Self::of(parsed, options, false)?;
        if let Some(port) = port_of(options) {
            target.port = port;
        }
        Ok(target)
    }

    /// The parts of the URL. Few requests need them.
    fn parsed(&self) -> CurlUrl {
        if let Some(given) = &self.given {
            return CurlUrl::clone(given);
        }
        let mut parsed = CurlUrl::new();
        let set = parsed.set(UrlPart::Url, &self.url, AS_IT_IS);
        debug_assert_eq!(set, Ok(()), "it is from the parts of a URL");
        parsed
    }

    /// The target of a redirect.
    pub(crate) fn join(&self, location: &[u8], options: &EasyOptions) -> Result<Self, Failure> {
        let mut parsed = self.parsed();
        let mut flags = UrlFlags::URLENCODE | UrlFlags::ALLOW_SPACE;
        if options.values.is_on(Id::PATH_AS_IS) {
            flags = flags | UrlFlags::PATH_AS_IS;
        }
        parsed.set(UrlPart::Url, location, flags).map_err(|code| {
            let text = format!("The redirect target URL could not be parsed: {}", code.text());
            Failure { text: text.into(), ..rejected(code) }
        })?;
        let has_login = parsed.get(UrlPart::User, UrlFlags::default()).is_ok();
        if has_login && options.values.is_on(Id::DISALLOW_USERNAME_IN_URL) {
            return Err(rejected(UrlCode::UserNotAllowed));
        }
        let mut target = Self::of(&parsed, options, true)?;
        let has_port = parsed.has_port();
        // CURLOPT_PORT holds for the first host, as far as a redirect names no port.
        if let Some(port) = port_of(options).filter(|_| !has_port && target.host == self.host) {
            target.port = port;
        }
        Ok(target)
    }

    /// The URL of a redirect that is not followed; as it was received if it is none.
    pub(crate) fn would_be(&self, location: &[u8]) -> Vec<u8> {
        let mut parsed = self.parsed();
        let set = parsed.set(UrlPart::Url, location, UrlFlags::NON_SUPPORT_SCHEME);
        let url = set.and_then(|()| parsed.get(UrlPart::Url, UrlFlags::default()));
        url.unwrap_or_else(|_| location.to_vec())
    }

    /// The value of `Referer` for the next request (CURLOPT_AUTOREFERER(3)).
    pub(crate) fn referer(&self) -> Option<Vec<u8>> {
        let mut parsed = self.parsed();
        for part in [UrlPart::Fragment, UrlPart::User, UrlPart::Password] {
            parsed.clear(part);
        }
        parsed.get(UrlPart::Url, UrlFlags::default()).ok()
    }

    /// The same target with HTTPS. A port that the URL or an option names is kept.
    pub(crate) fn with_https(&self, options: &EasyOptions) -> Result<Self, Failure> {
        let mut parsed = self.parsed();
        let port = parsed.get(UrlPart::Port, UrlFlags::DEFAULT_PORT).map_err(rejected)?;
        parsed.set(UrlPart::Scheme, b"https", UrlFlags::default()).map_err(rejected)?;
        let mut target = Self::of(&parsed, options, false)?;
        if port != self.port.to_string().as_bytes() {
            target.port = self.port; // CURLOPT_PORT
        }
        Ok(target)
    }

    fn of_file(parsed: &CurlUrl) -> Result<Self, Failure> {
        let get = |part| parsed.get(part, UrlFlags::default()).map_err(rejected);
        Ok(Self {
            is_secure: false,
            is_websocket: false,
            is_file: true,
            host: String::new(),
            port: 0,
            zone: None,
            path: get(UrlPart::Path)?,
            user: None,
            password: None,
            url: get(UrlPart::Url)?.into(),
            given: None,
        })
    }

    fn of(parsed: &CurlUrl, options: &EasyOptions, is_redirect: bool) -> Result<Self, Failure> {
        let get = |part, flags| parsed.get(part, flags);
        let scheme = parsed.scheme().ok_or_else(|| rejected(UrlCode::NoScheme))?;
        let is_secure = match scheme {
            _ if !allows(&options.values, scheme, is_redirect) => return Err(unsupported(scheme)),
            b"http" | b"ws" => false,
            b"https" | b"wss" => true,
            b"file" => return Self::of_file(parsed),
            other => return Err(unsupported(other)),
        };
        // For a name without punycode the URL interface has another code, a lack of memory.
        let host = get(UrlPart::Host, UrlFlags::PUNYCODE)
            .map_err(|_| Failure::new(CurlCode::UrlMalformat, ""))?;
        let host = String::from_utf8(host).map_err(|_| rejected(UrlCode::BadHostname))?;
        if host.len() > HOST_LEN_MAX {
            return Err(Failure::new(
                CurlCode::UrlMalformat,
                format!("Too long host name (maximum is {HOST_LEN_MAX})"),
            ));
        }
        let mut path = get(UrlPart::Path, UrlFlags::URLENCODE).map_err(rejected)?;
        if let Ok(query) = get(UrlPart::Query, UrlFlags::default()) {
            path.push(b'?');
            path.extend_from_slice(&query);
        }
        Ok(Self {
            is_secure,
            is_websocket: matches!(scheme, b"ws" | b"wss"),
            is_file: false,
            host: match host.starts_with('[') {
                true => host.trim_matches(['[', ']']).to_owned(),
                false => host,
            },
            port: match (parsed.port_number(), scheme) {
                (None, b"ws") => 80, // the URL interface does not know it, as Debian's
                (None, b"wss") => 443,
                (port, _) => port.ok_or_else(|| rejected(UrlCode::BadPortNumber))?,
            },
            zone: get(UrlPart::ZoneId, UrlFlags::default()).ok().map(Vec::into_boxed_slice),
            path,
            user: credential(parsed, UrlPart::User)?,
            password: credential(parsed, UrlPart::Password)?,
            url: get(UrlPart::Url, UrlFlags::default()).map_err(rejected)?.into(),
            given: None,
        })
    }

    /// The value of `Host`: without the port that belongs to the scheme.
    pub(crate) fn host_field(&self) -> String {
        let mut host = self.bracketed();
        if !matches!((self.is_secure, self.port), (true, 443) | (false, 80)) {
            host.push(':');
            host.push_str(&self.port.to_string());
        }
        host
    }

    /// The whole URL as a request target, for a proxy: without credentials and fragment.
    pub(crate) fn absolute_form(&self) -> Vec<u8> {
        let mut url = self.parsed();
        for part in [UrlPart::Fragment, UrlPart::User, UrlPart::Password] {
            url.clear(part);
        }
        if parsed_port(&url) != Some(self.port) {
            let _ = url.set(UrlPart::Port, self.port.to_string().as_bytes(), UrlFlags::default());
        }
        let flags = UrlFlags::NO_DEFAULT_PORT | UrlFlags::PUNYCODE;
        url.get(UrlPart::Url, flags).unwrap_or_else(|_| self.url.to_vec())
    }

    /// The origin as a URL, which selects the connection.
    pub(crate) fn origin(&self) -> String {
        let scheme = if self.is_secure { "https" } else { "http" };
        format!("{scheme}://{}:{}/", self.bracketed(), self.port)
    }

    fn bracketed(&self) -> String {
        let mut text = String::with_capacity(self.host.len() + "[]:65535".len());
        let is_ipv6 = self.host.contains(':');
        text.push_str(if is_ipv6 { "[" } else { "" });
        text.push_str(&self.host);
        text.push_str(if is_ipv6 { "]" } else { "" });
        text
    }
}

/// The port of a URL, or of its scheme.
fn parsed_port(url: &CurlUrl) -> Option<u16> {
    let text = url.get(UrlPart::Port, UrlFlags::DEFAULT_PORT).ok()?;
    std::str::from_utf8(&text).ok()?.parse().ok()
}

/// `CURLOPT_PORT`.
fn port_of(options: &EasyOptions) -> Option<u16> {
    u16::try_from(options.values.number(Id::PORT)).ok().filter(|port| *port > 0)
}

/// A user or a password, decoded: of the control characters, only NUL is refused.
fn credential(parsed: &CurlUrl, part: UrlPart) -> Result<Option<Vec<u8>>, Failure> {
    let text = parsed.get(part, UrlFlags::default()).ok().map(|text| unescape(&text));
    match text.as_ref().is_some_and(|text| text.contains(&0)) {
        true => Err(rejected(UrlCode::UrlDecode)),
        false => Ok(text),
    }
}

fn unsupported(scheme: &[u8]) -> Failure {
    let name = String::from_utf8_lossy(scheme);
    Failure::new(
        CurlCode::UnsupportedProtocol,
        format!("Protocol \"{name}\" not supported or disabled in libcurl"),
    )
}

/// The code of a refused URL. libcurl has no further text for it.
fn rejected(code: UrlCode) -> Failure {
    let code = match code {
        UrlCode::UnsupportedScheme => CurlCode::UnsupportedProtocol,
        UrlCode::UserNotAllowed => CurlCode::LoginDenied,
        UrlCode::OutOfMemory => CurlCode::OutOfMemory,
        _ => CurlCode::UrlMalformat,
    };
    Failure::new(code, "")
}

/// For a URL that was accepted before.
const AS_IT_IS: UrlFlags =
    UrlFlags(UrlFlags::NON_SUPPORT_SCHEME.0 | UrlFlags::PATH_AS_IS.0 | UrlFlags::ALLOW_SPACE.0);
/// A longer host name is malformed.
const HOST_LEN_MAX: usize = 0xffff;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<HopTarget, Failure> {
        HopTarget::parse(url.as_bytes(), &EasyOptions::default())
    }

    #[test]
    fn hosts_without_punycode_are_malformed() {
        let long = format!("http://curl-r\u{fc}les-{}.example/", "la-".repeat(20));
        for url in [&b"http://utf-8-\xe2\x90.example/"[..], long.as_bytes()] {
            let parsed = HopTarget::parse(url, &EasyOptions::default());
            assert_eq!(parsed.map(|_| ()).map_err(|it| it.code), Err(CurlCode::UrlMalformat));
        }
    }

    #[test]
    fn credentials_may_have_control_characters() {
        let target = parse("http://user%0aname:pass%7f@site.test/").expect("a URL");
        assert_eq!(target.user.as_deref(), Some(&b"user\nname"[..]));
        assert_eq!(target.password.as_deref(), Some(&b"pass\x7f"[..]));
        let refused = parse("http://user%00name@site.test/").expect_err("NUL");
        assert_eq!(refused.code, CurlCode::UrlMalformat);
    }

    /// The parts are parsed anew when they are needed.
    #[test]
    fn a_url_is_parsed_again_from_its_text() {
        let urls = [
            "http://user:pa%3as@site.test:81/a/../b c;d?e=f%zz#g h",
            "http://site.test",
            "site.test/?",
            "HTTPS://[fe80::1%25eth0]:443/%2E%2e/",
            "http://site%2etest//x/./y/",
            "http:/site.test#",
            "file:///etc//./passwd",
        ];
        for url in urls {
            let mut parsed = CurlUrl::new();
            let flags = UrlFlags::GUESS_SCHEME | UrlFlags::NON_SUPPORT_SCHEME;
            let text = url.as_bytes();
            if parsed.set(UrlPart::Url, text, flags | UrlFlags::ALLOW_SPACE).is_err() {
                parsed.set(UrlPart::Url, text, flags).expect(url);
            }
            let target = HopTarget::of(&parsed, &EasyOptions::default(), false).expect(url);
            assert_eq!(
                target.parsed().get(UrlPart::Url, UrlFlags::default()).as_deref(),
                Ok(&target.url[..]),
                "{url}"
            );
            for part in UrlPart::ALL.into_iter().filter(|part| *part != UrlPart::Query) {
                let get = |url: &CurlUrl| url.get(part, UrlFlags::default());
                assert_eq!(get(&target.parsed()), get(&parsed), "{url} {part:?}");
            }
        }
    }

    #[test]
    fn redirects_that_are_not_followed_have_a_url() {
        let target = parse("http://site.test/a/b?c#d").expect("a URL");
        let rows = [
            ("../e", "http://site.test/e"),
            ("ht3p://other.test/", "ht3p://other.test/"),
            ("http://1.2 .4.5/test", "http://1.2 .4.5/test"),
        ];
        for (location, url) in rows {
            assert_eq!(target.would_be(location.as_bytes()), url.as_bytes(), "{location}");
        }
        assert_eq!(target.referer().as_deref(), Some(&b"http://site.test/a/b?c"[..]));
    }
}
