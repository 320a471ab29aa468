//! The forms that values take: times, numbers, addresses, syslog's words, names of ciphers.

pub(crate) mod address;
pub(crate) mod ciphers;
pub(crate) mod syslog;
mod time;

use crate::rules::{Fault, Word};

pub(crate) use time::{Unit, duration};

/// A number without a sign, from `min` to `max`.
///
/// # Errors
/// It is none, or is out of this range.
pub(crate) fn number<T>(word: &Word, what: &str, min: T, max: T) -> Result<T, Fault>
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display,
{
    let value = word.text.parse::<T>().ok().filter(|value| *value >= min && *value <= max);
    value.ok_or_else(|| {
        let message = format!("'{}': {what} is a number from {min} to {max}", word.text);
        Fault::new(word.column, message)
    })
}

/// One of some words.
///
/// # Errors
/// It is none of them.
pub(crate) fn one_of<T: Copy>(word: &Word, what: &str, known: &[(&str, T)]) -> Result<T, Fault> {
    let found = known.iter().find(|(name, _)| *name == word.text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let names = names.join(", ");
        Fault::new(word.column, format!("'{}' is no {what}; there are: {names}", word.text))
    })
}
