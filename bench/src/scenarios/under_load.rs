//! Servers and proxies under a load: processor time, system calls and instructions of a request.

use super::{CALLS, CPU, EAGAIN, INSTRUCTIONS};
use crate::BenchError;
use crate::lab::{END_TIMEOUT, Lab};
use crate::loads::{BenchLoad, h2load, instructions};
use crate::report::{BarLimit, FULMAR, Metric, Sheet, neutral};
use crate::servers::{BenchServer, Wrapper};

/// The same requests to every side, and the bars.
#[derive(Clone, Debug)]
pub(super) struct LoadCase {
    /// Its row in the tables.
    pub(super) row: String,
    /// The target at fulmar, and that at peers.
    pub(super) targets: [&'static str; 2],
    pub(super) load: BenchLoad,
    /// Generates the load of the saturated runs, if another one does.
    pub(super) saturating: Option<BenchLoad>,
    pub(super) peers: &'static [&'static str],
    /// What calls and times are divided by: `request`, `connection`.
    pub(super) per: &'static str,
    pub(super) cpu: Option<BarLimit>,
    /// The most system calls, saturated.
    pub(super) calls: Option<f64>,
    /// The most EAGAIN, saturated.
    pub(super) eagain: Option<f64>,
    /// System calls are not counted.
    pub(super) only_times: bool,
    /// The two run lengths of callgrind; their difference is counted.
    pub(super) instructed: Option<[u32; 2]>,
    /// What a saturated side runs under.
    pub(super) saturated_under: Wrapper<'static>,
}

impl LoadCase {
    pub(super) fn new(row: impl Into<String>, target: &'static str, load: BenchLoad) -> Self {
        Self {
            row: row.into(),
            targets: [target; 2],
            load,
            saturating: None,
            peers: &[],
            per: "request",
            cpu: None,
            calls: None,
            eagain: None,
            only_times: false,
            instructed: None,
            saturated_under: Wrapper::Last,
        }
    }

    fn target(&self, side: &str) -> &'static str {
        self.targets[usize::from(side != FULMAR)]
    }

    fn metric(&self, metric: &Metric) -> Metric {
        metric.per(self.per)
    }
}

/// Starts a side.
pub(super) type StartSide<'a> = dyn Fn(&str, Wrapper<'_>) -> Result<BenchServer, BenchError> + 'a;

/// Measures a case: timed, then counted.
pub(super) fn measure(
    lab: &Lab,
    sheet: &mut Sheet,
    case: &LoadCase,
    start: &StartSide<'_>,
) -> Result<(), BenchError> {
    let mut errors = vec![timed(lab, sheet, case, start)];
    if !case.only_times {
        errors.push(saturated(lab, sheet, case, start));
    }
    if let Some(lengths) = case.instructed {
        errors.push(instructed(lab, sheet, case, lengths, start));
    }
    BenchError::all(errors.into_iter().filter_map(Result::err))
}

/// Under a load from another core, in turn. Nothing is traced; fulmar's ledger is read before and
/// after.
fn timed(
    lab: &Lab,
    sheet: &mut Sheet,
    case: &LoadCase,
    start: &StartSide<'_>,
) -> Result<(), BenchError> {
    let cpu = case.metric(&CPU);
    if let Some(limit) = &case.cpu {
        sheet.limit(&cpu, &case.row, limit.clone());
    }
    let sides: Vec<&str> = case.peers.iter().copied().chain([FULMAR]).collect();
    let mut running: Vec<Option<BenchServer>> = sides.iter().map(|_| None).collect();
    let result = lab.interleave(lab.options.rounds, sides.len(), 1, |at, _| {
        let side = sides[at];
        let server = match &mut running[at] {
            Some(server) => server,
            place => place.insert(start(side, Wrapper::No)?),
        };
        let (mut us, mut requests) = (0.0, 0.0);
        let mut work = || {
            let run = || case.load.run(lab, server, case.target(side), lab.seconds(), false);
            let (spent, (count, line)) = server.cpu_of(run)?;
            (us, requests) = (spent, count);
            sheet.report.command(&server.line);
            sheet.report.command(&line);
            Ok(())
        };
        if side == FULMAR && !case.only_times {
            let calls = server.calls_of(work)?;
            let total = calls.total() / requests;
            sheet.add(&case.metric(&CALLS_TIMED), &case.row, FULMAR, total);
        } else {
            work()?;
        }
        sheet.add(&cpu, &case.row, side, us / requests);
        Ok(())
    });
    running.into_iter().flatten().try_for_each(BenchServer::stop)?;
    result
}

