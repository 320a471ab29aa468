//! The cache of alternative services of libcurl 7.88 (RFC 7838): `Alt-Svc` fields, the file, and
//! lookups.

use crate::number::leading_number;
use crate::stamp::{format_stamp, parse_date};
use crate::text::{Reader, file_lines, is_blank};

/// A protocol, by the names of this cache. The numbers are those of `CURLALTSVC_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum AltProtocol {
    /// HTTP/1.1.
    H1 = 1 << 3,
    /// HTTP/2.
    H2 = 1 << 4,
    /// HTTP/3.
    H3 = 1 << 5,
}

impl AltProtocol {
    fn parse(name: &[u8]) -> Option<Self> {
        let mut all = [Self::H1, Self::H2, Self::H3].into_iter();
        all.find(|known| name.eq_ignore_ascii_case(known.name().as_bytes()))
    }

    fn name(self) -> &'static str {
        match self {
            Self::H1 => "h1",
            Self::H2 => "h2",
            Self::H3 => "h3",
        }
    }
}

/// An origin, or the place that serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AltEndpoint {
    /// The protocol.
    pub protocol: AltProtocol,
    /// The host.
    pub host: Vec<u8>,
    /// The port.
    pub port: u16,
}

/// An alternative service of an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AltService {
    /// Where the field came from.
    pub origin: AltEndpoint,
    /// Where to connect.
    pub target: AltEndpoint,
    /// In seconds since 1970.
    pub expires: i64,
    /// It survives changes of the network.
    pub persists: bool,
    /// Unused, but kept in the file.
    pub priority: i32,
}

/// The alternative services, in the order in which they were added.
#[derive(Clone, Debug)]
pub(crate) struct AltCache {
    services: Vec<AltService>,
}

impl AltCache {
    /// Without services.
    pub(crate) fn new() -> Self {
        Self { services: Vec::new() }
    }

    /// Handles the value of a field of a response, with the end of its line, which counts: `clear`
    /// is not valid before it, but `clear;` is. Stops at the first error and keeps the services
    /// before it.
    pub(crate) fn add_header(&mut self, value: &[u8], origin: &AltEndpoint, now: i64) {
        let mut reader = Reader::new(value);
        let Some(mut name) = read_name(&mut reader, NAME_LEN_MAX) else { return };
        if name.eq_ignore_ascii_case(b"clear") {
            self.remove_origin(origin);
            return;
        }
        let mut port = origin.port;
        let mut is_first = true;
        loop {
            let Some(read) = read_alternative(&mut reader, origin, &mut port) else { return };
            if let (Some(protocol), Some(host)) = (AltProtocol::parse(name), read.host) {
                if std::mem::take(&mut is_first) {
                    self.remove_origin(origin);
                }
                if !host.is_empty() && !origin.host.is_empty() {
                    self.services.push(AltService {
                        origin: AltEndpoint { host: without_dot(&origin.host), ..*origin },
                        target: AltEndpoint { protocol, host, port },
                        expires: read.max_age.saturating_add(now),
                        persists: read.persists,
                        priority: 0,
                    });
                }
            }
            if !reader.skip_word(b",") {
                return;
            }
            match read_name(&mut reader, NAME_LEN_MAX) {
                Some(next) => name = next,
                None => return,
            }
        }
    }

    /// Adds the services of a file.
    pub(crate) fn load(&mut self, file: &[u8]) {
        for line in file_lines(file, LINE_LEN_MAX) {
            self.services.extend(self.parse_line(line));
        }
    }

    /// The text of the file.
    pub(crate) fn file(&self) -> String {
        let mut text = FILE_HEAD.to_owned();
        for service in &self.services {
            for AltEndpoint { protocol, host, port } in [&service.origin, &service.target] {
                let host = String::from_utf8_lossy(host);
                text.push_str(&format!("{} {host} {port} ", protocol.name()));
            }
            let stamp = format_stamp(service.expires).unwrap_or_default();
            let persists = u8::from(service.persists);
            text.push_str(&format!("\"{stamp}\" {persists} {}\n", service.priority));
        }
        text
    }

    fn parse_line(&self, line: &[u8]) -> Option<AltService> {
        let mut reader = Reader::new(line);
        let origin = read_endpoint(&mut reader)?;
        let target = read_endpoint(&mut reader)?;
        let date = reader.quoted(DATE_LEN_MAX)?;
        let expires = parse_date(date).unwrap_or(-1);
        let persists = read_number::<u32>(&mut reader)? != 0;
        let priority = read_number(&mut reader)?;
        Some(AltService { origin, target, expires, persists, priority })
    }

    fn remove_origin(&mut self, origin: &AltEndpoint) {
        self.services.retain(|service| {
            let known = &service.origin;
            let is_protocol = known.protocol == origin.protocol && known.port == origin.port;
            !is_protocol || !is_host(&origin.host, &known.host)
        });
    }
}

