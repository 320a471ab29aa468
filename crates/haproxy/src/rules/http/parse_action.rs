//! Parses the arguments of each action.

use std::time::Duration;

use super::redirect::{Redirect, RedirectTo};
use super::unsupported_reasons::NO_MARK;
use super::{
    AddressPart, AddressSide, AssignedValue, Assignment, BuiltinService, Capture, HttpAction,
    NameMatch, Normalizer, RuleSet, TargetPart, TimeoutValue, ValueCondition,
};
use crate::rules::compile_context::CompileContext;
use crate::rules::condition::Condition;
use crate::rules::elements::{field_name, format};
use crate::rules::eval_context::Variable;
use crate::rules::eval_context_mut::{CaptureSlot, Deadline};
use crate::rules::expression::Expression;
use crate::rules::format::{FormatOptions, FormatString};
use crate::rules::nearest;
use crate::rules::regex::Regex;
use crate::rules::reply::{self, ReplyKind, ReplyTemplate};
use crate::rules::words::{Word, WordCursor, WordError};

/// The end of a line: a condition, or nothing.
pub(crate) fn condition(
    words: &mut WordCursor<'_>,
    context: &CompileContext<'_>,
) -> Result<Option<Condition>, WordError> {
    match is_condition(words) {
        true => Condition::parse(words, context).map(Some),
        false => words.end().map(|()| None),
    }
}

fn is_condition(words: &WordCursor<'_>) -> bool {
    words.peek().is_some_and(|word| matches!(&word.text[..], "if" | "unless"))
}

/// A name with its parenthesis, and the text in it.
pub(crate) fn split(text: &str) -> (&str, Option<&str>) {
    match text.find('(') {
        None => (text, None),
        Some(open) => {
            let inside = &text[open + 1..];
            (&text[..=open], Some(inside.strip_suffix(')').unwrap_or(inside)))
        }
    }
}

/// The line being parsed.
#[derive(Debug)]
pub(super) struct RuleLine<'l, 'w> {
    pub(super) words: &'l mut WordCursor<'w>,
    pub(super) context: &'l CompileContext<'l>,
    pub(super) set: RuleSet,
    pub(super) name: &'l Word,
    pub(super) argument: Option<&'l str>,
}

impl RuleLine<'_, '_> {
    pub(super) fn field(
        &mut self,
        make: fn(String, FormatString) -> HttpAction,
    ) -> Result<HttpAction, WordError> {
        let name = field_name(self.words)?;
        Ok(make(name, self.format()?))
    }

    pub(super) fn replace_field(&mut self, each: bool) -> Result<HttpAction, WordError> {
        let name = field_name(self.words)?;
        let (pattern, value) = self.replacement()?;
        Ok(HttpAction::ReplaceField { name, pattern, value, each })
    }

    pub(super) fn set_target(&mut self, part: TargetPart) -> Result<HttpAction, WordError> {
        Ok(HttpAction::SetTarget(part, self.format()?))
    }

    pub(super) fn replace_target(&mut self, part: TargetPart) -> Result<HttpAction, WordError> {
        let (pattern, value) = self.replacement()?;
        Ok(HttpAction::ReplaceTarget(part, pattern, value))
    }

    pub(super) fn address(
        &mut self,
        side: AddressSide,
        part: AddressPart,
    ) -> Result<HttpAction, WordError> {
        Ok(HttpAction::SetAddress(side, part, self.expression()?))
    }

    pub(super) fn redirect(&mut self) -> Result<HttpAction, WordError> {
        self.redirect_to(Self::format).map(HttpAction::Redirect)
    }

