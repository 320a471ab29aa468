//! Going through the rules of a set.

use std::time::Duration;

use super::{HttpAction, HttpRule, Service, act};
use crate::rules::exchange::Exchange;
use crate::rules::format::Format;
use crate::rules::head::ResponseHead;
use crate::rules::reply::Reply;

/// How far a set of rules has been gone through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    next: usize,
    strict: bool,
    allowed: bool, // by a rule before: no other is looked at, but those of the keyword `redirect`
}

impl Default for Progress {
    fn default() -> Self {
        Self { next: 0, strict: true, allowed: false }
    }
}

/// What came of a set of rules.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Verdict<'a> {
    /// All rules have been looked at.
    Continue,
    /// `allow`: the same, as no further rule of this set is looked at.
    Allow,
    /// This answer, which counts as a denial.
    Deny(&'a Reply),
    /// The same, after `timeout tarpit`.
    Tarpit(&'a Reply),
    /// This answer, which is a normal one.
    Return(&'a Reply),
    /// This answer, without a body.
    Redirect(Box<ResponseHead>),
    /// The client is asked who it is: [`Reply::challenge`] makes the answer. Without a realm, it
    /// is the name of the proxy.
    Auth(Option<&'a Format>),
    /// Somebody else answers.
    Service(Service),
    /// The connection ends without an answer.
    Reject,
    /// The connection vanishes, and the client hears nothing of it.
    SilentDrop,
    /// [`run`] is to be called again, with the same progress, when so many bytes of the body are
    /// there (0: all of it), or as many as are kept, or when this time has passed; at once, if it
    /// is so already.
    WaitForBody {
        /// See above.
        time: Duration,
        /// In bytes.
        at_least: u64,
    },
    /// A change could not be made, and the rules say that it has to be (`strict-mode`): this
    /// exchange fails, with status 500. The rule is this one of the set, from 0.
    Failed(usize),
}

/// Goes through rules from where `progress` says, until one of them decides or waits.
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
            Err(act::Refused) if progress.strict => return Verdict::Failed(at),
            Err(act::Refused) => {}
        }
    }
    if progress.allowed { Verdict::Allow } else { Verdict::Continue }
}

fn is_keyword(rule: &HttpRule) -> bool {
    matches!(&rule.action, HttpAction::Redirect(redirect) if redirect.is_keyword)
}
