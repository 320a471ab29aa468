//! The table of converters: what makes other values of values (HAProxy's manual, §7.3.1).
//!
//! A converter is one row and one small function, which gets a value of the type that the row
//! says. The rows stand in the file of their subject; all of them together are the table.

mod numbers;
mod text;

use crate::args::{Args, Takes};
use crate::nearest;
use crate::sample::{Sample, Type};
use crate::subject::Subject;

/// A converter.
#[derive(Clone, Copy, Debug)]
pub struct Converter {
    /// Its names, that of today first.
    pub names: &'static [&'static str],
    /// Its arguments.
    pub takes: Takes,
    /// What it takes.
    pub input: Type,
    /// What it makes of it; any: what it took.
    pub output: Type,
    /// What is wrong with arguments beyond their kinds.
    pub(crate) check: Option<fn(&Args) -> Result<(), String>>,
    pub(crate) run: Run,
}

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

    const fn checked(self, check: fn(&Args) -> Result<(), String>) -> Self {
        Self { check: Some(check), ..self }
    }

    /// The type of what comes out, if `kind` goes in.
    pub(crate) fn output_of(&self, kind: Type) -> Type {
        match self.output {
            Type::Any => kind,
            output => output,
        }
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
    nearest::unknown("converter", name, all().flat_map(|it| it.names.iter().copied()))
}

const TABLES: &[&[Converter]] = &[text::TABLE, numbers::TABLE];
