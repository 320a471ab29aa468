//! Patterns of lists (HAProxy's manual, §7.1) and maps.
//!
//! Exact texts, prefixes and networks are indexed; others are tried in order.

mod exact;
mod network;
mod range;
mod word;

use crate::rules::hex::unhex;
use crate::rules::regex::Regex;
use crate::rules::sample::{Sample, Type};

use exact::{Exact, TextPrefixes};
use network::Networks;
use range::Ranges;
use word::Substring;

/// A match method (`-m`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchMethod {
    /// The value exists.
    Found,
    /// The value is true.
    Bool,
    /// A number or a range.
    Int,
    /// A version such as `3.1`, or a range.
    Version,
    /// An address or a network.
    Ip,
    /// Equal bytes.
    Bin,
    /// The length is a number, or in a range.
    Len,
    /// Equal text.
    Str,
    /// Prefix.
    Beg,
    /// Substring.
    Sub,
    /// Substring between slashes.
    Dir,
    /// Substring between dots, slashes, colons or question marks.
    Dom,
    /// Suffix.
    End,
    /// Regex match.
    Reg,
}

/// Patterns of one method, numbered in the order of their addition.
#[derive(Clone, Debug)]
pub(crate) struct Patterns {
    method: MatchMethod,
    set: Set,
    len: usize,
}

#[derive(Clone, Debug)]
enum Set {
    /// No comparison.
    Nothing,
    Ranges(Ranges),
    Networks(Networks),
    Exact(Exact),
    Prefixes(TextPrefixes),
    Words(Vec<Substring>),
    Regexes(Vec<Regex>),
}

impl MatchMethod {
    /// By its name for `-m`.
    pub fn named(name: &str) -> Option<Self> {
        METHODS.iter().find(|(known, _)| *known == name).map(|(_, method)| *method)
    }

    /// Its name for `-m`.
    pub fn name(self) -> &'static str {
        let known = METHODS.iter().find(|(_, method)| *method == self);
        known.map_or("ver", |(name, _)| name)
    }

    /// True if its patterns are indexed.
    pub(crate) fn is_indexed(self, ignore_case: bool) -> bool {
        match self {
            Self::Ip | Self::Bin => true,
            Self::Str | Self::Beg => !ignore_case,
            _ => false,
        }
    }

    /// The default method for values of a type.
    pub fn of(kind: Type) -> Option<Self> {
        match kind {
            Type::Bool => Some(Self::Bool),
            Type::Int => Some(Self::Int),
            Type::Address => Some(Self::Ip),
            Type::Text => Some(Self::Str),
            Type::Any | Type::Binary => None,
        }
    }

    /// The type that it compares.
    pub const fn compares(self) -> Type {
        match self {
            Self::Found => Type::Any,
            Self::Bool => Type::Bool,
            Self::Int | Self::Version => Type::Int,
            Self::Ip => Type::Address,
            Self::Bin => Type::Binary,
            Self::Len
            | Self::Str
            | Self::Beg
            | Self::Sub
            | Self::Dir
            | Self::Dom
            | Self::End
            | Self::Reg => Type::Text,
        }
    }

    /// True if it requires patterns.
    pub(crate) fn needs_patterns(self) -> bool {
        !matches!(self, Self::Found | Self::Bool)
    }

    /// True if its patterns may have operators.
    pub(crate) fn has_operators(self) -> bool {
        matches!(self, Self::Int | Self::Version | Self::Len)
    }
}

