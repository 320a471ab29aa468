//! The tables of keywords. A keyword is a row and a parser function. HAProxy's other keywords are
//! in the lists of `known`.

mod backend;
mod balance;
mod check;
mod compression;
mod cookie;
mod errors;
mod frontend;
mod global;
mod known;
mod log;
mod option;
mod probes;
mod protocols;
mod rules;
mod states;
mod stats;
mod timeout;
mod tls;
mod userlist;

use crate::draft::{Globals, ProxyDraft};
use crate::keyword_table::Keyword;

pub(crate) use errors::HTTP_ERRORS;
pub(crate) use known::{UNSUPPORTED_GLOBAL, UNSUPPORTED_PROXY, accepted, read_accepted};
pub(crate) use states::{source as state_source, within as state_path};
pub(crate) use userlist::{ROWS as USERLIST, UserlistDraft};

/// Keywords of `global`.
pub(crate) const GLOBAL: &[&[Keyword<Globals>]] =
    &[global::ROWS, log::GLOBAL, states::GLOBAL, stats::GLOBAL, tls::ROWS];

/// Keywords of `defaults`, `frontend`, `listen` and `backend`.
pub(crate) const PROXY: &[&[Keyword<ProxyDraft>]] = &[
    frontend::ROWS,
    backend::ROWS,
    compression::ROWS,
    states::ROWS,
    timeout::ROWS,
    option::ROWS,
    probes::ROWS,
    rules::ROWS,
    balance::ROWS,
    cookie::ROWS,
    check::ROWS,
    protocols::ROWS,
    log::PROXY,
    errors::ROWS,
    stats::PROXY,
];
