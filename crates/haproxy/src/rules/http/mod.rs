//! HTTP rules (HAProxy's manual, §4.2, `http-request` and so on).
//!
//! [`HttpRule::parse`] parses the words after `http-request`; [`run`] evaluates a rule set. All
//! actions are in one table, [`ACTIONS`].

mod action_formats;
mod action_table;
mod field_actions;
mod normalize;
mod parse_action;
mod parse_rule;
mod redirect;
mod run_action;
mod run_rules;
mod target_actions;
mod target_part;
mod unsupported_reasons;
mod verdict;

use std::time::Duration;

use crate::rules::condition::Condition;
use crate::rules::eval_context::Variable;
use crate::rules::eval_context_mut::{CaptureSlot, Deadline};
use crate::rules::expression::Expression;
use crate::rules::format::FormatString;
use crate::rules::regex::Regex;
use crate::rules::reply::ReplyTemplate;

pub(crate) use action_formats::of_value;
pub use action_table::{ACTIONS, ActionRow};
pub use field_actions::NameMatch;
pub use normalize::Normalizer;
pub(crate) use parse_action::{condition, level, mark_number, number, split, variable};
pub use redirect::{Redirect, RedirectTo};
pub(crate) use run_action::{assign, capture, set_address};
pub use run_rules::{RulesProgress, run};
pub use target_part::TargetPart;
pub(crate) use unsupported_reasons::{
    NO_AGENTS, NO_MARK, NO_NICE, NO_PRIORITY, NO_RESOLVERS, NO_TABLES, NOT_THERE,
};
pub use verdict::HttpVerdict;

/// A rule: an action and a condition.
#[derive(Clone, Debug)]
pub struct HttpRule {
    /// The action.
    pub action: HttpAction,
    /// The condition; `None`: always.
    pub condition: Option<Condition>,
}

/// A set of HTTP rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleSet {
    /// `http-request`.
    Request,
    /// `http-response`.
    Response,
    /// `http-after-response`: all responses, including those of the proxy itself.
    AfterResponse,
}

/// An action on a request or a response.
#[derive(Clone, Debug)]
pub enum HttpAction {
    /// Ends this rule set.
    Allow,
    /// Responds, counted as denied.
    Deny(Box<ReplyTemplate>),
    /// The same after `timeout tarpit`.
    Tarpit(Box<ReplyTemplate>),
    /// Responds, not counted as denied.
    Return(Box<ReplyTemplate>),
    /// Closes the connection without a response.
    Reject,
    /// Drops the connection without notifying the client.
    SilentDrop,
    /// Redirects the client.
    Redirect(Box<Redirect>),
    /// Requests authentication for this realm.
    Auth {
        /// The realm; default: the name of the proxy.
        realm: Option<FormatString>,
    },
    /// A built-in service responds.
    Service(BuiltinService),
    /// Waits until the body, or this part of it, has arrived, or until a timeout.
    WaitForBody {
        /// The timeout.
        time: Duration,
        /// Size in bytes; 0: the whole body, or as much as is buffered.
        at_least: u64,
    },
    /// Whether a failed change is an error; default: true.
    StrictMode(bool),
    /// Adds a field.
    AddField(String, FormatString),
    /// Sets a field, and removes others of its name.
    SetField(String, FormatString),
    /// Removes fields.
    RemoveFields(NameMatch),
    /// Replaces matching values.
    ReplaceField {
        /// The name of the fields.
        name: String,
        /// The regex of old values.
        pattern: Regex,
        /// The new value.
        value: FormatString,
        /// Applies to each list member (`replace-value`).
        each: bool,
    },
    /// Sets the target, or a part of it.
    SetTarget(TargetPart, FormatString),
    /// The same if the part matches.
    ReplaceTarget(TargetPart, Regex, FormatString),
    /// Normalizes the target.
    Normalize(Normalizer),
    /// Sets the method.
    SetMethod(FormatString),
    /// Sets the status. Reason phrases are not sent.
    SetStatus(u16),
    /// Sets a variable.
    SetVariable(Box<Assignment>),
    /// Removes a variable.
    UnsetVariable(Variable),
    /// Sets the log level of this exchange; `None`: no log line.
    LogLevel(Option<u8>),
    /// Captures a value for the log.
    Capture(Box<Capture>),
    /// Sets the client's source or destination address.
    SetAddress(AddressSide, AddressPart, Expression),
    /// Sets a timeout of this exchange.
    Timeout(Deadline, TimeoutValue),
    /// Disables retries of the request.
    NoRetry,
    /// Adds a field to a 103 response.
    EarlyHint(String, FormatString),
    /// Ignored, with the reason for a warning.
    Nothing(&'static str),
}

/// A built-in service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltinService {
    /// `prometheus-exporter`.
    Metrics,
}

