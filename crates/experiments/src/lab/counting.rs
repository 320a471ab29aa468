//! What a process costs: its system calls, its processor time.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use fulmar_audit::{AuditError, Counter, Counts, Method};
use fulmar_sys as sys;

use crate::Error;

/// System calls of a stretch, by name.
pub(crate) type Counted = BTreeMap<String, Call>;

/// One of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Call {
    /// How often it was made.
    pub(crate) calls: f64,
    /// How often there was nothing for it to do.
    pub(crate) eagain: f64,
}

/// What was counted, and at whose cost.
#[derive(Debug)]
pub(crate) struct Count {
    pub(crate) calls: Counted,
    /// Why the kernel did not count, if the process had to be traced, for people.
    pub(crate) traced: Option<String>,
}

/// What process `pid`, its threads and children call while `work` is done, and until they rest. Inside
/// is why it was not counted, for people; the work is then not done.
pub(crate) fn count(
    pid: u32,
    work: impl FnOnce() -> Result<(), Error>,
) -> Result<Result<Count, String>, Error> {
    let begin = || {
        let counter = Counter::join(pid, Method::Best)?;
        let before = counter.snapshot()?;
        Ok((counter, before))
    };
    let (counter, before) = match begin() {
        Ok(begun) => begun,
        Err(error) => return Ok(Err(AuditError::to_string(&error))),
    };
    work()?;
    let after = resting(&counter).map_err(|error| Error::Process {
        command: "counting system calls".to_owned(),
        why: error.to_string(),
    })?;
    let traced = counter.refused().map(ToString::to_string);
    Ok(Ok(Count { calls: stretch(&after.minus(&before)), traced }))
}

/// The counts, once they do not grow any more.
fn resting(counter: &Counter) -> Result<Counts, AuditError> {
    let (mut counts, end) = (counter.snapshot()?, sys::now() + REST_TIMEOUT);
    loop {
        thread::park_timeout(REST);
        let now = counter.snapshot()?;
        if now.total() == counts.total() || sys::now() >= end {
            return Ok(counts);
        }
        counts = now;
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts of a run of seconds")]
fn stretch(counts: &Counts) -> Counted {
    let calls = counts.calls.iter().map(|(name, tally)| {
        let eagain = tally.errors.get(&sys::errno::EAGAIN).copied().unwrap_or(0);
        (name.clone(), Call { calls: tally.count as f64, eagain: eagain as f64 })
    });
    calls.filter(|(_, call)| call.calls > 0.0).collect()
}

/// Processor time of a process so far, all threads: what the scheduler counted, in nanoseconds.
pub(crate) fn cpu_us(pid: u32) -> Result<f64, Error> {
    let path = format!("/proc/{pid}/task");
    let tasks = fs::read_dir(&path).map_err(Error::io(path))?;
    let times = tasks.flatten().map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    });
    Ok(times.flatten().sum::<f64>() / 1e3)
}

/// As long without a call, and a process has done its work.
const REST: Duration = Duration::from_millis(30);
/// Programs that look at their clocks never rest.
const REST_TIMEOUT: Duration = Duration::from_millis(600);
