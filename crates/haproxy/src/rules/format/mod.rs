//! Log formats: text with variables (`%ci`) and expressions (`%[src]`) (HAProxy's manual, §8.2.6).
//! Rules use the same formats.
//!
//! Peer data cannot break a line: control characters are written as `%0A` in rules, and as `#0A` in
//! logs.

mod alias;
mod date;
mod escape;
mod parse;
mod standard;

use regex::bytes::Captures;

use crate::rules::eval_context::EvalContext;
use crate::rules::expression::Expression;

use alias::Alias;
use date::Zone;
use escape::Escape;

pub use alias::aliases;
pub use standard::Standard;

/// A compiled format.
#[derive(Clone, Debug, Default)]
pub struct FormatString {
    parts: Vec<FormatPart>,
    options: FormatOptions,
    zone: Zone,
}

/// Options of parsing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormatOptions {
    /// The destination of the text.
    pub purpose: Purpose,
    /// Variables that require mode http are allowed.
    pub http: bool,
}

/// The destination of a format's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// A message or a variable: blanks are kept.
    #[default]
    Value,
    /// A replacement for a regex match: `\1` is its first group.
    Replacement,
    /// A log: empty values are `-`, and consecutive blanks are merged.
    Log,
    /// A unique ID: consecutive blanks are merged.
    Identifier,
}

impl FormatOptions {
    /// For HTTP rules.
    pub const VALUE: Self = Self { purpose: Purpose::Value, http: true };
    /// For HTTP rules that replace matches.
    pub(crate) const REPLACEMENT: Self = Self { purpose: Purpose::Replacement, http: true };
    /// For logs in mode `http`.
    pub const HTTP_LOG: Self = Self { purpose: Purpose::Log, http: true };
    /// For logs in mode `tcp`.
    pub const TCP_LOG: Self = Self { purpose: Purpose::Log, http: false };

    fn merges_blanks(self) -> bool {
        matches!(self.purpose, Purpose::Log | Purpose::Identifier)
    }
}

/// A part of a format.
#[derive(Clone, Debug)]
enum FormatPart {
    Text(Vec<u8>),
    /// One blank, unless the text ends with one.
    Blank,
    /// A group of a regex.
    Group(usize),
    Expression(Box<Expression>, FormatFlags),
    Alias(Alias, FormatFlags),
}

/// The flags in braces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FormatFlags {
    quote: bool,
    hex: bool,
    escape: bool,
}

impl FormatString {
    /// A constant text.
    pub fn literal(text: &[u8]) -> Self {
        let parts = if text.is_empty() { vec![] } else { vec![FormatPart::Text(text.to_vec())] };
        Self { parts, ..Self::default() }
    }

    /// The text, if it is constant.
    pub fn as_literal(&self) -> Option<&[u8]> {
        match &self.parts[..] {
            [] => Some(b""),
            [FormatPart::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The expressions in it, for checks of their phases.
    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.parts.iter().filter_map(|part| match part {
            FormatPart::Expression(expression, _) => Some(&**expression),
            _ => None,
        })
    }

    /// Appends the text.
    pub fn render(&self, subject: &dyn EvalContext, out: &mut Vec<u8>) {
        self.write(subject, None, out);
    }

    /// Appends the text, with the groups of a match.
    pub(crate) fn render_replacing(
        &self,
        subject: &dyn EvalContext,
        groups: &Captures<'_>,
        out: &mut Vec<u8>,
    ) {
        self.write(subject, Some(groups), out);
    }

    fn write(&self, subject: &dyn EvalContext, groups: Option<&Captures<'_>>, out: &mut Vec<u8>) {
        let mut after_blank = true;
        for part in &self.parts {
            let before = out.len();
            match part {
                FormatPart::Text(text) => out.extend_from_slice(text),
                FormatPart::Blank if after_blank => {}
                FormatPart::Blank => {
                    out.push(b' ');
                    after_blank = true;
                    continue;
                }
                FormatPart::Group(at) => {
                    let group = groups.and_then(|groups| groups.get(*at));
                    out.extend_from_slice(group.map_or(b"", |group| group.as_bytes()));
                }
                FormatPart::Expression(expression, flags) => {
                    let text =
                        expression.evaluate(subject).and_then(crate::rules::Sample::into_text);
                    self.write_text(text.as_deref(), *flags, self.escape(), out);
                }
                FormatPart::Alias(alias, flags) => self.write_alias(alias, *flags, subject, out),
            }
            after_blank &= out.len() == before;
        }
    }

    /// How external text is escaped.
    fn escape(&self) -> Escape {
        match self.options.purpose {
            Purpose::Log | Purpose::Identifier => Escape::Log,
            Purpose::Value | Purpose::Replacement => Escape::Value,
        }
    }

    /// Writes text, or the mark for a missing value.
    fn write_text(&self, text: Option<&[u8]>, flags: FormatFlags, how: Escape, out: &mut Vec<u8>) {
        let is_log = self.options.purpose == Purpose::Log;
        let quote = flags.quote && how != Escape::Value;
        if quote {
            out.push(b'"');
        }
        match text.filter(|text| !text.is_empty()) {
            Some(text) => how.write(text, flags.escape, out),
            None if is_log && !quote => out.push(b'-'),
            None => {}
        }
        if quote {
            out.push(b'"');
        }
    }
}
