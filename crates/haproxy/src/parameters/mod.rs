//! Parameters after the address of a `bind` or `server` line.

pub(crate) mod bind;
pub(crate) mod server;
pub(crate) mod tls;

mod certificates;

use crate::keyword_table::{self, Keyword, Unsupported};
use crate::line::KeywordLine;
use crate::rules::{Word, WordError};

/// Parses all parameters of a line. An unknown one is reported, and parsing continues.
pub(crate) fn read<T>(
    draft: &mut T,
    line: &mut KeywordLine<'_>,
    tables: &'static [&'static [Keyword<T>]],
    accepted: &[(&str, usize)],
    unsupported: &[(Unsupported, usize)],
    what: &str,
) -> Result<(), WordError> {
    while let Some(word) = line.words.next() {
        let word = std::slice::from_ref(word);
        if let Some((row, _)) = keyword_table::find(tables, word) {
            (row.read)(draft, line)?;
            continue;
        }
        let name = &word[0].text;
        if let Some((_, values)) = accepted.iter().find(|(other, _)| other == name) {
            skip(line, *values)?;
            continue;
        }
        line.report_error(unknown(word, tables, unsupported, what));
        if let Some((_, values)) = unsupported.iter().find(|((other, _), _)| other == name) {
            skip(line, *values)?;
        }
    }
    Ok(())
}

fn unknown<T>(
    word: &[Word],
    tables: &'static [&'static [Keyword<T>]],
    unsupported: &[(Unsupported, usize)],
    what: &str,
) -> WordError {
    let reasons: Vec<Unsupported> = unsupported.iter().map(|(reason, _)| *reason).collect();
    let names = tables.iter().flat_map(|rows| rows.iter()).map(|row| row.name);
    keyword_table::unknown(word, what, names, &reasons)
}

/// `proto`: the protocol without negotiation.
fn proto<T>(_draft: &mut T, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("h1")?;
    match &*word.text {
        "h1" | "none" => Ok(()),
        other => Err(WordError::unknown(
            word.column,
            format!("unsupported protocol '{other}', expected 'h1'"),
        )),
    }
}

fn skip(line: &mut KeywordLine<'_>, values: usize) -> Result<(), WordError> {
    for _ in 0..values {
        line.word("a value")?;
    }
    Ok(())
}
