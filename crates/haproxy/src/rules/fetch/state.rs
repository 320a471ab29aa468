//! Fetches of the proxy's state: load, servers, clock, names.

use super::{FetchMethod, Take};
use crate::rules::args::{ArgKind, Args, Takes};
use crate::rules::eval_context::{EvalContext, Fact};
use crate::rules::sample::{Sample, Type};
use crate::rules::sample_phase::SamplePhase;

pub(super) const TABLE: &[FetchMethod] = &[
    plain(&["be_name"], Type::Text, SamplePhase::Exchange, |_| Fact::BackendName),
    plain(&["be_id"], Type::Int, SamplePhase::Exchange, |_| Fact::BackendId),
    plain(&["fe_name"], Type::Text, SamplePhase::Connection, |_| Fact::FrontendName),
    plain(&["fe_id"], Type::Int, SamplePhase::Connection, |_| Fact::FrontendId),
    plain(&["fe_defbe"], Type::Text, SamplePhase::Connection, |_| Fact::DefaultBackend),
    plain(&["so_id"], Type::Int, SamplePhase::Connection, |_| Fact::ListenerId),
    plain(&["so_name"], Type::Text, SamplePhase::Connection, |_| Fact::ListenerName),
    plain(&["srv_name"], Type::Text, SamplePhase::Server, |_| Fact::ServerName),
    plain(&["srv_id"], Type::Int, SamplePhase::Server, |_| Fact::ServerId),
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
    plain(&["date_us"], Type::Int, SamplePhase::Always, |_| Fact::DateMicros),
    plain(&["hostname"], Type::Text, SamplePhase::Always, |_| Fact::Hostname),
    plain(&["nbthread"], Type::Int, SamplePhase::Always, |_| Fact::Threads),
    plain(&["thread"], Type::Int, SamplePhase::Always, |_| Fact::Thread),
    plain(&["pid"], Type::Int, SamplePhase::Always, |_| Fact::Process),
    plain(&["stopping"], Type::Bool, SamplePhase::Always, |_| Fact::Stopping),
    plain(&["unique-id"], Type::Text, SamplePhase::Always, |_| Fact::UniqueId),
    FetchMethod::new(
        &["uuid"],
        Takes::from(0, &[ArgKind::OneOf(&["4"])]),
        Type::Text,
        SamplePhase::Always,
        Take::Fact(|_| Fact::Uuid),
    ),
    FetchMethod::new(
        &["rand"],
        Takes::from(0, &[ArgKind::Int]),
        Type::Int,
        SamplePhase::Always,
        Take::Fact(|a| Fact::Random(a.int(0).and_then(|n| n.try_into().ok()).unwrap_or(u32::MAX))),
    ),
    FetchMethod::new(
        &["date"],
        Takes::from(0, &[ArgKind::Int, ArgKind::OneOf(&["s", "ms", "us"])]),
        Type::Int,
        SamplePhase::Always,
        Take::One(date),
    ),
    FetchMethod::new(
        &["var"],
        Takes::from(1, &[ArgKind::Variable, ArgKind::Text]),
        Type::Any,
        SamplePhase::Always,
        Take::One(variable),
    ),
];

const fn plain(
    names: &'static [&'static str],
    kind: Type,
    phase: SamplePhase,
    make: fn(&Args) -> Fact,
) -> FetchMethod {
    FetchMethod::new(names, Takes::NONE, kind, phase, Take::Fact(make))
}

const fn proxy(names: &'static [&'static str], make: fn(&Args) -> Fact) -> FetchMethod {
    let takes = Takes::from(0, &[ArgKind::Text]);
    FetchMethod::new(names, takes, Type::Int, SamplePhase::Always, Take::Fact(make))
}

const fn server(
    names: &'static [&'static str],
    kind: Type,
    make: fn(&Args) -> Fact,
) -> FetchMethod {
    FetchMethod::new(
        names,
        Takes::all(&[ArgKind::Text]),
        kind,
        SamplePhase::Always,
        Take::Fact(make),
    )
}

/// `backend/server`, or `server` of the current backend.
fn with(args: &Args, fact: fn(Option<Box<str>>, Box<str>) -> Fact) -> Fact {
    let name = args.name(0).unwrap_or_default();
    match name.split_once('/') {
        Some((backend, server)) => fact(Some(backend.into()), server.into()),
        None => fact(None, name),
    }
}

fn date<'a>(args: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let seconds = subject.fact(&Fact::Date)?.into_int()?;
    let micros = || subject.fact(&Fact::DateMicros).and_then(Sample::into_int).unwrap_or(0);
    let now = match args.text(1) {
        Some(b"ms") => seconds.saturating_mul(1_000).saturating_add(micros() / 1_000),
        Some(b"us") => seconds.saturating_mul(1_000_000).saturating_add(micros()),
        _ => seconds,
    };
    Some(Sample::Int(now.saturating_add(args.int(0).unwrap_or(0))))
}

fn variable<'a>(args: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let value = subject.variable(args.variable(0)?);
    value.or_else(|| args.text(1).map(Sample::text))
}
