//! A fetch with its arguments, and the converters behind it (HAProxy's manual, §7.3).

use crate::sample::Sample;
use crate::subject::Subject;
use crate::words::Fault;

/// A value to be taken from a [`Subject`], whenever it is asked for.
#[derive(Clone, Debug)]
pub struct Expression {
    text: String,
}

impl Expression {
    /// From one word of a configuration: `hdr(host),lower`.
    ///
    /// # Errors
    /// A fetch or converter is not known, or an argument is wrong.
    pub fn parse(text: &str, column: u32) -> Result<Self, Fault> {
        match text {
            "" => Err(Fault::new(column, "an expression is missing here")),
            text => Ok(Self { text: text.to_owned() }),
        }
    }

    /// The value; `None` if what it is taken from is not there.
    pub fn evaluate<'a>(&'a self, _subject: &'a dyn Subject) -> Option<Sample<'a>> {
        Some(Sample::Text(self.text.as_bytes().into()))
    }
}
