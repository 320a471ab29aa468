//! Rules on connections and their first bytes (HAProxy's manual, §4.2, `tcp-request` and
//! `tcp-response`).

use crate::rules::compile_context::CompileContext;
use crate::rules::condition::Condition;
use crate::rules::elements::format;
use crate::rules::eval_context::Variable;
use crate::rules::eval_context_mut::{CaptureSlot, Effect, EvalContextMut};
use crate::rules::expression::Expression;
use crate::rules::format::{FormatOptions, FormatString};
use crate::rules::http::{self, AddressPart, AddressSide, AssignedValue, Assignment, Capture};
use crate::rules::nearest;
use crate::rules::words::{Word, WordCursor, WordError};

/// A rule: an action and a condition.
#[derive(Clone, Debug)]
pub struct TcpRule {
    /// The action.
    pub action: TcpAction,
    /// The condition; `None`: always.
    pub condition: Option<Condition>,
}

/// A set of TCP rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpSet {
    /// `tcp-request connection`.
    Connection,
    /// `tcp-request session`.
    Session,
    /// `tcp-request content`.
    Content,
    /// `tcp-response content`.
    ResponseContent,
}

/// An action on a connection.
#[derive(Clone, Debug)]
pub enum TcpAction {
    /// Ends this rule set.
    Accept,
    /// Closes the connection.
    Reject,
    /// Closes the server connection, and the client connection after the received data (`close`).
    Close,
    /// Drops the connection without notifying the client.
    SilentDrop,
    /// Requires a PROXY header.
    ExpectProxy,
    /// Sets a variable.
    SetVariable(Box<Assignment>),
    /// Removes a variable.
    UnsetVariable(Variable),
    /// Captures a value for the log.
    Capture(Box<Capture>),
    /// Sets the log level; `None`: no log line.
    LogLevel(Option<u8>),
    /// Sets the client's source or destination address.
    SetAddress(AddressSide, AddressPart, Expression),
    /// Ignored, with the reason for a warning.
    Nothing(&'static str),
}

/// The result of a rule set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpVerdict {
    /// Continue: a rule accepts, or no rule decides.
    Accept,
    /// Close the connection.
    Reject,
    /// Close the server connection, and the client connection after the received data.
    Close,
    /// Drop the connection without notifying the client.
    SilentDrop,
    /// A sample needs more data: evaluate the rules again, from the first, when more arrives. When
    /// no more will arrive or the time is up, evaluate them with
    /// [`crate::rules::eval_context::Payload::complete`].
    Wait,
}

/// Evaluates rules until one of them decides or waits.
pub fn run_tcp(rules: &[TcpRule], exchange: &mut dyn EvalContextMut) -> TcpVerdict {
    for rule in rules {
        match rule.condition.as_ref().map_or(Some(true), |condition| condition.check(exchange)) {
            Some(true) => {}
            Some(false) => continue,
            None => return TcpVerdict::Wait,
        }
        match &rule.action {
            TcpAction::Accept => return TcpVerdict::Accept,
            TcpAction::Reject => return TcpVerdict::Reject,
            TcpAction::Close => return TcpVerdict::Close,
            TcpAction::SilentDrop => return TcpVerdict::SilentDrop,
            TcpAction::ExpectProxy => exchange.apply(Effect::ExpectProxy),
            TcpAction::SetVariable(assignment) => http::assign(assignment, exchange),
            TcpAction::UnsetVariable(name) => exchange.apply(Effect::UnsetVariable(name)),
            TcpAction::Capture(capture) => http::capture(capture, exchange),
            TcpAction::LogLevel(level) => exchange.apply(Effect::LogLevel(*level)),
            TcpAction::SetAddress(side, part, value) => {
                http::set_address(*side, *part, value, exchange);
            }
            TcpAction::Nothing(_) => {}
        }
    }
    TcpVerdict::Accept
}

impl TcpRule {
    /// Parses the words after `tcp-request content` and so on: an action, its arguments, and a
    /// condition.
    ///
    /// # Errors
    /// The action is unknown or unsupported, or an argument or the condition is invalid.
    pub fn parse(
        words: &mut WordCursor<'_>,
        set: TcpSet,
        context: &CompileContext<'_>,
    ) -> Result<Self, WordError> {
        let word = words.expect("an action")?;
        let (name, argument) = http::split(&word.text);
        let Some(row) = TCP_ACTIONS.iter().find(|row| row.name == name) else {
            let known = TCP_ACTIONS.iter().filter(|row| row.sets.contains(&set));
            let message = nearest::unknown("action", name, known.map(|row| row.name));
            return Err(WordError::unknown(word.column, message));
        };
        if !row.sets.contains(&set) {
            let names = row.sets.iter().map(|set| set.name()).collect::<Vec<_>>();
            let message =
                format!("'{}' is not allowed here, only in {}", word.text, names.join(", "));
            return Err(WordError::unknown(word.column, message));
        }
        let mut line = TcpRuleLine { words, context, word, argument };
        let action = match row.parse {
            By(parse) => parse(&mut line)?,
            Plain(make) => make(),
            Missing(why) => {
                return Err(WordError::unknown(word.column, format!("'{}': {why}", word.text)));
            }
            Nothing(why) => {
                line.words.expect("a value")?;
                TcpAction::Nothing(why)
            }
        };
        Ok(Self { action, condition: http::condition(words, context)? })
    }

