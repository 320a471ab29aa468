//! When there is something to take a value from, and when rules are looked at: a rule that asks
//! for what is not there then never applies, and who wrote it should be told.

use std::fmt;

/// When a fetch has something to take its value from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Always, even without a client.
    Always,
    /// As soon as there is a client's connection.
    Connection,
    /// As soon as the layers below are set up: TLS, the PROXY protocol.
    Session,
    /// While a request, or its first bytes, are at hand: not any more when the response is.
    Request,
    /// From the request to the end of its response.
    Exchange,
    /// Once a server was chosen.
    Server,
    /// While a response is at hand.
    Response,
}

/// When a rule is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// While the configuration is read, or on a command of the operator.
    Configuration,
    /// `tcp-request connection`.
    Connection,
    /// `tcp-request session`.
    Session,
    /// `tcp-request content`, `http-request`, `use_backend`, `use-server`, `balance`.
    Request,
    /// `tcp-response content`, `http-response`, `http-after-response`.
    Response,
    /// A line of the log.
    Log,
}

impl Phase {
    /// Whether a fetch of this phase finds something then.
    pub fn is_there(self, at: Point) -> bool {
        match self {
            Self::Always => true,
            Self::Connection => at >= Point::Connection,
            Self::Session => at >= Point::Session,
            Self::Request => at == Point::Request,
            Self::Exchange => at >= Point::Request,
            Self::Server => at >= Point::Response,
            Self::Response => at == Point::Response,
        }
    }
}

/// What is asked for, as a warning says it.
impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Always => "always",
            Self::Connection => "from the connection on",
            Self::Session => "from the session on",
            Self::Request => "with a request",
            Self::Exchange => "from the request on",
            Self::Server => "once a server was chosen",
            Self::Response => "with a response",
        })
    }
}
