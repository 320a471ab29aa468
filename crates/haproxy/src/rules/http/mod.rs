//! Rules on requests and responses (HAProxy's manual, §4.2, `http-request` and its like).
//!
//! [`HttpRule::parse`] makes a rule of the words behind `http-request`; [`run`] goes through the
//! rules of a set. What there is to do stands in one table, [`ACTIONS`].

mod act;
mod fields;
mod inside;
mod normalize;
mod parse;
mod part;
mod read;
mod reasons;
mod redirect;
mod run;
mod table;
mod target;
mod verdict;

use std::time::Duration;

use crate::rules::condition::Condition;
use crate::rules::exchange::{Deadline, Slot};
use crate::rules::expression::Expression;
use crate::rules::format::Format;
use crate::rules::regex::Regex;
use crate::rules::reply::Reply;
use crate::rules::subject::Variable;

pub(crate) use act::{assign, capture, set_address};
pub use fields::NameMatch;
pub(crate) use inside::of_value;
pub use normalize::Normalizer;
pub(crate) use parse::{condition, level, mark_number, number, split, variable};
pub use part::Part;
pub(crate) use reasons::{
    NO_AGENTS, NO_MARK, NO_NICE, NO_PRIORITY, NO_RESOLVERS, NO_TABLES, NOT_THERE,
};
pub use redirect::{Redirect, RedirectTo};
pub use run::{Progress, run};
pub use table::{ACTIONS, ActionRow};
pub use verdict::Verdict;

/// A rule: what to do, and when.
#[derive(Clone, Debug)]
pub struct HttpRule {
    /// What to do.
    pub action: HttpAction,
    /// When; always, if there is none.
    pub condition: Option<Condition>,
}

/// Which rules of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleSet {
    /// `http-request`.
    Request,
    /// `http-response`.
    Response,
    /// `http-after-response`: every response, our own ones too.
    AfterResponse,
}

/// What a rule does to a request or a response.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum HttpAction {
    /// No further rule of this set is looked at.
    Allow,
    /// This answer, which counts as a denial.
    Deny(Box<Reply>),
    /// The same, but only after `timeout tarpit`.
    Tarpit(Box<Reply>),
    /// This answer, which is a normal one.
    Return(Box<Reply>),
    /// The connection ends without an answer.
    Reject,
    /// The connection vanishes, and the client hears nothing of it.
    SilentDrop,
    /// The client is sent elsewhere.
    Redirect(Box<Redirect>),
    /// The client is asked who it is, for this realm.
    Auth {
        /// Its name; that of the proxy, if there is none.
        realm: Option<Format>,
    },
    /// Somebody else answers.
    Service(Service),
    /// The rules go on when the body, or so much of it, is there, or when this time has passed.
    WaitForBody {
        /// See above.
        time: Duration,
        /// In bytes; 0: all of it, or as much as is kept.
        at_least: u64,
    },
    /// Whether a change that fails is an error: true at the beginning.
    StrictMode(bool),
    /// A field more.
    AddField(String, Format),
    /// A field in place of those of its name.
    SetField(String, Format),
    /// Fields less.
    RemoveFields(NameMatch),
    /// New values, where the old ones match.
    ReplaceField {
        /// Of these fields.
        name: String,
        /// What the old one has to match.
        pattern: Regex,
        /// The new one.
        value: Format,
        /// Each of a list's members is a value (`replace-value`).
        each: bool,
    },
    /// Another target, or part of it.
    SetTarget(Part, Format),
    /// The same, if the part matches.
    ReplaceTarget(Part, Regex, Format),
    /// Another form of the same target.
    Normalize(Normalizer),
    /// Another method.
    SetMethod(Format),
    /// Another status. Reasons are not sent.
    SetStatus(u16),
    /// A variable's value.
    SetVariable(Box<Assignment>),
    /// A variable less.
    UnsetVariable(Variable),
    /// The level of this exchange's line in the log; `None`: there is no line.
    LogLevel(Option<u8>),
    /// A value for the log.
    Capture(Box<Capture>),
    /// Where the client comes from, or went to.
    SetAddress(Side, AddressPart, Expression),
    /// A deadline of this exchange.
    Timeout(Deadline, TimeoutValue),
    /// Once sent, the request is not sent again.
    NoRetry,
    /// A field of a 103.
    EarlyHint(String, Format),
    /// Nothing: why is said here, for a warning.
    Nothing(&'static str),
}

/// Who answers in place of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Service {
    /// `prometheus-exporter`.
    Metrics,
}

/// A value for a variable.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// Which.
    pub variable: Variable,
    /// What becomes its value.
    pub value: Value,
    /// All of these hold, or nothing is done.
    pub conditions: Vec<ValueCondition>,
}

/// Where a value comes from.
#[derive(Clone, Debug)]
pub enum Value {
    /// As it is, with its type (`set-var`).
    Expression(Expression),
    /// Text (`set-var-fmt`).
    Format(Format),
}

/// What has to be so for a variable to be set (HAProxy's manual, converter `set-var`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueCondition {
    /// `ifexists`, `ifset`: the variable has a value.
    Exists,
    /// `ifnotexists`, `ifnotset`: it has none.
    NotExists,
    /// `ifempty`: the new value is empty; numbers and addresses never are.
    Empty,
    /// `ifnotempty`: it is not.
    NotEmpty,
    /// `ifgt`: the number there is greater than the new one. True if one of them is no number.
    Greater,
    /// `iflt`: it is less. True if one of them is no number.
    Less,
}

/// A value that is kept for the log.
#[derive(Clone, Debug)]
pub struct Capture {
    /// What.
    pub value: Expression,
    /// How many bytes of it, if it makes its own slot.
    pub len: Option<usize>,
    /// Where it is kept; what makes its own slot is told by [`HttpRule::take_slot`].
    pub slot: Slot,
}

/// Whose address a rule changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The client's (`set-src`).
    Source,
    /// The one that it connected to (`set-dst`).
    Destination,
}

/// Which part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressPart {
    /// The address.
    Address,
    /// The port.
    Port,
}

/// How long.
#[derive(Clone, Debug)]
pub enum TimeoutValue {
    /// So long.
    Fixed(Duration),
    /// So many milliseconds.
    Expression(Expression),
}

impl HttpRule {
    /// What is to be told about a rule that is accepted, but does not do what it says.
    pub fn warning(&self) -> Option<&'static str> {
        match self.action {
            HttpAction::Nothing(why) => Some(why),
            _ => None,
        }
    }

    /// If this is a capture that makes its own slot: it gets this one, and says how long it is.
    pub fn take_slot(&mut self, slot: Slot) -> Option<usize> {
        match &mut self.action {
            HttpAction::Capture(capture) => {
                let len = capture.len?;
                capture.slot = slot;
                Some(len)
            }
            _ => None,
        }
    }

    /// The slot that a capture names, and that somebody else has to make.
    pub(crate) fn named_slot(&self) -> Option<Slot> {
        match &self.action {
            HttpAction::Capture(capture) if capture.len.is_none() => Some(capture.slot),
            _ => None,
        }
    }

    /// The answer that it makes, to have its name of a section `http-errors` resolved
    /// ([`Reply::resolve`]).
    pub fn reply_mut(&mut self) -> Option<&mut Reply> {
        match &mut self.action {
            HttpAction::Deny(reply) | HttpAction::Tarpit(reply) | HttpAction::Return(reply) => {
                Some(reply)
            }
            _ => None,
        }
    }
}
