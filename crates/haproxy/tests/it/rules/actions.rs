//! HTTP rules: parsing, and the effect of each.

use fulmar_haproxy::rules::http::RuleSet::{self, AfterResponse, Request, Response};
use fulmar_haproxy::rules::http::{ACTIONS, HttpRule, HttpVerdict, RulesProgress, run};
use fulmar_haproxy::rules::{EvalContext, EvalContextMut, Sample};
use proptest::prelude::*;

use crate::world::{EvalWorld, describe, http_rule, outcome, read};

const ALL: [RuleSet; 3] = [Request, Response, AfterResponse];

#[test]
fn lines_are_read() {
    for (set, line) in [
        (Request, "allow"),
        (Request, "deny"),
        (Request, "deny deny_status 429"),
        (Request, "deny status 418 content-type text/plain string tea"),
        (Request, "deny errorfiles own"),
        (Request, "tarpit deny_status 429 hdr x y"),
        (Response, "deny status 500"),
        (Request, "return"),
        (Request, "return status 299"),
        (Request, "return errorfile /403.http hdr a b"),
        (Request, "return file /nothing"),
        (Request, "return content-type text/html lf-file /format hdr a %[src] hdr b c"),
        (Response, "return status 404 default-errorfiles"),
        (Request, "redirect location / code 301"),
        (Request, "redirect code 308 prefix https://%[hdr(host)] drop-query append-slash"),
        (Request, "redirect scheme https set-cookie A=b if { path / }"),
        (Request, "auth realm 'My Realm' unless { path / }"),
        (Request, "auth"),
        (Request, "set-header X-A %[src]:%cp"),
        (AfterResponse, "add-header x y"),
        (Request, "del-header x- -m beg"),
        (Response, "replace-header Set-Cookie (.*) \\1;Secure"),
        (Request, "replace-value x a b"),
        (Request, "set-path /a%[path]"),
        (Request, "replace-pathq (.*) /x\\1"),
        (Request, "set-var(txn.a,ifnotempty,ifgt) hdr(x),length"),
        (Request, "set-var-fmt(req.a.b) a%[src]"),
        (Response, "unset-var(res.a)"),
        (Request, "set-log-level silent"),
        (Request, "capture hdr(user-agent) len 32"),
        (Response, "capture res.hdr(server) id 0"),
        (Request, "set-src hdr(x-forwarded-for)"),
        (Request, "set-timeout server 5s"),
        (Request, "set-timeout tunnel int(7)"),
        (Request, "use-service prometheus-exporter if { path /metrics }"),
        (Request, "wait-for-body time 1s at-least 1k"),
        (Request, "early-hint link '</a>; rel=preload'"),
        (Request, "normalize-uri path-strip-dotdot full if { path / }"),
        (Request, "set-nice 5"),
        (Request, "set-mark 0x5 if { path / }"),
        (Request, "wait-for-handshake"),
        (Response, "set-status 503 reason 'My Way'"),
        (Response, "strict-mode off"),
    ] {
        let read = http_rule(set, line);
        assert!(read.is_ok(), "{line}: {read:?}");
    }
}

