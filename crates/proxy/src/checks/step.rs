//! A step of a check: what to send next, on which connection, or the result.

use super::status::{CheckStatus, Finding};

/// The next action.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Send these bytes, if any, and receive.
    Say(Vec<u8>),
    /// Send these bytes, and continue on another connection.
    Leave(Vec<u8>, Way),
    /// Send these bytes, and report the result.
    Done(Vec<u8>, Finding),
}

/// The settings of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Way {
    /// The settings of the server.
    #[default]
    Usual,
    /// The settings of a step.
    Said {
        /// To another port.
        port: Option<u16>,
        /// With TLS.
        tls: bool,
    },
}

/// The result of a check that only connects.
pub(super) fn stood(tls: bool) -> Finding {
    Finding::new(if tls { CheckStatus::Layer6Ok } else { CheckStatus::Layer4Ok }, "")
}
