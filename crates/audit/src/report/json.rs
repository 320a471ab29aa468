//! A run as JSON. The format is stable: fields are added, never renamed or removed.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::budget::Excess;
use super::compare::{ComparisonRow, RunComparison};
use super::errno;
use super::run::AuditRun;
use super::waste::wastes;
use crate::call_times::CallTime;
use crate::cost::Cost;
use crate::counts::{ByPhase, CallTally};
use crate::timeline::{TimedCall, Timeline};

/// The result of an audit.
#[derive(Clone, Debug, Serialize)]
struct JsonReport {
    /// The version of this format: 1.
    format: u32,
    /// The measured program.
    #[serde(flatten)]
    run: Figures,
    /// The program it was compared with; then `difference` is set as well.
    compared_with: Option<Figures>,
    /// By call: this program and the other, for each unit.
    difference: Option<BTreeMap<String, Difference>>,
    /// The exceeded lines of the budget; `null` without a budget.
    exceeded: Option<Vec<Over>>,
}

/// The figures of one program.
#[derive(Clone, Debug, Serialize)]
struct Figures {
    /// The command line.
    command: String,
    /// The backend: `ebpf` or `ptrace`.
    backend: &'static str,
    /// The unit that counts are divided by.
    unit: Option<Divisor>,
    /// System calls by name.
    calls: BTreeMap<String, JsonCalls>,
    /// The sum of all calls.
    all: JsonCalls,
    /// The number of calls by group.
    groups: BTreeMap<&'static str, u64>,
    /// Operations of io_uring by name; `null` if they were not counted.
    ring: Option<BTreeMap<String, JsonCalls>>,
    /// Why operations were not counted; `null` if they were.
    ring_unknown: Option<String>,
    /// Clock reads without a system call; `null` if they were not counted.
    clock_reads: Option<u64>,
    /// System calls by phase and name, if requested.
    phases: Option<BTreeMap<&'static str, BTreeMap<String, JsonCalls>>>,
    /// Operations of io_uring by phase and name; `null` if they were not counted.
    ring_phases: Option<BTreeMap<&'static str, BTreeMap<String, JsonCalls>>>,
    /// The time in calls and between them by name, if requested.
    times: Option<BTreeMap<String, JsonTime>>,
    /// Events that were lost. If 0, the counts are exact.
    lost: u64,
    /// How many of them were calls of 32-bit programs.
    foreign: u64,
    /// Number of watched processes.
    processes: u64,
    /// Number of watched threads.
    threads: u64,
    /// Duration of counting in seconds.
    elapsed_s: f64,
    /// The overhead of counting; `null` if it was not measured.
    cost: Option<Price>,
    /// Avoidable calls, the most first.
    waste: Vec<Saved>,
    /// The result of the load; `null` without one.
    load: Option<JsonLoad>,
    /// Each call in order, if requested.
    timeline: Option<Sequence>,
}

/// The time of the calls of one name, of all threads.
#[derive(Clone, Debug, Serialize)]
struct JsonTime {
    /// Microseconds in the calls.
    inside_us: f64,
    /// Microseconds since the previous call of the thread.
    before_us: f64,
}

/// A timeline.
#[derive(Clone, Debug, Serialize)]
struct Sequence {
    /// Requests made meanwhile; `null` without a load.
    requests: Option<u64>,
    /// The calls in the order in which they began.
    calls: Vec<Called>,
    /// Number of later calls that did not fit.
    left_out: u64,
    /// Events that were lost.
    lost: u64,
}

/// A call of a timeline.
#[derive(Clone, Debug, Serialize)]
struct Called {
    /// Microseconds since the first return; `null` if the call began before counting did.
    at_us: Option<f64>,
    /// Duration in microseconds; `null` as above.
    took_us: Option<f64>,
    /// The calling process.
    process: u32,
    /// The calling thread.
    thread: u32,
    /// Its name.
    call: String,
    /// The arguments.
    arguments: String,
    /// The result; -1 on failure.
    result: i64,
    /// The error; `null` on success.
    error: Option<String>,
}

/// The unit that counts are divided by.
#[derive(Clone, Debug, Serialize)]
struct Divisor {
    /// `request`, `accept`, `connect` or `item`.
    noun: String,
    /// The number of units.
    count: u64,
}

