//! What a rule asks beside its condition: the expressions in it.

use super::{HttpAction, HttpRule, RedirectTo, TimeoutValue, Value};
use crate::expression::Expression;
use crate::format::Format;
use crate::reply::{Reply, ReplyBody};

impl HttpRule {
    /// The expressions that its action evaluates.
    pub fn expressions(&self) -> Vec<&Expression> {
        match &self.action {
            HttpAction::Deny(reply) | HttpAction::Tarpit(reply) | HttpAction::Return(reply) => {
                of_reply(reply)
            }
            HttpAction::Redirect(redirect) => match &redirect.to {
                RedirectTo::Location(format)
                | RedirectTo::Prefix(format)
                | RedirectTo::Scheme(format) => of_format(format),
            },
            HttpAction::Auth { realm: Some(format) }
            | HttpAction::AddField(_, format)
            | HttpAction::SetField(_, format)
            | HttpAction::ReplaceField { value: format, .. }
            | HttpAction::SetTarget(_, format)
            | HttpAction::ReplaceTarget(_, _, format)
            | HttpAction::SetMethod(format)
            | HttpAction::EarlyHint(_, format) => of_format(format),
            HttpAction::SetVariable(assignment) => of_value(&assignment.value),
            HttpAction::Capture(capture) => vec![&capture.value],
            HttpAction::SetAddress(_, _, expression)
            | HttpAction::Timeout(_, TimeoutValue::Expression(expression)) => vec![expression],
            _ => Vec::new(),
        }
    }
}

/// The expressions of a value for a variable.
pub(crate) fn of_value(value: &Value) -> Vec<&Expression> {
    match value {
        Value::Expression(expression) => vec![expression],
        Value::Format(format) => of_format(format),
    }
}

fn of_format(format: &Format) -> Vec<&Expression> {
    format.expressions().collect()
}

fn of_reply(reply: &Reply) -> Vec<&Expression> {
    let fields = reply.fields.iter().flat_map(|(_, format)| format.expressions());
    match &reply.body {
        ReplyBody::Format(body) => fields.chain(body.expressions()).collect(),
        _ => fields.collect(),
    }
}
