//! What a check found, in HAProxy's words (its management guide, §9.1, `check_status`).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::balance::CheckOutcome;

/// What a check found: the layer, and what is the matter there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckStatus {
    /// Nobody has looked so far.
    #[default]
    Initializing,
    /// Its sessions had too many errors.
    HealthAnalysis,
    /// The socket failed.
    SocketError,
    /// The connection stood.
    Layer4Ok,
    /// The connection did not stand in time.
    Layer4Timeout,
    /// The connection did not stand.
    Layer4Failure,
    /// TLS stood.
    Layer6Ok,
    /// TLS did not stand in time.
    Layer6Timeout,
    /// TLS failed.
    Layer6Failure,
    /// The answer did not come in time.
    Layer7Timeout,
    /// The answer was none, or not what was expected.
    Layer7Invalid,
    /// The answer was as expected.
    Layer7Ok,
    /// The answer was 404, where that means "no more" (`disable-on-404`).
    Layer7Conditional,
    /// The status was another than expected.
    Layer7Status,
}

impl CheckStatus {
    /// By what statistics show ([`CheckStatus::short`]).
    pub fn named(short: &str) -> Option<Self> {
        ALL.iter().copied().find(|status| status.short() == short)
    }

    /// As statistics show it.
    pub fn short(self) -> &'static str {
        self.texts().0
    }

    /// As logs tell it.
    pub fn description(self) -> &'static str {
        self.texts().1
    }

    /// True if a number comes with it: a status of HTTP.
    pub fn has_code(self) -> bool {
        matches!(self, Self::Layer7Ok | Self::Layer7Conditional | Self::Layer7Status)
    }

    /// What the server's health makes of it.
    pub(crate) fn outcome(self) -> CheckOutcome {
        match self {
            Self::Layer4Ok | Self::Layer6Ok | Self::Layer7Ok => CheckOutcome::Passed,
            Self::Layer7Conditional => CheckOutcome::Conditional,
            _ => CheckOutcome::Failed,
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

/// What a check found, and how long it took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// The layer, and what is the matter there.
    pub status: CheckStatus,
    /// The number that came with it, if one does ([`CheckStatus::has_code`]).
    pub code: u16,
    /// What else there is to say; may be empty.
    pub info: String,
    /// How long it took; `None`: nobody looked.
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

/// How a server's checks stand, for statistics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckState {
    /// What the last one found.
    pub finding: Finding,
    /// One is under way.
    pub running: bool,
    /// `check_health`: 0 to rise + fall - 1, and up from rise on.
    pub score: u32,
}

/// How a server's checks stand: written by the thread that checks, read by others.
#[derive(Debug, Default)]
pub struct LastCheck(Mutex<CheckState>);

impl LastCheck {
    /// How they stand now.
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
