//! The maximum number of calls per unit, kept in a file: fails a build when the count rises.
//!
//! A budget is TOML: lines `name = maximum`, per unit. A name is a group ([`CallGroup`]), a class
//! of waste ([`Class`]), `all`, `eagain`, or a system call. If a group and a call have the same
//! name, it means the group.

use std::fmt;

use super::group::CallGroup;
use super::run::AuditRun;
use super::waste::Class;

/// The most that each unit may cost.
///
/// ```
/// use fulmar_audit::report::Budget;
/// assert!(Budget::parse("all = 3.1\nrecvfrom = 1.01\nwait = 1").is_ok());
/// let error = Budget::parse("epoll_weit = 1").unwrap_err();
/// assert_eq!(error.to_string(), "`epoll_weit` is unknown: did you mean `epoll_wait`?");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Budget(Vec<(BudgetKey, f64)>);

/// What a line of a budget limits.
#[derive(Clone, Debug, PartialEq, Eq)]
enum BudgetKey {
    All,
    Eagain,
    Group(CallGroup),
    Waste(Class),
    Call(String),
}

/// An exceeded line of a budget.
#[derive(Clone, Debug, PartialEq)]
pub struct Excess {
    /// What exceeded its maximum.
    pub name: String,
    /// The maximum for each unit.
    pub maximum: f64,
    /// The count for each unit.
    pub found: f64,
}

/// What is wrong with a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BudgetError {
    /// Not TOML: the parser's message with the line.
    Syntax(String),
    /// An unknown name.
    Unknown {
        /// The name.
        name: String,
        /// The most similar name.
        nearest: Option<String>,
    },
    /// A maximum that is not a number of at least 0.
    Maximum {
        /// The name on that line.
        name: String,
    },
    /// It has no lines.
    Empty,
}

impl Budget {
    /// Parses a budget.
    ///
    /// # Errors
    /// The variant is the cause, with the name or the line.
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

    /// The lines that a run exceeds, in the order of their names.
    pub fn exceeded(&self, run: &AuditRun) -> Vec<Excess> {
        let held = self.0.iter().map(|(subject, maximum)| Excess {
            name: subject.name().to_owned(),
            maximum: *maximum,
            found: run.share(subject.count(run)),
        });
        held.filter(|line| line.found > line.maximum + TOLERANCE).collect()
    }

    /// The names that were not counted in this run, so that it is unknown whether they hold.
    pub fn uncounted(&self, run: &AuditRun) -> Vec<&str> {
        let is_unknown = |subject: &&BudgetKey| match subject {
            BudgetKey::Waste(class) => class.found(&run.counts).is_none(),
            _ => false,
        };
        self.0.iter().map(|(subject, _)| subject).filter(is_unknown).map(BudgetKey::name).collect()
    }
}

impl BudgetKey {
    fn name(&self) -> &str {
        match self {
            Self::All => ALL,
            Self::Eagain => EAGAIN,
            Self::Group(group) => group.name(),
            Self::Waste(class) => class.name(),
            Self::Call(name) => name,
        }
    }

    fn count(&self, run: &AuditRun) -> u64 {
        match self {
            Self::All => run.counts.total(),
            Self::Eagain => run.eagain(),
            Self::Group(group) => group.count(&run.counts),
            Self::Waste(class) => class.found(&run.counts).map_or(0, |waste| waste.count),
            Self::Call(name) => run.counts.calls.get(name).map_or(0, |tally| tally.count),
        }
    }
}

fn subject(name: &str) -> Result<BudgetKey, BudgetError> {
    let known = match name {
        ALL => Some(BudgetKey::All),
        EAGAIN => Some(BudgetKey::Eagain),
        name => CallGroup::named(name)
            .map(BudgetKey::Group)
            .or_else(|| Class::named(name).map(BudgetKey::Waste))
            .or_else(|| {
                names().any(|known| known == name).then(|| BudgetKey::Call(name.to_owned()))
            }),
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

/// The names of all system calls.
fn names() -> impl Iterator<Item = &'static str> {
    syscalls::Sysno::iter().map(|call| call.name())
}

/// The most similar name, if one is similar.
fn nearest(name: &str) -> Option<String> {
    let groups = CallGroup::ALL.into_iter().map(CallGroup::name);
    let classes = Class::ALL.into_iter().map(Class::name);
    let known = [ALL, EAGAIN].into_iter().chain(groups).chain(classes).chain(names());
    let (likeness, near) = known
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (likeness >= LIKE).then(|| near.to_owned())
}

/// The parser's message and line number on one line.
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
        write!(f, "{name}: {found:.4} exceeds {maximum} by {:.4}", found - maximum)
    }
}

