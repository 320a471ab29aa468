//! Rules; their arguments are parsed by module `rules`.

use std::sync::Arc;

use crate::compile::{LineContext, check_phase, warn_if_unavailable};
use crate::draft::{ProxyDraft, ProxySection};
use crate::keyword_table::{BACKEND, FRONTEND, HTTP, Keyword, NAMED, row};
use crate::line::KeywordLine;
use crate::model::HeaderCapture;
use crate::rules::condition::Acl;
use crate::rules::eval_context_mut::CaptureSlot;
use crate::rules::http::{HttpAction, HttpRule, RuleSet};
use crate::rules::tcp::{TcpRule, TcpSet};
use crate::rules::{CompileContext, Condition, EvalPoint, WordError};

pub(super) const ROWS: &[Keyword<ProxyDraft>] = &[
    row(
        "acl",
        FRONTEND | BACKEND | NAMED,
        "<name> <expression> [<flag>...] [<pattern>...]",
        "declare a named condition",
        acl,
    ),
    row(
        "tcp-request connection",
        FRONTEND | NAMED,
        "<action> [if | unless <condition>]",
        "rule before any data is read",
        connection,
    ),
    row(
        "tcp-request session",
        FRONTEND | NAMED,
        "<action> [if | unless <condition>]",
        "rule after the PROXY header and the TLS handshake",
        session,
    ),
    row(
        "tcp-request content",
        FRONTEND | BACKEND | NAMED,
        "<action> [if | unless <condition>]",
        "rule on request data",
        content,
    ),
    row(
        "tcp-response content",
        BACKEND | NAMED,
        "<action> [if | unless <condition>]",
        "rule on response data",
        response_content,
    ),
    row(
        "http-request",
        FRONTEND | BACKEND | NAMED | HTTP,
        "<action> [if | unless <condition>]",
        "rule on requests",
        request,
    ),
    row(
        "http-response",
        FRONTEND | BACKEND | NAMED | HTTP,
        "<action> [if | unless <condition>]",
        "rule on responses",
        response,
    ),
    row(
        "http-after-response",
        FRONTEND | BACKEND | NAMED | HTTP,
        "<action> [if | unless <condition>]",
        "rule on all responses, including those of the proxy itself",
        after_response,
    ),
    row(
        "redirect",
        FRONTEND | BACKEND | HTTP,
        "location | prefix | scheme <to> [code <status>] [<option>...] [if | unless <condition>]",
        "same as 'http-request redirect'",
        redirect,
    ),
];

fn acl(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let name = line.word("a name")?;
    let is_known = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    if name.text == "or" || !name.text.chars().all(is_known) {
        let message = format!(
            "invalid ACL name '{}': expected letters, digits, '-', '_', '.', ':', and not 'or'",
            name.text
        );
        return Err(WordError::new(name.column, message));
    }
    let files = LineContext::of(line);
    let column = line.words.column();
    let acl = Acl::parse(&mut line.words, &files)?;
    line.facts.extend(acl.expression().fact().map(|fact| (column, fact)));
    if acl.is_empty() {
        line.warn(column, "no pattern: this ACL never matches (use '-m found' to test existence)");
    }
    draft.acls.entry(name.text).or_default().push(Arc::new(acl));
    Ok(())
}

fn connection(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let rule = tcp_rule(draft, line, TcpSet::Connection, EvalPoint::Connection)?;
    draft.connection_rules.push(rule);
    Ok(())
}

fn session(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let rule = tcp_rule(draft, line, TcpSet::Session, EvalPoint::Session)?;
    draft.session_rules.push(rule);
    Ok(())
}

fn content(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let rule = tcp_rule(draft, line, TcpSet::Content, EvalPoint::Request)?;
    draft.content_rules.push(rule);
    Ok(())
}

fn response_content(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let rule = tcp_rule(draft, line, TcpSet::ResponseContent, EvalPoint::Response)?;
    draft.response_content_rules.push(rule);
    Ok(())
}

