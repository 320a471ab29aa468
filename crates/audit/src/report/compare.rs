//! Compares two runs side by side.

use std::collections::BTreeSet;
use std::fmt;

use super::group::CallGroup;
use super::run::AuditRun;
use super::table::{TextTable, field, share};
use crate::counts::{ByPhase, CallCounts, ConnectionPhase};
use crate::names::REPEATED;

/// Two runs of the same unit.
#[derive(Clone, Copy, Debug)]
pub struct RunComparison<'r> {
    first: &'r AuditRun,
    second: &'r AuditRun,
}

/// Why two runs cannot be compared: the nouns of their units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incomparable {
    first: Option<String>,
    second: Option<String>,
}

/// One compared figure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ComparisonRow {
    pub(crate) name: String,
    /// The first run's figure for each unit.
    pub(crate) first: f64,
    /// The second run's figure for each unit.
    pub(crate) second: f64,
}

impl<'r> RunComparison<'r> {
    /// Compares the second run with the first.
    ///
    /// # Errors
    /// The units differ.
    pub fn new(first: &'r AuditRun, second: &'r AuditRun) -> Result<Self, Incomparable> {
        let noun = |run: &AuditRun| run.unit.as_ref().map(|unit| unit.noun().to_owned());
        let (one, other) = (noun(first), noun(second));
        if one != other {
            return Err(Incomparable { first: one, second: other });
        }
        Ok(Self { first, second })
    }

    /// A table for people, the most frequent calls first. It ends with a line feed.
    pub fn text(&self) -> String {
        let (first, second) = self.headings();
        let noun = match &self.first.unit {
            Some(unit) => format!("per {}", unit.noun()),
            None => "in total".to_owned(),
        };
        let mut table = TextTable::new(["system call", &first, &second, "difference"]);
        for row in self.calls() {
            table.row(row.cells());
        }
        table.row(self.all().cells());
        let mut groups = TextTable::new(["by group", &first, &second, "difference"]);
        self.groups().iter().for_each(|row| groups.row(row.cells()));
        let mut text = format!("{}\n{}\n\n", self.first.command, self.second.command);
        text += &field("calls", &format!("{noun}; difference: {second} relative to {first}"));
        text.push('\n');
        text += &table.text();
        text.push('\n');
        text += &groups.text();
        let by_call = self.phases(|counts| counts.by_phase.as_ref());
        let by_ring = self.phases(|counts| counts.ring_by_phase.as_ref());
        let more = [("beside", self.others()), ("while", by_call), ("while, by ring", by_ring)];
        for (heading, rows) in more {
            if !rows.is_empty() {
                let mut table = TextTable::new([heading, &first, &second, "difference"]);
                rows.iter().for_each(|row| table.row(row.cells()));
                text.push('\n');
                text += &table.text();
            }
        }
        text
    }

    /// The run that the second is compared with.
    pub(crate) fn first(&self) -> &'r AuditRun {
        self.first
    }

    /// The sum of all calls.
    pub(crate) fn all(&self) -> ComparisonRow {
        self.row("all", CallCounts::total)
    }

    /// Calls, the most frequent of either run first.
    pub(crate) fn calls(&self) -> Vec<ComparisonRow> {
        let each = [self.first, self.second].into_iter();
        let names: BTreeSet<&String> = each.flat_map(|run| run.counts.calls.keys()).collect();
        let count = |counts: &CallCounts, name: &str| counts.calls.get(name).map_or(0, |t| t.count);
        let row = |name: &String| self.row(name, |counts| count(counts, name));
        let mut rows: Vec<_> = names.into_iter().map(row).collect();
        let weight = |row: &ComparisonRow| row.first.max(row.second);
        rows.sort_by(|a, b| weight(b).total_cmp(&weight(a))); // stable: then by name
        rows
    }

    /// Counts by group, so that a `writev` compares with a `sendto`.
    fn groups(&self) -> Vec<ComparisonRow> {
        let row = |group: CallGroup| self.row(group.name(), |counts| group.count(counts));
        let rows = CallGroup::ALL.into_iter().map(row);
        rows.filter(ComparisonRow::has_any).collect()
    }

    /// Figures that are no separate system calls: `EAGAIN`, clock reads, a ring's operations.
    pub(crate) fn others(&self) -> Vec<ComparisonRow> {
        let ring = |counts: &CallCounts| {
            let operations = counts.ring.iter().flatten().filter(|(name, _)| *name != REPEATED);
            operations.map(|(_, tally)| tally.count).sum()
        };
        let rows = [
            self.row("EAGAIN", |counts| counts.failed_with(libc::EAGAIN)),
            self.row("clock reads", |counts| counts.clock_reads.unwrap_or(0)),
            self.row("ring operations", ring),
        ];
        rows.into_iter().filter(ComparisonRow::has_any).collect()
    }

    /// Counts by phase, if both runs have phases.
    fn phases(&self, of: impl Fn(&CallCounts) -> Option<&ByPhase>) -> Vec<ComparisonRow> {
        if [self.first, self.second].iter().any(|run| of(&run.counts).is_none()) {
            return Vec::new();
        }
        let count = |counts: &CallCounts, phase: ConnectionPhase| {
            let done = of(counts).and_then(|phases| phases.get(&phase));
            done.into_iter().flatten().map(|(_, tally)| tally.count).sum()
        };
        let row = |phase: ConnectionPhase| self.row(phase.name(), |counts| count(counts, phase));
        ConnectionPhase::ALL.into_iter().map(row).filter(ComparisonRow::has_any).collect()
    }

    /// Two different headings: the names of the commands.
    fn headings(&self) -> (String, String) {
        match (self.first.name(), self.second.name()) {
            (first, second) if first == second => ("first".into(), "second".into()),
            (first, second) => (first.into(), second.into()),
        }
    }

    fn row(&self, name: &str, count: impl Fn(&CallCounts) -> u64) -> ComparisonRow {
        ComparisonRow {
            name: name.to_owned(),
            first: self.first.share(count(&self.first.counts)),
            second: self.second.share(count(&self.second.counts)),
        }
    }
}

