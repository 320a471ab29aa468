//! Fetches of the proxy's state: load, servers, clock, names.

use super::{Fetch, Take};
use crate::rules::args::{Args, Kind, Takes};
use crate::rules::sample::{Sample, Type};
use crate::rules::subject::{Fact, Subject};
use crate::rules::when::Phase;

pub(super) const TABLE: &[Fetch] = &[
    plain(&["be_name"], Type::Text, Phase::Exchange, |_| Fact::BackendName),
    plain(&["be_id"], Type::Int, Phase::Exchange, |_| Fact::BackendId),
    plain(&["fe_name"], Type::Text, Phase::Connection, |_| Fact::FrontendName),
    plain(&["fe_id"], Type::Int, Phase::Connection, |_| Fact::FrontendId),
    plain(&["fe_defbe"], Type::Text, Phase::Connection, |_| Fact::DefaultBackend),
    plain(&["so_id"], Type::Int, Phase::Connection, |_| Fact::ListenerId),
    plain(&["so_name"], Type::Text, Phase::Connection, |_| Fact::ListenerName),
    plain(&["srv_name"], Type::Text, Phase::Server, |_| Fact::ServerName),
    plain(&["srv_id"], Type::Int, Phase::Server, |_| Fact::ServerId),
    proxy(&["be_conn"], |a| Fact::BackendConnections(a.name(0))),
    proxy(&["be_conn_free"], |a| Fact::BackendFree(a.name(0))),
    proxy(&["be_sess_rate"], |a| Fact::BackendRate(a.name(0))),
    proxy(&["connslots"], |a| Fact::ConnectionSlots(a.name(0))),
    proxy(&["nbsrv"], |a| Fact::UsableServers(a.name(0))),
    proxy(&["queue"], |a| Fact::Queue(a.name(0))),
    proxy(&["avg_queue"], |a| Fact::AverageQueue(a.name(0))),
    proxy(&["fe_conn"], |a| Fact::FrontendConnections(a.name(0))),
    proxy(&["fe_sess_rate"], |a| Fact::FrontendRate(a.name(0))),
    proxy(&["fe_req_rate"], |a| Fact::FrontendRequestRate(a.name(0))),
    server(&["srv_is_up"], Type::Bool, |a| with(a, Fact::ServerIsUp)),
    server(&["srv_conn"], Type::Int, |a| with(a, Fact::ServerConnections)),
    server(&["srv_conn_free"], Type::Int, |a| with(a, Fact::ServerFree)),
    server(&["srv_queue"], Type::Int, |a| with(a, Fact::ServerQueue)),
    server(&["srv_sess_rate"], Type::Int, |a| with(a, Fact::ServerRate)),
    server(&["srv_weight"], Type::Int, |a| with(a, Fact::ServerWeight)),
    plain(&["date_us"], Type::Int, Phase::Always, |_| Fact::DateMicros),
    plain(&["hostname"], Type::Text, Phase::Always, |_| Fact::Hostname),
    plain(&["nbthread"], Type::Int, Phase::Always, |_| Fact::Threads),
    plain(&["thread"], Type::Int, Phase::Always, |_| Fact::Thread),
    plain(&["pid"], Type::Int, Phase::Always, |_| Fact::Process),
    plain(&["stopping"], Type::Bool, Phase::Always, |_| Fact::Stopping),
    plain(&["unique-id"], Type::Text, Phase::Always, |_| Fact::UniqueId),
    Fetch::new(
        &["uuid"],
        Takes::from(0, &[Kind::OneOf(&["4"])]),
        Type::Text,
        Phase::Always,
        Take::Fact(|_| Fact::Uuid),
    ),
    Fetch::new(
        &["rand"],
        Takes::from(0, &[Kind::Int]),
        Type::Int,
        Phase::Always,
        Take::Fact(|a| Fact::Random(a.int(0).and_then(|n| n.try_into().ok()).unwrap_or(u32::MAX))),
    ),
    Fetch::new(
        &["date"],
        Takes::from(0, &[Kind::Int, Kind::OneOf(&["s", "ms", "us"])]),
        Type::Int,
        Phase::Always,
        Take::One(date),
    ),
    Fetch::new(
        &["var"],
        Takes::from(1, &[Kind::Variable, Kind::Text]),
        Type::Any,
        Phase::Always,
        Take::One(variable),
    ),
];

const fn plain(
    names: &'static [&'static str],
    kind: Type,
    phase: Phase,
    make: fn(&Args) -> Fact,
) -> Fetch {
    Fetch::new(names, Takes::NONE, kind, phase, Take::Fact(make))
}

const fn proxy(names: &'static [&'static str], make: fn(&Args) -> Fact) -> Fetch {
    let takes = Takes::from(0, &[Kind::Text]);
    Fetch::new(names, takes, Type::Int, Phase::Always, Take::Fact(make))
}

const fn server(names: &'static [&'static str], kind: Type, make: fn(&Args) -> Fact) -> Fetch {
    Fetch::new(names, Takes::all(&[Kind::Text]), kind, Phase::Always, Take::Fact(make))
}

/// `backend/server`, or `server` of the current backend.
fn with(args: &Args, fact: fn(Option<Box<str>>, Box<str>) -> Fact) -> Fact {
    let name = args.name(0).unwrap_or_default();
    match name.split_once('/') {
        Some((backend, server)) => fact(Some(backend.into()), server.into()),
        None => fact(None, name),
    }
}

fn date<'a>(args: &'a Args, subject: &'a dyn Subject) -> Option<Sample<'a>> {
    let seconds = subject.fact(&Fact::Date)?.into_int()?;
    let micros = || subject.fact(&Fact::DateMicros).and_then(Sample::into_int).unwrap_or(0);
    let now = match args.text(1) {
        Some(b"ms") => seconds.saturating_mul(1_000).saturating_add(micros() / 1_000),
        Some(b"us") => seconds.saturating_mul(1_000_000).saturating_add(micros()),
        _ => seconds,
    };
    Some(Sample::Int(now.saturating_add(args.int(0).unwrap_or(0))))
}

fn variable<'a>(args: &'a Args, subject: &'a dyn Subject) -> Option<Sample<'a>> {
    let value = subject.variable(args.variable(0)?);
    value.or_else(|| args.text(1).map(Sample::text))
}
