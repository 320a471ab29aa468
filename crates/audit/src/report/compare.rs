//! Two runs side by side, with what the second does differently.

use std::collections::BTreeSet;
use std::fmt;

use super::group::Group;
use super::run::Run;
use super::table::{Table, field, share};
use crate::counts::{ByPhase, Counts, Phase};
use crate::names::REPEATED;

/// Two runs of the same unit.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'r> {
    first: &'r Run,
    second: &'r Run,
}

/// Why two runs cannot be held side by side: the nouns of their units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incomparable {
    first: Option<String>,
    second: Option<String>,
}

/// Something that both were counted for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// For each unit.
    pub(crate) first: f64,
    /// For each unit.
    pub(crate) second: f64,
}

impl<'r> Comparison<'r> {
    /// The first is what the second is measured by.
    ///
    /// # Errors
    /// What they were divided by is not the same.
    pub fn new(first: &'r Run, second: &'r Run) -> Result<Self, Incomparable> {
        let noun = |run: &Run| run.unit.as_ref().map(|unit| unit.noun().to_owned());
        let (one, other) = (noun(first), noun(second));
        if one != other {
            return Err(Incomparable { first: one, second: other });
        }
        Ok(Self { first, second })
    }

    /// For people: a table, the busiest calls first; it ends with a line feed.
    pub fn text(&self) -> String {
        let (first, second) = self.headings();
        let noun = match &self.first.unit {
            Some(unit) => format!("per {}", unit.noun()),
            None => "in total".to_owned(),
        };
        let mut table = Table::new(["system call", &first, &second, "difference"]);
        for row in self.calls() {
            table.row(row.cells());
        }
        table.row(self.all().cells());
        let mut groups = Table::new(["by group", &first, &second, "difference"]);
        self.groups().iter().for_each(|row| groups.row(row.cells()));
        let mut text = format!("{}\n{}\n\n", self.first.command, self.second.command);
        text +=
            &field("calls", &format!("{noun}; the difference is what {second} makes of {first}'s"));
        text.push('\n');
        text += &table.text();
        text.push('\n');
        text += &groups.text();
        let by_call = self.phases(|counts| counts.by_phase.as_ref());
        let by_ring = self.phases(|counts| counts.ring_by_phase.as_ref());
        let more = [("beside", self.others()), ("while", by_call), ("while, by ring", by_ring)];
        for (heading, rows) in more {
            if !rows.is_empty() {
                let mut table = Table::new([heading, &first, &second, "difference"]);
                rows.iter().for_each(|row| table.row(row.cells()));
                text.push('\n');
                text += &table.text();
            }
        }
        text
    }

    /// What the second is measured by.
    pub(crate) fn first(&self) -> &'r Run {
        self.first
    }

    /// All calls together.
    pub(crate) fn all(&self) -> Row {
        self.row("all", Counts::total)
    }

    /// Calls, the busiest of either first.
    pub(crate) fn calls(&self) -> Vec<Row> {
        let each = [self.first, self.second].into_iter();
        let names: BTreeSet<&String> = each.flat_map(|run| run.counts.calls.keys()).collect();
        let count = |counts: &Counts, name: &str| counts.calls.get(name).map_or(0, |t| t.count);
        let row = |name: &String| self.row(name, |counts| count(counts, name));
        let mut rows: Vec<_> = names.into_iter().map(row).collect();
        let weight = |row: &Row| row.first.max(row.second);
        rows.sort_by(|a, b| weight(b).total_cmp(&weight(a))); // stable: then by name
        rows
    }

    /// By what they do: there a `writev` stands beside a `sendto`.
    fn groups(&self) -> Vec<Row> {
        let row = |group: Group| self.row(group.name(), |counts| group.count(counts));
        let rows = Group::ALL.into_iter().map(row);
        rows.filter(Row::has_any).collect()
    }

    /// What is no system call of its own: what had nothing to do, clock reads, a ring's operations.
    pub(crate) fn others(&self) -> Vec<Row> {
        let ring = |counts: &Counts| {
            let asked = counts.ring.iter().flatten().filter(|(name, _)| *name != REPEATED);
            asked.map(|(_, tally)| tally.count).sum()
        };
        let rows = [
            self.row("EAGAIN", |counts| counts.failed_with(libc::EAGAIN)),
            self.row("clock reads", |counts| counts.clock_reads.unwrap_or(0)),
            self.row("ring operations", ring),
        ];
        rows.into_iter().filter(Row::has_any).collect()
    }

    /// By what they were doing, where that is known of both.
    fn phases(&self, of: impl Fn(&Counts) -> Option<&ByPhase>) -> Vec<Row> {
        if [self.first, self.second].iter().any(|run| of(&run.counts).is_none()) {
            return Vec::new();
        }
        let count = |counts: &Counts, phase: Phase| {
            let done = of(counts).and_then(|phases| phases.get(&phase));
            done.into_iter().flatten().map(|(_, tally)| tally.count).sum()
        };
        let row = |phase: Phase| self.row(phase.name(), |counts| count(counts, phase));
        Phase::ALL.into_iter().map(row).filter(Row::has_any).collect()
    }

    /// The two commands' names, which are different.
    fn headings(&self) -> (String, String) {
        match (self.first.name(), self.second.name()) {
            (first, second) if first == second => ("first".into(), "second".into()),
            (first, second) => (first.into(), second.into()),
        }
    }

    fn row(&self, name: &str, count: impl Fn(&Counts) -> u64) -> Row {
        Row {
            name: name.to_owned(),
            first: self.first.share(count(&self.first.counts)),
            second: self.second.share(count(&self.second.counts)),
        }
    }
}

