//! The stored cookies: adding, replacing, expiring, and selecting them for a request.

use std::cmp::Reverse;

use super::matching::{BUCKETS, bucket, is_acceptable, is_address, is_path_within, is_within};
use super::parse::{CookieContext, LINE_LEN_MAX, TrimBlanks as _, header_line, netscape_line};
use super::text::{netscape_format, strip_field_name};
use super::{CookieOrigin, SENT_COOKIES_MAX, SentCookie, StoredCookie};
use crate::text::file_lines;

/// The cookies of a handle or a share.
#[derive(Clone, Debug)]
pub(crate) struct CookieEngine {
    /// By a hash of the domain, each in the order of creation.
    buckets: Vec<Vec<StoredCookie>>,
    /// `CURLOPT_COOKIESESSION`: session cookies of files are not loaded.
    skips_session_cookies: bool,
    next_serial: u64,
    /// The bucket and the place of the cookie that was stored last.
    last_stored: Option<(usize, usize)>,
}

/// Result of adding a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddedCookie {
    /// It is new.
    Added,
    /// It has replaced a cookie of the same name, domain and path.
    Replaced,
    /// It was refused.
    Refused,
}

/// The commands of `CURLOPT_COOKIELIST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CookieCommand {
    /// `ALL`: remove all cookies.
    RemoveAll,
    /// `SESS`: remove session cookies.
    RemoveSession,
    /// `FLUSH`: write the jar; for the caller.
    Flush,
    /// `RELOAD`: load all files again; for the caller.
    Reload,
}

impl CookieCommand {
    /// The command of this text, without case. `None`: the text is a cookie.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let all = [
            ("ALL", Self::RemoveAll),
            ("SESS", Self::RemoveSession),
            ("FLUSH", Self::Flush),
            ("RELOAD", Self::Reload),
        ];
        let mut all = all.into_iter();
        all.find(|(name, _)| text.eq_ignore_ascii_case(name.as_bytes())).map(|(_, command)| command)
    }
}

impl CookieEngine {
    /// Without cookies.
    pub(crate) fn new() -> Self {
        Self {
            buckets: vec![Vec::new(); BUCKETS],
            skips_session_cookies: false,
            next_serial: 0,
            last_stored: None,
        }
    }

    /// Sets `CURLOPT_COOKIESESSION`, which affects files loaded later.
    pub(crate) fn set_skips_session_cookies(&mut self, skips: bool) {
        self.skips_session_cookies = skips;
    }

    /// Adds the value of a `Set-Cookie` field of a response.
    pub(crate) fn add_header(
        &mut self,
        value: &[u8],
        origin: CookieOrigin<'_>,
        now: i64,
    ) -> AddedCookie {
        let context = self.context(Some(origin), true, now);
        self.add(header_line(value, &context), &context)
    }

    /// Adds a cookie of the application: a line of Netscape's format, or a header line.
    pub(crate) fn add_line(&mut self, line: &[u8], now: i64) -> AddedCookie {
        let context = self.context(None, true, now);
        self.add(parse_line(line, &context), &context)
    }

    /// The message for verbose output about the cookie that was just added. `None` if it was
    /// refused.
    pub(crate) fn message(&self, added: AddedCookie) -> Option<String> {
        let verb = match added {
            AddedCookie::Added => "Added",
            AddedCookie::Replaced => "Replaced",
            AddedCookie::Refused => return None,
        };
        let (bucket, at) = self.last_stored?;
        let cookie = self.buckets.get(bucket)?.get(at)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let or_nil =
            |bytes: &Option<Vec<u8>>| bytes.as_deref().map_or_else(|| "(nil)".into(), text);
        Some(format!(
            "{verb} cookie {}=\"{}\" for domain {}, path {}, expire {}",
            text(&cookie.name),
            text(&cookie.value),
            or_nil(&cookie.domain),
            or_nil(&cookie.path),
            cookie.expires
        ))
    }

    /// Loads the text of a file, without replacing cookies of responses.
    pub(crate) fn load(&mut self, file: &[u8], now: i64) {
        let context = self.context(None, false, now);
        for line in file_lines(file, LINE_LEN_MAX) {
            let line =
                if strip_field_name(line).is_none() { line.trim_blanks_start() } else { line };
            self.add(parse_line(line, &context), &context);
        }
        self.remove_expired(now);
    }

