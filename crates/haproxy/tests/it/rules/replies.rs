//! Responses of the proxy: parsing and output.

use std::sync::Arc;

use bytes::Bytes;
use fulmar_haproxy::rules::WordError;
use fulmar_haproxy::rules::http::RuleSet::Request;
use fulmar_haproxy::rules::http::{HttpRule, HttpVerdict, RulesProgress, run};
use fulmar_haproxy::rules::reply::{
    ErrorPages, PAGES, ReplyBody, ReplyTemplate, built_in, parse_errorfile, parse_errorloc,
    parse_file, parse_http_error,
};
use proptest::prelude::*;

use crate::world::{EvalWorld, http_rule, lines, read};

/// Status, fields and body of a response.
fn shown(reply: &ReplyTemplate, pages: &[&ErrorPages]) -> Option<(u16, Vec<String>, String)> {
    let world = EvalWorld::asking("GET", "/", &[]).evil(b"a\nb");
    let (head, body): (_, Bytes) = reply.render(&world, pages)?;
    Some((head.status, lines(&head.fields), String::from_utf8_lossy(&body).into_owned()))
}

fn rule(line: &str) -> HttpRule {
    http_rule(Request, line).unwrap_or_else(|fault| panic!("{line}: {fault:?}"))
}

#[test]
fn answers_are_made() {
    for (line, status, fields, body) in [
        ("return", 200, &[][..], ""),
        ("return status 404 hdr x %[src]", 404, &["x: 192.0.2.7"], ""),
        ("return content-type a/b string 'x %[src]'", 200, &["content-type: a/b"], "x %[src]"),
        (
            "return content-type a/b lf-string 'x %[src]'",
            200,
            &["content-type: a/b"],
            "x 192.0.2.7",
        ),
        ("return content-type a/b file /page", 200, &["content-type: a/b"], "<p>hello"),
        (
            "return content-type a/b lf-file /format",
            200,
            &["content-type: a/b"],
            "you are 192.0.2.7\n",
        ),
        ("return status 204 file /nothing", 204, &[], ""),
        ("return errorfile /403.http hdr x y", 403, &["X-Page: 1"], "<p>never\n"),
        ("deny hdr x y", 403, &["x: y"], ""),
        ("tarpit content-type a/b string x", 500, &["content-type: a/b"], "x"),
        ("return hdr x %[var(txn.evil)] hdr y ' z '", 200, &["x: a%0Ab", "y: z"], ""),
    ] {
        let mut rule = rule(line);
        let reply = rule.reply_mut().unwrap();
        let fields = fields.iter().map(ToString::to_string).collect();
        assert_eq!(shown(reply, &[]), Some((status, fields, body.to_owned())), "{line}");
    }
    assert!(rule("allow").reply_mut().is_none());
}

#[test]
fn built_in_pages() {
    for (status, title, _) in PAGES {
        let (shown_status, fields, body) = shown(&ReplyTemplate::error_page(*status), &[]).unwrap();
        assert_eq!(shown_status, *status);
        assert!(fields.contains(&"content-type: text/html; charset=utf-8".to_owned()));
        assert!(fields.contains(&"cache-control: no-cache".to_owned()));
        assert!(body.contains(&format!("<title>{status} {title}</title>")), "{body}");
        assert!(body.len() < 1024, "{status}: {} bytes", body.len());
    }
    assert_eq!(built_in(599).status, 500);
}

#[test]
fn pages_of_a_backend_come_before_those_of_a_frontend() {
    let page = |body: &'static str| {
        let body = ReplyBody::Fixed(Bytes::from_static(body.as_bytes()));
        Arc::new(ReplyTemplate { status: 503, fields: Vec::new(), body })
    };
    let (mut backend, mut frontend) = (ErrorPages::default(), ErrorPages::default());
    let body = |pages: &[&ErrorPages]| shown(&ReplyTemplate::error_page(503), pages).unwrap().2;
    frontend.set(503, page("frontend"));
    assert_eq!(body(&[&backend, &frontend]), "frontend");
    backend.set(503, page("old"));
    backend.set(503, page("backend"));
    assert_eq!(body(&[&backend, &frontend]), "backend");
    assert_eq!(backend.pages.len(), 1);
    backend.remove(503);
    frontend.remove(503);
    assert!(body(&[&backend, &frontend]).contains("503 Service Unavailable"));
}

