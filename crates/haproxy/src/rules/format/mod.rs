//! Log formats: text with aliases (`%ci`) and expressions (`%[src]`) in it (HAProxy's manual,
//! §8.2.6). Also used wherever a rule takes text.
//!
//! What a client says cannot break a line: control characters are written as `%0A` in text for
//! rules, and as `#0A` in logs.

mod alias;
mod date;
mod escape;
mod parse;
mod standard;

use regex::bytes::Captures;

use crate::rules::expression::Expression;
use crate::rules::subject::Subject;

use alias::Alias;
use date::Zone;
use escape::Escape;

pub use alias::aliases;
pub use standard::Standard;

/// A compiled format.
#[derive(Clone, Debug, Default)]
pub struct Format {
    parts: Vec<Part>,
    options: Options,
    zone: Zone,
}

/// What a format is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Where its text goes.
    pub purpose: Purpose,
    /// Aliases that speak of HTTP may be used.
    pub http: bool,
}

/// Where the text of a format goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// Into a message or a variable: blanks stay as they are.
    #[default]
    Value,
    /// In place of what a regular expression matched: `\1` is its first group.
    Replacement,
    /// Into a log: what is empty is `-`, and several blanks are one.
    Log,
    /// As a name for an exchange: several blanks are one.
    Identifier,
}

impl Options {
    /// For a rule of HTTP.
    pub const VALUE: Self = Self { purpose: Purpose::Value, http: true };
    /// For a rule of HTTP that replaces what matches.
    pub(crate) const REPLACEMENT: Self = Self { purpose: Purpose::Replacement, http: true };
    /// For the log of a proxy in mode `http`.
    pub const HTTP_LOG: Self = Self { purpose: Purpose::Log, http: true };
    /// For the log of a proxy in mode `tcp`.
    pub const TCP_LOG: Self = Self { purpose: Purpose::Log, http: false };

    fn merges_blanks(self) -> bool {
        matches!(self.purpose, Purpose::Log | Purpose::Identifier)
    }
}

/// A piece of a format.
#[derive(Clone, Debug)]
enum Part {
    Text(Vec<u8>),
    /// One blank, unless there is one already.
    Blank,
    /// A group of a regular expression.
    Group(usize),
    Expression(Box<Expression>, Flags),
    Alias(Alias, Flags),
}

/// What stands in braces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Flags {
    quote: bool,
    hex: bool,
    escape: bool,
}

impl Format {
    /// The same text every time.
    pub fn literal(text: &[u8]) -> Self {
        let parts = if text.is_empty() { vec![] } else { vec![Part::Text(text.to_vec())] };
        Self { parts, ..Self::default() }
    }

    /// Its text, if it is the same every time.
    pub fn as_literal(&self) -> Option<&[u8]> {
        match &self.parts[..] {
            [] => Some(b""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The expressions in it, to see if they can be taken where it is used.
    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.parts.iter().filter_map(|part| match part {
            Part::Expression(expression, _) => Some(&**expression),
            _ => None,
        })
    }

    /// Writes it, behind what is there.
    pub fn render(&self, subject: &dyn Subject, out: &mut Vec<u8>) {
        self.write(subject, None, out);
    }

    /// Writes it with the groups of what it replaces.
    pub(crate) fn render_replacing(
        &self,
        subject: &dyn Subject,
        groups: &Captures<'_>,
        out: &mut Vec<u8>,
    ) {
        self.write(subject, Some(groups), out);
    }

    fn write(&self, subject: &dyn Subject, groups: Option<&Captures<'_>>, out: &mut Vec<u8>) {
        let mut after_blank = true;
        for part in &self.parts {
            let before = out.len();
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Blank if after_blank => {}
                Part::Blank => {
                    out.push(b' ');
                    after_blank = true;
                    continue;
                }
                Part::Group(at) => {
                    let group = groups.and_then(|groups| groups.get(*at));
                    out.extend_from_slice(group.map_or(b"", |group| group.as_bytes()));
                }
                Part::Expression(expression, flags) => {
                    let text =
                        expression.evaluate(subject).and_then(crate::rules::Sample::into_text);
                    self.write_text(text.as_deref(), *flags, self.escape(), out);
                }
                Part::Alias(alias, flags) => self.write_alias(alias, *flags, subject, out),
            }
            after_blank &= out.len() == before;
        }
    }

    /// How text of others is written.
    fn escape(&self) -> Escape {
        match self.options.purpose {
            Purpose::Log | Purpose::Identifier => Escape::Log,
            Purpose::Value | Purpose::Replacement => Escape::Value,
        }
    }

    /// Writes text, or that there is none.
    fn write_text(&self, text: Option<&[u8]>, flags: Flags, how: Escape, out: &mut Vec<u8>) {
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