    /// Executes `RemoveAll` and `RemoveSession`. The other commands need files of the caller.
    pub(crate) fn execute(&mut self, command: CookieCommand) {
        match command {
            CookieCommand::RemoveAll => self.buckets.iter_mut().for_each(Vec::clear),
            CookieCommand::RemoveSession => self.retain(|cookie| cookie.expires != 0),
            CookieCommand::Flush | CookieCommand::Reload => {}
        }
    }

    /// The cookies for a request: longer paths, domains and names precede shorter ones, newer
    /// cookies older ones.
    pub(crate) fn sent(&mut self, origin: CookieOrigin<'_>, now: i64) -> Vec<SentCookie> {
        let sent = |cookie: &StoredCookie| SentCookie {
            name: cookie.name.clone(),
            value: cookie.value.clone(),
        };
        self.select(origin, now).into_iter().map(sent).collect()
    }

    /// The lines of `CURLINFO_COOKIELIST`.
    pub(crate) fn list(&self) -> Vec<Vec<u8>> {
        let cookies = self.buckets.iter().flatten();
        cookies.filter_map(netscape_format).collect()
    }

    /// The text of the jar: a comment, and the cookies, the newest first.
    pub(crate) fn jar(&mut self, now: i64) -> Vec<u8> {
        self.remove_expired(now);
        let mut cookies: Vec<_> = self.buckets.iter().flatten().collect();
        cookies.sort_unstable_by_key(|cookie| Reverse(cookie.serial));
        let mut text = JAR_HEAD.to_vec();
        for line in cookies.into_iter().filter_map(netscape_format) {
            text.extend_from_slice(&line);
            text.push(b'\n');
        }
        text
    }

    fn context<'a>(
        &self,
        origin: Option<CookieOrigin<'a>>,
        is_running: bool,
        now: i64,
    ) -> CookieContext<'a> {
        CookieContext { origin, is_running, now }
    }

    fn add(&mut self, cookie: Option<StoredCookie>, context: &CookieContext<'_>) -> AddedCookie {
        let Some(mut cookie) = cookie else { return AddedCookie::Refused };
        if !context.is_running && self.skips_session_cookies && cookie.expires == 0 {
            return AddedCookie::Refused;
        }
        cookie.is_live = context.is_running;
        self.next_serial += 1;
        cookie.serial = self.next_serial;
        if context.is_running {
            self.remove_expired(context.now);
        }
        if let (Some(origin), Some(domain)) = (context.origin, &cookie.domain)
            && !is_address(domain)
            && !is_acceptable(origin.host, domain)
        {
            return AddedCookie::Refused;
        }
        let bucket = bucket(cookie.domain.as_deref());
        let cookies = &mut self.buckets[bucket];
        let mut replaced = None;
        for (at, old) in cookies.iter().enumerate() {
            if hides_secure(old, &cookie, context) {
                return AddedCookie::Refused;
            }
            if replaced.is_none() && is_same(old, &cookie) {
                if old.is_live && !cookie.is_live {
                    return AddedCookie::Refused;
                }
                replaced = Some(at);
            }
        }
        match replaced {
            Some(at) => {
                cookie.serial = cookies[at].serial;
                cookies[at] = cookie;
                self.last_stored = Some((bucket, at));
                AddedCookie::Replaced
            }
            None => {
                self.last_stored = Some((bucket, cookies.len()));
                cookies.push(cookie);
                AddedCookie::Added
            }
        }
    }

    fn select(&mut self, origin: CookieOrigin<'_>, now: i64) -> Vec<&StoredCookie> {
        self.remove_expired(now);
        let is_ip = is_address(origin.host);
        let is_for_host = |cookie: &StoredCookie| match &cookie.domain {
            None => true,
            Some(domain) if cookie.includes_subdomains && !is_ip => is_within(domain, origin.host),
            Some(domain) => domain.eq_ignore_ascii_case(origin.host),
        };
        let is_sent = |cookie: &&StoredCookie| {
            let path = cookie.match_path.as_deref();
            (origin.is_secure || !cookie.is_secure)
                && is_for_host(cookie)
                && path.is_none_or(|path| is_path_within(path, origin.path))
        };
        let cookies = self.buckets[bucket(Some(origin.host))].iter();
        let mut cookies: Vec<_> = cookies.filter(is_sent).take(SENT_COOKIES_MAX).collect();
        let len = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        cookies.sort_unstable_by_key(|cookie| {
            let lengths = (len(&cookie.path), len(&cookie.domain), cookie.name.len());
            Reverse((lengths, cookie.serial))
        });
        cookies
    }

    fn remove_expired(&mut self, now: i64) {
        self.retain(|cookie| cookie.expires == 0 || cookie.expires >= now);
    }

    fn retain(&mut self, keeps: impl Fn(&StoredCookie) -> bool) {
        self.buckets.iter_mut().for_each(|cookies| cookies.retain(&keeps));
    }
}