/// An assignment to a variable.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// The variable.
    pub variable: Variable,
    /// The new value.
    pub value: AssignedValue,
    /// All must hold.
    pub conditions: Vec<ValueCondition>,
}

/// The source of a value.
#[derive(Clone, Debug)]
pub enum AssignedValue {
    /// An expression, with its type (`set-var`).
    Expression(Expression),
    /// A text (`set-var-fmt`).
    Format(FormatString),
}

/// Condition of an assignment (HAProxy's manual, converter `set-var`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueCondition {
    /// `ifexists`, `ifset`: the variable has a value.
    Exists,
    /// `ifnotexists`, `ifnotset`: the variable has no value.
    NotExists,
    /// `ifempty`: the new value is empty; numbers and addresses never are.
    Empty,
    /// `ifnotempty`: the new value is not empty.
    NotEmpty,
    /// `ifgt`: the old number is greater than the new one. True if one of them is not a number.
    Greater,
    /// `iflt`: the old number is less than the new one. True if one of them is not a number.
    Less,
}

/// A value captured for the log.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The value.
    pub value: Expression,
    /// The length of a new slot.
    pub len: Option<usize>,
    /// The slot. For a new slot, [`HttpRule::take_slot`] sets it.
    pub slot: CaptureSlot,
}

/// The address that a rule changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressSide {
    /// The client's source address (`set-src`).
    Source,
    /// The client's destination address (`set-dst`).
    Destination,
}

/// The part of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressPart {
    /// The address.
    Address,
    /// The port.
    Port,
}

/// The value of a timeout.
#[derive(Clone, Debug)]
pub enum TimeoutValue {
    /// A constant.
    Fixed(Duration),
    /// An expression in milliseconds.
    Expression(Expression),
}

impl HttpRule {
    /// The warning for an ignored rule.
    pub fn warning(&self) -> Option<&'static str> {
        match self.action {
            HttpAction::Nothing(why) => Some(why),
            _ => None,
        }
    }

    /// For a capture that declares a slot: sets the slot, and returns its length.
    pub fn take_slot(&mut self, slot: CaptureSlot) -> Option<usize> {
        match &mut self.action {
            HttpAction::Capture(capture) => {
                let len = capture.len?;
                capture.slot = slot;
                Some(len)
            }
            _ => None,
        }
    }

    /// The slot that a capture refers to by number.
    pub(crate) fn named_slot(&self) -> Option<CaptureSlot> {
        match &self.action {
            HttpAction::Capture(capture) if capture.len.is_none() => Some(capture.slot),
            _ => None,
        }
    }

    /// The response of the rule. Its `http-errors` section must be resolved
    /// ([`ReplyTemplate::resolve`]).
    pub fn reply_mut(&mut self) -> Option<&mut ReplyTemplate> {
        match &mut self.action {
            HttpAction::Deny(reply) | HttpAction::Tarpit(reply) | HttpAction::Return(reply) => {
                Some(reply)
            }
            _ => None,
        }
    }
}
