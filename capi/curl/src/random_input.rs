//! Bytes of peers, files and options in random order: they are parsed or refused, and nothing
//! panics.

use bytes::Bytes;
use fulmar_sys as sys;

use crate::altsvc::{AltCache, AltEndpoint, AltProtocol};
use crate::auth::{AuthChoice, DigestRequest, DigestState, NtlmChallenge, NtlmLogin, method};
use crate::cookies::{CookieEngine, CookieOrigin};
use crate::date::getdate;
use crate::header_list::{HeaderList, HeaderOrigin};
use crate::hsts::HstsCache;
use crate::mime::{
    FormEscape, Mime, MimeBody, MimeContent, MimeEncoder, MimePart, MimeRead, NoSources,
};
use crate::netrc::find_netrc;
use crate::no_proxy::is_excluded;
use crate::static_hosts::{ConnectTo, StaticHosts};
use crate::url::{CurlUrl, UrlFlags, UrlPart};
use crate::websocket_frames::{WebSocketDecoder, WebSocketFault};

/// Words of all formats, so that random texts reach beyond the first check.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    "=", ";", ",", " ", "\t", "\n", "\r", "\"", "\\", ":", "/", ".", "#", "0", "-1", "a", "x.com",
    "99999999999999999999", "TRUE", "FALSE", "Set-Cookie:", "#HttpOnly_", "domain", "path",
    "secure", "max-age", "expires", "__Host-", "includeSubDomains", "h2", "h3", "clear", "ma",
    "persist", "Digest", "NTLM", "Basic", "realm", "nonce", "qop", "auth-int", "algorithm",
    "MD5-sess", "machine", "login", "password", "macdef", "default", "TlRMTVNTUAACAAAA", "\0",
    "\u{e4}", "http://", "https", "[", "]", "%", "%25", "::1", "@", "?", "*", "+", "-", "Sun, ",
    "Nov", "1994", "20290101", " GMT", "08:49:37", "+0100", "127.0.0.1", "127.1", "/24", "xn--",
    "\u{3002}", "name: value", "\r\n", "localhost", "443",
];

/// A sequence of numbers that is the same in each run.
struct RandomTexts(u64);

impl RandomTexts {
    const START: Self = Self(0x9e37_79b9_7f4a_7c15);

    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).expect("it is below a usize")
    }

    fn text(&mut self) -> String {
        (0..self.below(12)).map(|_| WORDS[self.below(WORDS.len())]).collect()
    }

    /// Often small numbers, which are the heads of frames.
    fn bytes(&mut self) -> Vec<u8> {
        let byte = |this: &mut Self| match this.below(3) {
            0 => u8::try_from(this.below(256)),
            1 => u8::try_from(this.below(8)),
            _ => u8::try_from(0x80 + this.below(12)),
        };
        (0..self.below(40)).map(|_| byte(self).expect("it is below 256")).collect()
    }
}

#[test]
fn random_bytes_of_peers_and_files_never_panic() {
    let mut sequence = RandomTexts::START;
    let mut cookies = CookieEngine::new();
    let mut hsts = HstsCache::new();
    let mut alternatives = AltCache::new();
    let mut stored = 0;
    for _ in 0..5_000 {
        let text = sequence.text();
        let text = text.as_bytes();
        let origin = CookieOrigin { host: b"x.com", path: text, is_secure: sequence.below(2) == 0 };
        cookies.add_header(text, origin, 7);
        cookies.add_line(text, 7);
        cookies.load(text, 7);
        stored += usize::from(!cookies.sent(origin, 7).is_empty());
        let _ = hsts.add_header(b"x.com", text, i64::MAX);
        hsts.load(text, 7);
        hsts.lookup(text, 7);
        let origin = AltEndpoint { protocol: AltProtocol::H1, host: text.to_vec(), port: 1 };
        alternatives.add_header(text, &origin, i64::MAX);
        alternatives.load(text);
        let mut digest = DigestState::default();
        let mut choice = AuthChoice::new(method::DIGEST | method::NTLM);
        choice.handle_challenge(text, &mut digest);
        let request = DigestRequest { method: b"GET", target: text, omits_query: true };
        digest.authorize(text, text, request, text);
        if let Ok(challenge) = NtlmChallenge::parse(text) {
            let login = NtlmLogin { user: text, password: text, entropy: [0; 8], now: i64::MAX };
            challenge.authorize(login);
        }
        let _ = find_netrc(text, b"a", Some(b"a"));
    }
    assert!(stored > 0 && !cookies.jar(7).is_empty());
    assert!(!hsts.file().is_empty() && !alternatives.file().is_empty());
}

