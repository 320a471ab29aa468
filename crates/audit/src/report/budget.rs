//! How many calls a unit may cost, kept in a file: for builds that fail when the count rises.
//!
//! A budget is TOML, `name = maximum` for each unit. A name is a group ([`Group`]), a class of
//! waste ([`Class`]), `all`, `eagain`, or a system call; a group goes before a call of its name.

use std::fmt;

use super::group::Group;
use super::run::Run;
use super::waste::Class;

/// The most that each unit may cost.
///
/// ```
/// use fulmar_audit::report::Budget;
/// assert!(Budget::parse("all = 3.1\nrecvfrom = 1.01\nwait = 1").is_ok());
/// let error = Budget::parse("epoll_weit = 1").unwrap_err();
/// assert_eq!(error.to_string(), "`epoll_weit` is nothing that is counted: is `epoll_wait` meant?");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Budget(Vec<(Subject, f64)>);

/// What a line of a budget is about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    All,
    Eagain,
    Group(Group),
    Waste(Class),
    Call(String),
}

/// A line of a budget that does not hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Excess {
    /// What there was too much of.
    pub name: String,
    /// The most that was allowed, for each unit.
    pub maximum: f64,
    /// What there was, for each unit.
    pub found: f64,
}

/// What is wrong with a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BudgetError {
    /// It is no TOML: what the reader says, with the place.
    Syntax(String),
    /// A name that nothing has.
    Unknown {
        /// The name.
        name: String,
        /// A name that is like it.
        nearest: Option<String>,
    },
    /// A maximum that is no number from 0 up.
    Maximum {
        /// Of this name.
        name: String,
    },
    /// It says nothing, so nothing can exceed it.
    Empty,
}

impl Budget {
    /// Reads it.
    ///
    /// # Errors
    /// The variant says what is wrong, and with which line.
    pub fn parse(text: &str) -> Result<Self, BudgetError> {
        let table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| syntax(&error.to_string()))?;
        let lines: Result<Vec<_>, _> =
            table.iter().map(|(name, value)| Ok((subject(name)?, maximum(name, value)?))).collect();
        match lines? {
            lines if lines.is_empty() => Err(BudgetError::Empty),
            lines => Ok(Self(lines)),
        }
    }

    /// What exceeds it in a run, in the order of the file's names.
    pub fn exceeded(&self, run: &Run) -> Vec<Excess> {
        let held = self.0.iter().map(|(subject, maximum)| Excess {
            name: subject.name().to_owned(),
            maximum: *maximum,
            found: run.share(subject.count(run)),
        });
        held.filter(|line| line.found > line.maximum + TOLERANCE).collect()
    }

    /// What it names that was not counted in this run, so that nobody knows whether it holds.
    pub fn uncounted(&self, run: &Run) -> Vec<&str> {
        let is_unknown = |subject: &&Subject| match subject {
            Subject::Waste(class) => class.found(&run.counts).is_none(),
            _ => false,
        };
        self.0.iter().map(|(subject, _)| subject).filter(is_unknown).map(Subject::name).collect()
    }
}

impl Subject {
    fn name(&self) -> &str {
        match self {
            Self::All => ALL,
            Self::Eagain => EAGAIN,
            Self::Group(group) => group.name(),
            Self::Waste(class) => class.name(),
            Self::Call(name) => name,
        }
    }

    fn count(&self, run: &Run) -> u64 {
        match self {
            Self::All => run.counts.total(),
            Self::Eagain => run.eagain(),
            Self::Group(group) => group.count(&run.counts),
            Self::Waste(class) => class.found(&run.counts).map_or(0, |waste| waste.count),
            Self::Call(name) => run.counts.calls.get(name).map_or(0, |tally| tally.count),
        }
    }
}

fn subject(name: &str) -> Result<Subject, BudgetError> {
    let known = match name {
        ALL => Some(Subject::All),
        EAGAIN => Some(Subject::Eagain),
        name => Group::named(name)
            .map(Subject::Group)
            .or_else(|| Class::named(name).map(Subject::Waste))
            .or_else(|| names().any(|known| known == name).then(|| Subject::Call(name.to_owned()))),
    };
    known.ok_or_else(|| BudgetError::Unknown { name: name.to_owned(), nearest: nearest(name) })
}

fn maximum(name: &str, value: &toml::Value) -> Result<f64, BudgetError> {
    let number = match value {
        toml::Value::Float(number) => Some(*number),
        toml::Value::Integer(number) => i32::try_from(*number).ok().map(f64::from),
        _ => None,
    };
    let sound = number.filter(|number| number.is_finite() && *number >= 0.0);
    sound.ok_or_else(|| BudgetError::Maximum { name: name.to_owned() })
}

/// The kernel's names of its calls.
fn names() -> impl Iterator<Item = &'static str> {
    syscalls::Sysno::iter().map(|call| call.name())
}

/// The name that is most like it, if one is.
fn nearest(name: &str) -> Option<String> {
    let groups = Group::ALL.into_iter().map(Group::name);
    let classes = Class::ALL.into_iter().map(Class::name);
    let known = [ALL, EAGAIN].into_iter().chain(groups).chain(classes).chain(names());
    let (likeness, near) = known
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (likeness >= LIKE).then(|| near.to_owned())
}

