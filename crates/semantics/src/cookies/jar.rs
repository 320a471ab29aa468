//! The cookie jar: storing cookies, and selecting those for a request (RFC 6265bis §5.7, §5.8).
//!
//! Cookies are stored by their reversed domain in an ordered map. A request looks up its host and
//! the parent domains; cookies of other sites have no cost.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::{Duration, SystemTime};

use smallvec::SmallVec;

use super::cookie::path_matches;
use super::host::CookieHost;
use super::set_cookie::{ATTRIBUTE_SIZE_MAX, SetCookie};
use super::{Cookie, Rejected, UrlParts};

/// Limits of a jar. Servers control its content, so each limit bounds our memory, or what one
/// server can do to another.
#[derive(Clone, Copy, Debug)]
pub struct JarLimits {
    /// Maximum number of cookies. Beyond it, one in eleven is removed.
    pub cookies_max: usize,
    /// Maximum number of cookies of a domain.
    pub domain_cookies_max: usize,
    /// Maximum size of a `Cookie` value in bytes. Cookies beyond it are omitted, first those with
    /// the shortest paths and, among those, the newest. Without a limit, a few cookies for a parent
    /// domain would make all its servers reject our requests (CVE-2022-32205).
    pub header_size_max: usize,
}

impl Default for JarLimits {
    /// 3,000 cookies plus one eleventh as reserve, 50 per domain (RFC 6265bis §6.1), and 8 KB per
    /// `Cookie` field.
    fn default() -> Self {
        Self { cookies_max: 3300, domain_cookies_max: 50, header_size_max: 8192 }
    }
}

/// The cookies of a client.
///
/// Its [`JarLimits`] bound its size. A full jar removes cookies in the order of the RFC: expired
/// ones, then those of a domain over its limit that are not `Secure`, then others of that domain,
/// then any; each time the least recently used one.
#[derive(Clone, Debug)]
pub struct Jar {
    limits: JarLimits,
    /// By [`CookieHost::key`]. No list is empty.
    domains: BTreeMap<Box<[u8]>, Vec<Cookie>>,
    /// Number of cookies in all lists.
    len: usize,
    /// Event counter for ages, because wall clocks can jump.
    events: Cell<u64>,
}

impl Jar {
    /// An empty jar.
    pub fn new(limits: JarLimits) -> Self {
        Self { limits, domains: BTreeMap::new(), len: 0, events: Cell::new(0) }
    }

    /// Applies a `Set-Cookie` field from this URL: stores, replaces or removes a cookie.
    ///
    /// # Errors
    /// Why the field was ignored; the jar is unchanged.
    pub fn store(
        &mut self,
        now: SystemTime,
        url: UrlParts<'_>,
        set_cookie: &[u8],
    ) -> Result<(), Rejected> {
        let now = seconds(now);
        let field = SetCookie::parse(set_cookie)?;
        let host = CookieHost::parse(url.host.as_bytes()).ok_or(Rejected::BadHost)?;
        let (domain, is_host_only) = domain(&host, field.domain)?;
        let path = field.path.unwrap_or_else(|| default_path(url.path));
        if path.len() > ATTRIBUTE_SIZE_MAX {
            return Err(Rejected::PathTooLong);
        }
        if field.is_secure && !url.is_secure {
            return Err(Rejected::InsecureConnection);
        }
        let cookie = Cookie {
            name: field.name.into(),
            value: field.value.into(),
            domain: domain.name().into(),
            path: path.into(),
            is_host_only,
            is_secure: field.is_secure,
            is_http_only: field.is_http_only,
            same_site: field.same_site,
            expires: expiry(now, &field),
            created: 0,
            used: Cell::new(0),
        };
        cookie.check(field.path)?;
        if !url.is_secure && self.hides_secure(now, &domain, &cookie) {
            return Err(Rejected::HidesSecure);
        }
        self.insert(now, &domain, cookie)
    }