#[test]
fn errors_have_positions() {
    for (set, line, column, part) in [
        (Request, "", 1, "expected an action"),
        (Request, "alow", 1, "'allow'"),
        (Request, "allow now", 7, "unexpected argument"),
        (Response, "reject", 1, "'http-request'"),
        (AfterResponse, "deny", 1, "'http-request' or 'http-response'"),
        (Request, "set-status 200", 1, "'http-response' or 'http-after-response'"),
        (Request, "deny status 199", 13, "expected 200 to 599"),
        (Request, "deny status 418", 13, "status 418"),
        (Request, "deny sttus 403", 6, "'status'"),
        (Request, "return string x", 8, "'content-type'"),
        (Request, "return content-type a/b string x status 204", 25, "cannot have a body"),
        (Request, "return status 304 content-type a/b lf-file /format", 36, "cannot have a body"),
        (Request, "return content-type a/b file /none", 30, "cannot read '/none'"),
        (Request, "return content-type a/b lf-file /latin", 33, "not valid UTF-8"),
        (Request, "return errorfile /short.http", 18, "does not match the length"),
        (Request, "return content-type a/b lf-string 'x %[sorc]'", 39, "'src'"),
        (Request, "redirect code 302", 1, "redirect needs one of"),
        (Request, "redirect location / code 200", 26, "unsupported redirect code"),
        (Request, "redirect locaton /", 10, "'location'"),
        (Request, "redirect location / set-cookie a;b", 32, "invalid cookie"),
        (Request, "set-header x", 13, "expected a format"),
        (Request, "set-header x: y", 12, "invalid field name"),
        (Request, "set-header x %zz", 14, "unknown log variable 'zz'"),
        (Request, "del-header x -m any", 17, "unknown match method"),
        (Request, "replace-header x ( y", 18, "regex"),
        (Request, "set-var(a) src", 1, "'a' has no scope"),
        (Request, "set-var(txn.a-b) src", 1, "invalid variable name"),
        (Request, "set-var(txn.a,ifmt) src", 1, "'ifgt'"),
        (Request, "set-var(txn.a)", 15, "expected an expression"),
        (Request, "set-log-level loud", 15, "unknown level 'loud'"),
        (Request, "capture src", 12, "'len' or 'id'"),
        (Request, "capture src len 0", 13, "'len <length>'"),
        (Response, "capture status len 3", 16, "'id <slot>'"),
        (Request, "set-timeout client 5s", 13, "expected 'server' or 'tunnel'"),
        (Request, "set-timeout server 5x", 20, "invalid time"),
        (Request, "use-service lua.x", 13, "'prometheus-exporter'"),
        (Request, "wait-for-body at-least 5", 1, "'time'"),
        (Request, "wait-for-body time 1s at-least 5x", 32, "invalid size"),
        (Request, "normalize-uri path-strip", 15, "'path-strip-dot'"),
        (Request, "strict-mode maybe", 13, "expected 'on' or 'off'"),
        (Request, "track-sc0 src", 1, "stick tables"),
        (Request, "do-resolve(txn.a,b) src", 1, "only at the start"),
        (Request, "set-map(a) b c", 1, "runtime socket"),
        (Request, "lua.x", 1, "unknown action 'lua.x'"),
        (Request, "allow if", 9, ""),
        (Request, "allow if { pth / }", 12, "'path'"),
    ] {
        let fault = http_rule(set, line).expect_err(line);
        assert_eq!(fault.column, column, "{line}: {fault:?}");
        assert!(fault.message.contains(part), "{line}: {fault:?}");
    }
}

/// Leniency covers unsupported rules, not invalid ones.
#[test]
fn unsupported_is_distinct_from_invalid() {
    for (line, unknown) in [
        ("track-sc0 src", true),
        ("lua.x", true),
        ("set-header x", false),
        ("deny status 1", false),
    ] {
        assert_eq!(http_rule(Request, line).unwrap_err().unknown, unknown, "{line}");
    }
}

#[test]
fn rules_without_effect_say_so() {
    assert!(http_rule(Request, "set-nice 5").unwrap().warning().unwrap().contains("no effect"));
    assert!(http_rule(Request, "allow").unwrap().warning().is_none());
}

#[test]
fn rows_are_unique_and_described() {
    for (at, row) in ACTIONS.iter().enumerate() {
        assert!(!row.about.is_empty() && !row.sets.is_empty(), "{}", row.name);
        let others = ACTIONS.iter().skip(at + 1);
        assert!(others.clone().all(|other| other.name != row.name), "{} twice", row.name);
    }
}

#[test]
fn decisions() {
    for (rules, expected) in [
        (&["allow", "deny"][..], "Allow"),
        (&["deny if { path /no }", "reject"], "Reject"),
        (&["deny"], "deny 403"),
        (&["deny deny_status 429"], "deny 429"),
        (&["tarpit"], "tarpit 500"),
        (&["return"], "return 200"),
        (&["silent-drop"], "SilentDrop"),
        (&["auth"], "auth false"),
        (&["auth realm %[src]"], "auth true"),
        (&["use-service prometheus-exporter"], "Service(Metrics)"),
        (&["wait-for-body time 1m at-least 2k"], "WaitForBody { time: 60s, at_least: 2048 }"),
        (&["set-nice 5", "set-header a b"], "Continue"),
        (&[], "Continue"),
    ] {
        let mut world = EvalWorld::asking("GET", "/a", &[("host", b"h")]);
        assert_eq!(outcome(Request, rules, &mut world), expected, "{rules:?}");
    }
    let mut world = EvalWorld::asking("GET", "/", &[]).answered(200, &[]);
    assert_eq!(outcome(Response, &["deny"], &mut world), "deny 502");
}

