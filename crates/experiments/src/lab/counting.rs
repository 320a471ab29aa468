//! What a process costs: its system calls, its processor time.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use fulmar_audit::{AuditError, Counter, Counts};
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

/// What process `pid`, its threads and children call while `work` is done, and until they rest. Inside
/// is why it was not counted, for people; the work is then not done.
pub(crate) fn count(
    pid: u32,
    work: impl FnOnce() -> Result<(), Error>,
) -> Result<Result<Counted, String>, Error> {
    let counter = match Counter::join(pid) {
        Ok(counter) => counter,
        Err(error @ AuditError::Refused(_)) => return Ok(Err(error.to_string())),
        Err(error) => return Err(failed(&error)),
    };
    let before = counter.snapshot().map_err(|error| failed(&error))?;
    work()?;
    let mut after = counter.snapshot().map_err(|error| failed(&error))?;
    let end = sys::now() + REST_TIMEOUT;
    loop {
        thread::park_timeout(REST);
        let now = counter.snapshot().map_err(|error| failed(&error))?;
        if now.total() == after.total() || sys::now() >= end {
            break;
        }
        after = now;
    }
    Ok(Ok(stretch(&after.minus(&before))))
}

fn failed(error: &AuditError) -> Error {
    Error::Process { command: "counting system calls".to_owned(), why: error.to_string() }
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
    let tasks = fs::read_dir(&path).map_err(Error::io(path.clone()))?;
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
