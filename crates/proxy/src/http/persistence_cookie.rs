//! Session persistence: by a cookie of the proxy, or by the server's (HAProxy's manual, `cookie`).
//!
//! With `maxidle` or `maxlife` the value is `server|last|first`: the times of the last and of the
//! first visit, in units of four seconds since 1970. Their 30 bits are written as five digits to
//! the base 64.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use fulmar_haproxy::model::{CookieInsert, CookieMode, ServerAddress};
use smallvec::SmallVec;
use xxhash_rust::xxh64::xxh64;

use crate::http::cacheable::is_cacheable;
use crate::http::cookie_pairs::{self, CookiePair, PairChange};
use crate::http::exchange::{EndLetters, HttpExchange};
use crate::live::LiveBackend;

/// The result of a client's persistence cookie.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Persistence {
    /// The server selected by the cookie or a rule at first.
    pub(super) meant: Option<usize>,
    /// The cookie is ignored, and none is set.
    ignored: bool,
    /// The dates in the cookie, in seconds since 1970.
    dates: Dates,
}

#[derive(Clone, Copy, Debug, Default)]
struct Dates {
    last: Option<u64>,
    first: Option<u64>,
}

/// Reads the client's cookie; `now` is in seconds since 1970.
///
/// Letters in the log: `N` no cookie, `I` unknown value, `D` the server is down, `V` valid, `E` and
/// `O` expired, `U` unused. Cookies of the servers (`Passive`) have none.
pub(super) fn read(
    exchange: &mut HttpExchange,
    known: &CookieInsert,
    backend: &LiveBackend,
    ignored: bool,
    now: u64,
) {
    exchange.persistence.ignored = ignored;
    let found = look_up(exchange, known, backend, now);
    if known.how != CookieMode::Passive {
        exchange.cookie_marks.0 = found;
    }
}

/// Reads every cookie with our name in sequence, and removes from the request what the server must
/// not see.
fn look_up(
    exchange: &mut HttpExchange,
    known: &CookieInsert,
    backend: &LiveBackend,
    now: u64,
) -> u8 {
    let name = known.name.as_bytes();
    let mut fields = std::mem::take(&mut exchange.request.fields);
    let mut found = b'N';
    let revised = fields.as_headers().get_all("cookie").map(|field| {
        cookie_pairs::revise(field, name, |value| {
            let letter = look_at(exchange, known, backend, value, now);
            if found == b'N' || !matches!(letter, b'I' | b'U') {
                found = letter; // an invalid cookie does not replace a valid one
            }
            server_value(known, value)
        })
    });
    let revised: SmallVec<[_; 2]> = revised.collect();
    if revised.iter().any(Option::is_some) {
        let mut revised = revised.into_iter();
        let rewritten = fields.rewrite("cookie", |_| revised.next().flatten());
        rewritten.expect("parts of a value that was received");
        fields.retain(|name, value| !(name.eq_ignore_ascii_case(b"cookie") && value.is_empty()));
    }
    exchange.request.fields = fields;
    found
}

/// Reads one value of the cookie, and returns its letter.
fn look_at(
    exchange: &mut HttpExchange,
    known: &CookieInsert,
    backend: &LiveBackend,
    value: &[u8],
    now: u64,
) -> u8 {
    let (key, rest) = split_value(known, value);
    if let Some(rest) = rest.filter(|_| known.how == CookieMode::Insert) {
        exchange.persistence.dates = Dates::read(rest);
    }
    match exchange.persistence.dates.outdated(known, now) {
        Some(mark) => {
            exchange.persistence.dates = Dates::default();
            mark
        }
        None if exchange.persistence.ignored || exchange.bound.is_some() => b'U',
        None => select(exchange, known, backend, key),
    }
}

/// The part that names the server, and the rest after the separator.
fn split_value<'a>(known: &CookieInsert, value: &'a [u8]) -> (&'a [u8], Option<&'a [u8]>) {
    let mark = if known.how == CookieMode::Prefix { b'~' } else { b'|' };
    match value.iter().position(|byte| *byte == mark) {
        Some(at) => (&value[..at], Some(&value[at + 1..])),
        None => (value, None),
    }
}

/// The part of a value that the server sees.
fn server_value<'a>(known: &CookieInsert, value: &'a [u8]) -> PairChange<'a> {
    match (known.how, split_value(known, value)) {
        (CookieMode::Prefix, (_, Some(rest))) => PairChange::Value(rest),
        (CookieMode::Insert, _) if known.indirect => PairChange::Removed,
        _ => PairChange::Value(value),
    }
}

