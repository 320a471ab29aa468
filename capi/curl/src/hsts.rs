//! The HSTS cache of libcurl 7.88 (RFC 6797): `Strict-Transport-Security` fields, the file, and
//! which hosts need HTTPS.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::number::{NumberError, leading_number};
use crate::stamp::{format_stamp, parse_date};
use crate::text::{Reader, file_lines};

/// A host that needs HTTPS; also what `CURLOPT_HSTSREADFUNCTION` and `CURLOPT_HSTSWRITEFUNCTION`
/// exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HstsEntry {
    /// Without a dot at its end.
    pub host: Vec<u8>,
    /// Also for the hosts below.
    pub includes_subdomains: bool,
    /// In seconds since 1970; `i64::MAX` is unlimited.
    pub expires: i64,
}

impl HstsEntry {
    /// The expiry as the file and the callback have it: `20191231 10:00:00`, or `unlimited`.
    pub fn expire_text(&self) -> String {
        format_stamp(self.expires).unwrap_or_else(|| UNLIMITED.into())
    }
}

/// The field was invalid: without `max-age`, or with the same directive twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadHsts;

/// The hosts that need HTTPS, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct HstsCache {
    entries: Vec<HstsEntry>,
}

impl HstsCache {
    /// Without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Handles the value of a field of a response over TLS.
    ///
    /// # Errors
    /// [`BadHsts`]; nothing was changed.
    pub fn add_header(&mut self, host: &[u8], value: &[u8], now: i64) -> Result<(), BadHsts> {
        if is_address(host) {
            return Ok(()); // §8.1.1
        }
        let (max_age, includes_subdomains) = parse(value)?;
        let known = self.position(host, false, now);
        if max_age == 0 {
            known.map(|at| self.entries.remove(at));
            return Ok(());
        }
        let expires = max_age.saturating_add(now);
        match known {
            Some(at) => {
                let entry = &mut self.entries[at];
                (entry.expires, entry.includes_subdomains) = (expires, includes_subdomains);
            }
            None => self.insert(host, includes_subdomains, expires),
        }
        Ok(())
    }

    /// The first entry that applies to the host. Removes expired entries before it.
    pub fn lookup(&mut self, host: &[u8], now: i64) -> Option<&HstsEntry> {
        self.position(host, true, now).map(|at| &self.entries[at])
    }

    /// Adds the entries of a file. Known hosts keep the later expiry; an entry for a host and its
    /// subdomains is ignored if a known entry applies to it.
    pub fn load(&mut self, file: &[u8], now: i64) {
        for line in file_lines(file, LINE_LEN_MAX) {
            self.load_line(line, now);
        }
    }

    /// Adds an entry of `CURLOPT_HSTSREADFUNCTION`; `expire` is empty if it is unlimited.
    pub fn add_entry(&mut self, host: &[u8], includes_subdomains: bool, expire: &[u8]) {
        let expires = match expire {
            b"" => i64::MAX,
            date => parse_date(date).unwrap_or(-1),
        };
        self.insert(host, includes_subdomains, expires);
    }

    /// The text of the file.
    pub fn file(&self) -> String {
        let mut text = FILE_HEAD.to_owned();
        for entry in &self.entries {
            let dot = if entry.includes_subdomains { "." } else { "" };
            let host = String::from_utf8_lossy(&entry.host);
            text.push_str(&format!("{dot}{host} \"{}\"\n", entry.expire_text()));
        }
        text
    }

    /// The entries, for `CURLOPT_HSTSWRITEFUNCTION`.
    pub fn entries(&self) -> &[HstsEntry] {
        &self.entries
    }

