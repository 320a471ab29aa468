//! Results of checks, in HAProxy's words (its management guide, §9.1, `check_status`).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::balance::CheckOutcome;

/// The result of a check: the layer, and the condition there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckStatus {
    /// Not checked yet.
    #[default]
    Initializing,
    /// Observed traffic reached the error limit.
    HealthAnalysis,
    /// A socket error.
    SocketError,
    /// A connection was established.
    Layer4Ok,
    /// The connection timed out.
    Layer4Timeout,
    /// The connection failed.
    Layer4Failure,
    /// A TLS session was established.
    Layer6Ok,
    /// The TLS handshake timed out.
    Layer6Timeout,
    /// The TLS handshake failed.
    Layer6Failure,
    /// The response timed out.
    Layer7Timeout,
    /// The response was malformed or unexpected.
    Layer7Invalid,
    /// The response was as expected.
    Layer7Ok,
    /// The response was 404 with `disable-on-404`: the server stops.
    Layer7Conditional,
    /// The status was not the expected one.
    Layer7Status,
}

impl CheckStatus {
    /// The status with this short name ([`CheckStatus::short`]).
    pub fn named(short: &str) -> Option<Self> {
        ALL.iter().copied().find(|status| status.short() == short)
    }

    /// The short name in statistics.
    pub fn short(self) -> &'static str {
        self.texts().0
    }

    /// The description in logs.
    pub fn description(self) -> &'static str {
        self.texts().1
    }

    /// True if it has a code: an HTTP status.
    pub fn has_code(self) -> bool {
        matches!(self, Self::Layer7Ok | Self::Layer7Conditional | Self::Layer7Status)
    }

    /// Its effect on the server's health.
    pub(crate) fn outcome(self) -> CheckOutcome {
        match self {
            Self::Layer4Ok | Self::Layer6Ok | Self::Layer7Ok => CheckOutcome::Passed,
            Self::Layer7Conditional => CheckOutcome::Conditional,
            Self::Initializing
            | Self::HealthAnalysis
            | Self::SocketError
            | Self::Layer4Timeout
            | Self::Layer4Failure
            | Self::Layer6Timeout
            | Self::Layer6Failure
            | Self::Layer7Timeout
            | Self::Layer7Invalid
            | Self::Layer7Status => CheckOutcome::Failed,
        }
    }

    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Initializing => ("INI", "Initializing"),
            Self::HealthAnalysis => ("HANA", "Health analyze"),
            Self::SocketError => ("SOCKERR", "Socket error"),
            Self::Layer4Ok => ("L4OK", "Layer4 check passed"),
            Self::Layer4Timeout => ("L4TOUT", "Layer4 timeout"),
            Self::Layer4Failure => ("L4CON", "Layer4 connection problem"),
            Self::Layer6Ok => ("L6OK", "Layer6 check passed"),
            Self::Layer6Timeout => ("L6TOUT", "Layer6 timeout"),
            Self::Layer6Failure => ("L6RSP", "Layer6 invalid response"),
            Self::Layer7Timeout => ("L7TOUT", "Layer7 timeout"),
            Self::Layer7Invalid => ("L7RSP", "Layer7 invalid response"),
            Self::Layer7Ok => ("L7OK", "Layer7 check passed"),
            Self::Layer7Conditional => ("L7OKC", "Layer7 check conditionally passed"),
            Self::Layer7Status => ("L7STS", "Layer7 wrong status"),
        }
    }
}

/// The result of a check, and its duration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// The layer, and the condition there.
    pub status: CheckStatus,
    /// The code, if the status has one ([`CheckStatus::has_code`]).
    pub code: u16,
    /// More information; may be empty.
    pub info: String,
    /// The duration; `None`: there was no check.
    pub duration: Option<Duration>,
}

impl Finding {
    pub(super) fn new(status: CheckStatus, info: impl Into<String>) -> Self {
        Self { status, code: 0, info: info.into(), duration: None }
    }

    pub(super) fn with_code(status: CheckStatus, code: u16, info: impl Into<String>) -> Self {
        Self { code, ..Self::new(status, info) }
    }
}

/// The state of a server's checks, for statistics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckState {
    /// The result of the last check.
    pub finding: Finding,
    /// A check is running.
    pub running: bool,
    /// `check_health`: 0 to rise + fall - 1; up from rise on.
    pub score: u32,
}

/// The state of a server's checks: written by the check thread, read by others.
#[derive(Debug, Default)]
pub struct LastCheck(Mutex<CheckState>);

impl LastCheck {
    /// The current state.
    pub fn state(&self) -> CheckState {
        self.lock().clone()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, CheckState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const ALL: [CheckStatus; 14] = [
    CheckStatus::Initializing,
    CheckStatus::HealthAnalysis,
    CheckStatus::SocketError,
    CheckStatus::Layer4Ok,
    CheckStatus::Layer4Timeout,
    CheckStatus::Layer4Failure,
    CheckStatus::Layer6Ok,
    CheckStatus::Layer6Timeout,
    CheckStatus::Layer6Failure,
    CheckStatus::Layer7Timeout,
    CheckStatus::Layer7Invalid,
    CheckStatus::Layer7Ok,
    CheckStatus::Layer7Conditional,
    CheckStatus::Layer7Status,
];