    /// The expressions of the action.
    pub fn expressions(&self) -> Vec<&Expression> {
        match &self.action {
            TcpAction::SetVariable(assignment) => http::of_value(&assignment.value),
            TcpAction::Capture(capture) => vec![&capture.value],
            TcpAction::SetAddress(_, _, expression) => vec![expression],
            _ => Vec::new(),
        }
    }

    /// The warning for an ignored rule.
    pub fn warning(&self) -> Option<&'static str> {
        match self.action {
            TcpAction::Nothing(why) => Some(why),
            _ => None,
        }
    }

    /// For a capture: sets the slot, and returns its length.
    pub fn take_slot(&mut self, slot: CaptureSlot) -> Option<usize> {
        match &mut self.action {
            TcpAction::Capture(capture) => {
                capture.slot = slot;
                capture.len
            }
            _ => None,
        }
    }
}

impl TcpSet {
    /// Its keyword.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connection => "tcp-request connection",
            Self::Session => "tcp-request session",
            Self::Content => "tcp-request content",
            Self::ResponseContent => "tcp-response content",
        }
    }
}

/// The row of an action.
#[derive(Debug)]
pub struct TcpActionRow {
    /// Its name; with a trailing `(`, an argument and `)` follow.
    pub name: &'static str,
    /// The rule sets that allow it.
    pub sets: &'static [TcpSet],
    /// Its description.
    pub about: &'static str,
    parse: TcpArgumentParser,
}

