//! Rules, conditions and formats of the proxy: any text is compiled or refused. Compiled ones can
//! be evaluated on any exchange.

use fulmar_haproxy::rules::format::{FormatOptions, FormatString, Purpose};
use fulmar_haproxy::rules::http::{RuleSet, RulesProgress, run};
use fulmar_haproxy::rules::tcp::{TcpSet, run_tcp};
use fulmar_haproxy::rules::{Acl, Acls, CompileContext, Condition, Expression, WordCursor};

use crate::world::{ConstantFiles, EvalWorld, http_rule, read, tcp_rule, words};

/// A log format, rendered for each purpose. A line of a log stays one line.
pub fn formats(data: &[u8]) {
    let (text, world) = split(data);
    for purpose in [Purpose::Value, Purpose::Replacement, Purpose::Log, Purpose::Identifier] {
        for http in [true, false] {
            let Ok(format) = FormatString::parse(&text, 1, FormatOptions { purpose, http }) else {
                continue;
            };
            let mut out = Vec::new();
            format.render(&world, &mut out);
            let breaks = |bytes: &[u8]| bytes.contains(&b'\n');
            assert!(
                purpose != Purpose::Log || breaks(text.as_bytes()) || !breaks(&out),
                "{}",
                out.escape_ascii()
            );
        }
    }
}

/// Lists (`NAME CRITERION ..`), a line each, and a condition on them in the last line.
pub fn conditions(data: &[u8]) {
    let (text, world) = split(data);
    let (lists, last) = text.rsplit_once('\n').unwrap_or(("", &text));
    let mut acls = Acls::default();
    for line in lists.lines().take(LINES_MAX) {
        let (found, end) = words(line);
        let mut rest = WordCursor::new(&found, end);
        let Some(name) = rest.next() else { continue };
        let context = CompileContext { acls: &acls, files: &ConstantFiles };
        if let Ok(acl) = Acl::parse(&mut rest, context.files) {
            let _ = acl.test(&world);
            acls.entry(name.text.clone()).or_default().push(acl.into());
        }
    }
    let (found, end) = words(last);
    let context = CompileContext { acls: &acls, files: &ConstantFiles };
    if let Ok(condition) = Condition::parse(&mut WordCursor::new(&found, end), &context) {
        let known = condition.check(&world);
        assert!(known.is_none_or(|it| it == condition.holds(&world)), "both agree");
    }
    if let Ok(expression) = Expression::parse_in(last, 1, context.files) {
        let _ = expression.evaluate(&world).and_then(fulmar_haproxy::rules::Sample::into_text);
    }
}

/// Rules, a line each, run on one exchange.
pub fn rules(data: &[u8]) {
    let (text, mut world) = split(data);
    for set in [RuleSet::Request, RuleSet::Response, RuleSet::AfterResponse] {
        let lines = text.lines().take(LINES_MAX);
        let rules: Vec<_> = lines.filter_map(|line| http_rule(set, line).ok()).collect();
        let _ = run(&rules, &mut RulesProgress::default(), &mut world);
    }
    for set in [TcpSet::Connection, TcpSet::Session, TcpSet::Content, TcpSet::ResponseContent] {
        let lines = text.lines().take(LINES_MAX);
        let rules: Vec<_> = lines.filter_map(|line| tcp_rule(set, line).ok()).collect();
        let _ = run_tcp(&rules, &mut world);
    }
    let _ = read(&text, Condition::parse_bare);
}

/// The text, and an exchange with the bytes before the first zero in all its places.
fn split(data: &[u8]) -> (String, EvalWorld) {
    let at = data.iter().position(|byte| *byte == 0);
    let (given, text) = at.map_or((&b"/a?b=c"[..], data), |at| (&data[..at], &data[at + 1..]));
    let value: Vec<u8> = given.iter().copied().filter(|byte| !byte.is_ascii_control()).collect();
    let value = value.trim_ascii();
    let target = String::from_utf8_lossy(given).replace(|c: char| c.is_ascii_control(), "");
    let fields = [("host", value), ("cookie", value), ("accept-language", value)];
    let mut world = EvalWorld::asking("GET", &target, &fields)
        .answered(200, &[("set-cookie", value), ("age", value)])
        .evil(given);
    world.payload = given.to_vec();
    world.complete = true;
    (String::from_utf8_lossy(text).into_owned(), world)
}

/// More of them find nothing new, and take longer.
const LINES_MAX: usize = 20;