/// A system call or an operation.
#[derive(Clone, Debug, Serialize)]
struct JsonCalls {
    /// Number of calls.
    calls: u64,
    /// For each unit; `null` without one.
    per_unit: Option<f64>,
    /// How often it failed with `EAGAIN`.
    eagain: u64,
    /// Failures by error, including `EAGAIN`.
    errors: BTreeMap<String, u64>,
    /// Bytes transferred.
    bytes: u64,
    /// Number of calls by an argument; empty where arguments are not read.
    kinds: BTreeMap<String, u64>,
}

/// A class of waste.
#[derive(Clone, Debug, Serialize)]
struct Saved {
    /// Its name.
    class: &'static str,
    /// Number of calls.
    calls: u64,
    /// For each unit; `null` without one.
    per_unit: Option<f64>,
    /// True if it follows from arguments; false if it is estimated from the number of calls.
    exact: bool,
    /// What to do instead.
    advice: &'static str,
}

/// The result of a load.
#[derive(Clone, Debug, Serialize)]
struct JsonLoad {
    /// The requested URL.
    url: String,
    /// Concurrent connections.
    connections: u32,
    /// Requests with a response.
    requests: u64,
    /// Errors by kind.
    errors: BTreeMap<String, u64>,
    /// Responses with a status of 400 or above.
    refused: u64,
    /// Requests before counting began.
    warm_up: u64,
}

/// The overhead of counting.
#[derive(Clone, Copy, Debug, Serialize)]
struct Price {
    /// For each counted call.
    call_ns: f64,
    /// For each operation of io_uring; `null` without operations.
    operation_ns: Option<f64>,
    /// For each call of other programs.
    other_call_ns: f64,
    /// For all calls and operations of a unit; `null` without a unit.
    per_unit_us: Option<f64>,
}

/// One call in two programs.
#[derive(Clone, Copy, Debug, Serialize)]
struct Difference {
    /// This program, for each unit.
    this: f64,
    /// The other program, for each unit.
    other: f64,
    /// `this - other`.
    change: f64,
}

/// An exceeded line of the budget.
#[derive(Clone, Debug, Serialize)]
struct Over {
    /// What exceeded its maximum.
    name: String,
    /// The maximum for each unit.
    maximum: f64,
    /// The count for each unit.
    found: f64,
}

impl AuditRun {
    /// One JSON object on one line: the run, the run it is compared with (the first of the
    /// comparison), and the exceeded lines of a budget.
    pub fn json(
        &self,
        compared: Option<&RunComparison<'_>>,
        exceeded: Option<&[Excess]>,
    ) -> String {
        let report = JsonReport::new(self, compared, exceeded);
        serde_json::to_string(&report).expect("strings and numbers")
    }
}

impl JsonReport {
    fn new(run: &AuditRun, other: Option<&RunComparison<'_>>, exceeded: Option<&[Excess]>) -> Self {
        Self {
            format: 1,
            run: Figures::new(run),
            compared_with: other.map(|comparison| Figures::new(comparison.first())),
            difference: other.map(|comparison| {
                let rows = comparison.calls().into_iter().chain([comparison.all()]);
                rows.map(|row| (row.name.clone(), Difference::new(&row))).collect()
            }),
            exceeded: exceeded.map(|lines| lines.iter().map(Over::new).collect()),
        }
    }
}

