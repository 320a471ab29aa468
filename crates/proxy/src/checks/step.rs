//! A step of a check: what to send next, on which connection, or the result.

use super::status::{CheckStatus, Finding};

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Say this, which may be nothing, and listen.
    Say(Vec<u8>),
    /// Say this, and talk on another connection.
    Leave(Vec<u8>, Way),
    /// Say this; that was it.
    Done(Vec<u8>, Finding),
}

/// How a connection is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Way {
    /// As the server's settings say.
    #[default]
    Usual,
    /// As a step says.
    Said {
        /// To another port.
        port: Option<u16>,
        /// With TLS.
        tls: bool,
    },
}

/// The connection stood, and that was all.
pub(super) fn stood(tls: bool) -> Finding {
    Finding::new(if tls { CheckStatus::Layer6Ok } else { CheckStatus::Layer4Ok }, "")
}