    /// Appends the value of the `Cookie` field of a request for this URL. Returns false, without an
    /// allocation, if no cookie matches.
    pub fn header(&self, now: SystemTime, url: UrlParts<'_>, out: &mut Vec<u8>) -> bool {
        if self.domains.is_empty() {
            return false;
        }
        let Some(host) = CookieHost::parse(url.host.as_bytes()) else { return false };
        let (now, path) = (seconds(now), path_of(url.path));
        let mut found = SmallVec::<[&Cookie; FOUND_INLINE]>::new();
        for (is_parent, cookies) in self.above(&host) {
            found.extend(cookies.iter().filter(|cookie| {
                (!cookie.is_host_only || !is_parent)
                    && (!cookie.is_secure || url.is_secure)
                    && !cookie.is_expired(now)
                    && path_matches(path, &cookie.path)
            }));
        }
        found.sort_unstable_by_key(|cookie| (Reverse(cookie.path.len()), cookie.created));
        let used = self.next_event();
        let start = out.len();
        for cookie in found {
            let separator: &[u8] = if out.len() == start { b"" } else { b"; " };
            let size = out.len() - start + separator.len() + cookie.size();
            if size <= self.limits.header_size_max {
                out.extend_from_slice(separator);
                cookie.write(out);
                cookie.used.set(used);
            }
        }
        out.len() > start
    }

    /// All cookies in unspecified order, including expired ones that were not removed yet.
    pub fn iter(&self) -> impl Iterator<Item = &Cookie> {
        self.domains.values().flatten()
    }

    /// Removes all cookies for which `is_wanted` returns false, such as session cookies.
    pub fn retain(&mut self, mut is_wanted: impl FnMut(&Cookie) -> bool) {
        self.domains.retain(|_, cookies| {
            cookies.retain(&mut is_wanted);
            !cookies.is_empty()
        });
        self.len = self.domains.values().map(Vec::len).sum();
    }

    /// The number of cookies.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no cookies.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if the cookie would replace a `Secure` cookie with the same name, or be sent before it
    /// ("leave secure cookies alone", §5.7 step 16). The name is that which servers parse: `=n=1`
    /// has no name and is sent as `n=1`.
    fn hides_secure(&self, now: u64, domain: &CookieHost, cookie: &Cookie) -> bool {
        let is_hidden = |other: &Cookie| {
            other.is_secure
                && other.sent_name() == cookie.sent_name()
                && !other.is_expired(now)
                && path_matches(&cookie.path, &other.path)
        };
        // `/` follows `.` in ASCII: all keys between the two are subdomains.
        let (mut from, mut to) = (domain.key().to_vec(), domain.key().to_vec());
        from.push(b'.');
        to.push(b'/');
        let names = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        let below = self.domains.range::<[u8], _>(names).map(|(_, cookies)| cookies);
        let above = self.above(domain).map(|(_, cookies)| cookies);
        below.chain(above).flatten().any(is_hidden)
    }

    /// The cookies of the host, with the flag set for those of parent domains.
    ///
    /// The last key that is not greater than the host's key starts with the key of each parent
    /// domain. So one lookup excludes all missing parents, however deep the name is.
    fn above<'a>(&'a self, host: &'a CookieHost) -> impl Iterator<Item = (bool, &'a Vec<Cookie>)> {
        let mut len = host.key().len();
        std::iter::from_fn(move || {
            loop {
                let key = host.key_within(len)?;
                let names = (Bound::Unbounded, Bound::Included(key));
                let (found, cookies) = self.domains.range::<[u8], _>(names).next_back()?;
                if **found == *key {
                    len = key.len() - 1;
                    return Some((key.len() < host.key().len(), cookies));
                }
                len = found.iter().zip(key).take_while(|(a, b)| a == b).count();
            }
        })
    }

    /// Inserts a cookie. It replaces the one with the same name, domain and path, and keeps its
    /// age. An expired cookie only removes it.
    pub(super) fn insert(
        &mut self,
        now: u64,
        domain: &CookieHost,
        mut cookie: Cookie,
    ) -> Result<(), Rejected> {
        let event = self.next_event();
        cookie.created = event;
        cookie.used = Cell::new(event);
        let mut cookies = self.domains.remove(domain.key()).unwrap_or_default();
        self.len -= cookies.len();
        let is_same = |other: &Cookie| {
            other.name == cookie.name
                && other.path == cookie.path
                && other.is_host_only == cookie.is_host_only
        };
        if let Some(at) = cookies.iter().position(is_same) {
            cookie.created = cookies.swap_remove(at).created;
        }
        if !cookie.is_expired(now) {
            cookies.push(cookie);
        }
        let is_full = shrink(now, &mut cookies, self.limits.domain_cookies_max, event);
        self.len += cookies.len();
        if !cookies.is_empty() {
            self.domains.insert(domain.key().into(), cookies);
        }
        if self.len > self.limits.cookies_max {
            self.make_room(now);
        }
        if is_full { Err(Rejected::DomainFull) } else { Ok(()) }
    }

    /// Removes expired cookies, then the least recently used ones. It removes a reserve at once, so
    /// that a server that fills the jar does not cause a full scan for each cookie.
    fn make_room(&mut self, now: u64) {
        self.retain(|cookie| !cookie.is_expired(now));
        let len_max = self.limits.cookies_max;
        if self.len <= len_max {
            return;
        }
        let age = |cookie: &Cookie| (cookie.used.get(), cookie.created);
        let mut ages: Vec<_> = self.iter().map(age).collect();
        let excess = self.len - (len_max - len_max / SPARE);
        let youngest = *ages.select_nth_unstable(excess - 1).1;
        self.retain(|cookie| age(cookie) > youngest);
    }

    fn next_event(&self) -> u64 {
        self.events.set(self.events.get() + 1);
        self.events.get()
    }
}