    /// A redirect whose location is parsed by `place`.
    pub(super) fn redirect_to(
        &mut self,
        place: fn(&mut Self) -> Result<FormatString, WordError>,
    ) -> Result<Box<Redirect>, WordError> {
        let begin = self.name.column;
        let mut to = None;
        let mut redirect = Redirect {
            to: RedirectTo::Location(FormatString::default()),
            status: 302,
            drop_query: false,
            append_slash: false,
            ignore_empty: false,
            cookie: None,
            is_keyword: false,
        };
        while !is_condition(self.words) {
            let Some(word) = self.words.next() else { break };
            match &word.text[..] {
                "location" => to = Some(RedirectTo::Location(place(self)?)),
                "prefix" => to = Some(RedirectTo::Prefix(place(self)?)),
                "scheme" => to = Some(RedirectTo::Scheme(place(self)?)),
                "code" => redirect.status = self.redirect_code()?,
                "drop-query" => redirect.drop_query = true,
                "append-slash" => redirect.append_slash = true,
                "ignore-empty" => redirect.ignore_empty = true,
                "set-cookie" => redirect.cookie = Some(self.cookie("path=/;")?),
                "clear-cookie" => redirect.cookie = Some(self.cookie("path=/; Max-Age=0;")?),
                other => {
                    let message = nearest::unknown("option", other, REDIRECT.into_iter());
                    return Err(WordError::unknown(word.column, message));
                }
            }
        }
        let what = "redirect needs one of 'location', 'prefix', 'scheme'";
        redirect.to = to.ok_or_else(|| WordError::new(begin, what))?;
        Ok(Box::new(redirect))
    }

    fn redirect_code(&mut self) -> Result<u16, WordError> {
        let word = self.words.expect("a status")?;
        let status = word.text.parse().ok();
        status.filter(|status| matches!(status, 301 | 302 | 303 | 307 | 308)).ok_or_else(|| {
            let message = format!(
                "unsupported redirect code '{}', expected 301, 302, 303, 307 or 308",
                word.text
            );
            WordError::new(word.column, message)
        })
    }

    fn cookie(&mut self, attributes: &str) -> Result<String, WordError> {
        let word = self.words.expect("a cookie")?;
        if word.text.is_empty() || !word.text.bytes().all(is_cookie_byte) {
            let message = format!("invalid cookie '{}', expected name=value", word.text);
            return Err(WordError::new(word.column, message));
        }
        Ok(format!("{}; {attributes}", word.text))
    }

    fn reply(&mut self, kind: ReplyKind) -> Result<Box<ReplyTemplate>, WordError> {
        reply::parse(self.words, kind, self.context).map(Box::new)
    }

    fn format(&mut self) -> Result<FormatString, WordError> {
        format(self.words, FormatOptions::VALUE, self.context)
    }

    fn expression(&mut self) -> Result<Expression, WordError> {
        Expression::parse_words(self.words, self.context.files)
    }

    fn replacement(&mut self) -> Result<(Regex, FormatString), WordError> {
        let pattern = regex(self.words)?;
        Ok((pattern, format(self.words, FormatOptions::REPLACEMENT, self.context)?))
    }

    fn variable(&self) -> Result<(Variable, Vec<ValueCondition>), WordError> {
        variable(self.argument.unwrap_or_default(), self.name.column)
    }
}

fn regex(words: &mut WordCursor<'_>) -> Result<Regex, WordError> {
    let word = words.expect("a regular expression")?;
    Regex::new(&word.text, false).map_err(|message| WordError::new(word.column, message))
}

/// A variable, and conditions after a comma.
pub(crate) fn variable(
    text: &str,
    column: u32,
) -> Result<(Variable, Vec<ValueCondition>), WordError> {
    let mut parts = text.split(',').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let variable = Variable::parse(name).map_err(|message| WordError::new(column, message))?;
    let condition = |text: &str| {
        let found = CONDITIONS.iter().find(|(name, _)| *name == text);
        let names = CONDITIONS.iter().map(|(name, _)| *name);
        found
            .map(|(_, condition)| *condition)
            .ok_or_else(|| WordError::unknown(column, nearest::unknown("condition", text, names)))
    };
    Ok((variable, parts.map(condition).collect::<Result<_, _>>()?))
}

pub(super) fn set_var(line: &mut RuleLine<'_, '_>) -> Result<HttpAction, WordError> {
    let (variable, conditions) = line.variable()?;
    let value = AssignedValue::Expression(line.expression()?);
    Ok(HttpAction::SetVariable(Box::new(Assignment { variable, value, conditions })))
}

