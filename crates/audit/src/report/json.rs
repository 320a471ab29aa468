//! A run for machines. The form is stable: fields are added, never renamed or removed.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::budget::Excess;
use super::compare::{Comparison, Row};
use super::errno;
use super::run::Run;
use super::waste::wastes;
use crate::cost::Cost;
use crate::counts::{ByPhase, Tally};
use crate::timeline::{TimedCall, Timeline};

/// Everything that an audit found.
#[derive(Clone, Debug, Serialize)]
struct Report {
    /// The form of this object: 1.
    format: u32,
    /// The program.
    #[serde(flatten)]
    run: Figures,
    /// What it was compared with; then also `difference`.
    compared_with: Option<Figures>,
    /// By call, what the program makes of what the other made, for each unit.
    difference: Option<BTreeMap<String, Difference>>,
    /// What exceeded the budget; `null` if there was none.
    exceeded: Option<Vec<Over>>,
}

/// What was found of one program.
#[derive(Clone, Debug, Serialize)]
struct Figures {
    /// The command, as it was given.
    command: String,
    /// Who counted: `ebpf` or `ptrace`.
    backend: &'static str,
    /// What counts were divided by.
    unit: Option<Divisor>,
    /// System calls by name.
    calls: BTreeMap<String, Calls>,
    /// All of them.
    all: Calls,
    /// How often they were made, by what they do.
    groups: BTreeMap<&'static str, u64>,
    /// Operations of io_uring by name; `null` if they were not counted.
    ring: Option<BTreeMap<String, Calls>>,
    /// Why they were not; `null` if they were.
    ring_unknown: Option<String>,
    /// Clock reads that were no system calls; `null` if they were not counted.
    clock_reads: Option<u64>,
    /// By what the program was doing, if it was asked for: system calls by name.
    phases: Option<BTreeMap<&'static str, BTreeMap<String, Calls>>>,
    /// The same of operations of io_uring; `null` if they were not counted.
    ring_phases: Option<BTreeMap<&'static str, BTreeMap<String, Calls>>>,
    /// Events that were lost: the counts are exact if there are none.
    lost: u64,
    /// How many of them were calls of 32-bit programs.
    foreign: u64,
    /// Processes that were watched.
    processes: u64,
    /// Their threads.
    threads: u64,
    /// How long counting took.
    elapsed_s: f64,
    /// What counting cost; `null` if that was not measured.
    cost: Option<Price>,
    /// What could be saved, the worst first.
    waste: Vec<Saved>,
    /// What the load brought; `null` without one.
    load: Option<Answers>,
    /// What was called, one after the other, if it was asked for.
    timeline: Option<Sequence>,
}

/// A timeline.
#[derive(Clone, Debug, Serialize)]
struct Sequence {
    /// Requests that were made meanwhile; `null` without a load.
    requests: Option<u64>,
    /// In the order in which they began.
    calls: Vec<Called>,
    /// Calls that followed, for which there was no room.
    left_out: u64,
    /// Events that were lost.
    lost: u64,
}

/// A call of a timeline.
#[derive(Clone, Debug, Serialize)]
struct Called {
    /// Since the first return; `null` if it began before anybody looked.
    at_us: Option<f64>,
    /// How long it took; `null` as above.
    took_us: Option<f64>,
    /// Who called.
    process: u32,
    /// Which of its threads.
    thread: u32,
    /// Its name.
    call: String,
    /// What it was given.
    arguments: String,
    /// What it returned; -1 if it failed.
    result: i64,
    /// Why it failed; `null` if it did not.
    error: Option<String>,
}

/// What counts were divided by.
#[derive(Clone, Debug, Serialize)]
struct Divisor {
    /// `request`, `accept`, `connect` or `item`.
    noun: String,
    /// How many there were.
    count: u64,
}

/// A system call or an operation.
#[derive(Clone, Debug, Serialize)]
struct Calls {
    /// How often.
    calls: u64,
    /// For each unit; `null` without one.
    per_unit: Option<f64>,
    /// How often it had nothing to do.
    eagain: u64,
    /// How often it failed, by error, those with nothing to do among them.
    errors: BTreeMap<String, u64>,
    /// Bytes that it moved.
    bytes: u64,
    /// How often, by an argument; empty where arguments were not looked at.
    kinds: BTreeMap<String, u64>,
}

/// A class of waste.
#[derive(Clone, Debug, Serialize)]
struct Saved {
    /// Its name.
    class: &'static str,
    /// So many calls.
    calls: u64,
    /// For each unit; `null` without one.
    per_unit: Option<f64>,
    /// True if arguments told, false if the number of calls suggests it.
    exact: bool,
    /// What to do instead.
    advice: &'static str,
}

/// What a load brought.
#[derive(Clone, Debug, Serialize)]
struct Answers {
    /// What was requested.
    url: String,
    /// Connections that were held at one time.
    connections: u32,
    /// Requests that were answered.
    requests: u64,
    /// What failed, by kind.
    errors: BTreeMap<String, u64>,
    /// Answers of status 400 and above.
    refused: u64,
    /// Requests before, which are in no count.
    warm_up: u64,
}

