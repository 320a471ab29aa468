//! Reports of other threads to the check thread.

use std::sync::{Mutex, OnceLock, PoisonError};

use crate::balance::Admin;
use fulmar_haproxy::BackendId;

use crate::control::HealthChange;
use crate::wakers::Wake;

/// Reports of other threads to the check thread.
#[derive(Default)]
pub struct CheckReports {
    pending: Mutex<Vec<ServerReport>>,
    wake: OnceLock<Wake>,
}

/// A report about a server.
#[derive(Clone, Debug)]
pub(crate) struct ServerReport {
    pub(crate) backend: BackendId,
    pub(crate) server: usize,
    pub(crate) news: ServerEvent,
}

/// The content of a report.
#[derive(Clone, Debug)]
pub(crate) enum ServerEvent {
    /// Its sessions had this number of consecutive errors; the last one is given.
    Errors(u32, Observation),
    /// An operator set its health.
    Forced(HealthChange),
    /// It takes its health from the server that it tracks.
    Tracked(HealthChange),
    /// An operator set its administrative state.
    Decided {
        /// The previous state.
        old: Admin,
        /// The new state.
        new: Admin,
        /// It was the last usable server.
        leaves_none: bool,
    },
}

/// An observation of traffic (`observe`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// A connection was established.
    Connected,
    /// A connection failed.
    Unconnected,
    /// A response with this status was received.
    Responded(u16),
    /// A response was malformed.
    Malformed,
    /// Reading a response failed.
    ReadFailed,
    /// A response timed out.
    ReadTimedOut,
    /// The server closed before the end of its response, or stopped reading the request.
    Closed,
}

impl CheckReports {
    /// Sets the waker of the check thread; called once, by the program that starts it.
    pub fn set_wake(&self, wake: Wake) {
        self.wake.get_or_init(|| wake);
    }

    pub(crate) fn send(&self, report: ServerReport) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).push(report);
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    pub(crate) fn take(&self) -> Vec<ServerReport> {
        std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl std::fmt::Debug for CheckReports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CheckReports").field("pending", &self.pending).finish_non_exhaustive()
    }
}

impl Observation {
    /// Whether it is an error for `observe layer4`; `None`: it is not about connections.
    pub(crate) fn is_layer4_error(self) -> Option<bool> {
        match self {
            Self::Connected => Some(false),
            Self::Unconnected => Some(true),
            Self::Responded(_)
            | Self::Malformed
            | Self::ReadFailed
            | Self::ReadTimedOut
            | Self::Closed => None,
        }
    }

    /// Whether it is an error for `observe layer7`; `None`: it is not about responses.
    pub(crate) fn is_layer7_error(self) -> Option<bool> {
        match self {
            Self::Connected => None,
            Self::Responded(status) => Some(!matches!(status, 100..=499 | 501 | 505)),
            Self::Unconnected
            | Self::Malformed
            | Self::ReadFailed
            | Self::ReadTimedOut
            | Self::Closed => Some(true),
        }
    }

    /// The text in HAProxy's logs.
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Connected => "L4 successful connection",
            Self::Unconnected => "L4 unsuccessful connection",
            Self::Responded(_) => "Wrong http response",
            Self::Malformed => "Invalid http response",
            Self::ReadFailed => "Read error (http)",
            Self::ReadTimedOut => "Read timeout (http)",
            Self::Closed => "Close from server (http)",
        }
    }
}
