//! Rules on connections and their first bytes (HAProxy's manual, §4.2, `tcp-request` and
//! `tcp-response`).

use crate::rules::condition::Condition;
use crate::rules::context::Context;
use crate::rules::elements::format;
use crate::rules::exchange::{Effect, Exchange, Slot};
use crate::rules::expression::Expression;
use crate::rules::format::{Format, Options};
use crate::rules::http::{self, AddressPart, Assignment, Capture, Side, Value};
use crate::rules::nearest;
use crate::rules::subject::Variable;
use crate::rules::words::{Fault, Word, Words};

/// A rule: what to do, and when.
#[derive(Clone, Debug)]
pub struct TcpRule {
    /// What to do.
    pub action: TcpAction,
    /// When; always, if there is none.
    pub condition: Option<Condition>,
}

/// Which rules of connections.
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

/// What a rule does to a connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TcpAction {
    /// No further rule of this set is looked at.
    Accept,
    /// The connection ends.
    Reject,
    /// The server's connection ends, and the client's when it has what there is (`close`).
    Close,
    /// The connection vanishes, and the client hears nothing of it.
    SilentDrop,
    /// It begins with a PROXY header.
    ExpectProxy,
    /// A variable's value.
    SetVariable(Box<Assignment>),
    /// A variable less.
    UnsetVariable(Variable),
    /// A value for the log.
    Capture(Box<Capture>),
    /// The level of the line in the log; `None`: there is no line.
    LogLevel(Option<u8>),
    /// Where the client comes from, or went to.
    SetAddress(Side, AddressPart, Expression),
    /// Nothing: why is said here, for a warning.
    Nothing(&'static str),
}

/// What came of a set of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpVerdict {
    /// It goes on: a rule says so, or none says otherwise.
    Accept,
    /// The connection ends.
    Reject,
    /// The server's connection ends, and the client's when it has what there is.
    Close,
    /// The connection vanishes, and the client hears nothing of it.
    SilentDrop,
    /// Something that a rule looks at has not arrived: the rules are to be gone through again, from
    /// the first on, when more has, or with [`crate::rules::subject::Payload::complete`] when nothing more
    /// will or the time is up.
    Wait,
}

/// Goes through rules until one of them decides, or has to wait.
pub fn run_tcp(rules: &[TcpRule], exchange: &mut dyn Exchange) -> TcpVerdict {
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
    /// From the words behind `tcp-request content` and its like: an action, its arguments, and a
    /// condition.
    ///
    /// # Errors
    /// The action is not known or not there, its arguments are wrong, or the condition is.
    pub fn parse(words: &mut Words<'_>, set: TcpSet, context: &Context<'_>) -> Result<Self, Fault> {
        let word = words.expect("an action")?;
        let (name, argument) = http::split(&word.text);
        let Some(row) = TCP_ACTIONS.iter().find(|row| row.name == name) else {
            let known = TCP_ACTIONS.iter().filter(|row| row.sets.contains(&set));
            let message = nearest::unknown("action", name, known.map(|row| row.name));
            return Err(Fault::unknown(word.column, message));
        };
        if !row.sets.contains(&set) {
            let names = row.sets.iter().map(|set| set.name()).collect::<Vec<_>>();
            let message = format!("'{}' cannot stand here, but in {}", word.text, names.join(", "));
            return Err(Fault::unknown(word.column, message));
        }
        let mut line = Line { words, context, word, argument };
        let action = match row.parse {
            By(parse) => parse(&mut line)?,
            Plain(make) => make(),
            Missing(why) => {
                return Err(Fault::unknown(word.column, format!("'{}': {why}", word.text)));
            }
            Nothing(why) => {
                line.words.expect("a value")?;
                TcpAction::Nothing(why)
            }
        };
        Ok(Self { action, condition: http::condition(words, context)? })
    }

    /// The expressions that its action evaluates.
    pub fn expressions(&self) -> Vec<&Expression> {
        match &self.action {
            TcpAction::SetVariable(assignment) => http::of_value(&assignment.value),
            TcpAction::Capture(capture) => vec![&capture.value],
            TcpAction::SetAddress(_, _, expression) => vec![expression],
            _ => Vec::new(),
        }
    }

    /// What is to be told about a rule that is accepted, but does not do what it says.
    pub fn warning(&self) -> Option<&'static str> {
        match self.action {
            TcpAction::Nothing(why) => Some(why),
            _ => None,
        }
    }

    /// If this is a capture: it gets this slot, and says how long it is.
    pub fn take_slot(&mut self, slot: Slot) -> Option<usize> {
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
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connection => "tcp-request connection",
            Self::Session => "tcp-request session",
            Self::Content => "tcp-request content",
            Self::ResponseContent => "tcp-response content",
        }
    }
}

/// An action, as it is written.
#[derive(Debug)]
pub struct TcpActionRow {
    /// Its name; what ends with `(` has an argument that `)` ends.
    pub name: &'static str,
    /// Where it may stand.
    pub sets: &'static [TcpSet],
    /// What it does.
    pub about: &'static str,
    parse: Parse,
}