/// What counting cost.
#[derive(Clone, Copy, Debug, Serialize)]
struct Price {
    /// Each call that was counted.
    call_ns: f64,
    /// Each operation of io_uring; `null` if there were none.
    operation_ns: Option<f64>,
    /// Each call of other programs.
    other_call_ns: f64,
    /// The calls and operations of a unit; `null` without one.
    per_unit_us: Option<f64>,
}

/// A call of two programs.
#[derive(Clone, Copy, Debug, Serialize)]
struct Difference {
    /// Of this program, for each unit.
    this: f64,
    /// Of the other.
    other: f64,
    /// `this - other`.
    change: f64,
}

/// A line of a budget that does not hold.
#[derive(Clone, Debug, Serialize)]
struct Over {
    /// What there was too much of.
    name: String,
    /// The most that was allowed for each unit.
    maximum: f64,
    /// What there was for each unit.
    found: f64,
}

impl Run {
    /// One JSON object on one line: what was counted, what another program made of the same (the
    /// first of a comparison whose second this is), and what exceeded a budget.
    pub fn json(&self, compared: Option<&Comparison<'_>>, exceeded: Option<&[Excess]>) -> String {
        let report = Report::new(self, compared, exceeded);
        serde_json::to_string(&report).expect("strings and numbers")
    }
}

impl Report {
    fn new(run: &Run, other: Option<&Comparison<'_>>, exceeded: Option<&[Excess]>) -> Self {
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
    fn new(run: &Run) -> Self {
        let counts = &run.counts;
        let calls = |calls: &BTreeMap<String, Tally>| -> BTreeMap<String, Calls> {
            calls.iter().map(|(name, tally)| (name.clone(), Calls::new(run, tally))).collect()
        };
        let by_phase = |phases: &ByPhase| -> BTreeMap<_, _> {
            phases.iter().map(|(phase, each)| (phase.name(), calls(each))).collect()
        };
        let mut all = Tally::default();
        counts.calls.values().for_each(|tally| all.add(tally));
        Self {
            command: run.command.clone(),
            backend: counts.backend.name(),
            unit: run
                .unit
                .as_ref()
                .map(|unit| Divisor { noun: unit.noun().to_owned(), count: unit.count() }),
            calls: calls(&counts.calls),
            all: Calls::new(run, &all),
            groups: run.groups().into_iter().map(|(group, n)| (group.name(), n)).collect(),
            ring: counts.ring.as_ref().map(calls),
            ring_unknown: Some(counts.ring_why.clone()).filter(|why| !why.is_empty()),
            clock_reads: counts.clock_reads,
            phases: counts.by_phase.as_ref().map(by_phase),
            ring_phases: counts.ring_by_phase.as_ref().map(by_phase),
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
            load: run.load.as_ref().map(|load| Answers {
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

impl Calls {
    fn new(run: &Run, tally: &Tally) -> Self {
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
    fn new(run: &Run, Cost { call, operation, other_call }: Cost) -> Self {
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
    #[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
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
    fn new(row: &Row) -> Self {
        let (this, other) = (round(row.second), round(row.first));
        Self { this, other, change: round(this - other) }
    }
}

impl Over {
    fn new(line: &Excess) -> Self {
        Self { name: line.name.clone(), maximum: line.maximum, found: round(line.found) }
    }
}

fn per_unit(run: &Run, count: u64) -> Option<f64> {
    run.unit.as_ref().map(|unit| round(unit.share(count)))
}

/// Six decimals: what is below is no figure.
fn round(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::report::budget::Budget;
    use crate::report::run::Load;
    use crate::report::run::tests::{fail, run};

    /// Of each of two programs.
    const FIGURES: &str = "all backend calls clock_reads command cost elapsed_s foreign groups load \
                           lost phases processes ring ring_phases ring_unknown threads timeline unit waste";

    fn keys(value: &Value) -> Vec<&str> {
        value.as_object().unwrap().keys().map(String::as_str).collect()
    }

    #[test]
    fn the_json_form_is_the_documented_one() {
        let (mut this, other) = (run(1_000, &[("read", 2_000)]), run(500, &[("read", 1_500)]));
        fail(&mut this.counts, "read", libc::EAGAIN, 1_000);
        this.counts.ring =
            Some([("recv".to_owned(), Tally { count: 5, ..Tally::default() })].into());
        this.load = Some(Load {
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
        let comparison = Comparison::new(&other, &this).unwrap();
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
    fn what_was_not_asked_for_is_null() {
        let mut run = run(1, &[("read", 2)]);
        run.unit = None;
        let value = serde_json::from_str::<Value>(&run.json(None, None)).unwrap();
        let keys =
            "unit ring clock_reads phases ring_phases load cost timeline compared_with exceeded";
        for key in keys.split(' ') {
            assert_eq!(value[key], Value::Null, "{key}");
        }
        assert_eq!(value["calls"]["read"]["per_unit"], Value::Null);
    }
}