pub(super) fn set_var_fmt(line: &mut RuleLine<'_, '_>) -> Result<HttpAction, WordError> {
    let (variable, conditions) = line.variable()?;
    let value = AssignedValue::Format(line.format()?);
    Ok(HttpAction::SetVariable(Box::new(Assignment { variable, value, conditions })))
}

pub(super) fn unset_var(line: &mut RuleLine<'_, '_>) -> Result<HttpAction, WordError> {
    Ok(HttpAction::UnsetVariable(line.variable()?.0))
}

pub(super) fn auth(line: &mut RuleLine<'_, '_>) -> Result<HttpAction, WordError> {
    let realm = line.words.take("realm").then(|| line.format()).transpose()?;
    Ok(HttpAction::Auth { realm })
}

pub(super) fn deny(line: &mut RuleLine<'_, '_>) -> Result<HttpAction, WordError> {
    let status = if line.set == RuleSet::Request { 403 } else { 502 };
    line.reply(ReplyKind::Denial(status)).map(HttpAction::Deny)
}

pub(super) fn tarpit(line: &mut RuleLine<'_, '_>) -> Result<HttpAction, WordError> {
    line.reply(ReplyKind::Denial(500)).map(HttpAction::Tarpit)
}

pub(super) fn return_(line: &mut RuleLine<'_, '_>) -> Result<HttpAction, WordError> {
    line.reply(ReplyKind::Return).map(HttpAction::Return)
}

pub(super) fn set_method(line: &mut RuleLine<'_, '_>) -> Result<HttpAction, WordError> {
    line.format().map(HttpAction::SetMethod)
}

pub(super) fn set_status(line: &mut RuleLine<'_, '_>) -> Result<HttpAction, WordError> {
    let status = reply::status(line.words, 100..=999)?;
    if line.words.take("reason") {
        line.words.expect("a reason")?; // it has no meaning, and is not sent (RFC 9112 §4)
    }
    Ok(HttpAction::SetStatus(status))
}

pub(super) fn del_header(line: &mut RuleLine<'_, '_>) -> Result<HttpAction, WordError> {
    let word = line.words.expect("the name of a field")?;
    let text = word.text.clone();
    if !line.words.take("-m") {
        return Ok(HttpAction::RemoveFields(NameMatch::Exact(text)));
    }
    let method = line.words.expect("str, beg, end, sub or reg")?;
    Ok(HttpAction::RemoveFields(match &method.text[..] {
        "str" => NameMatch::Exact(text),
        "beg" => NameMatch::Begins(text),
        "end" => NameMatch::Ends(text),
        "sub" => NameMatch::Contains(text),
        "reg" => {
            let pattern = Regex::new(&text, false);
            NameMatch::Pattern(pattern.map_err(|message| WordError::new(word.column, message))?)
        }
        other => {
            let message =
                format!("unknown match method '{other}', expected one of str, beg, end, sub, reg");
            return Err(WordError::new(method.column, message));
        }
    }))
}

pub(super) fn log_level(line: &mut RuleLine<'_, '_>) -> Result<HttpAction, WordError> {
    level(line.words).map(HttpAction::LogLevel)
}

/// A syslog level; `silent` is none.
pub(crate) fn level(words: &mut WordCursor<'_>) -> Result<Option<u8>, WordError> {
    let word = words.expect("a level")?;
    if word.text == "silent" {
        return Ok(None);
    }
    let found = (0u8..).zip(LEVELS).find(|(_, name)| *name == word.text);
    let (level, _) = found.ok_or_else(|| {
        let known = LEVELS.into_iter().chain(["silent"]);
        WordError::new(word.column, nearest::unknown("level", &word.text, known))
    })?;
    Ok(Some(level))
}

