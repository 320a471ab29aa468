//! The sides of an experiment: who takes part, in which order, and with how many connections.

use fulmar_sys as sys;

use crate::Error;
use crate::lab::Lab;
use crate::report::{Outcome, grouped};

/// Each case of every side once a round, the sides one right after the other and each round in the
/// other order than the one before: what a machine does meanwhile falls on all of them.
///
/// A side that fails in a case is left out of it from then on, and the others go on: what failed is
/// said at once, and returned at the end.
pub(super) fn interleave(
    lab: &Lab,
    sides: usize,
    cases: usize,
    one: impl FnMut(usize, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    in_turn(lab.options.rounds, sides, cases, one, |error| lab.say(&error.to_string()))
}

fn in_turn(
    rounds: u32,
    sides: usize,
    cases: usize,
    mut one: impl FnMut(usize, usize) -> Result<(), Error>,
    say: impl Fn(&Error),
) -> Result<(), Error> {
    let mut failed: Vec<(usize, usize)> = Vec::new();
    let mut errors = Vec::new();
    for round in 0..rounds {
        for case in 0..cases {
            for at in 0..sides {
                let side = if round.is_multiple_of(2) { at } else { sides - 1 - at };
                if failed.contains(&(side, case)) {
                    continue;
                }
                match one(side, case) {
                    Ok(()) => {}
                    Err(Error::Stopped) => return Err(Error::Stopped),
                    Err(error) => {
                        say(&error);
                        failed.push((side, case));
                        errors.push(error);
                    }
                }
            }
        }
    }
    Error::all(errors)
}

/// How many connections each case has: those asked for, or else the document's, each once. Those
/// that take more descriptors than a process may have here are left out, and told.
pub(super) fn sizes(
    lab: &Lab,
    document: &[u32],
    descriptors_each: u32,
    outcome: &mut Outcome,
) -> Result<Vec<u32>, Error> {
    let limit = sys::raise_descriptors().map_err(Error::io("the limit of descriptors"))?.now;
    let asked = &lab.options.connections;
    let mut sizes: Vec<u32> = Vec::new();
    for size in if asked.is_empty() { document } else { asked } {
        let needed = u64::from(*size) * u64::from(descriptors_each) + DESCRIPTORS_SPARE;
        if needed > limit {
            outcome.miss(format!(
                "{} connections: they take {needed} descriptors, and {limit} are allowed; raise \
                 the limit (ulimit -Hn)",
                grouped(*size)
            ));
        } else if !sizes.contains(size) {
            sizes.push(*size);
        }
    }
    Ok(sizes)
}

/// What a process has open besides: files, a selector, a listener, a ring.
const DESCRIPTORS_SPARE: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(why: &str) -> Error {
        Error::Process { command: "peer".to_owned(), why: why.to_owned() }
    }

    #[test]
    fn sides_take_turns_and_one_that_fails_is_left_out_alone() {
        let (mut seen, said) = (Vec::new(), std::cell::Cell::new(0));
        let one = |side, case| {
            seen.push((side, case));
            if (side, case) == (1, 0) { Err(failure("fell over")) } else { Ok(()) }
        };
        let ended = in_turn(2, 2, 2, one, |_| said.set(said.get() + 1));
        let first = [(0, 0), (1, 0), (0, 1), (1, 1)];
        let second = [(0, 0), (1, 1), (0, 1)];
        assert_eq!(seen, [first.as_slice(), second.as_slice()].concat());
        assert_eq!(said.get(), 1);
        assert_eq!(ended.expect_err("a side failed").to_string(), "peer: fell over");
    }

    #[test]
    fn a_run_that_is_stopped_goes_no_further() {
        let mut seen = 0;
        let ended = in_turn(
            3,
            2,
            1,
            |_, _| {
                seen += 1;
                Err(Error::Stopped)
            },
            |_| {},
        );
        assert!(matches!(ended, Err(Error::Stopped)));
        assert_eq!(seen, 1);
    }
}
