//! Arguments of fetches and converters: the parentheses after a name (HAProxy's manual, §7.3 and
//! §2.2).
//!
//! Splitting the line into words has handled the first level of quotes and backslashes; this is the
//! second level. The tables define the meaning of each argument ([`ArgKind`]).

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crate::rules::eval_context::{Variable, VariableScope};
use crate::rules::lists::ConfigFiles;
use crate::rules::map::{self, Map};
use crate::rules::masks::{address, mask4, mask6};
use crate::rules::pattern::MatchMethod;
use crate::rules::regex::Regex;
use crate::rules::sample::Type;
use crate::rules::time_format::TimeFormat;
use crate::rules::words::WordError;

/// The type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgKind {
    /// Any text.
    Text,
    /// A signed integer.
    Int,
    /// An integer, or the name of a variable with one.
    Operand,
    /// The name of a variable, with its scope.
    Variable,
    /// Text, or the name of a variable with it.
    TextOrVariable,
    /// An IPv4 address.
    Address4,
    /// An IPv6 address.
    Address6,
    /// An IPv4 mask, or its length.
    Mask4,
    /// An IPv6 mask, or its length.
    Mask6,
    /// A file of keys and values.
    Map(MatchMethod, Type),
    /// One of these words.
    OneOf(&'static [&'static str]),
}

/// A compiled argument.
#[derive(Clone, Debug)]
pub(crate) enum Arg {
    Absent,
    Text(Box<[u8]>),
    Int(i64),
    Variable(Variable),
    Regex(Regex),
    Address4(Ipv4Addr),
    Address6(Ipv6Addr),
    Map(Arc<Map>),
    Time(Box<TimeFormat>),
}

/// The arguments of a call. Missing ones are absent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Args(Box<[Arg]>);

/// The arguments of a function: the minimum number, and the types of all.
#[derive(Clone, Copy, Debug)]
pub struct Takes {
    /// The minimum number.
    pub least: usize,
    /// The types of all arguments.
    pub kinds: &'static [ArgKind],
}

impl Takes {
    /// No arguments.
    pub(crate) const NONE: Self = Self { least: 0, kinds: &[] };

    /// All are required.
    pub(crate) const fn all(kinds: &'static [ArgKind]) -> Self {
        Self { least: kinds.len(), kinds }
    }

    /// The first `least` are required.
    pub(crate) const fn from(least: usize, kinds: &'static [ArgKind]) -> Self {
        Self { least, kinds }
    }
}

/// As in the manual: `(string[,integer])`, or nothing.
impl fmt::Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kinds.is_empty() {
            return Ok(());
        }
        f.write_str("(")?;
        for (at, kind) in self.kinds.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let bracket = if at >= self.least { "[" } else { "" };
            write!(f, "{bracket}{comma}{kind}")?;
        }
        write!(f, "{})", "]".repeat(self.kinds.len() - self.least))
    }
}

/// As in the manual.
impl fmt::Display for ArgKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "string",
            Self::Int => "integer",
            Self::Operand => "integer or variable",
            Self::Variable => "variable",
            Self::TextOrVariable => "string or variable",
            Self::Address4 => "IPv4 address",
            Self::Address6 => "IPv6 address",
            Self::Mask4 => "IPv4 mask",
            Self::Mask6 => "IPv6 mask",
            Self::Map(..) => "file",
            Self::OneOf(words) => return f.write_str(&words.join("|")),
        })
    }
}

impl Args {
    /// Compiles arguments. `name` is the function.
    ///
    /// # Errors
    /// Too few or too many arguments, or an invalid one.
    pub(crate) fn compile(
        name: &str,
        texts: &[String],
        takes: Takes,
        files: &dyn ConfigFiles,
        column: u32,
    ) -> Result<Self, WordError> {
        if texts.len() < takes.least {
            let message = format!("'{name}' requires {} arguments in parentheses", takes.least);
            return Err(WordError::new(column, message));
        }
        if texts.len() > takes.kinds.len() {
            let message = match takes.kinds.len() {
                0 => format!("'{name}' takes no arguments"),
                most => format!("'{name}' takes at most {most} arguments"),
            };
            return Err(WordError::new(column, message));
        }
        let mut args = Vec::with_capacity(takes.kinds.len());
        for (at, kind) in takes.kinds.iter().enumerate() {
            let Some(text) = texts.get(at).filter(|text| !text.is_empty() || at < takes.least)
            else {
                args.push(Arg::Absent);
                continue;
            };
            let wrong = |why: String| {
                WordError::new(column, format!("argument {} of '{name}': {why}", at + 1))
            };
            args.push(compile(text, *kind, files).map_err(wrong)?);
        }
        Ok(Self(args.into()))
    }

