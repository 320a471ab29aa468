//! The limit of a run's rate.

use serde::Serialize;

/// The limit of a run's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitedBy {
    /// The server or the network: the generator waited for responses.
    Server,
    /// This generator: its threads had no time left, and its latencies include its own queue.
    Generator,
    /// The settings: the requested rate, or a single request in flight.
    Settings,
    /// The servers were lost: at the end no connection was established, and connects failed.
    Lost,
}

/// The figures that the decision rests on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Basis {
    /// No connection was established at the end, and connects failed.
    pub(crate) lost: bool,
    /// Requests answered.
    pub(crate) answered: u64,
    /// Requests that failed.
    pub(crate) failed: u64,
    /// A request without a response waited for half of the run or longer.
    pub(crate) stalled: bool,
    /// Processor time per second and thread.
    pub(crate) cpu_share: f64,
    /// Of an open loop: requests planned and sent.
    pub(crate) planned_sent: Option<(u64, u64)>,
    /// The most that could be outstanding: established connections times depth.
    pub(crate) in_flight_max: u64,
}

/// Determines the limit.
///
/// A closed loop with one request in flight cannot saturate either end, since the two take turns:
/// more connections would show more, so the settings limit. From two on the limit is the end that
/// the other one waits for. Settings are no limit for a server that does not respond.
pub(crate) fn limited_by(basis: Basis) -> LimitedBy {
    let fails = basis.failed.saturating_mul(100) > basis.answered;
    match basis.planned_sent {
        _ if basis.lost => LimitedBy::Lost,
        _ if basis.cpu_share >= BUSY => LimitedBy::Generator,
        _ if basis.answered == 0 || fails => LimitedBy::Server,
        Some((planned, sent)) if sent.saturating_mul(100) >= planned.saturating_mul(99) => {
            LimitedBy::Settings
        }
        None if basis.in_flight_max <= 1 && !basis.stalled => LimitedBy::Settings,
        _ => LimitedBy::Server,
    }
}

const BUSY: f64 = 0.90;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_has_its_case() {
        for (cpu_share, planned_sent, in_flight_max, limit) in [
            (0.95, None, 64, LimitedBy::Generator),
            (0.90, Some((1_000, 1_000)), 64, LimitedBy::Generator),
            (0.89, Some((1_000, 990)), 64, LimitedBy::Settings),
            (0.89, Some((1_000, 989)), 64, LimitedBy::Server),
            (0.10, Some((0, 0)), 1, LimitedBy::Settings),
            (0.50, None, 64, LimitedBy::Server),
            (0.50, None, 2, LimitedBy::Server),
            (0.50, None, 1, LimitedBy::Settings),
            (0.97, None, 1, LimitedBy::Generator),
            (0.10, Some((1_000, 500)), 1, LimitedBy::Server),
        ] {
            let basis = Basis { cpu_share, planned_sent, in_flight_max, ..GOOD };
            assert_eq!(limited_by(basis), limit, "{basis:?}");
        }
    }

    #[test]
    fn settings_do_not_limit_a_server_that_does_not_respond() {
        for planned_sent in [None, Some((1_000, 1_000))] {
            let good = Basis { planned_sent, ..GOOD };
            assert_eq!(limited_by(good), LimitedBy::Settings, "{good:?}");
            for (basis, limit) in [
                (Basis { answered: 0, ..good }, LimitedBy::Server),
                (Basis { answered: 0, failed: 2, ..good }, LimitedBy::Server),
                (Basis { failed: 10, ..good }, LimitedBy::Settings),
                (Basis { failed: 11, ..good }, LimitedBy::Server),
                (Basis { answered: 0, cpu_share: 0.95, ..good }, LimitedBy::Generator),
                (Basis { lost: true, ..good }, LimitedBy::Lost),
                (Basis { lost: true, cpu_share: 0.95, ..good }, LimitedBy::Lost),
            ] {
                assert_eq!(limited_by(basis), limit, "{basis:?}");
            }
        }
        assert_eq!(limited_by(Basis { stalled: true, ..GOOD }), LimitedBy::Server);
        let kept = Basis { stalled: true, planned_sent: Some((1_000, 1_000)), ..GOOD };
        assert_eq!(limited_by(kept), LimitedBy::Settings);
    }

    const GOOD: Basis = Basis {
        lost: false,
        answered: 1_000,
        failed: 0,
        stalled: false,
        cpu_share: 0.10,
        planned_sent: None,
        in_flight_max: 1,
    };
}