impl Figures {
    fn new(run: &AuditRun) -> Self {
        let counts = &run.counts;
        let calls = |calls: &BTreeMap<String, CallTally>| -> BTreeMap<String, JsonCalls> {
            calls.iter().map(|(name, tally)| (name.clone(), JsonCalls::new(run, tally))).collect()
        };
        let by_phase = |phases: &ByPhase| -> BTreeMap<_, _> {
            phases.iter().map(|(phase, each)| (phase.name(), calls(each))).collect()
        };
        let mut all = CallTally::default();
        counts.calls.values().for_each(|tally| all.add(tally));
        Self {
            command: run.command.clone(),
            backend: counts.backend.name(),
            unit: run
                .unit
                .as_ref()
                .map(|unit| Divisor { noun: unit.noun().to_owned(), count: unit.count() }),
            calls: calls(&counts.calls),
            all: JsonCalls::new(run, &all),
            groups: run.groups().into_iter().map(|(group, n)| (group.name(), n)).collect(),
            ring: counts.ring.as_ref().map(calls),
            ring_unknown: Some(counts.ring_why.clone()).filter(|why| !why.is_empty()),
            clock_reads: counts.clock_reads,
            phases: counts.by_phase.as_ref().map(by_phase),
            ring_phases: counts.ring_by_phase.as_ref().map(by_phase),
            times: counts.times.as_ref().map(|times| {
                let us = |ns| Duration::from_nanos(ns).as_secs_f64() * 1e6;
                let time = |(name, time): (&String, &CallTime)| {
                    let (inside_us, before_us) = (us(time.inside_ns), us(time.before_ns));
                    (name.clone(), JsonTime { inside_us, before_us })
                };
                times.iter().map(time).collect()
            }),
            lost: counts.lost,
            foreign: counts.foreign,
            processes: counts.processes,
            threads: counts.threads,
            elapsed_s: round(counts.elapsed.as_secs_f64()),
            cost: run.cost.map(|cost| Price::new(run, cost)),
            waste: wastes(run)
                .into_iter()
                .map(|waste| Saved {
                    class: waste.class.name(),
                    calls: waste.count,
                    per_unit: per_unit(run, waste.count),
                    exact: waste.exact,
                    advice: waste.class.advice(),
                })
                .collect(),
            load: run.load.as_ref().map(|load| JsonLoad {
                url: load.url.clone(),
                connections: load.connections,
                requests: load.requests,
                errors: load.errors.iter().cloned().collect(),
                refused: load.refused,
                warm_up: load.warm_up,
            }),
            timeline: run.timeline.as_ref().map(Sequence::new),
        }
    }
}

impl JsonCalls {
    fn new(run: &AuditRun, tally: &CallTally) -> Self {
        let named = |(errno, n): (&i32, &u64)| (errno::name(*errno).into_owned(), *n);
        Self {
            calls: tally.count,
            per_unit: per_unit(run, tally.count),
            eagain: tally.errors.get(&errno::EAGAIN).copied().unwrap_or(0),
            errors: tally.errors.iter().map(named).collect(),
            bytes: tally.bytes,
            kinds: tally.kinds.clone(),
        }
    }
}

impl Price {
    fn new(run: &AuditRun, Cost { call, operation, other_call }: Cost) -> Self {
        let ns = |time: Duration| round(time.as_secs_f64() * 1e9);
        Self {
            call_ns: ns(call),
            operation_ns: operation.map(ns),
            other_call_ns: ns(other_call),
            per_unit_us: run.cost_per_unit_us().map(round),
        }
    }
}

impl Sequence {
    fn new(timeline: &Timeline) -> Self {
        let Timeline { requests, calls, left_out, lost } = timeline;
        let calls = calls.iter().map(Called::new).collect();
        Self { requests: *requests, calls, left_out: *left_out, lost: *lost }
    }
}

impl Called {
    #[expect(clippy::cast_precision_loss, reason = "for display")]
    fn new(call: &TimedCall) -> Self {
        let micros = |nanos: i64| nanos as f64 / 1e3;
        let error = call.error().map(|errno| errno::name(errno).into_owned());
        Self {
            at_us: call.at_ns.map(micros),
            took_us: call.took_ns.map(micros),
            process: call.process,
            thread: call.thread,
            call: call.name.clone(),
            arguments: call.arguments.clone(),
            result: if error.is_some() { -1 } else { call.result },
            error,
        }
    }
}

impl Difference {
    fn new(row: &ComparisonRow) -> Self {
        let (this, other) = (round(row.second), round(row.first));
        Self { this, other, change: round(this - other) }
    }
}

impl Over {
    fn new(line: &Excess) -> Self {
        Self { name: line.name.clone(), maximum: line.maximum, found: round(line.found) }
    }
}

fn per_unit(run: &AuditRun, count: u64) -> Option<f64> {
    run.unit.as_ref().map(|unit| round(unit.share(count)))
}