    fn load_line(&mut self, line: &[u8], now: i64) {
        let mut reader = Reader::new(line);
        let (Some(host), Some(date)) = (reader.word(HOST_LEN_MAX), reader.quoted(DATE_LEN_MAX))
        else {
            return;
        };
        if host.starts_with(b"#") {
            return;
        }
        let expires = match date {
            _ if date == UNLIMITED.as_bytes() => i64::MAX,
            _ => parse_date(date).unwrap_or(-1),
        };
        let (host, includes_subdomains) = match host.strip_prefix(b".") {
            Some(host) => (host, true),
            None => (host, false),
        };
        match self.position(host, includes_subdomains, now) {
            Some(at) => {
                let entry = &mut self.entries[at];
                if host.eq_ignore_ascii_case(&entry.host) {
                    entry.expires = entry.expires.max(expires);
                }
            }
            None => self.insert(host, includes_subdomains, expires),
        }
    }

    fn insert(&mut self, host: &[u8], includes_subdomains: bool, expires: i64) {
        let host = host.strip_suffix(b".").unwrap_or(host).to_vec();
        if !host.is_empty() {
            self.entries.push(HstsEntry { host, includes_subdomains, expires });
        }
    }

    fn position(&mut self, host: &[u8], with_subdomains: bool, now: i64) -> Option<usize> {
        if host.is_empty() || host.len() > HOST_LEN_MAX {
            return None;
        }
        let host = host.strip_suffix(b".").unwrap_or(host);
        let mut at = 0;
        while let Some(entry) = self.entries.get(at) {
            if entry.expires <= now {
                self.entries.remove(at);
                continue;
            }
            let is_below = with_subdomains && entry.includes_subdomains && {
                let start = host.len().saturating_sub(entry.host.len());
                start > 0
                    && host[start - 1] == b'.'
                    && host[start..].eq_ignore_ascii_case(&entry.host)
            };
            if is_below || host.eq_ignore_ascii_case(&entry.host) {
                return Some(at);
            }
            at += 1;
        }
        None
    }
}

/// `max-age`, and if there is `includeSubDomains`.
fn parse(value: &[u8]) -> Result<(i64, bool), BadHsts> {
    let (mut max_age, mut includes_subdomains) = (None, false);
    let mut reader = Reader::new(value);
    while !reader.is_empty() {
        reader.skip_blanks();
        if reader.skip_word(b"max-age=") {
            reader.skip_blanks();
            let is_quoted = reader.skip_word(b"\"");
            let seconds = match leading_number(reader.rest()) {
                Err(NumberError::Missing) => return Err(BadHsts),
                Err(NumberError::Overflow) => i64::MAX,
                Ok(seconds) => seconds,
            };
            reader.skip_blanks();
            reader.skip_word(b"+");
            reader.take(|byte| byte.is_ascii_digit());
            let is_closed = !is_quoted || reader.skip_word(b"\"");
            if max_age.replace(seconds).is_some() || !is_closed {
                return Err(BadHsts);
            }
        } else if reader.skip_word(b"includesubdomains") {
            if includes_subdomains {
                return Err(BadHsts);
            }
            includes_subdomains = true;
        } else {
            reader.take(|byte| byte != b';');
        }
        reader.skip_blanks();
        reader.skip_word(b";");
    }
    Ok((max_age.ok_or(BadHsts)?, includes_subdomains))
}

fn is_address(host: &[u8]) -> bool {
    std::str::from_utf8(host)
        .is_ok_and(|host| host.parse::<Ipv4Addr>().is_ok() || host.parse::<Ipv6Addr>().is_ok())
}

const UNLIMITED: &str = "unlimited";

const HOST_LEN_MAX: usize = 256;

const DATE_LEN_MAX: usize = 64;

const LINE_LEN_MAX: usize = 4095;

