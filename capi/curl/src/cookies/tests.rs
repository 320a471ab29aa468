//! The installed libcurl 7.88.1 wrote the expectations in `data/cookies.txt` (see its head); and
//! the cases that need a clock or another origin.

use super::store::AddedCookie;
use super::*;
use crate::testing::unescape;

const NOW: i64 = 1_700_000_000;

/// A run of curl: files, requests with what they sent and what they received, and the jar.
#[test]
fn cookies_are_stored_and_sent_as_by_libcurl() {
    let data = include_str!("data/cookies.txt");
    let mut cases = 0;
    for (number, case) in data.split("\ncase\n").skip(1).enumerate() {
        check(number, case);
        cases += 1;
    }
    assert!(cases > 100, "{cases} cases");
}

fn check(number: usize, case: &str) {
    let mut engine = CookieEngine::new();
    let mut file = Vec::new();
    let mut jar = Vec::new();
    let mut origin = None;
    for line in case.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let text = unescape(rest);
        match word {
            "junk" => engine.set_skips_session_cookies(true),
            "file" => file.extend_from_slice(&text),
            "url" => {
                engine.load(&file, NOW); // the tool loads it for each URL
                let (host, path) = rest.split_once(' ').unwrap();
                let (host, path) = (host.as_bytes(), path.as_bytes());
                let is_secure = is_secure_context(false, host);
                origin = Some(CookieOrigin { host, path, is_secure });
            }
            "sent" => {
                let sent =
                    cookie_field(&engine.sent(origin.unwrap(), NOW), 0, None).unwrap_or_default();
                let sent = String::from_utf8_lossy(&sent).into_owned();
                assert_eq!(sent, String::from_utf8_lossy(&text), "case {number}:\n{case}");
            }
            "set" => {
                engine.add_header(&text, origin.unwrap(), NOW);
            }
            "jar" => jar.push(String::from_utf8_lossy(&text).into_owned()),
            _ => panic!("unknown line {line}"),
        }
    }
    let written = engine.jar(NOW);
    let written = String::from_utf8_lossy(&written);
    let (head, written) = written.split_once("\n\n").unwrap();
    assert_eq!(head.lines().count(), 3);
    let written: Vec<_> = written.lines().collect();
    assert_eq!(written, jar, "case {number}:\n{case}");
}

/// `CURLOPT_COOKIELIST` lines, then what `CURLINFO_COOKIELIST` returns.
#[test]
fn lists_of_lines_are_as_by_libcurl() {
    let data = include_str!("data/lines.txt");
    let mut cases = 0;
    for case in data.split("\ncase\n").skip(1) {
        let mut engine = CookieEngine::new();
        let mut expected = Vec::new();
        for line in case.lines() {
            let (word, rest) = line.split_once(' ').unwrap();
            let text = unescape(rest);
            match (word, CookieCommand::parse(&text)) {
                ("add", Some(command)) => engine.execute(command),
                ("add", None) => drop(engine.add_line(&text, NOW)),
                ("list", _) => expected.push(String::from_utf8_lossy(&text).into_owned()),
                _ => panic!("unknown line {line}"),
            }
        }
        let list = engine.list();
        let list: Vec<_> = list.iter().map(|line| String::from_utf8_lossy(line)).collect();
        assert_eq!(list, expected, "{case}");
        cases += 1;
    }
    assert!(cases > 40, "{cases} cases");
}

const HOST: &[u8] = b"www.example.com";

fn at(path: &str, is_secure: bool) -> CookieOrigin<'_> {
    CookieOrigin { host: HOST, path: path.as_bytes(), is_secure }
}

fn sent(engine: &mut CookieEngine, origin: CookieOrigin<'_>, now: i64) -> String {
    let value = cookie_field(&engine.sent(origin, now), 0, None).unwrap_or_default();
    String::from_utf8(value).unwrap()
}

