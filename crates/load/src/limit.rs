//! What kept the rate from being higher.

use serde::Serialize;

/// What a run was limited by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// The other end, or the way there: we waited for answers.
    Server,
    /// This generator: its threads had no time left, and its latencies include its own queue.
    Generator,
    /// What was asked for: the rate, or a single request in flight.
    Settings,
}

/// What the decision rests on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Basis {
    /// Processor time per second and thread.
    pub(crate) cpu_share: f64,
    /// Of an open loop: requests planned and made.
    pub(crate) planned_sent: Option<(u64, u64)>,
    /// The most that could be outstanding: connections held times depth.
    pub(crate) in_flight_max: u64,
}

/// Decides.
///
/// A closed loop with one request in flight in all can saturate nobody, since the two ends take
/// turns: more connections would show more, so the settings limit. From two on, whoever does not
/// let us wait is not the limit, and that is the server.
pub(crate) fn limited_by(basis: Basis) -> Limit {
    if basis.cpu_share >= BUSY {
        return Limit::Generator;
    }
    match basis.planned_sent {
        Some((planned, sent)) if sent.saturating_mul(100) >= planned.saturating_mul(99) => {
            Limit::Settings
        }
        None if basis.in_flight_max <= 1 => Limit::Settings,
        _ => Limit::Server,
    }
}

const BUSY: f64 = 0.90;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_has_its_case() {
        for (cpu_share, planned_sent, in_flight_max, limit) in [
            (0.95, None, 64, Limit::Generator),
            (0.90, Some((1_000, 1_000)), 64, Limit::Generator),
            (0.89, Some((1_000, 990)), 64, Limit::Settings),
            (0.89, Some((1_000, 989)), 64, Limit::Server),
            (0.10, Some((0, 0)), 1, Limit::Settings),
            (0.50, None, 64, Limit::Server),
            (0.50, None, 2, Limit::Server),
            (0.50, None, 1, Limit::Settings),
            (0.97, None, 1, Limit::Generator),
            (0.10, Some((1_000, 500)), 1, Limit::Server),
        ] {
            let basis = Basis { cpu_share, planned_sent, in_flight_max };
            assert_eq!(limited_by(basis), limit, "{basis:?}");
        }
    }
}
