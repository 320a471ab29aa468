//! What follows the address of a `bind` or `server` line: tables of parameters.

pub(crate) mod bind;
pub(crate) mod server;

mod certificates;

use fulmar_rules::{Fault, Word};

use crate::line::Line;
use crate::table::{self, Keyword, Unsupported};

/// Reads all parameters of a line. One that is not known is told, and those behind it are read.
pub(crate) fn read<T>(
    draft: &mut T,
    line: &mut Line<'_>,
    rows: &'static [Keyword<T>],
    accepted: &[(&str, usize)],
    unsupported: &[(Unsupported, usize)],
    what: &str,
) -> Result<(), Fault> {
    while let Some(word) = line.words.next() {
        let word = std::slice::from_ref(word);
        if let Some((row, _)) = table::find(&[rows], word) {
            (row.read)(draft, line)?;
            continue;
        }
        let name = &word[0].text;
        if let Some((_, values)) = accepted.iter().find(|(other, _)| other == name) {
            skip(line, *values)?;
            continue;
        }
        line.complain(unknown(word, rows, unsupported, what));
        if let Some((_, values)) = unsupported.iter().find(|((other, _), _)| other == name) {
            skip(line, *values)?;
        }
    }
    Ok(())
}

fn unknown<T>(
    word: &[Word],
    rows: &'static [Keyword<T>],
    unsupported: &[(Unsupported, usize)],
    what: &str,
) -> Fault {
    let reasons: Vec<Unsupported> = unsupported.iter().map(|(reason, _)| *reason).collect();
    table::unknown(word, what, rows.iter().map(|row| row.name), &reasons)
}

fn skip(line: &mut Line<'_>, values: usize) -> Result<(), Fault> {
    for _ in 0..values {
        line.word("a value")?;
    }
    Ok(())
}