impl fmt::Display for BudgetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(message) => write!(f, "{message}"),
            Self::Unknown { name, nearest: Some(near) } => {
                write!(f, "`{name}` is unknown: did you mean `{near}`?")
            }
            Self::Unknown { name, nearest: None } => {
                write!(
                    f,
                    "`{name}` is unknown: neither a group, a class of waste, nor a system call"
                )
            }
            Self::Maximum { name } => {
                write!(f, "`{name}`: the maximum must be a number of at least 0")
            }
            Self::Empty => f.write_str("no limits: add lines like `all = 3.1`"),
        }
    }
}

impl std::error::Error for BudgetError {}

const ALL: &str = "all";
const EAGAIN: &str = "eagain";
/// Rounding error of quotients.
const TOLERANCE: f64 = 1e-9;
/// Names are similar from here on (Jaro-Winkler; 1 is equal).
const LIKE: f64 = 0.85;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::run::tests::{fail, run};

    #[test]
    fn exceeded_lines_are_reported_with_the_excess() {
        let mut run = run(1_000, &[("recvfrom", 1_990), ("accept4", 10), ("accept", 5)]);
        fail(&mut run.counts, "recvfrom", libc::EAGAIN, 990);
        let cases: &[(&str, &[&str])] = &[
            ("all = 2.005", &[]),
            ("all = 2", &["all: 2.0050 exceeds 2 by 0.0050"]),
            ("accept = 0.015\naccept4 = 0.01", &[]),
            ("accept = 0.01", &["accept: 0.0150 exceeds 0.01 by 0.0050"]),
            ("eagain = 0.99\neagain-reads = 0.99", &[]),
            (
                "wait = 0\neagain = 0\nrecvfrom = 1",
                &["eagain: 0.9900 exceeds 0 by 0.9900", "recvfrom: 1.9900 exceeds 1 by 0.9900"],
            ),
        ];
        for (text, complaints) in cases {
            let budget = Budget::parse(text).unwrap();
            let found: Vec<_> = budget.exceeded(&run).iter().map(Excess::to_string).collect();
            assert_eq!(found, *complaints, "{text}");
        }
    }

    #[test]
    fn faulty_budgets_are_refused() {
        for (text, message) in [
            ("", "no limits: add lines like `all = 3.1`"),
            ("reciev = 1", "`reciev` is unknown: did you mean `receive`?"),
            ("epoll_clt = 1", "`epoll_clt` is unknown: did you mean `epoll_ctl`?"),
            ("zero_waits = 1", "`zero_waits` is unknown: did you mean `zero-waits`?"),
            ("qq = 1", "`qq` is unknown: neither a group, a class of waste, nor a system call"),
            ("all = -1", "`all`: the maximum must be a number of at least 0"),
            ("all = nan", "`all`: the maximum must be a number of at least 0"),
            ("all = \"3\"", "`all`: the maximum must be a number of at least 0"),
            ("all = 99999999999999", "`all`: the maximum must be a number of at least 0"),
            ("[calls]\nread = 1", "`calls` is unknown: did you mean `all`?"),
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
    fn uncounted_names_are_reported() {
        let mut run = run(1_000, &[("epoll_wait", 10)]);
        let budget = Budget::parse("all = 5\nclock-reads = 1\nzero-waits = 0").unwrap();
        assert_eq!(budget.uncounted(&run), ["clock-reads", "zero-waits"]);
        run.counts.clock_reads = Some(0);
        let kinds = [("other".to_owned(), 10)].into();
        run.counts.calls.get_mut("epoll_wait").unwrap().kinds = kinds;
        assert!(budget.uncounted(&run).is_empty() && budget.exceeded(&run).is_empty());
    }

    #[test]
    fn a_program_without_waits_has_no_zero_waits() {
        let budget = Budget::parse("zero-waits = 0").unwrap();
        for calls in [&[("read", 10)][..], &[("io_uring_enter", 10)]] {
            let run = run(1_000, calls);
            assert!(budget.uncounted(&run).is_empty() && budget.exceeded(&run).is_empty());
        }
    }
}
