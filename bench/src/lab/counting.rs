//! The cost of a process: system calls, processor time, memory.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use fulmar_audit::{AuditError, BackendChoice, CallTally, Counter};
use fulmar_sys as sys;
use serde_json::Value;

use crate::BenchError;

/// System calls and operations of io_uring.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CallFigures {
    /// System calls, by name.
    pub(crate) calls: BTreeMap<String, CallFigure>,
    /// Operations of io_uring, by name: one call submits many of them.
    pub(crate) ring: BTreeMap<String, CallFigure>,
}

/// Calls of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CallFigure {
    pub(crate) calls: f64,
    /// Those that returned EAGAIN.
    pub(crate) eagain: f64,
}

/// What the kernel counted.
#[derive(Debug)]
pub(crate) struct KernelCount {
    pub(crate) counts: CallFigures,
    /// What has to be known about the method: tracing, operations that were not counted.
    pub(crate) notes: Vec<String>,
}

impl CallFigures {
    /// fulmar's ledger: `{"recv": {"calls": 3, "eagain": 1}, ...}`.
    pub(crate) fn from_ledger(ledger: &Value) -> Self {
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        let calls = ledger.as_object().into_iter().flatten().map(|(name, value)| {
            let (calls, eagain) = (number(&value["calls"]), number(&value["eagain"]));
            (name.clone(), CallFigure { calls, eagain })
        });
        Self { calls: calls.collect(), ..Self::default() }
    }

    /// fulmar's metrics: `fulmar_syscalls_total{call="recv"} 3`.
    pub(crate) fn from_metrics(text: &str) -> Self {
        let mut this = Self::default();
        for line in text.lines() {
            let Some((metric, rest)) = line.split_once('{') else { continue };
            let Some((labels, value)) = rest.rsplit_once("} ") else { continue };
            let labels = labels.split(',').filter_map(|label| label.split_once('='));
            let name = labels.filter(|(key, _)| ["call", "name", "syscall"].contains(key));
            let Some(name) = name.map(|(_, name)| name.trim_matches('"')).next() else { continue };
            let value: f64 = value.parse().unwrap_or(0.0);
            match metric {
                "fulmar_syscalls_total" => this.entry(name).calls += value,
                "fulmar_syscalls_eagain_total" => this.entry(name).eagain += value,
                _ => {}
            }
        }
        this
    }

    fn entry(&mut self, name: &str) -> &mut CallFigure {
        self.calls.entry(name.to_owned()).or_default()
    }

    /// What was added since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let calls = self.calls.iter().map(|(name, now)| {
            let then = before.calls.get(name).copied().unwrap_or_default();
            let (calls, eagain) = (now.calls - then.calls, now.eagain - then.eagain);
            (name.clone(), CallFigure { calls, eagain })
        });
        Self { calls: calls.collect(), ring: self.ring.clone() }
    }

    /// Calls of one kind that did not return EAGAIN.
    pub(crate) fn done(&self, name: &str) -> f64 {
        self.calls.get(name).map_or(0.0, |call| call.calls - call.eagain)
    }

    /// All system calls.
    pub(crate) fn total(&self) -> f64 {
        self.calls.values().map(|call| call.calls).sum()
    }

    /// All operations of io_uring.
    pub(crate) fn operations(&self) -> f64 {
        self.ring.values().map(|operation| operation.calls).sum()
    }

    /// Calls and operations that returned EAGAIN.
    pub(crate) fn eagain(&self) -> f64 {
        self.calls.values().chain(self.ring.values()).map(|call| call.eagain).sum()
    }

    /// Multiplied by a factor.
    pub(crate) fn scaled(&self, by: f64) -> Self {
        let scale = |counts: &BTreeMap<String, CallFigure>| {
            let scaled =
                |it: &CallFigure| CallFigure { calls: it.calls * by, eagain: it.eagain * by };
            counts.iter().map(|(name, call)| (name.clone(), scaled(call))).collect()
        };
        Self { calls: scale(&self.calls), ring: scale(&self.ring) }
    }
}

/// Counts in the kernel, as `fulmar audit` does, what process `pid`, its threads and children call
/// during `work` and until they are idle. The inner error is why it cannot be counted here; `work`
/// is then not done.
pub(crate) fn count(
    pid: u32,
    work: impl FnOnce() -> Result<(), BenchError>,
) -> Result<Result<KernelCount, String>, BenchError> {
    let begin = || {
        let counter = Counter::join(pid, BackendChoice::Best)?;
        let before = counter.snapshot()?;
        Ok((counter, before))
    };
    let (counter, before) = match begin() {
        Ok(begun) => begun,
        Err(error) => return Ok(Err(AuditError::to_string(&error))),
    };
    work()?;
    let after = idle_counts(&counter)
        .map_err(|error| BenchError::process("counting system calls", error.to_string()))?;
    let delta = after.minus(&before);
    let ring = delta.ring.as_ref().map(by_name).unwrap_or_default();
    let counts = CallFigures { calls: by_name(&delta.calls), ring };
    let mut notes = Vec::new();
    if let Some(why) = counter.refused() {
        notes.push(format!("counting in the kernel: all calls were traced instead, as {why}"));
    }
    if delta.ring.is_none() && counts.calls.contains_key("io_uring_enter") {
        notes.push(format!("operations of io_uring: {}", delta.ring_why));
    }
    Ok(Ok(KernelCount { counts, notes }))
}

