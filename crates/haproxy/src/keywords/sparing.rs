//! `compression`, `filter`: what spares bytes on the way, and may be left out.

use crate::draft::Draft;
use crate::line::Line;
use crate::rules::Fault;
use crate::table::{BOTH, HTTP, Keyword, STRICT, row};
use crate::values::one_of;

pub(super) const ROWS: &[Keyword<Draft>] = &[
    row(
        "compression",
        BOTH | HTTP,
        "algo | type | offload ...",
        "read, and without effect: bodies go through as they are",
        compression,
    ),
    row(
        "filter",
        BOTH | STRICT,
        "compression | cache <name>",
        "read, and without effect: bodies go through as they are",
        filter,
    ),
];

fn compression(_draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
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
            let message = format!("'{other}': here may stand algo, type and offload");
            return Err(Fault::new(word.column, message));
        }
    }
    line.warn(word.column, "bodies go through as they are: let the server compress");
    Ok(())
}

fn filter(_draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    let word = line.word("a filter")?;
    let message = match &*word.text {
        "compression" => "bodies go through as they are: let the server compress",
        "cache" => {
            line.word("the name of a cache")?;
            "nothing is cached"
        }
        other => {
            let message = format!("there is no filter '{other}'");
            return Err(Fault::unknown(word.column, message));
        }
    };
    line.warn(word.column, message);
    Ok(())
}

const ALGORITHMS: &[(&str, ())] =
    &[("identity", ()), ("gzip", ()), ("deflate", ()), ("raw-deflate", ())];