#[test]
fn redirects() {
    let no_cache = "cache-control: no-cache";
    for (rule, target, expected) in [
        ("redirect location /x", "/a?b", format!("302 location: /x | {no_cache}")),
        ("redirect location /%[path] code 301", "/a?b", "301 location: //a".to_owned()),
        ("redirect location %[hdr(nope)] ignore-empty", "/a", "Continue".to_owned()),
        ("redirect location %[hdr(nope)]", "/a", format!("302 location:  | {no_cache}")),
        ("redirect prefix http://o", "/a?b", format!("302 location: http://o/a?b | {no_cache}")),
        ("redirect prefix http://o drop-query code 308", "/a?b", "308 location: http://o/a".into()),
        (
            "redirect prefix / drop-query append-slash code 301",
            "/a?b",
            "301 location: /a/".to_owned(),
        ),
        (
            "redirect prefix / drop-query append-slash code 301",
            "/a/?b",
            "301 location: /a/".to_owned(),
        ),
        ("redirect scheme https code 301", "/a?b", "301 location: https://h:1/a?b".to_owned()),
        ("redirect scheme https code 301", "*", "301 location: https://h:1/".to_owned()),
        (
            "redirect scheme https code 301",
            "http://other/a?b",
            "301 location: https://h:1/a?b".to_owned(),
        ),
        (
            "redirect location / code 301 set-cookie A=b",
            "/",
            "301 location: / | set-cookie: A=b; path=/;".to_owned(),
        ),
        (
            "redirect location / code 301 clear-cookie A=",
            "/",
            "301 location: / | set-cookie: A=; path=/; Max-Age=0;".to_owned(),
        ),
        // Client data cannot start another field.
        (
            "redirect location /%[var(txn.evil)] code 301",
            "/",
            "301 location: /a%0D%0ASet-Cookie: b".to_owned(),
        ),
    ] {
        let mut world =
            EvalWorld::asking("GET", target, &[("host", b"h:1")]).evil(b"a\r\nSet-Cookie: b");
        assert_eq!(outcome(Request, &[rule], &mut world), expected, "{rule}");
    }
}

#[test]
fn the_redirect_keyword_takes_its_location_literally() {
    let rule = read("prefix / code 301 if { path /a }", HttpRule::parse_redirect).unwrap();
    let mut world = EvalWorld::asking("GET", "/a", &[]);
    let verdict = run(std::slice::from_ref(&rule), &mut RulesProgress::default(), &mut world);
    assert_eq!(describe(&verdict), "301 location: /a");
    let line = "location /%20%[src]%% code 301";
    let rule = read(line, HttpRule::parse_redirect).unwrap();
    let verdict = run(std::slice::from_ref(&rule), &mut RulesProgress::default(), &mut world);
    assert_eq!(describe(&verdict), "301 location: /%20%[src]%%");
    let fault = read("preix /", HttpRule::parse_redirect).unwrap_err();
    assert_eq!((fault.column, fault.unknown), (1, true));
}

