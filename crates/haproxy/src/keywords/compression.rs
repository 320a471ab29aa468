//! `compression`, `filter`: optimizations that can be ignored.

use crate::draft::ProxyDraft;
use crate::keyword_table::{BOTH, HTTP, Keyword, STRICT, row};
use crate::line::KeywordLine;
use crate::rules::WordError;
use crate::values::one_of;

pub(super) const ROWS: &[Keyword<ProxyDraft>] = &[
    row(
        "compression",
        BOTH | HTTP,
        "algo | type | offload ...",
        "no effect: responses are not compressed",
        compression,
    ),
    row(
        "filter",
        BOTH | STRICT,
        "compression | cache <name>",
        "no effect: responses are not compressed",
        filter,
    ),
];

fn compression(_draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("algo, type or offload")?;
    match &*word.text {
        "algo" => {
            line.words.clone().expect("an algorithm")?;
            for word in line.words.rest() {
                one_of(word, "algorithm", ALGORITHMS)?;
            }
        }
        "type" => {
            line.words.clone().expect("a type")?;
            line.words.rest();
        }
        "offload" => {}
        other => {
            let message = format!("'{other}': expected 'algo', 'type' or 'offload'");
            return Err(WordError::new(word.column, message));
        }
    }
    line.warn(word.column, "compression is not supported: let the server compress");
    Ok(())
}

fn filter(_draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("a filter")?;
    let message = match &*word.text {
        "compression" => "compression is not supported: let the server compress",
        "cache" => {
            line.word("the name of a cache")?;
            "caching is not supported"
        }
        other => {
            let message = format!("unknown filter '{other}'");
            return Err(WordError::unknown(word.column, message));
        }
    };
    line.warn(word.column, message);
    Ok(())
}

const ALGORITHMS: &[(&str, ())] =
    &[("identity", ()), ("gzip", ()), ("deflate", ()), ("raw-deflate", ())];
