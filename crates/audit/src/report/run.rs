//! One program under one load.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use super::errno::EAGAIN;
use super::group::CallGroup;
use super::unit::CountUnit;
use crate::cost::Cost;
use crate::counts::{CallCounts, CallTally};
use crate::timeline::Timeline;

/// One program under one load: the input of every report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRun {
    /// The command line, on one line.
    pub command: String,
    /// The unit that counts are divided by. `None`: totals.
    pub unit: Option<CountUnit>,
    /// The counts.
    pub counts: CallCounts,
    /// The load, if this process made it. Not stored in records.
    pub load: Option<LoadSummary>,
    /// The overhead of counting, if it was measured. Not stored in records.
    pub cost: Option<Cost>,
    /// Each call in order, if it was requested. Not stored in records.
    pub timeline: Option<Timeline>,
}

/// The result of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadSummary {
    /// The requested URL.
    pub url: String,
    /// Concurrent connections.
    pub connections: u32,
    /// Requests with a response.
    pub requests: u64,
    /// Failed requests and connects, by kind.
    pub errors: Vec<(String, u64)>,
    /// Responses with a status of 400 or above.
    pub refused: u64,
    /// Requests before counting began, to warm up the program.
    pub warm_up: u64,
}

impl AuditRun {
    /// A command line on one line, quoted where a shell would need it.
    pub fn command_of<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
        words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
    }

    /// The command's first word without its directory: a heading.
    pub fn name(&self) -> &str {
        let word = self.command.split(' ').next().unwrap_or_default();
        let name = word.rsplit('/').next().unwrap_or(word);
        if name.is_empty() { "program" } else { name }
    }

    /// The count for each unit; without a unit, the count itself.
    #[expect(clippy::cast_precision_loss, reason = "for display")]
    pub fn share(&self, count: u64) -> f64 {
        self.unit.as_ref().map_or(count as f64, |unit| unit.share(count))
    }

    /// Calls that failed with `EAGAIN`.
    pub fn eagain(&self) -> u64 {
        self.counts.failed_with(EAGAIN)
    }

    /// The overhead of counting for each unit in microseconds. `None` without a unit, or if it was
    /// not measured.
    pub(crate) fn cost_per_unit_us(&self) -> Option<f64> {
        let (unit, cost) = (self.unit.as_ref()?, self.cost?);
        let operations = self.counts.ring.iter().flatten().map(|(_, tally)| tally.count).sum();
        let per_unit = |count, each: Duration| unit.share(count) * each.as_secs_f64() * 1e6;
        let of_operations = cost.operation.map_or(0.0, |each| per_unit(operations, each));
        Some(per_unit(self.counts.total(), cost.call) + of_operations)
    }

    /// Non-zero groups, in the order of [`CallGroup::ALL`].
    pub fn groups(&self) -> Vec<(CallGroup, u64)> {
        let each = CallGroup::ALL.into_iter().map(|group| (group, group.count(&self.counts)));
        each.filter(|(_, count)| *count > 0).collect()
    }
}

/// Calls or operations, the most frequent first.
pub(crate) fn by_frequency(calls: &BTreeMap<String, CallTally>) -> Vec<(&str, &CallTally)> {
    let mut calls: Vec<_> = calls.iter().map(|(name, tally)| (&name[..], tally)).collect();
    calls.sort_by_key(|(_, tally)| Reverse(tally.count)); // stable: then by name
    calls
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    let mut text = String::new();
    for c in word.chars() {
        match c {
            '\'' => text += "'\\''",
            c if c.is_control() => text.extend(c.escape_default()),
            c => text.push(c),
        }
    }
    format!("'{text}'")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::counts::CountingBackend;

    /// Counts with these calls.
    pub(crate) fn counts(calls: &[(&str, u64)]) -> CallCounts {
        let mut counts = CallCounts::none(CountingBackend::Ebpf);
        let tally = |count| CallTally { count, ..CallTally::default() };
        counts.calls = calls.iter().map(|(name, n)| ((*name).to_owned(), tally(*n))).collect();
        counts
    }

    /// Makes `times` of these calls fail.
    pub(crate) fn fail(counts: &mut CallCounts, call: &str, errno: i32, times: u64) {
        counts.calls.get_mut(call).unwrap().errors.insert(errno, times);
    }

    /// A server with this number of requests.
    pub(crate) fn run(requests: u64, calls: &[(&str, u64)]) -> AuditRun {
        AuditRun {
            command: "server --port 1".into(),
            unit: CountUnit::new("request", requests),
            counts: counts(calls),
            load: None,
            cost: None,
            timeline: None,
        }
    }

    #[test]
    fn a_command_is_one_line() {
        let cases: &[(&[&str], &str)] = &[
            (&["nginx", "-g", "daemon off;"], "nginx -g 'daemon off;'"),
            (&["/usr/bin/a", "", "it's"], "/usr/bin/a '' 'it'\\''s'"),
            (&["a", "b\nc\u{7f}"], "a 'b\\nc\\u{7f}'"),
        ];
        for (words, text) in cases {
            assert_eq!(AuditRun::command_of(words.iter().copied()), *text);
        }
    }

    #[test]
    fn a_run_is_named_for_its_program() {
        let mut run = run(10, &[("read", 20), ("close", 5), ("write", 20), ("getpid", 1)]);
        for (command, name) in
            [("/usr/sbin/nginx -c x", "nginx"), ("a/b", "b"), ("", "program"), ("x/", "program")]
        {
            run.command = command.into();
            assert_eq!(run.name(), name);
        }
        let names: Vec<_> =
            by_frequency(&run.counts.calls).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["read", "write", "close", "getpid"]);
        assert_eq!(run.groups().len(), 4);
        assert!((run.share(5) - 0.5).abs() < 1e-9);
        run.unit = None;
        assert!((run.share(5) - 5.0).abs() < 1e-9);
    }
}
