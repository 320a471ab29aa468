//! A run as text that can be kept in a repository: sorted, without times and process numbers.
//!
//! The first line names the format. Each following line is a keyword and its values:
//!
//! ```text
//! fulmar audit record 1
//! command nginx -c nginx.conf
//! unit request 10000
//! backend ebpf
//! processes 1
//! threads 1
//! lost 0
//! call accept4 66 EAGAIN=2
//! call recvfrom 10000 bytes=410000
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;

use super::errno;
use super::run::AuditRun;
use super::unit::CountUnit;
use crate::counts::{ByPhase, CallCounts, CallTally, ConnectionPhase, CountingBackend};

/// Why a text is no valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordError {
    /// The first line does not name the format.
    NoRecord,
    /// The version of the format is not supported.
    Format,
    /// It is longer than the limit.
    TooLong,
    /// This line (from 1) is invalid.
    Line(usize),
    /// This line repeats an earlier one.
    Twice(usize),
    /// A required line is missing.
    Missing(&'static str),
}

impl AuditRun {
    /// The run as a record. It ends with a line feed.
    ///
    /// Time and load are left out, because they differ each time.
    pub fn record(&self) -> String {
        let counts = &self.counts;
        let mut text = format!("{FORMAT}{VERSION}\ncommand {}\n", self.command);
        if let Some(unit) = &self.unit {
            line(&mut text, format_args!("unit {} {}", unit.noun(), unit.count()));
        }
        line(&mut text, format_args!("backend {}", counts.backend.name()));
        line(&mut text, format_args!("processes {}", counts.processes));
        line(&mut text, format_args!("threads {}", counts.threads));
        line(&mut text, format_args!("lost {}", counts.lost));
        if counts.foreign > 0 {
            line(&mut text, format_args!("foreign {}", counts.foreign));
        }
        if let Some(reads) = counts.clock_reads {
            line(&mut text, format_args!("clock-reads {reads}"));
        }
        tallies(&mut text, "call", &counts.calls);
        if let Some(ring) = &counts.ring {
            line(&mut text, format_args!("ring-counted"));
            tallies(&mut text, "ring", ring);
        }
        if !counts.ring_why.is_empty() {
            line(&mut text, format_args!("ring-unknown {}", counts.ring_why));
        }
        for (phase, calls) in counts.by_phase.iter().flatten() {
            tallies(&mut text, &format!("phase {}", phase.name()), calls);
        }
        for (phase, done) in counts.ring_by_phase.iter().flatten() {
            tallies(&mut text, &format!("ring-phase {}", phase.name()), done);
        }
        text
    }

    /// Parses a record.
    ///
    /// # Errors
    /// The variant is the cause, with the line.
    pub fn read(text: &str) -> Result<Self, RecordError> {
        if text.len() > SIZE_MAX {
            return Err(RecordError::TooLong);
        }
        let mut lines = text.lines().zip(1..);
        let format = lines.next().and_then(|(first, _)| first.strip_prefix(FORMAT));
        if format.ok_or(RecordError::NoRecord)? != VERSION {
            return Err(RecordError::Format);
        }
        let mut draft = RecordParser::default();
        for (line, number) in lines.filter(|(line, _)| !line.is_empty()) {
            let new = draft.take(line).ok_or(RecordError::Line(number))?;
            if !new {
                return Err(RecordError::Twice(number));
            }
        }
        draft.finish()
    }
}

fn tallies(text: &mut String, what: &str, calls: &BTreeMap<String, CallTally>) {
    for (name, tally) in calls {
        let _ = write!(text, "{what} {name} {}", tally.count);
        for (errno, count) in &tally.errors {
            let _ = write!(text, " {}={count}", errno::name(*errno));
        }
        for (kind, count) in &tally.kinds {
            let _ = write!(text, " {KIND}{kind}={count}");
        }
        if tally.bytes > 0 {
            let _ = write!(text, " {BYTES}={}", tally.bytes);
        }
        text.push('\n');
    }
}

fn line(text: &mut String, line: fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("a string takes everything");
}

/// A record that is being read.
#[derive(Default)]
struct RecordParser {
    command: Option<String>,
    unit: Option<CountUnit>,
    backend: Option<CountingBackend>,
    processes: Option<u64>,
    threads: Option<u64>,
    lost: Option<u64>,
    foreign: Option<u64>,
    clock_reads: Option<u64>,
    calls: BTreeMap<String, CallTally>,
    ring: Option<BTreeMap<String, CallTally>>,
    ring_why: Option<String>,
    by_phase: Option<ByPhase>,
    ring_by_phase: Option<ByPhase>,
}

