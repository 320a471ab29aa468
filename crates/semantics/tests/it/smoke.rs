//! Runs the fuzz targets on mutated cases with a fixed seed.

use std::panic::{AssertUnwindSafe, catch_unwind};

#[path = "../../../../fuzz/src/semantics.rs"]
#[allow(unreachable_pub, missing_docs, reason = "a separate crate in fuzz")]
mod fuzz;

#[path = "../../../../fuzz/src/mutate.rs"]
#[allow(unreachable_pub, reason = "as above")]
mod mutate;

use mutate::{Random, mutate};

/// A target, and the seeds of its mutations.
type FuzzTarget = (&'static str, fn(&[u8]), &'static [&'static [u8]]);

const TARGETS: [FuzzTarget; 7] = [
    ("proxy_protocol", fuzz::proxy_protocol, PROXY_HEADERS),
    ("multipart", fuzz::multipart, FORMS),
    ("ranges", fuzz::ranges, RANGES),
    ("conditions", fuzz::conditions, CONDITIONS),
    ("cookies", fuzz::cookies, COOKIES),
    ("authorization", fuzz::authorization, CREDENTIALS),
    ("dates", fuzz::dates, DATES),
];

#[test]
fn mutated_cases_give_values_or_errors() {
    let mut random = Random(SEED);
    for (name, target, corpus) in TARGETS {
        let corpus: Vec<_> = corpus.iter().map(|case| case.to_vec()).collect();
        corpus.iter().for_each(|case| target(case));
        for round in 0..ROUNDS {
            let mut data = corpus[random.below(corpus.len())].clone();
            for _ in 0..=random.below(4) {
                mutate(&mut data, &corpus, &mut random);
            }
            let result = catch_unwind(AssertUnwindSafe(|| target(&data)));
            assert!(result.is_ok(), "{name}, round {round}: {}", data.escape_ascii());
        }
    }
}

const PROXY_HEADERS: &[&[u8]] = &[
    b"PROXY TCP4 192.0.2.1 198.51.100.2 4711 443\r\n",
    b"PROXY TCP6 2001:db8::1 2001:db8::2 4711 443\r\nGET / HTTP/1.1\r\n",
    b"PROXY UNKNOWN\r\n",
    b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc6\x33\x64\x02\x12\x67\x01\xbb",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x18\xc0\0\x02\x01\xc6\x33\x64\x02\x12\x67\x01\xbb\
      \x02\0\x01h\x01\0\x02h2\x04\0\0",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x12\0\x20\xc0\0\x02\x01\xc6\x33\x64\x02\x12\x67\x01\xbb\
      \x20\0\x0c\x01\0\0\0\0\x21\0\x04TLSv\x05\0\x02id",
];

const FORMS: &[&[u8]] = &[
    b"abc--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nvalue\r\n--b--\r\n",
    b"\x01\x02\x03--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x.txt\"\r\n\
      Content-Type: text/plain\r\n\r\n\r\n--\r\n--b\r\n\
      Content-Disposition: form-data; name=g\r\n\r\n\r\n--b--",
    b"xyz\r\n--b\r\ncontent-disposition: form-data; name=\"a\\\"b\"\r\n\r\n\r\n\r\n--b--",
    b"multipart/form-data; charset=utf-8; boundary=\"a b\"",
];

const RANGES: &[&[u8]] = &[
    b"bytes=0-0",
    b"bytes=-5, 0-3,5-",
    b"bytes=0-18446744073709551615,18446744073709551615-",
    b"Bytes = 1-2 , 4-6,8-",
];

const CONDITIONS: &[&[u8]] = &[
    b"\"abc\", W/\"d\"\n*\nSun, 06 Nov 1994 08:49:37 GMT\nSun, 06 Nov 1994 08:49:36 GMT\n\
      \"abc\"\nbytes=0-1",
    b"*\n\"abc\"\n\n\nSun, 06 Nov 1994 08:49:37 GMT\nbytes=-1\nbytes=0-",
];

const COOKIES: &[&[u8]] = &[
    b"id=7; theme=dark; =x; y; z=\"1 2\"",
    b"__Host-id=7; Path=/; Secure; HttpOnly; SameSite=Lax\nb=c; Domain=example.com; Max-Age=9",
    b"a=b; Expires=Wed, 09 Jun 2021 10:18:14 GMT; Path=/a\nc=d; Domain=.www.example.com",
];

const CREDENTIALS: &[&[u8]] = &[
    b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
    b"Bearer abc.def",
    b"Digest username=\"user\", realm=\"realm\", nonce=\"n\", uri=\"/\", algorithm=SHA-256, \
      qop=auth, nc=00000001, cnonce=\"c\", response=\"0123456789abcdef\"",
    b"Digest username*=UTF-8''user, realm=\"realm\", nonce=\"n\", uri=\"/\", userhash=true, \
      response=\"0123456789abcdef\", opaque=\"a\\\"b\"",
    b"Newauth realm=\"apps\", type=1, title=\"a, b\", Basic realm=\"simple\"\nNegotiate",
];

const DATES: &[&[u8]] = &[
    b"Sun, 06 Nov 1994 08:49:37 GMT",
    b"Sunday, 06-Nov-94 08:49:37 GMT",
    b"Sun Nov  6 08:49:37 1994",
    b"Thu, 01 Jan 1970 00:00:00 GMT",
    b"Fri, 31 Dec 9999 23:59:59 GMT",
];

const SEED: u64 = 0x5eed_00f0_1a2b;
const ROUNDS: usize = 30_000;