impl Row {
    fn has_any(&self) -> bool {
        self.first > 0.0 || self.second > 0.0
    }

    fn cells(&self) -> [String; 4] {
        let shown = |value: f64| if value > 0.0 { share(value) } else { "-".into() };
        [self.name.clone(), shown(self.first), shown(self.second), self.difference()]
    }

    /// `-16.6 %`, or a word where that says nothing.
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
        let said = |noun: &Option<String>| match noun {
            Some(noun) => format!("per {noun}"),
            None => "in total".to_owned(),
        };
        let (first, second) = (said(&self.first), said(&self.second));
        write!(f, "one counts {first} and the other {second}; choose the same with --per")
    }
}

impl std::error::Error for Incomparable {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::run::tests::{fail, run};
    use crate::report::unit::Unit;

    /// The table of the commit that fused epoll's events (HAProxy, 2013), as two runs.
    #[test]
    fn a_reference_table_comes_out_again() {
        let mut before =
            run(10_000, &[("epoll_wait", 60_000), ("recvfrom", 50_004), ("close", 20_005)]);
        let mut after =
            run(10_000, &[("epoll_wait", 50_012), ("recvfrom", 40_013), ("close", 20_005)]);
        after.command = "/usr/sbin/haproxy -f h.cfg".into();
        after.counts.calls.insert("splice".into(), after.counts.calls["close"].clone());
        fail(&mut after.counts, "recvfrom", libc::EAGAIN, 10_013);
        for run in [&mut before, &mut after] {
            let calls = run.counts.calls.clone().into_iter().filter(|(name, _)| name == "close");
            run.counts.by_phase = Some([(Phase::Close, calls.collect())].into());
        }
        let text = Comparison::new(&before, &after).unwrap().text();
        assert_eq!(
            text,
            "\
server --port 1
/usr/sbin/haproxy -f h.cfg

  calls           per request; the difference is what haproxy makes of server's

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
    fn differences_say_something() {
        for (first, second, text) in [
            (0.0, 0.0, ""),
            (0.0, 1.0, "new"),
            (1.0, 0.0, "gone"),
            (2.0, 2.0, "same"),
            (2.0, 1.0, "-50.0 %"),
            (2.0, 3.0, "+50.0 %"),
            (1.0, 20.0, "x20"),
        ] {
            assert_eq!(Row { name: String::new(), first, second }.difference(), text);
        }
    }

    #[test]
    fn runs_of_one_program_have_different_headings() {
        let (one, other) = (run(10, &[("read", 10)]), run(20, &[("read", 40)]));
        let text = Comparison::new(&one, &other).unwrap().text();
        assert!(text.contains("    first    second  difference"), "{text}");
        assert!(text.contains("read              1.0000    2.0000    +100.0 %"), "{text}");
    }

    #[test]
    fn different_units_are_not_compared() {
        let (one, mut other) = (run(10, &[]), run(20, &[]));
        other.unit = Unit::new("accept", 20);
        let error = Comparison::new(&one, &other).unwrap_err();
        assert_eq!(
            error.to_string(),
            "one counts per request and the other per accept; choose the same with --per"
        );
        other.unit = None;
        assert!(Comparison::new(&one, &other).unwrap_err().to_string().contains("in total"));
    }
}