/// An alternative as received.
struct Alternative {
    /// `None` if the host or the port is invalid.
    host: Option<Vec<u8>>,
    max_age: i64,
    persists: bool,
}

/// Reads from `=` to the next comma. `None` if the syntax is invalid. A missing port is that of the
/// alternative before.
fn read_alternative(
    reader: &mut Reader<'_>,
    origin: &AltEndpoint,
    port: &mut u16,
) -> Option<Alternative> {
    if !reader.skip_word(b"=\"") {
        return None;
    }
    let mut host = match reader.first() {
        Some(b':') => Some(origin.host.clone()),
        _ => read_host(reader),
    };
    if reader.skip_word(b":") {
        let mut ahead = *reader;
        let digits = ahead.take(|byte| byte.is_ascii_digit());
        let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        match number.filter(|number| *number != 0 && ahead.first() == Some(b'"')) {
            Some(number) => (*port, *reader) = (number, ahead),
            None => host = None,
        }
    }
    if !reader.skip_word(b"\"") {
        return None;
    }
    let mut alternative = Alternative { host, max_age: DAY, persists: false };
    let mut is_quoted = false;
    loop {
        reader.skip_blanks();
        if !reader.skip_word(b";") || matches!(reader.first(), None | Some(b'\r' | b'\n')) {
            return Some(alternative);
        }
        read_parameter(reader, &mut is_quoted, &mut alternative)?;
    }
}

/// A name; addresses in brackets are not accepted.
fn read_host(reader: &mut Reader<'_>) -> Option<Vec<u8>> {
    let belongs = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    let host = reader.take(belongs);
    (!host.is_empty() && host.len() < HOST_LEN_MAX).then(|| host.to_vec())
}

/// `ma` and `persist`; others are ignored. `None` if the syntax is invalid.
fn read_parameter(
    reader: &mut Reader<'_>,
    is_quoted: &mut bool,
    alternative: &mut Alternative,
) -> Option<()> {
    let name = read_name(reader, PARAMETER_LEN_MAX).unwrap_or_default();
    reader.skip_blanks();
    if !reader.skip_word(b"=") {
        return None;
    }
    reader.skip_blanks();
    if reader.is_empty() {
        return None;
    }
    // libcurl expects a closing quote of all parameters behind a quoted one.
    *is_quoted |= reader.skip_word(b"\"");
    let value = match *is_quoted {
        true => reader.take(|byte| byte != b'"'),
        false => reader.take(|byte| !is_blank(byte) && !matches!(byte, b';' | b',')),
    };
    if *is_quoted && !reader.skip_word(b"\"") {
        return None;
    }
    if let Some(number) = wrapped_number(value) {
        if name.eq_ignore_ascii_case(b"ma") {
            alternative.max_age = number;
        } else if name.eq_ignore_ascii_case(b"persist") && number == 1 {
            alternative.persists = true;
        }
    }
    Some(())
}

/// A number of `strtoul`, which negates after a minus; its maximum, which is -1, is an error.
fn wrapped_number(value: &[u8]) -> Option<i64> {
    match value.strip_prefix(b"-") {
        Some(value) => leading_number(value).ok().filter(|number| *number != 1).map(|n| -n),
        None => leading_number(value).ok(),
    }
}

/// A name up to `=`, `;` or a blank. `None` if it is empty or too long, but it is skipped.
fn read_name<'a>(reader: &mut Reader<'a>, len_max: usize) -> Option<&'a [u8]> {
    reader.skip_blanks();
    let name = reader.take(|byte| !is_blank(byte) && !matches!(byte, b';' | b'='));
    (!name.is_empty() && name.len() <= len_max).then_some(name)
}

fn read_endpoint(reader: &mut Reader<'_>) -> Option<AltEndpoint> {
    let protocol = AltProtocol::parse(reader.word(NAME_LEN_MAX + 1)?)?;
    let host = reader.word(HOST_LEN_MAX)?.to_vec();
    let [low, high, ..] = read_number::<u32>(reader)?.to_le_bytes();
    Some(AltEndpoint { protocol, host, port: u16::from_le_bytes([low, high]) })
}

fn read_number<N: std::str::FromStr>(reader: &mut Reader<'_>) -> Option<N> {
    std::str::from_utf8(reader.word(usize::MAX)?).ok()?.parse().ok()
}

fn without_dot(host: &[u8]) -> Vec<u8> {
    host.strip_suffix(b".").unwrap_or(host).to_vec()
}

fn is_host(host: &[u8], known: &[u8]) -> bool {
    host.strip_suffix(b".").unwrap_or(host).eq_ignore_ascii_case(known)
}

const DAY: i64 = 24 * 3600;

const NAME_LEN_MAX: usize = 9;

const PARAMETER_LEN_MAX: usize = 31;

const HOST_LEN_MAX: usize = 512;

const DATE_LEN_MAX: usize = 64;