#[test]
fn a_challenge_is_the_page_of_401_with_a_realm() {
    let world = EvalWorld::asking("GET", "/", &[]);
    let mut pages = ErrorPages::default();
    let own =
        parse_file(b"HTTP/1.1 401 X\r\nWWW-Authenticate: Digest\r\nX-A: 1\r\n\r\nwho?").unwrap();
    pages.set(401, Arc::new(own));
    let (head, body) = ReplyTemplate::challenge(b"My \"\\\r\nRealm", &world, &[&pages]).unwrap();
    assert_eq!(head.status, 401);
    let expected = ["X-A: 1", "www-authenticate: Basic realm=\"My \\\"\\\\Realm\""];
    assert_eq!(lines(&head.fields), expected);
    assert_eq!(&body[..], b"who?");
    let (head, _) = ReplyTemplate::challenge(b"", &world, &[]).unwrap();
    assert_eq!(head.fields.as_headers().get("www-authenticate"), Some(&b"Basic realm=\"\""[..]));
}

#[test]
fn files_are_read_strictly() {
    let good: [(&[u8], u16, &[&str], &str); 5] = [
        (
            b"HTTP/1.0 503 Service Unavailable\r\nA: b\r\nConnection: close\r\n\r\nx",
            503,
            &["A: b"],
            "x",
        ),
        (b"HTTP/1.1 200 OK\nA: b\n\nx\ny", 200, &["A: b"], "x\ny"),
        (b"HTTP/1.1 404 \r\nContent-Length: 3\r\nKeep-Alive: 5\r\n\r\nabc", 404, &[], "abc"),
        (b"HTTP/1.1 302 Found\r\nLocation: /%ci%[src]\r\n\r\n", 302, &["Location: /%ci%[src]"], ""),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, &[], ""),
    ];
    for (file, status, fields, body) in good {
        let reply = parse_file(file).unwrap();
        let fields = fields.iter().map(ToString::to_string).collect();
        assert_eq!(shown(&reply, &[]), Some((status, fields, body.to_owned())));
    }
    let bad: [(&[u8], &str); 9] = [
        (b"<html>", "invalid response headers"),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n", "empty line"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "from 200 to 599"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", "(2)"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nab", "(2)"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "'Transfer-Encoding'"),
        (b"HTTP/1.1 204 No\r\n\r\nx", "cannot have"),
        (b"HTTP/1.1 200 OK\r\nA b\r\n\r\n", "invalid response headers"),
        (b"HTTP/1.1 200 OK\r\nA: \x00\r\n\r\n", "invalid response headers"),
    ];
    for (file, part) in bad {
        let message = parse_file(file).unwrap_err();
        assert!(message.contains(part), "{message}");
    }
    let long = [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b'x'; 1 << 20]].concat();
    assert!(parse_file(&long).unwrap_err().contains("limit"));
}

/// `errorfile 408 /dev/null`: no response.
#[test]
fn an_empty_file_is_silence() {
    let (status, reply) = read("408 /nothing", parse_errorfile).unwrap();
    assert_eq!(status, 408);
    assert_eq!(shown(&reply, &[]), None);
    let mut pages = ErrorPages::default();
    pages.set(status, reply);
    assert_eq!(shown(&ReplyTemplate::error_page(408), &[&pages]), None);
}