/// Removes cookies of a domain until it is within its limit. Returns true if the cookie of this
/// event was removed.
fn shrink(now: u64, cookies: &mut Vec<Cookie>, len_max: usize, event: u64) -> bool {
    if cookies.len() > len_max {
        cookies.retain(|cookie| !cookie.is_expired(now));
    }
    let mut is_gone = false;
    while cookies.len() > len_max {
        let value =
            |(_, cookie): &(usize, &Cookie)| (cookie.is_secure, cookie.used.get(), cookie.created);
        let Some((at, cookie)) = cookies.iter().enumerate().min_by_key(value) else { break };
        is_gone |= cookie.used.get() == event;
        cookies.swap_remove(at);
    }
    is_gone
}

/// The domain of a cookie from this host, and whether it is host-only (§5.7 steps 8-10).
fn domain(host: &CookieHost, attribute: Option<&[u8]>) -> Result<(CookieHost, bool), Rejected> {
    let Some(attribute) = attribute else { return Ok((*host, true)) };
    let domain = CookieHost::parse(attribute).ok_or(Rejected::BadDomain)?;
    if !host.domain_matches(&domain) {
        return Err(Rejected::ForeignDomain);
    }
    let is_same = host.key() == domain.key();
    match domain.is_public_suffix() {
        true if is_same => Ok((domain, true)),
        true => Err(Rejected::PublicSuffix),
        false => Ok((domain, domain.is_address())),
    }
}

/// The path without the query.
fn path_of(path: &str) -> &[u8] {
    let end = path.find(['?', '#']).unwrap_or(path.len());
    if path.starts_with('/') { &path.as_bytes()[..end] } else { b"/" }
}

/// The directory of the path, without the final slash (§5.1.4).
fn default_path(path: &str) -> &[u8] {
    let path = path_of(path);
    match path.iter().rposition(|byte| *byte == b'/') {
        None | Some(0) => b"/",
        Some(at) => &path[..at],
    }
}

/// The expiry from `Max-Age`, or else `Expires`, at most 400 days ahead (§5.5).
fn expiry(now: u64, field: &SetCookie<'_>) -> Option<u64> {
    let at = match (field.max_age, field.expires) {
        (Some(age), _) => now.saturating_add_signed(if age > 0 { age } else { i64::MIN }),
        (None, Some(at)) => u64::try_from(at).unwrap_or(0),
        (None, None) => return None,
    };
    Some(cap(now, at))
}

pub(super) fn cap(now: u64, expires: u64) -> u64 {
    expires.min(now.saturating_add(AGE_MAX.as_secs()))
}

/// Whole seconds since 1970; 0 before.
pub(super) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Maximum age of a cookie (§5.5).
const AGE_MAX: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// The fraction of a full jar that is removed at once.
const SPARE: usize = 11;

/// Maximum number of cookies for a request without an allocation.
const FOUND_INLINE: usize = 16;

#[cfg(test)]
mod tests;