impl Patterns {
    pub(crate) fn new(method: MatchMethod) -> Self {
        let set = match method {
            MatchMethod::Found | MatchMethod::Bool => Set::Nothing,
            MatchMethod::Int | MatchMethod::Version | MatchMethod::Len => {
                Set::Ranges(Ranges::default())
            }
            MatchMethod::Ip => Set::Networks(Networks::default()),
            MatchMethod::Str | MatchMethod::Bin => Set::Exact(Exact::default()),
            MatchMethod::Beg => Set::Prefixes(TextPrefixes::default()),
            MatchMethod::Sub | MatchMethod::Dir | MatchMethod::Dom | MatchMethod::End => {
                Set::Words(Vec::new())
            }
            MatchMethod::Reg => Set::Regexes(Vec::new()),
        };
        Self { method, set, len: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a pattern.
    ///
    /// # Errors
    /// The text is not a valid pattern.
    pub(crate) fn add(&mut self, text: &[u8], ignore_case: bool) -> Result<(), String> {
        let at = self.len;
        match (&mut self.set, self.method) {
            (Set::Nothing, _) => {}
            (Set::Ranges(ranges), MatchMethod::Version) => {
                ranges.add(range::version(readable(text)?)?)
            }
            (Set::Ranges(ranges), _) => ranges.add(range::number(readable(text)?)?),
            (Set::Networks(networks), _) => networks.add(readable(text)?, at)?,
            (Set::Exact(exact), MatchMethod::Bin) => {
                exact.add(unhex(text)?.into(), at, false);
            }
            (Set::Exact(exact), _) => exact.add(text.into(), at, ignore_case),
            (Set::Prefixes(prefixes), _) => prefixes.add(text, at, ignore_case),
            (Set::Words(words), _) => words.push(Substring { text: text.into(), ignore_case }),
            (Set::Regexes(regexes), _) => regexes.push(Regex::new(readable(text)?, ignore_case)?),
        }
        self.len += 1;
        Ok(())
    }

    /// The number of the matching pattern: the most specific of prefixes and networks, the first of
    /// others.
    pub(crate) fn find(&self, value: Sample<'_>) -> Option<usize> {
        let value = value.cast(self.method.compares())?;
        match (&self.set, value) {
            (Set::Nothing, Sample::Bool(false)) => None,
            (Set::Nothing, _) => Some(0),
            (Set::Ranges(ranges), Sample::Int(value)) => ranges.find(value),
            (Set::Ranges(ranges), Sample::Text(text)) => {
                ranges.find(i64::try_from(text.len()).unwrap_or(i64::MAX))
            }
            (Set::Networks(networks), Sample::Address(address)) => networks.find(address),
            (Set::Exact(exact), Sample::Text(text) | Sample::Binary(text)) => exact.find(&text),
            (Set::Prefixes(prefixes), Sample::Text(text)) => prefixes.find(&text),
            (Set::Words(words), Sample::Text(text)) => {
                words.iter().position(|word| word.matches(self.method, &text))
            }
            (Set::Regexes(regexes), Sample::Text(text)) => {
                regexes.iter().position(|regex| regex.is_match(&text))
            }
            _ => None,
        }
    }

    /// The regex with this number.
    pub(crate) fn regex(&self, at: usize) -> Option<&Regex> {
        match &self.set {
            Set::Regexes(regexes) => regexes.get(at),
            _ => None,
        }
    }
}

/// Converts a numeric comparison to a pattern: `gt 5` becomes `6:`.
pub(crate) fn comparison(
    method: MatchMethod,
    operator: &str,
    text: &str,
) -> Result<String, String> {
    let range = match method {
        MatchMethod::Version => range::version(text)?,
        _ => range::number(text)?,
    };
    let range = range::compare(operator, range)?;
    Ok(match method {
        MatchMethod::Version => range::version_text(range),
        _ => range::number_text(range),
    })
}

fn readable(text: &[u8]) -> Result<&str, String> {
    str::from_utf8(text)
        .map_err(|_| format!("'{}' is not valid UTF-8", String::from_utf8_lossy(text)))
}

const METHODS: &[(&str, MatchMethod)] = &[
    ("found", MatchMethod::Found),
    ("bool", MatchMethod::Bool),
    ("int", MatchMethod::Int),
    ("ip", MatchMethod::Ip),
    ("bin", MatchMethod::Bin),
    ("len", MatchMethod::Len),
    ("str", MatchMethod::Str),
    ("beg", MatchMethod::Beg),
    ("sub", MatchMethod::Sub),
    ("dir", MatchMethod::Dir),
    ("dom", MatchMethod::Dom),
    ("end", MatchMethod::End),
    ("reg", MatchMethod::Reg),
];