#[test]
fn fields_change() {
    let before: &[(&str, &[u8])] = &[
        ("Host", b"h"),
        ("X-A", b"one"),
        ("x-list", b"a, bb ,\"c,d\""),
        ("X-A", b"two"),
        ("X-Aa", b"three"),
    ];
    for (rules, expected) in [
        (
            &["add-header x-a %[src]"][..],
            &[
                "Host: h",
                "X-A: one",
                "x-list: a, bb ,\"c,d\"",
                "X-A: two",
                "X-Aa: three",
                "x-a: 192.0.2.7",
            ][..],
        ),
        (
            &["set-header x-a '  %[hdr(x-a)]  '"],
            &["Host: h", "x-list: a, bb ,\"c,d\"", "X-Aa: three", "x-a: two"],
        ),
        (&["del-header x-a"], &["Host: h", "x-list: a, bb ,\"c,d\"", "X-Aa: three"]),
        (&["del-header x- -m beg"], &["Host: h"]),
        (&["del-header -A -m end", "del-header list -m sub"], &["Host: h", "X-Aa: three"]),
        (&["del-header ^x-a+$ -m reg"], &["Host: h", "x-list: a, bb ,\"c,d\""]),
        (
            &["del-header x-list", "replace-header x-a (.)(w?)(.*) '<\\1|\\2|\\0>%[src_port]'"],
            &["Host: h", "X-A: <o||one>4711", "X-A: <t|w|two>4711", "X-Aa: three"],
        ),
        (
            &["del-header x-a -m sub", "replace-value x-list ^.(.?)$ '<\\0\\1>'"],
            &["Host: h", "x-list: <a>,<bbb> ,\"c,d\""],
        ),
        (
            &["del-header x-a -m sub", "replace-value x-list c,d e"],
            &["Host: h", "x-list: a, bb ,e"],
        ),
        (
            &["del-header x- -m beg", "add-header Set-Cookie %[var(txn.evil)]"],
            &["Host: h", "Set-Cookie: a%0D%0Ab: c"],
        ),
    ] {
        let mut world = EvalWorld::asking("GET", "/", before).evil(b"a\r\nb: c");
        assert_eq!(outcome(Request, rules, &mut world), "Continue");
        assert_eq!(world.fields(), expected, "{rules:?}");
        let mut world = EvalWorld::asking("GET", "/", &[]).answered(200, before).evil(b"a\r\nb: c");
        if rules[0].contains("src") || rules[1..].iter().any(|rule| rule.contains("src")) {
            continue;
        }
        let rules: Vec<_> = rules.iter().map(|rule| rule.replace(" hdr(", " res.hdr(")).collect();
        let rules: Vec<_> = rules.iter().map(|rule| rule.replace("[hdr(", "[res.hdr(")).collect();
        let rules: Vec<_> = rules.iter().map(|rule| &rule[..]).collect();
        assert_eq!(outcome(AfterResponse, &rules, &mut world), "Continue");
        assert_eq!(world.fields(), expected, "{rules:?} in a response");
    }
}

