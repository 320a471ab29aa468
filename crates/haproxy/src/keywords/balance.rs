//! `balance` and `hash-type`.

use crate::compile;
use crate::draft::Draft;
use crate::line::Line;
use crate::model::{Algorithm, HashFunction, HashKind};
use crate::rules::{Fault, Word};
use crate::table::{BACK, Keyword, row};
use crate::values::{number, one_of};

pub(super) const ROWS: &[Keyword<Draft>] = &[
    row(
        "balance",
        BACK,
        "roundrobin | static-rr | leastconn | first | source | uri ... | url_param <name> | \
         hdr(<name>) | hash <expression> | random[(<draws>)]",
        "how a server is chosen",
        balance,
    ),
    row(
        "hash-type",
        BACK,
        "map-based | consistent [sdbm | djb2 | wt6 | crc32] [avalanche]",
        "how a hash leads to a server",
        hash_type,
    ),
    row(
        "hash-balance-factor",
        BACK,
        "<percent>",
        "how much more than the mean a server may have",
        balance_factor,
    ),
];

fn balance(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    let Some(word) = line.words.next() else {
        draft.backend.algorithm = Algorithm::RoundRobin;
        return Ok(());
    };
    let (name, argument) = match word.text.split_once('(') {
        Some((name, argument)) => (name, argument.strip_suffix(')')),
        None => (&*word.text, None),
    };
    draft.backend.algorithm = match (name, argument) {
        ("roundrobin", None) => Algorithm::RoundRobin,
        ("static-rr", None) => Algorithm::StaticRoundRobin,
        ("leastconn", None) => Algorithm::LeastConnections,
        ("first", None) => Algorithm::First,
        ("source", None) => Algorithm::Source,
        ("uri", None) => uri(line)?,
        ("url_param", None) => url_param(line)?,
        ("hdr", Some(name)) if !name.is_empty() => {
            let domain_only = line.words.take("use_domain_only");
            Algorithm::Field { name: name.to_owned(), domain_only }
        }
        ("hash", None) => {
            let word = line.word("an expression")?;
            Algorithm::Hash(compile::expression(&word, line)?)
        }
        ("random", None) => Algorithm::Random { draws: DRAWS },
        ("random", Some(draws)) => {
            let word = Word { text: draws.to_owned(), column: word.column };
            Algorithm::Random { draws: number(&word, "how many are drawn", 1, DRAWS_MAX)? }
        }
        ("rdp-cookie", name) => {
            let text = format!("req.rdp_cookie({})", name.unwrap_or(RDP_COOKIE));
            Algorithm::Hash(compile::expression(&Word { text, column: word.column }, line)?)
        }
        _ => {
            let message = format!(
                "'{}' is no way to choose a server; there are roundrobin, static-rr, leastconn, \
                 first, source, uri, url_param, hdr(name), rdp-cookie(name), hash and random",
                word.text
            );
            return Err(Fault::new(word.column, message));
        }
    };
    Ok(())
}

fn uri(line: &mut Line<'_>) -> Result<Algorithm, Fault> {
    let (mut whole, mut path_only, mut len, mut depth) = (false, false, None, None);
    while let Some(word) = line.words.next() {
        let positive =
            |line: &mut Line<'_>| number(&line.word("a number")?, "it", 1, usize::MAX / 2);
        match &*word.text {
            "whole" => whole = true,
            "path-only" => path_only = true,
            "len" => len = Some(positive(line)?),
            "depth" => depth = Some(positive(line)?),
            other => {
                let message = format!("'{other}': here may stand whole, path-only, len, depth");
                return Err(Fault::new(word.column, message));
            }
        }
    }
    Ok(Algorithm::Uri { whole, len, depth, path_only })
}

fn url_param(line: &mut Line<'_>) -> Result<Algorithm, Fault> {
    let name = line.word("the name of a parameter")?.text;
    if let Some(word) = line.words.next() {
        let message = format!("'{}' is not supported here: bodies are not looked into", word.text);
        return Err(Fault::unknown(word.column, message));
    }
    Ok(Algorithm::UrlParameter(name))
}

fn hash_type(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    let word = line.word("map-based or consistent")?;
    let consistent = one_of(&word, "kind of hash", &[("consistent", true), ("map-based", false)])?;
    let mut kind = HashKind { consistent, ..draft.backend.hash };
    kind.function = HashFunction::default();
    kind.avalanche = false;
    if !line.words.is_empty() {
        let known = [
            ("sdbm", HashFunction::Sdbm),
            ("djb2", HashFunction::Djb2),
            ("wt6", HashFunction::Wt6),
            ("crc32", HashFunction::Crc32),
        ];
        kind.function = one_of(&line.word("a function")?, "hash function", &known)?;
        kind.avalanche = line.words.take("avalanche");
    }
    draft.backend.hash = kind;
    Ok(())
}

fn balance_factor(draft: &mut Draft, line: &mut Line<'_>) -> Result<(), Fault> {
    let word = line.word("a number of percent")?;
    let factor = number(&word, "it", 0, 65_535)?;
    if (1..=100).contains(&factor) {
        let message = "it is 0, which is no bound, or more than 100 percent";
        return Err(Fault::new(word.column, message));
    }
    draft.backend.hash.balance_factor = factor;
    Ok(())
}

/// The cookie that names the user (MS-RDPBCGR, §2.2.1.1).
const RDP_COOKIE: &str = "mstshash";

/// As HAProxy draws.
const DRAWS: u32 = 2;

/// More draws are a look at everything.
const DRAWS_MAX: u32 = 1000;
