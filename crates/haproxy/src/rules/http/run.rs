//! Evaluation of rule sets.

use super::verdict::{Refused, Verdict};
use super::{HttpAction, HttpRule, act};
use crate::rules::exchange::Exchange;

/// Position in a rule set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    next: usize,
    strict: bool,
    allowed: bool, // by an earlier rule: only 'redirect' keywords are still evaluated
}

impl Default for Progress {
    fn default() -> Self {
        Self { next: 0, strict: true, allowed: false }
    }
}

/// Evaluates rules from `progress` on until one of them decides or waits.
pub fn run<'a>(
    rules: &'a [HttpRule],
    progress: &mut Progress,
    exchange: &mut dyn Exchange,
) -> Verdict<'a> {
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
        match act::act(&rule.action, exchange) {
            Ok(None) => {}
            Ok(Some(Verdict::Allow)) => progress.allowed = true,
            Ok(Some(verdict)) => return verdict,
            Err(Refused) if progress.strict => return Verdict::Failed(at),
            Err(Refused) => {}
        }
    }
    if progress.allowed { Verdict::Allow } else { Verdict::Continue }
}

fn is_keyword(rule: &HttpRule) -> bool {
    matches!(&rule.action, HttpAction::Redirect(redirect) if redirect.is_keyword)
}
