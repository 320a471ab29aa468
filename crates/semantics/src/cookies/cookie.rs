//! One cookie, as it is kept, and which requests it goes with (RFC 6265bis §5.7, §5.8).

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
    /// In seconds since 1970, never 0; `None` ends with the session.
    pub(super) expires: Option<u64>,
    /// The jar's count of events when it came. No two cookies of a jar have the same.
    pub(super) created: u64,
    /// The jar's count of events when it was last sent or set.
    pub(super) used: Cell<u64>,
}

/// Which requests of other sites a cookie goes with. Kept for those who ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SameSite {
    /// Nothing was said, or nothing that is known.
    #[default]
    Default,
    /// None.
    Strict,
    /// Those that lead to the site.
    Lax,
    /// All.
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
    /// May be empty: then the value goes alone.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// As it came: perhaps with quotes around it.
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// The host that set it, or a parent of that, in lower case.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Begins with a slash.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// True if it does not go to the hosts below its domain.
    pub fn is_host_only(&self) -> bool {
        self.is_host_only
    }

    /// True if it goes over secure connections only.
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// True if it is not for scripts.
    pub fn is_http_only(&self) -> bool {
        self.is_http_only
    }

    /// Which requests of other sites it goes with.
    pub fn same_site(&self) -> SameSite {
        self.same_site
    }

    /// When it ends; `None` ends with the session.
    pub fn expires(&self) -> Option<SystemTime> {
        self.expires.and_then(|at| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(at)))
    }

    pub(super) fn is_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|at| at <= now)
    }

    /// What holds for all cookies, wherever they come from. A cookie of the `__Host-` kind must
    /// have been given its path: `path` is what was said, not what follows from a URL.
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
        // A server cannot tell `=__Host-a` from `__Host-a=`: such a value is no better than a
        // forged name.
        let is_forged = self.name.is_empty() && promise(&self.value).is_some();
        let promises = Promises {
            secure: self.is_secure,
            http_only: self.is_http_only,
            host: self.is_host_only && path == Some(b"/"),
        };
        let is_kept = keeps_promises(&self.name, promises);
        if is_forged || !is_kept { Err(Rejected::Prefix) } else { Ok(()) }
    }

    /// `name=value`, or the value alone.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        if !self.name.is_empty() {
            out.extend_from_slice(&self.name);
            out.push(b'=');
        }
        out.extend_from_slice(&self.value);
    }

    /// What the other side takes for the name.
    pub(super) fn sent_name(&self) -> &[u8] {
        let sent = if self.name.is_empty() { &self.value } else { &self.name };
        sent.split(|byte| *byte == b'=').next().unwrap_or_default()
    }

    /// How much [`Cookie::write`] writes.
    pub(super) fn size(&self) -> usize {
        self.name.len() + usize::from(!self.name.is_empty()) + self.value.len()
    }
}

/// Without the value, which is a secret more often than not.
impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cookie")
            .field("name", &String::from_utf8_lossy(&self.name))
            .field("domain", &self.domain)
            .field("path", &String::from_utf8_lossy(&self.path))
            .finish_non_exhaustive()
    }
}

/// True if a request for `path` takes a cookie of `cookie_path` along (§5.1.4).
pub(super) fn path_matches(path: &[u8], cookie_path: &[u8]) -> bool {
    path.strip_prefix(cookie_path).is_some_and(|rest| {
        rest.is_empty() || cookie_path.ends_with(b"/") || rest.starts_with(b"/")
    })
}

/// What the attributes of a cookie keep.
#[derive(Clone, Copy)]
pub(super) struct Promises {
    /// Goes over secure connections only.
    pub(super) secure: bool,
    /// Not for scripts.
    pub(super) http_only: bool,
    /// Set by its only host, for all of it.
    pub(super) host: bool,
}

/// True if the attributes keep what the name promises by its beginning (§4.1.3).
pub(super) fn keeps_promises(name: &[u8], kept: Promises) -> bool {
    promise(name).is_none_or(|promised| {
        kept.secure && (kept.http_only || !promised.http_only) && (kept.host || !promised.host)
    })
}

/// What a name promises.
fn promise(name: &[u8]) -> Option<Promises> {
    let begins = |prefix: &[u8]| {
        name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    PREFIXES.iter().find(|(prefix, _)| begins(prefix)).map(|(_, promised)| *promised)
}

/// The first that fits counts. `__Http-` and `__Host-Http-` are younger than the others: browsers
/// keep them, and a client that takes cookies from servers only can do so at no cost.
const PREFIXES: &[(&[u8], Promises)] = &[
    (b"__Host-Http-", Promises { secure: true, http_only: true, host: true }),
    (b"__Host-", Promises { secure: true, http_only: false, host: true }),
    (b"__Http-", Promises { secure: true, http_only: true, host: false }),
    (b"__Secure-", Promises { secure: true, http_only: false, host: false }),
];

/// Name and value together (§5.6).
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
