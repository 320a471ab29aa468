//! Diagnostics of a configuration: all errors, warnings and notices, with their positions.

use std::fmt::{self, Display, Write as _};

use crate::model::Position;
use crate::rules::WordError;

/// An error, a warning or a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// Position; `None` if it concerns no single line.
    pub place: Option<Position>,
    /// Column of the word, in bytes from 1.
    pub column: Option<u32>,
    /// The message.
    pub message: String,
    /// The source line, for display.
    pub line: Option<String>,
}

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// For information.
    Notice,
    /// The configuration is usable, but probably not as intended.
    Warning,
    /// The configuration cannot be used.
    Alert,
}

/// All diagnostics of an invalid configuration, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostic {
    /// Formats as HAProxy does, followed by the line and a mark below the word: `[ALERT]    (123) :
    /// config : parsing [file:4:9] : …`.
    pub fn report(&self, process: u32) -> String {
        let label = match self.severity {
            Severity::Notice => "[NOTICE]  ",
            Severity::Warning => "[WARNING] ",
            Severity::Alert => "[ALERT]   ",
        };
        format!("{label} ({process}) : config : {self}")
    }

    pub(crate) fn at(severity: Severity, place: &Position, line: &str, fault: WordError) -> Self {
        Self {
            severity,
            place: Some(place.clone()),
            column: Some(fault.column),
            message: fault.message,
            line: Some(line.to_owned()),
        }
    }

    pub(crate) fn about(severity: Severity, place: Option<Position>, message: String) -> Self {
        Self { severity, place, column: None, message, line: None }
    }
}

impl Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.place, self.column) {
            (Some(place), Some(column)) => {
                write!(f, "parsing [{}:{}:{column}] : ", place.file, place.line)?;
            }
            (Some(place), None) => write!(f, "[{}:{}] : ", place.file, place.line)?,
            (None, _) => {}
        }
        f.write_str(&self.message)?;
        match (&self.line, self.column) {
            (Some(line), Some(column)) => excerpt(line, column, f),
            _ => Ok(()),
        }
    }
}

/// The part of a line around a column, and a mark below that column.
fn excerpt(line: &str, column: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let at = (column as usize).saturating_sub(1).min(line.len());
    let mut at = at;
    while !line.is_char_boundary(at) {
        at -= 1;
    }
    let (before, after) = line.split_at(at);
    let skipped = before.chars().count().saturating_sub(BEFORE_MAX);
    let before: String = before.chars().skip(skipped).map(shown).collect();
    let after: String = after.chars().take(AFTER_MAX).map(shown).collect();
    let mut mark = String::new();
    before.chars().for_each(|_| mark.push(' '));
    mark.write_char('^')?;
    write!(f, "\n  | {before}{after}\n  | {mark}")
}

/// Replaces characters that are not exactly one column wide.
fn shown(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

impl Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, diagnostic) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_char('\n')?;
            }
            let label = match diagnostic.severity {
                Severity::Notice => "notice: ",
                Severity::Warning => "warning: ",
                Severity::Alert => "",
            };
            write!(f, "{label}{diagnostic}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// Maximum length shown before and after the column.
const BEFORE_MAX: usize = 60;
const AFTER_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_shows_the_line_and_marks_the_word() {
        let place = Position { file: "a.cfg".into(), line: 3 };
        let fault = WordError::new(9, "not so");
        let diagnostic = Diagnostic::at(Severity::Alert, &place, "\tmode\tä xyz", fault);
        assert_eq!(
            diagnostic.report(7),
            "[ALERT]    (7) : config : parsing [a.cfg:3:9] : not so\n  |  mode ä xyz\n  |        ^"
        );
    }

    #[test]
    fn any_column_of_any_line_can_be_shown() {
        let place = Position { file: "a.cfg".into(), line: 1 };
        for line in ["", "ääää", &"ä".repeat(500)] {
            for column in 0..1100 {
                let fault = WordError::new(column, "");
                assert!(
                    !Diagnostic::at(Severity::Notice, &place, line, fault).to_string().is_empty()
                );
            }
        }
    }
}