#[test]
fn targets_change() {
    for (rule, before, after) in [
        ("set-path /x", "/a?b", "/x?b"),
        ("set-path /x", "http://h/a?b", "http://h/x?b"),
        ("set-path /%[hdr(host)]%[path]", "/a", "/h/a"),
        ("set-path /x?y", "/a?b", "/x?y?b"),
        ("set-pathq /x", "/a?b", "/x"),
        ("set-query c=d", "/a", "/a?c=d"),
        ("set-query c=d", "/a?b?", "/a?c=d"),
        ("set-query %[hdr(nope)]", "/a?b", "/a?"),
        ("set-query %[hdr(nope)]", "/a", "/a"),
        ("set-query %[query]&c", "/a?b", "/a?b&c"),
        ("set-uri http://h:1/u?v", "/a", "http://h:1/u?v"),
        ("replace-path /(.*) /x/\\1", "/a/b?c", "/x/a/b?c"),
        ("replace-path /foo/(.*) /\\1", "/foo/a?b", "/a?b"),
        ("replace-path /foo/(.*) /\\1", "/bar/a?b", "/bar/a?b"),
        ("replace-pathq ([^?]*)(\\?(.*))? \\1/foo\\2", "/a?b", "/a/foo?b"),
        ("replace-uri ^http://(.*) https://\\1", "http://h/a", "https://h/a"),
        ("set-header Host other:5", "http://h/a?b", "http://other:5/a?b"),
        ("replace-header host h h2", "http://h?b", "http://h2?b"),
        ("set-header Host other", "/http://h/a", "/http://h/a"),
        ("normalize-uri path-merge-slashes", "//a///b?//", "/a/b?//"),
        ("normalize-uri path-strip-dot", "/./a/./b/.", "/a/b/"),
        ("normalize-uri path-strip-dot", "/.well-known/", "/.well-known/"),
        ("normalize-uri path-strip-dot", "/.", "/"),
        ("normalize-uri path-strip-dotdot", "/foo/../", "/"),
        ("normalize-uri path-strip-dotdot", "/foo/..", "/"),
        ("normalize-uri path-strip-dotdot", "/foo/bar/../", "/foo/"),
        ("normalize-uri path-strip-dotdot", "/../bar/", "/../bar/"),
        ("normalize-uri path-strip-dotdot", "/bar/../../", "/../"),
        ("normalize-uri path-strip-dotdot", "/foo//../", "/foo/"),
        ("normalize-uri path-strip-dotdot full", "/bar/../../", "/"),
        ("normalize-uri path-strip-dotdot full", "/../bar/", "/bar/"),
        ("normalize-uri path-strip-dotdot", "/foo/%2E%2E/", "/foo/%2E%2E/"),
        ("normalize-uri percent-decode-unreserved", "/%61dmin%3F?%61", "/admin%3F?%61"),
        ("normalize-uri percent-to-uppercase", "/%6f%2f", "/%6F%2F"),
        ("normalize-uri query-sort-by-name", "/?aaa=3&a=1&aa=2", "/?a=1&aa=2&aaa=3"),
        ("normalize-uri query-sort-by-name", "/?a=3&b=4&a=1", "/?a=3&a=1&b=4"),
        ("normalize-uri query-sort-by-name", "/a", "/a"),
        ("normalize-uri fragment-strip", "/a", "/a"),
    ] {
        let mut world = EvalWorld::asking("GET", before, &[("host", b"h")]);
        assert_eq!(outcome(Request, &[rule], &mut world), "Continue", "{rule}");
        assert_eq!(world.target(), after, "{rule} of {before}");
    }
}

/// Servers may use the target or the Host field.
#[test]
fn a_target_that_names_a_host_makes_it_the_host() {
    for rule in ["set-uri http://other:8/x", "replace-uri .* http://other:8/x"] {
        let mut world = EvalWorld::asking("GET", "/a", &[("Host", b"h"), ("x", b"y")]);
        assert_eq!(outcome(Request, &[rule], &mut world), "Continue");
        assert_eq!(world.fields(), ["Host: other:8", "x: y"]);
    }
    let mut world = EvalWorld::asking("GET", "http://h/", &[("Host", b"h")]);
    assert_eq!(outcome(Request, &["set-header Host 'a b'"], &mut world), "Failed(0)");
    assert_eq!(world.target(), "http://h/");
}

/// As in HAProxy: line ends in a variable do not reach the request line.
#[test]
fn control_characters_of_a_path_are_escaped() {
    let mut world = EvalWorld::asking("GET", "/a?b", &[("host", b"h")]).evil(b"\r\n");
    assert_eq!(outcome(Request, &["set-path /%[var(txn.evil)]"], &mut world), "Continue");
    assert_eq!(world.target(), "/%0D%0A?b");
}

/// Changes that HTTP does not allow are not made: the exchange fails, or continues unchanged.
#[test]
fn changes_that_cannot_be_made() {
    for rule in [
        "set-path 'a b'",
        "set-path '/a b'",
        "set-path x",
        "set-path /%[var(txn.evil)]",
        "set-pathq /a#b",
        "set-query 'a b'",
        "set-uri %[hdr(nope)]",
        "set-uri http://a@b/",
        "set-uri *",
        "set-method 'PO ST'",
        "set-method CONNECT",
        "set-method %[hdr(nope)]",
        "replace-path .* 'x y'",
    ] {
        let mut world = EvalWorld::asking("GET", "/a?b", &[("host", b"h")]).evil(b"\0");
        let failing = outcome(Request, &["allow if { path /no }", rule], &mut world);
        assert_eq!(failing, "Failed(1)", "{rule}");
        assert_eq!(world.target(), "/a?b", "{rule}");
        assert_eq!(world.request.as_ref().unwrap().method, b"GET", "{rule}");
        let lenient = ["strict-mode off", rule, "set-header x y"];
        assert_eq!(outcome(Request, &lenient, &mut world), "Continue", "{rule}");
        assert_eq!(world.target(), "/a?b", "{rule}");
        assert_eq!(world.fields(), ["host: h", "x: y"], "{rule}");
    }
}