pub(super) fn capture(line: &mut RuleLine<'_, '_>) -> Result<HttpAction, WordError> {
    let value = line.expression()?;
    let word = line.words.expect("'len' or 'id'")?;
    let (text, number) = (&word.text[..], number(line.words)?);
    let slot = |id| match line.set {
        RuleSet::Request => CaptureSlot::Request(id),
        _ => CaptureSlot::Response(id),
    };
    let capture = match text {
        "len" if line.set == RuleSet::Request && number > 0 => {
            Capture { value, len: Some(number), slot: slot(0) }
        }
        "id" => Capture { value, len: None, slot: slot(number) },
        _ => {
            let message = match line.set {
                RuleSet::Request => "expected 'len <length>' or 'id <slot>'",
                _ => "expected 'id <slot>'",
            };
            return Err(WordError::new(word.column, message));
        }
    };
    Ok(HttpAction::Capture(Box::new(capture)))
}

pub(super) fn mark(line: &mut RuleLine<'_, '_>) -> Result<HttpAction, WordError> {
    mark_number(line.words)?;
    Ok(HttpAction::Nothing(NO_MARK))
}

/// A number of 32 bits, decimal or hexadecimal: `0x1f`.
pub(crate) fn mark_number(words: &mut WordCursor<'_>) -> Result<u32, WordError> {
    let word = words.expect("a number")?;
    let number = match word.text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => word.text.parse(),
    };
    number.map_err(|_| {
        WordError::new(
            word.column,
            format!("invalid number '{}', expected for example 5 or 0x1f", word.text),
        )
    })
}

pub(crate) fn number<T: std::str::FromStr>(words: &mut WordCursor<'_>) -> Result<T, WordError> {
    let word = words.expect("a number")?;
    word.text
        .parse()
        .map_err(|_| WordError::new(word.column, format!("invalid number '{}'", word.text)))
}

pub(super) fn strict_mode(line: &mut RuleLine<'_, '_>) -> Result<HttpAction, WordError> {
    let word = line.words.expect("'on' or 'off'")?;
    match &word.text[..] {
        "on" => Ok(HttpAction::StrictMode(true)),
        "off" => Ok(HttpAction::StrictMode(false)),
        other => Err(WordError::new(word.column, format!("expected 'on' or 'off', not '{other}'"))),
    }
}

pub(super) fn normalize(line: &mut RuleLine<'_, '_>) -> Result<HttpAction, WordError> {
    let word = line.words.expect("a normalizer")?;
    Ok(HttpAction::Normalize(match &word.text[..] {
        "path-merge-slashes" => Normalizer::MergeSlashes,
        "path-strip-dot" => Normalizer::StripDot,
        "path-strip-dotdot" => Normalizer::StripDotDot { full: line.words.take("full") },
        "percent-decode-unreserved" => {
            line.words.take("strict"); // what it refuses is refused when it arrives
            Normalizer::DecodeUnreserved
        }
        "percent-to-uppercase" => {
            line.words.take("strict"); // as above
            Normalizer::UppercaseEscapes
        }
        "query-sort-by-name" => Normalizer::SortQuery,
        "fragment-strip" | "fragment-encode" => Normalizer::Fragment,
        other => {
            let message = nearest::unknown("normalizer", other, NORMALIZERS.into_iter());
            return Err(WordError::unknown(word.column, message));
        }
    }))
}

pub(super) fn use_service(line: &mut RuleLine<'_, '_>) -> Result<HttpAction, WordError> {
    let word = line.words.expect("the name of a service")?;
    match &word.text[..] {
        "prometheus-exporter" => Ok(HttpAction::Service(BuiltinService::Metrics)),
        other => {
            let message = format!("unknown service '{other}', expected 'prometheus-exporter'");
            Err(WordError::unknown(word.column, message))
        }
    }
}

pub(super) fn wait_for_body(line: &mut RuleLine<'_, '_>) -> Result<HttpAction, WordError> {
    let (mut time, mut at_least) = (None, 0);
    while !is_condition(line.words) {
        let Some(word) = line.words.next() else { break };
        match &word.text[..] {
            "time" => time = Some(duration(line.words)?),
            "at-least" => at_least = size(line.words)?,
            other => {
                let message = format!("expected 'time' or 'at-least', not '{other}'");
                return Err(WordError::unknown(word.column, message));
            }
        }
    }
    let column = line.name.column;
    let time = time.ok_or_else(|| WordError::new(column, "missing 'time'"))?;
    Ok(HttpAction::WaitForBody { time, at_least })
}