/// Under more load than a server can take, in runs that are not timed: a wait is shared by all that
/// is ready after it. Peers are counted once, for at most two seconds.
fn saturated(
    lab: &Lab,
    sheet: &mut Sheet,
    case: &LoadCase,
    start: &StartSide<'_>,
) -> Result<(), BenchError> {
    let (metric, eagain) = (case.metric(&CALLS), case.metric(&EAGAIN));
    for (metric, limit) in [(&metric, case.calls), (&eagain, case.eagain)] {
        if let Some(limit) = limit {
            sheet.limit(metric, &case.row, BarLimit::at_most(limit));
        }
    }
    let mut errors = Vec::new();
    for side in case.peers.iter().copied().chain([FULMAR]) {
        let is_ours = side == FULMAR;
        let rounds = if is_ours { lab.few_rounds() } else { 1 };
        let seconds = if is_ours { lab.seconds() } else { lab.seconds().min(COUNTED_S) };
        let mut one = || {
            let server = start(side, case.saturated_under)?;
            for _ in 0..rounds {
                let mut requests = 0.0;
                let load = case.saturating.unwrap_or(case.load);
                let calls = server.calls_of(|| {
                    let target = case.target(side);
                    let (count, line) = load.run(lab, &server, target, seconds, true)?;
                    requests = count;
                    sheet.report.command(&line);
                    Ok(())
                })?;
                // wrk does not count the connections that it leaves open at its end.
                if case.per == "connection" {
                    requests = f64::max(requests, calls.done("accept4"));
                }
                let each = calls.scaled(1.0 / requests);
                sheet.add(&metric, &case.row, side, each.total() - each.eagain());
                sheet.add(&eagain, &case.row, side, each.eagain());
                let by_name = case.metric(&BY_NAME);
                let by_name = by_name.titled(format!("{}: {}", by_name.title(), case.row));
                sheet.calls(&by_name, side, each.calls.iter().map(|(name, it)| (name, it.calls)));
            }
            server.stop()
        };
        errors.extend(one().err());
    }
    BenchError::all(errors)
}

/// The user instructions of fulmar, as the difference of two run lengths.
fn instructed(
    lab: &Lab,
    sheet: &mut Sheet,
    case: &LoadCase,
    lengths: [u32; 2],
    start: &StartSide<'_>,
) -> Result<(), BenchError> {
    lab.installed("valgrind")?;
    let mut counts = Vec::new();
    for requests in lengths {
        let out = lab.path().join(format!("callgrind-{requests}"));
        let server = start(FULMAR, Wrapper::Callgrind(&out))?;
        let mut command = h2load(lab, &case.load)?;
        command.args(["-n", &requests.to_string()]).arg(server.url(case.target(FULMAR)));
        sheet.report.command(&lab.line(&command));
        lab.client(command)?.output(END_TIMEOUT)?;
        server.stop()?;
        counts.push(instructions(&out)?);
    }
    let each = (counts[1] - counts[0]) / f64::from(lengths[1] - lengths[0]);
    sheet.add(&INSTRUCTIONS, &case.row, FULMAR, each);
    Ok(())
}

const CALLS_TIMED: Metric = neutral("System calls per request, as timed", "calls");
const BY_NAME: Metric = neutral("By name, per request, saturated", "calls").rows("call");
/// Of the runs in which peers are counted.
const COUNTED_S: f64 = 2.0;