const FILE_HEAD: &str = "# Your HSTS cache. https://curl.se/docs/hsts.html\n\
    # This file was generated by libcurl! Edit at your own risk.\n";

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_548_369_261; // 20190124 22:34:21

    fn found(cache: &mut HstsCache, host: &str, now: i64) -> Option<(String, i64, bool)> {
        let entry = cache.lookup(host.as_bytes(), now)?;
        let host = String::from_utf8_lossy(&entry.host).into_owned();
        Some((host, entry.expires, entry.includes_subdomains))
    }

    #[test]
    fn fields_are_valid_or_rejected() {
        for (value, expected) in [
            ("max-age=\"31536000\"\r\n", Ok((31_536_000, false))),
            ("max-age=\"21536000\"; ", Ok((21_536_000, false))),
            (" MAX-AGE=5;includesubDomains", Ok((5, true))),
            ("max-age=5 includeSubDomains", Ok((5, true))),
            ("max-age= \"5\" ;x;", Ok((5, false))),
            ("max-age=5x; includeSubDomainsx", Ok((5, true))),
            ("max-age=31536\"", Ok((31_536, false))),
            ("max-age=99999999999999999999", Ok((i64::MAX, false))),
            ("max-age=5; include; includeSubDomains;", Ok((5, true))),
            ("max=\"31536\";", Err(BadHsts)),
            ("max-age=\"31536", Err(BadHsts)),
            ("max-age =5", Err(BadHsts)),
            ("max-age=-5", Err(BadHsts)),
            ("includeSubDomains; ", Err(BadHsts)),
            ("max-age=1; max-age=3", Err(BadHsts)),
            ("max-age=1; includeSubDomains; includeSubDomains", Err(BadHsts)),
            ("", Err(BadHsts)),
        ] {
            assert_eq!(parse(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn entries_apply_to_their_host_and_below() {
        let mut cache = HstsCache::new();
        for (host, value) in [
            ("sub.example", "max-age=10; includeSubDomains"),
            ("only.example.", "max-age=10"),
            ("127.0.0.1", "max-age=10"),
            ("gone.example", "max-age=10"),
            ("GONE.example.", "max-age=0"),
        ] {
            cache.add_header(host.as_bytes(), value.as_bytes(), NOW).unwrap();
        }
        let sub = Some(("sub.example".into(), NOW + 10, true));
        for host in ["sub.example", "a.SUB.example", "a.b.sub.example."] {
            assert_eq!(found(&mut cache, host, NOW), sub, "{host}");
        }
        let only = Some(("only.example".into(), NOW + 10, false));
        assert_eq!(found(&mut cache, "only.example", NOW + 9), only);
        for host in ["xsub.example", "a.only.example", "127.0.0.1", "gone.example", ""] {
            assert_eq!(found(&mut cache, host, NOW), None, "{host}");
        }
        assert_eq!(found(&mut cache, "only.example", NOW + 10), None);
        assert!(cache.entries().is_empty());
    }

    #[test]
    fn files_are_read_and_written() {
        let mut cache = HstsCache::new();
        let file = b"# comment\n.read.example \"20211001 04:47:41\"\n\
            read.example \"20221001 04:47:41\"\n\t.old.example \"20161001 04:47:41\"\n\
            .new.example \"unlimited\"\nbad 20211001\nno-date\n\
            a.read.example \"20211001 04:47:41\"\n.b.read.example \"20251001 04:47:41\"\n\
            last.example \"20210101 00:00:00";
        cache.load(file, NOW);
        assert_eq!(found(&mut cache, "x.old.example", NOW), None);
        let expected = "# Your HSTS cache. https://curl.se/docs/hsts.html\n\
            # This file was generated by libcurl! Edit at your own risk.\n\
            .read.example \"20221001 04:47:41\"\n.new.example \"unlimited\"\n\
            a.read.example \"20211001 04:47:41\"\nlast.example \"20210101 00:00:00\"\n";
        assert_eq!(cache.file(), expected);
        cache.add_entry(b"callback.example", true, b"");
        let entry = cache.entries().last().unwrap();
        assert_eq!((entry.expires, entry.expire_text()), (i64::MAX, "unlimited".into()));
    }
}
