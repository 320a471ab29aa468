//! The absolute budgets of `bench/budgets.toml`.

use serde::Deserialize;

/// The part that this program checks; the tests of the workspace check the others.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Budgets {
    pub(crate) instructions: InstructionBudgets,
}

/// User instructions of a request, or of an event.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct InstructionBudgets {
    pub(crate) load: f64,
    pub(crate) server: f64,
    pub(crate) http2: f64,
    pub(crate) client: f64,
    pub(crate) idle_event: f64,
}

impl Budgets {
    pub(crate) fn read() -> Self {
        toml::from_str(TEXT).expect("the file is a part of this program, and a test reads it")
    }
}

const TEXT: &str = include_str!("../budgets.toml");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_positive() {
        let InstructionBudgets { load, server, http2, client, idle_event } =
            Budgets::read().instructions;
        assert!([load, server, http2, client, idle_event].iter().all(|it| *it > 0.0));
    }
}
