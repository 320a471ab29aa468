//! One program under one load.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use super::errno::EAGAIN;
use super::group::Group;
use super::unit::Unit;
use crate::cost::Cost;
use crate::counts::{Counts, Tally};
use crate::timeline::Timeline;

/// One program under one load: what every report is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The command, as it was given: one line.
    pub command: String,
    /// What its counts are divided by; `None`: nothing, they stand for themselves.
    pub unit: Option<Unit>,
    /// What was counted.
    pub counts: Counts,
    /// The load that it was under, if we made it. Not kept in records.
    pub load: Option<Load>,
    /// What counting cost, if that was measured. Not kept in records.
    pub cost: Option<Cost>,
    /// What it called, one after the other, if that was asked for. Not kept in records.
    pub timeline: Option<Timeline>,
}

/// What a load brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// What was requested.
    pub url: String,
    /// Connections that were held at one time.
    pub connections: u32,
    /// Requests that were answered.
    pub requests: u64,
    /// Requests and connects that failed, by kind.
    pub errors: Vec<(String, u64)>,
    /// Answers that were no success (400 and above).
    pub refused: u64,
    /// Requests that were answered before, so that the program was warm. They are in no count.
    pub warm_up: u64,
}

impl Run {
    /// A command line as one line of text, quoted where a shell would need it.
    pub fn command_of<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
        words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
    }

    /// The command's first word, without its folder: a heading.
    pub fn name(&self) -> &str {
        let word = self.command.split(' ').next().unwrap_or_default();
        let name = word.rsplit('/').next().unwrap_or(word);
        if name.is_empty() { "program" } else { name }
    }

    /// The share of one unit; without a unit, the count itself.
    #[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
    pub fn share(&self, count: u64) -> f64 {
        self.unit.as_ref().map_or(count as f64, |unit| unit.share(count))
    }

    /// Calls that had nothing to do: they answered `EAGAIN`.
    pub fn eagain(&self) -> u64 {
        self.counts.failed_with(EAGAIN)
    }

    /// Microseconds that counting cost for each unit. `None` without a unit, or if it was not measured.
    pub fn cost_per_unit_us(&self) -> Option<f64> {
        let (unit, cost) = (self.unit.as_ref()?, self.cost?);
        let operations = self.counts.ring.iter().flatten().map(|(_, tally)| tally.count).sum();
        let per_unit = |count, each: Duration| unit.share(count) * each.as_secs_f64() * 1e6;
        let of_operations = cost.operation.map_or(0.0, |each| per_unit(operations, each));
        Some(per_unit(self.counts.total(), cost.call) + of_operations)
    }

    /// Calls by what they do, those that were made, in the order of [`Group::ALL`].
    pub fn groups(&self) -> Vec<(Group, u64)> {
        let each = Group::ALL.into_iter().map(|group| (group, group.count(&self.counts)));
        each.filter(|(_, count)| *count > 0).collect()
    }
}

/// Calls or operations, the most frequent first.
pub(crate) fn by_frequency(calls: &BTreeMap<String, Tally>) -> Vec<(&str, &Tally)> {
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
    use crate::counts::Backend;

    /// Calls and how often.
    pub(crate) fn counts(calls: &[(&str, u64)]) -> Counts {
        let mut counts = Counts::none(Backend::Ebpf);
        let tally = |count| Tally { count, ..Tally::default() };
        counts.calls = calls.iter().map(|(name, n)| ((*name).to_owned(), tally(*n))).collect();
        counts
    }

    /// Has so many of these calls fail.
    pub(crate) fn fail(counts: &mut Counts, call: &str, errno: i32, times: u64) {
        counts.calls.get_mut(call).unwrap().errors.insert(errno, times);
    }

    /// A server that answered `requests`.
    pub(crate) fn run(requests: u64, calls: &[(&str, u64)]) -> Run {
        Run {
            command: "server --port 1".into(),
            unit: Unit::new("request", requests),
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
            assert_eq!(Run::command_of(words.iter().copied()), *text);
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
