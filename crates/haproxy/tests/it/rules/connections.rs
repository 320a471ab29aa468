//! TCP rules: parsing, and the effect of each.

use fulmar_haproxy::rules::Sample;
use fulmar_haproxy::rules::eval_context_mut::CaptureSlot;
use fulmar_haproxy::rules::tcp::TcpSet::{self, Connection, Content, ResponseContent, Session};
use fulmar_haproxy::rules::tcp::{TCP_ACTIONS, TcpVerdict, run_tcp};
use proptest::prelude::*;

use crate::world::{EvalWorld, tcp_rule};

const ALL: [TcpSet; 4] = [Connection, Session, Content, ResponseContent];

#[test]
fn lines_are_read() {
    for (set, line) in [
        (Connection, "accept if { src 10.0.0.0/8 }"),
        (Connection, "reject"),
        (Connection, "expect-proxy layer4 if { src 10.0.0.0/8 }"),
        (Connection, "set-src hdr(x)"),
        (Session, "silent-drop"),
        (Session, "set-var(sess.a) src"),
        (Content, "set-var-fmt(sess.a) %[src]:%[src_port]"),
        (Content, "unset-var(sess.a)"),
        (Content, "capture req.len len 10"),
        (Content, "set-log-level err"),
        (Content, "set-dst-port int(5)"),
        (ResponseContent, "close"),
        (ResponseContent, "set-nice 5"),
    ] {
        let read = tcp_rule(set, line);
        assert!(read.is_ok(), "{line}: {read:?}");
    }
}

#[test]
fn errors_have_positions() {
    for (set, line, column, part) in [
        (Content, "", 1, "expected an action"),
        (Content, "rejct", 1, "'reject'"),
        (Content, "expect-proxy layer4", 1, "only in tcp-request connection"),
        (Connection, "expect-proxy layer7", 14, "'layer4'"),
        (Connection, "capture src len 5", 1, "tcp-request content"),
        (Content, "capture src len 0", 17, "must be positive"),
        (Content, "capture src id 0", 13, "'len <length>'"),
        (Content, "accept now", 8, "unexpected argument"),
        (Content, "track-sc1 src", 1, "stick tables"),
        (Content, "switch-mode http", 1, "mode http"),
        (Content, "set-var(a) src", 1, "has no scope"),
    ] {
        let fault = tcp_rule(set, line).expect_err(line);
        assert_eq!(fault.column, column, "{line}: {fault:?}");
        assert!(fault.message.contains(part), "{line}: {fault:?}");
    }
    assert!(tcp_rule(Content, "set-tos 5").unwrap().warning().unwrap().contains("no effect"));
    assert!(tcp_rule(Content, "accept").unwrap().warning().is_none());
}

fn outcome(set: TcpSet, lines: &[&str], world: &mut EvalWorld) -> TcpVerdict {
    let rule = |line: &&str| tcp_rule(set, line).unwrap_or_else(|f| panic!("{line}: {f:?}"));
    let rules: Vec<_> = lines.iter().map(rule).collect();
    run_tcp(&rules, world)
}

#[test]
fn decisions() {
    let world = || EvalWorld::asking("GET", "/", &[]);
    for (rules, expected) in [
        (&["accept", "reject"][..], TcpVerdict::Accept),
        (&["accept if { src 10.0.0.0/8 }", "reject"], TcpVerdict::Reject),
        (&["reject unless { src 192.0.2.0/24 }"], TcpVerdict::Accept),
        (&["silent-drop"], TcpVerdict::SilentDrop),
        (&[], TcpVerdict::Accept),
    ] {
        assert_eq!(outcome(Connection, rules, &mut world()), expected, "{rules:?}");
    }
    assert_eq!(outcome(ResponseContent, &["close"], &mut world()), TcpVerdict::Close);

    let mut world = world();
    let rules =
        ["expect-proxy layer4", "set-src str(10.0.0.1)", "set-var(sess.a) src", "set-tos 1"];
    assert_eq!(outcome(Connection, &rules, &mut world), TcpVerdict::Accept);
    assert_eq!(world.effects, ["ExpectProxy"]);
    assert_eq!(world.source, "10.0.0.1:4711".parse().ok());
    let value = world.variables.values().next();
    assert_eq!(value, Some(&Sample::Address("10.0.0.1".parse().unwrap())));
}

/// A rule that needs more data delays the rules after it; other rules do not.
#[test]
fn rules_wait_for_what_they_look_at() {
    let rules = ["accept if { req.len gt 3 }", "reject"];
    for (rules, payload, complete, expected) in [
        (&rules[..], &b""[..], false, TcpVerdict::Wait),
        (&rules, b"abc", false, TcpVerdict::Wait),
        (&rules, b"abcd", false, TcpVerdict::Accept),
        (&rules, b"abc", true, TcpVerdict::Reject),
        (
            &["accept if { src 192.0.2.7 }", "reject if { req.len gt 3 }"],
            b"",
            false,
            TcpVerdict::Accept,
        ),
        (&["reject if { req.len gt 3 }"], b"", true, TcpVerdict::Accept),
        (
            &["accept if { req.ssl_hello_type 1 }", "reject"],
            b"GET / HTTP/1.1\r\n\r\n",
            true,
            TcpVerdict::Reject,
        ),
        (
            &["accept if { req.ssl_hello_type 1 }", "reject"],
            b"\x16\x03\x01",
            false,
            TcpVerdict::Wait,
        ),
    ] {
        let mut world = EvalWorld::asking("GET", "/", &[]);
        world.request = None;
        world.payload = payload.to_vec();
        world.complete = complete;
        assert_eq!(outcome(Content, rules, &mut world), expected, "{rules:?} {payload:?}");
    }
}

#[test]
fn captures_get_their_slots() {
    let mut rule = tcp_rule(Content, "capture src len 5").unwrap();
    assert_eq!(rule.take_slot(CaptureSlot::Request(1)), Some(5));
    let mut world = EvalWorld::asking("GET", "/", &[]);
    run_tcp(&[rule], &mut world);
    assert_eq!(world.effects, ["Request(1) 192.0"]);
    assert_eq!(tcp_rule(Content, "accept").unwrap().take_slot(CaptureSlot::Request(1)), None);
}

#[test]
fn rows_are_unique_and_described() {
    for (at, row) in TCP_ACTIONS.iter().enumerate() {
        assert!(!row.about.is_empty() && !row.sets.is_empty(), "{}", row.name);
        assert!(TCP_ACTIONS.iter().skip(at + 1).all(|other| other.name != row.name));
    }
}

proptest! {
    #[test]
    fn no_line_panics(
        row in 0..TCP_ACTIONS.len(),
        rest in "[ -~]{0,40}",
        set in prop::sample::select(&ALL[..]),
    ) {
        let name = TCP_ACTIONS[row].name;
        let end = if name.ends_with('(') { ")" } else { "" };
        for line in [format!("{name}{end} {rest}"), format!("{name}{rest}"), rest] {
            if let Ok(rule) = tcp_rule(set, &line) {
                run_tcp(&[rule], &mut EvalWorld::default());
            }
        }
    }
}