/// The reader's message on one line: what, and where.
fn syntax(message: &str) -> BudgetError {
    let lines = message.lines().map(str::trim).filter(|line| {
        let frame = line.starts_with('|') || line.split_once(" |").is_some_and(is_number);
        !frame && !line.is_empty()
    });
    BudgetError::Syntax(lines.collect::<Vec<_>>().join(": "))
}

fn is_number((before, _): (&str, &str)) -> bool {
    !before.is_empty() && before.bytes().all(|byte| byte.is_ascii_digit())
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, maximum, found } = self;
        write!(f, "{name}: {found:.4}, and {maximum} is allowed: {:.4} too many", found - maximum)
    }
}

impl fmt::Display for BudgetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(message) => write!(f, "{message}"),
            Self::Unknown { name, nearest: Some(near) } => {
                write!(f, "`{name}` is nothing that is counted: is `{near}` meant?")
            }
            Self::Unknown { name, nearest: None } => {
                write!(f, "`{name}` is nothing that is counted: neither a group, nor a system call")
            }
            Self::Maximum { name } => write!(f, "`{name}`: a maximum is a number from 0 up"),
            Self::Empty => f.write_str("it allows everything: write lines like `all = 3.1`"),
        }
    }
}

impl std::error::Error for BudgetError {}

const ALL: &str = "all";
const EAGAIN: &str = "eagain";
/// A quotient of whole numbers is no decimal fraction exactly.
const TOLERANCE: f64 = 1e-9;
/// From here on a name is like another (Jaro and Winkler; 1 is equal).
const LIKE: f64 = 0.85;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::run::tests::{fail, run};

    #[test]
    fn what_exceeds_is_named_with_how_much() {
        let mut run = run(1_000, &[("recvfrom", 1_990), ("accept4", 10), ("accept", 5)]);
        fail(&mut run.counts, "recvfrom", libc::EAGAIN, 990);
        let cases: &[(&str, &[&str])] = &[
            ("all = 2.005", &[]),
            ("all = 2", &["all: 2.0050, and 2 is allowed: 0.0050 too many"]),
            ("accept = 0.015\naccept4 = 0.01", &[]),
            ("accept = 0.01", &["accept: 0.0150, and 0.01 is allowed: 0.0050 too many"]),
            ("eagain = 0.99\neagain-reads = 0.99", &[]),
            (
                "wait = 0\neagain = 0\nrecvfrom = 1",
                &[
                    "eagain: 0.9900, and 0 is allowed: 0.9900 too many",
                    "recvfrom: 1.9900, and 1 is allowed: 0.9900 too many",
                ],
            ),
        ];
        for (text, complaints) in cases {
            let budget = Budget::parse(text).unwrap();
            let found: Vec<_> = budget.exceeded(&run).iter().map(Excess::to_string).collect();
            assert_eq!(found, *complaints, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, message) in [
            ("", "it allows everything: write lines like `all = 3.1`"),
            ("reciev = 1", "`reciev` is nothing that is counted: is `receive` meant?"),
            ("epoll_clt = 1", "`epoll_clt` is nothing that is counted: is `epoll_ctl` meant?"),
            ("zero_waits = 1", "`zero_waits` is nothing that is counted: is `zero-waits` meant?"),
            ("qq = 1", "`qq` is nothing that is counted: neither a group, nor a system call"),
            ("all = -1", "`all`: a maximum is a number from 0 up"),
            ("all = nan", "`all`: a maximum is a number from 0 up"),
            ("all = \"3\"", "`all`: a maximum is a number from 0 up"),
            ("all = 99999999999999", "`all`: a maximum is a number from 0 up"),
            ("[calls]\nread = 1", "`calls` is nothing that is counted: is `all` meant?"),
        ] {
            assert_eq!(Budget::parse(text).unwrap_err().to_string(), message, "{text}");
        }
        for text in ["all 3", "all = 1\nall = 2", "\u{0}"] {
            let error = Budget::parse(text).unwrap_err();
            assert!(matches!(error, BudgetError::Syntax(_)), "{error:?}");
            let message = error.to_string();
            assert!(message.contains("line") && !message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn what_was_not_counted_is_said() {
        let mut run = run(1_000, &[("epoll_wait", 10)]);
        let budget = Budget::parse("all = 5\nclock-reads = 1\nzero-waits = 0").unwrap();
        assert_eq!(budget.uncounted(&run), ["clock-reads", "zero-waits"]);
        run.counts.clock_reads = Some(0);
        let kinds = [("other".to_owned(), 10)].into();
        run.counts.calls.get_mut("epoll_wait").unwrap().kinds = kinds;
        assert!(budget.uncounted(&run).is_empty() && budget.exceeded(&run).is_empty());
    }

    #[test]
    fn a_program_that_never_waits_waits_in_vain_never() {
        let budget = Budget::parse("zero-waits = 0").unwrap();
        for calls in [&[("read", 10)][..], &[("io_uring_enter", 10)]] {
            let run = run(1_000, calls);
            assert!(budget.uncounted(&run).is_empty() && budget.exceeded(&run).is_empty());
        }
    }
}