/// Selects the server with this value, if it is reachable.
fn select(
    exchange: &mut HttpExchange,
    known: &CookieInsert,
    there: &LiveBackend,
    key: &[u8],
) -> u8 {
    let mut all = 0..there.servers.len();
    match all.find(|at| value_of(known, there, *at).is_some_and(|it| it.as_bytes() == key)) {
        None => b'I',
        Some(at) if !there.group.members()[at].is_reachable() => b'D',
        Some(at) => {
            exchange.bound = Some(at);
            exchange.persistence.meant = Some(at);
            b'V'
        }
    }
}

/// The value of a server: as configured, or derived from its address (`dynamic`).
fn value_of<'a>(known: &CookieInsert, there: &'a LiveBackend, at: usize) -> Option<Cow<'a, str>> {
    let config = &there.servers[at].config;
    if let Some(value) = &config.cookie {
        return Some(value.into());
    }
    let key = known.dynamic_key.as_ref().filter(|key| !key.is_empty())?;
    let address = match (there.group.members()[at].address(), &config.address) {
        (Some(moved), _) => moved,
        (None, ServerAddress::Tcp(address)) => *address,
        (None, _) => return None,
    };
    Some(dynamic(key, address).into())
}

/// As HAProxy computes it, so that clients keep their servers when it is replaced.
fn dynamic(key: &str, address: SocketAddr) -> String {
    let mut bytes = key.as_bytes().to_vec();
    match address.ip() {
        IpAddr::V4(ip) => bytes.extend_from_slice(&ip.octets()),
        IpAddr::V6(ip) => bytes.extend_from_slice(&ip.octets()),
    }
    bytes.extend_from_slice(&u32::from(address.port()).to_be_bytes());
    format!("{:016x}", xxh64(&bytes, 0))
}

/// The pair at the beginning of a `Set-Cookie`, if it has this name.
fn set<'a>(field: &'a [u8], name: &[u8]) -> Option<CookiePair<'a>> {
    Some(CookiePair::first(field)).filter(|pair| pair.name == name && pair.value.is_some())
}

/// Changes the cookies of a response.
///
/// Letters in the log: `N` none set, `I` inserted, `U` updated with new dates, `P` provided by the
/// server, `R` rewritten or prefixed, `D` deleted.
pub(super) fn write(
    exchange: &mut HttpExchange,
    known: &CookieInsert,
    there: &LiveBackend,
    now: u64,
) {
    let Some(at) = exchange.server.filter(|_| known.how != CookieMode::Passive) else { return };
    let name = known.name.as_bytes();
    let own = |value: &[u8]| set(value, name).is_some();
    let is_set = exchange.response.fields.as_headers().get_all("set-cookie").any(own);
    let EndLetters(id, told) = &mut exchange.cookie_marks;
    *told = if is_set { b'P' } else { b'N' };
    if *id == b'V' && exchange.persistence.meant != Some(at) {
        *id = b'D'; // another server was used
    }
    let value = value_of(known, there, at);
    match (known.how, value) {
        (CookieMode::Insert, value) => insert(exchange, known, value.as_deref(), is_set, now),
        (CookieMode::Rewrite | CookieMode::Prefix, Some(value)) if is_set => {
            let keeps = known.how == CookieMode::Prefix;
            let fields = &mut exchange.response.fields;
            let changed = fields.rewrite("set-cookie", |old| {
                set(old, name).map(|pair| replaced(pair, value.as_bytes(), keeps))
            });
            if changed.is_ok() {
                exchange.cookie_marks.1 = b'R';
            }
        }
        _ => {}
    }
}

/// `name=old; attributes` with another value, or with a prefix.
fn replaced(pair: CookiePair<'_>, value: &[u8], keeps: bool) -> Vec<u8> {
    let mut value = value.to_vec();
    if let Some(old) = pair.value.filter(|_| keeps) {
        value.push(b'~');
        value.extend_from_slice(old);
    }
    let mut text = Vec::new();
    pair.write(&value, &mut text);
    text.extend_from_slice(pair.rest);
    text
}

