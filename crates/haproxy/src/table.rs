//! Tables of keywords, and how a line finds its row.

use crate::line::Line;
use crate::rules::{Fault, Word};

/// A row: a keyword, where it may stand, what follows it, what it does, and who reads it.
#[derive(Debug)]
pub(crate) struct Keyword<T> {
    /// One word or several, with one space between them.
    pub(crate) name: &'static str,
    /// Where it may stand.
    pub(crate) sections: Sections,
    /// What follows, for people: `<time>`.
    pub(crate) follows: &'static str,
    /// What it does, for people.
    pub(crate) about: &'static str,
    /// Reads what follows.
    pub(crate) read: Read<T>,
}

/// Reads the words behind a keyword into what is made of a section.
pub(crate) type Read<T> = fn(&mut T, &mut Line<'_>) -> Result<(), Fault>;

/// A set of places where a keyword may stand.
pub(crate) type Sections = u8;

/// `defaults`.
pub(crate) const DEFAULTS: Sections = 1;
/// `frontend`, and `listen`.
pub(crate) const FRONTEND: Sections = 2;
/// `backend`, and `listen`.
pub(crate) const BACKEND: Sections = 4;
/// It can be taken back: `no` and `default` may stand in front of it.
pub(crate) const NO: Sections = 8;
/// In `defaults`, but only those with a name.
pub(crate) const NAMED: Sections = 16;
/// In the wrong kind of proxy it is an error; others are left out there with a warning.
pub(crate) const STRICT: Sections = 32;
/// It means nothing without `mode http`.
pub(crate) const HTTP: Sections = 64;

/// `defaults`, `frontend`, `listen`.
pub(crate) const FRONT: Sections = DEFAULTS | FRONTEND;
/// `defaults`, `listen`, `backend`.
pub(crate) const BACK: Sections = DEFAULTS | BACKEND;
/// All kinds of proxies.
pub(crate) const BOTH: Sections = DEFAULTS | FRONTEND | BACKEND;

/// A keyword of HAProxy's that is not supported, and why, or what to do instead.
pub(crate) type Unsupported = (&'static str, &'static str);

/// A row of a table of keywords.
pub(crate) const fn row<T>(
    name: &'static str,
    sections: Sections,
    follows: &'static str,
    about: &'static str,
    read: Read<T>,
) -> Keyword<T> {
    Keyword { name, sections, follows, about, read }
}

/// The row of the longest keyword that a line begins with, and of how many words it is.
pub(crate) fn find<'t, T>(
    tables: &[&'t [Keyword<T>]],
    words: &[Word],
) -> Option<(&'t Keyword<T>, usize)> {
    let rows = tables.iter().flat_map(|table| table.iter());
    let found = rows.filter_map(|row| begins(row.name, words).map(|len| (row, len)));
    found.max_by_key(|(_, len)| *len)
}

/// The longest of some names that a line begins with.
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

/// A fault that says that the words are no keyword, what HAProxy would make of them, and what is
/// near.
pub(crate) fn unknown<'t>(
    words: &[Word],
    what: &str,
    known: impl Iterator<Item = &'t str> + Clone,
    unsupported: &[Unsupported],
) -> Fault {
    let column = words.first().map_or(1, |word| word.column);
    if let Some((name, _)) = find_name(unsupported.iter().map(|(name, _)| *name), words) {
        let why = unsupported.iter().find(|(other, _)| *other == name).map_or("", |(_, why)| *why);
        return Fault::unknown(column, format!("'{name}' is not supported: {why}"));
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
    Fault::unknown(column, format!("'{written}' is not a {what}{near}"))
}

/// The name that a misspelt one probably was to be.
pub(crate) fn nearest<'t>(written: &str, known: impl Iterator<Item = &'t str>) -> Option<&'t str> {
    if written.len() > WRITTEN_MAX {
        return None;
    }
    let distances = known.map(|name| (strsim::damerau_levenshtein(written, name), name));
    let near = distances.min_by_key(|(distance, _)| *distance);
    near.filter(|(distance, name)| *distance <= 1 + name.len() / 4).map(|(_, name)| name)
}

/// Longer words are no misspelt keywords; to compare them would take long.
const WRITTEN_MAX: usize = 64;