/// How its arguments are parsed.
#[derive(Clone, Copy, Debug)]
enum TcpArgumentParser {
    By(fn(&mut TcpRuleLine<'_, '_>) -> Result<TcpAction, WordError>),
    Plain(fn() -> TcpAction),
    /// Not supported, with the reason.
    Missing(&'static str),
    /// Parsed, with one argument, and ignored, with the reason.
    Nothing(&'static str),
}
use TcpArgumentParser::{By, Missing, Nothing, Plain};

/// The line being parsed.
#[derive(Debug)]
struct TcpRuleLine<'l, 'w> {
    words: &'l mut WordCursor<'w>,
    context: &'l CompileContext<'l>,
    word: &'l Word,
    argument: Option<&'l str>,
}

impl TcpRuleLine<'_, '_> {
    fn expression(&mut self) -> Result<Expression, WordError> {
        Expression::parse_words(self.words, self.context.files)
    }

    fn address(&mut self, side: AddressSide, part: AddressPart) -> Result<TcpAction, WordError> {
        Ok(TcpAction::SetAddress(side, part, self.expression()?))
    }

    fn set_variable(
        &mut self,
        value: fn(&mut Self) -> Result<AssignedValue, WordError>,
    ) -> Result<TcpAction, WordError> {
        let (variable, conditions) =
            http::variable(self.argument.unwrap_or_default(), self.word.column)?;
        let value = value(self)?;
        Ok(TcpAction::SetVariable(Box::new(Assignment { variable, value, conditions })))
    }

    fn format(&mut self) -> Result<FormatString, WordError> {
        format(self.words, FormatOptions::VALUE, self.context)
    }
}

fn unset_var(line: &mut TcpRuleLine<'_, '_>) -> Result<TcpAction, WordError> {
    let found = http::variable(line.argument.unwrap_or_default(), line.word.column)?;
    Ok(TcpAction::UnsetVariable(found.0))
}

fn mark(line: &mut TcpRuleLine<'_, '_>) -> Result<TcpAction, WordError> {
    http::mark_number(line.words)?;
    Ok(TcpAction::Nothing(http::NO_MARK))
}

fn expect_proxy(line: &mut TcpRuleLine<'_, '_>) -> Result<TcpAction, WordError> {
    let word = line.words.expect("'layer4'")?;
    match &word.text[..] {
        "layer4" => Ok(TcpAction::ExpectProxy),
        other => Err(WordError::new(word.column, format!("expected 'layer4', not '{other}'"))),
    }
}

fn capture(line: &mut TcpRuleLine<'_, '_>) -> Result<TcpAction, WordError> {
    let value = line.expression()?;
    let word = line.words.expect("'len'")?;
    if word.text != "len" {
        return Err(WordError::new(word.column, "expected 'len <length>'"));
    }
    let column = line.words.column();
    let len = http::number(line.words)?;
    if len == 0 {
        return Err(WordError::new(column, "the length must be positive"));
    }
    let capture = Capture { value, len: Some(len), slot: CaptureSlot::Request(0) };
    Ok(TcpAction::Capture(Box::new(capture)))
}

const CONNECTION: &[TcpSet] = &[TcpSet::Connection];
const RESPONSE: &[TcpSet] = &[TcpSet::ResponseContent];
const CONTENT: &[TcpSet] = &[TcpSet::Content];
const CONTENTS: &[TcpSet] = &[TcpSet::Content, TcpSet::ResponseContent];
const REQUEST: &[TcpSet] = &[TcpSet::Connection, TcpSet::Session, TcpSet::Content];
const ALL: &[TcpSet] =
    &[TcpSet::Connection, TcpSet::Session, TcpSet::Content, TcpSet::ResponseContent];

const fn row(
    name: &'static str,
    sets: &'static [TcpSet],
    parse: TcpArgumentParser,
    about: &'static str,
) -> TcpActionRow {
    TcpActionRow { name, sets, about, parse }
}

/// All actions of `tcp-request` and `tcp-response`.
pub const TCP_ACTIONS: &[TcpActionRow] = &[
    row("accept", ALL, Plain(|| TcpAction::Accept), "ends this rule set"),
    row("reject", ALL, Plain(|| TcpAction::Reject), "closes the connection"),
    row("close", RESPONSE, Plain(|| TcpAction::Close), "closes the server connection"),
    row(
        "silent-drop",
        ALL,
        Plain(|| TcpAction::SilentDrop),
        "drops the connection without notifying the client",
    ),
    row("expect-proxy", CONNECTION, By(expect_proxy), "requires a PROXY header"),
    row("capture", CONTENT, By(capture), "captures a value for the log"),
    row(
        "set-dst",
        REQUEST,
        By(|it| it.address(AddressSide::Destination, AddressPart::Address)),
        "sets `dst`",
    ),
    row(
        "set-dst-port",
        REQUEST,
        By(|it| it.address(AddressSide::Destination, AddressPart::Port)),
        "sets `dst_port`",
    ),
    row(
        "set-src",
        REQUEST,
        By(|it| it.address(AddressSide::Source, AddressPart::Address)),
        "sets `src`",
    ),
    row(
        "set-src-port",
        REQUEST,
        By(|it| it.address(AddressSide::Source, AddressPart::Port)),
        "sets `src_port`",
    ),
    row(
        "set-log-level",
        CONTENTS,
        By(|it| http::level(it.words).map(TcpAction::LogLevel)),
        "sets the log level",
    ),
    row(
        "set-var(",
        ALL,
        By(|it| it.set_variable(|it| it.expression().map(AssignedValue::Expression))),
        "sets a variable",
    ),
    row(
        "set-var-fmt(",
        ALL,
        By(|it| it.set_variable(|it| it.format().map(AssignedValue::Format))),
        "sets a variable from a format",
    ),
    row("unset-var(", ALL, By(unset_var), "removes a variable"),
    row("set-mark", ALL, By(mark), "no effect: packets are not marked"),
    row(
        "set-nice",
        CONTENTS,
        Nothing(http::NO_NICE),
        "no effect: all exchanges have the same priority",
    ),
    row("set-tos", ALL, By(mark), "no effect: packets are not marked"),
    row("set-priority-class", CONTENT, Missing(http::NO_PRIORITY), http::NOT_THERE),
    row("set-priority-offset", CONTENT, Missing(http::NO_PRIORITY), http::NOT_THERE),
    row("expect-netscaler-cip", CONNECTION, Missing(NO_NETSCALER), http::NOT_THERE),
    row("switch-mode", CONTENT, Missing(NO_SWITCH), http::NOT_THERE),
    row("use-service", CONTENT, Missing(NO_SERVICE), http::NOT_THERE),
    row("do-resolve(", CONTENT, Missing(http::NO_RESOLVERS), http::NOT_THERE),
    row("send-spoe-group", CONTENTS, Missing(http::NO_AGENTS), http::NOT_THERE),
    row("sc-inc-gpc(", ALL, Missing(http::NO_TABLES), http::NOT_THERE),
    row("sc-inc-gpc0(", ALL, Missing(http::NO_TABLES), http::NOT_THERE),
    row("sc-inc-gpc1(", ALL, Missing(http::NO_TABLES), http::NOT_THERE),
    row("sc-set-gpt(", ALL, Missing(http::NO_TABLES), http::NOT_THERE),
    row("sc-set-gpt0(", ALL, Missing(http::NO_TABLES), http::NOT_THERE),
    row("track-sc0", REQUEST, Missing(http::NO_TABLES), http::NOT_THERE),
    row("track-sc1", REQUEST, Missing(http::NO_TABLES), http::NOT_THERE),
    row("track-sc2", REQUEST, Missing(http::NO_TABLES), http::NOT_THERE),
];

const NO_NETSCALER: &str = "only the PROXY protocol is supported";
const NO_SWITCH: &str = "switching to mode http is not supported: use a frontend in mode http";
const NO_SERVICE: &str = "services on connections are not supported";