/// How the words behind a name are read.
#[derive(Clone, Copy, Debug)]
enum Parse {
    By(fn(&mut Line<'_, '_>) -> Result<TcpAction, Fault>),
    Plain(fn() -> TcpAction),
    /// It is not there: this is why.
    Missing(&'static str),
    /// It is read, with a word behind it, and does nothing: this is why.
    Nothing(&'static str),
}
use Parse::{By, Missing, Nothing, Plain};

/// A line that is being read.
#[derive(Debug)]
struct Line<'l, 'w> {
    words: &'l mut Words<'w>,
    context: &'l Context<'l>,
    word: &'l Word,
    argument: Option<&'l str>,
}

impl Line<'_, '_> {
    fn expression(&mut self) -> Result<Expression, Fault> {
        Expression::parse_words(self.words, self.context.files)
    }

    fn address(&mut self, side: Side, part: AddressPart) -> Result<TcpAction, Fault> {
        Ok(TcpAction::SetAddress(side, part, self.expression()?))
    }

    fn set_variable(
        &mut self,
        value: fn(&mut Self) -> Result<Value, Fault>,
    ) -> Result<TcpAction, Fault> {
        let (variable, conditions) =
            http::variable(self.argument.unwrap_or_default(), self.word.column)?;
        let value = value(self)?;
        Ok(TcpAction::SetVariable(Box::new(Assignment { variable, value, conditions })))
    }

    fn format(&mut self) -> Result<Format, Fault> {
        format(self.words, Options::VALUE, self.context)
    }
}

fn unset_var(line: &mut Line<'_, '_>) -> Result<TcpAction, Fault> {
    let found = http::variable(line.argument.unwrap_or_default(), line.word.column)?;
    Ok(TcpAction::UnsetVariable(found.0))
}

fn mark(line: &mut Line<'_, '_>) -> Result<TcpAction, Fault> {
    http::mark_number(line.words)?;
    Ok(TcpAction::Nothing(http::NO_MARK))
}

fn expect_proxy(line: &mut Line<'_, '_>) -> Result<TcpAction, Fault> {
    let word = line.words.expect("'layer4'")?;
    match &word.text[..] {
        "layer4" => Ok(TcpAction::ExpectProxy),
        other => Err(Fault::new(word.column, format!("'{other}' is not 'layer4'"))),
    }
}

fn capture(line: &mut Line<'_, '_>) -> Result<TcpAction, Fault> {
    let value = line.expression()?;
    let word = line.words.expect("'len'")?;
    if word.text != "len" {
        return Err(Fault::new(word.column, "'len' and a length have to follow"));
    }
    let column = line.words.column();
    let len = http::number(line.words)?;
    if len == 0 {
        return Err(Fault::new(column, "a length of 0 keeps nothing"));
    }
    let capture = Capture { value, len: Some(len), slot: Slot::Request(0) };
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
    parse: Parse,
    about: &'static str,
) -> TcpActionRow {
    TcpActionRow { name, sets, about, parse }
}

/// All actions of `tcp-request` and `tcp-response`.
pub const TCP_ACTIONS: &[TcpActionRow] = &[
    row("accept", ALL, Plain(|| TcpAction::Accept), "looks at no further rule of this section"),
    row("reject", ALL, Plain(|| TcpAction::Reject), "closes the connection"),
    row("close", RESPONSE, Plain(|| TcpAction::Close), "closes the server's connection"),
    row("silent-drop", ALL, Plain(|| TcpAction::SilentDrop), "forgets the connection"),
    row("expect-proxy", CONNECTION, By(expect_proxy), "reads a PROXY header first"),
    row("capture", CONTENT, By(capture), "keeps a value for the log"),
    row(
        "set-dst",
        REQUEST,
        By(|it| it.address(Side::Destination, AddressPart::Address)),
        "changes what `dst` is",
    ),
    row(
        "set-dst-port",
        REQUEST,
        By(|it| it.address(Side::Destination, AddressPart::Port)),
        "changes what `dst_port` is",
    ),
    row(
        "set-src",
        REQUEST,
        By(|it| it.address(Side::Source, AddressPart::Address)),
        "changes what `src` is",
    ),
    row(
        "set-src-port",
        REQUEST,
        By(|it| it.address(Side::Source, AddressPart::Port)),
        "changes what `src_port` is",
    ),
    row(
        "set-log-level",
        CONTENTS,
        By(|it| http::level(it.words).map(TcpAction::LogLevel)),
        "changes the level of the log's line",
    ),
    row(
        "set-var(",
        ALL,
        By(|it| it.set_variable(|it| it.expression().map(Value::Expression))),
        "sets a variable to a value",
    ),
    row(
        "set-var-fmt(",
        ALL,
        By(|it| it.set_variable(|it| it.format().map(Value::Format))),
        "sets a variable to text",
    ),
    row("unset-var(", ALL, By(unset_var), "removes a variable"),
    row("set-mark", ALL, By(mark), "nothing: packets are not marked"),
    row("set-nice", CONTENTS, Nothing(http::NO_NICE), "nothing: all exchanges are equal"),
    row("set-tos", ALL, By(mark), "nothing: packets are not marked"),
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

const NO_NETSCALER: &str = "only the PROXY protocol is known: leave it out";
const NO_SWITCH: &str = "a connection stays in its mode: use a frontend in mode http";
const NO_SERVICE: &str = "there are no services for connections: leave it out";
