//! ACLs and conditions: parsing, waiting for data, and errors.

use std::collections::HashMap;
use std::sync::Arc;

use fulmar_haproxy::rules::condition::{Criterion, PREDEFINED};
use fulmar_haproxy::rules::{Acls, CompileContext, EvalPoint, SamplePhase};

use crate::given::{Given, NamedFiles, acl_in, condition, condition_in};

/// With ACLs `a` (GET or `/a`) and `b`, and two files.
fn with_lists(check: impl FnOnce(&CompileContext<'_>)) {
    let files = NamedFiles(HashMap::from([
        ("paths".to_owned(), b"# remark\n\n  /one\n\t/two\r\n #sharp\n/three ".to_vec()),
        ("map".to_owned(), b"/one 1\n/two 2\n".to_vec()),
        ("bad".to_owned(), b"10.0.0.0/8\nnot-an-address\n".to_vec()),
    ]));
    let mut acls = Acls::new();
    let empty = Acls::new();
    let context = CompileContext { acls: &empty, files: &files };
    for (name, text) in [("a", "method GET"), ("a", "path /a"), ("b", "path_beg /b")] {
        let acl = acl_in(text, &context).expect("a list");
        acls.entry(name.to_owned()).or_default().push(Arc::new(acl));
    }
    check(&CompileContext { acls: &acls, files: &files });
}

#[test]
fn several_lists_of_one_name_are_one_and_conditions_combine_them() {
    with_lists(|context| {
        for (text, get, a, b) in [
            ("if a", true, true, false),
            ("unless a", false, false, true),
            ("if !a", false, false, true),
            ("if b", false, false, true),
            ("if a b", false, false, false),
            ("if a or b", true, true, true),
            ("if a || b", true, true, true),
            ("if ! a b", false, false, true),
            ("unless a or b", false, false, false),
            ("if !b !{ path /a }", true, false, false),
            ("if !{ path /a } a or b TRUE", true, false, true),
        ] {
            let condition = condition_in(text, context).expect("a condition");
            let held = [("GET", "/"), ("POST", "/a"), ("POST", "/b")]
                .map(|(method, target)| condition.holds(&Given::request(method, target, &[])));
            assert_eq!(held, [get, a, b], "{text}");
        }
    });
}

#[test]
fn files_of_patterns_are_read_line_by_line() {
    with_lists(|context| {
        for (text, target, expected) in [
            ("if { path -f paths }", "/one", true),
            ("if { path -f paths }", "/two", true),
            ("if { path -f paths }", "/three", false),
            ("if { path -f paths }", "/TWO", false),
            ("if { path -i -f paths }", "/TWO", true),
            ("if { path -f paths /more }", "/more", true),
            ("if { path -m beg -f paths }", "/two/x", true),
            ("if { path -M -f map }", "/two", true),
            ("if { path -f map }", "/two", false),
            ("if { str(#sharp) -m str -f paths }", "/", true),
        ] {
            let condition = condition_in(text, context).expect("a condition");
            let held = condition.holds(&Given::request("GET", target, &[]));
            assert_eq!(held, expected, "{text} {target}");
        }
        let fault = condition_in("if { src -f bad }", context).expect_err("a bad line");
        assert!(fault.message.contains("bad:2"), "{fault:?}");
        let fault = condition_in("if { src -f none }", context).expect_err("no such file");
        assert!(fault.message.contains("none"), "{fault:?}");
    });
}

#[test]
fn errors_have_positions_and_reasons() {
    for (line, column, part) in [
        ("", 1, "expected 'if' or 'unless'"),
        ("when TRUE", 1, "'when'"),
        ("if", 3, "expected an ACL"),
        ("if or TRUE", 4, "missing condition before"),
        ("if TRUE or", 11, "expected an ACL"),
        ("if TRUE !", 10, "expected an ACL"),
        ("if METH_GTE", 4, "did you mean 'METH_GET'"),
        ("if { path", 4, "missing closing ' }'"),
        ("if { }", 6, "criterion"),
        ("if { pth / }", 6, "did you mean 'path'"),
        ("if { pth_beg / }", 6, "did you mean 'path_beg'"),
        ("if { path -x / }", 11, "unknown flag"),
        ("if { path -m }", 14, "expected a match method"),
        ("if { path -m str1 / }", 14, "unknown match method"),
        ("if { path -f }", 14, "expected a file name"),
        ("if { path_reg ( }", 15, "regex"),
        ("if { path_reg (?=x) }", 15, "look-around"),
        ("if { path_len a }", 15, "number"),
        ("if { path_len gt }", 18, "expected a number"),
        ("if { path_len 5:x }", 15, "range"),
        ("if { src 10.0.0.0/33 }", 10, "32 bits"),
        ("if { src host.example.org }", 10, "not resolved"),
        ("if { src 1.2.3.4.5 }", 10, "not a valid IPv4"),
        ("if { var(txn.x) y }", 6, "-m"),
        ("if { src -m bool }", 6, "cannot be matched"),
        ("if { hdr(a,b) x }", 6, "not a number"),
        ("if { req.payload(0,1) zz }", 23, "hexadecimal"),
        ("if { path,in_table(t) }", 6, "stick tables"),
    ] {
        let fault = condition(line).expect_err(line);
        assert_eq!(fault.column, column, "{line}: {fault:?}");
        assert!(fault.message.contains(part), "{line}: {fault:?}");
    }
}

#[test]
fn tests_of_bytes_wait_for_them_until_no_more_come() {
    let cases: &[(&str, &[u8], Option<bool>, bool)] = &[
        ("if { req.len gt 3 }", b"abcd", Some(true), true),
        ("if { req.len gt 3 }", b"abc", None, false),
        ("if !{ req.len gt 3 }", b"abc", None, true),
        ("unless { req.len gt 3 }", b"abc", None, true),
        ("if { req.payload(0,2) 6162 }", b"abc", Some(true), true),
        ("if { req.payload(0,2) 6162 }", b"a", None, false),
        ("if { req.payload(0,2) 6162 }", b"xyz", Some(false), false),
        ("if { req.payload(1,0) -m sub c }", b"abc", Some(true), true),
        ("if { req.payload(1,0) -m sub d }", b"abc", None, false),
        ("if { req.payload(9,1) -m found }", b"abc", None, false),
        ("if { req.payload_lv(0,1) 6162 }", b"\x02ab", Some(true), true),
        ("if { req.payload_lv(0,1) 6162 }", b"\x02a", None, false),
        ("if { req.payload_lv(0,1,+1) 63 }", b"\x01bc", Some(true), true),
        ("if { req.payload_lv(0,1,2) 63 }", b"\x01bc", Some(true), true),
        ("if { req.payload_lv(1,1,-2) 6102 }", b"a\x02", Some(true), true),
        ("if HTTP", b"GET / HTTP/1.1\r\n", None, false),
        ("if HTTP", b"GET / HTTP/1.1\r\n\r\n", Some(true), true),
        ("if HTTP", b"\x16\x03\x01", Some(false), false),
        ("if !HTTP", b"\x16\x03\x01", Some(true), true),
        ("if WAIT_END", b"", None, true),
        ("if REQ_CONTENT", b"", None, false),
        ("if FALSE WAIT_END", b"", Some(false), false),
        ("if TRUE WAIT_END", b"", None, true),
        ("if WAIT_END or TRUE", b"", Some(true), true),
        ("if { req.ssl_hello_type 1 }", b"\x16\x03", None, false),
        ("if { req.ssl_hello_type 1 }", b"GET", Some(false), false),
        ("if RDP_COOKIE", RDP, Some(true), true),
        ("if { rdp_cookie(MSTS) -m beg 12 }", RDP, Some(true), true),
        ("if { rdp_cookie(other) -m found }", RDP, Some(false), false),
        ("if RDP_COOKIE", b"\x03\x00\x00", None, false),
    ];
    for (text, bytes, early, late) in cases {
        assert_eq!(Given::payload(bytes, false).check(text), *early, "{text} {bytes:?}");
        assert_eq!(
            Given::payload(bytes, true).check(text),
            Some(*late),
            "{text} {bytes:?}, at the end"
        );
    }
}

const RDP: &[u8] = b"\x03\x00\x00\x1f\x1a\xe0\x00\x00\x00\x00\x00Cookie: msts=12.34\r\n";

#[test]
fn everything_predefined_and_every_criterion_can_be_used() {
    for (name, _) in PREDEFINED {
        assert!(condition(&format!("if {name}")).is_ok(), "{name}");
    }
    for criterion in Criterion::all() {
        let call = match criterion.fetch {
            "req.payload" => format!("{}(0,1)", criterion.name),
            "req.payload_lv" => format!("{}(0,1)", criterion.name),
            _ => criterion.name.to_owned(),
        };
        assert!(condition(&format!("if {{ {call} 11 }}")).is_ok(), "{call}");
    }
}

#[test]
fn phases_of_conditions_are_known_before_evaluation() {
    for (text, point, there) in [
        ("if { path / }", EvalPoint::Request, true),
        ("if { path / }", EvalPoint::Response, false),
        ("if { status 200 }", EvalPoint::Response, true),
        ("if { status 200 }", EvalPoint::Request, false),
        ("if { src 10.0.0.0/8 }", EvalPoint::Connection, true),
        ("if { ssl_fc }", EvalPoint::Connection, false),
        ("if { ssl_fc }", EvalPoint::Session, true),
        ("if { srv_name -m found }", EvalPoint::Request, false),
        ("if { nbsrv(b) gt 1 }", EvalPoint::Configuration, true),
        ("if METH_GET", EvalPoint::Log, true),
        ("if { req.hdr(x) -m found }", EvalPoint::Log, false),
    ] {
        let condition = condition(text).expect("a condition");
        let phases: Vec<SamplePhase> = condition.phases().collect();
        assert_eq!(phases.iter().all(|phase| phase.is_there(point)), there, "{text} {phases:?}");
    }
    let acls = Acls::new();
    let context = CompileContext { acls: &acls, files: &NamedFiles::default() };
    assert!(acl_in("path", &context).expect("a list").is_empty());
    assert!(!acl_in("path -m found", &context).expect("a list").is_empty());
    assert!(!acl_in("ssl_fc", &context).expect("a list").is_empty());
}
