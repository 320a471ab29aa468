//! `balance` and `hash-type`.

use crate::compile;
use crate::draft::ProxyDraft;
use crate::keyword_table::{BACK, Keyword, row};
use crate::line::KeywordLine;
use crate::model::{BalanceAlgorithm, HashFunction, HashKind};
use crate::rules::{Word, WordError};
use crate::values::{number, one_of};

pub(super) const ROWS: &[Keyword<ProxyDraft>] = &[
    row(
        "balance",
        BACK,
        "roundrobin | static-rr | leastconn | first | source | uri ... | url_param <name> | \
         hdr(<name>) | hash <expression> | random[(<draws>)]",
        "load balancing algorithm",
        balance,
    ),
    row(
        "hash-type",
        BACK,
        "map-based | consistent [sdbm | djb2 | wt6 | crc32] [avalanche]",
        "mapping from hashes to servers",
        hash_type,
    ),
    row(
        "hash-balance-factor",
        BACK,
        "<percent>",
        "maximum load of a server in percent of the mean",
        balance_factor,
    ),
];

fn balance(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let Some(word) = line.words.next() else {
        draft.backend.algorithm = BalanceAlgorithm::RoundRobin;
        return Ok(());
    };
    let (name, argument) = match word.text.split_once('(') {
        Some((name, argument)) => (name, argument.strip_suffix(')')),
        None => (&*word.text, None),
    };
    draft.backend.algorithm = match (name, argument) {
        ("roundrobin", None) => BalanceAlgorithm::RoundRobin,
        ("static-rr", None) => BalanceAlgorithm::StaticRoundRobin,
        ("leastconn", None) => BalanceAlgorithm::LeastConnections,
        ("first", None) => BalanceAlgorithm::First,
        ("source", None) => BalanceAlgorithm::Source,
        ("uri", None) => uri(line)?,
        ("url_param", None) => url_param(line)?,
        ("hdr", Some(name)) if !name.is_empty() => {
            let domain_only = line.words.take("use_domain_only");
            BalanceAlgorithm::Field { name: name.to_owned(), domain_only }
        }
        ("hash", None) => {
            let word = line.word("an expression")?;
            BalanceAlgorithm::Hash(compile::expression(&word, line)?)
        }
        ("random", None) => BalanceAlgorithm::Random { draws: DRAWS },
        ("random", Some(draws)) => {
            let word = Word { text: draws.to_owned(), column: word.column };
            BalanceAlgorithm::Random { draws: number(&word, 1, DRAWS_MAX)? }
        }
        ("rdp-cookie", name) => {
            let text = format!("req.rdp_cookie({})", name.unwrap_or(RDP_COOKIE));
            BalanceAlgorithm::Hash(compile::expression(&Word { text, column: word.column }, line)?)
        }
        _ => {
            let message = format!(
                "unknown balance algorithm '{}', expected one of roundrobin, static-rr, leastconn, \
                 first, source, uri, url_param, hdr(name), rdp-cookie(name), hash and random",
                word.text
            );
            return Err(WordError::new(word.column, message));
        }
    };
    Ok(())
}

fn uri(line: &mut KeywordLine<'_>) -> Result<BalanceAlgorithm, WordError> {
    let (mut whole, mut path_only, mut len, mut depth) = (false, false, None, None);
    while let Some(word) = line.words.next() {
        let positive =
            |line: &mut KeywordLine<'_>| number(&line.word("a number")?, 1, usize::MAX / 2);
        match &*word.text {
            "whole" => whole = true,
            "path-only" => path_only = true,
            "len" => len = Some(positive(line)?),
            "depth" => depth = Some(positive(line)?),
            other => {
                let message = format!("'{other}': expected 'whole', 'path-only', 'len' or 'depth'");
                return Err(WordError::new(word.column, message));
            }
        }
    }
    Ok(BalanceAlgorithm::Uri { whole, len, depth, path_only })
}

fn url_param(line: &mut KeywordLine<'_>) -> Result<BalanceAlgorithm, WordError> {
    let name = line.word("the name of a parameter")?.text;
    if let Some(word) = line.words.next() {
        let message = format!("'{}' is not supported: request bodies are not parsed", word.text);
        return Err(WordError::unknown(word.column, message));
    }
    Ok(BalanceAlgorithm::UrlParameter(name))
}

fn hash_type(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("map-based or consistent")?;
    let consistent = one_of(&word, "hash type", &[("consistent", true), ("map-based", false)])?;
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

fn balance_factor(draft: &mut ProxyDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("a percentage")?;
    let factor = number(&word, 0, 65_535)?;
    if (1..=100).contains(&factor) {
        let message = "expected 0 (unlimited) or a number above 100";
        return Err(WordError::new(word.column, message));
    }
    draft.backend.hash.balance_factor = factor;
    Ok(())
}

/// The cookie with the user name (MS-RDPBCGR, §2.2.1.1).
const RDP_COOKIE: &str = "mstshash";

/// HAProxy's default.
const DRAWS: u32 = 2;

/// More draws would compare nearly all servers.
const DRAWS_MAX: u32 = 1000;
