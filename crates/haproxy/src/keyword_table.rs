//! Tables of keywords, and their lookup.

use crate::line::KeywordLine;
use crate::rules::{Word, WordError};

/// A row: a keyword, its sections, its arguments, its description and its parser.
#[derive(Debug)]
pub(crate) struct Keyword<T> {
    /// One or several words, separated by one space.
    pub(crate) name: &'static str,
    /// The sections in which it is allowed.
    pub(crate) sections: Sections,
    /// Its arguments, for documentation: `<time>`.
    pub(crate) follows: &'static str,
    /// Its description, for documentation.
    pub(crate) about: &'static str,
    /// Parses its arguments.
    pub(crate) read: Read<T>,
}

/// Parses the words after a keyword into a draft.
pub(crate) type Read<T> = fn(&mut T, &mut KeywordLine<'_>) -> Result<(), WordError>;

/// A set of sections and properties.
pub(crate) type Sections = u8;

/// `defaults`.
pub(crate) const DEFAULTS: Sections = 1;
/// `frontend`, and `listen`.
pub(crate) const FRONTEND: Sections = 2;
/// `backend`, and `listen`.
pub(crate) const BACKEND: Sections = 4;
/// `no` and `default` are allowed before it.
pub(crate) const NO: Sections = 8;
/// In `defaults` sections with a name only.
pub(crate) const NAMED: Sections = 16;
/// An error in the wrong kind of proxy; other keywords are ignored there, with a warning.
pub(crate) const STRICT: Sections = 32;
/// Ignored without `mode http`.
pub(crate) const HTTP: Sections = 64;

/// `defaults`, `frontend`, `listen`.
pub(crate) const FRONT: Sections = DEFAULTS | FRONTEND;
/// `defaults`, `listen`, `backend`.
pub(crate) const BACK: Sections = DEFAULTS | BACKEND;
/// All kinds of proxies.
pub(crate) const BOTH: Sections = DEFAULTS | FRONTEND | BACKEND;

/// A keyword of HAProxy that is not supported, with the reason or an alternative.
pub(crate) type Unsupported = (&'static str, &'static str);

/// Creates a row.
pub(crate) const fn row<T>(
    name: &'static str,
    sections: Sections,
    follows: &'static str,
    about: &'static str,
    read: Read<T>,
) -> Keyword<T> {
    Keyword { name, sections, follows, about, read }
}

/// The row of the longest keyword at the start of a line, and its number of words.
pub(crate) fn find<'t, T>(
    tables: &[&'t [Keyword<T>]],
    words: &[Word],
) -> Option<(&'t Keyword<T>, usize)> {
    let rows = tables.iter().flat_map(|table| table.iter());
    let found = rows.filter_map(|row| begins(row.name, words).map(|len| (row, len)));
    found.max_by_key(|(_, len)| *len)
}

/// The longest of several names at the start of a line.
pub(crate) fn find_name<'t>(
    names: impl Iterator<Item = &'t str>,
    words: &[Word],
) -> Option<(&'t str, usize)> {
    names.filter_map(|name| begins(name, words).map(|len| (name, len))).max_by_key(|(_, len)| *len)
}

fn begins(name: &str, words: &[Word]) -> Option<usize> {
    let mut len = 0;
    for part in name.split(' ') {
        if words.get(len)?.text != part {
            return None;
        }
        len += 1;
    }
    Some(len)
}

/// The error for an unknown keyword: names the reason if HAProxy has it, or the most similar
/// keyword.
pub(crate) fn unknown<'t>(
    words: &[Word],
    what: &str,
    known: impl Iterator<Item = &'t str> + Clone,
    unsupported: &[Unsupported],
) -> WordError {
    let column = words.first().map_or(1, |word| word.column);
    if let Some((name, _)) = find_name(unsupported.iter().map(|(name, _)| *name), words) {
        let why = unsupported.iter().find(|(other, _)| *other == name).map_or("", |(_, why)| *why);
        return WordError::unknown(column, format!("'{name}' is not supported: {why}"));
    }
    let first = words.first().map_or("", |word| &word.text);
    let begins_several =
        known.clone().any(|name| name.split_once(' ').is_some_and(|(one, _)| one == first));
    let (column, written) = match words.get(1) {
        Some(second) if begins_several => (second.column, format!("{first} {}", second.text)),
        _ => (column, first.to_owned()),
    };
    let near = match nearest(&written, known) {
        Some(near) => format!("; did you mean '{near}'?"),
        None => String::new(),
    };
    WordError::unknown(column, format!("'{written}' is not a {what}{near}"))
}

/// The most similar name, for a misspelled one.
pub(crate) fn nearest<'t>(written: &str, known: impl Iterator<Item = &'t str>) -> Option<&'t str> {
    if written.len() > WRITTEN_MAX {
        return None;
    }
    let distances = known.map(|name| (strsim::damerau_levenshtein(written, name), name));
    let near = distances.min_by_key(|(distance, _)| *distance);
    near.filter(|(distance, name)| *distance <= 1 + name.len() / 4).map(|(_, name)| name)
}

/// Longer words are not compared: it would be slow.
const WRITTEN_MAX: usize = 64;