impl RecordParser {
    /// Parses a line. `None` if it is invalid, false if it repeats an earlier one.
    fn take(&mut self, line: &str) -> Option<bool> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "command" => Some(set(&mut self.command, rest.to_owned())),
            "unit" => {
                let (noun, count) = rest.split_once(' ')?;
                let unit = CountUnit::new(noun, number(count)?).filter(|u| u.noun() == noun)?;
                Some(set(&mut self.unit, unit))
            }
            "backend" => Some(set(&mut self.backend, CountingBackend::named(rest)?)),
            "processes" => Some(set(&mut self.processes, number(rest)?)),
            "threads" => Some(set(&mut self.threads, number(rest)?)),
            "lost" => Some(set(&mut self.lost, number(rest)?)),
            "foreign" => Some(set(&mut self.foreign, number(rest)?)),
            "clock-reads" => Some(set(&mut self.clock_reads, number(rest)?)),
            "call" => enter(&mut self.calls, rest),
            "ring-counted" if rest.is_empty() => Some(set(&mut self.ring, BTreeMap::new())),
            "ring-unknown" if !rest.is_empty() => Some(set(&mut self.ring_why, rest.to_owned())),
            "ring" => enter(self.ring.as_mut()?, rest),
            "phase" => enter_phase(&mut self.by_phase, rest),
            "ring-phase" => enter_phase(&mut self.ring_by_phase, rest),
            _ => None,
        }
    }

    fn finish(self) -> Result<AuditRun, RecordError> {
        let backend = self.backend.ok_or(RecordError::Missing("backend"))?;
        let counts = CallCounts {
            calls: self.calls,
            ring: self.ring,
            ring_why: self.ring_why.unwrap_or_default(),
            clock_reads: self.clock_reads,
            lost: self.lost.ok_or(RecordError::Missing("lost"))?,
            foreign: self.foreign.unwrap_or(0),
            threads: self.threads.ok_or(RecordError::Missing("threads"))?,
            processes: self.processes.ok_or(RecordError::Missing("processes"))?,
            by_phase: self.by_phase,
            ring_by_phase: self.ring_by_phase,
            ..CallCounts::none(backend)
        };
        let command = self.command.ok_or(RecordError::Missing("command"))?;
        Ok(AuditRun { command, unit: self.unit, counts, load: None, cost: None, timeline: None })
    }
}

/// Sets a value. False if it was set already.
fn set<T>(place: &mut Option<T>, value: T) -> bool {
    place.replace(value).is_none()
}

/// Parses a phase and a tally within it.
fn enter_phase(phases: &mut Option<ByPhase>, rest: &str) -> Option<bool> {
    let (name, rest) = rest.split_once(' ')?;
    let phase = ConnectionPhase::ALL.into_iter().find(|phase| phase.name() == name)?;
    enter(phases.get_or_insert_default().entry(phase).or_default(), rest)
}

/// `NAME COUNT`, then `WHAT=COUNT` for errors, kinds and bytes.
fn enter(calls: &mut BTreeMap<String, CallTally>, rest: &str) -> Option<bool> {
    let mut words = rest.split(' ');
    let name = words.next().filter(|name| !name.is_empty())?;
    let mut tally = CallTally { count: number(words.next()?)?, ..CallTally::default() };
    for word in words {
        let (what, count) = word.rsplit_once('=')?;
        let count = number(count)?;
        let before = match what.strip_prefix(KIND) {
            _ if what == BYTES => {
                let before = tally.bytes;
                tally.bytes = count;
                (before > 0).then_some(before)
            }
            Some(kind) => tally.kinds.insert(kind.to_owned(), count),
            None => tally.errors.insert(errno::number(what)?, count),
        };
        if before.is_some() {
            return None;
        }
    }
    Some(calls.insert(name.to_owned(), tally).is_none())
}

/// Parses a count. It is bounded so that sums cannot overflow.
fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number| *number <= NUMBER_MAX)
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRecord => {
                write!(f, "not a record: the first line must be `{FORMAT}{VERSION}`")
            }
            Self::Format => {
                write!(f, "unsupported record version: expected `{FORMAT}{VERSION}`")
            }
            Self::TooLong => write!(f, "not a record: longer than {SIZE_MAX} bytes"),
            Self::Line(line) => write!(f, "line {line} is invalid"),
            Self::Twice(line) => write!(f, "line {line} repeats an earlier line"),
            Self::Missing(what) => write!(f, "line `{what}` is missing"),
        }
    }
}

impl std::error::Error for RecordError {}

