//! Formats and expressions of a rule's action.

use super::{AssignedValue, HttpAction, HttpRule, RedirectTo, TimeoutValue};
use crate::rules::expression::Expression;
use crate::rules::format::FormatString;
use crate::rules::reply::{ReplyBody, ReplyTemplate};

impl HttpRule {
    /// The formats of the action.
    pub fn formats(&self) -> Vec<&FormatString> {
        match &self.action {
            HttpAction::Deny(reply) | HttpAction::Tarpit(reply) | HttpAction::Return(reply) => {
                of_reply(reply)
            }
            HttpAction::Redirect(redirect) => match &redirect.to {
                RedirectTo::Location(format)
                | RedirectTo::Prefix(format)
                | RedirectTo::Scheme(format) => vec![format],
            },
            HttpAction::Auth { realm: Some(format) }
            | HttpAction::AddField(_, format)
            | HttpAction::SetField(_, format)
            | HttpAction::ReplaceField { value: format, .. }
            | HttpAction::SetTarget(_, format)
            | HttpAction::ReplaceTarget(_, _, format)
            | HttpAction::SetMethod(format)
            | HttpAction::EarlyHint(_, format) => vec![format],
            HttpAction::SetVariable(assignment) => match &assignment.value {
                AssignedValue::Format(format) => vec![format],
                AssignedValue::Expression(_) => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// The expressions of the action, including those in its formats.
    pub fn expressions(&self) -> Vec<&Expression> {
        match &self.action {
            HttpAction::SetVariable(assignment) => of_value(&assignment.value),
            HttpAction::Capture(capture) => vec![&capture.value],
            HttpAction::SetAddress(_, _, expression)
            | HttpAction::Timeout(_, TimeoutValue::Expression(expression)) => vec![expression],
            _ => self.formats().into_iter().flat_map(FormatString::expressions).collect(),
        }
    }
}

/// The expressions of a variable's value.
pub(crate) fn of_value(value: &AssignedValue) -> Vec<&Expression> {
    match value {
        AssignedValue::Expression(expression) => vec![expression],
        AssignedValue::Format(format) => format.expressions().collect(),
    }
}

fn of_reply(reply: &ReplyTemplate) -> Vec<&FormatString> {
    let body = match &reply.body {
        ReplyBody::Format(body) => Some(body),
        _ => None,
    };
    reply.fields.iter().map(|(_, format)| format).chain(body).collect()
}
