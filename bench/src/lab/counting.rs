//! What a process costs: its system calls, its processor time.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use fulmar_audit::{AuditError, BackendChoice, CallCounts, CallTally, Counter};
use fulmar_sys as sys;

use crate::Error;

/// What was asked of the kernel in a stretch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counted {
    /// System calls, by name.
    pub(crate) calls: BTreeMap<String, Call>,
    /// Operations of io_uring, by name: many of them take one call.
    pub(crate) ring: BTreeMap<String, Call>,
}

/// A call or an operation.
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
    pub(crate) counted: Counted,
    /// Why the kernel did not count, if the process had to be traced, for people.
    pub(crate) traced: Option<String>,
    /// Why operations of io_uring were not counted, if there were some.
    pub(crate) unseen: Option<String>,
}

impl Counted {
    /// All system calls.
    pub(crate) fn total(&self) -> f64 {
        self.calls.values().map(|call| call.calls).sum()
    }

    /// All operations of io_uring.
    pub(crate) fn operations(&self) -> f64 {
        self.ring.values().map(|operation| operation.calls).sum()
    }

    /// Calls and operations that found nothing to do.
    pub(crate) fn in_vain(&self) -> f64 {
        self.calls.values().chain(self.ring.values()).map(|call| call.eagain).sum()
    }

    /// Multiplied: shares of a response, or as many as a document has.
    pub(crate) fn scaled(&self, by: f64) -> Self {
        let scale = |counted: &BTreeMap<String, Call>| {
            let each = counted.iter();
            let scaled = |call: &Call| Call { calls: call.calls * by, eagain: call.eagain * by };
            each.map(|(name, call)| (name.clone(), scaled(call))).collect()
        };
        Self { calls: scale(&self.calls), ring: scale(&self.ring) }
    }
}

/// What process `pid`, its threads and children call while `work` is done, and until they rest. Inside
/// is why it was not counted, for people; the work is then not done.
pub(crate) fn count(
    pid: u32,
    work: impl FnOnce() -> Result<(), Error>,
) -> Result<Result<Count, String>, Error> {
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
    let after = resting(&counter).map_err(|error| Error::Process {
        command: "counting system calls".to_owned(),
        why: error.to_string(),
    })?;
    let traced = counter.refused().map(ToString::to_string);
    let stretch = after.minus(&before);
    let counted = Counted {
        calls: by_name(&stretch.calls),
        ring: stretch.ring.as_ref().map(by_name).unwrap_or_default(),
    };
    let unseen = stretch.ring.is_none() && counted.calls.contains_key("io_uring_enter");
    let unseen = unseen.then(|| stretch.ring_why.clone());
    Ok(Ok(Count { counted, traced, unseen }))
}

/// The counts, once they do not grow any more.
fn resting(counter: &Counter) -> Result<CallCounts, AuditError> {
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
fn by_name(tallies: &BTreeMap<String, CallTally>) -> BTreeMap<String, Call> {
    let calls = tallies.iter().map(|(name, tally)| {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_a_ring_are_no_calls_but_may_be_in_vain() {
        let tally = |count, eagain| CallTally {
            count,
            errors: [(sys::errno::EAGAIN, eagain)].into(),
            ..CallTally::default()
        };
        let calls =
            [("io_uring_enter".to_owned(), tally(3, 0)), ("sendto".to_owned(), tally(2, 1))];
        let ring = [("recv".to_owned(), tally(8, 4)), ("send".to_owned(), tally(0, 0))];
        let counted = Counted { calls: by_name(&calls.into()), ring: by_name(&ring.into()) };
        assert_eq!(counted.ring.len(), 1, "what was not done is left out");
        let scaled = counted.scaled(2.0);
        assert_eq!((scaled.total(), scaled.operations(), scaled.in_vain()), (10.0, 16.0, 10.0));
    }
}
