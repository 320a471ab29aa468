//! When samples have values and when rules are evaluated. A rule never applies if its sample has no
//! value at its evaluation, which is reported during parsing.

use std::fmt;

/// When a sample has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplePhase {
    /// Always, even without a client.
    Always,
    /// Once the client connection is accepted.
    Connection,
    /// After the TLS handshake and the PROXY header.
    Session,
    /// While the request, or its first bytes, are available: not during the response.
    Request,
    /// From the request to the end of the response.
    Exchange,
    /// Once a server is selected.
    Server,
    /// While the response is available.
    Response,
}

/// When a rule is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvalPoint {
    /// During parsing, or on a runtime command.
    Configuration,
    /// `tcp-request connection`.
    Connection,
    /// `tcp-request session`.
    Session,
    /// `tcp-request content`, `http-request`, `use_backend`, `use-server`, `balance`.
    Request,
    /// `tcp-response content`, `http-response`, `http-after-response`.
    Response,
    /// A log line.
    Log,
}

impl SamplePhase {
    /// True if a sample of this phase has a value at this point.
    pub fn is_there(self, at: EvalPoint) -> bool {
        match self {
            Self::Always => true,
            Self::Connection => at >= EvalPoint::Connection,
            Self::Session => at >= EvalPoint::Session,
            Self::Request => at == EvalPoint::Request,
            Self::Exchange => at >= EvalPoint::Request,
            Self::Server => at >= EvalPoint::Response,
            Self::Response => at == EvalPoint::Response,
        }
    }
}

/// The end of a message "it is available only ...".
impl fmt::Display for SamplePhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Always => "always",
            Self::Connection => "once a connection is accepted",
            Self::Session => "once a session is established",
            Self::Request => "with a request",
            Self::Exchange => "once a request is received",
            Self::Server => "once a server is selected",
            Self::Response => "with a response",
        })
    }
}