/// The counts, once they do not grow any more.
fn idle_counts(counter: &Counter) -> Result<fulmar_audit::CallCounts, AuditError> {
    let (mut counts, end) = (counter.snapshot()?, sys::now() + IDLE_TIMEOUT);
    loop {
        thread::park_timeout(IDLE);
        let now = counter.snapshot()?;
        if now.total() == counts.total() || sys::now() >= end {
            return Ok(counts);
        }
        counts = now;
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts of a run of seconds")]
fn by_name(tallies: &BTreeMap<String, CallTally>) -> BTreeMap<String, CallFigure> {
    let calls = tallies.iter().map(|(name, tally)| {
        let eagain = tally.errors.get(&sys::errno::EAGAIN).copied().unwrap_or(0);
        (name.clone(), CallFigure { calls: tally.count as f64, eagain: eagain as f64 })
    });
    calls.filter(|(_, call)| call.calls > 0.0).collect()
}

/// Processor time of a process so far, all threads, in microseconds (the scheduler's account).
pub(crate) fn cpu_us(pid: u32) -> Result<f64, BenchError> {
    let path = format!("/proc/{pid}/task");
    let tasks = fs::read_dir(&path).map_err(BenchError::io(path))?;
    let times = tasks.flatten().map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    });
    Ok(times.flatten().sum::<f64>() / 1e3)
}

/// Processor time of all children that have ended, in microseconds (proc(5): cutime, cstime).
pub(crate) fn children_cpu_us() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: f64 = fields.skip(13).take(2).filter_map(|it| it.parse::<f64>().ok()).sum();
    ticks * US_PER_TICK
}

/// A field of `/proc/PID/status` in bytes: `VmRSS`, or its peak `VmHWM`.
pub(crate) fn memory(pid: u32, field: &str) -> Result<f64, BenchError> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).map_err(BenchError::io(path.clone()))?;
    let line = text.lines().find(|line| line.starts_with(field));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kilobytes.map(|kb| kb * 1024.0).ok_or_else(|| BenchError::process(&path, "the process ended"))
}

/// Sets the peak to the memory that is resident now (proc(5): clear_refs).
pub(crate) fn reset_peak(pid: u32) -> Result<(), BenchError> {
    let path = format!("/proc/{pid}/clear_refs");
    fs::write(&path, "5").map_err(BenchError::io(path))
}

/// A process without calls for this long has finished its work.
const IDLE: Duration = Duration::from_millis(30);
/// For programs with periodic timers.
const IDLE_TIMEOUT: Duration = Duration::from_millis(600);
/// USER_HZ is 100 on every architecture that Linux has here.
const US_PER_TICK: f64 = 1e4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_operations_are_counted_apart_from_calls() {
        let tally = |count, eagain| CallTally {
            count,
            errors: [(sys::errno::EAGAIN, eagain)].into(),
            ..CallTally::default()
        };
        let calls =
            [("io_uring_enter".to_owned(), tally(3, 0)), ("sendto".to_owned(), tally(2, 1))];
        let ring = [("recv".to_owned(), tally(8, 4)), ("send".to_owned(), tally(0, 0))];
        let counts = CallFigures { calls: by_name(&calls.into()), ring: by_name(&ring.into()) };
        assert_eq!(counts.ring.len(), 1, "operations without a count are left out");
        let scaled = counts.scaled(2.0);
        assert_eq!((scaled.total(), scaled.operations(), scaled.eagain()), (10.0, 16.0, 10.0));
    }

    #[test]
    fn calls_are_read_from_the_ledger_and_from_metrics() {
        let ledger = serde_json::json!({ "recv": { "calls": 5, "eagain": 2 } });
        let text = "# TYPE fulmar_syscalls_total counter\nfulmar_syscalls_total{call=\"recv\"} 5\n\
            fulmar_syscalls_eagain_total{call=\"recv\"} 2\nother{call=\"recv\"} 9\n";
        for counts in [CallFigures::from_ledger(&ledger), CallFigures::from_metrics(text)] {
            assert_eq!((counts.total(), counts.eagain(), counts.done("recv")), (5.0, 2.0, 3.0));
            assert_eq!(counts.since(&counts).total(), 0.0);
        }
    }
}
