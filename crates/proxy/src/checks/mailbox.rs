//! What other threads tell the one that checks.

use std::sync::{Mutex, OnceLock, PoisonError};

use crate::balance::Admin;
use fulmar_haproxy::BackendId;

use crate::control::Changed;
use crate::wakers::Wake;

/// What other threads tell the one that checks.
#[derive(Default)]
pub struct Mailbox {
    told: Mutex<Vec<Told>>,
    wake: OnceLock<Wake>,
}

/// A server, and what is told of it.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) backend: BackendId,
    pub(crate) server: usize,
    pub(crate) news: News,
}

/// What is told of a server.
#[derive(Clone, Debug)]
pub(crate) enum News {
    /// Its sessions had so many errors in a row, the last of which was this.
    Errors(u32, Observation),
    /// An operator has decided on its health.
    Forced(Changed),
    /// Its health is that of the server that it follows.
    Followed(Changed),
    /// An operator has decided on its state.
    Decided {
        /// What it was.
        old: Admin,
        /// What it is.
        new: Admin,
        /// It was the last that was usable.
        leaves_nobody: bool,
    },
}

/// What a session tells of a server (`observe`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// A connection stood.
    Connected,
    /// A connection did not stand.
    Unconnected,
    /// A response came; its status says whether that is good.
    Responded(u16),
    /// A response was none.
    Malformed,
    /// Reading a response failed.
    ReadFailed,
    /// A response did not come in time.
    ReadTimedOut,
    /// The server ended before its response did, or took no more of a request.
    Closed,
}

impl Mailbox {
    /// What wakes the thread that checks: set once, by whoever starts it.
    pub fn set_wake(&self, wake: Wake) {
        self.wake.get_or_init(|| wake);
    }

    pub(crate) fn tell(&self, told: Told) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push(told);
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    pub(crate) fn take(&self) -> Vec<Told> {
        std::mem::take(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl std::fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mailbox").field("told", &self.told).finish_non_exhaustive()
    }
}

impl Observation {
    /// True if it is an error where connections are observed, false if it is none; `None`: it says
    /// nothing about them.
    pub(crate) fn is_layer4_error(self) -> Option<bool> {
        match self {
            Self::Connected => Some(false),
            Self::Unconnected => Some(true),
            _ => None,
        }
    }

    /// The same where responses are observed.
    pub(crate) fn is_layer7_error(self) -> Option<bool> {
        match self {
            Self::Connected => None,
            Self::Responded(status) => Some(!matches!(status, 100..=499 | 501 | 505)),
            _ => Some(true),
        }
    }

    /// As HAProxy's logs tell it.
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