const LINE_LEN_MAX: usize = 4095;

const FILE_HEAD: &str = "# Your alt-svc cache. https://curl.se/docs/alt-svc.html\n\
    # This file was generated by libcurl! Edit at your own risk.\n";

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_548_369_261; // 20190124 22:34:21

    fn origin(protocol: AltProtocol, host: &str, port: u16) -> AltEndpoint {
        AltEndpoint { protocol, host: host.into(), port }
    }

    /// The targets as in the file, without the origin.
    fn targets(cache: &AltCache) -> String {
        let file = cache.file();
        let lines = file.lines().skip(2).map(|line| line.splitn(4, ' ').nth(3).unwrap());
        lines.collect::<Vec<_>>().join("; ")
    }

    /// libcurl 7.88.1 wrote the expected lines, from these fields over TLS.
    #[test]
    fn fields_are_parsed_as_by_libcurl() {
        const OLD: &str = "h3 old.example 9 \"20300101 00:00:00\" 1 3";
        let day = |target: &str| format!("{target} \"20190125 22:34:21\" 0 0");
        let cases = [
            ("h2=\"a.b:1\"; ma=\"180\"; persist=1", OLD.to_owned()),
            (
                "h2=\"a.b:1\"; ma=\"180\"; persist=\"1\"",
                "h2 a.b 1 \"20190124 22:37:21\" 1 0".into(),
            ),
            (
                "h2=\"a.b:1\";persist=\"1\";ma=5, h3=\":2\"",
                "h2 a.b 1 \"20190124 22:34:26\" 1 0".into(),
            ),
            ("h2=\"[::1]:8\"", OLD.into()),
            ("clear", OLD.into()),
            ("clear;", String::new()),
            ("h2=\"a.b:0\", h3=\"c.d\"", OLD.into()),
            ("h2=\"a.b:70000\", h3=\"c.d\"", OLD.into()),
            ("h2=\"a.b:77\", h3=\"c.d\"", [day("h2 a.b 77"), day("h3 c.d 77")].join("; ")),
            ("h9=\"a.b:77\", h3=\"c.d\"", day("h3 c.d 77")),
            ("h3=\":77\"", day("h3 src.example 77")),
            ("h2=\"a.b:12x\", h3=\"c.d\"", OLD.into()),
            ("h2=a.b, h3=\"c.d\"", OLD.into()),
            ("h2=\"\":1", OLD.into()),
            ("h2=\"a.b:1\" , h3=\"c:3\"", [day("h2 a.b 1"), day("h3 c 3")].join("; ")),
            ("h2=\"a.b:1\"; foo, h3=\"c:3\"", OLD.into()),
            ("h2=\"a.b:1\"; foo=1, h3=\"c:3\"", [day("h2 a.b 1"), day("h3 c 3")].join("; ")),
            ("h2=\"a.b.:1\"; ma=0", "h2 a.b. 1 \"20190124 22:34:21\" 0 0".into()),
            ("h2=\"a_b:1\"", OLD.into()),
            ("http%2f1.1=\"a:1\", h1=\"b:2\"", OLD.into()),
            ("h2=\"a:1\"; ma=-1", day("h2 a 1")),
            ("h2=\"a:1\"; ma=-61", "h2 a 1 \"20190124 22:33:20\" 0 0".into()),
            ("h2=\"a:1\"; ma=99999999999999999999", day("h2 a 1")),
            ("h2=\"a:1\";", day("h2 a 1")),
        ];
        for (value, expected) in cases {
            let mut cache = AltCache::new();
            cache.load(b"h1 src.example 443 h3 old.example 9 \"20300101 00:00:00\" 1 3\n");
            let origin = origin(AltProtocol::H1, "SRC.example.", 443);
            cache.add_header(format!(" {value}\r\n").as_bytes(), &origin, NOW);
            let found = targets(&cache).replace("SRC.example.", "src.example");
            assert_eq!(found, expected, "{value}");
        }
    }

    #[test]
    fn files_are_read_and_written() {
        let mut cache = AltCache::new();
        let file = b"# comment\n  h2 ::1 443 h3 x. 8443 \"20300101 00:00:00\" 2 -1\n\
            h1 a 70000 h2 b 65536 \"20300101 10:00:00\" 1 1 extra\n\
            http/1.1 a 1 h2 b 2 \"20300101 00:00:00\" 1 1\nrubbish\n\
            h1 a 1 h2 b 2 \"20300101 00:00:00\" 1\n";
        cache.load(file);
        let expected = "# Your alt-svc cache. https://curl.se/docs/alt-svc.html\n\
            # This file was generated by libcurl! Edit at your own risk.\n\
            h2 ::1 443 h3 x. 8443 \"20300101 00:00:00\" 1 -1\n\
            h1 a 4464 h2 b 0 \"20300101 10:00:00\" 1 1\n";
        assert_eq!(cache.file(), expected);
    }
}