#[test]
fn random_urls_are_refused_or_read_again() {
    let mut sequence = RandomTexts::START;
    let mut accepted = 0;
    for _ in 0..20_000 {
        let (text, relative) = (format!("http:{}", sequence.text()), sequence.text());
        let flags = UrlFlags(u32::try_from(sequence.below(1 << 13)).expect("13 bits"));
        let mut url = CurlUrl::new();
        for text in [&text, &relative] {
            let before = url.clone();
            if url.set(UrlPart::Url, text.as_bytes(), flags).is_err() {
                assert_eq!(url, before, "{text:?} was refused");
            }
        }
        for part in PARTS {
            let _ = url.get(part, flags);
            let mut other = url.clone();
            let _ = other.set(part, relative.as_bytes(), flags);
        }
        let Ok(whole) = url.get(UrlPart::Url, UrlFlags::default()) else { continue };
        if url.get(UrlPart::Host, UrlFlags::default()).is_ok_and(|host| host.is_empty()) {
            continue; // three slashes are read as two
        }
        accepted += 1;
        let mut again = CurlUrl::new();
        let lenient = UrlFlags::NON_SUPPORT_SCHEME
            | UrlFlags::PATH_AS_IS
            | UrlFlags::NO_AUTHORITY
            | UrlFlags::ALLOW_SPACE;
        if again.set(UrlPart::Url, &whole, lenient).is_ok() {
            assert_eq!(again.get(UrlPart::Url, UrlFlags::default()), Ok(whole));
        }
    }
    assert!(accepted > 100, "only {accepted} URLs are accepted");
}

const PARTS: [UrlPart; 8] = [
    UrlPart::Scheme,
    UrlPart::User,
    UrlPart::Password,
    UrlPart::Host,
    UrlPart::Port,
    UrlPart::Path,
    UrlPart::Query,
    UrlPart::Fragment,
];

#[test]
fn random_dates_are_refused_or_in_the_calendar() {
    let mut sequence = RandomTexts::START;
    let mut dates = 0;
    for _ in 0..50_000 {
        let date = getdate(sequence.text().as_bytes());
        dates += usize::from(date != -1);
        assert!(date > GREGORIAN_START, "{date}");
    }
    assert!(dates > 10, "only {dates} dates are accepted");
}

/// The first second of 1583.
const GREGORIAN_START: i64 = -12_212_553_601;

#[test]
fn random_forms_have_the_size_that_is_read() {
    let mut sequence = RandomTexts::START;
    let part = |sequence: &mut RandomTexts| {
        let encoders = [MimeEncoder::Binary, MimeEncoder::Base64, MimeEncoder::QuotedPrintable];
        let mut text = || Some(sequence.text().into_bytes()).filter(|text| !text.is_empty());
        let (name, filename, mime_type) = (text(), text(), text());
        let content = MimeContent::Data(text().unwrap_or_default().into());
        let encoder = Some(encoders[sequence.below(3)]).filter(|_| sequence.below(2) == 0);
        MimePart { name, filename, mime_type, content, encoder, ..MimePart::default() }
    };
    for _ in 0..2_000 {
        let mut form = Mime::new(*b"0123456789abcdef");
        let mut below = Mime::new(*b"fedcba9876543210");
        form.parts.extend((0..sequence.below(3)).map(|_| part(&mut sequence)));
        below.parts.extend((0..sequence.below(3)).map(|_| part(&mut sequence)));
        form.parts.push(MimePart { content: MimeContent::Multipart(below), ..MimePart::default() });
        let mut body = MimeBody::new(form, None, FormEscape::Percent);
        let (size, mut read) = (body.size(), 0);
        let mut buffer = vec![0; 10 + sequence.below(100)];
        loop {
            match body.read(&mut NoSources, &mut buffer) {
                MimeRead::Data(0) => break,
                MimeRead::Data(len) => read += len as u64,
                stop => panic!("{stop:?} without a source"),
            }
        }
        assert!(size.is_none_or(|size| size == read), "{size:?} and {read}");
    }
}