fn insert(
    exchange: &mut HttpExchange,
    known: &CookieInsert,
    value: Option<&str>,
    is_set: bool,
    now: u64,
) {
    if is_set && known.preserve {
        return;
    }
    if is_set {
        let foreign = |name: &[u8], value: &[u8]| {
            let is_own = set(value, known.name.as_bytes()).is_some();
            !(is_own && name.eq_ignore_ascii_case(b"set-cookie"))
        };
        exchange.response.fields.retain(foreign);
        exchange.cookie_marks.1 = b'D';
    }
    let Persistence { meant, ignored, dates } = exchange.persistence;
    let keeps = meant.is_some() && meant == exchange.server;
    let is_post = exchange.request.method == b"POST";
    if ignored || (keeps && !dates.want_renewal(known, now)) || (known.post_only && !is_post) {
        return;
    }
    let text = text(known, value, dates, now);
    let keeps_away = known.no_cache && is_cacheable(&exchange.request, &exchange.response);
    let fields = &mut exchange.response.fields;
    if fields.push("Set-Cookie", text.as_bytes()).is_err() {
        return; // not a valid value of a field
    }
    if keeps_away {
        let pushed = fields.push("Cache-Control", b"private");
        debug_assert!(pushed.is_ok());
    }
    exchange.cookie_marks.1 = if keeps && value.is_some() { b'U' } else { b'I' };
}

/// The value of `Set-Cookie`; a server without a value deletes the cookie.
fn text(known: &CookieInsert, value: Option<&str>, dates: Dates, now: u64) -> String {
    let mut text = format!("{}={}", known.name, value.unwrap_or_default());
    if value.is_none() {
        text.push_str("; Expires=Thu, 01-Jan-1970 00:00:01 GMT");
    } else if known.idle_max.is_some() || known.life_max.is_some() {
        text.push('|');
        push_date(&mut text, now);
        if known.life_max.is_some() {
            text.push('|');
            push_date(&mut text, dates.first.unwrap_or(now));
        }
    }
    text.push_str("; path=/");
    for domain in &known.domains {
        text.push_str("; domain=");
        text.push_str(domain);
    }
    if known.http_only {
        text.push_str("; HttpOnly");
    }
    if known.secure {
        text.push_str("; Secure");
    }
    for attribute in &known.attributes {
        text.push_str("; ");
        text.push_str(attribute);
    }
    text
}

impl Dates {
    /// The part after the first bar.
    fn read(rest: &[u8]) -> Self {
        let mut all = rest.splitn(2, |byte| *byte == b'|');
        let mut next = || date(all.next()?);
        Self { last: next(), first: next() }
    }

    /// The letter of a cookie that is expired, or from the future.
    fn outdated(&self, known: &CookieInsert, now: u64) -> Option<u8> {
        let beyond = |date: u64, max: u64| now > date + max || date > now + FUTURE_MAX;
        match (self.first, known.life_max, self.last, known.idle_max) {
            (Some(first), Some(max), ..) if beyond(first, max.as_secs()) => Some(b'O'),
            (.., Some(last), Some(max)) if beyond(last, max.as_secs()) => Some(b'E'),
            _ => None,
        }
    }

    /// True if the cookie has to be sent again with new dates.
    fn want_renewal(&self, known: &CookieInsert, now: u64) -> bool {
        let dated = known.idle_max.is_some() || self.last.is_some();
        let stale = dated && self.last.is_none_or(|last| last < now);
        stale || known.life_max.is_some() != self.first.is_some()
    }
}

/// Parses five digits as seconds since 1970; `None` if they are invalid or 0.
fn date(text: &[u8]) -> Option<u64> {
    let digit = |byte: &u8| DIGITS.iter().position(|digit| digit == byte);
    let digits = text.get(..DATE_LEN)?.iter().map(|byte| digit(byte).map(|it| it as u64));
    let value = digits.into_iter().try_fold(0, |sum, digit| Some((sum << 6) | digit?))?;
    (value > 0).then_some(value * UNIT)
}

/// The five digits of a date, rounded up.
fn push_date(text: &mut String, seconds: u64) {
    let value = seconds.div_ceil(UNIT);
    for shift in [24, 18, 12, 6, 0] {
        let digit = usize::try_from((value >> shift) & 63).expect("six bits");
        text.push(DIGITS[digit].into());
    }
}

/// The unit of a date, in seconds.
const UNIT: u64 = 4;
const DATE_LEN: usize = 5;
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// A date that is later than wrong clocks explain is forged.
const FUTURE_MAX: u64 = 24 * 3600;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_five_digits() {
        let mut text = String::new();
        push_date(&mut text, 1_795_322_000);
        assert_eq!(date(text.as_bytes()), Some(1_795_322_000), "{text}");
        assert_eq!(date(b"AAAAB"), Some(4));
        for wrong in ["", "AAAA", "AAAAA", "AA-AA"] {
            assert_eq!(date(wrong.as_bytes()), None, "{wrong}");
        }
    }

    /// The value that HAProxy 2.6 sets for this server and key.
    #[test]
    fn a_dynamic_value_is_that_of_haproxy() {
        let address = "127.0.0.1:43159".parse().unwrap();
        assert_eq!(dynamic("secret", address), "0bf372977810aeec");
    }
}
