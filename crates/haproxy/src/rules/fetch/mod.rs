//! The table of fetches: where values come from (HAProxy's manual, §7.3.2 to §7.3.6).
//!
//! A fetch is one row and one small function. The rows stand in the file of their subject; all of
//! them together are the table.

mod body;
mod certificate;
mod connection;
mod constant;
mod cookies;
mod credentials;
mod fields;
mod payload;
mod query;
mod request;
mod state;

pub use certificate::common_name;

use std::ops::ControlFlow;

use crate::rules::args::{Args, Takes};
use crate::rules::lists::Files;
use crate::rules::nearest;
use crate::rules::sample::{Sample, Type};
use crate::rules::subject::{Fact, Subject};
use crate::rules::when::Phase;

/// A fetch.
#[derive(Clone, Copy, Debug)]
pub struct Fetch {
    /// Its names, that of today first.
    pub names: &'static [&'static str],
    /// Its arguments.
    pub takes: Takes,
    /// The type of its value.
    pub kind: Type,
    /// When there is one.
    pub phase: Phase,
    pub(crate) take: Take,
    /// What it asks the proxy about on the way, so that names in it can be checked.
    pub(crate) about: Option<fn(&Args) -> Fact>,
}

/// How a value is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Take {
    /// Once, while the configuration is read.
    Constant(fn(&Args, &dyn Files) -> Result<Option<Sample<'static>>, String>),
    /// From what the proxy knows.
    Fact(fn(&Args) -> Fact),
    /// From the subject.
    One(for<'a> fn(&'a Args, &'a dyn Subject) -> Option<Sample<'a>>),
    /// There may be several: a condition looks at all of them, everybody else at one.
    Each(Each, Which),
    /// From bytes that are still arriving.
    Peek(for<'a> fn(&'a Args, &'a dyn Subject) -> Peeked<'a>),
}

/// Shows one value after the other, until it is told to stop; `None` is one without a meaning.
pub(crate) type Each = for<'a> fn(
    &'a Args,
    &'a dyn Subject,
    &mut dyn FnMut(Option<Sample<'a>>) -> ControlFlow<()>,
) -> ControlFlow<()>;

/// Which of several values counts, where one is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    First,
    Last,
    /// The last with the name that is the first argument; without a name, the first of all.
    LastNamed,
}

/// A value that may be another one when more bytes have arrived.
#[derive(Debug)]
pub(crate) struct Peeked<'a> {
    pub(crate) value: Option<Sample<'a>>,
    pub(crate) may_change: bool,
}

impl Which {
    /// Whether the next value is to be looked at.
    pub(crate) fn goes_on(self, args: &Args) -> ControlFlow<()> {
        match (self, args.text(0)) {
            (Self::First, _) | (Self::LastNamed, None) => ControlFlow::Break(()),
            (Self::Last, _) | (Self::LastNamed, Some(_)) => ControlFlow::Continue(()),
        }
    }
}

impl Fetch {
    const fn new(
        names: &'static [&'static str],
        takes: Takes,
        kind: Type,
        phase: Phase,
        take: Take,
    ) -> Self {
        let about = match take {
            Take::Fact(make) => Some(make),
            _ => None,
        };
        Self { names, takes, kind, phase, take, about }
    }

    const fn about(self, about: fn(&Args) -> Fact) -> Self {
        Self { about: Some(about), ..self }
    }
}

/// All fetches.
pub fn all() -> impl Iterator<Item = &'static Fetch> {
    TABLES.iter().copied().flatten()
}

/// The fetch with this name.
pub(crate) fn find(name: &str) -> Option<&'static Fetch> {
    all().find(|fetch| fetch.names.contains(&name))
}

/// What to say of a name that is none; `more` are names that would do as well.
pub(crate) fn unknown(name: &str, more: impl Iterator<Item = &'static str>) -> String {
    if let Some((_, why)) = ABSENT.iter().find(|(absent, _)| name.starts_with(absent)) {
        return format!("there is no fetch '{name}': {why}");
    }
    let names = all().flat_map(|fetch| fetch.names.iter().copied());
    nearest::unknown("fetch", name, names.chain(more))
}

const TABLES: &[&[Fetch]] = &[
    request::TABLE,
    query::TABLE,
    fields::TABLE,
    cookies::TABLE,
    credentials::TABLE,
    body::TABLE,
    connection::TABLE,
    certificate::TABLE,
    payload::TABLE,
    state::TABLE,
    constant::TABLE,
];

/// Fetches of HAProxy that are not there: how their names begin, and why.
const ABSENT: &[(&str, &str)] = &[
    ("sc_", TABLES_ABSENT),
    ("sc0_", TABLES_ABSENT),
    ("sc1_", TABLES_ABSENT),
    ("sc2_", TABLES_ABSENT),
    ("src_bytes_", TABLES_ABSENT),
    ("src_clr_", TABLES_ABSENT),
    ("src_conn_", TABLES_ABSENT),
    ("src_get_", TABLES_ABSENT),
    ("src_gpc", TABLES_ABSENT),
    ("src_http_", TABLES_ABSENT),
    ("src_inc_", TABLES_ABSENT),
    ("src_kbytes_", TABLES_ABSENT),
    ("src_sess_", TABLES_ABSENT),
    ("src_updt_", TABLES_ABSENT),
    ("table_", TABLES_ABSENT),
    ("internal.", "it tells of the inside of another program"),
    ("lua.", "there is no Lua"),
    ("fcgi.", "there is no FastCGI"),
    ("distcc_", "messages of this kind are not read"),
];

const TABLES_ABSENT: &str = "there are no stick tables";