#[test]
fn random_header_lines_are_listed_and_found() {
    let mut sequence = RandomTexts::START;
    let mut listed = 0;
    for _ in 0..2_000 {
        let mut list = HeaderList::default();
        for _ in 0..sequence.below(6) {
            let origin = [HeaderOrigin::Header, HeaderOrigin::Trailer, HeaderOrigin::Pseudo];
            let line = format!("{}\r\n", sequence.text().replace('\n', ""));
            list.push(line.as_bytes(), origin[sequence.below(3)]);
        }
        let (mut position, mut names) = (0, Vec::new());
        while let Some(found) = list.next(0x1f, -1, position) {
            assert!(found.position > position && found.index < found.amount);
            position = found.position;
            names.push((found.name.to_bytes().to_vec(), found.index));
        }
        listed += names.len();
        for (name, index) in names {
            assert!(list.find(&name, index, 0x1f, -1).is_ok());
        }
    }
    assert!(listed > 100, "only {listed} lines are listed");
}

#[test]
fn random_frames_are_the_same_in_any_pieces() {
    let mut sequence = RandomTexts::START;
    let mut faults = 0;
    for _ in 0..20_000 {
        let bytes = sequence.bytes();
        let (whole, fault) = payloads([&bytes[..]]);
        assert_eq!(payloads(bytes.chunks(1)), (whole, fault.clone()), "{bytes:?}");
        faults += usize::from(fault.is_some());
    }
    assert!((1_000..19_000).contains(&faults), "{faults} of 20000 are refused");
}

/// The payload of each frame with its flags, as far as it is there.
type Payloads = (Vec<(u32, Vec<u8>)>, Option<String>);

fn payloads<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Payloads {
    let (mut decoder, mut frames) = (WebSocketDecoder::default(), Vec::<(u32, Vec<u8>)>::new());
    for piece in pieces {
        let mut input = Bytes::copy_from_slice(piece);
        loop {
            match decoder.decode(&mut input) {
                Ok(None) => break,
                Err(fault) => return (frames, Some(WebSocketFault::text(fault))),
                Ok(Some(piece)) if piece.offset == 0 => {
                    frames.push((piece.flags, piece.payload.to_vec()));
                }
                Ok(Some(piece)) => {
                    let (_, payload) = frames.last_mut().expect("a frame has begun");
                    assert_eq!(payload.len() as u64, piece.offset);
                    payload.extend_from_slice(&piece.payload);
                }
            }
        }
    }
    (frames, None)
}

#[test]
fn random_hosts_of_options_never_panic() {
    let mut sequence = RandomTexts::START;
    let (mut hosts, mut messages) = (StaticHosts::default(), Vec::new());
    let mut excluded = 0;
    for _ in 0..20_000 {
        let (entry, list) = (sequence.text(), sequence.text());
        let _ = hosts.apply(&entry, sys::now(), None, &mut messages);
        hosts.find(&list, 443, sys::now());
        let _ = ConnectTo::find(&[entry.into_bytes()], "x.com", 443);
        excluded += usize::from(is_excluded("x.com", list.as_bytes()));
        is_excluded(&list, b"127.0.0.1/8,::1/128,.x.com,*");
    }
    assert!(!messages.is_empty() && excluded > 10, "{excluded} hosts are excluded");
}