impl ComparisonRow {
    fn has_any(&self) -> bool {
        self.first > 0.0 || self.second > 0.0
    }

    fn cells(&self) -> [String; 4] {
        let shown = |value: f64| if value > 0.0 { share(value) } else { "-".into() };
        [self.name.clone(), shown(self.first), shown(self.second), self.difference()]
    }

    /// The change in percent, or a word where a percentage means nothing.
    pub(crate) fn difference(&self) -> String {
        let percent = (self.second - self.first) / self.first * 100.0;
        match (self.first > 0.0, self.second > 0.0) {
            (false, false) => String::new(),
            (false, true) => "new".into(),
            (true, false) => "gone".into(),
            (true, true) if percent.abs() < 0.05 => "same".into(),
            (true, true) if percent >= 1_000.0 => format!("x{:.0}", self.second / self.first),
            (true, true) => format!("{percent:+.1} %"),
        }
    }
}

impl fmt::Display for Incomparable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = |noun: &Option<String>| match noun {
            Some(noun) => format!("per {noun}"),
            None => "in total".to_owned(),
        };
        let (first, second) = (label(&self.first), label(&self.second));
        write!(f, "the first run counts {first}, the second {second}: use the same --per")
    }
}

impl std::error::Error for Incomparable {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::run::tests::{fail, run};
    use crate::report::unit::CountUnit;

    /// The counts before and after HAProxy's commit that fused epoll events (2013).
    #[test]
    fn a_reference_table_is_reproduced() {
        let mut before =
            run(10_000, &[("epoll_wait", 60_000), ("recvfrom", 50_004), ("close", 20_005)]);
        let mut after =
            run(10_000, &[("epoll_wait", 50_012), ("recvfrom", 40_013), ("close", 20_005)]);
        after.command = "/usr/sbin/haproxy -f h.cfg".into();
        after.counts.calls.insert("splice".into(), after.counts.calls["close"].clone());
        fail(&mut after.counts, "recvfrom", libc::EAGAIN, 10_013);
        for run in [&mut before, &mut after] {
            let calls = run.counts.calls.clone().into_iter().filter(|(name, _)| name == "close");
            run.counts.by_phase = Some([(ConnectionPhase::Close, calls.collect())].into());
        }
        let text = RunComparison::new(&before, &after).unwrap().text();
        assert_eq!(
            text,
            "\
server --port 1
/usr/sbin/haproxy -f h.cfg

  calls           per request; difference: haproxy relative to server

  system call       server   haproxy  difference
  epoll_wait        6.0000    5.0012     -16.6 %
  recvfrom          5.0004    4.0013     -20.0 %
  close             2.0005    2.0005        same
  splice                 -    2.0005         new
  all              13.0009   13.0035        same

  by group          server   haproxy  difference
  wait              6.0000    5.0012     -16.6 %
  receive           5.0004    4.0013     -20.0 %
  splice                 -    2.0005         new
  close             2.0005    2.0005        same

  beside            server   haproxy  difference
  EAGAIN                 -    1.0013         new

  while             server   haproxy  difference
  close             2.0005    2.0005        same
"
        );
    }

    #[test]
    fn differences_are_percentages_or_words() {
        for (first, second, text) in [
            (0.0, 0.0, ""),
            (0.0, 1.0, "new"),
            (1.0, 0.0, "gone"),
            (2.0, 2.0, "same"),
            (2.0, 1.0, "-50.0 %"),
            (2.0, 3.0, "+50.0 %"),
            (1.0, 20.0, "x20"),
        ] {
            assert_eq!(ComparisonRow { name: String::new(), first, second }.difference(), text);
        }
    }

    #[test]
    fn runs_of_one_program_have_different_headings() {
        let (one, other) = (run(10, &[("read", 10)]), run(20, &[("read", 40)]));
        let text = RunComparison::new(&one, &other).unwrap().text();
        assert!(text.contains("    first    second  difference"), "{text}");
        assert!(text.contains("read              1.0000    2.0000    +100.0 %"), "{text}");
    }

    #[test]
    fn different_units_are_not_compared() {
        let (one, mut other) = (run(10, &[]), run(20, &[]));
        other.unit = CountUnit::new("accept", 20);
        let error = RunComparison::new(&one, &other).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the first run counts per request, the second per accept: use the same --per"
        );
        other.unit = None;
        assert!(RunComparison::new(&one, &other).unwrap_err().to_string().contains("in total"));
    }
}