#[test]
fn other_changes() {
    let mut world = EvalWorld::asking("GET", "/", &[("x", b"203.0.113.9"), ("p", b"81")]);
    let rules = [
        "set-method POST",
        "set-src hdr(x)",
        "set-src-port hdr(p)",
        "set-src hdr(nope)",
        "set-src hdr(p),concat(.x)",
        "set-dst-port int(70000)",
        "set-dst str(2001:db8::1)",
        "set-log-level err",
        "set-log-level silent",
        "capture hdr(x) len 3",
        "capture hdr(x) id 2",
        "capture hdr(nope) id 3",
        "set-timeout server 5s",
        "set-timeout tunnel int(7)",
        "set-timeout tunnel int(0)",
        "disable-l7-retry",
        "early-hint link </%[src]>",
    ];
    assert_eq!(outcome(Request, &rules, &mut world), "Continue");
    assert_eq!(world.request.as_ref().unwrap().method, b"POST");
    assert_eq!(world.source, "203.0.113.9:81".parse().ok());
    assert_eq!(world.destination, "[2001:db8::1]:80".parse().ok());
    let effects = [
        "LogLevel(Some(3))",
        "LogLevel(None)",
        "Request(0) 203",
        "Request(2) 203.0.113.9",
        "Timeout(Server, 5s)",
        "Timeout(Tunnel, 7ms)",
        "NoRetry",
        "link: </203.0.113.9>",
    ];
    assert_eq!(world.effects, effects);

    let mut world = EvalWorld::asking("GET", "/", &[]).answered(200, &[]);
    assert_eq!(outcome(Response, &["set-status 418 reason Tea"], &mut world), "Continue");
    assert_eq!(world.response.unwrap().status, 418);
}

#[test]
fn variables() {
    let mut world = EvalWorld::asking("GET", "/", &[("n", b"5"), ("e", b"")]);
    let rules = [
        "set-var(txn.n) hdr(n),mul(2)",
        "set-var(txn.gone) int(1)",
        "unset-var(txn.gone)",
        "set-var(txn.nope) hdr(nope)",
        "set-var-fmt(txn.f) <%[var(txn.n)]>",
        "set-var(txn.n,ifgt) int(11)",
        "set-var(txn.m,ifexists) int(1)",
        "set-var(txn.f,ifnotexists) int(1)",
        "set-var(txn.e,ifnotempty) hdr(e)",
        "set-var(txn.z,ifempty) hdr(e)",
        "set-var(txn.y,ifset) int(0)",
        "set-var(txn.x,ifnotset) int(0)",
        "set-var(txn.w,iflt) int(3)",
        "set-var(txn.n,iflt) int(10)",
    ];
    assert_eq!(outcome(Request, &rules, &mut world), "Continue");
    let mut found: Vec<_> =
        world.variables.iter().map(|(name, value)| (&name.name[..], value.clone())).collect();
    found.sort_by_key(|(name, _)| *name);
    let text = |text: &'static str| Sample::Text(text.as_bytes().into());
    let expected = [
        ("f", text("<10>")),
        ("n", Sample::Int(10)),
        ("w", Sample::Int(3)),
        ("x", Sample::Int(0)),
        ("z", text("")),
    ];
    assert_eq!(found, expected);
}

/// `allow` does not skip `redirect` keywords.
#[test]
fn what_is_allowed_may_be_redirected() {
    let rule = |line| http_rule(Request, line).unwrap();
    let keyword = read("location /x code 301 if { path /a }", HttpRule::parse_redirect).unwrap();
    let rules = [rule("allow"), rule("deny"), rule("redirect location /y"), keyword];
    for (path, expected) in [("/a", "301 location: /x"), ("/b", "Allow")] {
        let mut world = EvalWorld::asking("GET", path, &[]);
        let verdict = run(&rules, &mut RulesProgress::default(), &mut world);
        assert_eq!(describe(&verdict), expected);
    }
}