const FORMAT: &str = "fulmar audit record ";
const VERSION: &str = "1";
const BYTES: &str = "bytes";
/// Prefix of kinds, which distinguishes them from errors.
const KIND: &str = "kind:";
/// Some 400 system calls with all their fields are shorter.
const SIZE_MAX: usize = 1 << 20;
/// Years of calls, or 280 terabytes. A record has fewer than 65,536 numbers.
const NUMBER_MAX: u64 = 1 << 48;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::report::run::tests::{fail, run};

    const TEXT: &str = "\
fulmar audit record 1
command server --port 1
unit request 1000
backend ebpf
processes 2
threads 3
lost 2
foreign 1
clock-reads 7
call accept4 12 EAGAIN=2
call epoll_ctl 5 kind:ADD=3 kind:DEL=2
call recvfrom 1000 ECONNRESET=1 ERESTARTSYS=1 bytes=41000
ring-counted
ring recv 4 bytes=9
phase head recvfrom 1000
ring-phase head recv 7 bytes=70
";

    fn sample() -> AuditRun {
        let mut run = run(1_000, &[("accept4", 12), ("recvfrom", 1_000), ("epoll_ctl", 5)]);
        let counts = &mut run.counts;
        fail(counts, "accept4", libc::EAGAIN, 2);
        fail(counts, "recvfrom", libc::ECONNRESET, 1);
        fail(counts, "recvfrom", 512, 1);
        counts.calls.get_mut("recvfrom").unwrap().bytes = 41_000;
        counts.calls.get_mut("epoll_ctl").unwrap().kinds =
            [("ADD".to_owned(), 3), ("DEL".to_owned(), 2)].into();
        (counts.processes, counts.threads, counts.lost, counts.foreign) = (2, 3, 2, 1);
        counts.clock_reads = Some(7);
        let tally = |count, bytes| CallTally { count, bytes, ..CallTally::default() };
        counts.ring = Some([("recv".to_owned(), tally(4, 9))].into());
        let calls = [("recvfrom".to_owned(), tally(1_000, 0))].into();
        counts.by_phase = Some([(ConnectionPhase::Head, calls)].into());
        let done = [("recv".to_owned(), tally(7, 70))].into();
        counts.ring_by_phase = Some([(ConnectionPhase::Head, done)].into());
        run
    }

    #[test]
    fn a_record_is_sorted_text_and_parses_back() {
        assert_eq!(sample().record(), TEXT);
        assert_eq!(AuditRun::read(TEXT), Ok(sample()));
        let mut other = sample();
        other.unit = None;
        other.counts.ring_why = "results are not reported".into();
        assert_eq!(AuditRun::read(&other.record()), Ok(other.clone()));
        other.counts.ring = None;
        other.counts.ring_why = "the kernel is older than 6.0".into();
        other.counts.clock_reads = None;
        (other.counts.by_phase, other.counts.ring_by_phase) = (None, None);
        assert_eq!(AuditRun::read(&other.record()), Ok(other));
    }

    #[test]
    fn time_and_load_are_not_kept() {
        let mut run = sample();
        run.counts.elapsed = std::time::Duration::from_millis(1_234);
        assert_eq!(run.record(), TEXT);
    }

    #[test]
    fn invalid_records_are_refused() {
        let after = |line: &str| format!("{TEXT}{line}\n");
        let twice = |line: &str| (after(line), RecordError::Twice(17));
        let bad = |line: &str| (after(line), RecordError::Line(17));
        for (text, error) in [
            (String::new(), RecordError::NoRecord),
            ("% time     seconds\n".into(), RecordError::NoRecord),
            ("fulmar audit record 2\n".into(), RecordError::Format),
            ("fulmar audit record 1\n".into(), RecordError::Missing("backend")),
            ("x".repeat(SIZE_MAX + 1), RecordError::TooLong),
            (TEXT.replace("lost 2\n", ""), RecordError::Missing("lost")),
            (TEXT.replace("ring-counted\n", ""), RecordError::Line(13)),
            twice("unit request 4"),
            twice("call accept4 1"),
            twice("phase head recvfrom 1"),
            twice("ring-phase head recv 1"),
            bad("call"),
            bad("call read"),
            bad("call read -1"),
            bad("call read 281474976710657"),
            bad("call read 99999999999999999999"),
            bad("call read 1 EAGAIN"),
            bad("call read 1 EWHAT=1"),
            bad("call read 1 EAGAIN=1 EAGAIN=1"),
            bad("call read 1 bytes=1 bytes=1"),
            bad("unit request 0"),
            bad("unit re1quest 4"),
            bad("phase lunch read 1"),
            bad("ring-phase lunch recv 1"),
            bad("backend strace"),
            bad("ring-unknown"),
            bad("elapsed 4"),
        ] {
            assert_eq!(AuditRun::read(&text), Err(error), "{}", &text[..text.len().min(2_000)]);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_record_or_an_error(
            text in "(fulmar audit record 1\n)?(call|unit|lost|foreign|ring|[a-z ]*)[ -~\n]{0,200}"
        ) {
            if let Ok(run) = AuditRun::read(&text) {
                prop_assert!(run.text().ends_with('\n'));
                prop_assert_eq!(AuditRun::read(&run.record()), Ok(run));
            }
        }

        #[test]
        fn any_counts_parse_back(
            calls in proptest::collection::btree_map(
                "[a-z_0-9]{1,20}",
                (1..NUMBER_MAX, 1..4_096_i32, 0..NUMBER_MAX),
                0..20,
            ),
            lost in 0..NUMBER_MAX,
        ) {
            let mut run = run(1, &[]);
            run.counts.lost = lost;
            run.counts.calls = calls.into_iter().map(|(name, (count, errno, bytes))| {
                let errors = [(errno, count)].into();
                (name, CallTally { count, bytes, errors, ..CallTally::default() })
            }).collect();
            prop_assert_eq!(AuditRun::read(&run.record()), Ok(run));
        }
    }
}
