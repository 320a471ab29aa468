//! A step of a check: what to send next, on which connection, or the result.

use super::status::{CheckStatus, Finding};

/// The next action.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CheckStep {
    /// Send these bytes, if any, and receive.
    Send(Vec<u8>),
    /// Send these bytes, and continue on another connection.
    Reconnect(Vec<u8>, ConnectSettings),
    /// Send these bytes, and report the result.
    Done(Vec<u8>, Finding),
}

/// The settings of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ConnectSettings {
    /// The settings of the server.
    #[default]
    OfServer,
    /// The settings of a step.
    OfStep {
        /// To another port.
        port: Option<u16>,
        /// With TLS.
        tls: bool,
    },
}

/// The result of a check that only connects.
pub(super) fn connected(tls: bool) -> Finding {
    Finding::new(if tls { CheckStatus::Layer6Ok } else { CheckStatus::Layer4Ok }, "")
}