/// Rounds to six decimals.
fn round(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::report::budget::Budget;
    use crate::report::run::LoadSummary;
    use crate::report::run::tests::{fail, run};

    /// The keys of the figures of each program.
    const FIGURES: &str = "all backend calls clock_reads command cost elapsed_s foreign \
                           groups load lost phases processes ring ring_phases ring_unknown \
                           threads timeline times unit waste";

    fn keys(value: &Value) -> Vec<&str> {
        value.as_object().unwrap().keys().map(String::as_str).collect()
    }

    #[test]
    fn the_json_format_is_the_documented_one() {
        let (mut this, other) = (run(1_000, &[("read", 2_000)]), run(500, &[("read", 1_500)]));
        fail(&mut this.counts, "read", libc::EAGAIN, 1_000);
        this.counts.ring =
            Some([("recv".to_owned(), CallTally { count: 5, ..CallTally::default() })].into());
        this.load = Some(LoadSummary {
            url: "http://127.0.0.1/".into(),
            connections: 4,
            requests: 1_000,
            errors: vec![("timeout".into(), 1)],
            refused: 2,
            warm_up: 100,
        });
        let nanos = Duration::from_nanos;
        this.cost = Some(Cost { call: nanos(100), operation: None, other_call: nanos(20) });
        let arguments = "7".to_owned();
        let (at_ns, took_ns, name) = (Some(-1_500), None, "close".to_owned());
        let (process, thread, result) = (1, 2, -i64::from(libc::EBADF));
        let call = TimedCall { at_ns, took_ns, process, thread, name, arguments, result };
        this.timeline = Some(Timeline { calls: vec![call], ..Timeline::default() });
        let exceeded = Budget::parse("all = 1.5").unwrap().exceeded(&this);
        let comparison = RunComparison::new(&other, &this).unwrap();
        let json = this.json(Some(&comparison), Some(&exceeded));
        let value: Value = serde_json::from_str(&json).unwrap();
        let figures = FIGURES.split(' ').collect::<Vec<_>>();
        let mut whole =
            [&figures[..], &["compared_with", "difference", "exceeded", "format"]].concat();
        whole.sort_unstable();
        assert_eq!(keys(&value), whole);
        assert_eq!(keys(&value["compared_with"]), figures);
        let call = ["bytes", "calls", "eagain", "errors", "kinds", "per_unit"];
        assert_eq!(keys(&value["calls"]["read"]), call);
        assert_eq!(keys(&value["ring"]["recv"]), call);
        assert_eq!(keys(&value["waste"][0]), ["advice", "calls", "class", "exact", "per_unit"]);
        assert_eq!(keys(&value["unit"]), ["count", "noun"]);
        assert_eq!(
            keys(&value["load"]),
            ["connections", "errors", "refused", "requests", "url", "warm_up"]
        );
        let cost = serde_json::json!({
            "call_ns": 100.0, "operation_ns": null, "other_call_ns": 20.0, "per_unit_us": 0.2
        });
        assert_eq!(value["cost"], cost);
        assert_eq!(keys(&value["timeline"]), ["calls", "left_out", "lost", "requests"]);
        let call = &value["timeline"]["calls"][0];
        assert_eq!(
            keys(call),
            ["arguments", "at_us", "call", "error", "process", "result", "thread", "took_us"]
        );
        assert_eq!((&call["at_us"], &call["took_us"]), (&(-1.5).into(), &Value::Null));
        assert_eq!((&call["result"], &call["error"]), (&(-1).into(), &"EBADF".into()));
        assert_eq!(value["calls"]["read"]["errors"]["EAGAIN"], 1_000);
        assert_eq!(value["all"]["per_unit"], 2.0);
        assert_eq!(value["difference"]["read"]["change"], -1.0);
        assert_eq!(value["difference"]["all"]["other"], 3.0);
        assert_eq!(value["exceeded"][0]["found"], 2.0);
    }

    #[test]
    fn unrequested_parts_are_null() {
        let mut run = run(1, &[("read", 2)]);
        run.unit = None;
        let value = serde_json::from_str::<Value>(&run.json(None, None)).unwrap();
        let keys = "unit ring clock_reads phases ring_phases times load cost timeline \
                    compared_with exceeded";
        for key in keys.split(' ') {
            assert_eq!(value[key], Value::Null, "{key}");
        }
        assert_eq!(value["calls"]["read"]["per_unit"], Value::Null);
    }
}