#[test]
fn max_age_counts_from_now() {
    let mut engine = CookieEngine::new();
    let added =
        engine.add_header(b"a=b; max-age=\"10\"; expires=20370213 11:56:27", at("/", false), NOW);
    assert_eq!(added, AddedCookie::Added);
    assert_eq!(sent(&mut engine, at("/", false), NOW + 10), "a=b");
    assert_eq!(sent(&mut engine, at("/", false), NOW + 11), "");
    assert!(engine.list().is_empty());
}

#[test]
fn secure_cookies_need_a_secure_origin() {
    let mut engine = CookieEngine::new();
    let secure = b"a=b; secure; path=/x/y";
    assert_eq!(engine.add_header(secure, at("/", false), NOW), AddedCookie::Refused);
    assert_eq!(engine.add_header(secure, at("/", true), NOW), AddedCookie::Added);
    assert_eq!(sent(&mut engine, at("/x/y", false), NOW), "");
    assert_eq!(sent(&mut engine, at("/x/y", true), NOW), "a=b");
    for (path, added) in [
        ("/x/z", AddedCookie::Refused),
        ("/x", AddedCookie::Refused),
        ("/", AddedCookie::Added),
        ("/y", AddedCookie::Added),
    ] {
        let line = format!("a=c; path={path}");
        assert_eq!(engine.add_header(line.as_bytes(), at("/", false), NOW), added, "{path}");
    }
    assert_eq!(engine.add_header(b"a=c; path=/x/y", at("/", true), NOW), AddedCookie::Replaced);
}

#[test]
fn files_do_not_replace_cookies_of_responses() {
    let mut engine = CookieEngine::new();
    engine.add_header(b"a=new; path=/", at("/", false), NOW);
    engine.load(b"www.example.com\tFALSE\t/\tFALSE\t0\ta\told\n", NOW);
    assert_eq!(sent(&mut engine, at("/", false), NOW), "a=new");
    engine.add_line(b"www.example.com\tFALSE\t/\tFALSE\t0\ta\tset", NOW);
    assert_eq!(sent(&mut engine, at("/", false), NOW), "a=set");
}

#[test]
fn the_own_cookies_of_a_request_are_last() {
    let mut engine = CookieEngine::new();
    let header = |engine: &mut CookieEngine| {
        cookie_field(&engine.sent(at("/", false), NOW), 0, Some(b"x=1; y"))
    };
    assert_eq!(header(&mut engine).unwrap(), b"x=1; y");
    engine.add_header(b"a=b; path=/", at("/", false), NOW);
    assert_eq!(header(&mut engine).unwrap(), b"a=b; x=1; y");
}

#[test]
fn a_request_has_at_most_150_cookies() {
    let mut engine = CookieEngine::new();
    for number in 0..SENT_COOKIES_MAX + 1 {
        engine.add_header(format!("n{number}=1").as_bytes(), at("/", false), NOW);
    }
    let value = sent(&mut engine, at("/", false), NOW);
    assert_eq!(value.split("; ").count(), SENT_COOKIES_MAX);
    assert!(value.contains("n0=1") && !value.contains("n150=1"), "{value}");
}

/// Recorded: behind a head of 83 bytes, the third cookie may have 90 bytes; behind 133, 40.
#[test]
fn a_head_has_less_than_8190_bytes() {
    for (head_len, last_len, is_sent) in
        [(83, 90, true), (83, 91, false), (133, 40, true), (133, 41, false)]
    {
        let mut engine = CookieEngine::new();
        for (name, len) in [("a", last_len), ("b", 4000), ("c", 4000)] {
            let line = format!("{name}={}", "x".repeat(len));
            engine.add_header(line.as_bytes(), at("/", false), NOW);
        }
        let value =
            cookie_field(&engine.sent(at("/", false), NOW), head_len, Some(b"own=1")).unwrap();
        let expected = if is_sent { 8006 + 4 + last_len + "; own=1".len() } else { 8006 };
        assert_eq!(value.len(), expected, "{head_len} {last_len}");
        assert_eq!(value.ends_with(b"own=1"), is_sent);
    }
}