/// After a wait, evaluation continues with the next rule.
#[test]
fn a_wait_is_gone_on_from() {
    let lines =
        ["add-header a b", "strict-mode off", "wait-for-body time 1s", "set-path x", "deny"];
    let rules: Vec<_> = lines.iter().map(|line| http_rule(Request, line).unwrap()).collect();
    let mut world = EvalWorld::asking("GET", "/", &[]);
    let mut progress = RulesProgress::default();
    assert!(matches!(run(&rules, &mut progress, &mut world), HttpVerdict::WaitForBody { .. }));
    assert_eq!(describe(&run(&rules, &mut progress, &mut world)), "deny 403");
    assert_eq!(world.fields(), ["a: b"]);
}

#[test]
fn captures_get_their_slots() {
    use fulmar_haproxy::rules::eval_context_mut::CaptureSlot;
    let mut rule = http_rule(Request, "capture src len 5").unwrap();
    assert_eq!(rule.take_slot(CaptureSlot::Request(3)), Some(5));
    let mut world = EvalWorld::asking("GET", "/", &[]);
    run(&[rule], &mut RulesProgress::default(), &mut world);
    assert_eq!(world.effects, ["Request(3) 192.0"]);
    assert_eq!(
        http_rule(Request, "capture src id 1").unwrap().take_slot(CaptureSlot::Request(3)),
        None
    );
    assert_eq!(http_rule(Request, "allow").unwrap().take_slot(CaptureSlot::Request(3)), None);
}

fn no_line_ends(world: &EvalWorld) -> bool {
    let heads =
        [world.request().map(|head| &head.fields), world.response().map(|head| &head.fields)];
    let is_bad = |bytes: &[u8]| bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
    let fields = heads.into_iter().flatten();
    let target = world.request().map(|head| &head.target[..]).unwrap_or_default();
    !is_bad(target)
        && !target.contains(&b' ')
        && fields.flat_map(|fields| fields.iter()).all(|(name, value)| {
            !is_bad(name) && !is_bad(value) && !name.is_empty() && !name.contains(&b' ')
        })
}

proptest! {
    /// No client data breaks a field or a target, in any rule.
    #[test]
    fn nothing_a_client_sends_breaks_a_message(
        sent in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut world = EvalWorld::asking("GET", "/a?b", &[]).evil(&sent);
        let value = "%[var(txn.evil)]";
        let rules = [
            "strict-mode off".to_owned(),
            format!("set-header y {value}"),
            format!("add-header y {value}{value}"),
            format!("replace-header y (.*) \\1{value}"),
            format!("replace-value y (.*) \\1{value}"),
            format!("set-path /{value}"),
            format!("set-query {value}"),
            format!("replace-path (.*) \\1{value}"),
            format!("set-method {value}"),
            format!("set-uri {value}"),
        ];
        let rules: Vec<_> = rules.iter().map(|rule| &rule[..]).collect();
        prop_assert_eq!(outcome(Request, &rules, &mut world), "Continue");
        prop_assert!(no_line_ends(&world), "{:?}", world);
        let location = format!("redirect location {value}");
        if let Ok(rule) = http_rule(Request, &location)
            && let HttpVerdict::Redirect(head) =
                run(&[rule], &mut RulesProgress::default(), &mut world)
        {
            let bad = |value: &[u8]| value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
            prop_assert!(!head.fields.iter().any(|(_, value)| bad(value)));
        }
    }

    #[test]
    fn no_line_panics(
        row in 0..ACTIONS.len(),
        rest in "[ -~]{0,40}",
        set in prop::sample::select(&ALL[..]),
    ) {
        let name = ACTIONS[row].name;
        let end = if name.ends_with('(') { ")" } else { "" };
        if let Ok(rule) = http_rule(set, &format!("{name}{end} {rest}")) {
            let mut world = EvalWorld::asking("GET", "/", &[]).answered(200, &[]);
            let exchange: &mut dyn EvalContextMut = &mut world;
            run(&[rule], &mut RulesProgress::default(), exchange);
        }
        let _ = http_rule(set, &format!("{name}{rest}"));
        let _ = http_rule(set, &rest);
    }
}
