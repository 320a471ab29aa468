//! Parsing of values: times, numbers, addresses, syslog names, cipher names.

pub(crate) mod address;
pub(crate) mod ciphers;
pub(crate) mod syslog;
mod time;

use crate::rules::{Word, WordError};

pub(crate) use time::{TimeUnit, duration};

/// An unsigned number from `min` to `max`.
///
/// # Errors
/// It is not a number, or not in the range.
pub(crate) fn number<T>(word: &Word, min: T, max: T) -> Result<T, WordError>
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display,
{
    let value = word.text.parse::<T>().ok().filter(|value| *value >= min && *value <= max);
    value.ok_or_else(|| {
        let message = format!("'{}': expected a number from {min} to {max}", word.text);
        WordError::new(word.column, message)
    })
}

/// One of several words.
///
/// # Errors
/// It is none of them.
pub(crate) fn one_of<T: Copy>(
    word: &Word,
    what: &str,
    known: &[(&str, T)],
) -> Result<T, WordError> {
    let found = known.iter().find(|(name, _)| *name == word.text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let names = names.join(", ");
        WordError::new(
            word.column,
            format!("unknown {what} '{}', expected one of {names}", word.text),
        )
    })
}
