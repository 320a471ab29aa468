//! A stored cookie, and the requests it is sent with (RFC 6265bis §5.7, §5.8).

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, SystemTime};

use super::Rejected;

/// A cookie in a [`Jar`](super::Jar).
#[derive(Clone)]
pub struct Cookie {
    pub(super) name: Box<[u8]>,
    pub(super) value: Box<[u8]>,
    pub(super) domain: Box<str>,
    pub(super) path: Box<[u8]>,
    pub(super) is_host_only: bool,
    pub(super) is_secure: bool,
    pub(super) is_http_only: bool,
    pub(super) same_site: SameSite,
    /// Seconds since 1970, never 0; `None` for a session cookie.
    pub(super) expires: Option<u64>,
    /// The jar's event count at its creation; unique within a jar.
    pub(super) created: u64,
    /// The jar's event count when it was last sent or set.
    pub(super) used: Cell<u64>,
}

/// The cross-site requests that a cookie is sent with. Stored, but not applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SameSite {
    /// Missing or unknown.
    #[default]
    Default,
    /// No cross-site requests.
    Strict,
    /// Top-level navigation to the site.
    Lax,
    /// All requests.
    None,
}

impl SameSite {
    pub(super) fn parse(value: &[u8]) -> Self {
        let is = |known: &[u8]| value.eq_ignore_ascii_case(known);
        match value {
            _ if is(b"strict") => Self::Strict,
            _ if is(b"lax") => Self::Lax,
            _ if is(b"none") => Self::None,
            _ => Self::Default,
        }
    }
}

impl Cookie {
    /// May be empty; then only the value is sent.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// As received, possibly with quotes.
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// The host that set it, or a parent domain, in lower case.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Begins with a slash.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// True if it is not sent to subdomains.
    pub fn is_host_only(&self) -> bool {
        self.is_host_only
    }

    /// True if it is only sent over secure connections.
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// True if scripts cannot read it.
    pub fn is_http_only(&self) -> bool {
        self.is_http_only
    }

    /// The cross-site requests that it is sent with.
    pub fn same_site(&self) -> SameSite {
        self.same_site
    }

    /// The expiry time; `None` for a session cookie.
    pub fn expires(&self) -> Option<SystemTime> {
        self.expires.and_then(|at| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(at)))
    }

    pub(super) fn is_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|at| at <= now)
    }

    /// Checks the rules for all cookies, whatever their origin. A `__Host-` cookie must have an
    /// explicit path: `path` is the attribute, not the default from a URL.
    pub(super) fn check(&self, path: Option<&[u8]>) -> Result<(), Rejected> {
        let has_control = |bytes: &[u8]| bytes.iter().any(u8::is_ascii_control);
        if [&self.name, &self.value, &self.path].into_iter().any(|bytes| has_control(bytes)) {
            return Err(Rejected::Control);
        }
        if self.name.is_empty() && self.value.is_empty() {
            return Err(Rejected::Empty);
        }
        if self.name.len() + self.value.len() > PAIR_SIZE_MAX {
            return Err(Rejected::PairTooLong);
        }
        if self.same_site == SameSite::None && !self.is_secure {
            return Err(Rejected::InsecureCrossSite);
        }
        // A server cannot distinguish `=__Host-a` from `__Host-a=`, so such a value is treated as a
        // forged name.
        let is_forged = self.name.is_empty() && required_by_prefix(&self.value).is_some();
        let attributes = PrefixAttributes {
            secure: self.is_secure,
            http_only: self.is_http_only,
            host: self.is_host_only && path == Some(b"/"),
        };
        let is_satisfied = satisfies_prefix(&self.name, attributes);
        if is_forged || !is_satisfied { Err(Rejected::Prefix) } else { Ok(()) }
    }

    /// Appends `name=value`, or the value alone.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        if !self.name.is_empty() {
            out.extend_from_slice(&self.name);
            out.push(b'=');
        }
        out.extend_from_slice(&self.value);
    }

    /// The name that a server parses.
    pub(super) fn sent_name(&self) -> &[u8] {
        let sent = if self.name.is_empty() { &self.value } else { &self.name };
        sent.split(|byte| *byte == b'=').next().unwrap_or_default()
    }

    /// Number of bytes that [`Cookie::write`] appends.
    pub(super) fn size(&self) -> usize {
        self.name.len() + usize::from(!self.name.is_empty()) + self.value.len()
    }
}

/// Without the value, which is usually secret.
impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cookie")
            .field("name", &String::from_utf8_lossy(&self.name))
            .field("domain", &self.domain)
            .field("path", &String::from_utf8_lossy(&self.path))
            .finish_non_exhaustive()
    }
}

/// True if a request for `path` includes a cookie for `cookie_path` (§5.1.4).
pub(super) fn path_matches(path: &[u8], cookie_path: &[u8]) -> bool {
    path.strip_prefix(cookie_path).is_some_and(|rest| {
        rest.is_empty() || cookie_path.ends_with(b"/") || rest.starts_with(b"/")
    })
}

/// The attributes that a name prefix requires, or that a cookie has.
#[derive(Clone, Copy)]
pub(super) struct PrefixAttributes {
    /// Only over secure connections.
    pub(super) secure: bool,
    /// Not readable by scripts.
    pub(super) http_only: bool,
    /// Host-only, for all paths.
    pub(super) host: bool,
}

/// True if the attributes satisfy the prefix of the name (§4.1.3).
pub(super) fn satisfies_prefix(name: &[u8], attributes: PrefixAttributes) -> bool {
    required_by_prefix(name).is_none_or(|required| {
        let http_only = attributes.http_only || !required.http_only;
        attributes.secure && http_only && (attributes.host || !required.host)
    })
}

/// The attributes that a name requires.
fn required_by_prefix(name: &[u8]) -> Option<PrefixAttributes> {
    let begins = |prefix: &[u8]| {
        name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    PREFIXES.iter().find(|(prefix, _)| begins(prefix)).map(|(_, required)| *required)
}

/// The first match counts. `__Http-` and `__Host-Http-` are newer than the other prefixes. Browsers
/// enforce them, and for a client that accepts cookies only from servers they cost nothing.
const PREFIXES: &[(&[u8], PrefixAttributes)] = &[
    (b"__Host-Http-", PrefixAttributes { secure: true, http_only: true, host: true }),
    (b"__Host-", PrefixAttributes { secure: true, http_only: false, host: true }),
    (b"__Http-", PrefixAttributes { secure: true, http_only: true, host: false }),
    (b"__Secure-", PrefixAttributes { secure: true, http_only: false, host: false }),
];

/// Maximum size of name and value together, in bytes (§5.6).
pub(super) const PAIR_SIZE_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_match_at_slashes() {
        for (path, cookie_path, expected) in [
            ("/", "/", true),
            ("/a", "/", true),
            ("/a", "/a", true),
            ("/a/", "/a", true),
            ("/a/b", "/a", true),
            ("/a/b", "/a/", true),
            ("/ab", "/a", false),
            ("/a", "/a/", false),
            ("/", "/a", false),
            ("/A", "/a", false),
            ("/a%2fb", "/a", false),
        ] {
            let result = path_matches(path.as_bytes(), cookie_path.as_bytes());
            assert_eq!(result, expected, "{path} {cookie_path}");
        }
    }
}