#[test]
fn lines_of_error_pages() {
    let (status, reply) = read("502 /403.http", parse_errorfile).unwrap();
    assert_eq!((status, shown(&reply, &[]).unwrap().0), (502, 403));
    let (status, reply) = read("403 http://x/?a", |words, _| parse_errorloc(words, 303)).unwrap();
    let fields = vec!["cache-control: no-cache".to_owned(), "location: http://x/?a".to_owned()];
    assert_eq!((status, shown(&reply, &[])), (403, Some((303, fields, String::new()))));

    let fault = |line| read(line, parse_errorfile).unwrap_err();
    for (line, column, part) in [
        ("418 /page", 1, "'418' not handled"),
        ("abc /page", 1, "invalid status"),
        ("403", 4, "expected a file"),
        ("403 /none", 5, "cannot read"),
        ("403 /page", 5, "invalid response in"),
        ("403 /403.http x", 15, "unexpected argument"),
    ] {
        let fault: WordError = fault(line);
        assert_eq!(fault.column, column, "{line}: {fault:?}");
        assert!(fault.message.contains(part), "{line}: {fault:?}");
    }
    let fault = read("403 'http://x y'", |words, _| parse_errorloc(words, 303)).unwrap_err();
    assert_eq!(fault.column, 5);
}

#[test]
fn http_error_changes_the_pages_of_a_proxy() {
    let mut section = ErrorPages::default();
    let own = ReplyTemplate { status: 404, fields: Vec::new(), body: ReplyBody::Empty };
    section.set(404, Arc::new(own));
    let mut pages = ErrorPages::default();
    let mut change = |line: &str| {
        let find = |name: &str| (name == "own").then_some(&section);
        read(line, |words, context| parse_http_error(words, context, find, &mut pages))?;
        let known: Vec<_> = pages.pages.iter().map(|(known, page)| (*known, page.status)).collect();
        Ok::<_, WordError>(known)
    };
    assert_eq!(change("status 503 content-type a/b string x").unwrap(), [(503, 503)]);
    assert_eq!(change("content-type a/b string y status 503").unwrap(), [(503, 503)]);
    assert_eq!(change("status 404 errorfiles own").unwrap(), [(503, 503), (404, 404)]);
    assert_eq!(change("status 503 default-errorfiles").unwrap(), [(404, 404)]);
    assert_eq!(change("status 502 errorfile /403.http").unwrap(), [(404, 404), (502, 403)]);
    assert_eq!(change("status 502 errorfiles own").unwrap(), [(404, 404)]);
    for (line, column) in [
        ("content-type a/b string x", 1),
        ("status 418 content-type a/b string x", 8),
        ("status 404 errorfiles none", 12),
        ("status 404 string x", 12),
        ("status 404 content-type a/b string x string y", 38),
        ("status 404 content-type a/b string x if", 38),
    ] {
        assert_eq!(change(line).unwrap_err().column, column, "{line}");
    }
}

#[test]
fn sections_are_resolved_later() {
    let mut rule = rule("deny deny_status 404 errorfiles own");
    let mut section = ErrorPages::default();
    section.set(404, Arc::new(parse_file(b"HTTP/1.1 404 X\r\n\r\nmine").unwrap()));
    let fault = rule.reply_mut().unwrap().resolve(|_| None).unwrap_err();
    assert_eq!(fault.column, 22);
    assert!(fault.message.contains("http-errors section 'own'"), "{fault:?}");
    rule.reply_mut().unwrap().resolve(|_| Some(&section)).unwrap();
    let mut world = EvalWorld::asking("GET", "/", &[]);
    let verdict = run(std::slice::from_ref(&rule), &mut RulesProgress::default(), &mut world);
    let HttpVerdict::Deny(reply) = verdict else { panic!("{verdict:?}") };
    assert_eq!(shown(reply, &[]).unwrap().2, "mine");
}

proptest! {
    #[test]
    fn no_file_panics(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        begin in prop::sample::select(&["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\n\r\n"][..]),
    ) {
        let file = [begin.as_bytes(), &bytes].concat();
        if let Ok(reply) = parse_file(&file) {
            shown(&reply, &[]);
        }
    }
}