/// The value of the `Cookie` field with these cookies and with `own`, which is `CURLOPT_COOKIE`.
/// `None` without any of them.
///
/// `head_len` is the length of the request before this field: a cookie with which both would have
/// 8,190 bytes is not added, nor are those behind it and `own`.
pub(crate) fn cookie_field(
    sent: &[SentCookie],
    head_len: usize,
    own: Option<&[u8]>,
) -> Option<Vec<u8>> {
    let (mut value, mut len, mut count) = (Vec::new(), head_len + FIELD_NAME_LEN, 0);
    let mut append = |parts: [&[u8]; 3]| {
        value.extend_from_slice(if count == 0 { b"" } else { b"; " });
        parts.iter().for_each(|part| value.extend_from_slice(part));
        count += 1;
    };
    let mut is_full = false;
    for (at, cookie) in sent.iter().enumerate() {
        let added = cookie.name.len() + cookie.value.len() + 1;
        is_full = len + added >= HEAD_LEN_MAX;
        if is_full {
            break;
        }
        append([&cookie.name, b"=", &cookie.value]);
        len += added + if at > 0 { 2 } else { 0 };
    }
    if let Some(own) = own.filter(|_| !is_full) {
        append([own, b"", b""]);
    }
    (count > 0).then_some(value)
}

fn parse_line(line: &[u8], context: &CookieContext<'_>) -> Option<StoredCookie> {
    match strip_field_name(line) {
        Some(value) => header_line(value, context),
        None => netscape_line(line),
    }
}

fn is_same_domain(old: &StoredCookie, new: &StoredCookie) -> bool {
    match (&old.domain, &new.domain) {
        (Some(old), Some(new)) => old.eq_ignore_ascii_case(new),
        (old, new) => old.is_none() && new.is_none(),
    }
}

/// True if the new cookie replaces the old one.
fn is_same(old: &StoredCookie, new: &StoredCookie) -> bool {
    let is_for_same_hosts =
        old.domain.is_none() || old.includes_subdomains == new.includes_subdomains;
    let is_same_path = match (&old.match_path, &new.match_path) {
        (Some(old), Some(new)) => old.eq_ignore_ascii_case(new),
        (old, new) => old.is_none() && new.is_none(),
    };
    old.name.eq_ignore_ascii_case(&new.name)
        && is_same_domain(old, new)
        && is_for_same_hosts
        && is_same_path
}

/// True if a cookie without `Secure`, from a connection that is not secure, would be sent before or
/// instead of a `Secure` cookie: it has the same first segment of the path.
fn hides_secure(old: &StoredCookie, new: &StoredCookie, context: &CookieContext<'_>) -> bool {
    let is_same_name = old.name.eq_ignore_ascii_case(&new.name);
    if !old.is_secure || new.is_secure || context.is_secure() || !is_same_name {
        return false;
    }
    let (Some(old_path), Some(path)) = (&old.match_path, &new.match_path) else { return false };
    let slash = old_path.iter().skip(1).position(|byte| *byte == b'/');
    let segment = &old_path[..slash.map_or(old_path.len(), |slash| slash + 1)];
    let start = path.get(..segment.len()).unwrap_or_default();
    is_same_domain(old, new) && start.eq_ignore_ascii_case(segment)
}

/// `Cookie` with its colon and blank.
const FIELD_NAME_LEN: usize = 8;

const HEAD_LEN_MAX: usize = 8190;

const JAR_HEAD: &[u8] = b"# Netscape HTTP Cookie File\n\
    # https://curl.se/docs/http-cookies.html\n\
    # This file was generated by libcurl! Edit at your own risk.\n\n";
