//! Evaluates a set of rules in order, until one decides.

use super::verdict::{HttpVerdict, InvalidChange};
use super::{HttpAction, HttpRule, run_action};
use crate::rules::eval_context_mut::EvalContextMut;

/// Position in a rule set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RulesProgress {
    next: usize,
    strict: bool,
    allowed: bool, // by an earlier rule: only 'redirect' keywords are still evaluated
}

impl Default for RulesProgress {
    fn default() -> Self {
        Self { next: 0, strict: true, allowed: false }
    }
}

/// Evaluates rules from `progress` on until one of them decides or waits.
pub fn run<'a>(
    rules: &'a [HttpRule],
    progress: &mut RulesProgress,
    exchange: &mut dyn EvalContextMut,
) -> HttpVerdict<'a> {
    while let Some(rule) = rules.get(progress.next) {
        let at = progress.next;
        progress.next += 1;
        if progress.allowed && !is_keyword(rule) {
            continue;
        }
        if rule.condition.as_ref().is_some_and(|condition| !condition.holds(exchange)) {
            continue;
        }
        if let HttpAction::StrictMode(strict) = rule.action {
            progress.strict = strict;
            continue;
        }
        match run_action::act(&rule.action, exchange) {
            Ok(None) => {}
            Ok(Some(HttpVerdict::Allow)) => progress.allowed = true,
            Ok(Some(verdict)) => return verdict,
            Err(InvalidChange) if progress.strict => return HttpVerdict::Failed(at),
            Err(InvalidChange) => {}
        }
    }
    if progress.allowed { HttpVerdict::Allow } else { HttpVerdict::Continue }
}

fn is_keyword(rule: &HttpRule) -> bool {
    matches!(&rule.action, HttpAction::Redirect(redirect) if redirect.is_keyword)
}
