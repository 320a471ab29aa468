//! What rules do to an exchange or a connection, beside looking at it.

use std::net::SocketAddr;
use std::time::Duration;

use crate::rules::head::{RequestHead, ResponseHead};
use crate::rules::sample::Sample;
use crate::rules::subject::{Subject, Variable};

/// A [`Subject`] that rules may change.
pub trait Exchange: Subject {
    /// The request, as it will go on.
    fn request_mut(&mut self) -> Option<&mut RequestHead>;
    /// The response, as it will go on. As long as there is one, rules change its fields and not
    /// those of the request.
    fn response_mut(&mut self) -> Option<&mut ResponseHead>;
    /// What only the proxy can do. What makes no sense where the rule stands does nothing.
    fn apply(&mut self, effect: Effect<'_>);
}

/// What rules ask the proxy to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect<'a> {
    /// The variable has this value from now on.
    SetVariable(&'a Variable, Sample<'static>),
    /// There is no such variable any more.
    UnsetVariable(&'a Variable),
    /// The value of a capture slot of the frontend. It has been cut to the length that the rule
    /// says; the slot may say a shorter one.
    Capture(Slot, Vec<u8>),
    /// The level of this exchange's line in the log; `None`: there is no line.
    LogLevel(Option<u8>),
    /// `src` is this from now on.
    Source(SocketAddr),
    /// `dst` is this from now on.
    Destination(SocketAddr),
    /// A deadline of this exchange only.
    Timeout(Deadline, Duration),
    /// Once sent, the request is not sent again (`disable-l7-retry`).
    NoRetry,
    /// A field of the 103 (Early Hints, RFC 8297) that goes out before the rules end. It has been
    /// checked: name and value are as a [`fulmar_proto::HeaderBuf`] takes them.
    EarlyHint(&'a str, Vec<u8>),
    /// The connection begins with a PROXY header, which is to be read before anything else.
    ExpectProxy,
}

/// Which capture is meant: `capture request header` and its like have made them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Of the request, from 0.
    Request(usize),
    /// Of the response, from 0.
    Response(usize),
}

/// Deadlines that a rule can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// `timeout server`.
    Server,
    /// `timeout tunnel`.
    Tunnel,
}
