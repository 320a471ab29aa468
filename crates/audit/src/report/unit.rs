//! What counts are divided by.

use std::fmt;

use crate::counts::{Counts, Tally};

/// What a report is asked to divide by.
///
/// ```
/// use fulmar_audit::report::Per;
/// assert_eq!("accept".parse(), Ok(Per::Accept));
/// assert_eq!("500".parse(), Ok(Per::Number(500)));
/// assert!("0".parse::<Per>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// Each connection that was accepted.
    Accept,
    /// Each connection that was begun.
    Connect,
    /// Each request that was answered: whoever made the load knows how many.
    Request,
    /// Whoever asks knows how often the program did its work.
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

/// What counts are divided by: a noun, and how many of it there were. Never none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    noun: String,
    count: u64,
}

/// Why counts cannot be divided as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnitError {
    /// Nobody counted requests.
    NoLoad,
    /// It never happened.
    None(Per),
}

impl Unit {
    /// So many of these. `None` if there are none: then nothing can be divided.
    ///
    /// The noun is one word; what it is made of beside letters is left out.
    pub fn new(noun: &str, count: u64) -> Option<Self> {
        let noun: String = noun.chars().filter(char::is_ascii_alphabetic).collect();
        (count > 0 && !noun.is_empty()).then_some(Self { noun, count })
    }

    /// What `per` comes to in these counts; `requests` is what the load says.
    ///
    /// # Errors
    /// There is nothing to divide by.
    pub fn of(per: Per, counts: &Counts, requests: Option<u64>) -> Result<Self, UnitError> {
        let (noun, count) = match per {
            Per::Accept => ("accept", accepted(counts)),
            Per::Connect => ("connect", connected(counts)),
            Per::Request => ("request", requests.ok_or(UnitError::NoLoad)?),
            Per::Number(number) => ("item", number),
        };
        Self::new(noun, count).ok_or(UnitError::None(per))
    }

    /// One of it: `request`.
    pub fn noun(&self) -> &str {
        &self.noun
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The share of each.
    #[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
    pub fn share(&self, count: u64) -> f64 {
        count as f64 / self.count as f64
    }
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoLoad => {
                "requests are only known to `--load`; use `--per accept`, `--per connect` or a number"
            }
            Self::None(Per::Accept) => "the program accepted no connection to divide by",
            Self::None(Per::Connect) => "the program began no connection to divide by",
            Self::None(Per::Request) => "no request was answered to divide by",
            Self::None(Per::Number(_)) => "nothing can be divided by 0",
        })
    }
}

impl std::error::Error for UnitError {}

/// Connections that were accepted, by calls or by a ring.
pub(crate) fn accepted(counts: &Counts) -> u64 {
    let done = |tally: &Tally| tally.count.saturating_sub(tally.failed());
    named(counts, &["accept", "accept4"], &["accept"]).map(done).sum()
}

/// Connections that were begun: a connect that goes on in the background (`EINPROGRESS`) is one.
pub(crate) fn connected(counts: &Counts) -> u64 {
    let begun = |tally: &Tally| {
        let waits = tally.errors.get(&libc::EINPROGRESS).copied().unwrap_or(0);
        tally.count.saturating_sub(tally.failed()) + waits
    };
    named(counts, &["connect"], &["connect"]).map(begun).sum()
}

fn named<'c>(
    counts: &'c Counts,
    calls: &'c [&str],
    operations: &'c [&str],
) -> impl Iterator<Item = &'c Tally> {
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
            let unit = Unit::of(per, &counts, requests).unwrap();
            assert_eq!((unit.noun(), unit.count()), (noun, count));
        }
        assert!((Unit::new("request", 20).unwrap().share(40) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn operations_of_a_ring_are_counted_too() {
        let mut counts = counts(&[("accept4", 1)]);
        counts.ring = Some([("accept".to_owned(), Tally { count: 3, ..Tally::default() })].into());
        assert_eq!((accepted(&counts), connected(&counts)), (4, 0));
    }

    #[test]
    fn nothing_is_divided_by_nothing() {
        let counts = counts(&[("read", 1)]);
        for (per, requests, error) in [
            (Per::Accept, None, UnitError::None(Per::Accept)),
            (Per::Connect, None, UnitError::None(Per::Connect)),
            (Per::Request, None, UnitError::NoLoad),
            (Per::Request, Some(0), UnitError::None(Per::Request)),
        ] {
            assert_eq!(Unit::of(per, &counts, requests), Err(error));
        }
        assert_eq!((Unit::new("", 3), Unit::new("request", 0)), (None, None));
        assert!("-1".parse::<Per>().is_err() && "requests".parse::<Per>().is_err());
    }
}