    pub(crate) fn get(&self, at: usize) -> &Arg {
        self.0.get(at).unwrap_or(&Arg::Absent)
    }

    /// Replaces an argument.
    pub(crate) fn set(&mut self, at: usize, arg: Arg) {
        self.0[at] = arg;
    }

    pub(crate) fn int(&self, at: usize) -> Option<i64> {
        match self.get(at) {
            Arg::Int(value) => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn text(&self, at: usize) -> Option<&[u8]> {
        match self.get(at) {
            Arg::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn variable(&self, at: usize) -> Option<&Variable> {
        match self.get(at) {
            Arg::Variable(variable) => Some(variable),
            _ => None,
        }
    }

    /// A text that is a name in the configuration.
    pub(crate) fn name(&self, at: usize) -> Option<Box<str>> {
        self.text(at).map(|text| String::from_utf8_lossy(text).into())
    }
}

fn compile(text: &str, kind: ArgKind, files: &dyn ConfigFiles) -> Result<Arg, String> {
    let arg = match kind {
        ArgKind::Text => Arg::Text(text.as_bytes().into()),
        ArgKind::Int => Arg::Int(int(text)?),
        ArgKind::Operand
            if text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+') =>
        {
            Arg::Int(int(text)?)
        }
        ArgKind::Operand | ArgKind::Variable => Arg::Variable(Variable::parse(text)?),
        ArgKind::TextOrVariable => match Variable::parse(text) {
            Ok(variable) => Arg::Variable(variable),
            Err(_) => Arg::Text(text.as_bytes().into()),
        },
        ArgKind::Address4 => Arg::Address4(address(text, "an IPv4 address")?),
        ArgKind::Address6 => Arg::Address6(address(text, "an IPv6 address")?),
        ArgKind::Mask4 => Arg::Address4(mask4(text)?),
        ArgKind::Mask6 => Arg::Address6(mask6(text)?),
        ArgKind::Map(method, to) => Arg::Map(map::load(text, method, to, files)?),
        ArgKind::OneOf(words) if words.contains(&text) => Arg::Text(text.as_bytes().into()),
        ArgKind::OneOf(words) => {
            return Err(format!("'{text}' is not one of {}", words.join(", ")));
        }
    };
    Ok(arg)
}

fn int(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number"))
}

impl Variable {
    /// Parses a name with its scope: `txn.user`.
    ///
    /// # Errors
    /// The scope is unknown, or the name has characters other than letters, digits, `.` and `_`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (scope, name) = text.split_once('.').unwrap_or((text, ""));
        let scope = match scope {
            "proc" => VariableScope::Proc,
            "sess" => VariableScope::Sess,
            "txn" => VariableScope::Txn,
            "req" => VariableScope::Req,
            "res" => VariableScope::Res,
            _ => {
                return Err(format!(
                    "variable '{text}' has no scope: expected 'proc.', 'sess.', 'txn.', 'req.' or \
                     'res.'"
                ));
            }
        };
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_known) {
            return Err(format!(
                "invalid variable name '{text}': only letters, digits, '.' and '_' are allowed"
            ));
        }
        Ok(Self { scope, name: name.into() })
    }
}

/// Splits the text after an opening parenthesis into arguments. Also returns the length including
/// the closing parenthesis.
///
/// # Errors
/// A quote or the parenthesis is not closed.
pub(crate) fn split(text: &str) -> Result<(Vec<String>, usize), String> {
    let mut args = vec![String::new()];
    let mut quote = None;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let arg = args.last_mut().expect("there is always one");
        match c {
            '"' | '\'' if quote == Some(c) => quote = None,
            '"' | '\'' if quote.is_none() => quote = Some(c),
            '\\' if quote != Some('\'') => match chars.peek().copied() {
                Some((_, next)) => match unescaped(next) {
                    Some(meant) => {
                        arg.push(meant);
                        chars.next();
                    }
                    None => arg.push(c),
                },
                None => arg.push(c),
            },
            ',' if quote.is_none() => args.push(String::new()),
            ')' if quote.is_none() => {
                if args.len() == 1 && args[0].is_empty() {
                    args.clear();
                }
                return Ok((args, at + 1));
            }
            _ => arg.push(c),
        }
    }
    match quote {
        Some(quote) => Err(format!("unmatched quote {quote}")),
        None => Err("missing ')'".to_owned()),
    }
}

/// The meaning of a character after a backslash; `None`: the backslash is literal.
fn unescaped(c: char) -> Option<char> {
    match c {
        '\\' | '\'' | '"' | ' ' => Some(c),
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        _ => None,
    }
}
