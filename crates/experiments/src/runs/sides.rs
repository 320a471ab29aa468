//! The sides of an experiment: who takes part, and in which order.

use crate::Error;
use crate::lab::Lab;

/// Every side once a round, each round in the other order than the one before: what a machine does
/// meanwhile falls on all of them.
pub(super) fn interleave(
    lab: &Lab,
    sides: usize,
    mut one: impl FnMut(usize) -> Result<(), Error>,
) -> Result<(), Error> {
    for round in 0..lab.options.rounds {
        for at in 0..sides {
            one(if round.is_multiple_of(2) { at } else { sides - 1 - at })?;
        }
    }
    Ok(())
}
