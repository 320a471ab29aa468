//! What counts are divided by.

use std::fmt;

use crate::counts::{CallCounts, CallTally};

/// The requested unit of a report.
///
/// ```
/// use fulmar_audit::report::Per;
/// assert_eq!("accept".parse(), Ok(Per::Accept));
/// assert_eq!("500".parse(), Ok(Per::Number(500)));
/// assert!("0".parse::<Per>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// Accepted connections.
    Accept,
    /// Opened connections.
    Connect,
    /// Requests with a response. Only the load generator knows their number.
    Request,
    /// A given number, for example how often the program did its work.
    Number(u64),
}

impl std::str::FromStr for Per {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "accept" => Ok(Self::Accept),
            "connect" => Ok(Self::Connect),
            "request" => Ok(Self::Request),
            number => match number.parse() {
                Ok(0) | Err(_) => Err("`accept`, `connect`, `request` or a number above 0"),
                Ok(number) => Ok(Self::Number(number)),
            },
        }
    }
}

/// What counts are divided by: a noun and a number, which is at least 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountUnit {
    noun: String,
    count: u64,
}

/// Why counts cannot be divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnitError {
    /// There is no load, so the number of requests is unknown.
    NoLoad,
    /// Its number is 0.
    None(Per),
}

impl CountUnit {
    /// `None` if `count` is 0.
    ///
    /// The noun is one word: characters other than letters are removed.
    pub fn new(noun: &str, count: u64) -> Option<Self> {
        let noun: String = noun.chars().filter(char::is_ascii_alphabetic).collect();
        (count > 0 && !noun.is_empty()).then_some(Self { noun, count })
    }

    /// The unit `per` in these counts; `requests` is the number from the load.
    ///
    /// # Errors
    /// The number of units is unknown or 0.
    pub fn of(per: Per, counts: &CallCounts, requests: Option<u64>) -> Result<Self, UnitError> {
        let (noun, count) = match per {
            Per::Accept => ("accept", accepted(counts)),
            Per::Connect => ("connect", connected(counts)),
            Per::Request => ("request", requests.ok_or(UnitError::NoLoad)?),
            Per::Number(number) => ("item", number),
        };
        Self::new(noun, count).ok_or(UnitError::None(per))
    }

    /// The singular: `request`.
    pub fn noun(&self) -> &str {
        &self.noun
    }

    /// The number of units.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The count for each unit.
    #[expect(clippy::cast_precision_loss, reason = "for display")]
    pub fn share(&self, count: u64) -> f64 {
        count as f64 / self.count as f64
    }
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoLoad => {
                "the number of requests is known only with `--load`; use `--per accept`, \
                 `--per connect` or a number"
            }
            Self::None(Per::Accept) => "cannot divide: the program accepted no connection",
            Self::None(Per::Connect) => "cannot divide: the program opened no connection",
            Self::None(Per::Request) => "cannot divide: no request got a response",
            Self::None(Per::Number(_)) => "cannot divide by 0",
        })
    }
}

impl std::error::Error for UnitError {}

/// Accepted connections, by calls or by a ring.
pub(crate) fn accepted(counts: &CallCounts) -> u64 {
    let done = |tally: &CallTally| tally.count.saturating_sub(tally.failed());
    named(counts, &["accept", "accept4"], &["accept"]).map(done).sum()
}

/// Opened connections. A connect in progress (`EINPROGRESS`) counts.
pub(crate) fn connected(counts: &CallCounts) -> u64 {
    let begun = |tally: &CallTally| {
        let waits = tally.errors.get(&libc::EINPROGRESS).copied().unwrap_or(0);
        tally.count.saturating_sub(tally.failed()) + waits
    };
    named(counts, &["connect"], &["connect"]).map(begun).sum()
}

fn named<'c>(
    counts: &'c CallCounts,
    calls: &'c [&str],
    operations: &'c [&str],
) -> impl Iterator<Item = &'c CallTally> {
    let ring = counts.ring.iter().flat_map(|ring| operations.iter().filter_map(|op| ring.get(*op)));
    calls.iter().filter_map(|call| counts.calls.get(*call)).chain(ring)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::run::tests::{counts, fail};

    #[test]
    fn each_unit_is_counted() {
        let mut counts = counts(&[("accept4", 12), ("accept", 1), ("connect", 9), ("read", 40)]);
        fail(&mut counts, "accept4", libc::EAGAIN, 2);
        fail(&mut counts, "connect", libc::EINPROGRESS, 5);
        fail(&mut counts, "connect", libc::ECONNREFUSED, 1);
        for (per, requests, noun, count) in [
            (Per::Accept, None, "accept", 11),
            (Per::Connect, None, "connect", 8),
            (Per::Request, Some(20), "request", 20),
            (Per::Number(4), Some(20), "item", 4),
        ] {
            let unit = CountUnit::of(per, &counts, requests).unwrap();
            assert_eq!((unit.noun(), unit.count()), (noun, count));
        }
        assert!((CountUnit::new("request", 20).unwrap().share(40) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn operations_of_a_ring_are_counted_too() {
        let mut counts = counts(&[("accept4", 1)]);
        counts.ring =
            Some([("accept".to_owned(), CallTally { count: 3, ..CallTally::default() })].into());
        assert_eq!((accepted(&counts), connected(&counts)), (4, 0));
    }

    #[test]
    fn division_by_zero_is_refused() {
        let counts = counts(&[("read", 1)]);
        for (per, requests, error) in [
            (Per::Accept, None, UnitError::None(Per::Accept)),
            (Per::Connect, None, UnitError::None(Per::Connect)),
            (Per::Request, None, UnitError::NoLoad),
            (Per::Request, Some(0), UnitError::None(Per::Request)),
        ] {
            assert_eq!(CountUnit::of(per, &counts, requests), Err(error));
        }
        assert_eq!((CountUnit::new("", 3), CountUnit::new("request", 0)), (None, None));
        assert!("-1".parse::<Per>().is_err() && "requests".parse::<Per>().is_err());
    }
}