pub(super) fn set_timeout(line: &mut RuleLine<'_, '_>) -> Result<HttpAction, WordError> {
    let word = line.words.expect("'server' or 'tunnel'")?;
    let which = match &word.text[..] {
        "server" => Deadline::Server,
        "tunnel" => Deadline::Tunnel,
        other => {
            let message = format!("expected 'server' or 'tunnel', not '{other}'");
            return Err(WordError::new(word.column, message));
        }
    };
    let is_number = line.words.peek().is_some_and(|word| word.text.starts_with(is_digit));
    let value = match is_number {
        true => TimeoutValue::Fixed(duration(line.words)?),
        false => TimeoutValue::Expression(line.expression()?),
    };
    Ok(HttpAction::Timeout(which, value))
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

/// A time (HAProxy's manual, §2.5): milliseconds without a unit.
fn duration(words: &mut WordCursor<'_>) -> Result<Duration, WordError> {
    let word = words.expect("a time")?;
    let units = [("us", 1), ("ms", 1_000), ("", 1_000), ("s", SECOND), ("m", 60 * SECOND)];
    let longer = [("h", 3_600 * SECOND), ("d", 24 * 3_600 * SECOND)];
    let micros = scaled(&word.text, units.into_iter().chain(longer));
    micros.map(Duration::from_micros).ok_or_else(|| {
        let message = format!(
            "invalid time '{}': expected a number with an optional unit (us, ms, s, m, h, d)",
            word.text
        );
        WordError::new(word.column, message)
    })
}

/// A size (HAProxy's manual, §2.5): bytes without a unit.
fn size(words: &mut WordCursor<'_>) -> Result<u64, WordError> {
    let word = words.expect("a size")?;
    let units = [("", 1), ("k", 1 << 10), ("m", 1 << 20), ("g", 1 << 30)];
    scaled(&word.text.to_ascii_lowercase(), units.into_iter()).ok_or_else(|| {
        let message = format!(
            "invalid size '{}': expected a number with an optional unit (k, m, g)",
            word.text
        );
        WordError::new(word.column, message)
    })
}

/// A number multiplied by its unit.
fn scaled(text: &str, mut units: impl Iterator<Item = (&'static str, u64)>) -> Option<u64> {
    let end = text.find(|c| !is_digit(c)).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = units.find(|(name, _)| *name == unit)?.1;
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// A byte of a cookie's name or value (RFC 6265 §4.1.1), or `=`.
fn is_cookie_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b';' | b'"' | b'\\')
}

/// Microseconds.
const SECOND: u64 = 1_000_000;

/// Levels of RFC 5424 §6.2.1, from 0, with HAProxy's names.
const LEVELS: [&str; 8] = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

const CONDITIONS: [(&str, ValueCondition); 8] = [
    ("ifexists", ValueCondition::Exists),
    ("ifnotexists", ValueCondition::NotExists),
    ("ifempty", ValueCondition::Empty),
    ("ifnotempty", ValueCondition::NotEmpty),
    ("ifset", ValueCondition::Exists),
    ("ifnotset", ValueCondition::NotExists),
    ("ifgt", ValueCondition::Greater),
    ("iflt", ValueCondition::Less),
];

const REDIRECT: [&str; 9] = [
    "location",
    "prefix",
    "scheme",
    "code",
    "drop-query",
    "append-slash",
    "ignore-empty",
    "set-cookie",
    "clear-cookie",
];

const NORMALIZERS: [&str; 8] = [
    "path-merge-slashes",
    "path-strip-dot",
    "path-strip-dotdot",
    "percent-decode-unreserved",
    "percent-to-uppercase",
    "query-sort-by-name",
    "fragment-strip",
    "fragment-encode",
];