fn tcp_rule(
    draft: &mut ProxyDraft,
    line: &mut KeywordLine<'_>,
    set: TcpSet,
    point: EvalPoint,
) -> Result<TcpRule, WordError> {
    let column = line.words.column();
    let files = LineContext::of(line);
    let context = CompileContext { acls: &draft.acls, files: &files };
    let mut rule = TcpRule::parse(&mut line.words, set, &context)?;
    tell(rule.warning(), rule.condition.as_ref(), line, column, point);
    check_phase(rule.expressions(), line, column, point)?;
    let captures = &mut draft.frontend.request_captures;
    if let Some(len) = rule.take_slot(CaptureSlot::Request(captures.len())) {
        captures.push(HeaderCapture { field: String::new(), len });
    }
    Ok(rule)
}

fn request(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let column = line.words.column();
    let mut rule = http_rule(draft, line, RuleSet::Request, EvalPoint::Request)?;
    note_slot(draft, &rule, line, column);
    let makes_slot = matches!(rule.action, HttpAction::Capture(_)) && rule.named_slot().is_none();
    if draft.kind == ProxySection::Backend && makes_slot {
        return Err(WordError::new(column, "captures require a frontend"));
    }
    let captures = &mut draft.frontend.request_captures;
    if let Some(len) = rule.take_slot(CaptureSlot::Request(captures.len())) {
        captures.push(HeaderCapture { field: String::new(), len });
    }
    draft.request_rules.push(rule);
    Ok(())
}

fn response(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let column = line.words.column();
    let mut rule = http_rule(draft, line, RuleSet::Response, EvalPoint::Response)?;
    note_slot(draft, &rule, line, column);
    let captures = &mut draft.frontend.response_captures;
    if let Some(len) = rule.take_slot(CaptureSlot::Response(captures.len())) {
        captures.push(HeaderCapture { field: String::new(), len });
    }
    draft.response_rules.push(rule);
    Ok(())
}

fn after_response(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let column = line.words.column();
    let rule = http_rule(draft, line, RuleSet::AfterResponse, EvalPoint::Response)?;
    note_slot(draft, &rule, line, column);
    draft.after_response_rules.push(rule);
    Ok(())
}

/// A named slot must be declared, possibly later.
fn note_slot(draft: &mut ProxyDraft, rule: &HttpRule, line: &KeywordLine<'_>, column: u32) {
    let slot = rule.named_slot();
    draft.named_slots.extend(slot.map(|slot| (slot, line.spot.clone(), column)));
}

fn http_rule(
    draft: &ProxyDraft,
    line: &mut KeywordLine<'_>,
    set: RuleSet,
    point: EvalPoint,
) -> Result<HttpRule, WordError> {
    let column = line.words.column();
    let files = LineContext::of(line);
    let context = CompileContext { acls: &draft.acls, files: &files };
    let mut rule = HttpRule::parse(&mut line.words, set, &context)?;
    tell(rule.warning(), rule.condition.as_ref(), line, column, point);
    check_phase(rule.expressions(), line, column, point)?;
    if draft.kind == ProxySection::Frontend && matches!(rule.action, HttpAction::Timeout(..)) {
        return Err(WordError::new(column, "'set-timeout server' requires a backend"));
    }
    if let Some(reply) = rule.reply_mut() {
        reply.resolve(|name| line.globals.error_groups.get(name))?;
    }
    Ok(rule)
}

fn redirect(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let column = line.words.column();
    let files = LineContext::of(line);
    let context = CompileContext { acls: &draft.acls, files: &files };
    let rule = HttpRule::parse_redirect(&mut line.words, &context)?;
    tell(None, rule.condition.as_ref(), line, column, EvalPoint::Request);
    check_phase(rule.expressions(), line, column, EvalPoint::Request)?;
    draft.redirects.push(rule);
    Ok(())
}

/// Warnings about a rule.
fn tell(
    of_action: Option<&'static str>,
    condition: Option<&Condition>,
    line: &mut KeywordLine<'_>,
    column: u32,
    point: EvalPoint,
) {
    if let Some(warning) = of_action {
        line.warn(column, warning);
    }
    if let Some(condition) = condition {
        warn_if_unavailable(condition, line, column, point);
    }
}
