//! The table of converters (HAProxy's manual, §7.3.1).
//!
//! A converter is one row and one function; its input has the type of the row. Rows are in the
//! files of their topic.

mod address;
mod coding;
mod dates;
mod digest;
mod json;
mod maps;
mod numbers;
mod text;

use crate::rules::args::{Args, Takes};
use crate::rules::eval_context::EvalContext;
use crate::rules::nearest;
use crate::rules::sample::{Sample, Type};

/// A converter.
#[derive(Clone, Copy, Debug)]
pub struct Converter {
    /// Its names, the current one first.
    pub names: &'static [&'static str],
    /// Its arguments.
    pub takes: Takes,
    /// The type of its input.
    pub input: Type,
    /// The type of its output.
    pub output: Type,
    pub(crate) check: Option<CheckFn>,
    pub(crate) run: ConvertFn,
}

/// Validates arguments beyond their types, or prepares them.
pub(crate) type CheckFn = fn(&mut Args) -> Result<(), String>;

/// Converts a value.
pub(crate) type ConvertFn =
    for<'a> fn(Sample<'a>, &'a Args, &'a dyn EvalContext) -> Option<Sample<'a>>;

impl Converter {
    const fn new(
        names: &'static [&'static str],
        takes: Takes,
        input: Type,
        output: Type,
        run: ConvertFn,
    ) -> Self {
        Self { names, takes, input, output, check: None, run }
    }

    const fn checked(self, check: CheckFn) -> Self {
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

/// The error for an unknown name.
pub(crate) fn unknown(name: &str) -> String {
    if let Some((_, why)) = ABSENT.iter().find(|(absent, _)| name.starts_with(absent)) {
        return format!("unsupported converter '{name}': {why}");
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

/// Converters of HAProxy that are not supported: prefixes of names, and alternatives.
const ABSENT: &[(&str, &str)] = &[
    ("in_table", "stick tables are not supported"),
    ("table_", "stick tables are not supported"),
    ("set-var", "use a separate rule: http-request set-var(name) expression"),
    ("unset-var", "use a separate rule: http-request unset-var(name)"),
    ("capture-re", "use 'capture request header'"),
    ("language", "match req.hdr(accept-language) against patterns"),
    ("jwt_", "JWT is not supported"),
    ("aes_gcm", "decryption is not supported"),
    ("protobuf", "this protocol is not supported"),
    ("ungrpc", "this protocol is not supported"),
    ("fix_", "this protocol is not supported"),
    ("mqtt_", "this protocol is not supported"),
    ("debug", "use 'log-format'"),
];
