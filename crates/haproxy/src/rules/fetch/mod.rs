//! The table of fetches (HAProxy's manual, §7.3.2 to §7.3.6).
//!
//! A fetch is one row and one function. Rows are in the files of their topic.

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
use crate::rules::eval_context::{EvalContext, Fact};
use crate::rules::lists::ConfigFiles;
use crate::rules::nearest;
use crate::rules::sample::{Sample, Type};
use crate::rules::sample_phase::SamplePhase;

/// A fetch.
#[derive(Clone, Copy, Debug)]
pub struct FetchMethod {
    /// Its names, the current one first.
    pub names: &'static [&'static str],
    /// Its arguments.
    pub takes: Takes,
    /// The type of its value.
    pub kind: Type,
    /// When it has a value.
    pub phase: SamplePhase,
    pub(crate) take: Take,
    /// The fact that it queries in addition, so that names in it can be checked.
    pub(crate) about: Option<fn(&Args) -> Fact>,
}

/// How the value is obtained.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Take {
    /// Once, during parsing.
    Constant(fn(&Args, &dyn ConfigFiles) -> Result<Option<Sample<'static>>, String>),
    /// From a fact of the proxy.
    Fact(fn(&Args) -> Fact),
    /// From the subject.
    One(for<'a> fn(&'a Args, &'a dyn EvalContext) -> Option<Sample<'a>>),
    /// Several values: a condition tests all, everything else uses one.
    Each(Each, SingleValue),
    /// From bytes that are still arriving.
    Peek(for<'a> fn(&'a Args, &'a dyn EvalContext) -> Peeked<'a>),
}

/// Passes values to a callback until it stops; `None` is a value that cannot be converted.
pub(crate) type Each = for<'a> fn(
    &'a Args,
    &'a dyn EvalContext,
    &mut dyn FnMut(Option<Sample<'a>>) -> ControlFlow<()>,
) -> ControlFlow<()>;

/// Which of several values is used as the single one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SingleValue {
    First,
    Last,
    /// The last one with the name in the first argument; without a name, the first of all.
    LastNamed,
}

/// A value that may change when more bytes arrive.
#[derive(Debug)]
pub(crate) struct Peeked<'a> {
    pub(crate) value: Option<Sample<'a>>,
    pub(crate) may_change: bool,
}

impl SingleValue {
    /// Whether iteration continues.
    pub(crate) fn goes_on(self, args: &Args) -> ControlFlow<()> {
        match (self, args.text(0)) {
            (Self::First, _) | (Self::LastNamed, None) => ControlFlow::Break(()),
            (Self::Last, _) | (Self::LastNamed, Some(_)) => ControlFlow::Continue(()),
        }
    }
}

impl FetchMethod {
    const fn new(
        names: &'static [&'static str],
        takes: Takes,
        kind: Type,
        phase: SamplePhase,
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
pub fn all() -> impl Iterator<Item = &'static FetchMethod> {
    TABLES.iter().copied().flatten()
}

/// The fetch with this name.
pub(crate) fn find(name: &str) -> Option<&'static FetchMethod> {
    all().find(|fetch| fetch.names.contains(&name))
}

/// The error for an unknown name; `more` are further valid names.
pub(crate) fn unknown(name: &str, more: impl Iterator<Item = &'static str>) -> String {
    if let Some((_, why)) = ABSENT.iter().find(|(absent, _)| name.starts_with(absent)) {
        return format!("unsupported fetch method '{name}': {why}");
    }
    let names = all().flat_map(|fetch| fetch.names.iter().copied());
    nearest::unknown("fetch method", name, names.chain(more))
}

const TABLES: &[&[FetchMethod]] = &[
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

/// Fetches of HAProxy that are not supported: prefixes of names, and reasons.
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
    ("internal.", "internal state of HAProxy is not available"),
    ("lua.", "Lua is not supported"),
    ("fcgi.", "FastCGI is not supported"),
    ("distcc_", "this protocol is not supported"),
];

const TABLES_ABSENT: &str = "stick tables are not supported";
