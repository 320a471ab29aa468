//! The jar: which cookies are kept, and which go with a request (RFC 6265bis §5.7, §5.8).
//!
//! Cookies stand under their domain, written backwards, in an ordered map. A request asks for its
//! host and for each parent of it: the cookies of other sites cost nothing.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::{Duration, SystemTime};

use smallvec::SmallVec;

use super::cookie::path_matches;
use super::host::Host;
use super::set_cookie::{ATTRIBUTE_SIZE_MAX, SetCookie};
use super::{Cookie, Rejected, UrlParts};

/// How much a jar keeps and sends. Servers decide what is in it, so each number is a bound on
/// what they can do to our memory and to other servers.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Cookies in all. When there are more, one in eleven goes.
    pub cookies_max: usize,
    /// Cookies of one domain.
    pub domain_cookies_max: usize,
    /// Bytes of one `Cookie` value. What does not fit is left out, beginning with the shortest
    /// paths and, among those, the youngest: without a bound, a few cookies for a parent domain
    /// would make every server below it refuse our requests (CVE-2022-32205).
    pub header_size_max: usize,
}

impl Default for Limits {
    /// 3,000 cookies and the eleventh part that goes when they are too many, 50 of one domain
    /// (RFC 6265bis §6.1), 8 KB to send.
    fn default() -> Self {
        Self { cookies_max: 3300, domain_cookies_max: 50, header_size_max: 8192 }
    }
}

/// The cookies of a client.
///
/// At most as large as its [`Limits`] say: when it is full, cookies go in the order of the RFC:
/// expired ones, then those of a crowded domain that are not `Secure`, then others of that
/// domain, then any; each time the one that was not used for longest.
#[derive(Clone, Debug)]
pub struct Jar {
    limits: Limits,
    /// By [`Host::key`]. No list is empty.
    domains: BTreeMap<Box<[u8]>, Vec<Cookie>>,
    /// How many cookies there are in all lists.
    len: usize,
    /// Counts what happens, to tell older from younger: wall clocks jump.
    events: Cell<u64>,
}

impl Jar {
    /// An empty jar.
    pub fn new(limits: Limits) -> Self {
        Self { limits, domains: BTreeMap::new(), len: 0, events: Cell::new(0) }
    }

    /// Does what one `Set-Cookie` field from this URL says: keeps, replaces or ends a cookie.
    ///
    /// # Errors
    /// Why the field was ignored. The jar is as it was then.
    pub fn store(
        &mut self,
        now: SystemTime,
        url: UrlParts<'_>,
        set_cookie: &[u8],
    ) -> Result<(), Rejected> {
        let now = seconds(now);
        let field = SetCookie::parse(set_cookie)?;
        let host = Host::parse(url.host.as_bytes()).ok_or(Rejected::BadHost)?;
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

    /// Appends the value of the `Cookie` field of a request for this URL. False if no cookie goes
    /// with it: then nothing is appended, and nothing was allocated.
    pub fn header(&self, now: SystemTime, url: UrlParts<'_>, out: &mut Vec<u8>) -> bool {
        if self.domains.is_empty() {
            return false;
        }
        let Some(host) = Host::parse(url.host.as_bytes()) else { return false };
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

    /// All cookies, in no useful order; also those that have expired and were not met since.
    pub fn iter(&self) -> impl Iterator<Item = &Cookie> {
        self.domains.values().flatten()
    }

    /// Removes all cookies that are not wanted, such as those of a session.
    pub fn retain(&mut self, mut is_wanted: impl FnMut(&Cookie) -> bool) {
        self.domains.retain(|_, cookies| {
            cookies.retain(&mut is_wanted);
            !cookies.is_empty()
        });
        self.len = self.domains.values().map(Vec::len).sum();
    }

    /// How many cookies there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if a `Secure` cookie with this name would be replaced, or lose its place to this one
    /// in what servers read ("leave secure cookies alone", §5.7 step 16). What counts is the name
    /// that servers read: `=n=1` has none, and is sent as `n=1`.
    fn hides_secure(&self, now: u64, domain: &Host, cookie: &Cookie) -> bool {
        let is_hidden = |other: &Cookie| {
            other.is_secure
                && other.sent_name() == cookie.sent_name()
                && !other.is_expired(now)
                && path_matches(&cookie.path, &other.path)
        };
        // `/` follows `.`: all keys between the two are names below this one.
        let (mut from, mut to) = (domain.key().to_vec(), domain.key().to_vec());
        from.push(b'.');
        to.push(b'/');
        let names = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        let below = self.domains.range::<[u8], _>(names).map(|(_, cookies)| cookies);
        let above = self.above(domain).map(|(_, cookies)| cookies);
        below.chain(above).flatten().any(is_hidden)
    }

    /// The cookies of a host, and those of its parents, for which the flag is set.
    ///
    /// Among the keys that are there, the last one not behind the host's begins with each parent's.
    /// So one look at the map rules out all parents that are not there, however deep a name is.
    fn above<'a>(&'a self, host: &'a Host) -> impl Iterator<Item = (bool, &'a Vec<Cookie>)> {
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

    /// Puts a cookie in, in the place of the one with the same name, domain and path, whose age
    /// it takes on. One that has expired only ends that.
    pub(super) fn insert(
        &mut self,
        now: u64,
        domain: &Host,
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
        let is_crowded = shrink(now, &mut cookies, self.limits.domain_cookies_max, event);
        self.len += cookies.len();
        if !cookies.is_empty() {
            self.domains.insert(domain.key().into(), cookies);
        }
        if self.len > self.limits.cookies_max {
            self.make_room(now);
        }
        if is_crowded { Err(Rejected::Crowded) } else { Ok(()) }
    }

    /// Ends what has expired, then what was not used for longest. More than has to go goes at
    /// once, so that a server that fills the jar does not make each cookie cost a look at all.
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

/// Brings the cookies of one domain below their limit. True if the one of this event had to go.
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

/// The domain of a cookie from this host, and whether it is for the host alone (§5.7 steps 8-10).
fn domain(host: &Host, attribute: Option<&[u8]>) -> Result<(Host, bool), Rejected> {
    let Some(attribute) = attribute else { return Ok((*host, true)) };
    let domain = Host::parse(attribute).ok_or(Rejected::BadDomain)?;
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

/// The path without its query.
fn path_of(path: &str) -> &[u8] {
    let end = path.find(['?', '#']).unwrap_or(path.len());
    if path.starts_with('/') { &path.as_bytes()[..end] } else { b"/" }
}

/// The folder of the path, without its slash (§5.1.4).
fn default_path(path: &str) -> &[u8] {
    let path = path_of(path);
    match path.iter().rposition(|byte| *byte == b'/') {
        None | Some(0) => b"/",
        Some(at) => &path[..at],
    }
}

/// `Max-Age` comes before `Expires`, and neither beyond 400 days (§5.5).
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

/// Whole seconds since 1970; none before.
pub(super) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// How long a cookie can be kept (§5.5).
const AGE_MAX: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// Which part of a full jar goes at once.
const SPARE: usize = 11;

/// More cookies than these for one request need an allocation.
const FOUND_INLINE: usize = 16;

#[cfg(test)]
mod tests;
