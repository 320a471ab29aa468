//! The table of converters: what makes other values of values (HAProxy's manual, §7.3.1).
//!
//! A converter is one row and one small function, which gets a value of the type that the row
//! says. The rows stand in the file of their subject; all of them together are the table.

mod address;
mod coding;
mod dates;
mod digest;
mod json;
mod maps;
mod numbers;
mod text;

use crate::rules::args::{Args, Takes};
use crate::rules::nearest;
use crate::rules::sample::{Sample, Type};
use crate::rules::subject::Subject;

/// A converter.
#[derive(Clone, Copy, Debug)]
pub struct Converter {
    /// Its names, that of today first.
    pub names: &'static [&'static str],
    /// Its arguments.
    pub takes: Takes,
    /// What it takes.
    pub input: Type,
    /// What it makes of it.
    pub output: Type,
    pub(crate) check: Option<Check>,
    pub(crate) run: Run,
}

/// Says what is wrong with arguments beyond their kinds, or makes of them what is needed later.
pub(crate) type Check = fn(&mut Args) -> Result<(), String>;

/// Makes a value of a value.
pub(crate) type Run = for<'a> fn(Sample<'a>, &'a Args, &'a dyn Subject) -> Option<Sample<'a>>;

impl Converter {
    const fn new(
        names: &'static [&'static str],
        takes: Takes,
        input: Type,
        output: Type,
        run: Run,
    ) -> Self {
        Self { names, takes, input, output, check: None, run }
    }

    const fn checked(self, check: Check) -> Self {
        Self { check: Some(check), ..self }
    }
}

/// All converters.
pub fn all() -> impl Iterator<Item = &'static Converter> {
    TABLES.iter().copied().flatten()
}

/// The converter with this name.
pub(crate) fn find(name: &str) -> Option<&'static Converter> {
    all().find(|converter| converter.names.contains(&name))
}

/// What to say of a name that is none.
pub(crate) fn unknown(name: &str) -> String {
    if let Some((_, why)) = ABSENT.iter().find(|(absent, _)| name.starts_with(absent)) {
        return format!("there is no converter '{name}': {why}");
    }
    nearest::unknown("converter", name, all().flat_map(|it| it.names.iter().copied()))
}

const TABLES: &[&[Converter]] = &[
    text::TABLE,
    numbers::TABLE,
    coding::TABLE,
    json::TABLE,
    digest::TABLE,
    dates::TABLE,
    address::TABLE,
    maps::TABLE,
];

/// Converters of HAProxy that are not there: how their names begin, and what to do instead.
const ABSENT: &[(&str, &str)] = &[
    ("in_table", "there are no stick tables"),
    ("table_", "there are no stick tables"),
    ("set-var", "write a rule of its own: http-request set-var(name) expression"),
    ("unset-var", "write a rule of its own: http-request unset-var(name)"),
    ("capture-re", "declare what is captured: capture request header"),
    ("language", "hold req.hdr(accept-language) against patterns"),
    ("jwt_", "tokens are not looked into"),
    ("aes_gcm", "nothing is deciphered"),
    ("protobuf", "messages of this kind are not read"),
    ("ungrpc", "messages of this kind are not read"),
    ("fix_", "messages of this kind are not read"),
    ("mqtt_", "messages of this kind are not read"),
    ("debug", "log what is needed with log-format"),
];
